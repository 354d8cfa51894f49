//! The screen as SVG. Each character fills its cells, whatever the font; converters of ANSI text, such as `anstyle-svg`, leave the
//! width of braille and Chinese characters to the viewer.

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

/// The classes of texts.
const STYLE: &str = "rect{shape-rendering:crispEdges}.bold{font-weight:700}.under{text-decoration:underline}.dim{opacity:.58}";

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
}

impl Drawn<'_> {
    /// Whether both are part of one text. Fonts differ most in the width of other characters than ASCII: each of these is
    /// placed by itself.
    fn joins(&self, next: &Self) -> bool {
        self.look == next.look && self.symbol.is_ascii() && next.symbol.is_ascii()
    }
}

fn wide(run: &[Drawn<'_>]) -> f64 {
    run.iter().map(|cell| width(cell.symbol).max(1)).sum::<usize>() as f64 * WIDE
}

/// Draws a text that fills its cells, whatever the font.
fn draw(svg: &mut String, top: f64, run: &[Drawn<'_>]) {
    let is_sign = |cell: &Drawn<'_>| cell.symbol != " ";
    let (Some(from), Some(to)) = (run.iter().position(is_sign), run.iter().rposition(is_sign))
    else {
        return;
    };
    let run = &run[from..=to];
    let (color, _, class) = &run[0].look;
    let text: String = run.iter().map(|cell| cell.symbol).collect();
    let (color, left, base, wide) = (hex(*color), run[0].left, top + BASE, wide(run));
    let _ = writeln!(
        svg,
        "<text class=\"{class}\" color=\"{color}\" x=\"{left:.1}\" y=\"{base:.1}\" textLength=\"{wide:.1}\" lengthAdjust=\"spacingAndGlyphs\">{}</text>",
        escaped(&text)
    );
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
    fn each_kind_of_character_fills_its_cells() {
        let svg = svg(&Buffer::with_lines(["╭─╮ab", "⣿⠤ "]), true, "overview");
        for (text, wide) in [("╭", "8.4"), ("ab", "16.8"), ("⣿", "8.4")] {
            let text = format!("textLength=\"{wide}\" lengthAdjust=\"spacingAndGlyphs\">{text}<");
            assert!(svg.contains(&text), "{svg}");
        }
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
