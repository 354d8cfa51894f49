//! `seckill lab`: wrong designs are shown to be wrong, on servers that leave nothing behind.

use std::fs;

use rustix::process::Signal;

use crate::support::{LONG, PATIENCE, Seckill, Terminal, key, refused, wait_until_blocking};

/// Files of temporary servers.
fn leftovers(home: &Seckill) -> usize {
    fs::read_dir(home.file("tmp")).unwrap().count()
}

#[test]
fn a_lab_judges_designs_and_leaves_nothing() {
    let home = Seckill::new();
    let report = home.json(&["lab", "unguarded", "stock-guard", "--seeds", "2"]);
    let [wrong, right] = report["designs"].as_array().unwrap().as_slice() else {
        panic!("{report}")
    };
    assert_eq!((&wrong["name"], &right["name"]), (&"unguarded".into(), &"stock-guard".into()));
    assert_eq!(wrong["broken"], serde_json::json!({ "no-overselling": 2 }), "{wrong}");
    assert_eq!(right["broken"], serde_json::json!({}), "{right}");
    for run in wrong["runs"].as_array().unwrap() {
        assert!(run["sold"].as_u64().unwrap() > 200 && run["stock_left"].as_i64().unwrap() < 0);
    }
    assert!(wrong["timelines"][0]["lines"].as_array().unwrap().len() >= 6, "{wrong}");
    let page = home.run(&["lab", "unguarded", "--markdown"]).expect_code(0).stdout;
    assert!(page.starts_with("# ") && page.contains("(piece 200)"), "{page}");
    let alone = ["lab", "unguarded", "--buyers", "1", "--repeat", "0"];
    let text = home.run(&alone).expect_code(0).stdout;
    assert!(text.contains("not caught with this work"), "nothing to race with: {text}");
    assert_eq!((home.processes(), leftovers(&home)), (vec![], 0));
    assert!(!home.data_dir().exists(), "the lab uses no data directory");
}

