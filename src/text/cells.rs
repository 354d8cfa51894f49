//! Text measured in terminal cells after [`plain`], which leaves no sequence of another width than its characters.

use std::collections::BTreeSet;

use unicode_linebreak::linebreaks;
use unicode_truncate::{Alignment, UnicodeTruncateStr as _};
use unicode_width::UnicodeWidthChar;

use crate::plain;

/// The width of a text in cells.
pub fn width(text: &str) -> usize {
    cells(&plain(text))
}

/// The width of a sanitized text.
fn cells(text: &str) -> usize {
    text.chars().filter_map(UnicodeWidthChar::width).sum()
}

/// Ends a truncated text.
const ELLIPSIS: &str = "…";

/// Truncates a text to at most `limit` cells, including an ellipsis.
pub fn fit(text: &str, limit: usize) -> String {
    let text = plain(text);
    match limit {
        _ if cells(&text) <= limit => text.into_owned(),
        0 => String::new(),
        limit => text.unicode_truncate(limit - 1).0.to_owned() + ELLIPSIS,
    }
}

/// Truncates or pads to exactly `limit` cells, left-aligned.
pub fn left(text: &str, limit: usize) -> String {
    fit(text, limit).unicode_pad(limit, Alignment::Left, false).into_owned()
}

/// Truncates or pads to exactly `limit` cells, right-aligned.
pub fn right(text: &str, limit: usize) -> String {
    fit(text, limit).unicode_pad(limit, Alignment::Right, false).into_owned()
}

/// Wraps into lines of at most `limit` cells, at spaces and wide characters; longer words are split. ratatui's
/// `Paragraph` breaks at spaces only, and begins lines of Chinese with commas.
pub fn wrap(text: &str, limit: usize) -> Vec<String> {
    let text = plain(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let limit = limit.max(1);
    let (mut lines, mut line, mut from) = (Vec::new(), String::new(), 0);
    for to in breaks(&text) {
        let piece = &text[from..to];
        from = to;
        if cells(&line) + cells(piece.trim_end()) > limit && !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        for c in piece.chars() {
            let wide = c.width().unwrap_or(0);
            if cells(&line) + wide > limit && c != ' ' {
                lines.push(std::mem::take(&mut line));
            }
            if wide <= limit {
                line.push(c);
            }
        }
    }
    lines.push(line);
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

/// As [`wrap`], with at most `most` lines; the last one ends with an ellipsis if text was cut.
pub fn wrap_to(text: &str, limit: usize, most: usize) -> Vec<String> {
    let mut lines = wrap(text, limit);
    let is_cut = lines.len() > most;
    lines.truncate(most);
    if let Some(last) = lines.last_mut().filter(|_| is_cut) {
        let (begin, _) = last.unicode_truncate(limit.saturating_sub(1));
        *last = begin.trim_end().to_owned() + ELLIPSIS;
    }
    lines
}

/// Breaks at spaces, and at wide characters where Unicode allows one. Unicode's other breaks would cut a path or an ID
/// that a person copies: it breaks after a hyphen, and not before a slash.
fn breaks(text: &str) -> BTreeSet<usize> {
    let wide = |c: Option<char>| c.and_then(UnicodeWidthChar::width) == Some(2);
    let at_wide = linebreaks(text).map(|(at, _)| at).filter(|at| {
        let (before, after) = text.split_at(*at);
        after.is_empty() || wide(before.chars().next_back()) || wide(after.chars().next())
    });
    text.match_indices(' ').map(|(at, _)| at + 1).chain(at_wide).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cuts_by_cells_and_not_by_chars() {
        assert_eq!(fit("火锅五折", 8), "火锅五折");
        assert_eq!(fit("火锅五折", 7), "火锅五…");
        assert_eq!(fit("火锅五折", 6), "火锅…");
        assert_eq!(fit("👩‍👩‍👧‍👦 family", 4), "👩 …");
        assert_eq!(fit("a\x1b[2Jb\u{202e}c", 20), "a[2Jbc");
        assert_eq!((left("锅", 4), right("锅", 4)), ("锅  ".into(), "  锅".into()));
        assert_eq!(fit("abc", 0), "");
    }

    #[test]
    fn wraps_at_spaces() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("火锅五折", 4), ["火锅", "五折"]);
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(wrap("a word stays", 4), ["a", "word", "stay", "s"]);
        assert_eq!(wrap("in /tmp/seckill-demo-x", 20), ["in", "/tmp/seckill-demo-x"]);
        assert!(wrap("a\u{b02}\u{a8b4}", 2).iter().all(|line| width(line) <= 2));
    }

    #[test]
    fn wraps_between_wide_characters_and_keeps_their_signs() {
        assert_eq!(wrap("按 4 查看，按 A 重放。", 10), ["按 4 查", "看，按 A", "重放。"]);
        assert_eq!(wrap("失联。按键", 4), ["失", "联。", "按键"]);
        assert_eq!(wrap("锁（订单）", 4), ["锁", "（订", "单）"]);
        assert_eq!(wrap("由 node-a 持有", 9), ["由 node-a", "持有"]);
    }

    proptest! {
        #[test]
        fn fitted_text_fits(text: String, limit in 0..30_usize) {
            prop_assert!(width(&fit(&text, limit)) <= limit);
            prop_assert!(wrap(&text, limit + 2).iter().all(|line| width(line) <= limit + 2));
        }

        #[test]
        fn padding_is_exact_for_ascii(text in "[ -~]{0,30}", limit in 0..30_usize) {
            prop_assert_eq!(width(&left(&text, limit)), limit);
            prop_assert_eq!(width(&right(&text, limit)), limit);
        }
    }
}
