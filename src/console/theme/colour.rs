//! Colour arithmetic: parsing, reduction to fewer colours, and brightness.

use anstyle::RgbColor;
use anstyle_lossy::palette::Palette as Sixteen;
use ratatui::style::Color;

/// Red, green and blue.
pub(crate) type Rgb = (u8, u8, u8);

/// Usual values of the basic colours; users may change them.
const SIXTEEN: Sixteen = anstyle_lossy::palette::VGA;

/// Parses a name, an index or `#rrggbb`. Unlike in ratatui, `white` is the seventh colour of the terminal.
pub(super) fn read(text: &str) -> Option<Color> {
    match text {
        "default" => Some(Color::Reset),
        "white" => Some(Color::Gray),
        text => text.parse().ok(),
    }
}

/// Its RGB value; `None` for the terminal's default colour, which is unknown.
pub(crate) fn rgb(color: Color) -> Option<Rgb> {
    if color == Color::Reset {
        return None;
    }
    let RgbColor(r, g, b) = anstyle_lossy::color_to_rgb(color.into(), SIXTEEN);
    Some((r, g, b))
}

/// The nearest of the fixed colours of the 256-colour palette.
pub(super) fn among_256(color: Color) -> Color {
    match color {
        Color::Rgb(r, g, b) => anstyle_lossy::rgb_to_xterm(RgbColor(r, g, b)).into(),
        few => few,
    }
}

/// The nearest of the basic colours.
pub(super) fn among_16(color: Color) -> Color {
    match color {
        Color::Rgb(..) | Color::Indexed(16..) => {
            anstyle_lossy::color_to_ansi(color.into(), SIXTEEN).into()
        }
        few => few,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_parsed_from_names_numbers_and_hex() {
        assert_eq!(read("cyan"), Some(Color::Cyan));
        assert_eq!(read("default"), Some(Color::Reset));
        assert_eq!(read("#1aA8c8"), Some(Color::Rgb(0x1a, 0xa8, 0xc8)));
        for bad in ["", "#", "#12345", "#1234567", "#12345g", "pink", "1aa8c8"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn fewer_colours_keep_the_meaning() {
        let rgb = |text: &str| read(text).unwrap();
        assert_eq!(among_256(rgb("#1aa8c8")), Color::Indexed(38));
        assert_eq!(among_256(rgb("#808080")), Color::Indexed(244));
        assert_eq!(among_256(Color::Green), Color::Green);
        let sixteen = [
            ("#1aa8c8", Color::Cyan),
            ("#45b56b", Color::LightGreen),
            ("#d29922", Color::Yellow),
            ("#f0544c", Color::LightRed),
            ("#ff00c8", Color::LightMagenta),
            ("#123f9e", Color::Blue),
            ("#ffb3b3", Color::Gray),
            ("#606060", Color::DarkGray),
            ("#050505", Color::Black),
            ("#ffffff", Color::White),
        ];
        for (text, color) in sixteen {
            assert_eq!(among_16(rgb(text)), color, "{text}");
        }
        assert_eq!(among_16(Color::Indexed(38)), Color::Cyan);
        assert_eq!(among_16(Color::Indexed(3)), Color::Indexed(3));
    }
}
