//! The palette of every view: styles by meaning, and the glyphs of both drawing modes.
//!
//! Text keeps the terminal's own foreground, one accent guides the eye, and red, yellow and green are reserved for
//! state, so that light and dark terminals both read well.

mod colour;
mod file;
mod palette;

use ratatui::{
    buffer::Buffer,
    style::{Color, Style},
};
use seckill_engine::telemetry::snapshot::Urgency;

pub(crate) use self::colour::{Rgb, rgb};
use self::palette::Role;
pub use self::{file::ThemeError, palette::Palette};

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum ColorChoice {
    /// By the environment: `NO_COLOR`, `TERM`, `COLORTERM`.
    #[default]
    Auto,
    /// Even if `NO_COLOR` is set.
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

impl Depth {
    /// Detects the terminal's capabilities; `env` reads an environment variable.
    pub(crate) fn detect(choice: ColorChoice, env: impl Fn(&str) -> Option<String>) -> Self {
        let term = env("TERM").unwrap_or_default();
        let forbidden = env("NO_COLOR").is_some_and(|value| !value.is_empty());
        match choice {
            ColorChoice::Never => Self::None,
            ColorChoice::Auto if forbidden || is_mono(&term) => Self::None,
            _ => match env("COLORTERM").as_deref() {
                Some("truecolor" | "24bit") => Self::True,
                _ if term.ends_with("-direct") => Self::True,
                _ if term.contains("256") => Self::Ansi256,
                _ => Self::Ansi16,
            },
        }
    }
}

/// What a view draws with: styles by meaning, as this terminal can show them, and glyphs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    /// Secondary text: units, labels, idle totals.
    pub(crate) soft: Style,
    /// Figures that are outdated or not of the selected moment; dimmed even without colour.
    pub(crate) dimmed: Style,
    pub(crate) strong: Style,
    /// Title of a section.
    pub(crate) heading: Style,
    /// The accent colour, the only one that does not stand for a state.
    pub(crate) accent: Style,
    /// Keys, the current tab, the focused field.
    pub(crate) key: Style,
    pub(crate) good: Style,
    pub(crate) warn: Style,
    /// Bold as well, so that it stands out without colour.
    pub(crate) bad: Style,
    /// A bad state that fills a whole column: less prominent than [`Theme::bad`].
    pub(crate) broken: Style,
    /// The selected row or button: its own colours if the theme has both, else reversed.
    pub(crate) selected: Style,
    /// A label that must be noticed, such as FROZEN.
    pub(crate) badge: Style,
    /// The theme's own text and background colours; otherwise those of the terminal.
    text: Color,
    background: Color,
    /// Dark on light, for exports that include a background.
    pub(crate) is_light: bool,
    /// The finished screen is converted to ASCII.
    pub(crate) ascii: bool,
}

/// Every glyph that is not a letter. [`to_ascii`](crate::widgets::to_ascii) has the ASCII equivalents.
pub(crate) mod glyphs {
    pub(crate) const POINTER: &str = "▸";
    pub(crate) const UP: &str = "●";
    pub(crate) const AWAY: &str = "✖";
    pub(crate) const CHECK: &str = "✔";
    pub(crate) const CROSS: &str = "✖";
    pub(crate) const MOVING: &str = "≈";
    pub(crate) const MARK: &str = "◆";
    pub(crate) const RULE: &str = "─";
    /// The axis of a span without readings.
    pub(crate) const UNKNOWN_RULE: &str = "┄";
    pub(crate) const FULL: &str = "█";
    pub(crate) const EMPTY: &str = "░";
    pub(crate) const WAITING: &str = "·";
    pub(crate) const RISING: &str = "↑";
    pub(crate) const FALLING: &str = "↓";
    pub(crate) const STEADY: &str = "→";
    pub(crate) const AXIS: &str = "│";
    pub(crate) const TICK: &str = "┤";
    pub(crate) const CORNER: &str = "└";
    /// Marks the cursor on the axis.
    pub(crate) const FOOT: &str = "┴";
    pub(crate) const THUMB: &str = "┃";
}

impl Theme {
    #[cfg(test)]
    pub(crate) fn new(depth: Depth, ascii: bool) -> Self {
        Self::of(&Palette::default(), depth, ascii)
    }

    pub(crate) fn of(palette: &Palette, depth: Depth, ascii: bool) -> Self {
        let color = |role: Role| {
            let shade = palette.shade(role);
            match depth {
                Depth::None => Color::Reset,
                Depth::True => shade.rich,
                Depth::Ansi256 => colour::among_256(shade.rich),
                Depth::Ansi16 => shade.plain.unwrap_or_else(|| colour::among_16(shade.rich)),
            }
        };
        let style = |role: Role| match color(role) {
            Color::Reset if role.is_faint() && depth != Depth::None => Style::new().dim(),
            Color::Reset => Style::new(),
            color => Style::new().fg(color),
        };
        let (soft, accent) = (style(Role::Soft), style(Role::Accent));
        let (warn, broken) = (style(Role::Warn), style(Role::Bad));
        let selected = match (color(Role::Selection), color(Role::SelectionText)) {
            (Color::Reset, _) | (_, Color::Reset) => Style::new().reversed(),
            (under, on) => Style::new().bg(under).fg(on),
        };
        Self {
            soft,
            dimmed: if soft.fg.is_none() { soft.dim() } else { soft },
            strong: Style::new().bold(),
            heading: style(Role::Heading).bold(),
            accent,
            key: accent.bold(),
            good: style(Role::Good),
            warn,
            bad: broken.bold(),
            broken,
            selected,
            badge: warn.reversed().bold(),
            text: color(Role::Text),
            background: color(Role::Background),
            is_light: palette.is_light(),
            ascii,
        }
    }

