//! How a console looks and speaks: the flags that every command with a console heeds.

use clap::{Args, ValueEnum};

use crate::{
    config::Config,
    console::{ColorChoice, Lang, Options},
};

/// Asked for on the command line.
#[derive(Clone, Debug, Args)]
pub(super) struct Look {
    /// When to use colours; NO_COLOR counts as never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: Color,
    /// The console's language [default: by LC_ALL, LC_MESSAGES, LANG]
    #[arg(long, global = true, value_name = "LANG")]
    lang: Option<Tongue>,
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
    /// What the console is told.
    pub(super) fn options(&self, config: &Config) -> Options {
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
        Options { color, lang, keys: config.keys.clone(), ..Options::default() }
    }
}
