//! The detail of the chosen row: labels on the left, values beside them, under a rule.

use std::borrow::Cow;

use ratatui::{prelude::*, widgets::Paragraph};
use seckill_model::{Label, Message, UserId, text};

use super::{Scene, below};
use crate::{
    text::{self},
    theme::{Theme, glyphs},
    widgets::{left, wrap_to},
};

/// Cells of the labels.
const LABELS: usize = 15;
/// Blanks at both edges, and between label and value.
const MARGINS: u16 = 3;

pub(crate) struct Detail {
    theme: Theme,
    /// Cells of a value.
    room: usize,
    lines: Vec<Line<'static>>,
    last_label: Option<Label>,
    /// What a note on lines that do not fit says.
    pub(super) more: fn(usize) -> String,
    /// Rows from which it is cut to fit below its table, which it would replace otherwise.
    pub(super) least: Option<u16>,
}

impl Detail {
    pub(super) fn new(scene: &Scene<'_>, width: u16) -> Self {
        let more = |count: usize| text!("ledger-in-a-larger-window", count);
        let room = usize::from(width.saturating_sub(LABELS as u16 + MARGINS));
        Self { theme: scene.theme, room, lines: Vec::new(), last_label: None, more, least: None }
    }

    /// Adds a value in the style of ordinary text, wrapped.
    pub(super) fn text<'a>(&mut self, label: Label, value: impl Into<Cow<'a, str>>) {
        self.field(label, value, Style::new());
    }

    /// As [`Self::text`], in one line.
    pub(super) fn brief<'a>(&mut self, label: Label, value: impl Into<Cow<'a, str>>) {
        self.field_of(1, label, value, Style::new());
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
        for part in wrap_to(&value.into(), self.room, most) {
            self.line(label, vec![Span::styled(part, style)]);
        }
    }

    /// Adds a buyer, with the key that shows or masks users.
    pub(super) fn user(&mut self, scene: &Scene<'_>, user: Option<UserId>) {
        let shown =
            user.map(|user| text!("stream-press-to-show-or-mask", user = scene.users.number(user)));
        let shown = shown.unwrap_or_else(|| text::UNKNOWN.to_owned());
        self.line(Label("tables-user"), vec![shown.into()]);
    }

    /// Adds the reason why the fields of an entry do not form an order.
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
        let head = left(if is_new { label.read() } else { "" }, LABELS);
        let head = Span::styled(head, self.theme.soft);
        self.lines.push(std::iter::once(head).chain(value).collect());
    }

    /// Adds a line without a label.
    pub(super) fn heading(&mut self, line: impl Into<Line<'static>>) {
        self.lines.push(line.into());
    }

    /// Its lines and the rule above them.
    pub(super) fn height(&self) -> u16 {
        u16::try_from(self.lines.len() + 1).unwrap_or(u16::MAX)
    }

    pub(super) fn draw(self, area: Rect, buffer: &mut Buffer) {
        let rule = glyphs::RULE.repeat(usize::from(area.width));
        Line::styled(rule, self.theme.soft).render(area, buffer);
        self.draw_lines(below(area, 1), buffer);
    }

    /// Draws it without a rule.
    pub(super) fn draw_lines(mut self, area: Rect, buffer: &mut Buffer) {
        let room = usize::from(area.height);
        if self.lines.len() > room && room > 0 {
            let more = (self.more)(self.lines.len() - room + 1);
            self.lines.truncate(room - 1);
            let indent = Span::raw(" ".repeat(LABELS));
            self.lines.push(Line::from(vec![indent, Span::styled(more, self.theme.soft)]));
        }
        let [_, lines] =
            Layout::horizontal([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
        Paragraph::new(self.lines).render(lines, buffer);
    }
}
