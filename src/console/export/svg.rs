//! The screen as SVG that looks the same everywhere, without depending on a font. Bars, braille dots and lines are
//! drawn as shapes; each run of text is fitted to its cells.

use std::{collections::BTreeMap, fmt::Write as _};

use ratatui::{
    buffer::{Buffer, Cell},
    style::{Color, Modifier},
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
    let paper = first.unwrap_or(paper);
    let (columns, rows) = (f64::from(buffer.area.width), f64::from(buffer.area.height));
    let (w, h) = (columns * WIDE + 2.0 * MARGIN, rows * HIGH + 2.0 * MARGIN);
    let mut canvas = Canvas { paper, writer, ..Canvas::default() };
    for (line, y) in (buffer.area.y..buffer.area.bottom()).enumerate() {
        let mut run = Run::default();
        for (x, cell) in row(buffer, y) {
            canvas.cell(x, line, cell, &mut run);
        }
        canvas.end(&mut run, line);
    }
    canvas.lay();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w:.0}\" height=\"{h:.0}\" viewBox=\"0 0 {w:.1} {h:.1}\" role=\"img\" aria-label=\"seckill: {name}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{}\"/>\n\
         <g transform=\"translate({MARGIN} {MARGIN})\" font-family=\"{FONTS}\" font-size=\"{FONT_SIZE}\">\n",
        hex(paper)
    );
    svg.push_str(&canvas.behind);
    for (color, path) in &canvas.shapes {
        let _ = writeln!(svg, "<path fill=\"{}\" d=\"{path}\"/>", hex(*color));
    }
    for (color, path) in &canvas.lines {
        let color = hex(*color);
        let _ = writeln!(svg, "<path fill=\"none\" stroke=\"{color}\" d=\"{path}\"/>");
    }
    svg.push_str(&canvas.letters);
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// Accumulated shapes from back to front; paths of one colour are one shape.
#[derive(Default)]
struct Canvas {
    paper: Rgb,
    writer: Rgb,
    behind: String,
    strip: Option<Strip>,
    shapes: BTreeMap<Rgb, String>,
    lines: BTreeMap<Rgb, String>,
    letters: String,
}

/// Adjacent cells with the same background.
struct Strip {
    line: usize,
    begin: usize,
    end: usize,
    color: Rgb,
}

/// Adjacent characters of one style.
#[derive(Default)]
struct Run {
    x: u16,
    text: String,
    look: Option<Look>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Look {
    color: Rgb,
    bold: bool,
    underlined: bool,
}

impl Canvas {
    /// Text and background colour of a cell.
    fn colors(&self, cell: &Cell) -> (Rgb, Rgb) {
        let own = |color: Color, own: Rgb| rgb(color).unwrap_or(own);
        let (mut on, mut under) = (own(cell.fg, self.writer), own(cell.bg, self.paper));
        if cell.modifier.contains(Modifier::REVERSED) {
            (on, under) = (under, on);
        }
        if cell.modifier.contains(Modifier::DIM) {
            on = between(on, under, 0.42);
        }
        (on, under)
    }

    fn cell(&mut self, x: u16, line: usize, cell: &Cell, run: &mut Run) {
        let (on, under) = self.colors(cell);
        let symbol = cell.symbol();
        let cells = width(symbol).max(1);
        let (left, top) = (f64::from(x) * WIDE, line as f64 * HIGH);
        self.under(x, cells, line, under);
        let mut chars = symbol.chars();
        let (first, more) = (chars.next().unwrap_or(' '), chars.next().is_some());
        let pale = between(on, under, 0.78);
        let drawn = !more
            && (draw_dots(first, left, top, self.shapes.entry(on).or_default())
                || draw_shade(first, left, top, self.shapes.entry(pale).or_default())
                || draw_block(first, left, top, self.shapes.entry(on).or_default())
                || draw_line(first, left, top, self.lines.entry(on).or_default()));
        self.shapes.retain(|_, path| !path.is_empty());
        self.lines.retain(|_, path| !path.is_empty());
        let look = Look {
            color: on,
            bold: cell.modifier.contains(Modifier::BOLD),
            underlined: cell.modifier.contains(Modifier::UNDERLINED),
        };
        let plain = symbol.is_ascii() && !drawn;
        if run.look != Some(look) || !plain || run.text.ends_with("  ") {
            self.end(run, line);
        }
        if drawn {
            return;
        }
        if !plain {
            self.sign(x, cells, line, symbol, look);
        } else if !run.text.is_empty() || symbol != " " {
            if run.text.is_empty() {
                (run.x, run.look) = (x, Some(look));
            }
            run.text.push_str(symbol);
        }
    }

