//! Text fields, each with its error below it.

use ratatui::{crossterm::event::Event, style::Style};
use seckill_engine::error::MAX_REASON;
use seckill_model::{is_display_control, message::Label};
use tui_input::{Input, InputRequest, backend::crossterm::to_input_request};
use unicode_segmentation::UnicodeSegmentation;

use super::{buttons, panel};
use crate::{
    keymap::Action,
    text::commands::CANCEL,
    theme::Theme,
    widgets::{Canvas, fit, left, plain, width, wrap},
};

/// Most characters of a field, as many as a reason in the log has; limits accidental pastes.
pub(crate) const MOST: usize = MAX_REASON;

#[derive(Debug)]
pub(crate) struct Field {
    label: Label,
    hint: Label,
    /// Live feedback on the input; replaces the hint.
    pub(crate) note: Option<String>,
    pub(crate) input: Input,
    pub(crate) fault: Option<String>,
}

/// Fields and two buttons; the focus is an index over all of them.
#[derive(Debug)]
pub(crate) struct Form {
    title: String,
    pub(crate) fields: Vec<Field>,
    submit: Label,
    focus: usize,
    /// The user has typed into it.
    touched: bool,
}

impl Form {
    pub(crate) fn new(title: String, submit: Label) -> Self {
        Self { title, fields: Vec::new(), submit, focus: 0, touched: false }
    }

    #[must_use]
    pub(crate) fn field(mut self, label: Label, hint: Label, value: &str) -> Self {
        let input = Input::new(value.to_owned());
        self.fields.push(Field { label, hint, note: None, input, fault: None });
        self
    }

    pub(crate) fn value(&self, field: usize) -> &str {
        self.fields.get(field).map_or("", |field| field.input.value())
    }

    /// On the last field and the submit button, Enter submits the form.
    pub(crate) fn at_submit(&self) -> bool {
        self.focus + 1 == self.fields.len() || self.focus == self.fields.len() + 1
    }

    pub(crate) fn at_cancel(&self) -> bool {
        self.focus == self.fields.len()
    }

    /// The focus is on a button, so letters and arrows can navigate.
    pub(crate) fn is_on_button(&self) -> bool {
        self.focus >= self.fields.len()
    }

    /// Esc, or Enter on Cancel.
    pub(crate) fn is_left_by(&self, action: Action) -> bool {
        action == Action::Cancel || (action == Action::Press && self.at_cancel())
    }

    pub(crate) fn step(&mut self, forward: bool) {
        let stops = self.fields.len() + 2;
        self.focus = (self.focus + if forward { 1 } else { stops - 1 }) % stops;
    }

    pub(crate) fn focus(&mut self, field: usize) {
        self.focus = field;
    }

    /// Shows an input error at once; an empty field is not an error yet.
    pub(crate) fn show_fault(&mut self, fault: Option<&(usize, String)>) {
        for (place, field) in self.fields.iter_mut().enumerate() {
            let here = fault.filter(|(at, _)| *at == place).map(|(_, text)| text);
            let waits = field.input.value().trim().is_empty();
            field.fault = here.filter(|_| !waits).cloned();
        }
    }

    /// Returns the parsed form, or `None` after moving the focus to the field with the error.
    pub(crate) fn settle<T>(&mut self, checked: Result<T, (usize, String)>) -> Option<T> {
        let (place, fault) = match checked {
            Ok(asked) => return Some(asked),
            Err(fault) => fault,
        };
        for (at, field) in self.fields.iter_mut().enumerate() {
            field.fault = (at == place).then(|| fault.clone());
        }
        self.focus(place);
        None
    }

    /// Types into the focused field; returns whether the text changed.
    pub(crate) fn type_in(&mut self, event: &Event) -> bool {
        let changed =
            self.fields.get_mut(self.focus).is_some_and(|field| typed(&mut field.input, event));
        self.touched |= changed;
        changed
    }

    /// The focused field, unless a button has the focus.
    pub(crate) fn input(&self) -> Option<&Input> {
        self.fields.get(self.focus).map(|field| &field.input)
    }

    pub(crate) fn is_touched(&self) -> bool {
        self.touched
    }

