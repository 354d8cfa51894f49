//! Display options of all commands with a console.

use std::path::PathBuf;

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use seckill_console::{ColorChoice, LabSetup, Options, Palette};
use seckill_model::locale::Language;
use strum::VariantNames as _;

use crate::{CliError, Config, Result};

/// Flags as given.
#[derive(Clone, Debug, Args)]
pub(super) struct DisplayArgs {
    /// When to use colours; NO_COLOR means never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", value_parser = color())]
    color: ColorChoice,
    /// Language; without it, the console uses that of the locale, and all other texts are English
    #[arg(long, global = true, value_name = "LANG", value_parser = language())]
    lang: Option<Language>,
    /// Draw the console in ASCII only; with a language beyond ASCII, text is kept
    #[arg(long, global = true)]
    ascii: bool,
    /// Colour theme: dark, light, high-contrast, or a TOML file [default: dark]
    #[arg(long, global = true, value_name = "NAME|FILE", env = "SECKILL_THEME")]
    theme: Option<String>,
    /// Start in presenter mode; t toggles it
    #[arg(long, global = true)]
    present: bool,
    /// Directory for exports [default: the working directory]
    #[arg(long, global = true, value_name = "DIR")]
    export_dir: Option<PathBuf>,
}

fn color() -> impl TypedValueParser<Value = ColorChoice> {
    PossibleValuesParser::new(ColorChoice::VARIANTS).map(|it| it.parse().unwrap_or_default())
}

fn language() -> impl TypedValueParser<Value = Language> {
    let tags = PossibleValuesParser::new(Language::all().map(Language::tag));
    tags.map(|tag| Language::find(&tag).unwrap_or_default())
}

impl DisplayArgs {
    /// Options of the console.
    ///
    /// # Errors
    /// The theme cannot be used.
    pub(super) fn options(&self, config: &Config) -> Result<Options> {
        self.localized(|| self.within(config, |name| std::env::var(name).ok()))
    }

    /// Whether a language was asked for.
    pub(super) fn names_language(&self) -> bool {
        self.lang.is_some()
    }

    /// Sets the language of the console for the process, including startup errors.
    pub(super) fn set_language(&self) {
        seckill_model::locale::set_language(self.lang(|name| std::env::var(name).ok()));
    }

    /// Runs `this`, which reads settings, in the language of the console; other commands use English.
    pub(super) fn localized<T>(&self, this: impl FnOnce() -> Result<T>) -> Result<T> {
        let before = seckill_model::locale::language();
        self.set_language();
        let done = this();
        seckill_model::locale::set_language(before);
        done
    }

    /// Created now: an export must not fail when it is needed.
    fn export_dir(&self, config: &Config) -> Result<Option<PathBuf>> {
        let asked = self.export_dir.clone().or_else(|| config.export_dir.clone());
        if let Some(dir) = &asked {
            let made = std::fs::create_dir_all(dir).and_then(|()| tempfile::tempfile_in(dir));
            made.map_err(|error| CliError::not_written(dir, &error))?;
        }
        Ok(asked)
    }

    fn lang(&self, variable: impl Fn(&str) -> Option<String>) -> Language {
        match (self.lang, seckill_console::not_utf8(&variable)) {
            (Some(lang), _) => lang,
            (None, Some(_)) => Language::ENGLISH,
            (None, None) => Language::of_environment(variable),
        }
    }

    /// The theme that was asked for.
    ///
    /// # Errors
    /// It cannot be used.
    pub(super) fn palette(&self, config: &Config) -> Result<Palette> {
        match (&self.theme, &config.theme) {
            (Some(name), _) => Ok(Palette::load(name)?),
            (None, Some(name)) => {
                Palette::load(name).map_err(|error| config.value_error("theme", name, error))
            }
            (None, None) => Ok(Palette::default()),
        }
    }

    fn within(
        &self,
        config: &Config,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Options> {
        let plain_locale = seckill_console::not_utf8(&variable);
        let lang = self.lang(&variable);
        // Text beyond ASCII requires UTF-8, regardless of the environment.
        let ascii = self.ascii || (plain_locale.is_some() && lang.is_ascii());
        let palette = self.palette(config)?;
        Ok(Options {
            color: self.color,
            guide: None,
            lang,
            ascii,
            plain_locale,
            palette,
            export_dir: self.export_dir(config)?,
            keys: config.keys.clone(),
            present: self.present,
            mask_users: self.present || config.mask_users,
            lab: LabSetup::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(lang: Option<&str>, locale: &str) -> Result<Options> {
        let args = DisplayArgs {
            color: ColorChoice::Auto,
            lang: lang.and_then(Language::find),
            ascii: false,
            theme: None,
            present: false,
            export_dir: None,
        };
        args.within(&Config::default(), |name| (name == "LC_ALL").then(|| locale.to_owned()))
    }

    #[test]
    fn locale_without_utf8_means_ascii_and_english() {
        let plain = options(None, "zh_CN.GBK").unwrap();
        assert_eq!((plain.lang.tag(), plain.ascii), ("en", true));
        assert_eq!(plain.plain_locale.as_deref(), Some("LC_ALL=zh_CN.GBK"));
        let english = options(Some("en"), "C").unwrap();
        assert!(english.ascii && english.plain_locale.is_some());
    }

    #[test]
    fn flags_override_the_environment() {
        let lang = |asked, locale| options(asked, locale).unwrap().lang.tag();
        assert_eq!(lang(None, "zh_CN.UTF-8"), "zh");
        assert_eq!(lang(Some("en"), "zh_CN.UTF-8"), "en");
        assert_eq!(lang(Some("zh"), "en_US.UTF-8"), "zh");
        assert_eq!(lang(None, "xx_YY.UTF-8"), "en");
        let chinese = options(Some("zh"), "C").unwrap();
        assert_eq!((chinese.lang.tag(), chinese.ascii), ("zh", false));
        assert_eq!(chinese.plain_locale.as_deref(), Some("LC_ALL=C"), "which is reported");
    }
}
