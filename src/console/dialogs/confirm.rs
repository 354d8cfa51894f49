//! Asks for confirmation of a command. It holds the command as data, by the identity of its subject: rows may move or
//! vanish meanwhile.

use ratatui::{
    crossterm::event::{Event, KeyEvent},
    layout::Constraint::{Fill, Length},
    prelude::*,
    widgets::Paragraph,
};
use seckill_engine::{
    Command,
    commands::{audit_record, plan::Plan},
};
use seckill_model::{Millis, NewSale, VoucherId, text};
use strum::VariantArray as _;
use tui_input::{Input, InputRequest, backend::crossterm::to_input_request};

use super::{Form, LABEL, buttons, draw_input, typed};
use crate::{
    launch::Launch,
    text::commands::{CANCEL, Question, REASON},
    theme::Theme,
    widgets::{self, plain, popup, wrap},
};

/// What a confirmation does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Intent {
    Send(Box<Command>),
    /// Counts down to a launch.
    Arm(Box<Launch>),
    /// Fires the armed launch.
    Fire,
    /// Aborts the launch before it fires.
    Disarm,
    /// Stops the load tests on a sale, and pauses the sale.
    Abort {
        voucher: VoucherId,
        pauses: bool,
    },
    Quit,
    /// Stops the process until the shell continues it.
    Suspend,
}

impl Intent {
    /// The command to send.
    pub(crate) fn command(&self) -> Option<&Command> {
        match self {
            Self::Send(command) => Some(command),
            _ => None,
        }
    }

    /// The command, or what it leads to, is recorded in the audit log.
    fn is_recorded(&self) -> bool {
        match self {
            Self::Send(command) => command.is_recorded(),
            Self::Arm(_) | Self::Fire | Self::Abort { .. } => true,
            Self::Disarm | Self::Quit | Self::Suspend => false,
        }
    }
}

/// Above this number of entries a single key is not enough.
const LARGE: u64 = 1_000;
/// Above this number of buyers, a load test requires the number to be typed.
const CROWD: u64 = 100_000;
/// How long a question that opened automatically ignores a confirmation, in milliseconds.
const UNREAD_MS: u64 = 400;
/// Cells for the number.
const DIGITS: u16 = 12;

/// The number of entries of a command, if it is known and large.
fn large(intent: &Intent) -> Option<u64> {
    let (count, limit) = match intent.command()? {
        Command::Apply(plan, _) => (plan.totals.to_do(), LARGE),
        Command::Rewind(parts) => (parts.iter().map(|part| part.again).sum(), LARGE),
        Command::Claim(plan) => (plan.count(), LARGE),
        Command::LoadTest(plan) => (plan.users, CROWD),
        _ => return None,
    };
    (count > limit).then_some(count)
}

/// The focused element. Tab moves to the reason before the button, as its hint says, so that typing a reason does not
/// answer the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray)]
enum Stop {
    Cancel,
    /// The number: once it is correct, Enter runs the command.
    Number,
    Reason,
    Yes,
}

#[derive(Debug)]
pub(crate) struct Confirm {
    question: Question,
    /// What has changed since the question was asked.
    pub(crate) note: String,
    pub(crate) intent: Intent,
    /// The form that asked, to which cancelling returns.
    pub(crate) form: Option<Box<Form>>,
    /// Cancel has the focus first: an accidental Enter does nothing.
    focus: Stop,
    /// The number that has to be typed, and the input.
    number: Option<(u64, Input)>,
    /// The reason, for commands in the audit log; may stay empty.
    reason: Option<Input>,
    /// When it opened automatically: a key meant for the view is not an answer.
    unbidden: Option<Millis>,
}

impl Confirm {
    /// Asks for confirmation of a command.
    pub(crate) fn command(question: Question, command: Command) -> Self {
        Self::new(question, Intent::Send(Box::new(command)))
    }

    pub(crate) fn new(question: Question, intent: Intent) -> Self {
        let reason = intent.is_recorded().then(Input::default);
        let number = large(&intent).map(|count| (count, Input::default()));
        let focus = if number.is_some() { Stop::Number } else { Stop::Cancel };
        let note = String::new();
        Self { question, note, intent, form: None, focus, number, reason, unbidden: None }
    }

