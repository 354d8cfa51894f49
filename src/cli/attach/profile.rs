//! The profile of `seckill attach`: a built-in one, or a TOML file whose errors are listed with their positions.

use std::path::Path;

use seckill_attach::{Profile, profile};
use seckill_model::{Label, OsError, Reason, text};
use seckill_text::settings::{self as messages, Position};
use toml::{
    Table, Value,
    de::{DeTable, DeValue},
};

use crate::{
    CliError, Result,
    config::file::{dotted, find, text as utf8},
};

/// Reads the built-in profile of this name, or the file.
pub(super) fn load(asked: &str) -> Result<Profile> {
    if let Some(profile) = Profile::named(asked) {
        // Its zone may be unknown to this system.
        profile.check().map_err(|(name, why)| CliError::usage(format!("{name}: {why}")))?;
        return Ok(profile);
    }
    let path = Path::new(asked);
    if !(asked.contains('/') || path.extension().is_some() || path.exists()) {
        let names = profile::names();
        return Err(CliError::usage(text!("attach-unknown-profile", name = asked, names)));
    }
    let invalid =
        |why: String| CliError::list(text!("attach-invalid-profile", path = path.display(), why));
    let bytes = std::fs::read(path).map_err(|why| {
        let (path, why) = (path.display(), OsError::of(&why));
        CliError::usage(text!("attach-cannot-read-profile", path, why))
    })?;
    read(&utf8(bytes).map_err(invalid)?).map_err(invalid)
}

/// Parses a profile, or returns all errors.
fn read(text: &str) -> Result<Profile, String> {
    let at = |offset: usize| Position::of(text.as_bytes(), offset);
    let syntax = |error: toml::de::Error| {
        let (position, why) = messages::syntax(text, &error);
        messages::at(position, &why)
    };
    let table = DeTable::parse(text).map_err(syntax)?;
    let mut errors = Vec::new();
    check(table.get_ref(), &profile::base().map_err(syntax)?, &mut Vec::new(), &mut errors);
    if !errors.is_empty() {
        return Err(messages::all(
            errors.into_iter().map(|(offset, why)| (at(offset), why)).collect(),
        ));
    }
    let profile = Profile::parse(text).map_err(syntax)?;
    let unusable = |(name, why): (&str, Reason)| {
        let key: Vec<String> = name.split('.').map(str::to_owned).collect();
        let offset = find(table.get_ref(), &key).map_or(0, |(_, value)| value.span().start);
        messages::at(at(offset), &why.to_string())
    };
    profile.check().map_err(unusable)?;
    Ok(profile)
}

/// Adds the settings that `known` has not, or has with another type.
fn check(
    table: &DeTable<'_>,
    known: &Table,
    sections: &mut Vec<String>,
    errors: &mut Vec<(usize, String)>,
) {
    for (name, value) in table {
        let name_text: &str = name.get_ref();
        sections.push(name_text.to_owned());
        let key = dotted(sections);
        match (known.get(name_text), value.get_ref()) {
            (None, _) => {
                let known: Vec<&str> = known.keys().map(String::as_str).collect();
                let known = known.join(&Label("list-items"));
                errors.push((name.span().start, text!("settings-unknown-setting", key, known)));
            }
            (Some(Value::Table(known)), DeValue::Table(inner)) => {
                check(inner, known, sections, errors);
            }
            (Some(Value::String(_)), DeValue::String(_)) => {}
            (Some(Value::Array(_)), DeValue::Array(list))
                if list.iter().all(|it| matches!(it.get_ref(), DeValue::Integer(_))) => {}
            (Some(known), _) => {
                let wanted = match known {
                    Value::String(_) => Label("settings-wanted-text"),
                    Value::Table(_) => Label("settings-wanted-table"),
                    _ => Label("attach-wanted-numbers"),
                };
                let why = text!("settings-wrong-value", key, wanted);
                errors.push((value.span().start, why));
            }
        }
        sections.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_changes_what_it_names() {
        let profile = read("[stream]\nkey = \"orders\"\n[order]\nclosed = []\n").unwrap();
        assert_eq!((profile.stream.key.as_str(), profile.stream.group.as_str()), ("orders", "g1"));
        assert!(profile.order.closed.is_empty());
    }

    #[test]
    fn the_built_in_profiles_are_valid_files() {
        for (name, file) in profile::BUILT_IN {
            assert_eq!(Profile::named(name), Some(read(file).unwrap()), "{name}");
        }
    }

    #[test]
    fn errors_have_their_position() {
        for (text, start) in [
            (
                "[keys]\nstok = \"x\"",
                "line 2, column 1: unknown setting 'keys.stok'; remove the line, or use one of ",
            ),
            ("[tabels]\nx = 1", "line 1, column 2: unknown setting 'tabels'"),
            ("stream = 5", "line 1, column 10: stream must be a table"),
            ("[stream]\nkey = 5", "line 2, column 7: stream.key must be a string in quotes"),
            ("[order]\nclosed = 4", "line 2, column 10: order.closed must be a list of integers"),
            ("[order]\nclosed = [\"x\"]", "line 2, column 10: order.closed must be a list"),
            ("a =", "line 1, column 4: invalid TOML: "),
            ("[keys]\nstock = \"x\"", "line 2, column 9: keys.stock must contain {voucher}"),
            ("time_zone = \"Moon\"", "line 1, column 13: time_zone "),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(start), "{text}: {error}");
        }
        let error = read("x = 1\n[stream]\nkey = 5").unwrap_err();
        assert_eq!(error.trim().lines().count(), 2, "{error}");
    }
}
