//! Large digits built from blocks, for countdowns and the presenter layout.
//!
//! The fonts of `tui-big-text` are eight pixels high and have one width; these are five pixels high at any scale, so
//! that a counting figure fits a small window, and are drawn with ASCII too.

use ratatui::{layout::Constraint::Length, prelude::*};

use super::popup;
use crate::theme::{Theme, glyphs};

/// Pixel rows of a character.
pub(crate) const SIGN_ROWS: u16 = 5;

/// Cells of one pixel, horizontally and vertically.
pub(crate) type Pixel = (u16, u16);

/// A character: its width in pixels, and its rows from the top, the leftmost pixel in the highest bit.
type Sign = (u16, [u8; 5]);

/// Digits, separators and a few symbols; other characters are blank.
fn sign(c: char) -> Sign {
    match c {
        '0' => (3, [0b111, 0b101, 0b101, 0b101, 0b111]),
        '1' => (3, [0b010, 0b110, 0b010, 0b010, 0b111]),
        '2' => (3, [0b111, 0b001, 0b111, 0b100, 0b111]),
        '3' => (3, [0b111, 0b001, 0b111, 0b001, 0b111]),
        '4' => (3, [0b101, 0b101, 0b111, 0b001, 0b001]),
        '5' => (3, [0b111, 0b100, 0b111, 0b001, 0b111]),
        '6' => (3, [0b111, 0b100, 0b111, 0b101, 0b111]),
        '7' => (3, [0b111, 0b001, 0b010, 0b010, 0b010]),
        '8' => (3, [0b111, 0b101, 0b111, 0b101, 0b111]),
        '9' => (3, [0b111, 0b101, 0b111, 0b001, 0b111]),
        ',' => (1, [0, 0, 0, 1, 1]),
        ':' => (1, [0, 1, 0, 1, 0]),
        '-' => (3, [0, 0, 0b111, 0, 0]),
        '?' => (3, [0b110, 0b001, 0b010, 0b000, 0b010]),
        '✔' => (5, [0b00001, 0b00011, 0b10110, 0b11100, 0b01000]),
        '≈' => (5, [0b01001, 0b10110, 0, 0b01001, 0b10110]),
        '✖' => (5, [0b10001, 0b01010, 0b00100, 0b01010, 0b10001]),
        _ => (1, [0; 5]),
    }
}

/// Cells of a text in large digits.
pub(crate) fn big_width(text: &str, pixel: Pixel) -> u16 {
    let pixels: u16 = text.chars().map(|c| sign(c).0 + 1).sum();
    pixels.saturating_sub(1) * pixel.0
}

/// A text in large digits, from the upper left corner of the area; the background is kept.
pub(crate) struct BigText<'a> {
    pub(crate) text: &'a str,
    pub(crate) pixel: Pixel,
    pub(crate) style: Style,
}

impl Widget for BigText<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let (wide, high) = self.pixel;
        let mut x = area.x;
        for c in self.text.chars() {
            let (width, rows) = sign(c);
            for (row, pixels) in (0_u16..).zip(rows) {
                for column in (0..width).filter(|column| pixels >> (width - 1 - column) & 1 == 1) {
                    let (x, y) = (x + column * wide, area.y + row * high);
                    let block = Rect::new(x, y, wide, high).intersection(area);
                    for cell in block.positions() {
                        buffer[cell].set_symbol(glyphs::FULL).set_style(self.style);
                    }
                }
            }
            x += (width + 1) * wide;
        }
    }
}

/// Draws a number over the whole area: a smaller box would cover parts of its labels.
pub(crate) fn big_number(area: Rect, buffer: &mut Buffer, theme: Theme, number: u8) {
    const PIXEL: Pixel = (2, 1);
    let text = &number.to_string();
    let inside = popup(area, buffer, theme, (area.width, area.height), "", []);
    let [width, height] = [big_width(text, PIXEL), SIGN_ROWS].map(Length);
    let digits = BigText { text, pixel: PIXEL, style: theme.key };
    digits.render(inside.centered(width, height), buffer);
}
