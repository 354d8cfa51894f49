//! Text fields, each with its error below it.

use ratatui::{
    crossterm::event::Event,
    layout::Constraint::{Fill, Length},
    prelude::*,
    widgets::Paragraph,
};
use seckill_engine::{commands::group::ClaimScope, error::MAX_REASON};
use seckill_model::{Label, VoucherId, is_display_control};
use tui_input::{Input, InputRequest, backend::crossterm::to_input_request};

use super::{Effect, LABEL, buttons};
use crate::{
    keymap::Action,
    text::commands::CANCEL,
    views::scene::{COMPLETE, Scene},
    widgets::{fit, plain, popup, wrap},
};

/// Maximum number of characters in a field, the same as in a reason in the log; limits accidental pastes.
pub(crate) const MOST: usize = MAX_REASON;

/// Rows of the notes below the fields, if there are any.
const NOTES: u16 = 3;

/// What a form is for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Subject {
    NewSale,
    LoadTest(VoucherId),
    Restock(VoucherId),
    /// A launch, opened for this planned sale.
    Launch(Option<VoucherId>),
    /// A rewind in this partition, or in all.
    Rewind(Option<u16>),
    Claim(ClaimScope),
    LabWork,
}

#[derive(Debug)]
pub(crate) struct Field {
    label: Label,
    hint: Label,
    /// The text before the user changed it.
    initial: String,
    /// The next character replaces the text, which is shown as selected.
    is_selected: bool,
    pub(crate) input: Input,
}

/// Fields and two buttons; the focus is an index over all of them.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) subject: Subject,
    title: String,
    pub(crate) fields: Vec<Field>,
    submit: Label,
    pub(crate) focus: usize,
    /// The field with an error, and the error.
    pub(crate) fault: Option<(usize, String)>,
}

impl Form {
    /// A form whose fields have a label, a hint and a text.
    pub(super) fn new(
        subject: Subject,
        title: String,
        submit: Label,
        fields: &[(Label, Label, &str)],
    ) -> Self {
        let field = |(label, hint, text): &(Label, Label, &str)| {
            let (initial, input) = ((*text).to_owned(), (*text).into());
            let is_selected = !text.is_empty();
            let (label, hint) = (*label, *hint);
            Field { label, hint, initial, is_selected, input }
        };
        let fields = fields.iter().map(field).collect();
        Self { subject, title, fields, submit, focus: 0, fault: None }
    }

    /// The text of a field, without blanks around it.
    pub(crate) fn value(&self, field: usize) -> &str {
        self.fields.get(field).map_or("", |field| field.input.value().trim())
    }

    /// The user has changed a field.
    pub(crate) fn is_changed(&self) -> bool {
        self.fields.iter().any(|field| field.input.value().trim() != field.initial)
    }

    /// On the last field and the submit button, Enter submits the form.
    pub(crate) fn at_submit(&self) -> bool {
        self.focus + 1 == self.fields.len() || self.focus == self.fields.len() + 1
    }

    /// The focus is on a button, so letters and arrows can navigate.
    pub(crate) fn is_on_button(&self) -> bool {
        self.focus >= self.fields.len()
    }

    /// Esc, or Enter on Cancel.
    pub(crate) fn is_left_by(&self, action: Action) -> bool {
        let is_on_cancel = self.focus == self.fields.len();
        action == Action::Cancel || (action == Action::Press && is_on_cancel)
    }

    /// Types into the focused field. An input error is shown at once; an empty field is not an error yet.
    pub(crate) fn type_in(&mut self, event: &Event, scene: &Scene) {
        let Some(field) = self.fields.get_mut(self.focus) else { return };
        let inserts = matches!(to_input_request(event), Some(InputRequest::InsertChar(_)));
        if std::mem::take(&mut field.is_selected) && (inserts || matches!(event, Event::Paste(_))) {
            field.input.reset();
        }
        if !typed(&mut field.input, event) {
            return;
        }
        let fault = match self.subject {
            // These are checked at submission only, against the state at that time.
            Subject::Rewind(_) | Subject::Claim(_) => None,
            _ => self.check(scene).err(),
        };
        self.fault = fault.filter(|(place, _)| !self.value(*place).is_empty());
    }

    /// Returns the effect of a valid form; otherwise moves the focus to the field with the error.
    pub(crate) fn submit(&mut self, scene: &Scene) -> Option<Effect> {
        match self.check(scene) {
            Ok(effect) => Some(effect),
            Err(fault) => {
                self.focus = fault.0;
                self.fault = Some(fault);
                None
            }
        }
    }

    /// The focused field, unless a button has the focus.
    pub(crate) fn input(&mut self) -> Option<&mut Input> {
        self.fields.get_mut(self.focus).map(|field| &mut field.input)
    }

