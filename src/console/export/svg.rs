//! The screen as SVG that looks the same everywhere, without depending on a font. Bars, braille dots and lines are
//! drawn as shapes, and each run of text is fitted to its cells; converters of ANSI text, such as `anstyle-svg`, leave
//! both to the font of the viewer.

use std::{collections::BTreeMap, fmt::Write as _};

use ratatui::{
    buffer::{Buffer, Cell},
    style::Modifier,
};

use super::screen::row;
use crate::{
    theme::{Rgb, rgb},
    widgets::width,
};

/// Size of a cell, and the margin.
const WIDE: f64 = 8.4;
const HIGH: f64 = 18.0;
const MARGIN: f64 = 14.0;
const FONT_SIZE: u32 = 14;
/// Text metrics within a cell.
const BASE: f64 = 13.5;
const FONTS: &str = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Noto Sans Mono CJK SC', 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', 'WenQuanYi Micro Hei', monospace";

/// Default background and text colours if the theme leaves them to the terminal.
const DARK: (Rgb, Rgb) = ((0x14, 0x16, 0x1b), (0xd7, 0xdc, 0xe2));
const LIGHT: (Rgb, Rgb) = ((0xfd, 0xfc, 0xfa), (0x22, 0x26, 0x2c));

pub(super) fn svg(buffer: &Buffer, light: bool, name: &str) -> String {
    let (paper, writer) = if light { LIGHT } else { DARK };
    let first = buffer.content.first().and_then(|cell| rgb(cell.bg));
    let mut picture = Picture { paper: first.unwrap_or(paper), writer, ..Picture::default() };
    for (line, y) in (buffer.area.y..buffer.area.bottom()).enumerate() {
        picture.row(line as f64 * HIGH, &row(buffer, y).collect::<Vec<_>>());
    }
    let (columns, rows) = (f64::from(buffer.area.width), f64::from(buffer.area.height));
    let (w, h) = (columns * WIDE + 2.0 * MARGIN, rows * HIGH + 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w:.0}\" height=\"{h:.0}\" viewBox=\"0 0 {w:.1} {h:.1}\" role=\"img\" aria-label=\"seckill: {name}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{}\"/>\n\
         <g transform=\"translate({MARGIN} {MARGIN})\" font-family=\"{FONTS}\" font-size=\"{FONT_SIZE}\" xml:space=\"preserve\">\n",
        hex(picture.paper)
    );
    svg.push_str(&picture.behind);
    for (color, path) in &picture.shapes {
        let _ = writeln!(svg, "<path fill=\"{}\" d=\"{path}\"/>", hex(*color));
    }
    for (color, path) in &picture.lines {
        let color = hex(*color);
        let _ = writeln!(svg, "<path fill=\"none\" stroke=\"{color}\" d=\"{path}\"/>");
    }
    svg.push_str(&picture.letters);
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// Accumulated shapes from back to front; paths of one colour are one shape.
#[derive(Default)]
struct Picture {
    paper: Rgb,
    writer: Rgb,
    behind: String,
    shapes: BTreeMap<Rgb, String>,
    lines: BTreeMap<Rgb, String>,
    letters: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Look {
    color: Rgb,
    under: Rgb,
    bold: bool,
    underlined: bool,
}

/// A cell: its column, text and look.
type Drawn<'a> = (u16, &'a str, Look);

impl Picture {
    fn look(&self, cell: &Cell) -> Look {
        let has = |modifier| cell.modifier.contains(modifier);
        let mut color = rgb(cell.fg).unwrap_or(self.writer);
        let mut under = rgb(cell.bg).unwrap_or(self.paper);
        if has(Modifier::REVERSED) {
            (color, under) = (under, color);
        }
        if has(Modifier::DIM) {
            color = between(color, under, 0.42);
        }
        Look { color, under, bold: has(Modifier::BOLD), underlined: has(Modifier::UNDERLINED) }
    }

    fn row(&mut self, top: f64, cells: &[(u16, &Cell)]) {
        let cells: Vec<Drawn<'_>> =
            cells.iter().map(|(x, cell)| (*x, cell.symbol(), self.look(cell))).collect();
        // One rectangle for adjacent cells: gaps between several would be visible.
        for run in cells.chunk_by(|one, other| one.2.under == other.2.under) {
            self.background(top, run);
        }
        let joins = |one: &Drawn<'_>, other: &Drawn<'_>| {
            one.2 == other.2 && one.1.is_ascii() && other.1.is_ascii()
        };
        for run in cells.chunk_by(joins) {
            match run {
                [(x, symbol, look)] if !symbol.is_ascii() => {
                    if !self.shape(f64::from(*x) * WIDE, top, symbol, *look) {
                        self.sign(f64::from(*x) * WIDE, top, symbol, *look);
                    }
                }
                _ => self.text(top, run),
            }
        }
    }

