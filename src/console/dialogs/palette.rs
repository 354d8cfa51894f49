//! The palette: an action by its name, for whom does not know the key yet.

use ratatui::{crossterm::event::Event, style::Style};
use tui_input::Input;

use super::{draw_input, panel, typed};
use crate::console::{
    keymap::{Action, Context, actions, key_of},
    text,
    theme::Theme,
    widgets::{Pen, right},
};

#[derive(Debug)]
pub(crate) struct Palette {
    input: Input,
    names: Vec<(Action, &'static str)>,
    cursor: usize,
}

impl Palette {
    /// All named actions that hold in `context`.
    pub(crate) fn new(context: Context) -> Self {
        let names = actions(context)
            .into_iter()
            .filter_map(|action| text::action(action).2.map(|name| (action, name)))
            .collect();
        Self { input: Input::default(), names, cursor: 0 }
    }

    pub(crate) fn type_in(&mut self, event: &Event) {
        if typed(&mut self.input, event) {
            self.cursor = 0;
        }
    }

    pub(crate) fn step(&mut self, forward: bool) {
        let count = self.matches().len().max(1);
        self.cursor = (self.cursor + if forward { 1 } else { count - 1 }) % count;
    }

    pub(crate) fn chosen(&self) -> Option<Action> {
        self.matches().get(self.cursor).map(|(action, _)| *action)
    }

    /// Names that fit what was typed, the best first.
    fn matches(&self) -> Vec<(Action, &'static str)> {
        let wanted = self.input.value().trim().to_lowercase();
        let mut found: Vec<_> = self
            .names
            .iter()
            .filter_map(|(action, name)| {
                // Who knows the English name need not switch the keyboard.
                let english = text::english_name(*action).and_then(|name| rank(name, &wanted));
                let rank = rank(name, &wanted).into_iter().chain(english).min();
                rank.map(|rank| (rank, *action, *name))
            })
            .collect();
        // Stable: equals keep the order of the keymap.
        found.sort_by_key(|(rank, ..)| *rank);
        found.into_iter().map(|(_, action, name)| (action, name)).collect()
    }

    pub(crate) fn draw(&self, pen: &mut Pen<'_>, theme: Theme) -> Option<(u16, u16)> {
        let rows = (self.names.len() as u16 + 4).min(14).min(pen.height().saturating_sub(2));
        let width = pen.width().saturating_sub(4).min(46);
        let mut panel = panel(pen, theme, (width, rows), &text::PALETTE_TITLE);
        let inner = width.saturating_sub(6);
        panel.text(3, 1, ":", theme.key());
        let cursor = draw_input(
            &mut panel.part(5, 1, inner.saturating_sub(2), 1),
            theme,
            &self.input,
            false,
        );
        let matches = self.matches();
        if matches.is_empty() {
            panel.text(3, 3, &text::NO_COMMAND, theme.soft());
        }
        let room = usize::from(rows.saturating_sub(4));
        let first = (self.cursor + 1).saturating_sub(room);
        for (row, (action, name)) in matches.iter().enumerate().skip(first).take(room) {
            let mut line = panel.part(3, (row - first) as u16 + 3, inner, 1);
            line.text(0, 0, name, Style::new());
            let key = right(&key_of(*action), 8, theme.glyphs.ellipsis);
            line.text(inner.saturating_sub(8), 0, &key, theme.key());
            if row == self.cursor {
                line.tint(0, Style::reset());
                line.tint(0, theme.selected());
            }
        }
        cursor
    }
}

/// How well a name fits: it begins so, a word of it begins so, it holds the letters in that order.
fn rank(name: &str, wanted: &str) -> Option<u8> {
    if name.starts_with(wanted) {
        return Some(0);
    }
    if name.split(' ').any(|word| word.starts_with(wanted)) {
        return Some(1);
    }
    let mut letters = name.chars();
    wanted.chars().all(|c| letters.any(|l| l == c)).then_some(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_come_before_letters() {
        let mut palette = Palette::new(Context::Sales);
        palette.input = "r".into();
        let names: Vec<_> = palette.matches().into_iter().map(|(_, name)| name).collect();
        assert_eq!(names.first(), Some(&"rush"));
        assert!(names.contains(&"pause / resume"));
        palette.input = "nsl".into();
        assert_eq!(palette.chosen(), Some(Action::NewSale));
        palette.input = "zzz".into();
        assert_eq!(palette.chosen(), None);
    }

    #[test]
    fn only_what_holds_here_is_offered() {
        let here = |context| {
            let palette = Palette::new(context);
            palette.names.iter().any(|(action, _)| *action == Action::Replay)
        };
        assert!(here(Context::Pending));
        assert!(!here(Context::Sales));
    }
}
