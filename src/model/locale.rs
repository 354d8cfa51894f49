//! The languages, each a file of messages in `assets/locales`, and which one is read.
//!
//! A process has one language, so it need not be passed to each place that creates a text. A debug build reads the
//! files from the source tree at startup; a release build contains them.

use std::{
    cell::Cell,
    collections::{BTreeMap, HashMap},
    iter,
    sync::{
        LazyLock, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use fluent_bundle::{FluentArgs, FluentResource, FluentValue, concurrent::FluentBundle};
use fluent_syntax::ast::{Entry, Expression, InlineExpression, Pattern, PatternElement};
use unic_langid::LanguageIdentifier;

/// The texts of the catalog by language tag. A debug build reads them, so that a changed text needs no build.
#[cfg(debug_assertions)]
fn texts() -> BTreeMap<String, String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/locales");
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .filter_map(|file| {
            let tag = file.file_name().to_str()?.strip_suffix(".ftl")?.to_owned();
            Some((tag, std::fs::read_to_string(file.path()).ok()?))
        })
        .collect()
}

/// The texts of the catalog by language tag.
#[cfg(not(debug_assertions))]
fn texts() -> BTreeMap<String, String> {
    static FOLDER: include_dir::Dir<'_> =
        include_dir::include_dir!("$CARGO_MANIFEST_DIR/../../assets/locales");
    let text = |file: &include_dir::File<'_>| {
        let tag = file.path().to_str()?.strip_suffix(".ftl")?.to_owned();
        Some((tag, file.contents_utf8()?.to_owned()))
    };
    FOLDER.files().filter_map(text).collect()
}

/// A language of the catalog, as an index of [`CATALOGS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Language(usize);

impl Language {
    /// The language of logs and JSON, and the default.
    pub const ENGLISH: Self = Self(0);

    /// Every language: one per file.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..CATALOGS.len()).map(Self)
    }

    /// The name of its file, a language tag: `en`, `zh`.
    pub fn tag(self) -> &'static str {
        CATALOGS[self.0].tag
    }

    /// The language of a tag or a POSIX locale, such as `zh`, `zh-Hans` or `zh_CN.UTF-8`.
    pub fn find(locale: &str) -> Option<Self> {
        let tag: LanguageIdentifier = locale.split(['.', '@']).next()?.parse().ok()?;
        let offers = |it: &Self| {
            let mut offered = CATALOGS[it.0].bundle.locales.iter();
            offered.any(|range| range.matches(&tag, true, false))
        };
        Self::all().filter(offers).max_by_key(|it| it.tag().len())
    }

    /// The language of the environment: the first of `LC_ALL`, `LC_MESSAGES` and `LANG` that is set and not empty, as
    /// in POSIX. English if the catalog does not have it.
    pub fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let locale = ["LC_ALL", "LC_MESSAGES", "LANG"]
            .iter()
            .find_map(|name| variable(name).filter(|it| !it.is_empty()));
        locale.and_then(|it| Self::find(&it)).unwrap_or_default()
    }

    /// Whether its messages can be read without letters beyond ASCII.
    pub fn is_ascii(self) -> bool {
        CATALOGS[self.0].is_ascii
    }
}

static LANGUAGE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Overrides the language in this thread.
    static OF_THREAD: Cell<Option<Language>> = const { Cell::new(None) };
}

/// Sets the language of the process.
pub fn set_language(language: Language) {
    LANGUAGE.store(language.0, Ordering::Relaxed);
}

/// Sets the language of this thread only, by its tag: tests of several languages run in parallel.
///
/// # Panics
/// The catalog does not have the language.
pub fn set_thread_language(tag: &str) {
    let language = Language::find(tag);
    assert!(language.is_some(), "no language {tag}");
    OF_THREAD.set(language);
}

/// Runs `this` in English, for output that programs read; other threads keep their language.
pub fn in_english<T>(this: impl FnOnce() -> T) -> T {
    in_language(Language::ENGLISH, this)
}

/// Runs `this` in a language of its own, such as that of one client; other threads keep their language.
pub fn in_language<T>(language: Language, this: impl FnOnce() -> T) -> T {
    let before = OF_THREAD.replace(Some(language));
    let done = this();
    OF_THREAD.set(before);
    done
}

/// The current language.
pub fn language() -> Language {
    OF_THREAD.get().unwrap_or_else(|| Language(LANGUAGE.load(Ordering::Relaxed)))
}

/// The label of a key by the name of its action.
static KEY_LABEL: OnceLock<fn(&str) -> String> = OnceLock::new();

/// Sets what `{ KEY("freeze") }` in a message stands for: the label of the key that triggers this action. Only messages
/// of the console name keys.
pub fn set_key_label(label: fn(&str) -> String) {
    KEY_LABEL.get_or_init(|| label);
}

/// The function `KEY` of the catalog.
fn key<'a>(args: &[FluentValue<'a>], _: &FluentArgs<'_>) -> FluentValue<'a> {
    match (args, KEY_LABEL.get()) {
        ([FluentValue::String(action)], Some(label)) => label(action).into(),
        _ => FluentValue::Error,
    }
}

/// Whether a pattern is the same text whatever the arguments and the keys.
fn is_constant(pattern: &Pattern<&str>) -> bool {
    pattern.elements.iter().all(|element| {
        matches!(
            element,
            PatternElement::TextElement { .. }
                | PatternElement::Placeable {
                    expression: Expression::Inline(InlineExpression::StringLiteral { .. })
                }
        )
    })
}

