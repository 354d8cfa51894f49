//! Texts of features common to all tables: order, filter, copies, the mouse, custom keys, and why a key has no effect.

use seckill_model::{Label, text};

use crate::keymap::{Action, Context, footer, key_of};

/// Why a key has no row to apply to.
pub(crate) fn no_row() -> String {
    text!("conventions-no-row-is-selected-use")
}

/// Why nothing is read while the display is paused.
pub(crate) fn frozen() -> String {
    text!("conventions-display-is-paused-press")
}

/// A reply arrived while a dialog covers the view.
pub(crate) fn behind(text: Label, over: Context, again: Action) -> String {
    let close = footer(over).find(|it| it.action == Action::Cancel);
    let close = close.and_then(|it| it.keys.first());
    let close = close.map_or_else(|| key_of(Action::Cancel), |it| it.label());
    text!("conventions-closes-this-then-press-again", text, close, again = key_of(again))
}