    pub(crate) fn urgency(self, urgency: Urgency) -> Style {
        match urgency {
            Urgency::Critical => self.bad,
            Urgency::Warning => self.warn,
            Urgency::Notice => self.good,
        }
    }

    /// Sets default text and background colours, if the theme has its own.
    pub(crate) fn settle(self, buffer: &mut Buffer) {
        let (text, paper) = (self.text, self.background);
        if (text, paper) == (Color::Reset, Color::Reset) {
            return;
        }
        for cell in &mut buffer.content {
            if cell.fg == Color::Reset {
                cell.fg = text;
            }
            if cell.bg == Color::Reset {
                cell.bg = paper;
            }
        }
    }
}

/// Terminals known to have no colour.
fn is_mono(term: &str) -> bool {
    matches!(term, "dumb" | "vt100" | "vt102" | "vt220")
        || term.ends_with("-m")
        || term.ends_with("-mono")
}

#[cfg(test)]
mod tests {
    use ratatui::style::Modifier;

    use super::{file::BUILT_IN, *};

    fn depth(choice: ColorChoice, vars: &[(&str, &str)]) -> Depth {
        let env = |name: &str| {
            vars.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        };
        Depth::detect(choice, env)
    }

    #[test]
    fn colours_follow_the_terminal_and_the_user() {
        let rich = [("TERM", "xterm-256color"), ("COLORTERM", "truecolor")];
        assert_eq!(depth(ColorChoice::Auto, &rich), Depth::True);
        assert_eq!(depth(ColorChoice::Auto, &rich[..1]), Depth::Ansi256);
        assert_eq!(depth(ColorChoice::Auto, &[("TERM", "xterm")]), Depth::Ansi16);
        assert_eq!(depth(ColorChoice::Auto, &[("TERM", "dumb")]), Depth::None);
        assert_eq!(depth(ColorChoice::Auto, &[("TERM", "tmux-256color")]), Depth::Ansi256);
        assert_eq!(depth(ColorChoice::Auto, &[("TERM", "screen")]), Depth::Ansi16);
        assert_eq!(depth(ColorChoice::Auto, &[("TERM", "xterm-direct")]), Depth::True);
        assert_eq!(depth(ColorChoice::Auto, &[("TERM", "vt100")]), Depth::None);
        let refused = [rich[0], rich[1], ("NO_COLOR", "1")];
        assert_eq!(depth(ColorChoice::Auto, &refused), Depth::None);
        assert_eq!(depth(ColorChoice::Always, &refused), Depth::True);
        assert_eq!(depth(ColorChoice::Never, &rich), Depth::None);
    }

    #[test]
    fn without_colour_no_style_carries_one() {
        for (name, palette) in BUILT_IN.map(|(name, ..)| (name, Palette::named(name).unwrap())) {
            let theme = Theme::of(&palette, Depth::None, false);
            let states = [theme.good, theme.warn, theme.bad, theme.badge];
            let others = [theme.soft, theme.heading, theme.accent];
            for style in states.into_iter().chain(others) {
                assert_eq!((style.fg, style.bg), (None, None), "{name}");
                assert!(!style.add_modifier.contains(Modifier::DIM), "{name}");
            }
            assert!(theme.selected.add_modifier.contains(Modifier::REVERSED), "{name}");
            let mut buffer = Buffer::with_lines(["a"]);
            theme.settle(&mut buffer);
            assert_eq!(buffer, Buffer::with_lines(["a"]), "{name}");
        }
    }

    #[test]
    fn choice_alarm_and_focus_differ_with_few_colours_and_with_none() {
        for (name, palette) in BUILT_IN.map(|(name, ..)| (name, Palette::named(name).unwrap())) {
            for depth in [Depth::None, Depth::Ansi16, Depth::Ansi256, Depth::True] {
                let theme = Theme::of(&palette, depth, false);
                let styles = [
                    ("text", Style::new()),
                    ("chosen", theme.selected),
                    ("alarm", theme.bad),
                    ("badge", theme.badge),
                    ("field", Style::new().underlined()),
                ];
                for (at, (one, style)) in styles.iter().enumerate() {
                    for (other, another) in styles.iter().skip(at + 1) {
                        assert_ne!(style, another, "{name} {depth:?}: {one} and {other}");
                    }
                }
                // Some terminals draw dim text as normal: dim alone distinguishes nothing.
                let bold = theme.bad.add_modifier.contains(Modifier::BOLD);
                assert!(bold && theme.key.add_modifier.contains(Modifier::BOLD), "{name}");
            }
        }
    }

    #[test]
    fn each_depth_shows_what_it_can() {
        let dark = |depth| Theme::of(&Palette::default(), depth, false);
        assert_eq!(dark(Depth::True).accent.fg, Some(Color::Rgb(0x1a, 0xa8, 0xc8)));
        assert_eq!(dark(Depth::Ansi256).accent.fg, Some(Color::Indexed(38)));
        assert_eq!(dark(Depth::Ansi16).accent.fg, Some(Color::Cyan));
        let soft = dark(Depth::Ansi16).soft;
        assert!(soft.fg.is_none() && soft.add_modifier.contains(Modifier::DIM));
        let reversed = dark(Depth::Ansi16).selected.add_modifier;
        assert!(reversed.contains(Modifier::REVERSED));
        assert!(dark(Depth::Ansi256).selected.bg.is_some());
    }

    #[test]
    fn a_theme_with_paper_covers_the_screen() {
        let palette = Palette::named("high-contrast").unwrap();
        let mut buffer = Buffer::with_lines(["a"]);
        Theme::of(&palette, Depth::Ansi16, false).settle(&mut buffer);
        assert_eq!((buffer[(0, 0)].fg, buffer[(0, 0)].bg), (Color::White, Color::Black));
    }
}
