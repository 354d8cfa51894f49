//! Errors in a settings or theme file: where they are, and how several are listed.

use seckill_model::{message::Lines, text};

/// A position in a text file; both numbers start at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    line: usize,
    column: usize,
}

impl Position {
    /// The position of a byte offset.
    pub fn of(text: &[u8], offset: usize) -> Self {
        let before = String::from_utf8_lossy(text.get(..offset).unwrap_or(text));
        let last = before.rsplit('\n').next().unwrap_or_default();
        Self { line: before.matches('\n').count() + 1, column: last.chars().count() + 1 }
    }
}

/// An error with its position.
pub fn at(Position { line, column }: Position, why: &str) -> String {
    text!("settings-position", line, column, why)
}

/// Errors that are listed; a file with more is probably not a settings file.
const MAX_LISTED: usize = 20;

/// Lists the errors of a file by position, and the number of further ones.
pub fn all(mut errors: Vec<(Position, String)>) -> String {
    errors.sort_by_key(|(position, _)| *position);
    // A quoted name may contain a line break.
    let in_line =
        |(position, why): &(Position, String)| at(*position, &why.replace(['\n', '\r'], " "));
    let listed: Vec<_> = errors.iter().take(MAX_LISTED).map(in_line).collect();
    let text = match listed.as_slice() {
        [one] => one.clone(),
        several => format!("\n  {}", several.join("\n  ")),
    };
    match errors.len().saturating_sub(MAX_LISTED) {
        0 => text,
        more => text!("settings-more-errors", text = Lines(text), more),
    }
}

/// Invalid TOML, in the words of the parser, which do not quote the file.
pub fn syntax(text: &str, error: &toml::de::Error) -> (Position, String) {
    let at = error.span().map_or(0, |span| span.start);
    let why = error.message().lines().next().unwrap_or_default();
    (Position::of(text.as_bytes(), at), text!("settings-invalid-toml", why))
}

/// A file that is not text.
pub fn not_utf8(bytes: &[u8], error: std::str::Utf8Error) -> (Position, String) {
    (Position::of(bytes, error.valid_up_to()), text!("settings-not-utf8"))
}
