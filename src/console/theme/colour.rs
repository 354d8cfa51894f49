//! Colour arithmetic: parsing, reduction to fewer colours, and brightness.

use ratatui::style::Color;

/// The sixteen basic colours in numeric order, then the terminal's default.
const NAMES: [(&str, Color); 17] = [
    ("black", Color::Black),
    ("red", Color::Red),
    ("green", Color::Green),
    ("yellow", Color::Yellow),
    ("blue", Color::Blue),
    ("magenta", Color::Magenta),
    ("cyan", Color::Cyan),
    ("white", Color::Gray),
    ("bright-black", Color::DarkGray),
    ("bright-red", Color::LightRed),
    ("bright-green", Color::LightGreen),
    ("bright-yellow", Color::LightYellow),
    ("bright-blue", Color::LightBlue),
    ("bright-magenta", Color::LightMagenta),
    ("bright-cyan", Color::LightCyan),
    ("bright-white", Color::White),
    ("default", Color::Reset),
];

/// Red, green and blue.
pub(crate) type Rgb = (u8, u8, u8);

/// The usual values of the basic colours; users may change them.
const SIXTEEN: [Rgb; 16] = [
    (0x1c, 0x1c, 0x1c),
    (0xcd, 0x31, 0x31),
    (0x0d, 0xa1, 0x5f),
    (0xb5, 0x8b, 0x00),
    (0x24, 0x72, 0xc8),
    (0xbc, 0x3f, 0xbc),
    (0x11, 0x93, 0xb5),
    (0xc8, 0xc8, 0xc8),
    (0x76, 0x76, 0x76),
    (0xf1, 0x4c, 0x4c),
    (0x23, 0xd1, 0x8b),
    (0xf5, 0xd7, 0x43),
    (0x3b, 0x8e, 0xea),
    (0xd6, 0x70, 0xd6),
    (0x29, 0xb8, 0xdb),
    (0xff, 0xff, 0xff),
];

/// Steps of the 6×6×6 cube of the 256-colour palette.
const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];

/// Parses a name or `#rrggbb`.
pub(super) fn read(text: &str) -> Option<Color> {
    if let Some((_, color)) = NAMES.iter().find(|(name, _)| *name == text) {
        return Some(*color);
    }
    let digits = text.strip_prefix('#').filter(|it| it.len() == 6)?;
    if !digits.bytes().all(|it| it.is_ascii_hexdigit()) {
        return None;
    }
    let value = u32::from_str_radix(digits, 16).ok()?;
    let [_, r, g, b] = value.to_be_bytes();
    Some(Color::Rgb(r, g, b))
}

/// The index of a basic colour.
fn place(color: Color) -> Option<u8> {
    let at = NAMES.iter().position(|(_, it)| *it == color && *it != Color::Reset)?;
    u8::try_from(at).ok()
}

/// Its RGB value; `None` for the terminal's default colour, which is unknown.
pub(crate) fn rgb(color: Color) -> Option<Rgb> {
    match color {
        Color::Reset => None,
        Color::Rgb(r, g, b) => Some((r, g, b)),
        Color::Indexed(at @ 0..16) => SIXTEEN.get(usize::from(at)).copied(),
        Color::Indexed(at @ 16..232) => {
            let step = |part: u8| STEPS.get(usize::from(part % 6)).copied().unwrap_or(0);
            let at = at - 16;
            Some((step(at / 36), step(at / 6), step(at)))
        }
        Color::Indexed(at) => {
            let grey = 8 + 10 * (at - 232);
            Some((grey, grey, grey))
        }
        named => SIXTEEN.get(usize::from(place(named)?)).copied(),
    }
}

/// The nearest of the 240 fixed colours of the 256-colour palette.
pub(super) fn among_256(color: Color) -> Color {
    let Color::Rgb(..) = color else { return color };
    let wanted = rgb(color).unwrap_or_default();
    let apart = |at: u8| {
        let other = rgb(Color::Indexed(at)).unwrap_or_default();
        // The eye is most sensitive to green and least to blue.
        [(wanted.0, other.0, 3), (wanted.1, other.1, 6), (wanted.2, other.2, 1)]
            .into_iter()
            .map(|(one, other, weight)| weight * i32::from(one.abs_diff(other)).pow(2))
            .sum::<i32>()
    };
    Color::Indexed((16..=255).min_by_key(|at| apart(*at)).unwrap_or(16))
}

/// Maps a colour to a basic one by hue, and a grey by brightness. The nearest by distance would turn half of all
/// colours grey.
pub(super) fn among_16(color: Color) -> Color {
    let (Color::Rgb(..) | Color::Indexed(16..)) = color else { return color };
    let Some((r, g, b)) = rgb(color) else { return color };
    let (most, least) = (r.max(g).max(b), r.min(g).min(b));
    let spread = f64::from(most - least);
    let light = f64::from(u16::from(most) + u16::from(least)) / 510.0;
    if is_grey(color) {
        return match light {
            ..0.2 => Color::Black,
            ..0.55 => Color::DarkGray,
            ..0.9 => Color::Gray,
            _ => Color::White,
        };
    }
    let [r, g, b] = [r, g, b].map(f64::from);
    let most = f64::from(most);
    // Sixths of the hue circle, from red over yellow and green.
    let hue = if r >= most {
        ((g - b) / spread).rem_euclid(6.0)
    } else if g >= most {
        (b - r) / spread + 2.0
    } else {
        (r - g) / spread + 4.0
    };
    let pair = match hue.round() as u8 {
        1 => [Color::Yellow, Color::LightYellow],
        2 => [Color::Green, Color::LightGreen],
        3 => [Color::Cyan, Color::LightCyan],
        4 => [Color::Blue, Color::LightBlue],
        5 => [Color::Magenta, Color::LightMagenta],
        _ => [Color::Red, Color::LightRed],
    };
    pair[usize::from(light > 0.7)]
}

/// Whether it has no perceptible hue.
pub(super) fn is_grey(color: Color) -> bool {
    rgb(color).is_some_and(|(r, g, b)| r.max(g).max(b) - r.min(g).min(b) < 28)
}

/// Perceived brightness from 0 to 1 (the relative luminance of WCAG 2).
pub(super) fn luminance((r, g, b): Rgb) -> f64 {
    let linear = |part: u8| {
        let part = f64::from(part) / 255.0;
        if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_parsed_from_names_numbers_and_hex() {
        assert_eq!(read("cyan"), Some(Color::Cyan));
        assert_eq!(read("default"), Some(Color::Reset));
        assert_eq!(read("#1aA8c8"), Some(Color::Rgb(0x1a, 0xa8, 0xc8)));
        for bad in ["", "#", "#12345", "#1234567", "#12345g", "#+12345", "Cyan", "pink", "1aa8c8"] {
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
            ("#45b56b", Color::Green),
            ("#d29922", Color::Yellow),
            ("#f0544c", Color::Red),
            ("#ff00c8", Color::Magenta),
            ("#123f9e", Color::Blue),
            ("#ffb3b3", Color::LightRed),
            ("#808080", Color::DarkGray),
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
