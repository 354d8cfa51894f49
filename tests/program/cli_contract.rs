//! One rule each for exit codes, documents and limits, whatever the command.

use serde_json::Value;

use crate::support::{LONG, Ran, Seckill, run, wait_until_blocking};
use rustix::process::Signal;

/// With `--json`, stdout is one document, also of a command that fails.
fn document(ran: &Ran) -> Value {
    let document = ran.json();
    if ran.code() > 1 {
        assert_eq!(document["exit_code"], ran.code(), "{ran}");
        let error = document["error"].as_str().unwrap_or_default();
        assert!(!error.is_empty() && !ran.stderr.is_empty(), "{ran}");
    }
    document
}

#[test]
fn each_command_prints_one_document_and_has_the_exit_code_of_its_kind() {
    let home = Seckill::new();
    home.run(&["sale", "create", "--title", "tea", "--stock", "5"]).expect_code(0);
    home.run(&["sale", "create", "--title", "ended", "--stock", "5"]).expect_code(0);
    home.run(&["sale", "end", "2", "--yes"]).expect_code(0);
    let pages = home.data_dir().join("man");
    let pages = pages.to_str().unwrap();
    for (code, line) in [
        // Empty lists.
        (0, "orders list"),
        (0, "orders list --user 7 --status paid"),
        (0, "activity --until -1h"),
        (0, "activity --events"),
        (0, "pending list"),
        (0, "pending list --filter user=8"),
        (0, "dead list --filter user=8"),
        (0, "locks list"),
        (0, "tokens list"),
        // Other queries.
        (0, "sale list"),
        (0, "sale show 1"),
        (0, "voucher list"),
        (0, "jobs list"),
        (0, "stream show"),
        (0, "audit"),
        (0, "status"),
        (0, "keys"),
        (0, "lab"),
        (0, "drill"),
        (0, "completions bash"),
        (0, "tokens create --role operator --reason why"),
        // The answer is no.
        (1, "sale show 99"),
        (1, "sale pause 99"),
        (1, "sale end 99 --yes"),
        (1, "dead show 1-0"),
        (1, "dead replay --all --yes"),
        (1, "orders show 1"),
        (1, "rush --voucher 2 --users 3"),
        (1, "rush --voucher 99 --users 3"),
        (1, "locks release none --yes"),
        (1, "jobs run none"),
        (1, "tokens revoke 99"),
        // It was not tried.
        (2, "sale create --title tea --stock 1,5"),
        (2, "sale create --title tea --stock 0"),
        (2, "sale create --title tea"),
        (2, "sale end 1"),
        (2, "--read-only sale pause 1"),
        (2, "--read-only audit --repair --yes"),
        (2, "--read-only tokens revoke 1"),
        (2, "--read-only rush --voucher 1 --users 1"),
        (2, "pending list --limit 0"),
        (2, "dead list --limit 0"),
        (2, "locks list --limit 0"),
        (2, "orders list --limit 0"),
        (2, "activity --limit 0"),
        (2, "voucher list --limit 0"),
        (2, "sale list --limit 0"),
        (2, "stream rewind --partition 9 --to start --yes"),
        (2, "stream show --partition 9"),
        (2, "--partitions 2 status"),
        (2, "--theme nope status"),
        (2, "serve --tls-cert /nonexistent --tls-key /nonexistent --listen 127.0.0.1:0"),
        (2, "rush --voucher 1 --users 99999999999"),
        (2, "--redis http://localhost status"),
        (2, "--no-such-flag"),
        (2, "no-such-command"),
        (2, "sale"),
        // A server is away.
        (3, "--redis redis://127.0.0.1:1 sale list"),
        (3, "--redis redis://127.0.0.1:1 stream show"),
        (3, "--database sqlite:/nonexistent/x.db orders list"),
    ] {
        let args: Vec<&str> = line.split(' ').chain(["--json"]).collect();
        let ran = home.run(&args);
        assert_eq!(ran.code(), code, "{line}: {ran}");
        document(&ran);
    }
    document(&home.run(&["man", "--dir", pages, "--json"]).expect_code(0));
    // Without a document, stdout of a command that fails is empty.
    let failed = home.run(&["sale", "pause", "99"]).expect_code(1);
    assert!(failed.stdout.is_empty() && !failed.stderr.is_empty(), "{failed}");
    let help = run(&["--help"]).expect_code(0);
    let words: Vec<&str> = help.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains("stdout is one document"), "{help}");
}

#[test]
fn a_server_names_its_port_while_its_document_is_due() {
    let home = Seckill::new();
    let server = home.spawn(&["serve", "--listen", "127.0.0.1:0", "--json"]);
    wait_until_blocking(LONG, "the port is named", || {
        let said = server.stderr();
        said.split_once("http://127.0.0.1:").is_some_and(|(_, port)| !port.starts_with('0'))
    });
    assert!(server.stdout().is_empty(), "{}", server.stdout());
    server.signal(Signal::TERM);
    assert_eq!(document(&server.wait(LONG).expect_code(0))["finished"], true);
}
