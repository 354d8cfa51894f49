//! The message catalog: every language is complete, the sources pass the right arguments, and Chinese is Chinese.

use std::collections::{BTreeMap, BTreeSet};

use fluent_syntax::{
    ast::{Entry, Expression, InlineExpression, Pattern, PatternElement},
    parser,
};

use super::{File, files, none, read};

/// Latin names allowed in Chinese text: programs, keys, units, and typed words.
const NAMES: &[&str] = &[
    "sqlx",
    "migrations",
    "PgBouncer",
    "mode",
    "session",
    "server",
    "reset",
    "query",
    "DISCARD",
    "ALL",
    "stuck",
    "Redis",
    "REDIS",
    "redis",
    "SQL",
    "sql",
    "ID",
    "UTF",
    "CLUSTER",
    "FAILOVER",
    "TAKEOVER",
    "ADDSLOTS",
    "ASCII",
    "Tab",
    "Enter",
    "fg",
    "node",
    "seckill",
    "bench",
    "benchmark",
    "drill",
    "persist",
    "SECKILL",
    "LOG",
    "audit",
    "doctor",
    "repair",
    "dead",
    "replay",
    "force",
    "show",
    "data",
    "dir",
    "tmux",
    "discard",
    "restock",
    "all",
    "none",
    "sale",
    "list",
    "SIGKILL",
    "SIGTERM",
    "p99",
    "p50",
    "P99",
    "P50",
    "2XX",
    "4XX",
    "5XX",
    "ADDR",
    "ms",
    "ANSI",
    "SVG",
    "CSV",
    "JSON",
    "read",
    "only",
    "start",
    "id",
    "user",
    "voucher",
    "serve",
    "status",
    "paid",
    "from",
    "to",
    "UTC",
    "NTP",
    "TZ",
    "ca",
    "PEM",
    "SSL",
    "CERT",
    "FILE",
    "RENAME",
    "REPLICA",
    "RESET",
    "SHOW",
    "STATUS",
    "activity",
    "apply",
    "run",
    "maxmemory",
    "XACK",
    "ALTER",
    "TABLE",
    "ENGINE",
    "InnoDB",
    "WAIT",
    "SADD",
    "moved",
    "not",
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
    "pending",
    "plan",
    "out",
    "every",
    "after",
    "cron",
    "on",
    "off",
    "expired",
    "running",
    "paused",
    "ended",
    "archived",
    "idle",
    "MySQL",
    "MariaDB",
    "PostgreSQL",
    "mysql",
    "postgres",
    "USER",
    "PASSWORD",
    "HOST",
    "max",
    "allowed",
    "packet",
    "binlog",
    "format",
    "STATEMENT",
    "READ",
    "COMMITTED",
    "ROW",
    "MIXED",
    "since",
    "until",
    "yes",
    "compensate",
    "ACL",
    "SETUSER",
    "chmod",
    "go",
    "assets",
    "durability",
    "md",
    "MiB",
    "engine",
    "wait",
    "CONFIG",
    "SET",
    "policy",
    "noeviction",
    "rename",
    "command",
    "SCRIPT",
    "FUNCTION",
    "KILL",
    "export",
    "LC",
    "ALL",
    "AOF",
    "appendfsync",
    "appendonly",
    "everysec",
    "conf",
    "mark",
    "space",
    "limit",
    "orders",
    "pay",
    "stream",
    "rush",
    "users",
    "filter",
    "order",
    "create",
    "title",
    "stock",
    "rewind",
    "Ctrl",
    "CA",
    "FALSE",
    "CONSUMER",
    "PORT",
    "claim",
    "holder",
    "HTTP",
    "http",
    "https",
    "listen",
    "admin",
    "cert",
    "connections",
    "insecure",
    "limits",
    "nofile",
    "systemd",
    "ulimit",
    "LimitNOFILE",
    "tokens",
    "TLS",
    "lab",
    "NAME",
    "buyers",
    "concurrency",
    "instances",
    "markdown",
    "repeat",
    "think",
    "attach",
    "profile",
    "Redisson",
    "XGROUP",
    "XREADGROUP",
    "CLIENT",
    "LIST",
    "INFO",
    "DELCONSUMER",
    "Asia",
    "Shanghai",
    "CST",
    "TZ",
    "time",
    "zone",
    "begin",
    "end",
    "entry",
    "group",
    "key",
    "tables",
    "compare",
    "entries",
    "watch",
    "letters",
    "operate",
    "MKSTREAM",
    "migrate",
    "recover",
    "LETTER",
    "XDEL",
    "remove",
    "back",
    "dry",
    "leave",
    "quiet",
    "service",
    "stopped",
    "demo",
    "login",
    "trusted",
    "proxies",
];

