//! Errors in a settings file, each with its position, what is expected there, and a fix.
//!
//! A value may hold a password, so errors never quote one.

use std::{borrow::Cow, fmt::Display};

use seckill_model::{Label, text};
use seckill_store::{Synchronous, Tls};
use seckill_text::settings::{self as messages, Position};
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
    /// Names of its sections, and of the setting.
    key: Vec<String>,
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

pub(crate) fn text(bytes: Vec<u8>) -> Result<String, String> {
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
        let is_text = find(root, &key).is_some_and(|(_, value)| value.get_ref().is_str());
        let name = dotted(&key);
        let message = match key.split_last() {
            Some((_, sections)) if is_name => {
                let known = names_in(&dotted(sections)).join(&Label("list-items"));
                text!("settings-unknown-setting", key = name, known)
            }
            _ if is_text && is_schedule(&name) => with_default(error.message(), &name),
            _ => {
                let why = text!("settings-wrong-value", key = name, wanted = wanted(&name));
                with_default(&why, &name)
            }
        };
        Invalid { at, key, message }
    })?;
    // Reported with its position in the file, even if a flag overrides the setting.
    config.check().map_err(|(name, why)| {
        let key: Vec<String> = name.split('.').map(str::to_owned).collect();
        let at = find(root, &key).map_or(0, |(_, value)| value.span().start);
        Invalid { at, message: with_default(&why, name), key }
    })?;
    config.keys.check().map_err(|error| {
        let (key, _) = key_at(root, error.at);
        let name = dotted(&key);
        let message = match default_of(&name) {
            Some(_) => with_default(&error.to_string(), &name),
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
        if let DeValue::Table(inner) = value.get_ref()
            && let (mut key, is_name) = key_at(inner, at)
            && !key.is_empty()
        {
            key.insert(0, name.get_ref().to_string());
            return (key, is_name);
        }
        if value.span().contains(&at) {
            return (vec![name.get_ref().to_string()], false);
        }
    }
    (Vec::new(), false)
}

/// The names as written in a file, separated by dots.
pub(crate) fn dotted(key: &[String]) -> String {
    let quoted = |name: &String| {
        if name.is_empty() || name.contains('.') { format!("\"{name}\"") } else { name.clone() }
    };
    key.iter().map(quoted).collect::<Vec<_>>().join(".")
}

/// The sections of a known setting, and its own name.
fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('.').unwrap_or(("", key))
}

/// A setting in the file: its name and value.
pub(crate) fn find<'t>(
    root: &'t DeTable<'t>,
    key: &[String],
) -> Option<(&'t Spanned<Cow<'t, str>>, &'t Spanned<DeValue<'t>>)> {
    let (name, sections) = key.split_last()?;
    let section = |table: &'t DeTable<'t>, section: &String| {
        table.get(section.as_str())?.get_ref().as_table()
    };
    sections.iter().try_fold(root, section)?.get_key_value(name.as_str())
}

fn remove(table: &mut DeTable<'_>, key: &[String]) -> bool {
    let Some((name, below)) = key.split_first() else { return false };
    match table.get_mut(name.as_str()).map(Spanned::get_mut) {
        Some(DeValue::Table(inner)) if !below.is_empty() => remove(inner, below),
        _ => table.remove(name.as_str()).is_some(),
    }
}

/// An error of a top-level setting with its position, if its value in this file is `value`.
pub(super) fn value_error(
    text: &str,
    name: &str,
    value: &str,
    why: &impl Display,
) -> Option<String> {
    let table = DeTable::parse(text).ok()?;
    let found = table.get_ref().get(name).filter(|it| it.get_ref().as_str() == Some(value))?;
    let at = Position::of(text.as_bytes(), found.span().start);
    let why = text!("settings-without-setting", why, key = name, instead = instead(name));
    Some(messages::at(at, &why))
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
        "redis_cert" | "redis_key" => Label("settings-default-no-certificate"),
        "http.admin_listen" => Label("settings-default-address-of-buyers"),
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
    if let Some((.., range)) = defaults.numbers().find(|(name, ..)| *name == key) {
        let (least, most) = range.into_inner();
        return text!("settings-wanted-integer", least, most);
    }
    let kind = match (key, default_of(key)) {
        ("store.tls", _) => return one_of(Tls::VARIANTS),
        ("store.synchronous", _) => return one_of(Synchronous::VARIANTS),
        ("http.admin_listen", _) => Label("settings-wanted-address"),
        ("http.trusted_proxies", _) => Label("settings-wanted-networks"),
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
