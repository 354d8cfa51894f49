//! The tab line: names of the views, with counts.
//!
//! The position of a tab depends only on the window width and the language: each count has reserved cells. If the line
//! has no room for counts, they are on the rule below it.

use std::ops::Range;

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::Widget,
};
use strum::VariantArray as _;

use super::{View, pending};
use crate::{
    app::App,
    keymap::{Action, key_of},
    text::figures,
    widgets::width,
};

/// How the tabs share a line.
#[derive(Clone, Copy)]
struct Fit {
    /// Blanks between tabs.
    gap: u16,
    /// Blanks between a key and the name.
    space: usize,
    /// Cells of a count.
    count: usize,
    /// Sales and locks have counts as well; they need no attention, unlike stuck entries.
    all: bool,
    /// Counts are on the rule below.
    below: bool,
    /// All views are named; otherwise only the current one and those that count stuck entries.
    named: bool,
}

/// From the widest layout to one that fits any window.
const FITS: [Fit; 8] = [
    Fit { gap: 3, space: 1, count: 9, all: true, below: false, named: true },
    Fit { gap: 2, space: 1, count: 5, all: true, below: false, named: true },
    Fit { gap: 1, space: 1, count: 3, all: true, below: false, named: true },
    Fit { gap: 1, space: 1, count: 3, all: false, below: false, named: true },
    Fit { gap: 1, space: 1, count: 3, all: false, below: true, named: true },
    Fit { gap: 1, space: 0, count: 3, all: false, below: false, named: true },
    Fit { gap: 1, space: 0, count: 3, all: false, below: true, named: true },
    Fit { gap: 1, space: 1, count: 3, all: false, below: false, named: false },
];

struct Tab {
    view: View,
    key: String,
    name: &'static str,
    /// The count of a view, if it has one.
    count: Option<u64>,
}

impl Fit {
    /// Stuck entries need attention.
    fn counts(self, tab: &Tab) -> bool {
        tab.count.is_some() && (self.all || matches!(tab.view, View::Pending | View::Letters))
    }

    fn names(self, tab: &Tab, current: View) -> bool {
        self.named || tab.view == current || self.counts(tab)
    }

    fn cells(self, tab: &Tab, current: View) -> usize {
        let name = self.space + width(tab.name);
        let name = if self.names(tab, current) { name } else { 0 };
        let counted = self.counts(tab) && !self.below;
        width(&tab.key) + name + if counted { self.count + 1 } else { 0 }
    }

    fn count_text(self, count: u64) -> String {
        if self.count < 4 { figures::tiny(count) } else { figures::within(count, self.count) }
    }
}

/// Draws the tabs, and counts on the rule below if there is one; returns the cells of each view.
pub(super) fn draw(
    app: &App,
    area: Rect,
    rule: Rect,
    buffer: &mut Buffer,
) -> Vec<(Range<u16>, View)> {
    let theme = app.display.theme;
    let stream = app.display.shown.stream.as_ref();
    let tab = |view: &View| {
        let count = match view {
            View::Sales => Some(app.display.shown.sales.len() as u64),
            View::Pending => Some(pending::pending_in(&app.display.shown)),
            View::Letters => Some(stream.map_or(0, |it| it.dead)),
            View::Locks => Some(app.display.shown.locks.total),
            _ => None,
        };
        Tab { view: *view, key: key_of(Action::Go(*view)), name: view.tab(), count }
    };
    let tabs: Vec<Tab> = View::VARIANTS.iter().map(tab).collect();
    // One blank before the first tab.
    let room = usize::from(area.width).saturating_sub(1);
    let fits = |fit: &Fit| {
        let cells: usize = tabs.iter().map(|tab| fit.cells(tab, app.view)).sum();
        let line = cells + usize::from(fit.gap) * (tabs.len() - 1) <= room;
        line && (!fit.below || !rule.is_empty())
    };
    let [.., narrowest] = FITS;
    let fit = FITS.into_iter().find(fits).unwrap_or(narrowest);
    let mut places = Vec::new();
    let mut x = area.x + 1;
    for tab in tabs {
        let place = Rect { x, width: fit.cells(&tab, app.view) as u16, ..area };
        let mut title = Line::from(Span::styled(tab.key.clone(), theme.key));
        if fit.names(&tab, app.view) {
            let current = theme.strong.patch(Style::new().underlined());
            let style = if app.view == tab.view { current } else { Style::new() };
            title.push_span(" ".repeat(fit.space));
            title.push_span(Span::styled(tab.name, style));
        }
        if let Some(count) = tab.count.filter(|count| *count > 0 && fit.counts(&tab)) {
            let loud = match tab.view {
                View::Pending => has_dead_holder(app),
                view => view == View::Letters,
            };
            let style = if loud { theme.warn } else { theme.soft };
            let count = fit.count_text(count);
            if fit.below {
                Span::styled(format!(" {count} "), style)
                    .render(Rect { y: rule.y, ..place }, buffer);
            } else {
                title.push_span(Span::styled(format!(" {count}"), style));
            }
        }
        title.render(place, buffer);
        x = place.right() + fit.gap;
        places.push((place.x..place.right(), tab.view));
    }
    places
}

fn has_dead_holder(app: &App) -> bool {
    let consumers = app.display.shown.stream.iter().flat_map(|stream| &stream.consumers);
    consumers.into_iter().any(|consumer| !consumer.alive && consumer.pending > 0)
}
