//! Which language the console speaks. Every word stands in both, side by side; no view asks which one it is.

use std::{
    borrow::Cow,
    cell::Cell,
    fmt,
    ops::Deref,
    sync::atomic::{AtomicU8, Ordering},
};

use seckill_model::Said;

/// A language of the console.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lang {
    /// English.
    #[default]
    En,
    /// Chinese, in simplified characters.
    Zh,
}

impl Lang {
    /// What the environment asks for: the first of `LC_ALL`, `LC_MESSAGES` and `LANG` that says something, as POSIX
    /// has it. English where that is no Chinese.
    pub fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let locale = ["LC_ALL", "LC_MESSAGES", "LANG"]
            .iter()
            .find_map(|name| variable(name).filter(|it| !it.is_empty()));
        if locale.is_some_and(|it| it.to_ascii_lowercase().starts_with("zh")) {
            Self::Zh
        } else {
            Self::En
        }
    }
}

/// A person has one console and reads one language, so that a view need not hand it to each word.
static SPOKEN: AtomicU8 = AtomicU8::new(0);

thread_local! {
    /// What this thread speaks instead.
    static HERE: Cell<Option<Lang>> = const { Cell::new(None) };
}

/// From now on the console speaks `lang`.
pub fn speak(lang: Lang) {
    SPOKEN.store(lang as u8, Ordering::Relaxed);
}

/// Does `this` in English, for what programs read; other threads go on as before.
pub(crate) fn in_english<T>(this: impl FnOnce() -> T) -> T {
    let before = HERE.replace(Some(Lang::En));
    let done = this();
    HERE.set(before);
    done
}

/// The same as [`speak`] for this thread alone: a test looks at both languages beside each other.
pub fn speak_here(lang: Lang) {
    HERE.set(Some(lang));
}

/// The language that is spoken now.
pub fn spoken() -> Lang {
    if let Some(lang) = HERE.get() {
        return lang;
    }
    if SPOKEN.load(Ordering::Relaxed) == Lang::Zh as u8 { Lang::Zh } else { Lang::En }
}

/// A word in each language; it reads as the one that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    en: &'static str,
    zh: &'static str,
}

/// A word in English and in Chinese.
pub const fn word(en: &'static str, zh: &'static str) -> Word {
    Word { en, zh }
}

impl Word {
    /// In English, by which things are found in every language.
    pub fn english(self) -> &'static str {
        self.en
    }

    /// As it is read now.
    pub fn read(self) -> &'static str {
        match spoken() {
            Lang::En => self.en,
            Lang::Zh => self.zh,
        }
    }

    /// The same as a text of its own.
    pub fn to_owned(self) -> String {
        self.read().to_owned()
    }
}

impl Deref for Word {
    type Target = str;

    fn deref(&self) -> &str {
        self.read()
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.read())
    }
}

impl From<Word> for String {
    fn from(word: Word) -> Self {
        word.to_owned()
    }
}

impl From<Word> for Said {
    fn from(word: Word) -> Self {
        word.read().into()
    }
}

impl From<Word> for Cow<'_, str> {
    fn from(word: Word) -> Self {
        Self::Borrowed(word.read())
    }
}

/// A sentence in English and in Chinese, each with the same figures: `tell!("{n} orders", "{n} 笔订单")`.
#[macro_export]
macro_rules! tell {
    ($en:literal, $zh:literal $(, $($arg:tt)*)?) => {
        match $crate::spoken() {
            $crate::Lang::En => format!($en $(, $($arg)*)?),
            $crate::Lang::Zh => format!($zh $(, $($arg)*)?),
        }
    };
}
pub(crate) use crate::tell;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_says_something_decides() {
        let of = |said: &'static [(&'static str, &'static str)]| {
            Lang::of_environment(|name| {
                said.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(of(&[]), Lang::En);
        assert_eq!(of(&[("LANG", "zh_CN.UTF-8")]), Lang::Zh);
        assert_eq!(of(&[("LC_ALL", "C"), ("LANG", "zh_CN.UTF-8")]), Lang::En);
        assert_eq!(of(&[("LC_ALL", ""), ("LC_MESSAGES", "zh_TW")]), Lang::Zh);
        assert_eq!(of(&[("LANG", "xx_NOWHERE")]), Lang::En);
    }

    #[test]
    fn a_word_reads_as_the_language_that_is_spoken() {
        let stock = word("stock", "库存");
        let orders = |n: u64| tell!("{n} orders", "{n} 笔订单");
        assert_eq!((&*stock, orders(3)), ("stock", "3 orders".to_owned()));
        speak_here(Lang::Zh);
        assert_eq!((&*stock, orders(3)), ("库存", "3 笔订单".to_owned()));
    }
}
