//! One key, as a terminal tells it and as it stands on the keyboard. It must not know what keys are for.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A key with the modifiers that tell it from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(super) code: KeyCode,
    pub(super) modifiers: KeyModifiers,
}

impl Key {
    /// Shift is part of a capital letter already, and terminals differ in whether they say so.
    pub(crate) fn of(event: &KeyEvent) -> Self {
        let mut modifiers =
            event.modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT);
        if matches!(event.code, KeyCode::Char(_) | KeyCode::BackTab) {
            modifiers.remove(KeyModifiers::SHIFT);
        }
        Self { code: event.code, modifiers }
    }

    /// As it stands on the keyboard.
    pub(crate) fn label(self) -> String {
        let name = match self.code {
            KeyCode::Char(' ') => "Space".to_owned(),
            KeyCode::Char(c) if self.modifiers.contains(KeyModifiers::CONTROL) => {
                c.to_ascii_uppercase().to_string()
            }
            KeyCode::Char(c) => c.to_string(),
            KeyCode::Up => "↑".to_owned(),
            KeyCode::Down => "↓".to_owned(),
            KeyCode::Left => "←".to_owned(),
            KeyCode::Right => "→".to_owned(),
            KeyCode::PageUp => "PgUp".to_owned(),
            KeyCode::PageDown => "PgDn".to_owned(),
            KeyCode::BackTab => "Shift-Tab".to_owned(),
            other => other.to_string(),
        };
        let control = if self.modifiers.contains(KeyModifiers::CONTROL) { "Ctrl-" } else { "" };
        let alt = if self.modifiers.contains(KeyModifiers::ALT) { "Alt-" } else { "" };
        format!("{control}{alt}{name}")
    }
}
