//! The console in a real pseudo-terminal, with the engine behind it.

use crate::support::{BINARY, LONG, Pty, Seckill, Terminal, key};
use redis::cmd;
use seckill_redis::Layout;

fn quits(mut terminal: Pty) {
    terminal.send("q");
    assert!(terminal.exit_status(LONG).success());
    assert_eq!(terminal.terminal(), Terminal::RESTORED, "the terminal is as before");
}

fn a_sale_from_the_form_to_the_last_order(cols: u16, rows: u16) {
    let home = Seckill::new();
    let terminal = home.pty(&[], cols, rows, &[]);
    terminal.wait_for_text("Overview");
    terminal.send("N");
    terminal.wait_for_text("Title");
    terminal.send("火锅 five");
    terminal.send(key::TAB);
    terminal.send(key::CTRL_U);
    terminal.send("40");
    for _ in 0..4 {
        terminal.send(key::TAB);
    }
    terminal.send(key::ENTER);
    terminal.wait_for_text("Create this sale?");
    terminal.send("y");
    // Also its ID: the title alone appears in the form and in the progress message.
    terminal.wait_for(LONG, "the sale is listed", |screen| screen.contains("#1 火锅 five"));
    terminal.resize(20, 5);
    terminal
        .wait_for(LONG, "a sentence", |screen| screen.contains("20x5") || screen.contains("80x24"));
    terminal.resize(cols, rows);
    terminal.wait_for(LONG, "all of it again", |screen| screen.contains("STOCK"));
    terminal.send("2");
    terminal.wait_for(LONG, "the table", |screen| {
        screen.contains("TITLE") && screen.contains("火锅 five")
    });
    terminal.send("R");
    terminal.wait_for(LONG, "the rush form", |screen| screen.to_lowercase().contains("buyers"));
    terminal.send(key::CTRL_U);
    terminal.send("500");
    for _ in 0..3 {
        terminal.send(key::ENTER);
    }
    terminal.wait_for(LONG, "the question", |screen| screen.contains("Cancel"));
    terminal.send("y");
    terminal.wait_for(LONG, "it is sold out", |screen| screen.contains("SOLD OUT"));
    // While its orders settle, the console asks before it quits.
    terminal.send("1");
    terminal.wait_for(LONG, "the end of the load test", |screen| screen.contains("LOAD TEST none"));
    quits(terminal);
    let audit = home.run(&["audit", "--json"]).expect_code(0).json();
    assert_eq!(audit["sales"][0]["persisted"], 40, "{audit}");
    assert!(home.processes().is_empty(), "nothing is left behind");
}

#[test]
fn create_rush_and_quit_at_120x36() {
    a_sale_from_the_form_to_the_last_order(120, 36);
}

#[test]
fn create_rush_and_quit_at_80x24() {
    a_sale_from_the_form_to_the_last_order(80, 24);
}

/// The demo with its servers in the temporary directory of `home`.
fn demo(home: &Seckill, args: &[&str]) -> Pty {
    let args = [&["demo", "--buyers", "2000"], args].concat();
    Pty::open(BINARY.as_ref(), &args, 120, 36, home, &[])
}

#[test]
fn the_demo_is_repaired_from_the_screen() {
    let home = Seckill::new();
    let terminal = demo(&home, &[]);
    terminal.wait_for(LONG, "the lock of the drain", |screen| {
        screen.contains("SOLD OUT") && screen.contains("LOCKS     1")
    });
    terminal.wait_for(LONG, "a node dies", |screen| screen.contains("NODE FAILURE"));
    terminal.send("4");
    terminal.wait_for(LONG, "pending entries", |screen| screen.contains("node-b/1"));
    terminal.send("A");
    terminal.wait_for(LONG, "the question with its count", |screen| screen.contains("128 entries"));
    terminal.send(key::ESC);
    terminal.wait_for(LONG, "cancelled", |screen| !screen.contains("Cancel"));
    assert!(terminal.screen().contains("node-b/1"), "nothing was done");
    terminal.send("A");
    terminal.wait_for(LONG, "the question", |screen| screen.contains("Cancel"));
    terminal.say_yes(LONG);
    terminal.wait_for(LONG, "the proof", |screen| screen.contains("RECOVERED AND VERIFIED"));
    terminal.wait_for(LONG, "the summary", |screen| screen.contains("any key closes"));
    let screen = terminal.screen();
    let measured = |label: &str| {
        let line = screen.lines().find(|line| line.contains(label)).unwrap_or_default();
        line.chars().any(|c| c.is_ascii_digit())
    };
    assert!(measured("tutorial's consumer") && measured("times as fast"), "{screen}");
    terminal.send(" ");
    terminal.wait_for(LONG, "the view", |screen| !screen.contains("any key closes"));
    quits(terminal);
    assert!(home.processes().is_empty());
}

