//! The default key bindings, and custom ones: `[keys]` of the settings, applied to them.
//!
//! A configuration is applied as a whole or rejected as a whole.

use std::{collections::BTreeMap, sync::LazyLock};

use crossterm::event::KeyCode;
use seckill_model::text;
use serde::Deserialize;
use strum::VariantArray as _;
use toml::Spanned;

use super::{
    keymap::{self, Action, Binding, COMMON, Context, FIRST, Key, LAST, Row, distinct},
    view::View,
    views::keys_of as keys_of_view,
};

/// The default bindings as they are written, in the order of the help screen.
pub(super) fn rows() -> impl Iterator<Item = Row> {
    let of_view = |view: &View| {
        let view = *view;
        let keys = keys_of_view(view).into_iter();
        keys.map(move |(action, keys, footer)| (Context::View(view), action, keys, footer))
    };
    let go = |view: View| (Context::Views, Action::Go(view), view.key(), false);
    let first = FIRST.iter().copied().chain(View::VARIANTS.iter().flat_map(of_view));
    let common = COMMON.iter().copied().chain(View::of_engine().map(go));
    first.chain(common).chain(LAST.iter().copied())
}

/// The default bindings.
pub(super) static DEFAULT: LazyLock<Vec<Binding>> = LazyLock::new(|| {
    let binding = |(context, action, keys, footer): Row| {
        let keys = keys.split(',').filter_map(|key| Key::parse(key).ok()).collect();
        Binding { context, action, keys, footer }
    };
    rows().map(binding).collect()
});

/// Sets the default bindings, unless custom ones were set.
pub(super) fn choose_default() {
    keymap::choose(DEFAULT.clone());
}

/// `[keys]`: action names and their keys.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Keys(BTreeMap<Spanned<String>, Chosen>);

/// One key or several.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "a key such as \"ctrl-n\", or a list of keys")]
enum Chosen {
    One(String),
    Several(Vec<String>),
}

impl Chosen {
    fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Several(names) => names,
        }
    }
}

/// Why a key configuration is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct KeyFault {
    /// Byte offset in the settings text.
    pub at: usize,
    /// What is wrong, and how to fix it.
    why: String,
}

/// One action with its keys, for the list of actions.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct KeyLine {
    /// Its name in `[keys]`.
    pub action: String,
    /// Its keys as the settings name them.
    pub keys: Vec<String>,
    /// What the action does.
    pub does: &'static str,
}

/// Whether it can be rebound. Where letters are text, Esc, Enter, Tab and the arrows cannot.
fn is_free(binding: &Binding) -> bool {
    !matches!(binding.context, Context::Form | Context::Filter | Context::Palette)
}

/// Actions that can be rebound, in table order.
fn actions() -> Vec<Action> {
    distinct(DEFAULT.iter().filter(|it| is_free(it)))
}

impl Keys {
    /// Checks the configuration.
    ///
    /// # Errors
    /// The first fault in the order of the text.
    pub fn check(&self) -> Result<(), KeyFault> {
        self.table().map(|_| ())
    }

    /// Returns the keymap with these keys applied.
    pub(super) fn table(&self) -> Result<Vec<Binding>, KeyFault> {
        let mut lines: Vec<_> = self.0.iter().collect();
        lines.sort_by_key(|(name, _)| name.span().start);
        let mut table = DEFAULT.to_vec();
        let mut chosen = Vec::new();
        for (written, keys) in lines {
            let at = written.span().start;
            let fault = |why| KeyFault { at, why };
            let name = written.get_ref();
            let known = actions().into_iter().find(|action| action.setting() == name);
            let unknown =
                || fault(text!("settings-unknown-action-in-keys-seckill", written = name));
            let action = known.ok_or_else(unknown)?;
            let keys = keys_of(action, keys).map_err(fault)?;
            for binding in table.iter_mut().filter(|it| it.action == action && is_free(it)) {
                binding.keys.clone_from(&keys);
            }
            chosen.push((action, at));
        }
        // Checked last: two actions may have swapped keys.
        let mut chosen = chosen.into_iter();
        let clash = chosen.find_map(|(action, at)| Some((at, clash(&table, action)?)));
        clash.map_or(Ok(table), |(at, why)| Err(KeyFault { at, why }))
    }

    /// Lists every action that `[keys]` accepts, with its effective keys.
    ///
    /// # Errors
    /// As [`Keys::check`].
    pub fn lines(&self) -> Result<Vec<KeyLine>, KeyFault> {
        let table = self.table()?;
        let line = |action: Action| {
            // The additional keys that close Help are not listed.
            let first = table.iter().find(|it| it.action == action && is_free(it));
            let keys = first.iter().flat_map(|it| &it.keys).copied().map(Key::setting).collect();
            KeyLine { action: action.setting().to_owned(), keys, does: action.help() }
        };
        Ok(actions().into_iter().map(line).collect())
    }
}

/// Parses the keys of one line, as far as they can be checked without the others.
fn keys_of(action: Action, chosen: &Chosen) -> Result<Vec<Key>, String> {
    let named = action.setting();
    let mut keys = Vec::new();
    for written in chosen.names() {
        let key = Key::parse(written)
            .map_err(|why| text!("settings-action-value", action = named, why))?;
        let capital = matches!(key.code, KeyCode::Char(c) if c.is_uppercase());
        let plain = matches!(key.code, KeyCode::Char(_)) && key.modifiers.is_empty();
        if action.is_command() && !(capital && plain) {
            return Err(text!("settings-changes-data-and-needs-capital", action = named, written));
        }
        if action == Action::Accept && capital {
            return Err(text!("settings-cannot-be-capital-letters-open", action = named, written));
        }
        if matches!(action, Action::QuitNow | Action::Suspend) && plain {
            return Err(text!("settings-also-applies-while-text", action = named, written));
        }
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let needed = [Action::Quit, Action::QuitNow, Action::Cancel, Action::Press, Action::Back]
        .contains(&action);
    if keys.is_empty() && needed {
        return Err(text!("settings-has-no-key-left", action = named));
    }
    Ok(keys)
}

/// Finds another action bound to the same key in an overlapping context.
fn clash(table: &[Binding], action: Action) -> Option<String> {
    let clash = Context::all().find_map(|context| {
        let here = || table.iter().filter(move |it| it.is_in(context));
        let mut mine = here().filter(|it| it.action == action).flat_map(|it| &it.keys);
        let taken = |key: &&Key| here().find(|it| it.action != action && it.keys.contains(key));
        mine.find_map(|key| Some((key, taken(&key)?.action)))
    });
    clash.map(|(key, other)| {
        let (key, action, other) = (key.setting(), action.setting(), other.setting());
        text!("settings-and-would-share-key", action, other, key)
    })
}
