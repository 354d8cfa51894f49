//! Errors in a settings file, each with its line and a fix.
//!
//! The text may hold a password, so errors never quote a line.

use seckill_console::{line_of, settings as messages};
use seckill_model::message::{Label, text};
use serde::Deserialize as _;
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
    line: usize,
    /// Name of the setting.
    key: Vec<String>,
    /// What is wrong, and what to do.
    message: String,
}

/// Parses the settings, or returns all errors.
pub(super) fn read(text: &str) -> Result<Config, String> {
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text.as_bytes(), span.start));
        messages::at(line, &messages::syntax(first_line(error.message())))
    })?;
    let mut rest = table;
    let mut errors = Vec::new();
    match validate(text, &rest) {
        Ok(config) => return Ok(config),
        Err(error) => errors.push(error),
    }
    // Removes the faulty setting, so that further errors are found.
    while let Some(last) = errors.last()
        && errors.len() < MOST
        && remove(rest.get_mut(), &last.key)
        && let Err(another) = validate(text, &rest)
    {
        errors.push(another);
    }
    Err(messages::all(errors.into_iter().map(|error| (error.line, error.message)).collect()))
}

/// The text of a file; an error names the line that is not UTF-8.
pub(super) fn text(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        messages::at(line_of(error.as_bytes(), at), &messages::not_utf8())
    })
}