    /// Draws the form with `notes` under its fields, in the rows that the `widest` of them need; returns the cursor
    /// position. The height depends on the window only, as long as no error takes more than two rows: an error replaces
    /// the hint.
    pub(crate) fn draw(
        &self,
        canvas: &mut Canvas<'_>,
        theme: Theme,
        notes: &[String],
        widest: &[String],
    ) -> Option<(u16, u16)> {
        const LABEL: u16 = 9;
        let width = canvas.width().saturating_sub(4).min(66);
        let room = width.saturating_sub(LABEL + 6);
        let shown: Vec<Vec<String>> = self
            .fields
            .iter()
            .map(|field| match (&field.fault, &field.note) {
                (Some(fault), _) => wrap(fault, usize::from(room)),
                (None, Some(note)) => vec![fit(note, usize::from(room), theme.glyphs.ellipsis)],
                (None, None) => vec![field.hint.to_string()],
            })
            .collect();
        let wrapped = |notes: &[String]| -> Vec<String> {
            notes.iter().flat_map(|it| wrap(it, usize::from(width.saturating_sub(6)))).collect()
        };
        let notes = wrapped(notes);
        let note_rows = wrapped(widest).len().max(notes.len());
        let rows = 2 * self.fields.len() + note_rows;
        let gaps = self.fields.len() + 3 + usize::from(note_rows > 0);
        // The second line of an error takes the row below its field; if there is none, a row is reserved.
        let beyond = |lines: usize| -> usize {
            shown.iter().map(|shown| shown.len().saturating_sub(lines)).sum()
        };
        let airy = rows + gaps + 3 + beyond(2) <= usize::from(canvas.height());
        let height = if airy { rows + gaps + 3 + beyond(2) } else { rows + 3 + beyond(1).max(1) };
        let mut panel = panel(canvas, theme, (width, height as u16), &self.title);
        let mut cursor = None;
        let mut y = if airy { 2 } else { 1 };
        for (place, (field, shown)) in self.fields.iter().zip(shown).enumerate() {
            let focused = place == self.focus;
            let label = if focused { theme.key() } else { Style::new() };
            panel.text(3, y, &field.label, label);
            let mut line = panel.part(3 + LABEL, y, room, 1);
            let at = draw_input(&mut line, theme, &field.input, true);
            cursor = if focused { at } else { cursor };
            let style = if field.fault.is_some() { theme.bad() } else { theme.soft() };
            for (row, line) in (1..).zip(&shown) {
                panel.text(3 + LABEL, y + row, line, style);
            }
            y += 1 + (shown.len() as u16).max(1 + u16::from(airy));
        }
        for note in notes {
            panel.text(3, y, &note, Style::new());
            y += 1;
        }
        let last = panel.height().saturating_sub(if airy { 3 } else { 2 });
        let button = self.focus.checked_sub(self.fields.len());
        buttons(&mut panel, theme, last, [&CANCEL, &self.submit], button);
        cursor
    }
}

/// Whether a paste exceeds the limit of a field.
pub(crate) fn is_cut(input: &Input, event: &Event) -> bool {
    matches!(event, Event::Paste(text) if flat(text).nth(room(input)).is_some())
}

/// Applies a key or a paste to a text; returns whether the text changed.
pub(crate) fn typed(input: &mut Input, event: &Event) -> bool {
    let room = room(input);
    match event {
        Event::Paste(text) => {
            let mut changed = false;
            for c in flat(text).take(room) {
                changed |= input.handle(InputRequest::InsertChar(c)).is_some();
            }
            changed
        }
        _ => match to_input_request(event) {
            Some(InputRequest::InsertChar(c)) if is_display_control(c) || room == 0 => false,
            Some(request) => input.handle(request).is_some_and(|changed| changed.value),
            None => false,
        },
    }
}

fn room(input: &Input) -> usize {
    MOST.saturating_sub(input.value().chars().count())
}

/// Sanitizes a paste: a line break would be a control character in a title and becomes a space.
fn flat(paste: &str) -> impl Iterator<Item = char> {
    let mut before = ' ';
    let text = paste.trim_end_matches(['\r', '\n']).chars();
    let chars = text.filter(move |c| std::mem::replace(&mut before, *c) != '\r' || *c != '\n');
    chars.map(|c| if c.is_whitespace() { ' ' } else { c }).filter(|c| !is_display_control(*c))
}

/// Draws a text over the full width, scrolled to its cursor; returns the cursor position.
pub(crate) fn draw_input(
    canvas: &mut Canvas<'_>,
    theme: Theme,
    input: &Input,
    underlined: bool,
) -> Option<(u16, u16)> {
    let room = usize::from(canvas.width());
    let before: String = input.value().chars().take(input.cursor()).collect();
    let before = width(&before);
    let scroll = before.saturating_sub(room.saturating_sub(1));
    let mut skipped = 0;
    let shown: String = plain(input.value())
        .graphemes(true)
        .skip_while(|part| {
            let skip = skipped < scroll;
            skipped += if skip { width(part) } else { 0 };
            skip
        })
        .collect();
    let style = Style::new();
    let style =
        if underlined { style.add_modifier(ratatui::style::Modifier::UNDERLINED) } else { style };
    // Overflow is scrolled out: an ellipsis would look like part of the text.
    canvas.text(0, 0, &left(&shown, room.max(width(&shown)), theme.glyphs.ellipsis), style);
    let column = before.saturating_sub(skipped);
    canvas.on_screen(u16::try_from(column).unwrap_or(u16::MAX), 0)
}

#[cfg(test)]
mod tests {
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::*;
    use seckill_model::message::Label;

    fn press(c: char) -> Event {
        Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE))
    }

    #[test]
    fn a_paste_is_flattened_and_bounded() {
        let mut input = Input::default();
        assert!(typed(&mut input, &Event::Paste("火锅\r\nfor two\x1b\t!\n".into())));
        assert_eq!(input.value(), "火锅 for two !");
        typed(&mut input, &Event::Paste("x".repeat(5_000)));
        assert_eq!(input.value().chars().count(), MOST);
        assert!(!typed(&mut input, &press('y')));
    }

    #[test]
    fn enter_submits_from_the_last_field_and_the_button() {
        const NONE: Label = Label("common-empty");
        let mut form = Form::new("t".into(), NONE).field(NONE, NONE, "").field(NONE, NONE, "");
        let mut stops = Vec::new();
        for _ in 0..4 {
            stops.push((form.at_submit(), form.at_cancel()));
            form.step(true);
        }
        assert_eq!(stops, [(false, false), (true, false), (false, true), (true, false)]);
        form.step(false);
        assert!(form.at_submit());
    }
}