#[test]
fn queues_are_compared_on_temporary_servers() {
    let home = Seckill::new();
    // Half a minute alone.
    let queues = home.spawn(&["lab", "queues", "--json"]).wait(LONG).expect_code(0).json();
    let cells = queues["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 35, "{queues}");
    let lost = cells.iter().find(|it| it["property"] == "crash-safety" && it["queue"] == "group");
    assert_eq!(lost.unwrap()["measured"], "0 of 200 lost", "{queues}");
    home.run(&["lab", "queues", "--markdown", "--json"]).expect_code(2);
    assert_eq!((home.processes(), leftovers(&home)), (vec![], 0));
}

#[test]
fn playgrounds_show_what_happens_and_leave_nothing() {
    let home = Seckill::new();
    let lock = home.json(&["lab", "lock", "--hold", "100", "--depth", "1"]);
    assert_eq!(lock["lanes"].as_array().unwrap().len(), 3, "{lock}");
    assert!(lock["waited_ms"].is_u64() && lock["events"].as_array().unwrap().len() > 8, "{lock}");
    let tour = home.run(&["lab", "streams", "--markdown"]).expect_code(0).stdout;
    assert!(tour.starts_with("# ") && tour.contains("> XADD stream.orders"), "{tour}");
    let schedule = home.run(&["lab", "schedule", "--seconds", "1", "--lang", "zh"]).expect_code(0);
    assert!(schedule.stdout.contains("0 0 9 ? * 6#3"), "{schedule}");
    let next = home.json(&["lab", "schedule", "--seconds", "0", "--cron", "0 0 18 LW * ?"]);
    assert_eq!(next["cron"][0]["next"].as_array().unwrap().len(), 3, "{next}");
    let lock = home.spawn(&["lab", "lock", "--hold", "60000"]);
    wait_until_blocking(PATIENCE, "its server runs", || !home.processes().is_empty());
    lock.signal(Signal::INT);
    let ran = lock.wait(PATIENCE).expect_code(1);
    assert!(ran.stderr.contains("the lab was cancelled"), "{ran}");
    assert_eq!((home.processes(), leftovers(&home)), (vec![], 0));
}

#[test]
fn work_that_cannot_be_done_is_rejected() {
    let home = Seckill::new();
    let listed = home.json(&["lab"]);
    assert!(listed.as_array().unwrap().len() >= 10, "{listed}");
    for (args, message) in [
        (&["nope"][..], "the designs are: unguarded, "),
        (&["unguarded", "--stock", "0"], "stock must be between 1 and 10,000"),
        (&["unguarded", "--instances", "4", "--concurrency", "3"], "a connection each"),
        (&["unguarded", "--redis", "redis://127.0.0.1:1"], "omit --redis"),
        (&["unguarded", "--on", "oracle"], "[possible values: sqlite, mariadb, mysql, postgres]"),
        (&["lock", "--lease", "0"], "expected 100 to 60,000"),
        (&["lock", "--depth", "99999999999999999999"], "--depth"),
        (&["lock", "--lease", "500", "--watchdog", "500"], "cannot be used with"),
        (&["lock", "--markdown", "--json"], "either --json or --markdown"),
        (&["streams", "--step"], "--step waits for Enter"),
        (&["list-brpop", "--incidents", "none,consumer-dies"], "'none' means no incidents"),
        (&["schedule", "--cron", "0 0 9 ? * 6#9"], "0 0 9 ? * 6#9"),
        (&["schedule", "--cron", "0 0 0 30 2 ?"], "never fires"),
        (&["schedule", "--cron", "every 5s"], "not a cron expression"),
    ] {
        refused(home.run(&[&["lab"], args].concat()), 2, message);
    }
    assert_eq!(leftovers(&home), 0);
}

/// Debian has no MySQL; a machine that has both servers runs the design on both.
#[test]
fn a_requested_database_is_used_or_an_error() {
    let home = Seckill::new();
    let ran = home.spawn(&["lab", "stock-guard", "--on", "sqlite,mysql", "--json"]).wait(LONG);
    if seckill_lab::sql_programs::mysql().is_some() {
        let report = ran.expect_code(0).json();
        let databases = report["designs"].as_array().unwrap().iter().map(|it| &it["database"]);
        assert_eq!(databases.collect::<Vec<_>>(), ["sqlite", "mysql"], "{report}");
    } else {
        refused(ran, 3, "MySQL was not started: the server is not");
    }
    assert_eq!((home.processes(), leftovers(&home)), (vec![], 0));
}

#[test]
fn an_interrupted_lab_leaves_nothing() {
    let home = Seckill::new();
    let lab = home.spawn(&["lab", "--all", "--seeds", "100"]);
    wait_until_blocking(PATIENCE, "its servers run", || !home.processes().is_empty());
    lab.signal(Signal::INT);
    let ran = lab.wait(PATIENCE).expect_code(1);
    assert!(ran.stderr.contains("the lab was cancelled"), "{ran}");
    assert_eq!((home.processes(), leftovers(&home)), (vec![], 0));
}

#[test]
fn the_screen_judges_a_design_shows_how_it_broke_and_leaves_nothing() {
    let home = Seckill::new();
    let mut terminal = home.pty(&["lab", "--tui", "unguarded"], 80, 24, &[]);
    terminal.wait_for(LONG, "the design is marked", |screen| screen.contains("1 marked"));
    terminal.send("p");
    terminal.wait_for(LONG, "the verdict", |screen| screen.contains("✖ no overselling"));
    terminal.wait_for(LONG, "the end of the run", |screen| screen.contains("one design judged"));
    terminal.send(key::ENTER);
    terminal.wait_for(LONG, "its page", |screen| screen.contains("✖ broken: no overselling"));
    assert_eq!((home.processes(), leftovers(&home)), (vec![], 0), "the servers have stopped");
    // Quitting cancels the next run.
    terminal.send(key::ESC);
    terminal.send("*p");
    terminal.wait_for(LONG, "the next run", |screen| screen.contains("0/"));
    terminal.send("q");
    assert!(terminal.exit_status(LONG).success());
    assert_eq!(terminal.terminal(), Terminal::RESTORED);
    assert_eq!((home.processes(), leftovers(&home)), (vec![], 0));
    assert!(!home.data_dir().exists(), "the lab uses no data directory");
}