fn validate(text: &str, table: &Spanned<DeTable<'_>>) -> Result<Config, Invalid> {
    let root = table.get_ref();
    let config = Config::deserialize(Deserializer::from(table.clone())).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let (key, is_name) = key_at(root, at);
        let reason = first_line(error.message());
        let message = if is_name && let Some((_, known)) = reason.split_once("expected ") {
            let known = known.trim_start_matches("one of ").replace('`', "");
            text!("settings-unknown-setting-remove-line", key = key.join("."), known)
        } else if key.starts_with(&["engine".to_owned(), "jobs".to_owned()]) {
            with_default(reason, &key)
        } else {
            // The parser quotes the value, which may be a URL with a password.
            with_default(&unquoted(reason), &key)
        };
        Invalid { line: line_of(text.as_bytes(), at), key, message }
    })?;
    // Reported for the file, unless a flag overrides the setting.
    config.check().map_err(|error| {
        let key: Vec<String> = error.name.split('.').map(str::to_owned).collect();
        Invalid {
            line: line_of_key(text, root, &key).unwrap_or(1),
            message: with_default(&error.why, &key),
            key,
        }
    })?;
    config.keys.check().map_err(|error| {
        let (key, _) = key_at(root, error.at);
        let message = match default_of(&key) {
            Some(_) => with_default(&error.to_string(), &key),
            None => text!("settings-remove-line", why = error),
        };
        Invalid { line: line_of(text.as_bytes(), error.at), key, message }
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

fn line_of_key(text: &str, table: &DeTable<'_>, key: &[String]) -> Option<usize> {
    let (first, below) = key.split_first()?;
    let (name, value) = table.get_key_value(first.as_str())?;
    match value.get_ref() {
        DeValue::Table(inner) if !below.is_empty() => line_of_key(text, inner, below),
        _ => Some(line_of(text.as_bytes(), name.span().start)),
    }
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
        |value| text!("settings-the-default-stands", key = name, value),
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

/// Default of a setting in the example file.
fn default_of(key: &[String]) -> Option<&'static str> {
    let (name, section) = key.split_last()?;
    let section = section.join(".");
    let mut here = "";
    EXAMPLE.lines().find_map(|line| {
        if let Some(head) = line.strip_prefix('[') {
            here = head.trim_end_matches(']');
        }
        let (setting, value) = line.strip_prefix("# ")?.split_once(" = ")?;
        (here == section && setting == name).then_some(value)
    })
}

/// Expected type of the setting, from a message that also quotes the value.
fn unquoted(reason: &str) -> String {
    reason
        .rsplit_once("expected ")
        .map_or_else(|| Label("settings-invalid-value").to_owned(), |(_, wanted)| expected(wanted))
}

/// A value of the wrong type, which the parser describes in Rust terms.
fn expected(wanted: &str) -> String {
    let kind = match wanted {
        "usize" | "u64" | "u32" | "u16" | "u8" => Label("settings-non-negative-integer"),
        "isize" | "i64" | "i32" | "i16" | "i8" => Label("settings-integer"),
        "f64" | "f32" => Label("settings-a-number"),
        "a boolean" | "bool" => Label("settings-true-or-false"),
        "a string" | "a borrowed string" | "path string" => Label("settings-quoted-string"),
        "a map" => Label("settings-table"),
        _ if wanted.starts_with("struct ") => Label("settings-table"),
        _ => {
            let names = wanted.trim_start_matches("one of ").replace('`', "\"");
            return text!("settings-expected", wanted, names);
        }
    };
    text!("settings-expected-2", kind)
}

/// An invalid value, and what applies without it.
fn with_default(why: &str, key: &[String]) -> String {
    text!("settings-correct-or-remove-line", why, instead = instead(key))
}

fn first_line(message: &str) -> &str {
    message.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use seckill_model::locale::set_thread_language;

    #[test]
    fn each_fault_names_the_default() {
        for (text, expected) in [
            (
                "theme = ",
                "correct or remove the line; settings that are not in the file keep their defaults",
            ),
            ("node = \"a\"\nnode = \"b\"", "line 2: duplicate key; remove one of the two"),
            ("quue = 1", "line 1: unknown setting 'quue'; remove the line, or use one of data_dir"),
            ("[engine]\nquue = 1", "line 2: unknown setting 'engine.quue'"),
            ("read_only = 5", "default: read_only = false"),
            ("theme = 5", "default: theme = \"dark\""),
            ("node = \"a b\"", "remove the line ("),
            ("[engine]\nqueue = 0", "default: engine.queue = 8192"),
            ("[engine.jobs]\npool = 0", "default: engine.jobs.pool = 2"),
            ("[store]\ntls = \"maybe\"", "default: store.tls = \"prefer\""),
            ("redis = 5", "default: the embedded Redis"),
            ("partitions = 0", "default: the existing number of partitions"),
            ("engine = 5", "defaults apply"),
            ("[keys]\nfly = \"x\"", "lists the names; remove the line, it has no effect"),
            ("[keys]\nfreeze = \"m\"", "default: keys.freeze = \"f\""),
            ("[keys]\nmark = 5", "default: keys.mark = \"space\""),
        ] {
            let fault = read(text).unwrap_err();
            assert!(fault.contains(expected), "{text}: {fault}");
        }
    }

    #[test]
    fn every_fault_is_reported_with_its_line() {
        let text = "theme = 5\nread_only = 5\nquue = 1\n[keys]\nfly = \"x\"\nfreeze = \"m\"\n[engine]\nqueue = 0\n";
        let fault = read(text).unwrap_err();
        let lines: Vec<&str> = fault.lines().skip(1).map(|line| &line[..9]).collect();
        let expected = [1, 2, 3, 5, 6, 8].map(|line| format!("  line {line}:")[..9].to_owned());
        assert_eq!(lines, expected, "{fault}");
        assert!(fault.contains("(default: read_only = false)"), "{fault}");
        let fault = read("theme = 5").unwrap_err();
        assert!(fault.starts_with("line 1: ") && fault.lines().count() == 1, "{fault}");
        let many = (10..31).map(|n| format!("a{n} = 1")).collect::<Vec<_>>().join("\n");
        assert!(read(&many).unwrap_err().ends_with(" (1 more error)"));
        let many = (10..32).map(|n| format!("a{n} = 1")).collect::<Vec<_>>().join("\n");
        assert!(read(&many).unwrap_err().ends_with(" (2 more errors)"));
    }

    #[test]
    fn type_errors_are_plain_english() {
        let kinds = [
            ("[engine]\nqueue = \"a\"", "expected a non-negative integer;", "应为非负整数"),
            ("read_only = 5", "expected true or false;", "应为布尔值（true 或 false）"),
            ("node = 5", "expected a quoted string;", "应为带引号的字符串"),
            ("engine = 5", "expected a table;", "应为配置表"),
        ];
        for (text, expected, _) in kinds {
            let fault = read(text).unwrap_err();
            assert!(fault.contains(expected), "{text}: {fault}");
        }
        set_thread_language("zh");
        for (text, _, expected) in kinds {
            let fault = read(text).unwrap_err();
            assert!(fault.contains(expected) && !fault.contains("usize"), "{text}: {fault}");
        }
    }

    #[test]
    fn chinese_messages_quote_no_parser_text() {
        set_thread_language("zh");
        for text in [
            "theme = ",
            "theme = dark",
            "theme",
            "theme = \"dark",
            "= 5",
            "[engine",
            "a = [1 2]",
            "a = 1 b = 2",
            "a = {b = 1",
            "a = 01",
            "a == 1",
            "a.b.=1",
            "a = \"\\q\"",
            "a = 'b",
            "a = 1_",
            "[[a]",
            "]",
        ] {
            let fault = read(text).unwrap_err();
            let rest = fault.replace("TOML", "");
            assert!(!rest.contains(|c: char| c.is_ascii_alphabetic()), "{text}: {fault}");
        }
        assert!(read("theme = dark").unwrap_err().contains("文本须加引号"));
    }

    #[test]
    fn faults_are_localized() {
        set_thread_language("zh");
        for (text, expected) in [
            ("theme = ", "第 1 行：不符合 TOML 语法（文本须加引号）"),
            ("quue = 1", "第 1 行：没有设置项“quue”"),
            ("\nread_only = 5", "第 2 行：值不可用"),
            ("partitions = 0", "partitions 为 0，须在 1 到 "),
            ("[engine]\nqueue = 0", "engine.queue 为 0，须在 1 到 "),
            ("[keys]\nfreeze = \"m\"", "“mouse”"),
        ] {
            let fault = read(text).unwrap_err();
            assert!(fault.contains(expected), "{text}: {fault}");
            assert!(!fault.contains("the line"), "{fault}");
        }
    }

    #[test]
    fn invalid_utf8_is_reported_with_its_line() {
        let fault = text(b"node = \"a\"\n# \xff\n".to_vec()).unwrap_err();
        assert!(fault.starts_with("line 2: ") && fault.contains("UTF-8"), "{fault}");
    }
}