    fn background(&mut self, top: f64, run: &[Drawn<'_>]) {
        let (Some((first, _, look)), Some((last, symbol, _))) = (run.first(), run.last()) else {
            return;
        };
        if look.under == self.paper {
            return;
        }
        let left = f64::from(*first) * WIDE;
        let wide = (usize::from(last - first) + width(symbol).max(1)) as f64 * WIDE;
        let fill = hex(look.under);
        let _ = writeln!(
            self.behind,
            "<rect x=\"{left:.1}\" y=\"{top:.0}\" width=\"{wide:.1}\" height=\"{HIGH:.0}\" fill=\"{fill}\"/>"
        );
    }

    /// Draws a bar, a dot or a line; `false` if the character is none.
    fn shape(&mut self, left: f64, top: f64, symbol: &str, look: Look) -> bool {
        let mut chars = symbol.chars();
        let (Some(c), None) = (chars.next(), chars.next()) else { return false };
        let (paths, color, path) = if let Some(path) = dots(c, left, top) {
            (&mut self.shapes, look.color, path)
        } else if let Some(path) = block(c, left, top) {
            (&mut self.shapes, look.color, path)
        } else if c == '░' {
            let pale = between(look.color, look.under, 0.78);
            (&mut self.shapes, pale, rectangle(left, top + 3.0, WIDE, HIGH - 6.0))
        } else if let Some(path) = strokes(c, left, top) {
            (&mut self.lines, look.color, path)
        } else {
            return false;
        };
        paths.entry(color).or_default().push_str(&path);
        true
    }

    /// Writes ASCII text of one look, with each character in its cell whatever the font.
    fn text(&mut self, top: f64, run: &[Drawn<'_>]) {
        let blank = |(_, symbol, _): &Drawn<'_>| *symbol == " ";
        let (Some(from), Some(to)) =
            (run.iter().position(|it| !blank(it)), run.iter().rposition(|it| !blank(it)))
        else {
            return;
        };
        let run = &run[from..=to];
        let text: String = run.iter().map(|(_, symbol, _)| *symbol).collect();
        let (x, _, look) = run[0];
        let (left, base) = (f64::from(x) * WIDE, top + BASE);
        let _ = writeln!(
            self.letters,
            "<text x=\"{left:.1}\" y=\"{base:.1}\" textLength=\"{:.1}\" lengthAdjust=\"spacingAndGlyphs\"{}>{}</text>",
            run.len() as f64 * WIDE,
            attributes(look),
            escaped(&text)
        );
    }

    /// Writes one character centred in its cells: fonts differ most in these.
    fn sign(&mut self, left: f64, top: f64, symbol: &str, look: Look) {
        let (middle, base) = (left + width(symbol).max(1) as f64 / 2.0 * WIDE, top + BASE);
        let _ = writeln!(
            self.letters,
            "<text x=\"{middle:.1}\" y=\"{base:.1}\" text-anchor=\"middle\"{}>{}</text>",
            attributes(look),
            escaped(symbol)
        );
    }
}

fn attributes(look: Look) -> String {
    let bold = if look.bold { " font-weight=\"700\"" } else { "" };
    let line = if look.underlined { " text-decoration=\"underline\"" } else { "" };
    format!(" fill=\"{}\"{bold}{line}", hex(look.color))
}

/// The dots of a braille character.
fn dots(c: char, left: f64, top: f64) -> Option<String> {
    /// Column and row of each bit.
    const PLACES: [(f64, f64); 8] =
        [(0., 0.), (0., 1.), (0., 2.), (1., 0.), (1., 1.), (1., 2.), (0., 3.), (1., 3.)];
    let bits = u32::from(c).checked_sub(0x2800).filter(|bits| *bits < 0x100)?;
    let mut path = String::new();
    for (bit, (column, row)) in PLACES.into_iter().enumerate() {
        if bits >> bit & 1 == 1 {
            let x = left + WIDE * (0.25 + column / 2.0) - 1.2;
            let y = top + HIGH * (0.125 + row / 4.0) - 1.2;
            let _ = write!(path, "M{x:.1} {y:.1}h2.4v2.4h-2.4z");
        }
    }
    Some(path)
}

/// Blocks from the left or lower edge, in eighths. Bars are inset, so that those of adjacent rows do not touch.
fn block(c: char, left: f64, top: f64) -> Option<String> {
    let code = u32::from(c);
    match code {
        0x2588..=0x258f => {
            let share = f64::from(0x2590 - code) / 8.0;
            Some(rectangle(left, top + 3.0, WIDE * share, HIGH - 6.0))
        }
        0x2581..=0x2587 => {
            let high = HIGH * f64::from(code - 0x2580) / 8.0;
            Some(rectangle(left, top + HIGH - high, WIDE, high))
        }
        0x2580 => Some(rectangle(left, top, WIDE, HIGH / 2.0)),
        _ => None,
    }
}

fn rectangle(x: f64, y: f64, wide: f64, high: f64) -> String {
    format!("M{x:.1} {y:.1}h{wide:.1}v{high:.1}h-{wide:.1}z")
}

/// Lines from the middle of the cell to its edges: up, right, down, left.
fn strokes(c: char, left: f64, top: f64) -> Option<String> {
    let arms = match c {
        '─' => [false, true, false, true],
        '│' | '┃' => [true, false, true, false],
        '┤' => [true, false, true, true],
        '├' => [true, true, true, false],
        '┬' => [false, true, true, true],
        '┴' => [true, true, false, true],
        '┼' => [true; 4],
        '╭' | '┌' => [false, true, true, false],
        '╮' | '┐' => [false, false, true, true],
        '╰' | '└' => [true, true, false, false],
        '╯' | '┘' => [true, false, false, true],
        _ => return None,
    };
    let (right, bottom) = (left + WIDE, top + HIGH);
    let (x, y) = (left + WIDE / 2.0, top + HIGH / 2.0);
    let ends = [(x, top), (right, y), (x, bottom), (left, y)];
    let mut path = String::new();
    let mut points = arms.into_iter().zip(ends).filter(|(is, _)| *is).map(|(_, end)| end);
    if matches!(c, '╭' | '╮' | '╰' | '╯') {
        if let (Some((ax, ay)), Some((bx, by))) = (points.next(), points.next()) {
            let _ = write!(path, "M{ax:.1} {ay:.1}Q{x:.1} {y:.1} {bx:.1} {by:.1}");
        }
    } else {
        for (ex, ey) in points {
            let _ = write!(path, "M{x:.1} {y:.1}L{ex:.1} {ey:.1}");
        }
    }
    Some(path)
}

fn hex((r, g, b): Rgb) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// Mixes two colours: 0 is `one`, 1 is `other`.
fn between(one: Rgb, other: Rgb, share: f64) -> Rgb {
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * share).round() as u8;
    (mix(one.0, other.0), mix(one.1, other.1), mix(one.2, other.2))
}

fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            // Invalid in XML.
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use ratatui::{
        layout::Rect,
        style::{Color, Style},
    };

