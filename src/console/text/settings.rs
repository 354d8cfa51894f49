//! Words of what is wrong in a file of settings, in `[keys]` and in a theme, each with the next step.

use std::{io, path::Path};

use seckill_model::{
    OsError,
    message::{Label, text},
};

/// A fault at its line.
pub fn at(line: usize, told: &str) -> String {
    text!("settings-line", line, told)
}

/// A fault of a file.
pub fn misread(path: &Path, why: &str) -> String {
    let path = path.display();
    text!("settings-the-config-file-is-not-understood", path, why)
}

/// A file that cannot be opened.
pub fn unreadable(path: &Path, why: &io::Error) -> String {
    let (path, why) = (path.display(), OsError::of(why));
    text!("settings-the-config-file-cant-be-read", path, why)
}

/// Faults that are told; a file with more of them is another file.
const TOLD: usize = 20;

/// The faults of a file by their lines, each in a line of its own where there are several, and how many others there are.
pub fn all(mut faults: Vec<(usize, String)>) -> String {
    faults.sort_by_key(|(line, _)| *line);
    // A name in quotes may hold a line break of its own.
    let told =
        faults.iter().take(TOLD).map(|(line, told)| at(*line, &told.replace(['\n', '\r'], " ")));
    let told: Vec<_> = told.collect();
    let told = match told.as_slice() {
        [one] => one.clone(),
        several => format!("\n  {}", several.join("\n  ")),
    };
    match faults.len().saturating_sub(TOLD) {
        0 => told,
        1 => text!("settings-1-more-fault", told),
        more => text!("settings-more-faults", told, more),
    }
}

/// No TOML; the parser tells why in English only.
pub fn syntax(why: &str) -> String {
    if why.starts_with("duplicate key") {
        return text!("settings-take-one-of-the-two-out", why);
    }
    let known = SYNTAX.iter().find(|(en, _)| why.starts_with(en));
    let chinese = known.map_or(String::new(), |(_, zh)| format!("（{zh}）"));
    text!("settings-mend-the-line-or-take-it", why, chinese)
}

/// What the parser says of the mistakes that a person makes, by how it begins.
const SYNTAX: &[(&str, &str)] = &[
    ("string values must be quoted", "文本须加引号"),
    ("key with no value", "缺少“=”和值"),
    ("missing value", "缺少值"),
    ("missing assignment", "缺少“=”"),
    ("extra `=`", "多余的“=”"),
    ("extra assignment", "多余的“=”"),
    ("unclosed table", "缺少“]”"),
    ("unclosed array", "缺少“]”"),
    ("unclosed inline table", "缺少“}”"),
    ("missing comma", "缺少逗号"),
    ("extra comma", "多余的逗号"),
    ("missing opening quote", "缺少引号"),
    ("invalid basic string", "引号不成对，或有无效的转义"),
    ("invalid literal string", "引号不成对"),
    ("missing escaped value", "“\\”后的转义无效"),
    ("unquoted keys cannot be empty", "缺少设置项名称"),
    ("invalid unquoted key", "设置项名称无效"),
    ("unexpected key or value", "此行末尾有多余内容"),
    ("unexpected content", "此行末尾有多余内容"),
    ("unexpected leading zero", "数字不能以 0 开头"),
    ("invalid integer", "数字无效"),
    ("invalid float", "数字无效"),
    ("`_` may only go between digits", "“_”只能在数字之间"),
];

/// A file that is no text.
pub fn not_utf8() -> String {
    text!("settings-the-text-is-not-utf-8")
}

/// A name that no setting has.
pub fn unknown(key: &str, known: &str) -> String {
    text!("settings-there-is-no-setting-take-the", key, known)
}

/// A setting that has no effect.
pub fn nothing_reads_it(why: &str) -> String {
    text!("settings-take-the-line-out-nothing-reads", why)
}

/// A value that cannot be used, and what holds without it.
pub fn wrong(why: &str, instead: &str) -> String {
    text!("settings-mend-it-or-take-the-line", why, instead)
}

/// A fault in the theme that a setting names.
pub fn of_theme(why: &str, instead: &str) -> String {
    text!("settings-without-the-setting-theme", why, instead)
}

