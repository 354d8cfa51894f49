//! The screen as lines of text, plain or with colours as escape sequences.

use ratatui::{
    backend::IntoCrossterm as _,
    buffer::{Buffer, Cell},
    layout::Rect,
    style::{Color, Style},
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

pub(super) fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for Rect { y, .. } in buffer.area.rows() {
        let line: String = row(buffer, y).map(|(_, cell)| cell.symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

pub(super) fn ansi(buffer: &Buffer) -> String {
    let mut text = String::new();
    for Rect { y, .. } in buffer.area.rows() {
        let cells: Vec<&Cell> = row(buffer, y).map(|(_, cell)| cell).collect();
        let blank = |cell: &&Cell| cell.symbol() == " " && style(cell) == Style::new();
        let end = cells.iter().rposition(|cell| !blank(cell)).map_or(0, |at| at + 1);
        for run in cells[..end].chunk_by(|a, b| style(a) == style(b)) {
            let symbols: String = run.iter().map(|cell| cell.symbol()).collect();
            text += &style(run[0]).into_crossterm().apply(symbols).to_string();
        }
        text.push('\n');
    }
    text
}

/// The style of a cell, without the default colours of the terminal.
fn style(cell: &Cell) -> Style {
    let set = |color: Color| Some(color).filter(|it| *it != Color::Reset);
    Style { fg: set(cell.fg), bg: set(cell.bg), add_modifier: cell.modifier, ..Style::new() }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Modifier;

    use super::*;

    fn picture() -> Buffer {
        let mut buffer = Buffer::with_lines(["火锅 x  ", "        ", "ok      "]);
        buffer.set_style(Rect::new(0, 0, 4, 1), Style::new().fg(Color::LightCyan));
        let loud =
            Style::new().fg(Color::Rgb(1, 2, 3)).bg(Color::Indexed(9)).add_modifier(Modifier::BOLD);
        buffer.set_style(Rect::new(0, 2, 2, 1), loud);
        buffer
    }

    #[test]
    fn wide_characters_are_written_once_and_trailing_blanks_are_trimmed() {
        assert_eq!(text(&picture()), "火锅 x\n\nok\n");
    }

    #[test]
    fn colours_are_set_and_reset() {
        let text = "\x1b[38;5;14m火锅\x1b[39m x\n\n\x1b[48;5;9m\x1b[38;2;1;2;3m\x1b[1mok\x1b[0m\n";
        assert_eq!(ansi(&picture()), text);
        let mut parser = vt100::Parser::new(4, 8, 0);
        parser.process(text.replace('\n', "\r\n").as_bytes());
        assert!(parser.screen().contents().starts_with("火锅 x"));
    }
}
