//! Each rule on small made-up files: it sees what is wrong, and nothing in what is right.

use crate::{
    rules::{self, File},
    source::{references, tokens},
};

fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

/// The lines that a rule complains of.
#[track_caller]
fn lines(wrong: &[String]) -> Vec<usize> {
    wrong.iter().map(|it| it.split(':').nth(1).unwrap().parse().unwrap()).collect()
}

#[test]
fn an_arrow_up_is_seen_in_every_shape() {
    let text = "use crate::console::View;\n\
                use crate::{model::Millis, console::{self, views}};\n\
                use super::super::console;\n\
                fn a() -> crate::console::View { crate::cli::run() }\n\
                mod inner { use super::super::super::console::View; use super::super::ids; }\n\
                #[cfg(test)] mod tests { use crate::console::View; }\n\
                type A<'a> = ::seckill::console::View<'a>;\n\
                pub(crate) use self::{node::Node, super_node::It};\n";
    let wrong = rules::imports(&file("src/engine/node.rs", text));
    assert_eq!(lines(&wrong), [1, 2, 2, 3, 4, 4, 5, 6, 7], "{wrong:#?}");
    assert_eq!(wrong[0], "src/engine/node.rs:1: engine must not import console::View");
}

#[test]
fn the_table_is_kept_in_each_room() {
    let up = [
        ("src/model/sale.rs", "broker"),
        ("src/broker/mod.rs", "store"),
        ("src/store/mod.rs", "broker"),
        ("src/telemetry/mod.rs", "engine"),
        ("src/engine/mod.rs", "console"),
        ("src/engine/locks/mod.rs", "config"),
        ("src/console/mod.rs", "broker"),
        ("src/console/views/stream.rs", "store"),
        ("src/console/mod.rs", "config"),
        ("src/lab/mod.rs", "console"),
        ("src/bench.rs", "lab"),
        ("src/config.rs", "store"),
        ("src/config.rs", "engine::node"),
        ("src/main.rs", "engine"),
    ];
    for (path, other) in up {
        let wrong = rules::imports(&file(path, &format!("use crate::{other}::X;")));
        assert_eq!(wrong.len(), 1, "{path} -> {other}: {wrong:?}");
    }
    let down = [
        ("src/broker/mod.rs", "model"),
        ("src/telemetry/mod.rs", "store"),
        ("src/engine/mod.rs", "telemetry"),
        ("src/engine/locks/mod.rs", "engine::ids"),
        ("src/console/mod.rs", "engine::command"),
        ("src/config.rs", "engine::settings"),
        ("src/cli/mod.rs", "config"),
        ("src/cli/mod.rs", "store"),
        ("src/main.rs", "cli"),
        ("src/lib.rs", "cli"),
    ];
    for (path, other) in down {
        let wrong = rules::imports(&file(path, &format!("use crate::{other}::X;")));
        assert!(wrong.is_empty(), "{wrong:?}");
    }
    let wrong = rules::imports(&file("src/web/mod.rs", ""));
    assert!(wrong[0].contains("'web' has no row"), "{wrong:?}");
}

#[test]
fn what_only_looks_like_an_import_is_none() {
    let text = "//! See [`Console`](crate::console).\n\
                /* use crate::console::View; /* nested */ use crate::cli; */\n\
                const A: &str = \"crate::console::View\";\n\
                const B: &str = r#\"use \"crate::console::View\" \"#;\n\
                const C: [char; 3] = ['\"', '\\'', '\\u{7f}']; use crate::model::Millis;\n\
                pub(crate) fn f<'crate_>(s: &'static str) { s.console() }\n\
                let r#type = bc::cr::rb; use other::crate_::console;\n";
    let wrong = rules::imports(&file("src/engine/node.rs", text));
    assert!(wrong.is_empty(), "{wrong:?}");
    let paths = references(&tokens(text), &["engine".to_owned()]);
    assert_eq!(paths.len(), 1, "the lexer came through to the end: {paths:?}");
}

