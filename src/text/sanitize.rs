//! Reduces untrusted text to characters that every terminal draws in the same number of cells.
//!
//! Terminals differ in whether they join sequences of characters. Zero-width controls, joiners and directional marks
//! are dropped; of a joined sequence the first part is kept.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization as _;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthChar as _;

/// Combining marks per character: more than any script needs would overflow into adjacent lines.
const MOST_MARKS: usize = 2;
/// Replaces characters without a reliable width.
const UNSURE: char = '?';

/// Returns the text as it is safe for a terminal.
pub fn plain(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_certain) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    // The last character with a width, and its marks.
    let (mut base, mut marks) = (None, 0);
    for (at, c) in text.graphemes(true).flat_map(str::char_indices) {
        // Part of a joined emoji, or a skin tone.
        let joins = at > 0 || matches!(c, '\u{1f3fb}'..='\u{1f3ff}');
        if is_hidden(c) || (joins && is_emoji(c) && base.is_some_and(is_emoji)) {
            continue;
        }
        let c = flag_letter(c).unwrap_or(c);
        if c.width() != Some(0) || is_loose(c) {
            shown.push(c);
            (base, marks) = (Some(c), 0);
        } else if base.is_some() && marks < MOST_MARKS {
            shown.push(c);
            marks += 1;
        }
    }
    // Jamo become Korean syllables.
    Cow::Owned(shown.nfc().map(|c| if is_loose(c) { UNSURE } else { c }).collect())
}

/// Whether it has the same width everywhere, alone or next to others.
fn is_certain(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{a1}'..='\u{ac}' | '\u{ae}'..='\u{2ff}' | '\u{2010}'..='\u{2027}'
        | '\u{2190}'..='\u{22ff}' | '\u{2500}'..='\u{259f}' | '\u{2800}'..='\u{28ff}'
        | '\u{3001}'..='\u{3029}' | '\u{4e00}'..='\u{9fff}' | '\u{ff01}'..='\u{ff5e}')
}

/// Invisible and zero-width: controls, line breaks, directional marks, joiners, selectors, fillers and tags; and
/// enclosing marks such as those of keycaps.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{20dd}'..='\u{20e0}' | '\u{20e2}'..='\u{20e4}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// A character that joins with others into an emoji, and is not a letter.
fn is_emoji(c: char) -> bool {
    c >= '\u{203c}' && !c.is_alphanumeric() && c.width() != Some(0)
}

/// Regional indicators become letters: some terminals draw a pair as a flag, others as two boxes.
fn flag_letter(c: char) -> Option<char> {
    let place = u32::from(c).checked_sub(0x1f1e6).filter(|place| *place < 26)?;
    char::from_u32(u32::from('A') + place)
}

/// Korean jamo and enclosing number marks, whose width is 0 on some terminals only.
fn is_loose(c: char) -> bool {
    matches!(c, '\u{1161}'..='\u{11ff}' | '\u{d7b0}'..='\u{d7ff}' | '\u{600}'..='\u{605}' | '\u{6dd}'
        | '\u{70f}' | '\u{890}' | '\u{891}' | '\u{8e2}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unicode_width::{UnicodeWidthChar, UnicodeWidthStr as _};

    use super::*;

    #[test]
    fn ambiguous_sequences_are_reduced() {
        for (text, shown, width) in [
            ("hot pot", "hot pot", 7),
            ("火锅五折", "火锅五折", 8),
            // Families, professions, skin tones, hearts.
            ("👩‍👩‍👧‍👦!", "👩!", 3),
            ("👩🏽‍🤝‍👩🏻", "👩", 2),
            ("👍🏿👍", "👍👍", 4),
            ("❤️‍🔥", "❤", 1),
            ("🏳️‍🌈", "🏳", 1),
            ("🏴\u{e0067}\u{e0062}\u{e007f}", "🏴", 2),
            ("🏽", "🏽", 2),
            // Selectors, keycaps, flags.
            ("❤️ ⌚\u{fe0e}", "❤ ⌚", 4),
            ("1️⃣2️⃣", "12", 2),
            ("🇨🇳🇩🇪🇨", "CNDEC", 5),
            // Invisible characters.
            ("a\u{200b}b\u{200c}c\u{2060}d\u{feff}e\u{ad}f", "abcdef", 6),
            ("x\u{202e}y\u{202c}\u{2066}z\u{2069}\u{200f}", "xyz", 3),
            ("a\u{2028}b\u{2029}c\x1b\u{9b}\r\nd", "abcd", 4),
            ("\u{3164}\u{ffa0}\u{115f}", "", 0),
            // A joiner between letters shapes them and joins no cells.
            ("न\u{94d}\u{200d}न", "न\u{94d}न", 2),
            // Combining marks: two are kept, and none without a base.
            ("e\u{301}", "é", 1),
            ("Z\u{300}\u{301}\u{302}\u{303}\u{304}o", "Z\u{300}\u{301}o", 2),
            ("a\u{323}\u{302}\u{301}\u{300}", "ậ", 1),
            ("\u{301}a", "a", 1),
            // Korean from jamo.
            ("\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}", "한글", 4),
            ("\u{1161}x\u{11a8}", "?x?", 3),
            ("한\u{11ab}", "한?", 3),
            // Ambiguous width counts as narrow.
            ("①±Ж“”", "①±Ж“”", 5),
        ] {
            assert_eq!((&*plain(text), plain(text).width()), (shown, width), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn text_width_is_the_sum_of_its_characters(text in "[a 火👩❤🏽🇨🇳\u{1100}\u{1112}\u{1161}\u{11ab}각\u{200d}\u{200b}\u{202e}\u{fe0f}\u{fe0e}\u{20e3}\u{301}\u{e0067}न\u{94d}لا1]{0,24}") {
            let shown = plain(&text);
            for part in shown.graphemes(true) {
                let cells: usize = part.chars().filter_map(UnicodeWidthChar::width).sum();
                prop_assert_eq!(part.width(), cells, "{:?} of {:?}", part, &text);
            }
            let again = plain(&shown);
            prop_assert_eq!(&*again, &*shown);
        }

        #[test]
        fn no_control_sequence_is_left(text: String) {
            prop_assert!(!plain(&text).chars().any(is_hidden));
        }
    }
}
