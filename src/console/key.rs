//! A key as the terminal reports it and as it is printed on the keyboard.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A key code with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(super) code: KeyCode,
    pub(super) modifiers: KeyModifiers,
}

impl Key {
    /// Drops Shift for characters: a capital letter implies it, and terminals differ in whether they report it.
    pub(crate) fn of(event: &KeyEvent) -> Self {
        let mut modifiers =
            event.modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT);
        if matches!(event.code, KeyCode::Char(_) | KeyCode::BackTab) {
            modifiers.remove(KeyModifiers::SHIFT);
        }
        Self { code: event.code, modifiers }
    }

    /// Returns the key's label.
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
