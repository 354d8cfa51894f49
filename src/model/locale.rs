//! The languages, each a file of messages in `assets/locales`, and which one is read.
//!
//! A process has one language, so it need not be passed to each place that creates a text. A debug build reads the
//! files from the source tree at startup; a release build contains them.

use std::{
    cell::Cell,
    collections::HashMap,
    sync::{
        LazyLock,
        atomic::{AtomicU8, Ordering},
    },
};

use fluent_bundle::{FluentArgs, FluentResource, FluentValue, concurrent::FluentBundle};
use fluent_syntax::ast::Entry;
use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/../../assets/locales"]
#[include = "*.ftl"]
struct Files;

/// A language of the catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lang {
    /// English.
    #[default]
    En,
    /// Chinese, in simplified characters.
    Zh,
}

impl Lang {
    /// Every language.
    pub const ALL: [Self; 2] = [Self::En, Self::Zh];

    /// Its name in the catalog: `en`, `zh`.
    pub fn tag(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Zh => "zh",
        }
    }

    /// The language of the environment: the first of `LC_ALL`, `LC_MESSAGES` and `LANG` that is set and not empty, as
    /// in POSIX. English for every locale that is not Chinese.
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

static LANGUAGE: AtomicU8 = AtomicU8::new(0);

thread_local! {
    /// Overrides the language in this thread.
    static OF_THREAD: Cell<Option<Lang>> = const { Cell::new(None) };
}

/// Sets the language of the process.
pub fn set_language(lang: Lang) {
    LANGUAGE.store(lang as u8, Ordering::Relaxed);
}

/// Sets the language of this thread only: tests of both languages run in parallel.
pub fn set_thread_language(lang: Lang) {
    OF_THREAD.set(Some(lang));
}

/// Runs `this` in English, for output that programs read; other threads keep their language.
pub fn in_english<T>(this: impl FnOnce() -> T) -> T {
    let before = OF_THREAD.replace(Some(Lang::En));
    let done = this();
    OF_THREAD.set(before);
    done
}

/// The current language.
pub fn language() -> Lang {
    if let Some(lang) = OF_THREAD.get() {
        return lang;
    }
    if LANGUAGE.load(Ordering::Relaxed) == Lang::Zh as u8 { Lang::Zh } else { Lang::En }
}

struct Catalog {
    bundle: FluentBundle<&'static FluentResource>,
    /// Messages without arguments, by ID; the console reads hundreds of them per frame.
    labels: HashMap<&'static str, &'static str>,
}

/// By the index of their language. They live as long as the process.
static CATALOGS: LazyLock<Vec<Catalog>> =
    LazyLock::new(|| Lang::ALL.iter().map(|lang| Catalog::load(*lang)).collect());

/// Number format, so far the same in every language: `-1,234.5`.
fn grouped<M>(value: &FluentValue<'_>, _: &M) -> Option<String> {
    let FluentValue::Number(number) = value else { return None };
    let plain = number.as_string();
    let (sign, digits) = plain.strip_prefix('-').map_or(("", &*plain), |digits| ("-", digits));
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut text = sign.to_owned();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    Some(text + fraction)
}

/// Source text of a language's messages.
fn source(lang: Lang) -> String {
    let file = Files::get(&format!("{}.ftl", lang.tag()));
    file.map_or_else(String::new, |file| String::from_utf8_lossy(&file.data).into_owned())
}

impl Catalog {
    fn load(lang: Lang) -> Self {
        // A test checks the files; a missing message shows its ID.
        let (Ok(resource) | Err((resource, _))) = FluentResource::try_new(source(lang));
        let resource: &'static FluentResource = Box::leak(Box::new(resource));
        let mut bundle = FluentBundle::new_concurrent(lang.tag().parse().into_iter().collect());
        // Directional isolates would take cells of a table.
        bundle.set_use_isolating(false);
        bundle.set_formatter(Some(grouped));
        bundle.add_resource_overriding(resource);
        let mut labels = HashMap::new();
        for entry in resource.entries() {
            let Entry::Message(message) = entry else { continue };
            let Some(pattern) = &message.value else { continue };
            let mut errors = Vec::new();
            let text = bundle.format_pattern(pattern, None, &mut errors).into_owned();
            if errors.is_empty() {
                labels.insert(message.id.name, &*text.leak());
            }
        }
        Self { bundle, labels }
    }
}

/// A message without arguments in the language `lang`; its ID where there is none.
pub(crate) fn label(lang: Lang, id: &'static str) -> &'static str {
    CATALOGS[lang as usize].labels.get(id).copied().unwrap_or(id)
}

/// A message in the language `lang`; its ID where there is none.
pub(crate) fn format(lang: Lang, id: &str, args: &FluentArgs<'_>) -> String {
    let bundle = &CATALOGS[lang as usize].bundle;
    let Some(pattern) = bundle.get_message(id).and_then(|it| it.value()) else {
        return id.to_owned();
    };
    bundle.format_pattern(pattern, Some(args), &mut Vec::new()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_nonempty_variable_decides() {
        let of = |set: &'static [(&'static str, &'static str)]| {
            Lang::of_environment(|name| {
                set.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(of(&[]), Lang::En);
        assert_eq!(of(&[("LANG", "zh_CN.UTF-8")]), Lang::Zh);
        assert_eq!(of(&[("LC_ALL", "C"), ("LANG", "zh_CN.UTF-8")]), Lang::En);
        assert_eq!(of(&[("LC_ALL", ""), ("LC_MESSAGES", "zh_TW")]), Lang::Zh);
        assert_eq!(of(&[("LANG", "xx_NOWHERE")]), Lang::En);
    }
}
