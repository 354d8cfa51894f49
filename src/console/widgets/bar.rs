//! Horizontal bars with a resolution of an eighth of a cell.
//!
//! Unlike ratatui's `Gauge` and `LineGauge`, a bar is part of a line of text, is never full or empty before it really
//! is, and has a rest that is visible without colours.

use ratatui::text::Span;

use crate::theme::{Theme, glyphs};

/// Parts of a cell, from the thinnest.
const EIGHTHS: [&str; 7] = ["▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A bar of `cells` cells filled to `share` (0 to 1); the rest is drawn faintly with `rest`, if given.
pub(crate) fn bar(
    theme: Theme,
    share: f64,
    cells: u16,
    full: ratatui::style::Style,
    rest: Option<&str>,
) -> Vec<Span<'static>> {
    let cells = usize::from(cells);
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let steps = if theme.ascii { 1 } else { EIGHTHS.len() + 1 };
    let mut filled = (share * (cells * steps) as f64).round() as usize;
    // A small share is not drawn as empty, nor a nearly full one as full.
    if share > 0.0 && filled == 0 && cells > 0 {
        filled = 1;
    }
    if share < 1.0 && filled == cells * steps && cells > 0 {
        filled -= 1;
    }
    let mut solid = glyphs::FULL.repeat(filled / steps);
    let part = filled % steps;
    if part > 0 {
        solid.push_str(EIGHTHS[part - 1]);
    }
    let left = cells - filled / steps - usize::from(part > 0);
    let rest = rest.unwrap_or(" ").repeat(left);
    vec![Span::styled(solid, full), Span::styled(rest, theme.soft)]
}

#[cfg(test)]
mod tests {
    use ratatui::text::Line;

    use super::*;
    use crate::theme::Depth;

    fn drawn(share: f64, ascii: bool) -> String {
        let theme = Theme::new(Depth::None, ascii);
        Line::from(bar(theme, share, 4, theme.accent, Some(glyphs::EMPTY))).to_string()
    }

    #[test]
    fn ends_are_exact() {
        let shares = [0.0, 0.000_1, 0.5, 0.999_9, 1.0, f64::NAN, 7.0];
        let bars: Vec<_> = shares.iter().map(|share| drawn(*share, false)).collect();
        assert_eq!(bars, ["░░░░", "▏░░░", "██░░", "███▉", "████", "░░░░", "████"]);
        assert_eq!(drawn(0.6, true), "██░░", "ASCII has whole cells only");
    }
}