/// The text of a message with placeholders replaced by gaps, and its arguments.
#[derive(Debug, Default, PartialEq)]
struct Message {
    text: String,
    args: BTreeSet<String>,
    /// The actions whose keys it names.
    keys: BTreeSet<String>,
}

impl Message {
    fn add(&mut self, pattern: &Pattern<&str>) {
        for element in &pattern.elements {
            match element {
                PatternElement::TextElement { value } => self.text.push_str(value),
                PatternElement::Placeable { expression: Expression::Inline(it) } => self.fill(it),
                PatternElement::Placeable {
                    expression: Expression::Select { selector, variants },
                } => {
                    self.fill(selector);
                    for variant in variants {
                        self.add(&variant.value);
                        self.text.push('\u{fffc}');
                    }
                }
            }
        }
    }

    fn fill(&mut self, inline: &InlineExpression<&str>) {
        match inline {
            InlineExpression::VariableReference { id } => {
                self.args.insert(id.name.to_owned());
                self.text.push('\u{fffc}');
            }
            InlineExpression::StringLiteral { value } => self.text.push_str(value),
            InlineExpression::FunctionReference { id, arguments } if id.name == "KEY" => {
                let [InlineExpression::StringLiteral { value }] = &arguments.positional[..] else {
                    panic!("KEY takes the name of an action");
                };
                self.keys.insert((*value).to_owned());
                self.text.push('\u{fffc}');
            }
            other => panic!("what is {other:?} for?"),
        }
    }
}

/// The messages of a language by their IDs.
fn messages(lang: &str) -> BTreeMap<String, Message> {
    let path = format!("assets/locales/{lang}.ftl");
    let file = read(&path);
    let resource =
        parser::parse(file.as_str()).unwrap_or_else(|(_, errors)| panic!("{path}: {errors:?}"));
    let mut found = BTreeMap::new();
    let mut add = |id: String, pattern: &Pattern<&str>| {
        let mut message = Message::default();
        message.add(pattern);
        let before = found.insert(id.clone(), message);
        assert!(before.is_none(), "{path}: {id} twice");
    };
    for entry in &resource.body {
        let Entry::Message(it) = entry else { continue };
        let id = it.id.name;
        add(id.to_owned(), it.value.as_ref().unwrap_or_else(|| panic!("{path}: {id} is empty")));
        for attribute in &it.attributes {
            add(format!("{id}.{}", attribute.id.name), &attribute.value);
        }
    }
    found
}

/// Every language.
fn languages() -> Vec<BTreeMap<String, Message>> {
    let files = files("assets/locales", ".ftl");
    files.iter().map(|file| messages(language(file))).collect()
}

fn language(file: &File) -> &str {
    file.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".ftl")
}

