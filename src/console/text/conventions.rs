//! Texts of features common to all tables: order, filter, copies, the mouse, custom keys, and why a key has no effect.

use seckill_model::message::{Label, text};

use super::{actions::ActionText, figures::thousands};
use crate::keymap::{Action, Context, footer, key_of};

/// Footer word, help sentence and palette name.
pub(super) fn action(action: Action) -> ActionText {
    let (short, long, name) = match action {
        Action::SortNext => (
            Label("conventions-order"),
            Label("conventions-order-the-rows-by-the-next"),
            Label("conventions-order"),
        ),
        Action::SortTurn => (
            Label("conventions-turn"),
            Label("conventions-turn-the-order-round"),
            Label("conventions-turn-order"),
        ),
        Action::CopyName => (
            Label("conventions-copy"),
            Label("conventions-copy-the-rows-id-or-name"),
            Label("conventions-copy"),
        ),
        Action::CopyRow => (
            Label("conventions-copy-row"),
            Label("conventions-copy-the-row-as-exported"),
            Label("conventions-copy-row"),
        ),
        _ => (
            Label("conventions-mouse"),
            Label("conventions-the-mouse-chooses-or-not"),
            Label("conventions-mouse"),
        ),
    };
    (short, long, Some(name))
}

pub(crate) const NO_TABLE: Label = Label("conventions-this-view-has-no-table");
pub(crate) const MOUSE_ON: Label = Label("conventions-the-mouse-chooses-rows-and-tabs");
pub(crate) const MOUSE_OFF: Label = Label("conventions-the-mouse-is-the-terminals-again");
pub(crate) const OWN_ORDER: Label = Label("conventions-the-rows-stand-in-their-own");
pub(crate) const ORDER_DROPPED: Label = Label("conventions-more-came-than-one-page-holds");
pub(crate) const ONE_ORDER: Label = Label("conventions-these-rows-stand-in-one-order");
pub(crate) const STREAM_ORDER: Label = Label("conventions-a-stream-stands-in-the-order");
pub(crate) const RECENT: Label = Label("conventions-used-before");

pub(crate) fn read_first() -> String {
    let key = key_of(Action::Accept);
    text!("conventions-that-question-has-only-just-come", key)
}

pub(crate) fn ordered(head: &str, falling: bool) -> String {
    if falling {
        text!("conventions-ordered-by-descending", head)
    } else {
        text!("conventions-ordered-by-ascending", head)
    }
}

/// The heading of a sorted page.
pub(crate) fn sorted_page(head: &str, rows: usize) -> String {
    let (head, rows) = (head.to_lowercase(), thousands(rows as u64));
    text!("conventions-sorted-by-of-these", head, rows)
}

pub(crate) fn no_order() -> String {
    let key = key_of(Action::SortNext);
    text!("conventions-no-column-is-chosen-chooses-one", key)
}

/// Why a paged list keeps its order.
pub(crate) fn in_pages(total: u64) -> String {
    let total = thousands(total);
    text!("conventions-are-read-in-pages-by-id", total)
}

pub(crate) fn copied(what: &str) -> String {
    text!("conventions-copied", what)
}

/// A copy that tmux does not forward is lost.
pub(crate) fn copied_in_tmux(what: &str, setting: &str) -> String {
    text!("conventions-copied-tmux-passes-it-on-only", what, setting)
}

pub(crate) fn cut(kept: usize) -> String {
    let kept = thousands(kept as u64);
    text!("conventions-the-paste-was-cut-a-field", kept)
}

pub(crate) const NOTHING_PENDING: Label = Label("conventions-nothing-is-pending");

pub(crate) fn nothing_chosen() -> String {
    let (up, down) = (key_of(Action::Up), key_of(Action::Down));
    text!("conventions-no-row-is-chosen-and-choose", up, down)
}

pub(crate) fn nothing_open() -> String {
    let key = key_of(Action::Open);
    text!("conventions-no-detail-is-open-opens-one", key)
}

/// Why nothing is read while the display is paused.
pub(crate) fn frozen() -> String {
    let key = key_of(Action::Freeze);
    text!("conventions-the-picture-is-frozen-lets-it", key)
}

/// A command applies to one sale, and none is chosen.
pub(crate) fn choose_sale(again: Action) -> String {
    let [up, down, again] = [Action::Up, Action::Down, again].map(key_of);
    text!("conventions-choose-the-sale-that-is-meant", up, down, again)
}

/// A reply arrived while a dialog covers the view.
pub(crate) fn behind(text: Label, over: Context, again: Action) -> String {
    let close = footer(over).find(|it| it.action == Action::Cancel);
    let close = close.and_then(|it| it.keys.first());
    let close = close.map_or_else(|| key_of(Action::Cancel), |it| it.label());
    let again = key_of(again);
    text!("conventions-closes-this-then-press-again", text, close, again)
}

pub(crate) fn read_only() -> String {
    text!("conventions-read-only-acts-are-refused-start")
}

/// The label of the number that has to be typed.
pub(crate) fn type_number(count: u64) -> String {
    let count = thousands(count);
    text!("conventions-type-to-go-on", count)
}

/// The number is correct: Enter runs the command.
pub(crate) fn number_typed(count: u64) -> String {
    let (count, press) = (thousands(count), key_of(Action::Press));
    text!("conventions-does-it", count, press)
}

pub(crate) fn number_first(count: u64) -> String {
    let (count, press) = (thousands(count), key_of(Action::Press));
    text!("conventions-this-is-about-type-that-number", count, press)
}

pub(crate) fn only_in(views: &str) -> String {
    text!("conventions-in", views)
}
