//! The screen as lines of text, plain or with colours as escape sequences.

use ratatui::{
    buffer::{Buffer, Cell},
    style::{Color, Modifier},
};

use crate::widgets::width;

/// The visible cells of a row, without the right halves of wide characters.
pub(super) fn row(buffer: &Buffer, y: u16) -> impl Iterator<Item = (u16, &Cell)> {
    let area = buffer.area;
    let mut free = area.x;
    (area.x..area.right()).filter_map(move |x| {
        let cell = buffer.cell((x, y)).filter(|_| x >= free)?;
        free = x + width(cell.symbol()).max(1) as u16;
        Some((x - area.x, cell))
    })
}

fn rows(buffer: &Buffer) -> std::ops::Range<u16> {
    buffer.area.y..buffer.area.bottom()
}

pub(super) fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in rows(buffer) {
        let line: String = row(buffer, y).map(|(_, cell)| cell.symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

pub(super) fn ansi(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in rows(buffer) {
        let cells: Vec<&Cell> = row(buffer, y).map(|(_, cell)| cell).collect();
        let blank = |cell: &&Cell| cell.symbol() == " " && look(cell) == "0";
        let end = cells.iter().rposition(|cell| !blank(cell)).map_or(0, |at| at + 1);
        let mut before = "0".to_owned();
        for cell in cells.iter().take(end) {
            let now = look(cell);
            if now != before {
                text.push_str(&format!("\x1b[{now}m"));
                before = now;
            }
            text.push_str(cell.symbol());
        }
        if before != "0" {
            text.push_str("\x1b[0m");
        }
        text.push('\n');
    }
    text
}

/// The SGR parameters of a cell's style, starting from a reset.
fn look(cell: &Cell) -> String {
    let mut numbers = "0".to_owned();
    let modifiers = [
        (Modifier::BOLD, 1),
        (Modifier::DIM, 2),
        (Modifier::ITALIC, 3),
        (Modifier::UNDERLINED, 4),
        (Modifier::REVERSED, 7),
    ];
    for (modifier, number) in modifiers {
        if cell.modifier.contains(modifier) {
            numbers.push_str(&format!(";{number}"));
        }
    }
    for (color, own) in [(cell.fg, 30), (cell.bg, 40)] {
        numbers.push_str(&match color {
            Color::Reset => continue,
            Color::Rgb(r, g, b) => format!(";{};2;{r};{g};{b}", own + 8),
            Color::Indexed(at) => format!(";{};5;{at}", own + 8),
            named => match sixteen(named) {
                at @ 0..8 => format!(";{}", own + at),
                at => format!(";{}", own + 52 + at),
            },
        });
    }
    numbers
}

fn sixteen(color: Color) -> u8 {
    match color {
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 8,
        Color::LightRed => 9,
        Color::LightGreen => 10,
        Color::LightYellow => 11,
        Color::LightBlue => 12,
        Color::LightMagenta => 13,
        Color::LightCyan => 14,
        Color::White => 15,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

    fn picture() -> Buffer {
        let mut buffer = Buffer::with_lines(["火锅 x  ", "        ", "ok      "]);
        buffer.set_style(ratatui::layout::Rect::new(0, 0, 4, 1), Style::new().fg(Color::LightCyan));
        let loud =
            Style::new().fg(Color::Rgb(1, 2, 3)).bg(Color::Indexed(9)).add_modifier(Modifier::BOLD);
        buffer.set_style(ratatui::layout::Rect::new(0, 2, 2, 1), loud);
        buffer
    }

    #[test]
    fn wide_characters_are_written_once_and_trailing_blanks_are_trimmed() {
        assert_eq!(text(&picture()), "火锅 x\n\nok\n");
    }

    #[test]
    fn colours_are_set_and_reset() {
        let text = "\x1b[0;96m火锅\x1b[0m x\n\n\x1b[0;1;38;2;1;2;3;48;5;9mok\x1b[0m\n";
        assert_eq!(ansi(&picture()), text);
        let mut parser = vt100::Parser::new(4, 8, 0);
        parser.process(text.replace('\n', "\r\n").as_bytes());
        assert!(parser.screen().contents().starts_with("火锅 x"));
    }
}
