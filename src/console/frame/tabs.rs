//! The tab line: names of the views, with counts.
//!
//! The position of a tab depends only on the window width and the language: each count has reserved cells. If the line
//! has no room for counts, they are on the rule below it.

use ratatui::prelude::*;
use strum::VariantArray;

use crate::{
    app::App,
    keymap::{Action, key_of},
    text::figures,
    view::View,
    views::{SIDES, pending_in},
    widgets::left,
};

/// Cells of a count.
const COUNT: usize = 3;

/// How the tabs share a line, from the widest layout to one that fits any window.
#[derive(Clone, Copy, PartialEq, Eq, VariantArray)]
enum Fit {
    /// All views are named, with counts beside the names.
    Wide,
    /// All views are named, with counts on the rule below.
    Tight,
    /// Only the current view and those that count stuck entries are named.
    Compact,
}

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
        // Sales and locks need no attention, unlike stuck entries.
        View::Sales if fit != Fit::Compact => (Some(snapshot.sales.len() as u64), false),
        View::Locks if fit != Fit::Compact => (Some(snapshot.locks.total), false),
        _ => (None, false),
    };
    let mut title = Line::from(Span::styled(key_of(Action::Go(view)), theme.key));
    if fit != Fit::Compact || app.view == view || count.is_some() {
        let current = theme.strong.underlined();
        let style = if app.view == view { current } else { Style::new() };
        title.push_span(if fit == Fit::Tight { "" } else { " " });
        title.push_span(Span::styled(view.tab(), style));
    }
    let Some(count) = count else { return (title, None) };
    let style = if is_loud { theme.warn } else { theme.soft };
    let text = if count > 0 { format!(" {} ", figures::tiny(count)) } else { String::new() };
    if fit == Fit::Tight {
        return (title, Some(Span::styled(text, style)));
    }
    title.push_span(Span::styled(left(text.trim_end(), COUNT + 1), style));
    (title, None)
}

/// The views with a tab: those that a digit opens. More have no room at 80 columns.
pub(crate) fn tabbed() -> impl Iterator<Item = View> {
    View::VARIANTS.iter().copied().filter(|view| view.key().parse::<u8>().is_ok())
}

/// Draws the tabs, and counts on the rule below if there is one; returns the cells of each, with its action.
pub(super) fn draw(app: &App, area: Rect, rule: Rect, buffer: &mut Buffer) -> Vec<(Rect, Action)> {
    let area = area.inner(SIDES);
    let gap = |fit: Fit| if fit == Fit::Wide { 2 } else { 1 };
    let fits = |fit: &&Fit| {
        let cells = tabbed().map(|view| tab(app, **fit, view).0.width() + gap(**fit));
        // No gap follows the last tab.
        cells.sum::<usize>() <= usize::from(area.width) + gap(**fit)
            && !(**fit == Fit::Tight && rule.is_empty())
    };
    let fit = Fit::VARIANTS.iter().find(fits).copied().unwrap_or(Fit::Compact);
    let mut places = Vec::new();
    let mut x = area.x;
    for view in tabbed() {
        let (title, below) = tab(app, fit, view);
        let place = Rect { x, width: title.width() as u16, ..area };
        below.render(Rect { y: rule.y, ..place }, buffer);
        title.render(place, buffer);
        x = place.right() + gap(fit) as u16;
        places.push((place, Action::Go(view)));
    }
    places
}