#[test]
fn the_countdown_of_the_demo_is_skipped() {
    let home = Seckill::new();
    let mut terminal = demo(&home, &[]);
    terminal.wait_for(LONG, "the countdown", |screen| screen.contains("SALE STARTS SOON"));
    terminal.send("i");
    terminal.wait_for(LONG, "the command", |screen| screen.contains("sale start"));
    terminal.wait_for(LONG, "its buyers", |screen| screen.contains("LOAD TEST #1"));
    terminal.send("q");
    terminal.wait_for(LONG, "the question", |screen| screen.contains("Quit while a load test"));
    terminal.send("y");
    assert!(terminal.exit_status(LONG).success());
}

/// The servers that it compares the consumers on end as well.
#[test]
fn the_demo_leaves_nothing_behind_while_it_measures() {
    let home = Seckill::new();
    let terminal = demo(&home, &[]);
    // Its own server, and that of the measurement.
    let has_both = || home.processes().len() > 1;
    terminal
        .wait_for(LONG, "the measurement", |screen| screen.contains("AUDIT PASSED") && has_both());
    quits(terminal);
    assert!(home.processes().is_empty());
}

#[test]
fn the_demo_is_repaired_in_presenter_mode() {
    let home = Seckill::new();
    let terminal = demo(&home, &["--present"]);
    terminal.wait_for(LONG, "a node dies", |screen| {
        screen.contains("NODE FAILURE") && screen.contains("stranded")
    });
    terminal.send("A");
    terminal.wait_for(LONG, "the question", |screen| screen.contains("Cancel"));
    terminal.say_yes(LONG);
    terminal.wait_for(LONG, "the summary", |screen| screen.contains("any key closes"));
    terminal.send(" ");
    // The last page of the demo follows it, and may come while the summary covers it.
    terminal.wait_for(LONG, "the proof", |screen| {
        screen.contains("128 stranded orders") || screen.contains("128 orders recovered")
    });
    quits(terminal);
    assert!(home.processes().is_empty());
}

/// A new sale is scheduled in presenter mode and sold out there.
fn a_launch_from_the_form_to_the_balance(cols: u16, rows: u16) {
    let home = Seckill::new();
    let terminal = home.pty(&["--present"], cols, rows, &[]);
    terminal.wait_for(LONG, "no sale", |screen| screen.contains("No sales yet"));
    terminal.send("L");
    terminal.wait_for(LONG, "the form", |screen| screen.contains("Schedule a launch"));
    terminal.send("火锅 five");
    terminal.send(key::TAB);
    terminal.send("40");
    for value in ["500", "0", "1"] {
        terminal.send(key::TAB);
        terminal.send(key::CTRL_U);
        terminal.send(value);
    }
    terminal.send(key::ENTER);
    terminal.wait_for(LONG, "the question", |screen| {
        screen.contains("created with 40 pieces") && screen.contains("Cancel")
    });
    terminal.send("y");
    terminal.wait_for(LONG, "what came of it", |screen| {
        screen.contains("SOLD OUT") && screen.contains("sold of 40") && screen.contains("oversold")
    });
    terminal.wait_for(LONG, "the proof", |screen| screen.contains("audit passed"));
    terminal.send("t");
    terminal.wait_for(LONG, "the console", |screen| screen.contains("Overview"));
    quits(terminal);
    let audit = home.run(&["audit", "--json"]).expect_code(0).json();
    assert_eq!(audit["sales"][0]["persisted"], 40, "{audit}");
    assert!(home.processes().is_empty(), "nothing is left behind");
}

#[test]
fn a_launch_from_the_form_to_the_passed_audit_at_120x36() {
    a_launch_from_the_form_to_the_balance(120, 36);
}