    /// The sale that a confirmation affects.
    pub(crate) fn sale(&self) -> Option<VoucherId> {
        match &self.intent {
            Intent::Send(command) => audit_record::about(command),
            Intent::Abort { voucher, .. } => Some(*voucher),
            Intent::Arm(launch) => launch.planned,
            // The header names what is armed.
            Intent::Fire | Intent::Disarm | Intent::Quit | Intent::Suspend => None,
        }
    }

    /// Whether it asks about suspending the console.
    pub(crate) fn is_suspension(&self) -> bool {
        matches!(self.intent, Intent::Suspend)
    }

    /// Marks a question that opens with a reply of the engine, while the user may be doing something else.
    #[must_use]
    pub(crate) fn unbidden(mut self, now: Millis) -> Self {
        self.unbidden = Some(now);
        self
    }

    /// Too recent to have been read.
    pub(crate) fn is_unread(&self, now: Millis) -> bool {
        self.unbidden.is_some_and(|came| now.since(came) < UNREAD_MS)
    }

    /// Sets the number of dead letters in question, which the command alone does not contain.
    #[must_use]
    pub(crate) fn about(mut self, count: u64) -> Self {
        let all_counts =
            matches!(self.intent.command(), Some(Command::DiscardLetters { compensate: true, .. }));
        if all_counts || count > LARGE {
            self.number = Some((count, Input::default()));
            self.focus = Stop::Number;
        }
        self
    }

    /// The number that still has to be typed.
    pub(crate) fn number_missing(&self) -> Option<u64> {
        let (count, number) = self.number.as_ref()?;
        (number.value().parse() != Ok(*count)).then_some(*count)
    }

    /// Edits the number, unless the reason has the focus; returns whether it took the key. Arrows move between the
    /// buttons.
    pub(crate) fn takes_digit(&mut self, key: &KeyEvent) -> bool {
        if self.focus == Stop::Reason {
            return false;
        }
        let Some((_, number)) = &mut self.number else { return false };
        let event = Event::Key(*key);
        match to_input_request(&event) {
            None | Some(InputRequest::GoToPrevChar | InputRequest::GoToNextChar) => return false,
            // A comma, as in the question.
            Some(InputRequest::InsertChar(',')) => {}
            Some(InputRequest::InsertChar(c)) if !c.is_ascii_digit() => return false,
            Some(_) => {
                typed(number, &event);
            }
        }
        self.focus = Stop::Number;
        true
    }

    /// Enter runs the command, or reports what is missing.
    pub(crate) fn on_yes(&self) -> bool {
        matches!(self.focus, Stop::Yes | Stop::Number)
    }

    /// Letters are text, not answers.
    pub(crate) fn in_reason(&self) -> bool {
        self.focus == Stop::Reason
    }

    pub(crate) fn leave_reason(&mut self) {
        self.focus = if self.number.is_some() { Stop::Number } else { Stop::Cancel };
    }

    pub(crate) fn step(&mut self, forward: bool) {
        let is_there = |stop: &&Stop| match stop {
            Stop::Number => self.number.is_some(),
            Stop::Reason => self.reason.is_some(),
            Stop::Cancel | Stop::Yes => true,
        };
        let stops: Vec<_> = Stop::VARIANTS.iter().filter(is_there).collect();
        let at = stops.iter().position(|stop| **stop == self.focus).unwrap_or(0);
        let by = if forward { 1 } else { stops.len() - 1 };
        self.focus = *stops[(at + by) % stops.len()];
    }

    /// The focused text input.
    pub(crate) fn input(&mut self) -> Option<&mut Input> {
        self.reason.as_mut().filter(|_| self.focus == Stop::Reason)
    }

    /// The typed reason, if any.
    pub(crate) fn reason(&self) -> Option<String> {
        let reason = self.reason.as_ref()?.value().trim();
        (!reason.is_empty()).then(|| reason.to_owned())
    }

    /// The recovery plan that it would apply.
    pub(crate) fn plan(&self) -> Option<&Plan> {
        match self.intent.command()? {
            Command::Apply(plan, _) => Some(plan),
            _ => None,
        }
    }

