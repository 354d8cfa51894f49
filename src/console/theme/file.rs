//! A theme from a name or a TOML file. What is wrong in the file is told with its line; what a role
//! looks like in a terminal is not known here.

use std::path::{Path, PathBuf};

use ratatui::style::Color;
use toml::de::{DeTable, DeValue};

use super::{
    colour,
    palette::{Palette, ROLES, Role},
};

/// A theme file is a dozen lines; a larger file is something else.
const MOST_BYTES: u64 = 64 * 1024;

/// Why a theme can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ThemeError {
    /// No built-in theme and no file has that name.
    #[error("there is no theme '{name}'; give {names}, or a TOML file such as ./{name}.toml")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Those that are built in.
        names: String,
    },
    /// The file can't be read.
    #[error("the theme {path} can't be read ({why}); check --theme")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        why: std::io::Error,
    },
    /// The file is not understood.
    #[error("the theme {path} is not understood: line {line}: {why}")]
    Invalid {
        /// Which file.
        path: PathBuf,
        /// Where.
        line: usize,
        /// What is wrong there.
        why: String,
    },
}

impl Palette {
    /// The theme that a person asked for: the name of a built-in one, else a file.
    pub fn load(asked: &str) -> Result<Self, ThemeError> {
        if let Some(palette) = Self::named(asked) {
            return Ok(palette);
        }
        let path = Path::new(asked);
        let looks_like_a_file = asked.contains('/') || path.extension().is_some();
        if !looks_like_a_file && !path.exists() {
            let names = names().join(", ");
            return Err(ThemeError::Unknown { name: asked.to_owned(), names });
        }
        let told = |why| ThemeError::Unreadable { path: path.to_owned(), why };
        let size = std::fs::metadata(path).map_err(told)?;
        if !size.is_file() || size.len() > MOST_BYTES {
            return Err(told(std::io::Error::other("that is no theme file")));
        }
        let text = std::fs::read_to_string(path).map_err(told)?;
        parse(&text).map_err(|(line, why)| ThemeError::Invalid { path: path.to_owned(), line, why })
    }
}

fn names() -> [&'static str; Palette::BUILT_IN.len()] {
    Palette::BUILT_IN.map(|(name, _)| name)
}

/// The palette, or the line and what is wrong there.
fn parse(text: &str) -> Result<Palette, (usize, String)> {
    let line = |at: usize| text.bytes().take(at).filter(|it| *it == b'\n').count() + 1;
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        (line(at), error.message().lines().next().unwrap_or_default().to_owned())
    })?;
    let mut base = Palette::default();
    let mut told: Vec<(Role, Color)> = Vec::new();
    for (name, value) in table.get_ref() {
        let wrong = |why: String| (line(value.span().start), why);
        if name.get_ref() == "base" {
            let named = match value.get_ref() {
                DeValue::String(name) => Palette::named(name),
                _ => None,
            };
            base = named.ok_or_else(|| wrong(format!("base is one of {}", names().join(", "))))?;
            continue;
        }
        let role = ROLES.iter().find(|(it, ..)| it == name.get_ref()).ok_or_else(|| {
            let known = ROLES.map(|(name, ..)| name).join(", ");
            let why = format!("there is no role '{}'; there are base, {known}", name.get_ref());
            (line(name.span().start), why)
        })?;
        let color = match value.get_ref() {
            DeValue::String(text) => colour::read(text),
            DeValue::Integer(number) if number.radix() == 10 => {
                number.as_str().parse().ok().map(Color::Indexed)
            }
            _ => None,
        };
        let color = color.ok_or_else(|| {
            let colours = "\"#rrggbb\", a number from 0 to 255, or a name such as \"bright-red\" or \"default\"";
            wrong(format!("{} is no colour; give {colours}", role.0))
        })?;
        told.push((role.1, color));
    }
    Ok(base.with(&told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_it_changes() {
        let text =
            "# mine\nbase = \"light\"\naccent = \"#ff8800\"\ngood = 34\nbad = \"bright-red\"\n";
        let palette = parse(text).unwrap();
        assert!(palette.is_light());
        assert_eq!(palette.shade(Role::Accent).rich, Color::Rgb(0xff, 0x88, 0));
        assert_eq!(palette.shade(Role::Good).rich, Color::Indexed(34));
        assert_eq!(palette.shade(Role::Bad).rich, Color::LightRed);
        assert_eq!(parse("").unwrap(), Palette::default());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, line, why) in [
            ("accent = \"#12\"", 1, "accent is no colour"),
            ("\n\nwarn = 256", 3, "warn is no colour"),
            ("good = -1", 1, "good is no colour"),
            ("good = true", 1, "good is no colour"),
            ("\nsofft = 3", 2, "no role 'sofft'"),
            ("base = \"dusk\"", 1, "base is one of dark, light, high-contrast"),
            ("good = 1\ngood = 2", 2, "duplicate"),
            ("good = 1\n[more]\nx = 1", 2, "no role 'more'"),
            ("good = \n", 1, ""),
        ] {
            let (at, said) = parse(text).unwrap_err();
            assert_eq!(at, line, "{text}: {said}");
            assert!(said.contains(why), "{text}: {said}");
        }
    }

    #[test]
    fn a_name_is_no_file_and_a_file_must_be_one() {
        let error = Palette::load("dusk").unwrap_err().to_string();
        assert!(error.contains("no theme 'dusk'; give dark, light, high-contrast"), "{error}");
        let error = Palette::load("./nowhere/dusk.toml").unwrap_err().to_string();
        assert!(error.contains("dusk.toml can't be read"), "{error}");
        let error = Palette::load("/dev/zero").unwrap_err().to_string();
        assert!(error.contains("no theme file"), "{error}");
    }

    #[test]
    fn the_example_names_every_role_and_is_understood() {
        let text = include_str!("../../../assets/themes/example.toml");
        assert_eq!(parse(text).map(|_| ()), Ok(()));
        let open = text.replace("\n# ", "\n");
        for (name, ..) in ROLES {
            assert!(open.lines().any(|line| line.starts_with(&format!("{name} = "))), "{name}");
        }
    }
}
