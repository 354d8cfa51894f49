//! Views that are one table with the detail of its chosen row. A view declares the texts around the table; placing and
//! drawing them is the same for all.

use ratatui::{prelude::*, widgets::Paragraph};
use seckill_engine::{Snapshot, commands::Focus};
use seckill_model::{Label, text};

use super::{
    Component, Effect, SIDES, Scene, Source, Step, Turn, View, below,
    detail::Detail,
    draw_head, draw_text,
    table::{self, Marked, PageKey as _, Row, Table, TableState},
};
use crate::{
    keymap::{Action, FILTER, ViewKey},
    text::{self, commands, conventions, figures},
    widgets::fit,
};

/// Rows that a table keeps beside a detail, with its headings: in a full window, and in a compact one.
const LEAST: [u16; 2] = [4, 3];

/// A row whose table is a view.
pub(crate) trait TableView: Row {
    const VIEW: View;
    /// The keys that apply in this view only.
    const KEYS: &'static [ViewKey] = &[FILTER];
    /// Commands on the chosen row.
    const ON_ROW: &'static [Action] = &[];
    /// Where the rows come from.
    const SOURCES: &'static [Source];
    /// From this width on, the detail of the chosen row is always open, beside the table.
    const BESIDE: u16 = u16::MAX;
    /// Why a row has no mark.
    const UNMARKABLE: Label = commands::NOTHING_MARKED;

    fn heading(scene: &Scene, _state: &TableState<Self>) -> Line<'static> {
        let taken = Self::page(&scene.shown).taken;
        scene.page_heading(&Self::VIEW.title().to_uppercase(), Self::SOURCES, taken)
    }

    /// How much of the list is on the screen, at the end of the summary.
    fn extent(scene: &Scene, state: &TableState<Self>) -> Line<'static> {
        let page = Self::page(&scene.shown);
        let (last, total) = (page.rows.len() as u64, page.total.unwrap_or(0));
        let text = if page.is_whole() && !state.controls.filter.value().is_empty() {
            // The filter already shows the number of rows.
            String::new()
        } else if last > 0 && page.key == page.key.first() {
            text!("console-range-of", first = 1, last, total = total.max(last))
        } else if total == 0 || scene.shown.stream.is_none() {
            // The size of a list that was not read is unknown, and an empty list says so itself.
            String::new()
        } else {
            figures::thousands(total)
        };
        Line::styled(text, scene.theme.soft)
    }

    /// Lines between heading and table, at most `rows`.
    fn above(_scene: &Scene, _cells: u16, _rows: u16) -> Vec<Line<'static>> {
        Vec::new()
    }

    /// Why the list is empty; `None` while it is being read.
    fn empty(scene: &Scene, state: &TableState<Self>) -> Option<String>;

    /// All that is known of a row.
    fn detail<'a>(scene: &'a Scene, row: &'a Self, cells: u16) -> Detail<'a>;

    /// Carries out an action of the view.
    fn run(_state: &mut TableState<Self>, _action: Action, _scene: &Scene) -> Option<Effect> {
        None
    }

    /// Why a command of the view would have no effect, apart from a missing row.
    fn why_not(_action: Action, _scene: &Scene) -> Option<String> {
        None
    }

    /// Whether a snapshot has the list.
    fn is_read(_snapshot: &Snapshot) -> bool {
        true
    }

    /// Requests a page, if it is read only while the view shows it.
    fn focus(_page: Self::Key, _focus: &mut Focus) {}
}

impl<R: TableView> Component for TableState<R> {
    fn keys() -> Vec<ViewKey> {
        R::KEYS.to_vec()
    }

    fn draw(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene) {
        let summary = summary(scene, self, R::extent(scene, self));
        draw_head(area, buffer, &R::heading(scene, self), &summary);
        if area.width >= R::BESIDE {
            let halves = Layout::horizontal([Constraint::Percentage(50), Constraint::Fill(1)]);
            let [list, side] = halves.spacing(2).areas(below(area, 2));
            draw_rows(list, buffer, scene, self, |it| nothing(scene, it, R::empty));
            if let Some(row) = self.chosen(&scene.shown) {
                R::detail(scene, row, side.width).draw(side, buffer);
            }
            return;
        }
        let detail = self.opened(&scene.shown).map(|row| R::detail(scene, row, area.width));
        let top = scene.table_top();
        let rows = detail.as_ref().map_or(0, Detail::height);
        let room = area.height.saturating_sub(2 * top - 1 + LEAST[usize::from(scene.compact)]);
        let above = R::above(scene, area.width.saturating_sub(2), room.saturating_sub(rows));
        let gap = if above.is_empty() { 0 } else { above.len() as u16 + top - 1 };
        let why = |state: &Self| nothing(scene, state, R::empty);
        if draw_table(area, buffer, scene, top + gap, self, detail, why) {
            Paragraph::new(above).render(below(area, top).inner(SIDES), buffer);
        }
    }

