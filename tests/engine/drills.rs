//! Injected faults one by one: their effects, and that they never hit external servers.

use std::{collections::HashSet, fs, os::unix::process::ExitStatusExt as _, sync::Arc};

use crate::support::{BINARY, Background, LONG, PATIENCE, Pty, Seckill, Terminal, run, wait_until};
use crate::world::World;
use redis::cmd;
use seckill_engine::{EngineError, fault_injection, ledger};
use seckill_model::{
    EntryId, Outcome, ShardId, VoucherId,
    faults::{KILL_AT, Point},
};
use seckill_redis::{DataDir, ManagedServer, Redis, stream};

#[tokio::test(flavor = "multi_thread")]
async fn poison_becomes_dead_letters_and_duplicates_are_written_once() {
    let (world, voucher) = World::with_sale(100).await;
    world.buy(voucher, 40).await;
    let (mut conn, of) = (world.redis.connection(), world.keys.home());
    assert_eq!(fault_injection::duplicate(&mut conn, &of, 25).await.unwrap(), 25);
    let kinds = fault_injection::POISON.len();
    fault_injection::poison(&mut conn, &of, kinds).await.unwrap();
    world.settled().await;
    assert_eq!(world.server.query::<u64>(&["XLEN", &of.dead()]), kinds as u64);
    assert_eq!(world.store.live_orders(ShardId::only(voucher), None, 99).await.unwrap().len(), 40);
    world.balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_are_not_in_flight_and_without_a_group_nothing_is_pending() {
    let (mut world, voucher) = World::with_sale(100).await;
    world.buy(voucher, 40).await;
    world.settled().await;
    world.stop_node().await;
    let (mut conn, of) = (world.redis.connection(), world.keys.home());
    fault_injection::duplicate(&mut conn, &of, 25).await.unwrap();
    let audit = async || {
        let audit = ledger::audit(&mut world.servers(), None).await.unwrap();
        (audit.balanced, audit.sales[0].in_flight())
    };
    assert_eq!(audit().await, (true, 0));
    fault_injection::destroy_group(&mut conn, &of).await.unwrap();
    assert_eq!(audit().await, (true, 0));
    let all = (EntryId::MIN, EntryId::MAX);
    let pending = stream::pending_of_all(&mut conn, &world.keys, all.0, all.1, 9).await.unwrap();
    assert_eq!(pending, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_steps_repeats_no_id() {
    let (mut world, voucher) = World::with_sale(1_000).await;
    let mut given = HashSet::new();
    for (round, step) in [0, 90_000, -90_000, -3, 3].into_iter().enumerate() {
        fault_injection::step_clock(step);
        for user in 1..=20 {
            let outcome = world.ask(voucher, round as u64 * 100 + user).await;
            let Outcome::Admitted { order } = outcome else { panic!("{outcome:?}") };
            assert!(given.insert(order), "{order} after {step} s");
        }
        if round % 2 == 1 {
            world.restart_node().await;
        }
    }
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_programs_own_redis_is_killed() {
    let dir = DataDir::throw_away().unwrap();
    let server = Arc::new(ManagedServer::attach(&dir).unwrap());
    server.ensure().await.unwrap();
    let redis = Redis::from_managed(Arc::clone(&server)).unwrap();
    let run = async || {
        let error: String = redis.connection().query(cmd("INFO").arg("server")).await.ok()?;
        error.lines().find_map(|line| line.strip_prefix("run_id:").map(str::to_owned))
    };
    let before = run().await.unwrap();
    fault_injection::kill_redis(&redis).await.unwrap();
    wait_until(PATIENCE, "another one runs", async || run().await.is_some_and(|now| now != before))
        .await;
    server.detach().await.unwrap();

    let world = World::start().await;
    let error = fault_injection::kill_redis(&world.redis).await.unwrap_err();
    assert!(matches!(error, EngineError::Rejected(_)), "{error}");
    assert_eq!(world.server.query::<String>(&["PING"]), "PONG");
}

/// The fault points are compiled into the test build of the program.
#[test]
#[cfg(debug_assertions)]
fn the_program_dies_at_the_fault_point_and_the_next_one_continues() {
    let home = Seckill::new();
    let create = home.args(&["sale", "create", "--title", "t", "--stock", "9"]);
    let result = format!("{}:1", Point::AfterSaleCommit.name());
    let env = [(KILL_AT, result.as_str())];
    let ran = Background::spawn(BINARY, &create, &home, &env).wait(PATIENCE);
    assert_eq!(ran.status.signal(), Some(9), "{ran}");
    let sales = home.run(&["sale", "list", "--json"]).expect_code(0).json();
    let voucher = VoucherId(1).to_string();
    assert!(sales.to_string().contains("\"t\""), "{sales}");
    let rush = ["rush", "--voucher", &voucher, "--users", "20", "--json"];
    let rushed = home.run(&rush).expect_code(0).json();
    assert_eq!(rushed["persisted"], 9, "{rushed}");
    home.run(&["audit"]).expect_code(0);

    // A program with an unknown fault point must not start.
    let env = [(KILL_AT, "after-lunch:1")];
    let ran = Background::spawn(BINARY, &create, &home, &env).wait(PATIENCE);
    assert_eq!(ran.status.signal(), Some(6), "{ran}");
    assert!(ran.stderr.contains("after-lunch"), "{ran}");
}

/// Passed as by an operator: the alarm was shown, the fault repaired, and the audit passes.
fn passes(name: &str) {
    for seed in ["7", "20261121"] {
        let home = Seckill::new();
        let args = ["drill", name, "--headless", "--json", "--seed", seed];
        let report = Background::spawn(BINARY, &args, &home, &[]).wait(LONG).expect_code(0).json();
        assert_eq!((&report["drill"], &report["passed"]), (&name.into(), &true.into()), "{report}");
        for list in ["seen", "done", "checks", "sales"] {
            assert!(report[list].as_array().is_some_and(|it| !it.is_empty()), "{list}: {report}");
        }
        nothing_is_left(&home);
    }
}

/// Reads the proof of a recovery; the debriefing contains `shown`.
fn is_proved(mut terminal: Pty, home: &Seckill, shown: &str) {
    terminal.wait_for(LONG, "the end of the fault", |screen| screen.contains("RECOVERED"));
    terminal.send("9");
    terminal.wait_for(LONG, "the debriefing", |screen| screen.contains(shown));
    assert!(terminal.screen().contains("PASSED"), "{}", terminal.screen());
    terminal.send("q");
    assert!(terminal.exit_status(LONG).success());
    assert_eq!(terminal.terminal(), Terminal::RESTORED);
    nothing_is_left(home);
}

fn nothing_is_left(home: &Seckill) {
    assert!(home.processes().is_empty(), "a server is left");
    let left = fs::read_dir(home.file("tmp")).unwrap().count();
    assert_eq!(left, 0, "a data dir is left");
}

#[test]
fn a_killed_consumer_is_practised() {
    passes("consumer-killed");
}

#[test]
fn poison_is_practised() {
    passes("poison");
}

#[test]
fn an_outage_of_the_database_is_practised() {
    passes("database-away");
}

#[test]
fn an_outage_of_redis_is_practised() {
    passes("redis-away");
}

#[test]
fn a_destroyed_group_is_practised() {
    passes("group-destroyed");
}

#[test]
fn a_trimmed_stream_is_practised() {
    passes("stream-trimmed");
}

#[test]
fn duplicates_are_practised() {
    passes("duplicates");
}

#[test]
fn a_stepping_clock_is_practised() {
    passes("clock-step");
}

#[test]
fn drills_are_listed_and_refuse_external_servers() {
    for args in [["drill", "--json"].as_slice(), &["drill", "list", "--json"]] {
        let listed = run(args).expect_code(0).json();
        let names: Vec<_> = listed.as_array().unwrap().iter().map(|it| &it["name"]).collect();
        assert_eq!(names.len(), 8, "{listed}");
        assert!(names.contains(&&"group-destroyed".into()), "{listed}");
    }
    let result = run(&["drill"]).expect_code(0);
    assert!(result.stdout.contains("stream-trimmed"), "{result}");
    let home = Seckill::new();
    for (args, why) in [
        (["drill", "poison", "--headless"].as_slice(), "--data-dir"),
        (&["drill", "earthquake"], "group-destroyed"),
    ] {
        let result = home.run(args).expect_code(2);
        assert!(result.stderr.contains(why), "{result}");
    }
    assert!(!home.data_dir().exists(), "nothing was opened");
    for args in [
        ["drill", "poison"].as_slice(),
        &["drill", "poison", "--json"],
        &["drill", "poison", "--headless", "--redis", "redis://127.0.0.1:1"],
        &["drill", "poison", "--headless", "--database", "sqlite:/nowhere"],
    ] {
        run(args).expect_code(2);
    }
    let result = run(&["drill", "poison", "--headless", "--read-only"]);
    assert_ne!(result.code(), 0, "{result}");
}

#[test]
fn the_killed_consumer_drill_is_solved_with_keys() {
    let home = Seckill::new();
    let args = ["drill", "consumer-killed"];
    let terminal = Pty::open(BINARY.as_ref(), &args, 80, 24, &home, &[]);
    terminal.wait_for(LONG, "no answer", |screen| screen.contains("FIND THE FAULT"));
    terminal.wait_for(LONG, "ALARMS", |screen| screen.contains("node-b/1 is dead"));
    assert!(!terminal.screen().contains("NODE FAILURE"), "{}", terminal.screen());
    terminal.send("i");
    terminal.wait_for(LONG, "the cause", |screen| screen.contains("NODE FAILURE"));
    terminal.send("i");
    terminal.wait_for(LONG, "the remedy", |screen| screen.contains("A to plan"));
    terminal.send("4");
    terminal.wait_for(LONG, "its entries", |screen| screen.contains("node-b/1"));
    terminal.send("A");
    terminal.wait_for(LONG, "the question", |screen| screen.contains("Cancel"));
    terminal.say_yes(LONG);
    is_proved(terminal, &home, "2 of 2");
}

#[test]
fn an_abandoned_drill_is_not_passed() {
    // Before the first buyer, and with buyers while the database is unreachable.
    for (name, stage, asked) in [
        ("consumer-killed", "GET READY", None),
        ("database-away", "FIND THE FAULT", Some("Quit while a load test")),
    ] {
        let home = Seckill::new();
        let mut terminal = Pty::open(BINARY.as_ref(), &["drill", name], 120, 36, &home, &[]);
        terminal.wait_for(LONG, stage, |screen| screen.contains(stage));
        terminal.send("q");
        if let Some(asked) = asked {
            terminal.wait_for(LONG, asked, |screen| screen.contains(asked));
            terminal.send("y");
        }
        assert_eq!(terminal.exit_status(LONG).exit_code(), 1, "{name}");
        assert_eq!(terminal.terminal(), Terminal::RESTORED);
        nothing_is_left(&home);
    }
}

#[test]
fn poison_is_discarded_from_another_terminal() {
    let home = Seckill::new();
    let terminal = Pty::open(BINARY.as_ref(), &["drill", "poison"], 120, 36, &home, &[]);
    terminal.wait_for(LONG, "ALARMS", |screen| screen.contains("12  dead letters wait"));
    terminal.wait_for(LONG, "the exam", |screen| screen.contains("FIND THE FAULT"));
    terminal.send("ii");
    terminal.wait_for(LONG, "the remedy", |screen| screen.contains("dead discard --all"));
    let dir = fs::read_dir(home.file("tmp")).unwrap().next().unwrap().unwrap().path();
    assert!(terminal.screen().contains(&dir.display().to_string()), "{}", terminal.screen());
    let dir = dir.display().to_string();
    let args = ["--data-dir", &dir, "dead", "discard", "--all", "--yes"];
    Background::spawn(BINARY, &args, &home, &[]).wait(PATIENCE).expect_code(0);
    // Its details were not opened here.
    is_proved(terminal, &home, "never");
}

#[test]
fn an_outage_ends_by_itself_and_the_audit_proves_it() {
    let home = Seckill::new();
    let terminal = Pty::open(BINARY.as_ref(), &["drill", "database-away"], 80, 24, &home, &[]);
    terminal.wait_for(LONG, "the fault", |screen| screen.contains("FIND THE FAULT"));
    terminal.wait_for(LONG, "the outage", |screen| screen.contains("is unreachable"));
    is_proved(terminal, &home, "0 of 2");
}

#[test]
fn poison_is_discarded_with_keys() {
    let home = Seckill::new();
    let terminal = Pty::open(BINARY.as_ref(), &["drill", "poison"], 80, 24, &home, &[]);
    terminal.wait_for(LONG, "ALARMS", |screen| screen.contains("12  dead letters wait"));
    terminal.send("5");
    terminal.wait_for(LONG, "the letters", |screen| screen.contains("no order"));
    terminal.send("*");
    terminal.wait_for(LONG, "the marks", |screen| screen.contains("all 12 marked"));
    terminal.send("D");
    terminal.wait_for(LONG, "the question", |screen| screen.contains("Cancel"));
    terminal.say_yes(LONG);
    is_proved(terminal, &home, "0 of 2");
}
