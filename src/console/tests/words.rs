//! Chinese that is not in the catalog yet: no English is in it.

use std::path::{Path, PathBuf};

/// Names that stay what they are in Chinese: programs, keys, units, and what one types.
const NAMES: &[&str] = &[
    "Redis", "REDIS", "redis", "SQL", "sql", "ID", "UTF", "ASCII", "Tab", "Enter", "fg", "node",
    "seckill", "audit", "doctor", "repair", "dead", "replay", "force", "show", "data", "dir",
    "tmux", "discard", "all", "sale", "list", "SIGKILL", "SIGTERM", "p99", "p50", "ms", "ANSI",
    "SVG", "CSV", "JSON", "read", "only", "start", "id", "user", "voucher", "status", "paid",
    "from", "to", "UTC",
];

/// Parts of commands, of queries and of settings that a sentence names.
const TYPED: &[&str] = &[
    "ca",
    "PEM",
    "SSL",
    "CERT",
    "FILE",
    "RENAME",
    "maxmemory",
    "min",
    "replicas",
    "write",
    "locks",
    "release",
    "operator",
    "jobs",
    "history",
    "work",
    "unpaid",
    "used",
    "cancelled",
    "closed",
    "config",
    "partitions",
    "keys",
    "ctrl",
    "alt",
    "theme",
    "toml",
    "fuser",
    "TOML",
    "XDG",
    "SQLite",
    "base",
    "dark",
    "rrggbb",
    "bright",
    "red",
    "default",
    "json",
    "demo",
    "headless",
    "TERM",
    "xterm",
    "lang",
    "zh",
    "en",
    "true",
    "false",
    "database",
    "DATABASE",
    "CREATE",
    "GRANT",
    "ENCODING",
    "URL",
    "PATH",
    "TMPDIR",
    "rediss",
    "unix",
    "cluster",
    "sentinel",
    "pass",
    "sqlite",
    "memory",
    "store",
    "tls",
    "pool",
    "statement",
    "tb",
    "setting",
    "search",
    "path",
    "Valkey",
    "cli",
    "shutdown",
    "check",
    "aof",
    "fix",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}

/// A text in quotes at the start, as the compiler reads it, and what comes after it.
fn quoted(code: &str) -> Option<(String, &str)> {
    let code = code.trim_start();
    let mut signs = code.strip_prefix('"')?.char_indices();
    let mut text = String::new();
    while let Some((at, sign)) = signs.next() {
        match sign {
            '"' => return Some((text, &code[at + 2..])),
            '\\' => match signs.next()?.1 {
                '\n' => {
                    let rest = signs.as_str();
                    let blank = rest.len() - rest.trim_start().len();
                    signs.by_ref().take(rest[..blank].chars().count()).for_each(drop);
                }
                'n' => text.push('\n'),
                other => text.push(other),
            },
            other => text.push(other),
        }
    }
    None
}

/// Latin words that are neither names nor figures that are filled in.
fn latin(text: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut depth = 0;
    for sign in text.chars() {
        depth += i32::from(sign == '{');
        plain.push(if depth == 0 { sign } else { ' ' });
        depth -= i32::from(sign == '}');
    }
    let words = plain.split(|it: char| !it.is_ascii_alphanumeric());
    let words = words.filter(|it| it.len() > 1 && it.chars().all(|c| c.is_ascii_alphabetic()));
    words.filter(|it| !NAMES.contains(it) && !TYPED.contains(it)).map(str::to_owned).collect()
}

fn is_han(sign: char) -> bool {
    ('\u{4e00}'..='\u{9fff}').contains(&sign)
}

/// Every text in quotes, comments apart.
fn texts(code: &str) -> Vec<String> {
    let code = code.split("#[cfg(test)]").next().unwrap_or_default();
    let (mut found, mut rest) = (Vec::new(), code);
    while let Some(at) = rest.find(['"', '\'', '/']) {
        let (_, from) = rest.split_at(at);
        if from.starts_with("//") {
            rest = from.split_once('\n').map_or("", |(_, next)| next);
        } else if let Some(next) = from.strip_prefix("'\"'") {
            rest = next;
        } else if let Some((text, next)) = quoted(from) {
            found.push(text);
            rest = next;
        } else {
            rest = from.get(1..).unwrap_or_default();
        }
    }
    found
}

#[test]
fn no_sentence_in_chinese_has_english_in_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("text");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let (mut seen, mut faults) = (0, Vec::new());
    for file in files {
        let code = std::fs::read_to_string(&file).unwrap();
        for text in texts(&code).into_iter().filter(|text| text.chars().any(is_han)) {
            seen += 1;
            let foreign = latin(&text);
            let stops = [", ", ". ", "; ", "? "].iter().any(|it| text.contains(it));
            if !foreign.is_empty() || (stops && !text.contains("--")) {
                faults.push(format!("{}: {text:?} {foreign:?}", file.display()));
            }
        }
    }
    assert!(seen > 100, "only {seen} texts were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_word_stands_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("text");
    let mut files = vec![root.with_extension("rs")];
    sources(&root, &mut files);
    // Names of programs and of what is typed need no second language.
    let alone = ["REDIS", "SQL", "PROGRAM"];
    for file in files {
        let code = std::fs::read_to_string(&file).unwrap();
        for line in code.lines().filter(|line| line.contains("const ") && line.contains(": &str ="))
        {
            let known = alone.iter().any(|it| line.contains(&format!("const {it}:")));
            assert!(known, "{}: {line}", file.display());
        }
    }
}
