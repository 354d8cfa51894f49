//! The detail of the chosen row: labels on the left, values beside them, under a rule.

use std::borrow::Cow;

use seckill_model::Message;

use super::prelude::*;

/// Most lines of a value, unless all are shown.
const LINES: usize = 4;
/// Cells of the labels.
pub(super) const LABELS: usize = 15;
/// Blanks at both edges, and between label and value.
const MARGINS: u16 = 3;

pub(crate) struct Detail<'a> {
    theme: Theme,
    /// Cells of a value.
    pub(super) room: usize,
    /// Most lines of a value.
    pub(super) most: usize,
    lines: Vec<Line<'static>>,
    last_label: Option<Label>,
    /// With room for at least this many rows, it is cut to fit below its table; with less, it replaces the table.
    pub(super) least: Option<u16>,
    /// A note on the rule, where it covers no text.
    pub(super) note: String,
    /// Its lines can be read on a page of their own.
    pub(super) has_page: bool,
    /// What is drawn below the lines, with its rows.
    figure: Option<(u16, Figure<'a>)>,
}

type Figure<'a> = Box<dyn FnOnce(Rect, &mut Buffer) + 'a>;

impl<'a> Detail<'a> {
    pub(super) fn new(scene: &'a Scene, width: u16) -> Self {
        let room = usize::from(width.saturating_sub(LABELS as u16 + MARGINS));
        Self {
            theme: scene.theme,
            room,
            most: LINES,
            lines: Vec::new(),
            last_label: None,
            least: None,
            note: String::new(),
            has_page: false,
            figure: None,
        }
    }

    /// Adds a value in the style of ordinary text, wrapped.
    pub(super) fn text<'t>(&mut self, label: Label, value: impl Into<Cow<'t, str>>) {
        self.field(label, value, Style::new());
    }

    /// Adds a value, wrapped.
    pub(super) fn field<'t>(&mut self, label: Label, value: impl Into<Cow<'t, str>>, style: Style) {
        for part in wrap_to(&value.into(), self.room, self.most) {
            self.line(label, vec![Span::styled(part, style)]);
        }
    }

    /// Adds a buyer, with the key that shows or masks users.
    pub(super) fn user(&mut self, scene: &Scene, user: Option<UserId>) {
        let shown =
            user.map(|user| text!("stream-press-to-show-or-mask", user = scene.users.number(user)));
        let shown = shown.unwrap_or_else(|| text::UNKNOWN.to_owned());
        self.line(Label("tables-user"), vec![shown.into()]);
    }

    /// Adds the reason why the fields of an entry do not form an order.
    pub(super) fn fault(&mut self, scene: &Scene, fault: Option<&Message>, user: Option<UserId>) {
        let (text, style) = match fault {
            Some(fault) => (scene.users.within(&text::order_error(fault), user), self.theme.warn),
            None => (Label("tables-none-its-fields-are-valid").to_owned(), self.theme.soft),
        };
        self.field(Label("tables-fault"), text, style);
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

    /// Adds what is drawn below the lines, in at most this many rows.
    pub(super) fn below(&mut self, rows: u16, draw: impl FnOnce(Rect, &mut Buffer) + 'a) {
        self.figure = Some((rows, Box::new(draw)));
    }

    /// Rows of its lines, of the rule above them and of the figure below.
    pub(super) fn height(&self) -> u16 {
        let figure = self.figure.as_ref().map_or(0, |(rows, _)| *rows);
        u16::try_from(self.lines.len()).map_or(u16::MAX, |lines| lines.saturating_add(1 + figure))
    }

    pub(super) fn into_lines(self) -> Vec<Line<'static>> {
        self.lines
    }

    pub(super) fn draw(mut self, area: Rect, buffer: &mut Buffer) {
        let theme = self.theme;
        let rule = glyphs::RULE.repeat(usize::from(area.width));
        Line::styled(rule, theme.soft).render(area, buffer);
        let note = Line::styled(self.note, theme.soft).right_aligned();
        note.render(area.inner(Margin::new(2, 0)), buffer);
        let area = below(area, 1);
        if let Some((_, draw)) = self.figure {
            draw(below(area, self.lines.len() as u16), buffer);
        }
        let room = usize::from(area.height);
        if self.lines.len() > room && room > 0 {
            let count = self.lines.len() - room + 1;
            let more = if self.has_page {
                text!("lab-view-more", count)
            } else {
                text!("ledger-in-a-larger-window", count)
            };
            self.lines.truncate(room - 1);
            self.lines.push(Line::styled(" ".repeat(LABELS) + &more, theme.soft));
        }
        Paragraph::new(self.lines).render(area.inner(SIDES), buffer);
    }
}