    /// Draws the form with notes under its fields; returns the cursor position. The height depends on the window only,
    /// as long as no error takes more than two rows: an error replaces the hint.
    pub(crate) fn draw(&self, area: Rect, buffer: &mut Buffer, scene: &Scene) -> Option<Position> {
        let theme = scene.theme;
        let width = area.width.saturating_sub(4).min(66);
        let room = usize::from(width.saturating_sub(16));
        let count = self.fields.len() as u16;
        let notes = self.notes().into_iter();
        let notes = notes.flat_map(|it| wrap(&it, usize::from(width.saturating_sub(6))));
        let notes: Vec<String> = notes.collect();
        let note_rows = if notes.is_empty() { 0 } else { NOTES };
        let fits = |rows: u16, air: u16| count * rows + 1 + note_rows + 3 + 2 * air <= area.height;
        // Blank lines between the fields, unless the window is compact.
        let air = u16::from(area.height >= COMPLETE.1 && fits(3, 1));
        // With many fields in a low window, only the focused one has its hint.
        let has_hints = fits(2, air);
        let below = |(place, field): (usize, &Field)| match &self.fault {
            Some((at, fault)) if *at == place => (wrap(fault, room), theme.bad),
            _ if !has_hints && (place != self.focus || self.fault.is_some()) => {
                (Vec::new(), theme.soft)
            }
            _ => {
                let sale = self.planned_sale(scene).filter(|_| place == 0);
                (vec![sale.map_or_else(|| field.hint.to_string(), |it| fit(&it, room))], theme.soft)
            }
        };
        let shown: Vec<(Vec<String>, Style)> = self.fields.iter().enumerate().map(below).collect();
        let row = if has_hints { 2 + air } else { 1 };
        let heights = shown.iter().map(|(lines, _)| (1 + lines.len() as u16).max(row));
        // One row is reserved for the second line of an error.
        let least = count * row + if has_hints { 1 } else { 2 };
        let size = (width, heights.clone().sum::<u16>().max(least) + note_rows + 3 + 2 * air);
        let inside = popup(area, buffer, theme, size, &self.title, []);
        let heights = heights.chain([note_rows]).map(Length);
        let rows = Layout::vertical(heights.chain([Fill(1), Length(1)]))
            .split(inside.inner(Margin::new(2, air)));
        let mut cursor = None;
        let fields = self.fields.iter().zip(&shown).zip(&*rows).enumerate();
        for (place, ((field, (lines, note_style)), area)) in fields {
            let [label, value] = Layout::horizontal([LABEL, Fill(1)]).areas(*area);
            let [input, below] = Layout::vertical([Length(1), Fill(1)]).areas(value);
            let focused = place == self.focus;
            let style = if focused { theme.key } else { Style::new() };
            Span::styled(&*field.label, style).render(label, buffer);
            let is_selected = focused && field.is_selected;
            let style = if is_selected { theme.selected } else { Style::new().underlined() };
            let at = draw_input(input, buffer, &field.input, style);
            cursor = at.filter(|_| focused).or(cursor);
            Paragraph::new(lines.join("\n")).style(*note_style).render(below, buffer);
        }
        let button = self.focus.checked_sub(self.fields.len());
        if let [.., note_area, _, button_area] = &*rows {
            Paragraph::new(notes.join("\n")).render(*note_area, buffer);
            buttons(theme, [&CANCEL, &self.submit], button).render(*button_area, buffer);
        }
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
    area: Rect,
    buffer: &mut Buffer,
    input: &Input,
    style: Style,
) -> Option<Position> {
    let before: String = input.value().chars().take(input.cursor()).collect();
    let shown = Input::from(plain(input.value()).into_owned());
    let shown = shown.with_cursor(plain(&before).chars().count());
    // Whole characters: half a wide one is not drawn.
    let scroll = shown.visual_scroll(usize::from(area.width.saturating_sub(1)));
    let text = Paragraph::new(shown.value()).style(style);
    text.scroll((0, scroll as u16)).render(area, buffer);
    let column = u16::try_from(shown.visual_cursor().saturating_sub(scroll)).ok()?;
    (column < area.width && area.height > 0).then(|| Position::new(area.x + column, area.y))
}

#[cfg(test)]
mod tests {
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::*;

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
        let fields = [(NONE, NONE, ""); 2];
        let mut form = Form::new(Subject::NewSale, "t".into(), NONE, &fields);
        let stops = [0, 1, 2, 3].map(|stop| {
            form.focus = stop;
            (form.at_submit(), form.is_left_by(Action::Press))
        });
        assert_eq!(stops, [(false, false), (true, false), (false, true), (true, false)]);
    }
}