    use super::*;

    #[test]
    fn text_is_limited_to_its_cells() {
        let mut buffer = Buffer::with_lines(["火 a<b  c&d"]);
        buffer.set_style(Rect::new(3, 0, 3, 1), Style::new().fg(Color::Red));
        let svg = svg(&buffer, false, "sales");
        assert!(svg.contains(
            "<text x=\"8.4\" y=\"13.5\" text-anchor=\"middle\" fill=\"#d7dce2\">火</text>"
        ));
        let red = "<text x=\"25.2\" y=\"13.5\" textLength=\"25.2\" lengthAdjust=\"spacingAndGlyphs\" fill=\"#cd3131\">a&lt;b</text>";
        assert!(svg.contains(red), "{svg}");
        assert!(svg.contains(">c&amp;d</text>"), "{svg}");
        assert!(!svg.contains("http://") || svg.matches("http").count() == 1, "nothing is fetched");
    }

    #[test]
    fn charts_bars_and_boxes_are_shapes() {
        let svg = svg(&Buffer::with_lines(["╭─╮", "█▌░", "⣿⠤ "]), true, "overview");
        assert!(!svg.contains("<text"), "{svg}");
        let shapes = svg.matches("<path").count();
        assert_eq!(shapes, 3, "bars and dots, shade, lines: {svg}");
        assert!(svg.contains("fill=\"#fdfcfa\""), "light paper");
    }

    #[test]
    fn a_selected_row_has_its_background() {
        let mut buffer = Buffer::with_lines(["ab"]);
        buffer.set_style(buffer.area, Style::new().add_modifier(Modifier::REVERSED));
        let svg = svg(&buffer, false, "sales");
        assert!(svg.contains("height=\"18\" fill=\"#d7dce2\""), "{svg}");
        assert!(svg.contains("fill=\"#14161b\">ab</text>"), "{svg}");
    }
}
