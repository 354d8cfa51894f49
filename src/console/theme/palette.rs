//! A theme as data: a colour per role.

use ratatui::style::Color;
use strum::VariantArray as _;

use super::colour::rgb;

/// What a colour is for; the name is its key in a file.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, strum::VariantArray,
)]
#[strum(serialize_all = "snake_case")]
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
}

impl Role {
    /// Secondary text: on few colours grey becomes faint text, which never vanishes.
    pub(super) fn is_faint(self) -> bool {
        matches!(self, Self::Soft | Self::Heading)
    }

    /// The role whose colour it takes in a file that does not set its own.
    fn leader(self) -> Option<Self> {
        match self {
            Self::Heading => Some(Self::Soft),
            _ => None,
        }
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
    shades: [Shade; Role::VARIANTS.len()],
    /// Designed for a light terminal.
    light: bool,
}

impl Palette {
    /// The colours of the terminal.
    pub(super) fn of_terminal(light: bool) -> Self {
        let own = Shade { rich: Color::Reset, plain: None };
        Self { shades: [own; Role::VARIANTS.len()], light }
    }

    pub(super) fn shade(&self, role: Role) -> Shade {
        self.shades[role as usize]
    }

    /// Overrides these colours; roles that are not set follow their leader.
    pub(super) fn with(mut self, overrides: &[(Role, Shade)]) -> Self {
        let set =
            |role: Role| overrides.iter().find(|(it, _)| *it == role).map(|(_, shade)| *shade);
        for (slot, role) in self.shades.iter_mut().zip(Role::VARIANTS) {
            if let Some(shade) = set(*role).or_else(|| set(role.leader()?)) {
                *slot = shade;
            }
        }
        if let Some((r, g, b)) = set(Role::Background).and_then(|shade| rgb(shade.rich)) {
            self.light = [r, g, b].into_iter().map(u32::from).sum::<u32>() > 3 * 160;
        }
        self
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

    /// Perceived brightness from 0 to 1 (the relative luminance of WCAG 2).
    fn luminance((r, g, b): Rgb) -> f64 {
        let linear = |part: u8| {
            let part = f64::from(part) / 255.0;
            if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
    }

    fn contrast(one: Rgb, other: Rgb) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
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
            for role in Role::VARIANTS.iter().copied() {
                let word = format!("{role:?}");
                let least = match role {
                    // Normal text.
                    _ if name == "high-contrast" => 7.0,
                    // Secondary text.
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
        let shade = |rich| Shade { rich, plain: None };
        let set = [(Role::Accent, shade(Color::Magenta)), (Role::Soft, shade(Color::Blue))];
        let palette = Palette::default().with(&set);
        for (role, color) in [(Role::Accent, Color::Magenta), (Role::Heading, Color::Blue)] {
            assert_eq!(palette.shade(role).rich, color, "{role:?}");
        }
        assert_eq!(palette.shade(Role::Good), Palette::default().shade(Role::Good));
        let white = [(Role::Background, shade(Color::White))];
        assert!(Palette::default().with(&white).is_light());
    }
}
