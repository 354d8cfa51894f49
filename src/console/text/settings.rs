//! Texts of errors in a settings file, in `[keys]` and in a theme, each with the next step.

use seckill_model::message::{Label, text};

/// An error with its line.
pub fn at(line: usize, text: &str) -> String {
    text!("settings-line", line, text)
}

/// Errors that are listed; a file with more is probably not a settings file.
const MAX_LISTED: usize = 20;

/// Lists the errors of a file by line, and the number of further ones.
pub fn all(mut faults: Vec<(usize, String)>) -> String {
    faults.sort_by_key(|(line, _)| *line);
    // A quoted name may contain a line break.
    let text = faults
        .iter()
        .take(MAX_LISTED)
        .map(|(line, text)| at(*line, &text.replace(['\n', '\r'], " ")));
    let text: Vec<_> = text.collect();
    let text = match text.as_slice() {
        [one] => one.clone(),
        several => format!("\n  {}", several.join("\n  ")),
    };
    match faults.len().saturating_sub(MAX_LISTED) {
        0 => text,
        1 => text!("settings-1-more-fault", text),
        more => text!("settings-more-faults", text, more),
    }
}

/// Invalid TOML; errors that are not listed are reported as the parser does, in English.
pub fn syntax(why: &str) -> String {
    if why.starts_with("duplicate key") {
        return text!("settings-remove-one-of-two", why);
    }
    let known = SYNTAX.iter().find(|(prefix, _)| why.starts_with(prefix));
    let meaning = known.map(|(_, meaning)| meaning.read().to_owned());
    let meaning = meaning.unwrap_or_else(|| text!("settings-syntax-other", why));
    text!("settings-correct-or-remove-line-settings", meaning)
}

/// Common parser errors by their prefix.
const SYNTAX: &[(&str, Label)] = &[
    ("string values must be quoted", Label("settings-syntax-unquoted-text")),
    ("key with no value", Label("settings-key")),
    ("missing value", Label("settings-value-is-missing")),
    ("missing assignment", Label("settings-is-missing")),
    ("extra `=`", Label("settings-syntax-extra-assignment")),
    ("extra assignment", Label("settings-syntax-extra-assignment")),
    ("unclosed table", Label("settings-syntax-open-bracket")),
    ("unclosed array", Label("settings-syntax-open-bracket")),
    ("unclosed inline table", Label("settings-syntax-open-brace")),
    ("missing comma", Label("settings-comma-is-missing")),
    ("extra comma", Label("settings-syntax-extra-comma")),
    ("missing opening quote", Label("settings-opening-quote-is-missing")),
    ("invalid basic string", Label("settings-syntax-bad-text")),
    ("invalid literal string", Label("settings-syntax-quotes")),
    ("missing escaped value", Label("settings-syntax-escape")),
    ("unquoted keys cannot be empty", Label("settings-syntax-empty-name")),
    ("invalid unquoted key", Label("settings-syntax-bad-name")),
    ("unexpected key or value", Label("settings-unexpected-text-at-end")),
    ("unexpected content", Label("settings-unexpected-text-at-end")),
    ("unexpected leading zero", Label("settings-syntax-leading-zero")),
    ("invalid integer", Label("settings-syntax-bad-number")),
    ("invalid float", Label("settings-syntax-bad-number")),
    ("`_` may only go between digits", Label("settings-syntax-underscore")),
];

/// A file that is not text.
pub fn not_utf8() -> String {
    text!("settings-text-is-not-utf-save")
}
