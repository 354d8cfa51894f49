//! Loads a theme by name or from a TOML file; built-in themes are such files. Errors are reported with their position.

use std::path::{Path, PathBuf};

use ratatui::style::Color;
use strum::VariantNames as _;
use toml::de::{DeTable, DeValue};

use super::{
    colour,
    palette::{Palette, Role, Shade},
};
use seckill_model::{Label, OsError, message::Lines, text};

use crate::text::settings::{self, Position};

/// A theme file has a dozen lines; a larger file is not one.
const MOST_BYTES: u64 = 64 * 1024;

/// The built-in themes: name, file, and whether it is for light terminals. The first one is the default.
pub(super) const BUILT_IN: [(&str, &str, bool); 3] = [
    ("dark", include_str!("../../../assets/themes/dark.toml"), false),
    ("light", include_str!("../../../assets/themes/light.toml"), true),
    ("high-contrast", include_str!("../../../assets/themes/high-contrast.toml"), false),
];

/// Why a theme is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ThemeError {
    /// Neither a built-in theme nor a file has that name.
    #[error("{}", text!("settings-unknown-theme-use-or-toml", name = .0, names = names()))]
    Unknown(String),
    /// The file cannot be read.
    #[error("{}", text!("settings-cannot-read-theme-check-theme", path = .0.display(), why = OsError::of(.1)))]
    Unreadable(PathBuf, std::io::Error),
    /// The file is invalid: its errors, with their positions.
    #[error("{}", text!("settings-invalid-theme", path = .0.display(), why = Lines(.1)))]
    Invalid(PathBuf, String),
}

impl Default for Palette {
    fn default() -> Self {
        Self::named(BUILT_IN[0].0).unwrap_or_else(|| Self::of_terminal(false))
    }
}

impl Palette {
    /// The built-in theme of that name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let (_, text, light) = BUILT_IN.into_iter().find(|(it, ..)| *it == name)?;
        parse(text, |_| Some(Self::of_terminal(light))).ok()
    }

    /// Loads a theme: the built-in one of that name, else a file.
    pub fn load(asked: &str) -> Result<Self, ThemeError> {
        if let Some(palette) = Self::named(asked) {
            return Ok(palette);
        }
        let path = Path::new(asked);
        let looks_like_a_file = asked.contains('/') || path.extension().is_some();
        if !looks_like_a_file && !path.exists() {
            return Err(ThemeError::Unknown(asked.to_owned()));
        }
        let unreadable = |why| ThemeError::Unreadable(path.to_owned(), why);
        let size = std::fs::metadata(path).map_err(unreadable)?;
        if !size.is_file() || size.len() > MOST_BYTES {
            return Err(unreadable(std::io::Error::other(Label("theme-not-a-file").read())));
        }
        let bytes = std::fs::read(path).map_err(unreadable)?;
        let read = match std::str::from_utf8(&bytes) {
            Ok(text) => parse(text, Palette::named),
            Err(error) => Err(vec![settings::not_utf8(&bytes, error)]),
        };
        read.map_err(|faults| ThemeError::Invalid(path.to_owned(), settings::all(faults)))
    }
}

/// The built-in themes.
fn names() -> String {
    BUILT_IN.map(|(name, ..)| name).join(&Label("list-items"))
}

/// Parses a palette on the base that the file names, or lists the errors with their positions.
pub(super) fn parse(
    text: &str,
    based_on: impl Fn(&str) -> Option<Palette>,
) -> Result<Palette, Vec<(Position, String)>> {
    let position = |at: usize| Position::of(text.as_bytes(), at);
    let table = DeTable::parse(text).map_err(|error| vec![settings::syntax(text, &error)])?;
    let table = table.get_ref();
    let mut faults = Vec::new();
    let base = table.get("base");
    let default = BUILT_IN[0].0;
    let named = base.map_or(Some(default), |base| base.get_ref().as_str()).unwrap_or_default();
    let palette = based_on(named);
    if let (None, Some(base)) = (&palette, base) {
        let why = text!("settings-base-must-be-one", names = names());
        faults.push((position(base.span().start), why));
    }
    let mut shades: Vec<(Role, Shade)> = Vec::new();
    for (name, value) in table.iter().filter(|(name, _)| name.get_ref() != "base") {
        let role = name.get_ref();
        match (role.parse(), shade(value.get_ref())) {
            (Ok(role), Some(shade)) => shades.push((role, shade)),
            (Ok(_), None) => {
                let base = palette.as_ref().map_or(default, |_| named);
                let why = text!("settings-is-not-colour-use-rrggbb", role, base);
                faults.push((position(value.span().start), why));
            }
            (Err(_), _) => {
                let known = Role::VARIANTS.join(&Label("list-items"));
                let why = text!("settings-unknown-role-remove-line", name = role, known);
                faults.push((position(name.span().start), why));
            }
        }
    }
    match palette {
        Some(palette) if faults.is_empty() => Ok(palette.with(&shades)),
        _ => Err(faults),
    }
}

