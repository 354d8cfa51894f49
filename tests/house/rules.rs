//! The rules of the house, each a function from a file to what is wrong with it.

use crate::source::{Kind, references, tokens, uses_of_crate};

/// Which room may import what. An entry is a room, or a path within one.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("model", &[]),
    // Points at which a debug build may die, where two steps belong together.
    ("faults", &[]),
    ("broker", &["model", "faults"]),
    ("store", &["model", "faults"]),
    ("telemetry", &["broker", "store", "model"]),
    ("engine", &["telemetry", "broker", "store", "model", "faults"]),
    ("lab", &["engine", "telemetry", "broker", "store", "model"]),
    ("bench", &["engine", "telemetry", "broker", "store", "model"]),
    // It reads Snapshots and sends Commands: Redis and SQL are out of its reach.
    ("console", &["engine", "telemetry", "model"]),
    // It holds what others can be told, and opens nothing.
    (
        "config",
        &[
            "engine::settings",
            "store::Settings",
            "store::Tls",
            "broker::data_dir",
            "model::OutOfRange",
            "console::Options",
            "console::ColorChoice",
            "console::Keys",
            "console::line_of",
            "console::settings",
            "console::Lang",
            "console::speak_here",
        ],
    ),
    (
        "cli",
        &["config", "console", "lab", "bench", "engine", "telemetry", "broker", "store", "model"],
    ),
    ("main", &["cli"]),
];

/// Crates that belong to some rooms only.
const CRATES: &[(&str, &[&str])] = &[
    ("ratatui", &["console"]),
    ("crossterm", &["console"]),
    ("tui_input", &["console"]),
    // The bench runs the plain way too, which goes through none of our rooms.
    ("redis", &["broker", "engine", "bench"]),
    ("sqlx", &["store"]),
];

/// What may stand at the top, beside dot files.
const TOP: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "LICENSE",
    "CHANGELOG.md",
    "README.md",
    "src",
    "lua",
    "migrations",
    "assets",
    "tests",
];

const KEY_PREFIXES: &[&str] = &["seckill:", "icr:", "lock:"];

/// A file of `src/` or `lua/`, by its path from the top.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    /// Its place in the crate: `src/engine/locks/mod.rs` is `engine::locks`.
    fn module(&self) -> Vec<String> {
        let path = self.path.strip_prefix("src/").unwrap_or(&self.path);
        let path = path.strip_suffix(".rs").unwrap_or(path);
        let path = path.strip_suffix("/mod").unwrap_or(path);
        match path {
            "lib" | "main" => Vec::new(),
            _ => path.split('/').map(str::to_owned).collect(),
        }
    }

    fn room(&self) -> String {
        match self.path.as_str() {
            "src/main.rs" => "main".to_owned(),
            _ => self.module().into_iter().next().unwrap_or_else(|| "lib".to_owned()),
        }
    }

    /// A file that `#[cfg(test)] mod tests;` brings in.
    fn is_test(&self) -> bool {
        self.module().iter().any(|name| name == "tests")
    }
}

/// Arrows go down only.
pub(crate) fn imports(file: &File) -> Vec<String> {
    let room = file.room();
    // The map of the crate names every room.
    if room == "lib" {
        return Vec::new();
    }
    let Some((_, allowed)) = MAY_IMPORT.iter().find(|(name, _)| *name == room) else {
        return vec![format!("{}: the room '{room}' has no row in MAY_IMPORT", file.path)];
    };
    let may =
        |path: &str| allowed.iter().any(|it| path == *it || path.starts_with(&format!("{it}::")));
    references(&tokens(&file.text), &file.module())
        .into_iter()
        .filter(|it| MAY_IMPORT.iter().any(|(other, _)| it.path.split("::").next() == Some(other)))
        .filter(|it| it.path.split("::").next() != Some(&room) && !may(&it.path))
        .map(|it| format!("{}:{}: {room} must not import {}", file.path, it.line, it.path))
        .collect()
}

/// A terminal, Redis and SQL are each known to their own rooms only.
pub(crate) fn crates(file: &File) -> Vec<String> {
    let (room, tokens) = (file.room(), tokens(&file.text));
    let mut wrong = Vec::new();
    for (name, rooms) in CRATES {
        if !rooms.contains(&room.as_str()) {
            let lines = uses_of_crate(&tokens, name).into_iter();
            wrong.extend(lines.map(|line| {
                format!("{}:{line}: '{name}' belongs to {}", file.path, rooms.join(" and "))
            }));
        }
    }
    wrong
}

/// One module knows the names of keys.
pub(crate) fn keys(file: &File) -> Vec<String> {
    if file.path == "src/broker/keys.rs" || file.is_test() {
        return Vec::new();
    }
    let strings: Vec<(String, usize)> = if file.path.starts_with("lua/") {
        let code = |line: &str| line.split("--").next().unwrap_or_default().to_owned();
        file.text.lines().map(code).zip(1..).collect()
    } else {
        let text = |kind| if let Kind::Text(text) = kind { Some(text) } else { None };
        tokens(&file.text)
            .into_iter()
            .filter(|token| !token.in_test)
            .filter_map(|token| Some((text(token.kind)?, token.line)))
            .collect()
    };
    strings
        .iter()
        .filter(|(text, _)| KEY_PREFIXES.iter().any(|prefix| names_key(text, prefix)))
        .map(|(text, line)| {
            format!("{}:{line}: only broker/keys.rs formats a key: {text:?}", file.path)
        })
        .collect()
}

/// `seckill:x` is a key; `seckill: x` is prose, `seckill::x` a module, `block:x` another word.
fn names_key(text: &str, prefix: &str) -> bool {
    text.match_indices(prefix).any(|(begin, _)| {
        let before = text[..begin].chars().next_back();
        let after = text[begin + prefix.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric)
            && !after.is_some_and(|c| c == ':' || c.is_whitespace())
    })
}

/// A room says what it is for.
pub(crate) fn module_doc(file: &File) -> Vec<String> {
    let first = file.text.lines().map(str::trim).find(|line| !line.is_empty());
    let told = first.and_then(|line| line.strip_prefix("//!")).is_some_and(|it| !it.is_empty());
    if told { Vec::new() } else { vec![format!("{}: does not open with //!", file.path)] }
}

/// A script says what it takes and gives before it does anything.
pub(crate) fn script_head(file: &File) -> Vec<String> {
    let head: Vec<&str> = file
        .text
        .lines()
        .skip_while(|line| line.starts_with("#!"))
        .take_while(|line| line.starts_with("--"))
        .map(|line| line.trim_start_matches('-').trim())
        .collect();
    let names = |word: &str| head.iter().any(|line| line.split_whitespace().next() == Some(word));
    ["KEYS", "ARGV", "Returns"]
        .into_iter()
        .filter(|word| !names(word))
        .map(|word| format!("{}: the comment at its head has no line '-- {word} ...'", file.path))
        .collect()
}

/// Names at the top that are not in the plan of the house.
pub(crate) fn top_level<'a>(paths: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<&str> =
        paths.into_iter().filter_map(|path| path.split('/').next()).collect();
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .filter(|name| !name.starts_with('.') && !TOP.contains(name))
        .map(|name| format!("{name}: not in the plan of the top level"))
        .collect()
}
