//! The screen as SVG that looks the same everywhere, without depending on a font. Bars, braille dots and lines are
//! drawn as shapes, and each run of text is fitted to its cells; converters of ANSI text, such as `anstyle-svg`, leave
//! both to the font of the viewer.

use std::fmt::Write as _;

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
    let paper = first.unwrap_or(paper);
    let (columns, rows) = (f64::from(buffer.area.width), f64::from(buffer.area.height));
    let (w, h) = (columns * WIDE + 2.0 * MARGIN, rows * HIGH + 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w:.0}\" height=\"{h:.0}\" viewBox=\"0 0 {w:.1} {h:.1}\" role=\"img\" aria-label=\"seckill: {name}\">\n\
         <style>{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{}\"/>\n\
         <g transform=\"translate({MARGIN} {MARGIN})\" font-family=\"{FONTS}\" font-size=\"{FONT_SIZE}\" fill=\"currentColor\" xml:space=\"preserve\">\n",
        hex(paper)
    );
    for (line, y) in (buffer.area.y..buffer.area.bottom()).enumerate() {
        let top = line as f64 * HIGH;
        let cells = row(buffer, y).map(|(x, cell)| Drawn {
            left: f64::from(x) * WIDE,
            symbol: cell.symbol(),
            look: look(cell, paper, writer),
            shape: shape(f64::from(x) * WIDE, top, cell.symbol()),
        });
        let cells: Vec<Drawn<'_>> = cells.collect();
        for run in cells.chunk_by(Drawn::joins) {
            let (left, under) = (run[0].left, run[0].look.1);
            if under != paper {
                let (wide, fill) = (wide(run), hex(under));
                let _ = writeln!(
                    svg,
                    "<rect x=\"{left:.1}\" y=\"{top:.0}\" width=\"{wide:.1}\" height=\"{HIGH:.0}\" fill=\"{fill}\"/>"
                );
            }
            draw(&mut svg, top, run);
        }
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// The classes of shapes and texts.
const STYLE: &str = "rect{shape-rendering:crispEdges}.shade{fill-opacity:.22}.line{fill:none;stroke:currentColor}.bold{font-weight:700}.under{text-decoration:underline}.dim{opacity:.58}";

/// Text colour, background and classes of a cell.
type Look = (Rgb, Rgb, String);

fn look(cell: &Cell, paper: Rgb, writer: Rgb) -> Look {
    let has = |modifier| cell.modifier.contains(modifier);
    let (color, under) = (rgb(cell.fg).unwrap_or(writer), rgb(cell.bg).unwrap_or(paper));
    let (color, under) = if has(Modifier::REVERSED) { (under, color) } else { (color, under) };
    let classes =
        [("bold", Modifier::BOLD), ("under", Modifier::UNDERLINED), ("dim", Modifier::DIM)];
    let classes = classes.into_iter().filter(|(_, modifier)| has(*modifier)).map(|(name, _)| name);
    (color, under, classes.collect::<Vec<_>>().join(" "))
}

/// A visible cell.
struct Drawn<'a> {
    left: f64,
    symbol: &'a str,
    look: Look,
    /// Class and path of a shape; `None` for text.
    shape: Option<(&'static str, String)>,
}

impl Drawn<'_> {
    /// Whether both are part of one path, or of one ASCII text: fonts differ most in other characters.
    fn joins(&self, next: &Self) -> bool {
        let class = |cell: &Self| cell.shape.as_ref().map(|(class, _)| *class);
        let ascii = self.symbol.is_ascii() && next.symbol.is_ascii();
        self.look == next.look && class(self) == class(next) && (ascii || self.shape.is_some())
    }
}