/// A value of a kind that the setting does not take; the parser names that kind as the program does.
pub fn expected(wanted: &str) -> String {
    let kind = match wanted {
        "usize" | "u64" | "u32" | "u16" | "u8" => Label("settings-a-whole-number-without-a-sign"),
        "isize" | "i64" | "i32" | "i16" | "i8" => Label("settings-a-whole-number"),
        "f64" | "f32" => Label("settings-a-number"),
        "a boolean" | "bool" => Label("settings-true-or-false"),
        "a string" | "a borrowed string" | "path string" => Label("settings-a-text-in-quotes"),
        "a map" => Label("settings-a-section-of-settings"),
        _ if wanted.starts_with("struct ") => Label("settings-a-section-of-settings"),
        _ => {
            let names = wanted.trim_start_matches("one of ").replace('`', "\"");
            return text!("settings-expected", wanted, names);
        }
    };
    text!("settings-expected-2", kind)
}

/// A fault that the parser does not name.
pub fn unfit() -> String {
    text!("settings-this-cant-be-used")
}

/// The value that holds without the setting.
pub fn default(key: &str, value: &str) -> String {
    text!("settings-the-default-stands", key, value)
}

/// What holds without several settings.
pub fn defaults() -> String {
    text!("settings-the-defaults-stand")
}

/// What stands where a setting is left out that has no fixed default.
pub fn no_fixed_default(key: &str) -> Option<&'static str> {
    let told = match key {
        "data_dir" => Label("settings-the-xdg-data-directory-is-used"),
        "redis" => Label("settings-the-program-keeps-a-redis-of"),
        "database" => Label("settings-orders-go-to-sqlite-in-the"),
        "partitions" => Label("settings-the-deployment-keeps-the-partitions"),
        "node" => Label("settings-the-node-gets-a-name-of"),
        "export_dir" => Label("settings-exports-go-to-the-working-directory"),
        "store.ca" | "redis_ca" => Label("settings-the-certificates-of-the-system-are"),
        _ => return None,
    };
    Some(told.read())
}

/// A name that no node can have.
pub fn node() -> String {
    text!("settings-node-must-be-1-to-64")
}

/// Faults of `[keys]`.
pub mod keys {
    use seckill_model::message::text;

    /// A name that no action has.
    pub fn no_action(written: &str) -> String {
        text!("settings-there-is-no-action-in-keys", written)
    }

    /// A fault of one action.
    pub fn of(action: &str, why: &str) -> String {
        text!("settings-value-2", action, why)
    }

    /// A key that is too easy to press for what changes something.
    pub fn no_capital(action: &str, written: &str) -> String {
        text!("settings-changes-something-so-it-stands-on", action, written)
    }

    /// A key that would answer the question that it opens.
    pub fn answers(action: &str, written: &str) -> String {
        text!("settings-cant-be-a-capital-opens-a", action, written)
    }

    /// A key that would be typed as text.
    pub fn is_text(action: &str, written: &str) -> String {
        text!("settings-holds-also-where-text-is-typed", action, written)
    }

    /// An action that lost all its keys.
    pub fn none_left(action: &str) -> String {
        text!("settings-has-no-key-left", action)
    }

    /// A key of two actions.
    pub fn both(action: &str, other: &str, key: &str) -> String {
        text!("settings-and-would-both-be-where-both", action, other, key)
    }

    /// A name that no key has.
    pub fn no_key(shown: &str, names: &str) -> String {
        text!("settings-is-no-key-write-a-character", shown, names)
    }

    /// A modifier of a key that does not take it.
    pub fn no_letter(written: &str) -> String {
        text!("settings-ctrl-goes-with-a-letter-only", written)
    }

    /// Two names of one key.
    pub fn same(written: &str, other: &str) -> String {
        text!("settings-cant-be-told-from-by-a", written, other)
    }
}

/// Faults of a theme.
pub mod theme {
    use std::{io, path::Path};

    use seckill_model::{OsError, message::text};

    /// A name that no theme has.
    pub fn unknown(name: &str, names: &str) -> String {
        text!("settings-there-is-no-theme-give-or", name, names)
    }

    /// A theme that cannot be opened.
    pub fn unreadable(path: &Path, why: &io::Error) -> String {
        let (path, why) = (path.display(), OsError::of(why));
        text!("settings-the-theme-cant-be-read-check", path, why)
    }

    /// A file that is no theme.
    pub fn misread(path: &Path, why: &str) -> String {
        let path = path.display();
        text!("settings-the-theme-is-not-understood", path, why)
    }

    /// A theme to start from that does not exist.
    pub fn no_base(names: &str) -> String {
        text!("settings-base-is-one-of-take-the", names)
    }

    /// A name that no role has.
    pub fn no_role(name: &str, known: &str) -> String {
        text!("settings-there-is-no-role-take-the", name, known)
    }

    /// A value that is no colour.
    pub fn no_colour(role: &str, base: &str) -> String {
        text!("settings-is-no-colour-give-rrggbb-a", role, base)
    }
}
