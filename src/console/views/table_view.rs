//! Tables as views: the heading, the table with the detail of its chosen row, and the actions that all tables have.

use super::{draw_head, prelude::*, table::Marked};
use crate::text::conventions;

/// Rows that a table keeps beside a detail, with its headings: in a full window, and in a compact one.
const LEAST: [u16; 2] = [4, 3];

impl<R: Row> Component for TableState<R> {
    fn keys() -> Vec<ViewKey> {
        R::KEYS.to_vec()
    }

    fn draw(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene) {
        self.draw_heading(area, buffer, scene);
        let opened = self.opened(&scene.shown);
        let detail = opened.and_then(|row| R::detail(scene, row, area.width));
        let top = scene.table_top();
        let rows = detail.as_ref().map_or(0, Detail::height);
        let room = area.height.saturating_sub(2 * top - 1 + LEAST[usize::from(scene.compact)]);
        let above = R::above(scene, area.width.saturating_sub(2), room.saturating_sub(rows));
        let gap = if above.is_empty() { 0 } else { above.len() as u16 + top - 1 };
        if self.draw_table(area, buffer, scene, top + gap, detail) {
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
        R::FOCUS(focus, self.key());
    }
}

impl<R: Row> TableState<R> {
    /// Draws the title and the summary.
    pub(super) fn draw_heading(&self, area: Rect, buffer: &mut Buffer, scene: &Scene) {
        draw_head(area, buffer, &R::heading(scene, self), &self.summary(scene));
    }

    /// Draws the table from line `top` on, with the detail of its chosen row below it; in a low window only the detail.
    /// Returns whether the table is visible.
    pub(super) fn draw_table(
        &mut self,
        area: Rect,
        buffer: &mut Buffer,
        scene: &Scene,
        top: u16,
        detail: Option<Detail<'_>>,
    ) -> bool {
        let Some(detail) = detail else {
            self.draw_rows(below(area, top), buffer, scene);
            return true;
        };
        let room = area.height.saturating_sub(top + LEAST[usize::from(scene.compact)]);
        let height = detail.height();
        let least = detail.least.map_or(height, |least| least.min(height));
        if room < least {
            self.controls.top = None;
            detail.draw(below(area, 1), buffer);
            return false;
        }
        // A detail that may be cut leaves up to a third of the rows to the list.
        let kept = (self.rows(&scene.shown).len() as u16 + 1).min(area.height / 3) + 1;
        let rows = height.min(area.height.saturating_sub(top + kept)).max(least);
        let [list, under] = Layout::vertical([Fill(1), Length(rows)]).areas(below(area, top));
        self.draw_rows(list, buffer, scene);
        detail.draw(under, buffer);
        true
    }

    /// Why no row is shown.
    pub(super) fn nothing(&self, scene: &Scene) -> String {
        if !self.loaded(&scene.shown).is_empty() {
            let text = text::echo(self.controls.filter.value());
            return text!("console-no-row-contains-press", text);
        }
        // What was read stays valid while only a secondary server is away.
        let is_read = R::page(&scene.shown).is_read;
        let needed = if is_read { &R::SOURCES[..1] } else { R::SOURCES };
        match needed.iter().find(|source| is_stale(scene.health(**source), scene.seen())) {
            Some(Source::Redis) => text!("console-redis-is-unreachable-rows"),
            Some(Source::Sql) => text!("console-database-is-unreachable-rows"),
            None => R::empty(scene, self).unwrap_or_else(|| text::READING.to_owned()),
        }
    }

    /// Commands in progress, marks, filter, and how much of the list is on the screen.
    pub(super) fn summary(&self, scene: &Scene) -> Line<'static> {
        let (theme, snapshot) = (scene.theme, &scene.shown);
        let page = R::page(snapshot);
        let mut parts = Vec::new();
        for line in snapshot.recoveries.iter().filter(|_| R::MARKS) {
            let action = text::time::event_name(&line.action);
            let text = text!("recovery-of", action, done = line.done, planned = line.planned);
            parts.push(Span::styled(text, theme.key));
        }
        if self.all_marked {
            let text = text!("console-all-marked", count = page.total.unwrap_or(0));
            parts.push(Span::styled(text, theme.key));
        } else if !self.marks.is_empty() {
            let Marked { count, filtered: hidden, .. } = self.marked(snapshot);
            parts.push(Span::styled(text!("console-marked", count, hidden), theme.key));
        }
        let filter = self.controls.filter.value();
        if !filter.is_empty() {
            let (shown, of) = (self.rows(snapshot).len(), page.rows.len());
            let part = if page.is_whole() {
                text!("console-shown-of", shown, of)
            } else {
                text!("console-of-on-this-page", shown, of)
            };
            parts.push(Span::raw(format!("/{}   {part}", fit(filter, 20))));
        }
        if self.is_waiting() {
            parts.push(Span::styled(text::READING.read(), theme.warn));
        }
        let mut line = Line::default();
        for part in parts {
            line.push_span(part);
            line.push_span("   ");
        }
        let extent = R::extent(scene, self);
        let style = extent.style;
        line.extend(extent.into_iter().map(|span| span.patch_style(style)));
        line
    }
}