    /// Fills the background of a cell, merged with its neighbours: gaps between shapes would be visible.
    fn under(&mut self, x: u16, cells: usize, line: usize, color: Rgb) {
        let from = usize::from(x);
        match &mut self.strip {
            Some(strip) if (strip.line, strip.end, strip.color) == (line, from, color) => {
                strip.end += cells;
            }
            _ => {
                self.lay();
                self.strip = Some(Strip { line, begin: from, end: from + cells, color });
            }
        }
    }

    fn lay(&mut self) {
        let Some(strip) = self.strip.take().filter(|strip| strip.color != self.paper) else {
            return;
        };
        let (left, top) = (strip.begin as f64 * WIDE, strip.line as f64 * HIGH);
        let wide = (strip.end - strip.begin) as f64 * WIDE;
        let fill = hex(strip.color);
        let _ = writeln!(
            self.behind,
            "<rect x=\"{left:.1}\" y=\"{top:.0}\" width=\"{wide:.1}\" height=\"{HIGH:.0}\" fill=\"{fill}\"/>"
        );
    }

    /// Writes a run, with each character in its cell whatever the font.
    fn end(&mut self, run: &mut Run, line: usize) {
        let Run { x, text, look } = std::mem::take(run);
        let (text, Some(look)) = (text.trim_end(), look) else { return };
        if text.is_empty() {
            return;
        }
        let (left, base) = (f64::from(x) * WIDE, line as f64 * HIGH + BASE);
        let _ = writeln!(
            self.letters,
            "<text x=\"{left:.1}\" y=\"{base:.1}\" textLength=\"{:.1}\" lengthAdjust=\"spacingAndGlyphs\"{}>{}</text>",
            text.len() as f64 * WIDE,
            attributes(look),
            escaped(text)
        );
    }

    /// Writes one character centred in its cells: fonts differ most in these.
    fn sign(&mut self, x: u16, cells: usize, line: usize, symbol: &str, look: Look) {
        let middle = (f64::from(x) + cells as f64 / 2.0) * WIDE;
        let base = line as f64 * HIGH + BASE;
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
fn draw_dots(c: char, left: f64, top: f64, path: &mut String) -> bool {
    /// Column and row of each bit.
    const PLACES: [(f64, f64); 8] =
        [(0., 0.), (0., 1.), (0., 2.), (1., 0.), (1., 1.), (1., 2.), (0., 3.), (1., 3.)];
    let Some(bits) = u32::from(c).checked_sub(0x2800).filter(|bits| *bits < 0x100) else {
        return false;
    };
    for (bit, (column, row)) in PLACES.into_iter().enumerate() {
        if bits >> bit & 1 == 1 {
            let x = left + WIDE * (0.25 + column / 2.0) - 1.2;
            let y = top + HIGH * (0.125 + row / 4.0) - 1.2;
            let _ = write!(path, "M{x:.1} {y:.1}h2.4v2.4h-2.4z");
        }
    }
    true
}

fn draw_shade(c: char, left: f64, top: f64, path: &mut String) -> bool {
    c == '░' && rectangle(path, left, top + 3.0, WIDE, HIGH - 6.0)
}

/// Blocks from the left or lower edge, in eighths. Bars are inset, so that those of adjacent rows do not touch.
fn draw_block(c: char, left: f64, top: f64, path: &mut String) -> bool {
    let code = u32::from(c);
    match code {
        0x2588 => rectangle(path, left, top + 3.0, WIDE, HIGH - 6.0),
        0x2589..=0x258f => {
            let share = f64::from(0x2590 - code) / 8.0;
            rectangle(path, left, top + 3.0, WIDE * share, HIGH - 6.0)
        }
        0x2581..=0x2587 => {
            let high = HIGH * f64::from(code - 0x2580) / 8.0;
            rectangle(path, left, top + HIGH - high, WIDE, high)
        }
        0x2580 => rectangle(path, left, top, WIDE, HIGH / 2.0),
        _ => false,
    }
}

fn rectangle(path: &mut String, x: f64, y: f64, wide: f64, high: f64) -> bool {
    let _ = write!(path, "M{x:.1} {y:.1}h{wide:.1}v{high:.1}h-{wide:.1}z");
    true
}

/// Lines from the middle of the cell to its edges: up, right, down, left.
fn draw_line(c: char, left: f64, top: f64, path: &mut String) -> bool {
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
        _ => return false,
    };
    let (right, bottom) = (left + WIDE, top + HIGH);
    let (x, y) = (left + WIDE / 2.0, top + HIGH / 2.0);
    let ends = [(x, top), (right, y), (x, bottom), (left, y)];
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
    true
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
    use ratatui::{layout::Rect, style::Style};

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
