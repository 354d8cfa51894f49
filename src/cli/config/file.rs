//! Errors in a settings file, each with its position, what is expected there, and a fix.
//!
//! A value may hold a password, so errors never quote one.

use seckill_console::settings::{self as messages, Position};
use seckill_model::{Label, text};
use seckill_store::{Synchronous, Tls};
use serde::Deserialize as _;
use strum::VariantNames as _;
use toml::{
    Deserializer, Spanned,
    de::{DeTable, DeValue},
};

use super::Config;

/// Every setting with its default, or with an example if it has no fixed default.
const EXAMPLE: &str = include_str!("../../../assets/config.toml");

/// Maximum number of errors reported: each requires a pass over the whole file.
const MOST: usize = 99;

struct Invalid {
    /// Byte offset.
    at: usize,
    /// Name of the setting, after those of its sections.
    key: String,
    /// What is wrong, and what to do.
    message: String,
}

/// Parses the settings, or returns all errors.
pub(super) fn read(text: &str) -> Result<Config, String> {
    let mut rest = DeTable::parse(text).map_err(|error| {
        let (position, why) = messages::syntax(text, &error);
        messages::at(position, &why)
    })?;
    let mut errors: Vec<Invalid> = Vec::new();
    loop {
        match validate(&rest) {
            Ok(config) if errors.is_empty() => return Ok(config),
            Ok(_) => break,
            Err(error) => errors.push(error),
        }
        // Removes the faulty setting, so that further errors are found.
        let is_removed = errors.last().is_some_and(|last| remove(rest.get_mut(), &last.key));
        if !is_removed || errors.len() == MOST {
            break;
        }
    }
    let position = |error: Invalid| (Position::of(text.as_bytes(), error.at), error.message);
    Err(messages::all(errors.into_iter().map(position).collect()))
}

pub(super) fn text(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| {
        let (position, why) = messages::not_utf8(error.as_bytes(), error.utf8_error());
        messages::at(position, &why)
    })
}

fn validate(table: &Spanned<DeTable<'_>>) -> Result<Config, Invalid> {
    let root = table.get_ref();
    let config = Config::deserialize(Deserializer::from(table.clone())).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let (key, is_name) = key_at(root, at);
        let is_text = matches!(find(root, &key), Some((_, DeValue::String(_))));
        let message = if is_name {
            let known = names_in(split(&key).0).join(&Label("list-items"));
            text!("settings-unknown-setting", key, known)
        } else if is_text && is_schedule(&key) {
            with_default(error.message(), &key)
        } else {
            let why = text!("settings-wrong-value", key, wanted = wanted(&key));
            with_default(&why, &key)
        };
        Invalid { at, key, message }
    })?;
    // Reported with its position in the file, even if a flag overrides the setting.
    config.check().map_err(|(name, why)| {
        let at = find(root, name).map_or(0, |(at, _)| at);
        Invalid { at, message: with_default(&why, name), key: name.to_owned() }
    })?;
    config.keys.check().map_err(|error| {
        let (key, _) = key_at(root, error.at);
        let message = match default_of(&key) {
            Some(_) => with_default(&error.to_string(), &key),
            None => text!("settings-remove-line", why = error),
        };
        Invalid { at: error.at, key, message }
    })?;
    Ok(config)
}

/// Name of the setting at an offset, and whether the offset is in the name.
fn key_at(table: &DeTable<'_>, at: usize) -> (String, bool) {
    for (name, value) in table {
        if name.span().contains(&at) {
            return (name.get_ref().to_string(), true);
        }
        if let DeValue::Table(inner) = value.get_ref()
            && let (below, is_name) = key_at(inner, at)
            && !below.is_empty()
        {
            return (format!("{}.{below}", name.get_ref()), is_name);
        }
        if value.span().contains(&at) {
            return (name.get_ref().to_string(), false);
        }
    }
    (String::new(), false)
}

/// The sections of a setting, and its own name.
fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('.').unwrap_or(("", key))
}

/// The offset of a setting in the file, and its value.
fn find<'t>(root: &'t DeTable<'t>, key: &str) -> Option<(usize, &'t DeValue<'t>)> {
    let (sections, name) = split(key);
    let mut sections = sections.split('.').filter(|section| !section.is_empty());
    let table =
        sections.try_fold(root, |table, section| table.get(section)?.get_ref().as_table())?;
    let (name, value) = table.get_key_value(name)?;
    Some((name.span().start, value.get_ref()))
}

