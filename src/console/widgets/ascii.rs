//! A picture for terminals that show ASCII only, or draw other narrow signs too wide. Each sign keeps its cells,
//! so that nothing moves; what a sign stands for is not known here.

use ratatui::buffer::Buffer;
use unicode_width::UnicodeWidthStr as _;

/// Signs of sentences and names of keys that have a likeness.
const ALIKE: [(&str, &str); 13] = [
    ("←", "<"),
    ("→", ">"),
    ("↑", "^"),
    ("↓", "v"),
    ("–", "-"),
    ("—", "-"),
    ("…", "~"),
    ("·", "."),
    ("“", "\""),
    ("”", "\""),
    ("‘", "'"),
    ("’", "'"),
    ("×", "x"),
];

/// Leaves nothing beyond ASCII in a picture. With `wide` letters and wide characters stay, and those signs go that
/// terminals for them draw in two cells.
pub(crate) fn to_ascii(buffer: &mut Buffer, wide: bool) {
    let mut covered = 0;
    for cell in &mut buffer.content {
        if covered > 0 {
            covered -= 1;
            cell.set_symbol("?");
            continue;
        }
        let symbol = cell.symbol();
        if symbol.is_ascii() {
            continue;
        }
        let alike = ALIKE.iter().find(|(sign, _)| *sign == symbol).map(|(_, alike)| *alike);
        let cells = symbol.width();
        if alike.is_none() && wide && cells == symbol.width_cjk() {
            continue;
        }
        covered = cells.saturating_sub(1);
        cell.set_symbol(alike.unwrap_or("?"));
    }
}

#[cfg(test)]
mod tests {
    use ratatui::buffer::Cell;

    use super::*;

    fn shown(text: &str, wide: bool) -> String {
        let mut buffer = Buffer::with_lines([text]);
        let cells = buffer.area.width;
        to_ascii(&mut buffer, wide);
        assert_eq!(buffer.area.width, cells);
        buffer.content.iter().map(Cell::symbol).collect()
    }

    #[test]
    fn a_sign_that_can_not_be_shown_keeps_its_cells() {
        assert_eq!(shown("a火é🍲b… “x”", false), "a?????b~ \"x\"");
        assert_eq!(shown("ok ~ {}", false), "ok ~ {}");
    }

    #[test]
    fn wide_characters_stay_where_they_are_spoken() {
        // The cell behind a wide character is blank, and hidden.
        assert_eq!(shown("火①锅—ñ", true), "火 ?锅 -ñ");
    }
}