fn wide(run: &[Drawn<'_>]) -> f64 {
    run.iter().map(|cell| width(cell.symbol).max(1)).sum::<usize>() as f64 * WIDE
}

/// Draws a path, or a text with each character in its cells whatever the font.
fn draw(svg: &mut String, top: f64, run: &[Drawn<'_>]) {
    let Drawn { look: (color, _, class), shape, .. } = &run[0];
    let color = hex(*color);
    if let Some((shape, _)) = shape {
        let class = format!("{shape} {class}");
        let class = class.trim();
        let shapes = run.iter().filter_map(|cell| cell.shape.as_ref());
        let path: String = shapes.map(|(_, path)| path.as_str()).collect();
        let _ = writeln!(svg, "<path class=\"{class}\" color=\"{color}\" d=\"{path}\"/>");
        return;
    }
    let is_sign = |cell: &Drawn<'_>| cell.symbol != " ";
    let (Some(from), Some(to)) = (run.iter().position(is_sign), run.iter().rposition(is_sign))
    else {
        return;
    };
    let run = &run[from..=to];
    let text: String = run.iter().map(|cell| cell.symbol).collect();
    let (left, base, wide) = (run[0].left, top + BASE, wide(run));
    let _ = writeln!(
        svg,
        "<text class=\"{class}\" color=\"{color}\" x=\"{left:.1}\" y=\"{base:.1}\" textLength=\"{wide:.1}\" lengthAdjust=\"spacingAndGlyphs\">{}</text>",
        escaped(&text)
    );
}

/// The class and the path of a bar, a dot or a line.
fn shape(left: f64, top: f64, symbol: &str) -> Option<(&'static str, String)> {
    let mut chars = symbol.chars();
    let c = chars.next().filter(|_| chars.as_str().is_empty())?;
    let (code, high) = (u32::from(c), HIGH * f64::from(u32::from(c) & 7) / 8.0);
    Some(match code {
        // Blocks from the left or lower edge, in eighths.
        0x2588..=0x258f => ("", rectangle(left, top, WIDE * f64::from(0x2590 - code) / 8.0, HIGH)),
        0x2581..=0x2587 => ("", rectangle(left, top + HIGH - high, WIDE, high)),
        0x2580 => ("", rectangle(left, top, WIDE, HIGH / 2.0)),
        0x2591 => ("shade", rectangle(left, top, WIDE, HIGH)),
        0x2800..=0x28ff => ("", dots(code - 0x2800, left, top)),
        _ => ("line", strokes(c, left, top)?),
    })
}

/// The dots of a braille character.
fn dots(bits: u32, left: f64, top: f64) -> String {
    /// Column and row of each bit.
    const PLACES: [(f64, f64); 8] =
        [(0., 0.), (0., 1.), (0., 2.), (1., 0.), (1., 1.), (1., 2.), (0., 3.), (1., 3.)];
    let set = PLACES.into_iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
    set.map(|(_, (column, row))| {
        let x = left + WIDE * (0.25 + column / 2.0) - 1.2;
        let y = top + HIGH * (0.125 + row / 4.0) - 1.2;
        rectangle(x, y, 2.4, 2.4)
    })
    .collect()
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
    let ends = arms.into_iter().zip([(x, top), (right, y), (x, bottom), (left, y)]);
    let mut path = String::new();
    for (_, (to_x, to_y)) in ends.filter(|(is_drawn, _)| *is_drawn) {
        let _ = write!(path, "M{x:.1} {y:.1}L{to_x:.1} {to_y:.1}");
    }
    Some(path)
}

fn hex((r, g, b): Rgb) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

fn escaped(text: &str) -> String {
    let safe = |c: char| match c {
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '&' => "&amp;".to_owned(),
        // Invalid in XML.
        '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => "\u{fffd}".to_owned(),
        c => c.to_string(),
    };
    text.chars().map(safe).collect()
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
        let wide = "color=\"#d7dce2\" x=\"0.0\" y=\"13.5\" textLength=\"16.8\" lengthAdjust=\"spacingAndGlyphs\">火</text>";
        assert!(svg.contains(wide), "{svg}");
        let red = "color=\"#aa0000\" x=\"25.2\" y=\"13.5\" textLength=\"25.2\" lengthAdjust=\"spacingAndGlyphs\">a&lt;b</text>";
        assert!(svg.contains(red), "{svg}");
        assert!(svg.contains(">c&amp;d</text>"), "{svg}");
        assert!(!svg.contains("http://") || svg.matches("http").count() == 1, "nothing is fetched");
    }

    #[test]
    fn charts_bars_and_boxes_are_shapes() {
        let svg = svg(&Buffer::with_lines(["╭─╮", "█▌░", "⣿⠤ "]), true, "overview");
        assert!(!svg.contains("<text"), "{svg}");
        let shapes = svg.matches("<path").count();
        assert_eq!(shapes, 4, "lines, bars, shade, dots: {svg}");
        assert!(svg.contains("class=\"line\"") && svg.contains("class=\"shade\""), "{svg}");
        assert!(svg.contains("fill=\"#fdfcfa\""), "light paper");
    }

    #[test]
    fn a_selected_row_has_its_background() {
        let mut buffer = Buffer::with_lines(["ab"]);
        buffer.set_style(buffer.area, Style::new().add_modifier(Modifier::REVERSED));
        let svg = svg(&buffer, false, "sales");
        assert!(svg.contains("height=\"18\" fill=\"#d7dce2\""), "{svg}");
        let text = svg.lines().find(|line| line.ends_with(">ab</text>"));
        assert!(text.is_some_and(|text| text.contains("color=\"#14161b\"")), "{svg}");
    }
}