    /// The sale that it would create.
    pub(crate) fn creates(&self) -> Option<&NewSale> {
        match self.intent.command()? {
            Command::CreateSale(sale) => Some(sale),
            _ => None,
        }
    }

    /// Draws the question; returns the cursor position, if any.
    pub(crate) fn draw(&self, area: Rect, buffer: &mut Buffer, theme: Theme) -> Option<Position> {
        let width = area.width.saturating_sub(4).min(66);
        let room = usize::from(width.saturating_sub(6));
        let lines = &self.question.lines;
        let mut text: Vec<Line<'_>> = Vec::new();
        for (place, line) in lines.iter().enumerate() {
            let style = if place == 0 { theme.strong } else { Style::new() };
            // A line that fits is kept as it is: counts are aligned.
            let rows = if widgets::width(line) <= room {
                vec![plain(line).into_owned()]
            } else {
                wrap(line, room)
            };
            text.extend(rows.into_iter().map(|row| Line::styled(row, style)));
            // Lines of one list stay together.
            let is_listed = |place: usize| lines.get(place).is_some_and(|it| it.starts_with(' '));
            if !(is_listed(place) && is_listed(place + 1)) {
                text.push(Line::default());
            }
        }
        if !self.note.is_empty() {
            let rows = wrap(&self.note, room).into_iter();
            text.extend(rows.map(|row| Line::styled(row, theme.warn)));
            text.push(Line::default());
        }
        let [number, reason] = [self.number.is_some(), self.reason.is_some()].map(u16::from);
        // Blank lines between the sentences if there is room.
        let air = u16::from(text.len() as u16 + 2 * (number + reason) + 6 <= area.height);
        if air == 0 {
            text.retain(|line| line.width() > 0);
        }
        let [number, reason] = [number, reason].map(|rows| rows * (1 + air));
        let size = (width, text.len() as u16 + number + reason + 3 + 2 * air);
        let inside = popup(area, buffer, theme, size, &self.question.title, []);
        // In a small window the first sentence and the buttons take precedence.
        let rows = Layout::vertical([Fill(1), Length(number), Length(reason), Length(1)]);
        let [question, number, reason, buttons_row] = rows.areas(inside.inner(Margin::new(2, air)));
        Paragraph::new(text).render(question, buffer);
        let number_cursor = self.draw_number(number, buffer, theme);
        let reason_cursor = self.draw_reason(reason, buffer, theme);
        let focus = match self.focus {
            Stop::Cancel => Some(0),
            Stop::Yes => Some(1),
            Stop::Number => self.number_missing().is_none().then_some(1),
            Stop::Reason => None,
        };
        buttons(theme, [&CANCEL, &self.question.yes], focus).render(buttons_row, buffer);
        if self.in_reason() { reason_cursor } else { number_cursor }
    }

    fn draw_number(&self, area: Rect, buffer: &mut Buffer, theme: Theme) -> Option<Position> {
        let (count, number) = self.number.as_ref()?;
        let style = if self.number_missing().is_some() { theme.warn } else { theme.good };
        let wanted = Span::styled(text!("conventions-type-to-confirm", count), style);
        let columns = Layout::horizontal([Length(wanted.width() as u16), Length(DIGITS)]);
        let [label, field] = columns.spacing(2).areas(area);
        wanted.render(label, buffer);
        draw_input(field, buffer, number, Style::new().underlined())
    }

    /// Without a cursor unless the reason has the focus.
    fn draw_reason(&self, area: Rect, buffer: &mut Buffer, theme: Theme) -> Option<Position> {
        let reason = self.reason.as_ref()?;
        let [label, field] = Layout::horizontal([LABEL, Fill(1)]).areas(area);
        let style = if self.in_reason() { theme.key } else { Style::new() };
        Span::styled(&*REASON, style).render(label, buffer);
        if reason.value().is_empty() && !self.in_reason() {
            Span::styled(text!("command-optional-for-log-to-edit"), theme.soft)
                .render(field, buffer);
            return None;
        }
        draw_input(field, buffer, reason, Style::new().underlined())
    }
}
