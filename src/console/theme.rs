//! One palette for every view: styles by meaning, and the glyphs of the two drawing modes.
//!
//! This room must not know what is drawn with them. Text has the terminal's own foreground, one
//! accent leads the eye, and red, yellow and green speak of state only, so that light and dark
//! terminals both read well.

use ratatui::style::{Color, Modifier, Style};

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorChoice {
    /// As the environment says: `NO_COLOR`, `TERM`, `COLORTERM`.
    #[default]
    Auto,
    /// Even where `NO_COLOR` is set.
    Always,
    /// Bold, reverse and underline only.
    Never,
}

/// How many colours the terminal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    None,
    Ansi16,
    Ansi256,
    True,
}

/// What a view draws with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    depth: Depth,
    pub(crate) glyphs: &'static Glyphs,
}

/// Every glyph that is no letter.
#[derive(Debug)]
pub(crate) struct Glyphs {
    pub(crate) ascii: bool,
    pub(crate) ellipsis: &'static str,
    pub(crate) pointer: &'static str,
    pub(crate) up: &'static str,
    pub(crate) away: &'static str,
    pub(crate) check: &'static str,
    pub(crate) cross: &'static str,
    pub(crate) moving: &'static str,
    pub(crate) mark: &'static str,
    pub(crate) rule: &'static str,
    pub(crate) full: &'static str,
    pub(crate) empty: &'static str,
    /// Eighths of a cell, from the thinnest; empty where only whole cells can be drawn.
    pub(crate) eighths: &'static [&'static str],
    pub(crate) waiting: &'static str,
    pub(crate) rising: &'static str,
    pub(crate) falling: &'static str,
    pub(crate) steady: &'static str,
    pub(crate) axis: &'static str,
    pub(crate) tick: &'static str,
    pub(crate) corner: &'static str,
    /// Where a line stands on the axis.
    pub(crate) foot: &'static str,
    pub(crate) thumb: &'static str,
}

const UNICODE: Glyphs = Glyphs {
    ascii: false,
    ellipsis: "…",
    pointer: "▸",
    up: "●",
    away: "✖",
    check: "✔",
    cross: "✖",
    moving: "≈",
    mark: "◆",
    rule: "─",
    full: "█",
    empty: "░",
    eighths: &["▏", "▎", "▍", "▌", "▋", "▊", "▉"],
    waiting: "·",
    rising: "↑",
    falling: "↓",
    steady: "→",
    axis: "│",
    tick: "┤",
    corner: "└",
    foot: "┴",
    thumb: "┃",
};

const ASCII: Glyphs = Glyphs {
    ascii: true,
    ellipsis: "~",
    pointer: ">",
    up: "o",
    away: "x",
    check: "ok",
    cross: "x",
    moving: "~",
    mark: "*",
    rule: "-",
    full: "#",
    empty: ".",
    eighths: &[],
    waiting: ".",
    rising: "^",
    falling: "v",
    steady: "=",
    axis: "|",
    tick: "+",
    corner: "+",
    foot: "+",
    thumb: "|",
};

#[expect(clippy::unused_self, reason = "every style is asked for alike")]
impl Theme {
    pub(crate) fn new(depth: Depth, ascii: bool) -> Self {
        Self { depth, glyphs: if ascii { &ASCII } else { &UNICODE } }
    }

    /// Reads the terminal's abilities from `env`, a look into the environment.
    pub(crate) fn detect(
        choice: ColorChoice,
        ascii: bool,
        env: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let term = env("TERM").unwrap_or_default();
        let forbidden = env("NO_COLOR").is_some_and(|value| !value.is_empty()) || term == "dumb";
        let depth = match choice {
            ColorChoice::Never => Depth::None,
            ColorChoice::Auto if forbidden => Depth::None,
            _ => match env("COLORTERM").as_deref() {
                Some("truecolor" | "24bit") => Depth::True,
                _ if term.contains("256") => Depth::Ansi256,
                _ => Depth::Ansi16,
            },
        };
        Self::new(depth, ascii)
    }

    fn tinted(self, ansi: Color) -> Style {
        if self.depth == Depth::None { Style::new() } else { Style::new().fg(ansi) }
    }

    /// What is read second: units, labels, totals at rest.
    pub(crate) fn soft(self) -> Style {
        match self.depth {
            Depth::None => Style::new(),
            // The palette's own grey vanishes on some backgrounds; faint text never does.
            Depth::Ansi16 => Style::new().add_modifier(Modifier::DIM),
            // Mid grey keeps its distance from black and from white.
            Depth::Ansi256 | Depth::True => Style::new().fg(Color::Indexed(244)),
        }
    }

    pub(crate) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Title of a section.
    pub(crate) fn heading(self) -> Style {
        self.soft().add_modifier(Modifier::BOLD)
    }

    /// The one colour that is no state.
    pub(crate) fn accent(self) -> Style {
        match self.depth {
            Depth::None => Style::new(),
            Depth::Ansi16 => Style::new().fg(Color::Cyan),
            Depth::Ansi256 => Style::new().fg(Color::Indexed(38)),
            Depth::True => Style::new().fg(Color::Rgb(0x1a, 0xa8, 0xc8)),
        }
    }

    /// Keys, the current tab, the focused field.
    pub(crate) fn key(self) -> Style {
        self.accent().add_modifier(Modifier::BOLD)
    }

    pub(crate) fn good(self) -> Style {
        self.tinted(Color::Green)
    }

    pub(crate) fn warn(self) -> Style {
        self.tinted(Color::Yellow)
    }

    /// Bold as well, so that it stands out without colour.
    pub(crate) fn bad(self) -> Style {
        self.tinted(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn underlined(self) -> Style {
        Style::new().add_modifier(Modifier::UNDERLINED)
    }

    pub(crate) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Bad as well, many times over: a column of it must not shout.
    pub(crate) fn broken(self) -> Style {
        self.tinted(Color::Red)
    }

    /// A word that must not be missed, such as FROZEN.
    pub(crate) fn badge(self) -> Style {
        self.warn().add_modifier(Modifier::REVERSED | Modifier::BOLD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(choice: ColorChoice, vars: &[(&str, &str)]) -> Depth {
        let env = |name: &str| {
            vars.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        };
        Theme::detect(choice, false, env).depth
    }

    #[test]
    fn colours_follow_the_terminal_and_the_person() {
        let rich = [("TERM", "xterm-256color"), ("COLORTERM", "truecolor")];
        assert_eq!(depth(ColorChoice::Auto, &rich), Depth::True);
        assert_eq!(depth(ColorChoice::Auto, &rich[..1]), Depth::Ansi256);
        assert_eq!(depth(ColorChoice::Auto, &[("TERM", "xterm")]), Depth::Ansi16);
        assert_eq!(depth(ColorChoice::Auto, &[("TERM", "dumb")]), Depth::None);
        let refused = [rich[0], rich[1], ("NO_COLOR", "1")];
        assert_eq!(depth(ColorChoice::Auto, &refused), Depth::None);
        assert_eq!(depth(ColorChoice::Always, &refused), Depth::True);
        assert_eq!(depth(ColorChoice::Never, &rich), Depth::None);
    }

    #[test]
    fn without_colour_no_style_carries_one() {
        let theme = Theme::new(Depth::None, false);
        for style in [theme.soft(), theme.accent(), theme.key(), theme.good(), theme.bad()] {
            assert_eq!((style.fg, style.bg), (None, None));
        }
        assert!(theme.selected().add_modifier.contains(Modifier::REVERSED));
    }
}