    fn run(&mut self, action: Action, scene: &Scene) -> Option<Effect> {
        let is_marked = match action {
            Action::Mark if self.all_marked => {
                return Some(Effect::Note(text!("conventions-all-are-marked-press")));
            }
            Action::Mark => self.mark(&scene.shown),
            Action::MarkAll => self.mark_all(&scene.shown),
            _ => return R::run(self, action, scene),
        };
        if !is_marked {
            return Some(Effect::note(R::UNMARKABLE));
        }
        if action == Action::Mark
            && let Turn::Frozen = Table::step(self, &scene.shown, Step::By(1), scene.frozen)
        {
            return Some(Effect::Note(conventions::frozen()));
        }
        Some(Effect::Done)
    }

    fn why_not(&self, action: Action, scene: &Scene) -> Option<String> {
        if R::ON_ROW.contains(&action) && self.chosen(&scene.shown).is_none() {
            return Some(conventions::no_row());
        }
        R::why_not(action, scene)
    }

    fn table(&self) -> Option<&dyn Table> {
        Some(self)
    }

    fn table_mut(&mut self) -> Option<&mut dyn Table> {
        Some(self)
    }

    fn is_read(&self, snapshot: &Snapshot) -> bool {
        R::is_read(snapshot)
    }

    fn focus(&self, _: &Snapshot, focus: &mut Focus) {
        R::focus(self.key(), focus);
    }
}

/// Draws a table from line `top` on, with the detail of its chosen row below it; in a low window only the detail.
/// Returns whether the table is visible.
pub(super) fn draw_table<R: Row>(
    area: Rect,
    buffer: &mut Buffer,
    scene: &Scene,
    top: u16,
    state: &mut TableState<R>,
    detail: Option<Detail<'_>>,
    nothing: impl FnOnce(&TableState<R>) -> String,
) -> bool {
    let Some(detail) = detail else {
        draw_rows(below(area, top), buffer, scene, state, nothing);
        return true;
    };
    let room = area.height.saturating_sub(top + LEAST[usize::from(scene.compact)]);
    let height = detail.height();
    let least = detail.least.map_or(height, |least| least.min(height));
    if room < least {
        state.controls.top = None;
        detail.draw(below(area, 1), buffer);
        return false;
    }
    // A detail that may be cut leaves up to a third of the rows to the list.
    let kept = (state.rows(&scene.shown).len() as u16 + 1).min(area.height / 3) + 1;
    let rows = height.min(area.height.saturating_sub(top + kept)).max(least);
    let [list, under] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(rows)]).areas(below(area, top));
    draw_rows(list, buffer, scene, state, nothing);
    detail.draw(under, buffer);
    true
}

/// Draws the headings and the rows, or why there is none.
pub(super) fn draw_rows<R: Row>(
    area: Rect,
    buffer: &mut Buffer,
    scene: &Scene,
    state: &mut TableState<R>,
    nothing: impl FnOnce(&TableState<R>) -> String,
) {
    let rows = state.rows(&scene.shown);
    let cursor = state.position(&rows);
    // Headings stay: rows may come and go with each snapshot.
    table::draw(area, buffer, scene, state, &rows, cursor);
    if rows.is_empty() {
        draw_text(area, buffer, scene, 1, &nothing(state));
    }
}

/// Why no row is shown; `empty` says why the list is empty.
pub(super) fn nothing<R: Row>(
    scene: &Scene,
    state: &TableState<R>,
    empty: impl FnOnce(&Scene, &TableState<R>) -> Option<String>,
) -> String {
    if state.is_waiting() {
        text::READING.to_owned()
    } else if !state.loaded(&scene.shown).is_empty() {
        text!("console-no-row-contains-press", text = text::echo(state.controls.filter.value()))
    } else {
        empty(scene, state).unwrap_or_else(|| text::READING.to_owned())
    }
}

/// Commands in progress, marks, filter, and how much of the list is on the screen.
pub(super) fn summary<R: Row>(
    scene: &Scene,
    state: &TableState<R>,
    extent: Line<'static>,
) -> Line<'static> {
    let (theme, snapshot) = (scene.theme, &scene.shown);
    let page = R::page(snapshot);
    let mut parts = Vec::new();
    for line in snapshot.recoveries.iter().filter(|_| R::MARKS) {
        let action = text::time::event_name(&line.action);
        let text = text!("recovery-of", action, done = line.done, planned = line.planned);
        parts.push(Span::styled(text, theme.key));
    }
    if state.all_marked {
        let text = text!("console-all-marked", count = page.total.unwrap_or(0));
        parts.push(Span::styled(text, theme.key));
    } else if !state.marks.is_empty() {
        let Marked { count, filtered: hidden, .. } = state.marked(snapshot);
        parts.push(Span::styled(text!("console-marked", count, hidden), theme.key));
    }
    let filter = state.controls.filter.value();
    if !filter.is_empty() {
        let (shown, of) = (state.rows(snapshot).len(), page.rows.len());
        let part = if page.is_whole() {
            text!("console-shown-of", shown, of)
        } else {
            text!("console-of-on-this-page", shown, of)
        };
        parts.push(Span::raw(format!("/{}   {part}", fit(filter, 20))));
    }
    if state.is_waiting() {
        parts.push(Span::styled(text::READING.read(), theme.warn));
    }
    let mut line = Line::default();
    for part in parts {
        line.push_span(part);
        line.push_span("   ");
    }
    let style = extent.style;
    line.extend(extent.into_iter().map(|span| span.patch_style(style)));
    line
}
