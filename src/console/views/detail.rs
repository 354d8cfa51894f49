//! The detail of the chosen row: labels on the left, values beside them. It is below the table, or replaces it if both
//! do not fit.

use std::borrow::Cow;

use ratatui::{
    style::Style,
    text::{Line, Span},
};
use seckill_model::{
    Message, UserId,
    message::{Label, text},
};

use super::{
    Scene,
    table::{self, Row, TableState},
};
use crate::{
    text::{self},
    theme::Theme,
    widgets::{Canvas, left, wrap, wrap_to},
};

/// Cells of the labels.
const LABELS: usize = 15;
/// Blanks at both edges, and between label and value.
const MARGINS: u16 = 3;

pub(super) struct Detail {
    theme: Theme,
    /// Cells of a value.
    room: usize,
    lines: Vec<Line<'static>>,
    last_label: Option<Label>,
    /// What a note on lines that do not fit says.
    more: fn(usize) -> String,
}

impl Detail {
    pub(super) fn new(scene: &Scene<'_>, width: u16) -> Self {
        let more = |count: usize| text!("ledger-in-a-larger-window", count);
        let room = usize::from(width.saturating_sub(LABELS as u16 + MARGINS));
        Self { theme: scene.theme, room, lines: Vec::new(), last_label: None, more }
    }

    #[must_use]
    pub(super) fn with_more(self, more: fn(usize) -> String) -> Self {
        Self { more, ..self }
    }

    /// Adds a value, wrapped.
    pub(super) fn field<'a>(&mut self, label: Label, value: impl Into<Cow<'a, str>>, style: Style) {
        self.field_of(usize::MAX, label, value, style);
    }

    /// Adds a value in at most this many lines.
    pub(super) fn field_of<'a>(
        &mut self,
        most: usize,
        label: Label,
        value: impl Into<Cow<'a, str>>,
        style: Style,
    ) {
        for part in wrap_to(&value.into(), self.room, most, self.theme.glyphs.ellipsis) {
            self.line(label, vec![Span::styled(part, style)]);
        }
    }

    /// Adds why the fields of an entry are no order.
    pub(super) fn fault(
        &mut self,
        scene: &Scene<'_>,
        fault: Option<&Message>,
        user: Option<UserId>,
    ) {
        let (text, style) = match fault {
            Some(fault) => (scene.users.within(&text::order_error(fault), user), self.theme.warn),
            None => (Label("tables-none-its-fields-are-valid").to_owned(), self.theme.soft),
        };
        self.field_of(2, Label("tables-fault"), text, style);
    }

    /// Adds one line. A label is not repeated.
    pub(super) fn line(&mut self, label: Label, value: Vec<Span<'static>>) {
        let is_new = self.last_label.replace(label) != Some(label);
        let head = left(if is_new { label.read() } else { "" }, LABELS, "");
        let head = Span::styled(head, self.theme.soft);
        self.lines.push(std::iter::once(head).chain(value).collect());
    }

    /// Adds a line without a label.
    pub(super) fn heading(&mut self, line: Vec<Span<'static>>) {
        self.lines.push(line.into());
    }

    /// Its lines and the rule above them.
    pub(super) fn height(&self) -> u16 {
        u16::try_from(self.lines.len() + 1).unwrap_or(u16::MAX)
    }

    /// Whether it fits below a table that begins at line `top` of a view.
    pub(super) fn fits(&self, scene: &Scene<'_>, height: u16, top: u16) -> bool {
        height >= top + TABLE[usize::from(scene.compact)] + self.height()
    }

    pub(super) fn draw(mut self, canvas: &mut Canvas<'_>) {
        canvas.rule(0, self.theme.glyphs.rule, self.theme.soft);
        self.draw_lines(&mut canvas.below(1));
    }

    /// Draws it without a rule.
    pub(super) fn draw_lines(&mut self, canvas: &mut Canvas<'_>) {
        let room = usize::from(canvas.height());
        if self.lines.len() > room && room > 0 {
            let more = (self.more)(self.lines.len() - room + 1);
            self.lines.truncate(room - 1);
            let indent = Span::raw(" ".repeat(LABELS));
            self.lines.push(Line::from(vec![indent, Span::styled(more, self.theme.soft)]));
        }
        for (y, line) in self.lines.iter().enumerate() {
            canvas.line(1, y as u16, line);
        }
    }
}

/// Rows that a table keeps beside a detail, with its headings.
const TABLE: [u16; 2] = [4, 3];

/// Draws the table from line `top` on, with the detail of its chosen row; in a low window only the detail. `nothing`
/// says why there is no row.
pub(super) fn draw_table<R: Row>(
    canvas: &mut Canvas<'_>,
    scene: &Scene<'_>,
    top: u16,
    state: &mut TableState<R>,
    detail: Option<Detail>,
    nothing: impl FnOnce(&TableState<R>) -> String,
) {
    let (w, h) = (canvas.width(), canvas.height());
    let rows = state.rows(scene.snapshot);
    if rows.is_empty() {
        return draw_lines(canvas, scene, top.max(2), &nothing(state));
    }
    if detail.as_ref().is_some_and(|detail| !detail.fits(scene, h, top)) {
        return draw_alone(canvas, state, detail);
    }
    let below = detail.as_ref().map_or(0, Detail::height);
    let cursor = state.position(&rows);
    table::draw(&mut canvas.part(0, top, w, h - top - below), scene, state, &rows, cursor);
    if let Some(detail) = detail {
        detail.draw(&mut canvas.below(h - below));
    }
}

/// Draws a detail in place of its table.
pub(super) fn draw_alone<R: Row>(
    canvas: &mut Canvas<'_>,
    state: &mut TableState<R>,
    detail: Option<Detail>,
) {
    state.controls.top = None;
    if let Some(detail) = detail {
        detail.draw(&mut canvas.below(1));
    }
}

/// Draws a text from line `y` on in place of rows.
pub(super) fn draw_lines(canvas: &mut Canvas<'_>, scene: &Scene<'_>, y: u16, text: &str) {
    let lines = wrap(text, usize::from(canvas.width().saturating_sub(2)));
    for (y, line) in (y..).zip(&lines) {
        canvas.text(1, y, line, scene.theme.soft);
    }
}