/// The names of the arguments after the ID, up to the closing parenthesis.
fn named(rest: &str) -> BTreeSet<String> {
    let (mut depth, mut quoted, mut escaped, mut part) = (0, false, false, String::new());
    let mut parts = Vec::new();
    for sign in rest.chars() {
        match sign {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => break,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(sign);
    }
    parts.push(part);
    let names = parts.iter().map(|part| part.split('=').next().unwrap_or_default().trim());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The messages that the variants of an enum stand for: `prefix = "action-"` and `NewSale` is `action-new-sale`.
fn of_variants(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, opening) in code.match_indices("prefix = \"") {
        let rest = &code[at + opening.len()..];
        let (prefix, rest) = rest.split_once('"').unwrap_or_default();
        let body = rest.split_once("{\n").and_then(|(_, body)| body.split_once("\n}"));
        let (body, _) = body.unwrap_or_else(|| panic!("no enum follows {prefix}"));
        let variants = body.lines().filter_map(|line| line.trim().strip_suffix(','));
        for variant in variants.filter(|it| it.chars().all(char::is_alphanumeric)) {
            let mut id = prefix.trim_end_matches('-').to_owned();
            for sign in variant.chars() {
                if sign.is_uppercase() {
                    id.push('-');
                }
                id.push(sign.to_ascii_lowercase());
            }
            found.push(id);
        }
    }
    found
}

/// Uses in the sources: location, ID, arguments.
fn uses() -> Vec<(String, String, BTreeSet<String>)> {
    let mut found = Vec::new();
    for file in files("src", ".rs")
        .into_iter()
        .filter(|it| !["src/model/message.rs", "src/model/reason.rs"].contains(&&*it.path))
    {
        let product = without_tests(&file.text);
        let openings = ["text!(", "reason!(", "question!("];
        let openings = openings.iter().flat_map(|it| [format!("{it}\""), format!("{it}\n")]);
        for opening in openings.chain(["Label(\"".to_owned()]) {
            for (at, _) in product.match_indices(&opening) {
                let code = product[at + opening.len()..].trim_start();
                let code = code.strip_prefix('"').unwrap_or(code);
                let Some((id, rest)) = code.split_once('"') else { continue };
                found.push((file.path.clone(), id.to_owned(), named(rest)));
            }
        }
        for id in of_variants(product) {
            found.push((file.path.clone(), id, BTreeSet::new()));
        }
    }
    found
}

#[test]
fn every_language_has_every_message() {
    let english = messages("en");
    let mut wrong = Vec::new();
    for file in files("assets/locales", ".ftl") {
        let lang = language(&file);
        let other = messages(lang);
        wrong.extend(
            english
                .keys()
                .filter(|id| !other.contains_key(*id))
                .map(|id| format!("{lang} lacks {id}")),
        );
        wrong.extend(
            other
                .keys()
                .filter(|id| !english.contains_key(*id))
                .map(|id| format!("only {lang} has {id}")),
        );
    }
    none(wrong);
}

/// Messages whose languages take different arguments, such as a plural that one of them lacks: exactly these.
const PARTLY: [(&str, [&str; 2]); 6] = [
    ("activity-event", ["event", "event key"]),
    ("cli-stream-again", ["entries from from_time to to_time", "from from_time to to_time"]),
    ("console-drains-in", ["span", "steady"]),
    ("console-oldest", ["span", "steady"]),
    ("figures-d", ["days", "plain"]),
    ("overview-orphans", ["count figure", "figure"]),
];

/// The attributes that the sources read, by kind of message: those that each message has, and optional ones.
const ATTRIBUTES: [(&str, &[&str], &[&str]); 3] = [
    ("action", &["help"], &["name"]),
    ("ask", &["button", "title"], &[]),
    ("view", &["help", "name"], &["tab"]),
];

#[test]
fn every_message_is_used_with_its_arguments() {
    let languages = languages();
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    for (path, id, args) in uses() {
        for message in languages.iter().map(|it| it.get(&id)) {
            let takes = message.map(|it| &it.args);
            let is_right = |takes: &BTreeSet<String>| {
                let taken = takes.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
                let partly = PARTLY.iter().find(|it| it.0 == id).map(|it| it.1);
                partly.map_or(*takes == args, |sets| sets.contains(&&*taken))
            };
            if !takes.is_some_and(is_right) {
                wrong.push(format!("{path}: {id} takes {takes:?}, and is given {args:?}"));
            }
        }
        used.insert(id);
    }
    assert!(used.len() > 1_000, "the sources use {} messages only", used.len());
    let kind = |id: &str| ATTRIBUTES.iter().find(|it| id.split('-').next() == Some(it.0));
    let is_used = |id: &str| match id.split_once('.') {
        Some((id, attribute)) => {
            let read =
                kind(id).is_some_and(|it| it.1.contains(&attribute) || it.2.contains(&attribute));
            used.contains(id) && read
        }
        None => used.contains(id),
    };
    let messages = languages[0].keys().filter(|id| !id.contains('.'));
    for id in messages {
        let needed = kind(id).into_iter().flat_map(|it| it.1.iter());
        let lacking = needed.filter(|it| !languages[0].contains_key(&format!("{id}.{it}")));
        wrong.extend(lacking.map(|it| format!("{id} lacks .{it}")));
    }
    let unused = languages[0].keys().filter(|id| !is_used(id));
    wrong.extend(unused.map(|id| format!("no source uses {id}")));
    none(wrong);
}

#[test]
fn messages_name_the_same_keys_in_every_language() {
    let languages = languages();
    let keys = |it: &Message| it.keys.clone();
    let differs = |id: &&String| {
        languages.iter().any(|it| it.get(*id).map(keys) != languages[0].get(*id).map(keys))
    };
    none(languages[0].keys().filter(differs).cloned().collect());
}

#[test]
fn messages_name_keys_of_actions() {
    for messages in languages() {
        let is_action = |key: &String| {
            ["action", "view"].iter().any(|kind| messages.contains_key(&format!("{kind}-{key}")))
        };
        let wrong = messages.iter().flat_map(|(id, message)| {
            let strange = message.keys.iter().filter(|key| !is_action(key));
            strange.map(move |key| format!("{id}: there is no action {key}"))
        });
        none(wrong.collect());
    }
}

/// Latin words of a Chinese text that are not allowed names.
fn latin(text: &str) -> Vec<&str> {
    let words = text.split(|it: char| !it.is_ascii_alphanumeric());
    let words = words.filter(|it| it.len() > 1 && it.chars().all(|c| c.is_ascii_alphabetic()));
    words.filter(|it| !NAMES.contains(it)).collect()
}

#[test]
fn chinese_is_chinese_and_english_is_english() {
    let (english, chinese) = (messages("en"), messages("zh"));
    let mut wrong = Vec::new();
    for (id, Message { text: english, .. }) in &english {
        let Some(Message { text: chinese, .. }) = chinese.get(id) else { continue };
        // Placeholders of the drills.
        let chinese = chinese.replace("{n}", "").replace("{left}", "");
        let foreign = latin(&chinese);
        let copied = *english == chinese
            && english.chars().any(char::is_alphabetic)
            && !NAMES.contains(&english.as_str());
        let stops = [", ", ". ", "; ", "? "].iter().any(|it| chinese.contains(it));
        let mixed = !chinese.is_ascii() && stops && !chinese.contains("--");
        if english.is_empty() != chinese.is_empty()
            || copied
            || mixed
            || !foreign.is_empty()
            || english.chars().any(is_han)
        {
            wrong.push(format!("{id}: {english:?} {chinese:?} {foreign:?}"));
        }
    }
    none(wrong);
}

/// Parses a string literal at the start; returns its value and the rest.
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

/// The code before the tests of a module.
fn without_tests(code: &str) -> &str {
    code.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// Every string literal outside comments and tests, with its position.
fn texts(code: &str) -> Vec<(usize, String)> {
    let code = without_tests(code);
    let (mut found, mut rest) = (Vec::new(), code);
    while let Some(at) = rest.find(['"', '\'', '/']) {
        let (_, from) = rest.split_at(at);
        if from.starts_with("//") {
            rest = from.split_once('\n').map_or("", |(_, next)| next);
        } else if let Some(next) = from.strip_prefix("'\"'") {
            rest = next;
        } else if let Some((text, next)) = quoted(from) {
            found.push((code.len() - from.len(), text));
            rest = next;
        } else {
            rest = from.get(1..).unwrap_or_default();
        }
    }
    found
}

/// The string literals of every source outside its tests, each with the statement before it.
fn literals() -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    let sources = files("src", ".rs");
    // Models of protocols are modules of tests: their sentences name properties.
    let is_test = |path: &str| {
        path.contains("/tests") || path.contains("/protocol/") || path.ends_with("/model.rs")
    };
    for file in sources.iter().filter(|it| !is_test(&it.path)) {
        for (at, text) in texts(&file.text) {
            let before = &file.text[..at];
            let start = [";", "}\n", "{\n"].iter().filter_map(|end| before.rfind(end)).max();
            let statement = &before[start.unwrap_or_default()..];
            found.push((file.path.clone(), statement.to_owned(), text));
        }
    }
    assert!(found.len() > 4_000, "the sources have {} literals only", found.len());
    found
}

#[test]
fn chinese_is_in_the_catalog_only() {
    let chinese = literals().into_iter().filter(|(.., text)| text.chars().any(is_han));
    none(chinese.map(|(path, _, text)| format!("{path}: {text:?}")).collect());
}

fn is_han(sign: char) -> bool {
    ('\u{4e00}'..='\u{9fff}').contains(&sign)
}

/// Whether the text has three English words in a row.
fn is_prose(text: &str) -> bool {
    let is_word = |it: &&str| {
        let it = it.trim_end_matches(['.', ';', ':']);
        !it.is_empty() && it.chars().all(|sign| sign.is_ascii_lowercase() || sign == '\'')
    };
    let words: Vec<&str> = text.split(' ').collect();
    words.windows(3).any(|three| three.iter().all(is_word))
}

/// The log file is in English, and so are explanations of lints and of impossible errors.
const ENGLISH: [&str; 5] = ["tracing::", "expect(", "allow(", "Part::new(", "read_in_time("];

/// Prose that no user reads in another language: commands, the messages of other programs, and what is stored as data
/// in Redis or SQL.
const DATA: [&str; 14] = [
    "No space left on device",
    "a key such as",
    "at the commit: {0}",
    "apk add redis",
    "brew install redis",
    "conflict with a concurrent transaction",
    "dnf install valkey",
    "has no column",
    "if redis.call",
    "no such ",
    "not a number",
    "seckill ",
    "value {number} is missing",
    "zypper install redis",
];

#[test]
fn english_is_in_the_catalog_only() {
    let prose = literals().into_iter().filter(|(path, statement, text)| {
        is_prose(text)
            // What an example prints is for a programmer.
            && !path.contains("/examples/")
            && !ENGLISH.iter().any(|it| statement.contains(it))
            && !DATA.iter().any(|it| text.starts_with(it))
    });
    none(prose.map(|(path, _, text)| format!("{path}: {text:?}")).collect());
}
