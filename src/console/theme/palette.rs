//! A theme as data: a colour per role. Built-in themes and theme files use the same table.

use ratatui::style::Color;

use super::colour::{luminance, rgb};

/// What a colour is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Text,
    Background,
    Soft,
    Heading,
    Accent,
    Good,
    Warn,
    Bad,
    Selection,
    SelectionText,
    Chart1,
    Chart2,
}

/// Every role with its name in a file, and the role that it falls back to.
pub(super) const ROLES: [(&str, Role, Option<Role>); 12] = [
    ("text", Role::Text, None),
    ("background", Role::Background, None),
    ("soft", Role::Soft, None),
    ("heading", Role::Heading, Some(Role::Soft)),
    ("accent", Role::Accent, None),
    ("good", Role::Good, None),
    ("warn", Role::Warn, None),
    ("bad", Role::Bad, None),
    ("selection", Role::Selection, None),
    ("selection_text", Role::SelectionText, None),
    ("chart_1", Role::Chart1, Some(Role::Accent)),
    ("chart_2", Role::Chart2, Some(Role::Soft)),
];

impl Role {
    /// Secondary text: on few colours grey becomes faint text, which never vanishes.
    pub(super) fn is_faint(self) -> bool {
        matches!(self, Self::Soft | Self::Heading | Self::Chart2)
    }
}

/// A colour, and its equivalent among the sixteen basic colours. `None`: derived from its hue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shade {
    pub(super) rich: Color,
    pub(super) plain: Option<Color>,
}

/// A colour for each role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Palette {
    shades: [Shade; ROLES.len()],
    /// Designed for a light terminal.
    light: bool,
}

impl Default for Palette {
    fn default() -> Self {
        Self::DARK
    }
}

const fn shade(rich: Color, plain: Color) -> Shade {
    Shade { rich, plain: Some(plain) }
}

const fn hex(value: u32, plain: Color) -> Shade {
    let [_, r, g, b] = value.to_be_bytes();
    shade(Color::Rgb(r, g, b), plain)
}

const OWN: Shade = shade(Color::Reset, Color::Reset);

impl Palette {
    /// For dark terminals; still readable on a light one, as text keeps the terminal's colour.
    const DARK: Self = Self {
        shades: [
            OWN,
            OWN,
            // Mid grey has contrast to both black and white.
            shade(Color::Indexed(245), Color::Reset),
            shade(Color::Indexed(245), Color::Reset),
            hex(0x1a_a8c8, Color::Cyan),
            hex(0x45_b56b, Color::Green),
            hex(0xd2_9922, Color::Yellow),
            hex(0xf4_655d, Color::Red),
            hex(0x1d_4f63, Color::Reset),
            hex(0xf2_f6f8, Color::Reset),
            hex(0x1a_a8c8, Color::Cyan),
            shade(Color::Indexed(243), Color::Reset),
        ],
        light: false,
    };
    const LIGHT: Self = Self {
        shades: [
            OWN,
            OWN,
            hex(0x66_6a70, Color::Reset),
            hex(0x4d_5157, Color::Reset),
            hex(0x00_6a8c, Color::Blue),
            hex(0x00_702e, Color::Green),
            hex(0x8f_5600, Color::Magenta),
            hex(0xc0_1530, Color::Red),
            hex(0xcb_e4ee, Color::Reset),
            hex(0x0d_2129, Color::Reset),
            hex(0x00_6a8c, Color::Blue),
            hex(0x7f_848b, Color::Reset),
        ],
        light: true,
    };
    /// High contrast: nothing is faint, and the background is set.
    const HIGH_CONTRAST: Self = Self {
        shades: [
            hex(0xff_ffff, Color::White),
            hex(0x00_0000, Color::Black),
            hex(0xdf_dfdf, Color::White),
            hex(0xff_ffff, Color::White),
            hex(0x4d_e8ff, Color::LightCyan),
            hex(0x3d_ff7c, Color::LightGreen),
            hex(0xff_e000, Color::LightYellow),
            hex(0xff_7a70, Color::LightRed),
            hex(0xff_e000, Color::LightYellow),
            hex(0x00_0000, Color::Black),
            hex(0x4d_e8ff, Color::LightCyan),
            hex(0xb8_b8b8, Color::Gray),
        ],
        light: false,
    };

