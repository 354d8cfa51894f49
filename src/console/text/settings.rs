//! Texts of errors in a settings file, in `[keys]` and in a theme, each with the next step.

use seckill_model::message::text;

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

/// Invalid TOML; the parser reports in English only.
pub fn syntax(why: &str) -> String {
    if why.starts_with("duplicate key") {
        return text!("settings-take-one-of-the-two-out", why);
    }
    let known = SYNTAX.iter().find(|(en, _)| why.starts_with(en));
    let chinese = known.map_or(String::new(), |(_, zh)| format!("（{zh}）"));
    text!("settings-mend-the-line-or-take-it", why, chinese)
}

/// Messages for common parser errors, by their prefix.
const SYNTAX: &[(&str, &str)] = &[
    ("string values must be quoted", "文本须加引号"),
    ("key with no value", "缺少“=”和值"),
    ("missing value", "缺少值"),
    ("missing assignment", "缺少“=”"),
    ("extra `=`", "多余的“=”"),
    ("extra assignment", "多余的“=”"),
    ("unclosed table", "缺少“]”"),
    ("unclosed array", "缺少“]”"),
    ("unclosed inline table", "缺少“}”"),
    ("missing comma", "缺少逗号"),
    ("extra comma", "多余的逗号"),
    ("missing opening quote", "缺少引号"),
    ("invalid basic string", "引号不成对，或有无效的转义"),
    ("invalid literal string", "引号不成对"),
    ("missing escaped value", "“\\”后的转义无效"),
    ("unquoted keys cannot be empty", "缺少设置项名称"),
    ("invalid unquoted key", "设置项名称无效"),
    ("unexpected key or value", "此行末尾有多余内容"),
    ("unexpected content", "此行末尾有多余内容"),
    ("unexpected leading zero", "数字不能以 0 开头"),
    ("invalid integer", "数字无效"),
    ("invalid float", "数字无效"),
    ("`_` may only go between digits", "“_”只能在数字之间"),
];

/// A file that is not text.
pub fn not_utf8() -> String {
    text!("settings-the-text-is-not-utf-8")
}