/// A colour, or a list of it and its equivalent among the sixteen basic ones.
fn shade(value: &DeValue<'_>) -> Option<Shade> {
    let color = |value: &DeValue<'_>| match value {
        DeValue::String(text) => colour::read(text),
        DeValue::Integer(number) if number.radix() == 10 => {
            number.as_str().parse().ok().map(Color::Indexed)
        }
        _ => None,
    };
    match value.as_array().map(|list| &list[..]) {
        None => Some(Shade { rich: color(value)?, plain: None }),
        Some([rich, plain]) => {
            Some(Shade { rich: color(rich.get_ref())?, plain: Some(color(plain.get_ref())?) })
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Palette, Vec<(Position, String)>> {
        super::parse(text, Palette::named)
    }

    #[test]
    fn a_theme_file_overrides_colours() {
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
    fn errors_are_reported_with_their_position() {
        for (text, start) in [
            ("accent = \"#12\"", "line 1, column 10: accent is not a colour"),
            ("\n\nwarn = 256", "line 3, column 8: warn is not a colour"),
            ("good = -1", "line 1, column 8: good is not a colour"),
            ("good = true", "line 1, column 8: good is not a colour"),
            ("\nsofft = 3", "line 2, column 1: unknown role 'sofft'"),
            ("base = \"dusk\"", "line 1, column 8: base must be one of dark, light, high-contrast"),
            ("good = 1\ngood = 2", "line 2, column 1: invalid TOML: duplicate key"),
            ("good = 1\n[more]\nx = 1", "line 2, column 2: unknown role 'more'"),
            ("good = \n", "line 1, column 8: invalid TOML: "),
        ] {
            let message = settings::all(parse(text).unwrap_err());
            assert!(message.starts_with(start), "{text}: {message}");
            assert!(message.contains("remove "), "the next step: {message}");
        }
    }

    #[test]
    fn each_error_is_reported_with_the_default() {
        let faults = parse("warn = 256\nbase = \"light\"\nsofft = 3\nbad = true").unwrap_err();
        let message = settings::all(faults);
        let lines: Vec<_> = message.lines().map(str::trim).collect();
        let ["", warn, role, bad] = lines.as_slice() else { panic!("{message}") };
        assert!(
            warn.starts_with("line 1, column 8: ") && warn.ends_with("the warn of 'light'"),
            "{warn}"
        );
        assert!(role.starts_with("line 3, column 1: unknown role 'sofft'"), "{role}");
        assert!(
            bad.starts_with("line 4, column 7: ") && bad.ends_with("the bad of 'light'"),
            "{bad}"
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        std::fs::write(&path, b"# mine\n# \xff\n").unwrap();
        let load = || Palette::load(path.to_str().unwrap()).unwrap_err().to_string();
        assert!(load().contains("line 2, column 3: the text is not UTF-8"), "{}", load());
        seckill_model::locale::set_thread_language("zh");
        assert!(load().contains("第 2 行第 3 列：不是 UTF-8 文本"), "{}", load());
        let message = settings::all(parse("warn = 256").unwrap_err());
        assert!(message.contains("删去此行则用 'dark' 的 warn"), "{message}");
    }

    #[test]
    fn a_theme_name_is_not_a_file() {
        let error = Palette::load("dusk").unwrap_err().to_string();
        assert!(error.contains("unknown theme 'dusk'; use dark, light, high-contrast"), "{error}");
        let error = Palette::load("./nowhere/dusk.toml").unwrap_err().to_string();
        assert!(error.contains("cannot read the theme"), "{error}");
        let error = Palette::load("/dev/zero").unwrap_err().to_string();
        assert!(error.contains("not a theme file"), "{error}");
    }

    #[test]
    fn the_example_theme_names_every_role() {
        let text = include_str!("../../../assets/themes/example.toml");
        assert_eq!(parse(text).map(|_| ()), Ok(()));
        let open = text.replace("\n# ", "\n");
        for name in Role::VARIANTS {
            assert!(open.lines().any(|line| line.starts_with(&format!("{name} = "))), "{name}");
        }
    }
}