fn remove(table: &mut DeTable<'_>, key: &str) -> bool {
    match key.split_once('.') {
        Some((section, below)) => match table.get_mut(section).map(Spanned::get_mut) {
            Some(DeValue::Table(inner)) => remove(inner, below),
            _ => table.remove(section).is_some(),
        },
        None => table.remove(key).is_some(),
    }
}

/// An error of the theme in this file, with its position.
pub(super) fn theme_fault(text: &str, why: &str) -> String {
    let table = DeTable::parse(text).ok();
    let at = table.and_then(|table| find(table.get_ref(), "theme").map(|(at, _)| at));
    let why = text!("settings-without-the-setting-theme", why, instead = instead("theme"));
    messages::at(Position::of(text.as_bytes(), at.unwrap_or(0)), &why)
}

/// The value that applies if the setting is removed from the file.
fn instead(key: &str) -> String {
    match (no_fixed_default(key), default_of(key)) {
        (Some(message), _) => message.to_owned(),
        (None, Some(value)) => text!("settings-default", key, value),
        (None, None) => Label("settings-defaults-apply").to_owned(),
    }
}

/// What applies without the setting, if it has no fixed default.
fn no_fixed_default(key: &str) -> Option<Label> {
    Some(match key {
        "data_dir" => Label("settings-default-xdg-data-directory"),
        "redis" => Label("settings-default-embedded-redis"),
        "database" => Label("settings-default-sqlite-in-data-directory"),
        "partitions" => Label("settings-default-existing-number-of-partitions"),
        "node" => Label("settings-default-generated-name"),
        "export_dir" => Label("settings-default-working-directory"),
        "store.ca" | "redis_ca" => Label("settings-default-system-certificates"),
        _ => return None,
    })
}

/// The settings of the example file, each with its section and its default or example.
fn example() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let mut section = "";
    EXAMPLE.lines().filter_map(move |line| {
        if let Some(head) = line.strip_prefix('[') {
            section = head.trim_end_matches(']');
        }
        let (name, value) = line.strip_prefix("# ")?.split_once(" = ")?;
        Some((section, name, value))
    })
}

/// Default of a setting in the example file, or an example.
fn default_of(key: &str) -> Option<&'static str> {
    example().find(|(section, name, _)| (*section, *name) == split(key)).map(|(.., value)| value)
}

/// The settings and sections of a section.
fn names_in(section: &str) -> Vec<&'static str> {
    let heads = EXAMPLE.lines().filter_map(|line| line.strip_prefix('[')?.strip_suffix(']'));
    let below = heads.map(split).filter(|(parent, _)| *parent == section);
    let names = example().filter(|(at, ..)| *at == section).map(|(_, name, _)| name);
    names.chain(below.map(|(_, name)| name)).collect()
}

fn is_schedule(key: &str) -> bool {
    key.starts_with("engine.jobs.") && default_of(key).is_some_and(|value| value.starts_with('"'))
}

/// What the value of a setting has to be, by its range or the type of its default.
fn wanted(key: &str) -> String {
    let one_of = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
        text!("settings-wanted-one-of", names = names.join(&Label("list-items")))
    };
    let defaults = Config::default();
    if let Some((_, _, least, most)) = defaults.ranges().find(|(name, ..)| *name == key) {
        return text!("settings-wanted-integer", least, most);
    }
    let kind = match (key, default_of(key)) {
        ("store.tls", _) => return one_of(Tls::VARIANTS),
        ("store.synchronous", _) => return one_of(Synchronous::VARIANTS),
        (name, _) if name.starts_with("keys.") => Label("settings-wanted-keys"),
        (_, Some("true" | "false")) => Label("settings-wanted-boolean"),
        (_, Some(value)) if value.starts_with('"') => Label("settings-wanted-text"),
        _ => Label("settings-wanted-table"),
    };
    kind.to_owned()
}

/// An invalid value, and what applies without it.
fn with_default(why: &str, key: &str) -> String {
    text!("settings-correct-or-remove-line", why, instead = instead(key))
}
