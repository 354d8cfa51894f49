//! Large digits for a countdown, built from blocks.

use super::Pen;
use crate::console::theme::Theme;

/// Rows of three pixels each, from the top, the leftmost pixel in the highest bit.
const DIGITS: [[u8; 5]; 10] = [
    [0b111, 0b101, 0b101, 0b101, 0b111],
    [0b010, 0b110, 0b010, 0b010, 0b111],
    [0b111, 0b001, 0b111, 0b100, 0b111],
    [0b111, 0b001, 0b111, 0b001, 0b111],
    [0b101, 0b101, 0b111, 0b001, 0b001],
    [0b111, 0b100, 0b111, 0b001, 0b111],
    [0b111, 0b100, 0b111, 0b101, 0b111],
    [0b111, 0b001, 0b010, 0b010, 0b010],
    [0b111, 0b101, 0b111, 0b101, 0b111],
    [0b111, 0b101, 0b111, 0b001, 0b111],
];
/// Cells of one digit: three pixels of two cells.
const DIGIT_WIDTH: u16 = 6;

/// Draws a number in the middle of the area, over whatever is there.
pub(crate) fn big_number(pen: &mut Pen<'_>, theme: Theme, number: u8) {
    let digits: Vec<usize> = number.to_string().bytes().map(|b| usize::from(b - b'0')).collect();
    let width = digits.len() as u16 * (DIGIT_WIDTH + 2) + 6;
    let height = 9;
    let x = pen.width().saturating_sub(width) / 2;
    let y = pen.height().saturating_sub(height) / 2;
    let mut panel = pen.part(x, y, width, height);
    panel.clear();
    panel.frame("", theme.glyphs.ascii, theme.soft(), theme.soft());
    for (place, digit) in digits.iter().enumerate() {
        for (row, pixels) in DIGITS[digit % 10].iter().enumerate() {
            for column in 0..3_u16 {
                if pixels >> (2 - column) & 1 == 1 {
                    let x = 4 + place as u16 * (DIGIT_WIDTH + 2) + column * 2;
                    panel.text(x, row as u16 + 2, &theme.glyphs.full.repeat(2), theme.key());
                }
            }
        }
    }
}
