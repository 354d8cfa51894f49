//! Converts the screen to ASCII, or for terminals that draw some narrow characters too wide. Each character keeps its
//! cells, so that nothing moves.

use ratatui::buffer::Buffer;
use unicode_width::UnicodeWidthStr as _;

/// Symbols and key names with an ASCII equivalent: what is drawn, and by what it is replaced.
const ALIKE: [(&str, char); 19] = [
    ("←", '<'),
    ("→▸", '>'),
    ("↑", '^'),
    ("↓", 'v'),
    ("–—─", '-'),
    ("…≈", '~'),
    ("·░┄", '.'),
    ("“”", '"'),
    ("‘’", '\''),
    ("×✖", 'x'),
    ("●", 'o'),
    ("✔", '+'),
    ("▁▂", '_'),
    ("▃▄", '-'),
    ("▅▆", '='),
    ("◆▇", '*'),
    ("█", '#'),
    ("│┃", '|'),
    ("┤└┴╭╮╰╯", '+'),
];

/// Replaces non-ASCII characters. With `wide`, letters and wide characters are kept, and only characters that East
/// Asian terminals draw in two cells are replaced.
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
        let alike = ALIKE.iter().find(|(signs, _)| signs.contains(symbol)).map(|(_, it)| *it);
        let cells = symbol.width();
        if alike.is_none() && wide && cells == symbol.width_cjk() {
            continue;
        }
        covered = cells.saturating_sub(1);
        cell.set_char(alike.unwrap_or('?'));
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
    fn an_unsupported_glyph_keeps_its_cells() {
        assert_eq!(shown("a火é🍲b… “x”", false), "a?????b~ \"x\"");
        assert_eq!(shown("ok ~ {}", false), "ok ~ {}");
    }

    #[test]
    fn wide_characters_keep_their_position() {
        // The cell after a wide character is blank and hidden.
        assert_eq!(shown("火①锅—ñ", true), "火 ?锅 -ñ");
    }
}
