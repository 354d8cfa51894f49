//! Words of others in a bundle: nothing in them steers a terminal or breaks a table, and users are masked.

use super::super::output::plain;

/// Characters of a word, or of a sentence.
const CELL: usize = 300;

/// A word of somebody else's as part of a line of Markdown: on one line, of bounded length, and nothing but text.
pub(super) fn cell(text: &str) -> String {
    let mut cell = String::new();
    for (place, c) in plain(text).chars().enumerate() {
        if place == CELL {
            cell.push('…');
            break;
        }
        match c {
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '#' | '~' | '!' => cell.extend(['\\', c]),
            '<' => cell.push_str("&lt;"),
            '>' => cell.push_str("&gt;"),
            '&' => cell.push_str("&amp;"),
            c => cell.push(c),
        }
    }
    cell
}

/// The first and the last character; of two or fewer none.
pub(super) fn masked(id: &str, unmask: bool) -> String {
    let length = id.chars().count();
    if unmask {
        return id.to_owned();
    }
    let hidden = |place: usize| length <= 2 || (place > 0 && place + 1 < length);
    // A star would be Markdown.
    id.chars().enumerate().map(|(place, c)| if hidden(place) { 'x' } else { c }).collect()
}

/// Numbers in a text that may be users; a lone digit names nobody.
pub(super) fn digits(text: &str, unmask: bool) -> String {
    by_number(text, |run| if run.len() < 2 { run.to_owned() } else { masked(run, unmask) })
}

pub(super) fn numberless(text: &str) -> String {
    by_number(text, |_| "N".to_owned())
}

fn by_number(text: &str, number: impl Fn(&str) -> String) -> String {
    let (mut whole, mut run) = (String::new(), String::new());
    for c in text.chars() {
        if c.is_ascii_digit() {
            run.push(c);
            continue;
        }
        if !run.is_empty() {
            whole.push_str(&number(&run));
            run.clear();
        }
        whole.push(c);
    }
    if !run.is_empty() {
        whole.push_str(&number(&run));
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_breaks_no_table_and_steers_no_terminal() {
        let hostile = "a|b\n\u{1b}[31m`*_<script>\u{202e}&";
        let cell = cell(hostile);
        assert_eq!(cell, "a\\|b  \\[31m\\`\\*\\_&lt;script&gt; &amp;");
        assert!(super::cell(&"锅".repeat(CELL * 2)).ends_with('…'));
    }

    #[test]
    fn users_keep_their_first_and_last_digit() {
        let ids = ["7", "42", "123", "1234567"].map(|id| masked(id, false));
        assert_eq!(ids, ["x", "xx", "1x3", "1xxxxx7"]);
        assert_eq!(masked("1234567", true), "1234567");
        assert_eq!(digits("buyer 1234 holds 5", false), "buyer 1xx4 holds 5");
        assert_eq!(numberless("buyer 1234 holds 56"), "buyer N holds N");
    }
}
