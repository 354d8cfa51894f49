//! A key as the terminal reports it, as it is printed on the keyboard, and as the settings name it.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use seckill_model::{Label, text};

/// A key code with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(super) code: KeyCode,
    pub(super) modifiers: KeyModifiers,
}

/// Special keys: the name in the settings, and the label.
const NAMED: [(&str, &str, KeyCode); 16] = [
    ("enter", "Enter", KeyCode::Enter),
    ("esc", "Esc", KeyCode::Esc),
    ("tab", "Tab", KeyCode::Tab),
    ("shift-tab", "Shift-Tab", KeyCode::BackTab),
    ("space", "Space", KeyCode::Char(' ')),
    ("up", "↑", KeyCode::Up),
    ("down", "↓", KeyCode::Down),
    ("left", "←", KeyCode::Left),
    ("right", "→", KeyCode::Right),
    ("pageup", "PgUp", KeyCode::PageUp),
    ("pagedown", "PgDn", KeyCode::PageDown),
    ("home", "Home", KeyCode::Home),
    ("end", "End", KeyCode::End),
    ("insert", "Insert", KeyCode::Insert),
    ("delete", "Del", KeyCode::Delete),
    ("backspace", "Backspace", KeyCode::Backspace),
];

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

    /// Its label on the keyboard.
    pub(crate) fn label(self) -> String {
        let name = match (self.named(), self.code) {
            (Some((_, label, _)), _) => label.to_owned(),
            (None, KeyCode::Char(c)) if self.modifiers.contains(KeyModifiers::CONTROL) => {
                c.to_ascii_uppercase().to_string()
            }
            (None, other) => other.to_string(),
        };
        self.modified(["Ctrl-", "Alt-"], &name)
    }

    /// Its name in the settings.
    pub(super) fn setting(self) -> String {
        let name = match (self.named(), self.code) {
            (Some((name, ..)), _) => name.to_owned(),
            (None, KeyCode::F(number)) => format!("f{number}"),
            (None, other) => other.to_string(),
        };
        self.modified(["ctrl-", "alt-"], &name)
    }

    fn named(self) -> Option<(&'static str, &'static str, KeyCode)> {
        NAMED.into_iter().find(|(.., code)| *code == self.code)
    }

    fn modified(self, prefixes: [&str; 2], name: &str) -> String {
        let modifiers = [KeyModifiers::CONTROL, KeyModifiers::ALT].into_iter();
        let held =
            modifiers.zip(prefixes).filter(|(modifier, _)| self.modifiers.contains(*modifier));
        held.map(|(_, prefix)| prefix).chain([name]).collect()
    }

    /// Parses a name of the settings: `a`, `A`, `ctrl-n`, `alt-x`, `f5`, `pageup`. The crokey crate reads `A` as `a`,
    /// but capital letters are commands here.
    pub(super) fn parse(written: &str) -> Result<Self, String> {
        let unknown = || {
            let shown: String = written.chars().filter(|c| !c.is_control()).take(20).collect();
            let names = NAMED.map(|(name, ..)| name).join(&Label("list-items"));
            text!("settings-is-not-key-use-character", shown, names)
        };
        let mut modifiers = KeyModifiers::NONE;
        let mut rest = written;
        for (prefix, modifier) in [("ctrl-", KeyModifiers::CONTROL), ("alt-", KeyModifiers::ALT)] {
            if let Some(after) = rest.strip_prefix(prefix) {
                modifiers |= modifier;
                rest = after;
            }
        }
        let named = NAMED.into_iter().find(|(name, ..)| *name == rest).map(|(.., code)| code);
        let function = rest.strip_prefix('f').and_then(|number| number.parse().ok());
        let mut chars = rest.chars();
        let code = match (chars.next(), chars.next(), named, function) {
            (_, _, Some(code), _) => code,
            (Some(c), None, ..) if !c.is_control() && !c.is_whitespace() => KeyCode::Char(c),
            (.., Some(number @ 1..=12)) => KeyCode::F(number),
            _ => return Err(unknown()),
        };
        if modifiers.contains(KeyModifiers::CONTROL) {
            return match code {
                KeyCode::Char(c) if c.is_ascii_alphabetic() && !"iImM".contains(c) => {
                    Ok(Self { code: KeyCode::Char(c.to_ascii_lowercase()), modifiers })
                }
                _ => Err(text!("settings-ctrl-can-only-be-combined", written)),
            };
        }
        if code == KeyCode::BackTab && !modifiers.is_empty() {
            return Err(unknown());
        }
        Ok(Self { code, modifiers })
    }
}
