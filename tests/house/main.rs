//! Conventions that the compiler does not check: keys are formatted in one module, each file documents its purpose,
//! and the example settings and the README are correct.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails says where"
)]

mod catalog;
mod servers;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use seckill_console::Keys;
use seckill_engine::deployment::settings::Settings;
use seckill_http::HttpSettings;
use seckill_store::Settings as StoreSettings;

/// Allowed entries of the top level, besides dot files.
const TOP: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "LICENSE",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "src",
    "lua",
    "migrations",
    "assets",
    "tests",
];

/// A text file with its path from the root.
struct File {
    path: String,
    text: String,
}

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(top().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every file below `dir` that ends so.
fn files(dir: &str, end: &str) -> Vec<File> {
    let mut found = Vec::new();
    let mut dirs: Vec<PathBuf> = vec![top().join(dir)];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.to_str().unwrap().ends_with(end) {
                let name = path.strip_prefix(top()).unwrap().to_str().unwrap().to_owned();
                found.push(File { text: read(&name), path: name });
            }
        }
    }
    assert!(!found.is_empty(), "nothing ends in {end} below {dir}: the rule would look at nothing");
    found
}

#[track_caller]
fn none(mut wrong: Vec<String>) {
    wrong.sort();
    assert!(wrong.is_empty(), "{} against the house:\n{}", wrong.len(), wrong.join("\n"));
}

/// Whether the line contains a Redis key: `seckill:x`, not `seckill: x`, `seckill::x` or `block:x`.
fn names_key(line: &str) -> bool {
    ["seckill:", "icr:", "lock:", "login:"].iter().any(|prefix| {
        line.match_indices(prefix).any(|(begin, _)| {
            let before = line[..begin].chars().next_back();
            let after = line[begin + prefix.len()..].chars().next();
            !before.is_some_and(char::is_alphanumeric)
                && !after.is_some_and(|c| c == ':' || c.is_whitespace())
        })
    })
}

#[test]
fn a_key_is_distinguished_from_prose() {
    for key in ["\"seckill:{p0}\"", "format!(\"icr:{day}\")", "'lock:order'"] {
        assert!(names_key(key), "{key}");
    }
    for other in ["seckill: no such sale", "seckill::cli", "unlock:x", "a block: b"] {
        assert!(!names_key(other), "{other}");
    }
}

#[test]
fn one_module_formats_keys() {
    let mut wrong = Vec::new();
    for file in files("src", ".rs").into_iter().chain(files("lua", ".lua")) {
        let (comment, end) =
            if file.path.starts_with("lua/") { ("--", "") } else { ("//", "#[cfg(test)]") };
        // The script of the tutorials makes its own keys.
        let exempt = ["src/redis/keys.rs", "src/bench/script.rs"];
        if exempt.contains(&file.path.as_str()) || file.path.contains("/tests") {
            continue;
        }
        let code = file.text.lines().take_while(|line| end.is_empty() || line.trim() != end);
        for (number, line) in (1..).zip(code) {
            let code = line.split(comment).next().unwrap_or_default();
            let texts = if comment == "//" {
                code.split('"').skip(1).step_by(2).collect()
            } else {
                vec![code]
            };
            if texts.into_iter().any(names_key) {
                wrong.push(format!("{}:{number}: only redis/keys.rs formats a key", file.path));
            }
        }
    }
    none(wrong);
}

#[test]
fn every_module_documents_its_responsibility() {
    let says = |file: &File| file.text.trim_start().starts_with("//! ");
    let silent = files("src", ".rs").into_iter().filter(|file| !says(file));
    none(silent.map(|file| format!("{}: does not open with //!", file.path)).collect());
}

#[test]
fn every_script_documents_its_keys_arguments_and_result() {
    let mut wrong = Vec::new();
    for file in files("lua", ".lua") {
        let lines = file.text.lines().skip_while(|line| line.starts_with("#!"));
        let head: Vec<&str> = lines.map_while(|line| line.strip_prefix("--")).collect();
        for word in ["KEYS", "ARGV", "Returns"] {
            if !head.iter().any(|line| line.split_whitespace().next() == Some(word)) {
                wrong.push(format!("{}: its head has no line '-- {word} …'", file.path));
            }
        }
    }
    none(wrong);
}

#[test]
fn the_top_level_is_as_planned() {
    let listed = Command::new("git")
        .args(["ls-files"])
        .current_dir(top())
        .stdin(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success() && !output.stdout.is_empty())
        .map(|output| String::from_utf8(output.stdout).unwrap());
    // Without git, for example in a source archive, the directory itself, which may contain the build.
    let listed = listed.unwrap_or_else(|| {
        let names = fs::read_dir(top()).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap()).filter(|name| name != "target");
        names.collect::<Vec<_>>().join("\n")
    });
    let names: std::collections::BTreeSet<&str> =
        listed.lines().filter_map(|path| path.split('/').next()).collect();
    let strange = names.into_iter().filter(|name| !name.starts_with('.') && !TOP.contains(name));
    none(strange.map(str::to_owned).collect());
}

/// CI runs the command that the README gives.
#[test]
fn ci_runs_the_test_command_of_the_readme() {
    let line = "./assets/setup.sh --tests && cargo test --locked";
    for path in ["README.md", ".ci/run"] {
        let count = read(path).lines().filter(|it| it.trim() == line).count();
        assert_eq!(count, 1, "{path} has the line once, and alone: {line}");
    }
}

