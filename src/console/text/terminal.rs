//! Texts about the terminal: why it cannot be used, and which fallback is drawn.

use seckill_model::message::text;

/// A terminal without cursor addressing, by its `TERM` name.
pub(crate) fn dumb(term: Option<&str>) -> String {
    let kind = match term {
        Some(term) => text!("terminal-a-terminal-of-the-kind", term),
        None => text!("terminal-a-terminal-without-a-kind-term"),
    };
    text!("terminal-cant-be-drawn-on-use-seckill", kind)
}

/// The locale allows ASCII only: the fallback, and the reason.
pub(crate) fn plain_locale(locale: &str, ascii: bool) -> String {
    // Chinese has no ASCII form, and is drawn only on request.
    if ascii {
        text!("terminal-is-no-utf-8-locale-drawn", locale)
    } else {
        text!("terminal-is-no-utf-8-locale-drawn-2", locale)
    }
}