struct Catalog {
    tag: &'static str,
    bundle: FluentBundle<&'static FluentResource>,
    /// Messages without arguments, by ID, and their attributes, by `ID.name`; the console reads hundreds of them per
    /// frame.
    labels: HashMap<String, &'static str>,
    is_ascii: bool,
}

/// English, then the other languages by tag. They live as long as the process.
static CATALOGS: LazyLock<Vec<Catalog>> = LazyLock::new(|| {
    let mut texts = texts();
    let english = texts.remove("en").unwrap_or_default();
    let all = iter::once(("en".to_owned(), english)).chain(texts);
    all.map(|(tag, text)| Catalog::load(tag, text)).collect()
});

/// Number format, so far the same in every language: `-1,234.5`.
fn grouped<M>(value: &FluentValue<'_>, _: &M) -> Option<String> {
    let FluentValue::Number(number) = value else { return None };
    Some(group_digits(&number.as_string()))
}

/// Separates the thousands of a decimal number.
pub fn group_digits(plain: &str) -> String {
    let (sign, digits) = plain.strip_prefix('-').map_or(("", plain), |digits| ("-", digits));
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut text = sign.to_owned();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + fraction
}

impl Catalog {
    fn load(tag: String, text: String) -> Self {
        // A test checks the files; a missing message shows its ID.
        let (Ok(resource) | Err((resource, _))) = FluentResource::try_new(text);
        let resource: &'static FluentResource = Box::leak(Box::new(resource));
        let mut bundle = FluentBundle::new_concurrent(tag.parse().into_iter().collect());
        // Directional isolates would take cells of a table.
        bundle.set_use_isolating(false);
        bundle.set_formatter(Some(grouped));
        bundle.add_resource_overriding(resource);
        // Cannot fail: no other function has this name.
        let _ = bundle.add_function("KEY", key);
        let mut labels = HashMap::new();
        for entry in resource.entries() {
            let Entry::Message(message) = entry else { continue };
            let id = message.id.name;
            let value = message.value.iter().map(|pattern| (id.to_owned(), pattern));
            let attributes = message.attributes.iter();
            let attributes = attributes.map(|it| (format!("{id}.{}", it.id.name), &it.value));
            for (id, pattern) in value.chain(attributes) {
                if is_constant(pattern) {
                    let text = bundle.format_pattern(pattern, None, &mut Vec::new());
                    labels.insert(id, &*text.into_owned().leak());
                }
            }
        }
        let letters =
            || labels.values().flat_map(|text| text.chars()).filter(|it| it.is_alphabetic());
        let is_ascii = letters().all(|it| it.is_ascii());
        Self { tag: tag.leak(), bundle, labels, is_ascii }
    }
}

/// The catalog of a language, then the English one, for messages that a translation lacks.
fn catalogs(language: Language) -> impl Iterator<Item = &'static Catalog> {
    [language, Language::ENGLISH].into_iter().map(|language| &CATALOGS[language.0])
}

/// A message without arguments in the given language, or in English; its ID where there is none.
pub(crate) fn label(language: Language, id: &'static str) -> &'static str {
    catalogs(language).find_map(|it| it.labels.get(id).copied()).unwrap_or(id)
}

/// An attribute of a message without arguments in the given language, or in English.
pub(crate) fn attribute(language: Language, id: &str, name: &str) -> Option<&'static str> {
    catalogs(language).find_map(|it| it.labels.get(&format!("{id}.{name}")).copied())
}

/// A message of the given language that has no arguments; far faster than [`format`].
pub(crate) fn constant(language: Language, id: &str) -> Option<&'static str> {
    CATALOGS[language.0].labels.get(id).copied()
}

/// A message in the given language, or in English; its ID where there is none.
pub(crate) fn format(language: Language, id: &str, args: &FluentArgs<'_>) -> String {
    let found =
        catalogs(language).find_map(|it| Some((&it.bundle, it.bundle.get_message(id)?.value()?)));
    let Some((bundle, pattern)) = found else { return id.to_owned() };
    bundle.format_pattern(pattern, Some(args), &mut Vec::new()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_nonempty_variable_decides() {
        let of = |set: &'static [(&'static str, &'static str)]| {
            let value = |name: &str| Some(set.iter().find(|(it, _)| *it == name)?.1.to_owned());
            Language::of_environment(value).tag()
        };
        assert_eq!(of(&[]), "en");
        assert_eq!(of(&[("LANG", "zh_CN.UTF-8")]), "zh");
        assert_eq!(of(&[("LC_ALL", "C"), ("LANG", "zh_CN.UTF-8")]), "en");
        assert_eq!(of(&[("LC_ALL", ""), ("LC_MESSAGES", "zh_TW")]), "zh");
        assert_eq!(of(&[("LANG", "zh_Hans_CN@stroke")]), "zh");
        assert_eq!(of(&[("LANG", "xx_NOWHERE")]), "en");
    }

    #[test]
    fn languages_are_the_files_of_the_catalog() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/locales");
        assert_eq!(Language::all().count(), std::fs::read_dir(folder).unwrap().count());
        assert!(Language::ENGLISH.is_ascii());
        assert_eq!(Language::find("zh-Hans").map(Language::tag), Some("zh"));
        assert_eq!(Language::find("xx"), None);
    }
}