/// The example lists every setting of the engine and the store with its real default.
#[test]
fn the_example_config_matches_the_defaults() {
    let text = read("assets/config.toml");
    // Prose has a capital or no equals sign; a setting is `# name = value`.
    let settings: String = text
        .lines()
        .map(|line| line.strip_prefix("# ").unwrap_or(line))
        .filter(|line| {
            let name = line.split_once(" = ").map(|(name, _)| name);
            name.is_some_and(|name| {
                name.chars().all(|c| c.is_ascii_lowercase() || "_-".contains(c))
            }) || line.starts_with('[')
        })
        .fold(String::new(), |all, line| all + line + "\n");
    let mut parsed: toml::Table = settings.parse().unwrap();
    let mut engine = parsed.remove("engine").expect("the table [engine]");
    for (name, _) in engine.as_table().unwrap() {
        assert!(!parsed.contains_key(name), "{name} is listed twice");
    }
    let fields = read("src/engine/deployment/settings.rs");
    for name in fields.lines().filter_map(|it| it.trim().strip_prefix("pub ")?.split_once(": ")) {
        let there = engine.get(name.0).or_else(|| engine.get("jobs")?.get(name.0));
        assert!(there.is_some(), "the example lacks engine.{}", name.0);
    }
    // An example value for a setting without a default.
    let jobs = engine["jobs"].as_table_mut().unwrap();
    assert!(jobs.remove("time_zone").is_some());
    assert_eq!(engine.try_into::<Settings>().unwrap(), Settings::default());
    let mut http = parsed.remove("http").expect("the table [http]");
    let fields = read("src/http/settings.rs");
    for name in fields.lines().filter_map(|it| it.trim().strip_prefix("pub ")?.split_once(": ")) {
        assert!(http.get(name.0).is_some(), "the example lacks http.{}", name.0);
    }
    // An example value for a setting without a default.
    assert!(http.as_table_mut().unwrap().remove("admin_listen").is_some());
    assert_eq!(http.try_into::<HttpSettings>().unwrap(), HttpSettings::default());
    let mut store = parsed.remove("store").expect("the table [store]");
    let fields = read("src/store/settings.rs");
    for name in fields.lines().filter_map(|it| it.trim().strip_prefix("pub ")?.split_once(": ")) {
        assert!(store.get(name.0).is_some(), "the example lacks store.{}", name.0);
    }
    // An example value for a setting without a default.
    assert!(store.as_table_mut().unwrap().remove("ca").is_some());
    assert_eq!(store.try_into::<StoreSettings>().unwrap(), StoreSettings::default());
    let keys = parsed.remove("keys").expect("the table [keys]");
    // Keys record their line, so they are parsed from the text.
    let lines = settings.split_once("[keys]\n").and_then(|(_, rest)| rest.split("\n[").next());
    let listed: Keys = toml::from_str(lines.unwrap()).unwrap();
    assert_eq!(listed.lines().unwrap(), Keys::default().lines().unwrap());
    for line in listed.lines().unwrap() {
        assert!(keys.get(&line.action).is_some(), "the example lacks keys.{}", line.action);
    }
    let names: Vec<&str> = parsed.keys().map(String::as_str).collect();
    let expected = [
        "data_dir",
        "database",
        "export_dir",
        "mask_users",
        "node",
        "partitions",
        "read_only",
        "redis",
        "redis_ca",
        "redis_cert",
        "redis_key",
        "theme",
    ];
    assert_eq!(names, expected);

    let active = text.lines().find(|line| !line.is_empty() && !line.starts_with(['#', '[']));
    assert_eq!(active, None, "copied as it is, the example changes nothing");
}

#[test]
fn documents_name_existing_files() {
    let mut wrong = Vec::new();
    for document in [
        "CONTRIBUTING.md",
        "README.md",
        "assets/README.zh.md",
        "assets/durability.md",
        "assets/speed.md",
    ] {
        let text = read(document);
        let quoted = text.split('`').skip(1).step_by(2);
        let named =
            |it: &&str| ["src/", "tests/", "lua/", "assets/"].iter().any(|dir| it.starts_with(dir));
        let paths = quoted.filter(named).filter(|path| !path.contains([' ', '*', '{']));
        wrong.extend(
            paths
                .filter(|path| !top().join(path).exists())
                .map(|path| format!("{document}: {path}")),
        );
    }
    none(wrong);
}

/// A statement of the document is proven by a test, which it names: `tests_have_long_names`.
#[test]
fn the_durability_page_names_existing_tests() {
    let tests = files("tests", ".rs");
    let document = read("assets/durability.md");
    let quoted = document.split('`').skip(1).step_by(2);
    let is_name = |it: &&str| {
        it.matches('_').count() > 2
            && it.chars().all(|c| c.is_ascii_lowercase() || "_0123456789".contains(c))
    };
    let names: Vec<&str> = quoted.filter(is_name).collect();
    assert!(names.len() > 20, "the page names {} tests only", names.len());
    let is_missing =
        |name: &&str| !tests.iter().any(|file| file.text.contains(&format!("fn {name}(")));
    none(names.into_iter().filter(is_missing).map(str::to_owned).collect());
}

/// What `doctor` knows, and what users read: both from the last run of all servers.
#[test]
fn the_readmes_name_the_tested_servers() {
    let wrong =
        servers::Record::read().readmes().into_iter().filter(|(path, text)| read(path) != *text);
    none(wrong.map(|(path, _)| format!("{path}: its table of servers is another")).collect());
}
