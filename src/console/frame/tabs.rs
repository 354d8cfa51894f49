//! The tab line: names of the views, with counts.
//!
//! The position of a tab depends only on the window width and the language: each count has reserved cells. If the line
//! has no room for counts, they are on the rule below it.

use ratatui::prelude::*;
use strum::VariantArray as _;

use crate::{
    app::App,
    keymap::{Action, key_of},
    text::figures,
    views::{View, pending_in},
    widgets::left,
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

/// A tab, and its count if that is on the rule below. Cells are reserved for the count, so that no tab moves.
fn tab(app: &App, fit: Fit, view: View) -> (Line<'static>, Option<Span<'static>>) {
    let theme = app.display.theme;
    let snapshot = &app.display.shown;
    let stream = snapshot.stream.as_ref();
    let (count, is_loud) = match view {
        View::Pending => {
            let mut consumers = stream.into_iter().flat_map(|stream| &stream.consumers);
            let has_dead_holder = consumers.any(|it| !it.alive && it.pending > 0);
            (Some(pending_in(snapshot)), has_dead_holder)
        }
        View::Letters => (Some(stream.map_or(0, |it| it.dead)), true),
        View::Sales if fit.all => (Some(snapshot.sales.len() as u64), false),
        View::Locks if fit.all => (Some(snapshot.locks.total), false),
        _ => (None, false),
    };
    let mut title = Line::from(Span::styled(key_of(Action::Go(view)), theme.key));
    if fit.named || app.view == view || count.is_some() {
        let current = theme.strong.underlined();
        let style = if app.view == view { current } else { Style::new() };
        title.push_span(" ".repeat(fit.space));
        title.push_span(Span::styled(view.tab(), style));
    }
    let Some(count) = count else { return (title, None) };
    let style = if is_loud { theme.warn } else { theme.soft };
    let text = match fit.count {
        _ if count == 0 => String::new(),
        ..4 => format!(" {}", figures::tiny(count)),
        cells => format!(" {}", figures::within(count, cells)),
    };
    if fit.below {
        return (title, (count > 0).then(|| Span::styled(format!("{text} "), style)));
    }
    title.push_span(Span::styled(left(&text, fit.count + 1), style));
    (title, None)
}

/// Draws the tabs, and counts on the rule below if there is one; returns the cells of each, with its action.
pub(super) fn draw(app: &App, area: Rect, rule: Rect, buffer: &mut Buffer) -> Vec<(Rect, Action)> {
    // One blank before the first tab.
    let room = usize::from(area.width).saturating_sub(1);
    let tabs = |fit| View::VARIANTS.iter().map(move |view| tab(app, fit, *view));
    let fits = |fit: &Fit| {
        let cells: usize = tabs(*fit).map(|(title, _)| title.width() + usize::from(fit.gap)).sum();
        cells - usize::from(fit.gap) <= room && !(fit.below && rule.is_empty())
    };
    let [.., narrowest] = FITS;
    let fit = FITS.into_iter().find(fits).unwrap_or(narrowest);
    let mut places = Vec::new();
    let mut x = area.x + 1;
    for (view, (title, below)) in View::VARIANTS.iter().zip(tabs(fit)) {
        let place = Rect { x, width: title.width() as u16, ..area };
        below.render(Rect { y: rule.y, ..place }, buffer);
        title.render(place, buffer);
        x = place.right() + fit.gap;
        places.push((place, Action::Go(*view)));
    }
    places
}
