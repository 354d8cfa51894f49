//! Terminal control characters: escaped in lines of text and in JSON.

use std::borrow::Cow;

/// Control characters, and those that break, reverse or reorder a line.
pub fn is_display_control(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// A text as part of one line: those characters as `\n`, `\u{202e}`.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(is_display_control) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_display_control(c) {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    Cow::Owned(line)
}

/// The first `most` characters of a text, with a dot in place of each of those characters.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    text.chars().take(most).map(|c| if is_display_control(c) { '·' } else { c }).collect()
}

/// A JSON document with those characters as `\uXXXX`, which keeps its values. They occur in strings only, where JSON
/// itself has already escaped those below U+0020.
pub fn escape_json(document: &str) -> String {
    let mut text = String::with_capacity(document.len());
    for c in document.chars() {
        if is_display_control(c) && c != '\n' {
            text.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_line() {
        assert!(matches!(one_line("火锅 \\n"), Cow::Borrowed("火锅 \\n")));
        let hostile = "a\r\nb\tc\u{1b}[31m\u{202e}d\u{2028}\u{85}e";
        assert_eq!(one_line(hostile), "a\\r\\nb\\tc\\u{1b}[31m\\u{202e}d\\u{2028}\\u{85}e");
    }

    #[test]
    fn json_keeps_its_values_without_control_characters() {
        let steering: String = ('\0'..='\u{ffff}').filter(|c| is_display_control(*c)).collect();
        assert_eq!(steering.chars().count(), 65 + 3 + 7 + 4);
        let value = vec![format!("火锅{steering}\"\\")];
        let text = escape_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(text.chars().all(|c| c == '\n' || !is_display_control(c)), "{text:?}");
        assert!(text.contains("火锅") && text.contains("\\u009b") && text.contains("\\u202e"));
        assert!(text.contains("\\u2028") && text.contains("\\u2029"));
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), value);
    }
}