    /// The built-in themes by name.
    pub(super) const BUILT_IN: [(&'static str, Self); 3] =
        [("dark", Self::DARK), ("light", Self::LIGHT), ("high-contrast", Self::HIGH_CONTRAST)];

    /// The built-in theme of that name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::BUILT_IN.into_iter().find(|(it, _)| *it == name).map(|(_, palette)| palette)
    }

    pub(super) fn shade(&self, role: Role) -> Shade {
        self.shades.get(role as usize).copied().unwrap_or(OWN)
    }

    /// Overrides these colours; roles that are not set follow their fallback role.
    pub(super) fn with(&self, overrides: &[(Role, Color)]) -> Self {
        let mut changed = self.clone();
        let set =
            |role: Role| overrides.iter().find(|(it, _)| *it == role).map(|(_, color)| *color);
        for (slot, (_, role, leader)) in changed.shades.iter_mut().zip(ROLES) {
            if let Some(color) = set(role).or_else(|| set(leader?)) {
                *slot = Shade { rich: color, plain: None };
            }
        }
        if let Some(paper) = set(Role::Background).and_then(rgb) {
            changed.light = luminance(paper) > 0.4;
        }
        changed
    }

    /// Whether it is dark on light.
    pub(super) fn is_light(&self) -> bool {
        self.light
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::colour::{Rgb, among_256};

    fn contrast(one: Rgb, other: Rgb) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn roles_are_listed_in_order() {
        for (at, (name, role, _)) in ROLES.into_iter().enumerate() {
            assert_eq!(role as usize, at, "{name}");
        }
    }

    #[test]
    fn every_colour_is_readable_on_its_background() {
        let papers: [(&str, &[Rgb]); 3] = [
            ("dark", &[(0, 0, 0), (0x12, 0x12, 0x16), (0x1e, 0x1e, 0x24), (0x28, 0x2c, 0x34)]),
            (
                "light",
                &[(255, 255, 255), (0xfa, 0xf8, 0xf2), (0xfd, 0xf6, 0xe3), (0xee, 0xee, 0xee)],
            ),
            ("high-contrast", &[(0, 0, 0)]),
        ];
        for (name, papers) in papers {
            let palette = Palette::named(name).unwrap();
            let color = |role: Role| rgb(palette.shade(role).rich);
            for (word, role, _) in ROLES {
                let least = match role {
                    // Normal text.
                    _ if name == "high-contrast" && role != Role::Chart2 => 7.0,
                    // Areas and lines, and secondary text.
                    Role::Chart1 | Role::Chart2 => 3.0,
                    _ if role.is_faint() => 4.0,
                    _ => 4.5,
                };
                if matches!(role, Role::Background | Role::Selection | Role::SelectionText) {
                    continue;
                }
                let Some(color) = color(role) else { continue };
                let coarse = rgb(among_256(palette.shade(role).rich)).unwrap();
                for (paper, color) in papers.iter().flat_map(|it| [(it, color), (it, coarse)]) {
                    let seen = contrast(color, *paper);
                    assert!(seen >= least, "{name}: {word} on {paper:?} has {seen:.2}");
                }
            }
            let (on, under) = (color(Role::SelectionText), color(Role::Selection));
            assert!(contrast(on.unwrap(), under.unwrap()) >= 7.0, "{name}: the chosen row");
        }
    }

    #[test]
    fn omitted_colours_follow_the_base_theme() {
        let text = [(Role::Accent, Color::Magenta), (Role::Soft, Color::Blue)];
        let palette = Palette::DARK.with(&text);
        for (role, color) in [
            (Role::Accent, Color::Magenta),
            (Role::Chart1, Color::Magenta),
            (Role::Heading, Color::Blue),
            (Role::Chart2, Color::Blue),
        ] {
            assert_eq!(palette.shade(role).rich, color, "{role:?}");
        }
        assert_eq!(palette.shade(Role::Good), Palette::DARK.shade(Role::Good));
        assert!(Palette::DARK.with(&[(Role::Background, Color::White)]).is_light());
    }
}
