//! A question before an act. The act is held here as data, by the identity of what it is about:
//! rows may move or vanish meanwhile.

use super::{buttons, panel};
use crate::{
    console::{
        text::acts::{CANCEL, Question},
        theme::Theme,
        widgets::{Pen, wrap},
    },
    engine::command::Command,
};

/// What is done when the answer is yes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Intent {
    Send(Command),
    Quit,
}

#[derive(Debug)]
pub(crate) struct Confirm {
    title: String,
    lines: Vec<String>,
    yes: String,
    pub(crate) intent: Intent,
    /// Cancel has the focus first: Enter by mistake does nothing.
    pub(crate) on_yes: bool,
}

impl Confirm {
    pub(crate) fn new(question: Question, intent: Intent) -> Self {
        let Question { title, lines, yes } = question;
        Self { title, lines, yes, intent, on_yes: false }
    }

    pub(crate) fn draw(&self, pen: &mut Pen<'_>, theme: Theme) {
        let width = pen.width().saturating_sub(4).min(66);
        let text: Vec<Vec<String>> = self
            .lines
            .iter()
            .map(|line| wrap(line, usize::from(width.saturating_sub(6))))
            .collect();
        let rows: usize = text.iter().map(Vec::len).sum();
        // Air between the sentences where there is room for it.
        let airy = rows + text.len() + 6 <= usize::from(pen.height());
        let height = rows + if airy { text.len() + 5 } else { 3 };
        let mut panel = panel(pen, theme, (width, height as u16), &self.title);
        let mut y = if airy { 2 } else { 1 };
        for (place, lines) in text.iter().enumerate() {
            for line in lines {
                let style = if place == 0 { theme.strong() } else { ratatui::style::Style::new() };
                panel.text(3, y, line, style);
                y += 1;
            }
            y += u16::from(airy);
        }
        let last = panel.height().saturating_sub(if airy { 3 } else { 2 });
        buttons(&mut panel, theme, last, [CANCEL, &self.yes], Some(usize::from(self.on_yes)));
    }
}
