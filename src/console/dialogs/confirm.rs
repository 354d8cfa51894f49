//! A question before an act. The act is held here as data, by the identity of what it is about:
//! rows may move or vanish meanwhile.

use ratatui::{crossterm::event::Event, style::Style};
use tui_input::Input;

use super::{buttons, draw_input, panel, typed};
use crate::{
    console::{
        text::acts::{CANCEL, Question, REASON, REASON_HINT},
        theme::Theme,
        widgets::{self, Pen, wrap},
    },
    engine::command::Command,
};

/// What is done when the answer is yes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Intent {
    Send(Box<Command>),
    Quit,
}

/// What has the focus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Cancel,
    Yes,
    Reason,
}

#[derive(Debug)]
pub(crate) struct Confirm {
    title: String,
    lines: Vec<String>,
    yes: String,
    pub(crate) intent: Intent,
    /// Cancel has the focus first: Enter by mistake does nothing.
    focus: Stop,
    /// Why it is done; acts of recovery are asked for it.
    reason: Option<Input>,
}

impl Confirm {
    /// The question before an act.
    pub(crate) fn act(question: Question, command: Command) -> Self {
        Self::new(question, Intent::Send(Box::new(command)))
    }

    pub(crate) fn new(question: Question, intent: Intent) -> Self {
        let Question { title, lines, yes } = question;
        let recovery = matches!(&intent, Intent::Send(command) if command.is_recovery());
        let reason = recovery.then(Input::default);
        Self { title, lines, yes, intent, focus: Stop::Cancel, reason }
    }

    /// Enter does the act.
    pub(crate) fn on_yes(&self) -> bool {
        self.focus == Stop::Yes
    }

    /// Letters are text and no answer.
    pub(crate) fn in_reason(&self) -> bool {
        self.focus == Stop::Reason
    }

    pub(crate) fn leave_reason(&mut self) {
        self.focus = Stop::Cancel;
    }

    pub(crate) fn step(&mut self, forward: bool) {
        let stops: &[Stop] = match self.reason {
            // Tab goes there, as the field says: whoever types after it types no answer.
            Some(_) => &[Stop::Cancel, Stop::Reason, Stop::Yes],
            None => &[Stop::Cancel, Stop::Yes],
        };
        let at = stops.iter().position(|stop| *stop == self.focus).unwrap_or(0);
        let by = if forward { 1 } else { stops.len() - 1 };
        self.focus = stops.get((at + by) % stops.len()).copied().unwrap_or(Stop::Cancel);
    }

    /// Types into the reason, where that has the focus.
    pub(crate) fn type_in(&mut self, event: &Event) {
        if let Some(reason) = self.reason.as_mut().filter(|_| self.focus == Stop::Reason) {
            typed(reason, event);
        }
    }

    /// What was typed, if anything was.
    pub(crate) fn reason(&self) -> Option<String> {
        let reason = self.reason.as_ref()?.value().trim();
        (!reason.is_empty()).then(|| reason.to_owned())
    }

    /// Draws the question; says where the cursor stands, if anywhere.
    pub(crate) fn draw(&self, pen: &mut Pen<'_>, theme: Theme) -> Option<(u16, u16)> {
        const LABEL: u16 = 9;
        let width = pen.width().saturating_sub(4).min(66);
        let text: Vec<Vec<String>> = self
            .lines
            .iter()
            .map(|line| {
                let room = usize::from(width.saturating_sub(6));
                // A line that fits stays as it is: counts stand below each other.
                if widgets::width(line) <= room { vec![line.clone()] } else { wrap(line, room) }
            })
            .collect();
        let rows: usize = text.iter().map(Vec::len).sum();
        let field = usize::from(self.reason.is_some());
        // Lines of one list stand together.
        let in_list = |place: usize| {
            let of_list = |line: Option<&String>| line.is_some_and(|line| line.starts_with(' '));
            of_list(self.lines.get(place)) && of_list(self.lines.get(place + 1))
        };
        let gaps = (0..text.len()).filter(|place| !in_list(*place)).count();
        // Air between the sentences where there is room for it.
        let airy = rows + gaps + 2 * field + 6 <= usize::from(pen.height());
        let height = if airy { rows + gaps + 2 * field + 5 } else { rows + field + 3 };
        let mut panel = panel(pen, theme, (width, height as u16), &self.title);
        let last = panel.height().saturating_sub(if airy { 3 } else { 2 });
        let field_at = last.saturating_sub(if airy { 2 } else { 1 });
        let end = if self.reason.is_some() { field_at } else { last };
        let mut y = if airy { 2 } else { 1 };
        for (place, lines) in text.iter().enumerate() {
            for line in lines {
                let style = if place == 0 { theme.strong() } else { Style::new() };
                // In a window without room the first sentence and the buttons count.
                if y < end {
                    panel.text(3, y, line, style);
                }
                y += 1;
            }
            y += u16::from(airy && !in_list(place));
        }
        let cursor = self.reason.as_ref().and_then(|reason| {
            let focused = self.in_reason();
            let label = if focused { theme.key() } else { Style::new() };
            panel.text(3, field_at, &REASON, label);
            let room = panel.width().saturating_sub(LABEL + 6);
            let mut line = panel.part(3 + LABEL, field_at, room, 1);
            if reason.value().is_empty() && !focused {
                line.text(0, 0, &REASON_HINT, theme.soft());
                return None;
            }
            draw_input(&mut line, theme, reason, true).filter(|_| focused)
        });
        let focus = match self.focus {
            Stop::Cancel => Some(0),
            Stop::Yes => Some(1),
            Stop::Reason => None,
        };
        buttons(&mut panel, theme, last, [&CANCEL, &self.yes], focus);
        cursor
    }
}
