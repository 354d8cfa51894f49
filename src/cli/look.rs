//! How a console looks and speaks: the flags that every command with a console heeds.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::{
    config::Config,
    console::{ColorChoice, Lang, Options, Palette, ThemeError},
};

/// Asked for on the command line.
#[derive(Clone, Debug, Args)]
#[expect(clippy::doc_markdown, reason = "the help of the command line is plain text")]
pub(super) struct Look {
    /// When to use colours; NO_COLOR counts as never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: Color,
    /// The console's language [default: by LC_ALL, LC_MESSAGES, LANG]
    #[arg(long, global = true, value_name = "LANG")]
    lang: Option<Tongue>,
    /// The console's colours: dark, light, high-contrast, or a TOML file of your own [default: dark]
    #[arg(long, global = true, value_name = "NAME|FILE", env = "SECKILL_THEME")]
    theme: Option<String>,
    /// Where the console's exports go [default: the working directory]
    #[arg(long, global = true, value_name = "DIR")]
    export_dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Tongue {
    En,
    Zh,
}

impl Look {
    /// What the console is told. A theme that can't be used is told before anything is started.
    pub(super) fn options(&self, config: &Config) -> Result<Options, ThemeError> {
        let color = match self.color {
            Color::Auto => ColorChoice::Auto,
            Color::Always => ColorChoice::Always,
            Color::Never => ColorChoice::Never,
        };
        let lang = match self.lang {
            Some(Tongue::En) => Lang::En,
            Some(Tongue::Zh) => Lang::Zh,
            None => Lang::of_environment(|name| std::env::var(name).ok()),
        };
        let theme = self.theme.as_ref().or(config.theme.as_ref());
        let palette = theme.map_or_else(|| Ok(Palette::default()), |it| Palette::load(it))?;
        let export_dir = self.export_dir.clone().or_else(|| config.export_dir.clone());
        Ok(Options { color, lang, palette, export_dir, ..Options::default() })
    }
}
