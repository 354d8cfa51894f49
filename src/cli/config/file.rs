//! Errors in a settings file, each with its position, what is expected there, and a fix.
//!
//! A value may hold a password, so errors never quote one.

use seckill_console::settings::{self as messages, Position};
use seckill_model::message::{Label, text};
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

/// An error.
struct Invalid {
    /// Byte offset.
    at: usize,
    /// Name of the setting.
    key: Vec<String>,
    /// What is wrong, and what to do.
    message: String,
}

/// Parses the settings, or returns all errors.
pub(super) fn read(text: &str) -> Result<Config, String> {
    let table = DeTable::parse(text).map_err(|error| {
        let (position, why) = messages::syntax(text, &error);
        messages::at(position, &why)
    })?;
    let mut rest = table;
    let mut errors = Vec::new();
    match validate(&rest) {
        Ok(config) => return Ok(config),
        Err(error) => errors.push(error),
    }
    // Removes the faulty setting, so that further errors are found.
    while let Some(last) = errors.last()
        && errors.len() < MOST
        && remove(rest.get_mut(), &last.key)
        && let Err(another) = validate(&rest)
    {
        errors.push(another);
    }
    let position = |error: Invalid| (Position::of(text.as_bytes(), error.at), error.message);
    Err(messages::all(errors.into_iter().map(position).collect()))
}

/// The text of a file.
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
        let message = if is_name {
            let known = names_in(&key[..key.len() - 1]).join(&Label("list-items"));
            text!("settings-unknown-setting", key = key.join("."), known)
        } else if is_schedule(&key) && matches!(value_of(root, &key), Some(DeValue::String(_))) {
            with_default(error.message(), &key)
        } else {
            let why = text!("settings-wrong-value", key = key.join("."), wanted = wanted(&key));
            with_default(&why, &key)
        };
        Invalid { at, key, message }
    })?;
    // Reported with its position in the file, even if a flag overrides the setting.
    config.check().map_err(|error| {
        let key: Vec<String> = error.name.split('.').map(str::to_owned).collect();
        let at = offset_of(root, &key).unwrap_or(0);
        Invalid { at, message: with_default(&error.why, &key), key }
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
fn key_at(table: &DeTable<'_>, at: usize) -> (Vec<String>, bool) {
    for (name, value) in table {
        if name.span().contains(&at) {
            return (vec![name.get_ref().to_string()], true);
        }
        let inner = match value.get_ref() {
            DeValue::Table(inner) => Some(key_at(inner, at)).filter(|(key, _)| !key.is_empty()),
            _ => None,
        };
        if inner.is_some() || value.span().contains(&at) {
            let (below, is_name) = inner.unwrap_or_default();
            let key = std::iter::once(name.get_ref().to_string()).chain(below).collect();
            return (key, is_name);
        }
    }
    (Vec::new(), false)
}

/// The table that holds a setting, and the last part of its name.
fn table_of<'t, 'k>(
    root: &'t DeTable<'t>,
    key: &'k [String],
) -> Option<(&'t DeTable<'t>, &'k str)> {
    let (name, sections) = key.split_last()?;
    let table = sections
        .iter()
        .try_fold(root, |table, section| table.get(section.as_str())?.get_ref().as_table())?;
    Some((table, name))
}

fn value_of<'t>(root: &'t DeTable<'t>, key: &[String]) -> Option<&'t DeValue<'t>> {
    let (table, name) = table_of(root, key)?;
    table.get(name).map(Spanned::get_ref)
}

fn offset_of<'t>(root: &'t DeTable<'t>, key: &[String]) -> Option<usize> {
    let (table, name) = table_of(root, key)?;
    table.get_key_value(name).map(|(name, _)| name.span().start)
}

fn remove(table: &mut DeTable<'_>, key: &[String]) -> bool {
    let Some((first, below)) = key.split_first() else { return false };
    match table.get_mut(first.as_str()).map(Spanned::get_mut) {
        Some(DeValue::Table(inner)) if !below.is_empty() => remove(inner, below),
        _ => table.remove(first.as_str()).is_some(),
    }
}

/// The value that applies if the setting is removed from the file.
pub(super) fn instead(key: &[String]) -> String {
    let name = key.join(".");
    if let Some(message) = no_fixed_default(&name) {
        return message.to_owned();
    }
    default_of(key).map_or_else(
        || Label("settings-defaults-apply").to_owned(),
        |value| text!("settings-default", key = name, value),
    )
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
fn default_of(key: &[String]) -> Option<&'static str> {
    let (name, sections) = key.split_last()?;
    let section = sections.join(".");
    example().find(|(at, it, _)| *at == section && it == name).map(|(_, _, value)| value)
}

/// The settings and sections of a section.
fn names_in(sections: &[String]) -> Vec<&'static str> {
    let section = sections.join(".");
    let parent = |it: &&str| it.rsplit_once('.').map_or("", |(parent, _)| parent) == section;
    let heads = EXAMPLE.lines().filter_map(|line| line.strip_prefix('[')?.strip_suffix(']'));
    let below = heads.filter(parent).map(|head| head.rsplit('.').next().unwrap_or(head));
    example().filter(|(at, ..)| *at == section).map(|(_, name, _)| name).chain(below).collect()
}

fn is_schedule(key: &[String]) -> bool {
    key.starts_with(&["engine".to_owned(), "jobs".to_owned()])
        && default_of(key).is_some_and(|value| value.starts_with('"'))
}

/// What the value of a setting has to be, by the type of its default.
fn wanted(key: &[String]) -> String {
    let one_of = |names: &[&str]| text!("settings-wanted-one-of", names = names.join("\", \""));
    let kind = match (key.join(".").as_str(), default_of(key)) {
        ("store.tls", _) => return one_of(Tls::VARIANTS),
        ("store.synchronous", _) => return one_of(Synchronous::VARIANTS),
        (name, _) if name.starts_with("keys.") => Label("settings-wanted-keys"),
        (_, Some("true" | "false")) => Label("settings-wanted-boolean"),
        (_, Some(value)) if value.starts_with('"') => Label("settings-wanted-text"),
        (_, Some(_)) => Label("settings-wanted-integer"),
        (_, None) => Label("settings-wanted-table"),
    };
    kind.to_owned()
}

/// An invalid value, and what applies without it.
fn with_default(why: &str, key: &[String]) -> String {
    text!("settings-correct-or-remove-line", why, instead = instead(key))
}
