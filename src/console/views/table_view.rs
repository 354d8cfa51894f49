//! Tables as views: the heading, the table with the detail of its chosen row, and the actions that all tables have.

use super::{
    draw_head,
    prelude::*,
    table::{self, Marked},
};
use crate::text::conventions;

/// Rows that a table keeps beside a detail, with its headings: in a full window, and in a compact one.
const LEAST: [u16; 2] = [4, 3];

impl<R: Row> Component for TableState<R> {
    fn keys() -> Vec<ViewKey> {
        R::KEYS.to_vec()
    }

    fn draw(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene) {
        draw_heading(area, buffer, scene, self);
        if area.width >= R::BESIDE {
            let halves = Layout::horizontal([Constraint::Percentage(50), Fill(1)]);
            let [list, side] = halves.spacing(2).areas(below(area, 2));
            draw_rows(list, buffer, scene, self);
            let chosen = self.chosen(&scene.shown);
            if let Some(detail) = chosen.and_then(|row| R::detail(scene, row, side.width)) {
                detail.draw(side, buffer);
            }
            return;
        }
        let opened = self.opened(&scene.shown);
        let detail = opened.and_then(|row| R::detail(scene, row, area.width));
        let top = scene.table_top();
        let rows = detail.as_ref().map_or(0, Detail::height);
        let room = area.height.saturating_sub(2 * top - 1 + LEAST[usize::from(scene.compact)]);
        let above = R::above(scene, area.width.saturating_sub(2), room.saturating_sub(rows));
        let gap = if above.is_empty() { 0 } else { above.len() as u16 + top - 1 };
        if draw_table(area, buffer, scene, top + gap, self, detail) {
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

    fn focus(&self, _: &Snapshot, focus: &mut Focus) {
        R::focus(self.key(), focus);
    }
}

/// Draws the title and the summary of a table.
pub(super) fn draw_heading<R: Row>(
    area: Rect,
    buffer: &mut Buffer,
    scene: &Scene,
    state: &TableState<R>,
) {
    draw_head(area, buffer, &R::heading(scene, state), &summary(scene, state));
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
) -> bool {
    let Some(detail) = detail else {
        draw_rows(below(area, top), buffer, scene, state);
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
    let [list, under] = Layout::vertical([Fill(1), Length(rows)]).areas(below(area, top));
    draw_rows(list, buffer, scene, state);
    detail.draw(under, buffer);
    true
}

/// Draws the headings and the rows, or why there is none.
pub(super) fn draw_rows<R: Row>(
    area: Rect,
    buffer: &mut Buffer,
    scene: &Scene,
    state: &mut TableState<R>,
) {
    let rows = state.rows(&scene.shown);
    let cursor = state.position(&rows);
    // Headings stay: rows may come and go with each snapshot.
    table::draw(area, buffer, scene, state, &rows, cursor);
    if rows.is_empty() {
        draw_text(area, buffer, scene, 1, &nothing(scene, state));
    }
}

/// Why no row is shown.
pub(super) fn nothing<R: Row>(scene: &Scene, state: &TableState<R>) -> String {
    if !state.loaded(&scene.shown).is_empty() {
        let text = text::echo(state.controls.filter.value());
        return text!("console-no-row-contains-press", text);
    }
    // What was read stays valid while only a secondary server is away.
    let is_read = R::page(&scene.shown).is_read;
    let needed = if is_read { &R::SOURCES[..1] } else { R::SOURCES };
    match needed.iter().find(|source| is_stale(scene.health(**source), scene.seen())) {
        Some(Source::Redis) => text!("console-redis-is-unreachable-rows"),
        Some(Source::Sql) => text!("console-database-is-unreachable-rows"),
        None => R::empty(scene, state).unwrap_or_else(|| text::READING.to_owned()),
    }
}

/// Commands in progress, marks, filter, and how much of the list is on the screen.
pub(super) fn summary<R: Row>(scene: &Scene, state: &TableState<R>) -> Line<'static> {
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
    let extent = R::extent(scene, state);
    let style = extent.style;
    line.extend(extent.into_iter().map(|span| span.patch_style(style)));
    line
}