#[test]
fn a_crate_outside_its_rooms_is_seen() {
    let text = "use ratatui::Frame;\nuse ::sqlx::Row;\nuse crossterm;\nfn f(x: redis::Value) {}\n\
                extern crate redis;\nuse {redis::cmd, std::fmt};\n\
                // redis::cmd\nfn g() { keys.redis(); crate::broker::redis::x(); self.redis; redis(); }\n";
    let wrong = rules::crates(&file("src/cli/status.rs", text));
    let mut seen = lines(&wrong);
    seen.sort_unstable();
    assert_eq!(seen, [1, 2, 3, 4, 5, 6], "{wrong:#?}");

    for (path, text) in [
        ("src/console/mod.rs", "use ratatui::Frame; use crossterm::event;"),
        ("src/engine/ids.rs", "use redis::pipe;"),
        ("src/store/sqlite.rs", "use sqlx::Row;"),
    ] {
        assert!(rules::crates(&file(path, text)).is_empty());
        assert!(!rules::crates(&file("src/model/mod.rs", text)).is_empty());
    }
}

#[test]
fn a_key_outside_its_module_is_seen() {
    let text = "fn a() { format!(\"seckill:{{p0}}:stock:{v}\") }\n\
                fn b() { \"icr:order:\" }\n\
                fn c() { \"lock:\".to_owned() + name }\n\
                fn d() { b\"EXISTS lock:x\" }\n\
                fn e() { r\"seckill:x\" }\n\
                fn prose() { (\"seckill: no such sale\", \"a lock: see\", \"block:x\", \"seckill::engine\") }\n\
                // \"seckill:x\"\n\
                #[cfg(test)]\nmod tests { fn f() { \"seckill:x\" } }\n\
                #[cfg(not(test))]\nfn f() { \"seckill:x\" }\n\
                #[cfg(test)]\nuse a::b;\nfn g() { \"seckill:x\" }\n";
    let wrong = rules::keys(&file("src/engine/ids.rs", text));
    assert_eq!(lines(&wrong), [1, 2, 3, 4, 5, 11, 14], "{wrong:#?}");
    assert!(rules::keys(&file("src/broker/keys.rs", text)).is_empty());
    assert!(rules::keys(&file("src/engine/ids/tests.rs", text)).is_empty());

    let lua = "-- seckill:x\nredis.call('GET', 'seckill:x') -- why\n";
    assert_eq!(lines(&rules::keys(&file("lua/a.lua", lua))), [2]);
}

#[test]
fn a_module_without_a_word_is_seen() {
    for silent in
        ["", "use a::b;\n//! late", "/// not for the module\n", "//!\n", "#![allow(x)]\n//! y"]
    {
        assert_eq!(rules::module_doc(&file("src/a.rs", silent)).len(), 1, "{silent:?}");
    }
    assert!(rules::module_doc(&file("src/a.rs", "\n//! What it is for.\n")).is_empty());
}

#[test]
fn a_script_without_its_head_is_seen() {
    let head =
        "#!lua\n-- Does it.\n--\n-- KEYS  1 a\n-- ARGV  none\n--\n-- Returns 1.\n\nreturn 1\n";
    assert!(rules::script_head(&file("lua/a.lua", head)).is_empty());
    for word in ["KEYS", "ARGV", "Returns"] {
        let wrong = rules::script_head(&file("lua/a.lua", &head.replace(word, "It")));
        assert!(wrong.len() == 1 && wrong[0].contains(word), "{wrong:?}");
    }
    let late = "return 1\n-- KEYS\n-- ARGV\n-- Returns\n";
    assert_eq!(rules::script_head(&file("lua/a.lua", late)).len(), 3);
}

#[test]
fn a_stranger_at_the_top_is_seen() {
    let fine = [".ci/run", ".gitignore", "Cargo.toml", "src/main.rs", "lua/a.lua", "README.md"];
    assert!(rules::top_level(fine).is_empty());
    let wrong = rules::top_level(["src/main.rs", "docs/a.md", "docs/b.md", "clippy.toml"]);
    assert_eq!(wrong.len(), 2, "{wrong:?}");
}