#[test]
fn a_launch_from_the_form_to_the_passed_audit_at_80x24() {
    a_launch_from_the_form_to_the_balance(80, 24);
}

/// A malformed entry arrives; the screen leads to it, and it is discarded with a recorded reason.
fn a_dead_letter_is_discarded(cols: u16, rows: u16, envs: &[(&str, &str)]) {
    let home = Seckill::new();
    let terminal = home.pty(&[], cols, rows, envs);
    terminal.wait_for(LONG, "the engine", |screen| screen.contains("No open alarms"));
    let mut redis = home.redis().unwrap();
    let orders = Layout::default().home().orders();
    let fields = ["userId", "nobody", "voucherId", "7", "id", "1"];
    cmd("XADD").arg(orders).arg("*").arg(&fields).query::<String>(&mut redis).unwrap();
    terminal.wait_for(LONG, "the alarm", |screen| screen.contains("1  dead letter waits"));
    terminal.send("5");
    terminal.wait_for(LONG, "the letter", |screen| screen.contains("no order"));
    terminal.send(key::ENTER);
    terminal.wait_for(LONG, "the detail", |screen| screen.contains("userId = nobody"));
    terminal.send("R");
    // Once in the detail, once as the answer.
    terminal.wait_for(LONG, "why not", |screen| screen.matches("malformed: press D").count() == 2);
    terminal.send("D");
    terminal.wait_for(LONG, "the question", |screen| screen.contains("1 dead letter, "));
    terminal.send(key::TAB);
    terminal.send("yesterday's poison, 运维");
    terminal.wait_for(LONG, "the reason", |screen| screen.contains("poison, 运维"));
    terminal.send(key::ENTER);
    terminal.say_yes(LONG);
    terminal.wait_for(LONG, "the report", |screen| screen.contains("1 dead letter discarded"));
    terminal.wait_for(LONG, "it is gone", |screen| screen.contains("No dead letters"));
    quits(terminal);
    let activity = home.run(&["activity", "--json"]).expect_code(0).json();
    let lines = activity["lines"].as_array().unwrap();
    let line = lines.iter().find(|line| line["action"] == "dead discard").expect("the command");
    assert_eq!(line["reason"], "yesterday's poison, 运维", "{line}");
    assert!(home.processes().is_empty());
}

/// A sale is ended with a reason, which the log on the screen shows.
#[test]
fn a_sale_is_ended_with_a_reason() {
    let home = Seckill::new();
    home.run(&["sale", "create", "--title", "tea", "--stock", "5"]).expect_code(0);
    let terminal = home.pty(&[], 80, 24, &[]);
    terminal.wait_for(LONG, "the sale", |screen| screen.contains("tea"));
    terminal.send("2");
    terminal.wait_for(LONG, "the table", |screen| screen.contains("TITLE"));
    terminal.send("E");
    terminal.wait_for(LONG, "the question", |screen| {
        screen.contains("End the sale permanently?") && screen.contains("Tab to edit")
    });
    terminal.send(key::TAB);
    terminal.send("yes, 运维 hl output so");
    terminal.wait_for(LONG, "the reason", |screen| screen.contains("运维 hl output so"));
    terminal.send(key::ENTER);
    terminal.say_yes(LONG);
    terminal.wait_for(LONG, "it has ended", |screen| screen.contains("ENDED"));
    terminal.send("0");
    terminal.wait_for(LONG, "the command", |screen| screen.contains("sale end"));
    terminal.send(key::ENTER);
    terminal.wait_for(LONG, "why", |screen| screen.contains("运维 hl output so"));
    quits(terminal);
    let activity = home.run(&["activity", "--json"]).expect_code(0).json();
    let lines = activity["lines"].as_array().unwrap();
    let line = lines.iter().find(|line| line["action"] == "sale end").expect("the command");
    assert_eq!(line["reason"], "yes, 运维 hl output so", "{line}");
    assert!(home.processes().is_empty());
}

#[test]
fn a_dead_letter_is_discarded_at_120x36() {
    a_dead_letter_is_discarded(120, 36, &[]);
}

#[test]
fn a_dead_letter_is_discarded_at_80x24_without_colour() {
    a_dead_letter_is_discarded(80, 24, &[("NO_COLOR", "1")]);
}
