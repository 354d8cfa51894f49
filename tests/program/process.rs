//! The real program as a process: its command line, its exit codes, and what survives SIGKILL.

use std::{ffi::OsString, time::Duration};

use crate::support::{
    BINARY, Background, LONG, Pty, Seckill, TestRedis, key, refused, wait_until_blocking,
};
use redis::cmd;
use rustix::process::Signal;
use seckill_model::Millis;
use sqlx::{Connection as _, SqliteConnection};

fn create(home: &Seckill, stock: &str) -> String {
    let args = ["sale", "create", "--title", "火锅 🍲", "--stock", stock, "--json"];
    home.run(&args).expect_code(0).json()["voucher_id"].to_string()
}

/// A worker finishes what a killed process left; then the audit passes and every order is in SQL.
fn recovers(home: &Seckill) -> u64 {
    let worker = home.spawn(&["work"]);
    wait_until_blocking(LONG, "every entry has settled", || {
        let status = home.run(&["status", "--json"]);
        status.code() == 0 && {
            let stream = &status.json()["stream"];
            stream["lag"] == 0 && stream["pending"] == 0
        }
    });
    worker.signal(Signal::TERM);
    worker.wait(LONG).expect_code(0);
    let audit = home.run(&["audit", "--json"]).expect_code(0).json();
    assert_eq!(audit["balanced"], true, "{audit}");
    let sale = &audit["sales"][0];
    assert_eq!(sale["admitted"], sale["persisted"], "{sale}");
    sale["persisted"].as_u64().unwrap()
}

#[test]
fn a_thousand_buyers_from_the_command_line() {
    let home = Seckill::new();
    let id = create(&home, "100");
    let rush = ["rush", "--voucher", &id, "--users", "1000", "--json"];
    let report = home.run(&rush).expect_code(0).json();
    for (key, value) in
        [("attempts", 1_000), ("admitted", 100), ("sold_out", 900), ("persisted", 100)]
    {
        assert_eq!(report[key], value, "{key}: {report}");
    }
    let audit = home.run(&["audit", "--json"]).expect_code(0).json();
    let sale = &audit["sales"][0];
    assert_eq!((&sale["stock"], &sale["db_stock"]), (&0.into(), &0.into()), "{sale}");
    let listed = home.run(&["sale", "list", "--json"]).expect_code(0).json();
    assert_eq!(listed[0]["phase"], "sold_out");
    assert_eq!(home.run(&["pending", "apply", "--yes"]).code(), 1, "nothing was pending");
    assert!(home.processes().is_empty(), "the last one out stops the server");
}

#[test]
fn a_second_interrupt_ends_a_command_at_once() {
    let home = Seckill::new();
    let server = TestRedis::start();
    let url = server.url();
    let servers = ["--redis", &url];
    let run = |args: &[&str]| home.run(&[&servers[..], args].concat());
    run(&["sale", "create", "--title", "tea", "--stock", "9000"]).expect_code(0);
    let rush = ["rush", "--voucher", "1", "--users", "9000", "--rate", "100"];
    let mut rush = home.spawn(&[&servers[..], &rush].concat());
    wait_until_blocking(LONG, "buyers are admitted", || {
        server.query::<u64>(&["HLEN", "seckill:{p0}:buyers:1"]) > 1
    });
    server.freeze();
    rush.signal(Signal::INT);
    // The first one waits for the replies that Redis owes. A signal sent before it is handled would be merged with it.
    std::thread::sleep(Duration::from_millis(500));
    assert!(rush.is_running());
    rush.signal(Signal::INT);
    rush.wait(Duration::from_secs(2)).expect_code(130);
    server.thaw();
}

/// Whatever ends the process that started it.
#[test]
fn a_signal_ends_a_command_but_leaves_no_server_behind() {
    let home = Seckill::new();
    create(&home, "5");
    let ended = |terminal: &mut Pty, code: u32| {
        assert_eq!(terminal.exit_status(LONG).exit_code(), code, "{}", terminal.screen());
        wait_until_blocking(LONG, "the server ends", || home.processes().is_empty());
    };
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut terminal = home.pty(&["sale", "end", "1"], 120, 24, &[]);
        terminal.wait_for_text("[y/N]");
        terminal.signal(signal);
        ended(&mut terminal, code);
    }
    let mut terminal = home.pty(&["sale", "end", "1"], 120, 24, &[]);
    terminal.wait_for_text("[y/N]");
    terminal.send(key::CTRL_C);
    ended(&mut terminal, 130);
    // Another process uses it.
    let work = home.spawn(&["work"]);
    let nodes = || home.json(&["status"])["nodes"].as_array().map_or(0, Vec::len);
    wait_until_blocking(LONG, "the node works", || nodes() == 1);
    let mut terminal = home.pty(&["sale", "end", "1"], 120, 24, &[]);
    terminal.wait_for_text("[y/N]");
    terminal.send(key::CTRL_C);
    assert_eq!(terminal.exit_status(LONG).exit_code(), 130);
    assert_eq!(nodes(), 1);
    work.signal(Signal::TERM);
    work.wait(LONG).expect_code(0);
    assert!(home.processes().is_empty(), "the last one out stops the server");
}

#[test]
fn signals_that_were_ignored_at_the_start_stay_ignored() {
    let home = Seckill::new();
    create(&home, "5");
    // As `nohup` starts a program, and a script one in the background.
    let script = "trap '' HUP INT; exec \"$@\"";
    let ignoring = ["-c", script, "sh", BINARY].map(OsString::from);
    let args = [&ignoring[..], &home.args(&["work"])].concat();
    let mut work = Background::spawn("sh", &args, &home, &[]);
    let nodes = || home.json(&["status"])["nodes"].as_array().map_or(0, Vec::len);
    wait_until_blocking(LONG, "the node works", || nodes() == 1);
    for signal in [Signal::HUP, Signal::INT, Signal::INT] {
        work.signal(signal);
    }
    // It handles a signal that it does not ignore before this sale is sold.
    let rush = ["rush", "--voucher", "1", "--users", "5"];
    assert_eq!(home.json(&rush)["admitted"], 5);
    assert!(work.is_running(), "{}", work.stderr());
    work.signal(Signal::TERM);
    work.wait(LONG).expect_code(0);
}

#[test]
fn a_time_zone_that_is_unknown_is_an_error_and_a_new_sale_says_when_it_sells() {
    let home = Seckill::new();
    let create = |zone: &str, begin: &str| {
        let args = ["sale", "create", "--title", "tea", "--stock", "5", "--begin", begin];
        Background::spawn(BINARY, &home.args(&args), &home, &[("TZ", zone)]).wait(LONG)
    };
    for zone in ["Asia/Beijing", "Nowhere", "GMT+8x"] {
        refused(create(zone, "2099-12-11 20:00"), 2, zone);
        // Also where no time is read: those that are shown would be wrong.
        refused(create(zone, "2099-12-11T20:00:00Z"), 2, zone);
        refused(create(zone, "+10m"), 2, zone);
    }
    refused(create("Europe/Berlin", "2099-03-29 02:30"), 2, "does not exist");
    refused(create("Europe/Berlin", "2099-10-25 02:30"), 2, "2099-10-25T02:30:00+02:00");
    let made = create("Asia/Shanghai", "2099-12-11 20:00").expect_code(0);
    assert!(made.stdout.contains("from 2099-12-11 20:00:00 +08:00 (in "), "{made}");
    assert!(made.stdout.contains(" d) on, without an end"), "{made}");
    assert_eq!(home.json(&["sale", "list"])["sales"].as_array().map_or(1, Vec::len), 1);
}

/// Whatever the zones of the hosts: a job would run at the time of each of them.
#[test]
fn cron_expressions_are_due_in_one_zone_on_every_node() {
    let home = Seckill::new();
    let config = |name: &str, more: &str| {
        let file = home.file(name);
        let text = format!("[engine.jobs]\ncheck_ledger = \"0 30 2 * * ?\"\n{more}");
        std::fs::write(&file, text).unwrap();
        file.into_os_string().into_string().unwrap()
    };
    let (plain, moved) = (config("a.toml", ""), config("b.toml", "time_zone = \"Asia/Tokyo\"\n"));
    let start = |config: &str, zone: &str, args: &[&str]| {
        let args = home.args(&[&["--config", config][..], args].concat());
        Background::spawn(BINARY, &args, &home, &[("TZ", zone)])
    };
    let due = |zone: &str| {
        let jobs = start(&plain, zone, &["jobs", "list", "--json"]).wait(LONG).expect_code(0);
        let jobs = jobs.json();
        let job = jobs.as_array().unwrap().iter().find(|it| it["name"] == "check-ledger").unwrap();
        (job["schedule"].as_str().unwrap().to_owned(), job["next"].clone())
    };
    let work = start(&plain, "Asia/Kolkata", &["work"]);
    let kolkata = "0 30 2 * * ? (Asia/Kolkata)";
    wait_until_blocking(LONG, "the zone of the first node", || due("UTC").0 == kolkata);
    assert_eq!(due("UTC"), due("America/New_York"));
    let checks = start(&plain, "UTC", &["doctor"]).wait(LONG);
    assert!(checks.stdout.contains("due in Asia/Kolkata, on every node"), "{checks}");
    work.signal(Signal::TERM);
    work.wait(LONG).expect_code(0);
    // A node that is configured for another zone takes the others with it.
    let work = start(&moved, "UTC", &["work"]);
    wait_until_blocking(LONG, "the new zone", || due("UTC").0 == "0 30 2 * * ? (Asia/Tokyo)");
    work.signal(Signal::TERM);
    work.wait(LONG).expect_code(0);
    let config = config("c.toml", "time_zone = \"Asia/Beijing\"\n");
    refused(start(&config, "UTC", &["jobs", "list"]).wait(LONG), 2, "no time zone 'Asia/Beijing'");
}

/// Of a job that was not paused, nothing is resumed; what a pause has skipped is said.
#[test]
fn pausing_and_resuming_a_job_say_what_they_changed() {
    let home = Seckill::new();
    let config = home.file("jobs.toml");
    std::fs::write(&config, "[engine.jobs]\ncheck_ledger = \"every 1s\"\n").unwrap();
    let config = config.into_os_string().into_string().unwrap();
    let switch = |how: &str| {
        let done = home.run(&["--config", &config, "jobs", how, "check-ledger"]).expect_code(0);
        done.stdout.trim().to_owned()
    };
    assert_eq!(switch("resume"), "job check-ledger was not paused");
    assert_eq!(switch("pause"), "job check-ledger is paused");
    assert_eq!(switch("pause"), "job check-ledger was paused already");
    let paused = Millis::now();
    wait_until_blocking(LONG, "a due time passes", || Millis::now().since(paused) > 1_000);
    let resumed = switch("resume");
    let once = "'seckill jobs run check-ledger' runs it once";
    assert!(resumed.starts_with("job check-ledger is resumed; runs due during"), "{resumed}");
    assert!(resumed.ends_with(once), "{resumed}");
    let again = home.json(&["--config", &config, "jobs", "resume", "check-ledger"]);
    let nothing = serde_json::json!({
        "job": "check-ledger", "paused": false, "changed": false, "skipped": null,
    });
    assert_eq!(again, nothing);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_another_program_has_locked_is_reported_as_locked() {
    let home = Seckill::new();
    create(&home, "10");
    let url = format!("sqlite:{}", home.data_dir().join("seckill.db").display());
    let mut other = SqliteConnection::connect(&url).await.unwrap();
    sqlx::query("BEGIN EXCLUSIVE").execute(&mut other).await.unwrap();
    let result = home.run(&["status"]).expect_code(3).stdout;
    assert!(result.contains("! the database is locked by another program"), "{result}");
    assert!(result.contains("REJECTS WRITES"), "{result}");
    assert!(result.contains("火锅"), "what can be read is shown: {result}");
    let result = home.run(&["status", "--json"]).expect_code(3).json();
    assert_eq!(result["alarms"][0]["kind"]["alarm"], "sql_locked", "{result}");
    assert_eq!(result["sql"]["up"], true, "{result}");
    assert!(home.run(&["sale", "list"]).expect_code(0).stdout.contains("火锅"));
    let result = home.run(&["doctor"]).expect_code(3).stdout;
    assert!(
        result.contains("UNREACHABLE  writes") && result.contains("locked by another program"),
        "{result}"
    );
    let alone = home.run(&["--redis", "redis://127.0.0.1:1", "status"]).expect_code(3).stdout;
    assert!(alone.contains("REJECTS WRITES") && alone.contains("火锅"), "{alone}");
    other.close().await.unwrap();
    home.run(&["status"]).expect_code(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_redis_loses_while_the_database_is_locked_is_reported_without_it() {
    let home = Seckill::new();
    let id = create(&home, "10");
    let worker = home.spawn(&["work"]);
    home.run(&["rush", "--voucher", &id, "--users", "5", "--json"]).expect_code(0);
    let url = format!("sqlite:{}", home.data_dir().join("seckill.db").display());
    let mut other = SqliteConnection::connect(&url).await.unwrap();
    sqlx::query("BEGIN EXCLUSIVE").execute(&mut other).await.unwrap();
    let stock = format!("seckill:{{p0}}:stock:{id}");
    wait_until_blocking(LONG, "the node serves the sale", || {
        let dropped = home.redis().and_then(|mut redis| cmd("DEL").arg(&stock).query(&mut redis));
        dropped.is_ok_and(|dropped: u64| dropped == 1)
    });
    let lost = format!("lost, replaced or rolled back: {stock}");
    wait_until_blocking(LONG, "the status reports the loss", || {
        home.run(&["status"]).expect_code(3).stdout.contains(&lost)
    });
    let log = || home.run(&["activity"]).expect_code(0).stdout.contains(&lost);
    assert!(log(), "so does the log, although the database has no line of it");
    other.close().await.unwrap();
    wait_until_blocking(LONG, "the database has it", log);
    home.run(&["audit"]).expect_code(0);
    worker.signal(Signal::TERM);
    worker.wait(LONG).expect_code(0);
}

#[test]
fn a_data_directory_that_is_removed_in_a_rush_is_no_success() {
    let home = Seckill::new();
    let id = create(&home, "60000");
    // One process started the server, another one shows the alarm.
    let worker = home.spawn(&["work"]);
    wait_until_blocking(LONG, "the worker's server answers", || home.redis().is_ok());
    let rush = home.spawn(&["rush", "--voucher", &id, "--users", "60000", "--rate", "2000"]);
    wait_until_blocking(LONG, "the rush is under way", || {
        let admitted = home.redis().and_then(|mut redis| {
            cmd("HLEN").arg(format!("seckill:{{p0}}:buyers:{id}")).query::<u64>(&mut redis)
        });
        admitted.is_ok_and(|admitted| admitted >= 1_000)
    });
    let servers = home.processes();
    assert!(!servers.is_empty());
    // A file created meanwhile keeps its directory; the rest is removed.
    wait_until_blocking(LONG, "it is removed", || {
        let _ = std::fs::remove_dir_all(home.data_dir());
        !home.data_dir().exists()
    });
    wait_until_blocking(LONG, "no server is left behind", || {
        servers.iter().all(|pid| !std::path::Path::new(&format!("/proc/{pid}/cwd")).exists())
    });
    let ran = rush.wait(LONG).expect_code(3);
    assert!(!ran.stdout.contains("persisted"), "{ran}");
    assert!(ran.stderr.contains("was removed while in use"), "{ran}");
    let worked = worker.wait(LONG).expect_code(3);
    assert!(worked.stderr.contains("was removed while in use"), "{worked}");
    assert!(!home.data_dir().exists(), "nothing is made in its place");
}

#[test]
fn what_was_written_is_read_where_the_disk_is_full() {
    let home = Seckill::new();
    let id = create(&home, "10");
    home.run(&["rush", "--voucher", &id, "--users", "20"]).expect_code(0);
    // A file size limit simulates the full disk: the shared-memory index of SQLite (32 KiB) does not fit,
    // the file of the Redis server does.
    let run = |args: &[&str]| {
        let limited = ["-c", "trap '' XFSZ; ulimit -f 62; exec \"$@\"", "sh", BINARY];
        let mut all: Vec<OsString> = limited.iter().map(|it| (*it).into()).collect();
        all.extend(home.args(args));
        Background::spawn("sh", &all, &home, &[]).wait(LONG)
    };
    let result = run(&["status"]).expect_code(3).stdout;
    assert!(result.contains("火锅") && result.contains("passed"), "{result}");
    assert!(result.contains("REJECTS WRITES") && result.contains("the disk is full"), "{result}");
    let audit = run(&["audit", "--json"]).expect_code(0).json();
    assert_eq!(audit["sales"][0]["persisted"], 10, "{audit}");
    assert!(run(&["sale", "list"]).expect_code(0).stdout.contains("火锅"));
    let result = run(&["doctor"]).expect_code(3).stdout;
    assert!(
        result.contains("UNREACHABLE  writes") && result.contains("the disk is full"),
        "{result}"
    );
    home.run(&["rush", "--voucher", &id, "--users", "20", "--seed", "2"]).expect_code(0);
}

/// Everything below `dir` that other users can read, write or enter.
fn open_to_others(dir: &std::path::Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt as _;
    let mut wide = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        // A file may be removed during the walk.
        let Ok(found) = std::fs::symlink_metadata(&path) else { continue };
        if found.mode() & 0o077 != 0 {
            wide.push(format!("{} {:o}", path.display(), found.mode()));
        }
        if found.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|it| it.unwrap().path()));
        }
    }
    wide
}

#[test]
fn other_users_cannot_read_the_data_with_any_umask() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Seckill::new();
    std::fs::create_dir(home.data_dir()).unwrap();
    let wide = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(home.data_dir(), wide.clone()).unwrap();
    let with_umask = ["-c", "umask 000; exec \"$@\"", "sh", BINARY];
    let mut args: Vec<OsString> = with_umask.iter().map(|it| (*it).into()).collect();
    args.extend(home.args(&["work"]));
    let worker = Background::spawn("sh", &args, &home, &[]);
    let id = create(&home, "10");
    home.run(&["rush", "--voucher", &id, "--users", "20"]).expect_code(0);
    assert_eq!(open_to_others(&home.data_dir()), Vec::<String>::new());
    let result = home.run(&["doctor"]).stdout;
    assert!(!result.contains("open to other users"), "{result}");

    // A database outside the data directory is left alone, but doctor reports it.
    let elsewhere = home.file("other.db");
    let url = format!("sqlite:{}", elsewhere.display());
    std::fs::copy(home.data_dir().join("seckill.db"), &elsewhere).unwrap();
    std::fs::set_permissions(&elsewhere, wide).unwrap();
    let result = home.run(&["--database", &url, "doctor"]).stdout;
    assert!(
        result.contains("open to other users") && result.contains("other.db (mode 0755)"),
        "{result}"
    );
    worker.signal(Signal::TERM);
    worker.wait(LONG).expect_code(0);
}

/// SQLite rolls back when a write fails, so the transaction state of the connection is wrong from then on.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_loses_no_order() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};

    let home = Seckill::new();
    let id = create(&home, "4000");
    // A file size limit simulates the full disk; its signal would kill the process.
    let ignoring = ["-c", "trap '' XFSZ; exec \"$@\"", "sh", BINARY];
    let rush = ["rush", "--voucher", &id, "--users", "4000", "--rate", "1500", "--json"];
    let mut args: Vec<_> = ignoring.iter().map(|it| (*it).into()).collect();
    args.extend(home.args(&rush));
    let rush = Background::spawn("sh", &args, &home, &[]);
    let pid = Pid::from_raw(i32::try_from(rush.pid()).unwrap());
    let limit = |bytes| {
        prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
    };
    wait_until_blocking(LONG, "the rush is under way", || {
        let admitted = home.redis().and_then(|mut redis| {
            cmd("HLEN").arg(format!("seckill:{{p0}}:buyers:{id}")).query::<u64>(&mut redis)
        });
        admitted.is_ok_and(|admitted| admitted >= 300)
    });
    limit(Some(100_000));
    wait_until_blocking(LONG, "a batch waits for the disk", || {
        let log = std::fs::read_to_string(home.data_dir().join("seckill.log"));
        log.is_ok_and(|log| log.matches("the batch waits for the database").count() >= 2)
    });
    limit(None);
    let report = rush.wait(LONG).expect_code(0).json();
    assert_eq!(
        (&report["admitted"], &report["persisted"]),
        (&4000.into(), &4000.into()),
        "{report}"
    );
    let audit = home.run(&["audit", "--json"]).expect_code(0).json();
    assert_eq!(audit["sales"][0]["dead"], 0, "{audit}");
}

#[test]
fn the_same_seed_plays_the_same_demo() {
    let home = Seckill::new();
    let mut plays = Vec::new();
    for _ in 0..2 {
        let args = ["demo", "--headless", "--buyers", "5000", "--seed", "7", "--json"];
        let ran = crate::support::run(&args).expect_code(0).json();
        assert_eq!((&ran["admitted"], &ran["persisted"]), (&ran["stock"], &ran["stock"]), "{ran}");
        assert_eq!(ran["stuck"], ran["replayed"], "{ran}");
        assert!(ran["stuck"].as_u64() > Some(0) && ran["balanced"] == true, "{ran}");
        plays.push(["admitted", "duplicate", "sold_out"].map(|key| ran[key].as_u64()));
    }
    assert_eq!(plays[0], plays[1]);
    assert!(!home.data_dir().join("redis").exists(), "the demo keeps nothing");
}

#[test]
fn a_killed_process_loses_nothing() {
    for moment in [3_000, 30_000, 90_000] {
        let home = Seckill::new();
        let id = create(&home, "100000");
        let rush = home.spawn(&["rush", "--voucher", &id, "--users", "200000"]);
        wait_until_blocking(LONG, "the rush is under way", || {
            let admitted = home.redis().and_then(|mut redis| {
                cmd("HLEN").arg(format!("seckill:{{p0}}:buyers:{id}")).query::<u64>(&mut redis)
            });
            admitted.is_ok_and(|admitted| admitted >= moment)
        });
        rush.signal(Signal::KILL);
        rush.wait(LONG);
        let persisted = recovers(&home);
        assert!(persisted >= moment, "{persisted} of at least {moment}");
    }
}

/// SIGKILL for the server of the data directory.
fn kill_redis(home: &Seckill) {
    let info: String = cmd("INFO").arg("server").query(&mut home.redis().unwrap()).unwrap();
    let pid = info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap();
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
}

/// A new node waits for the promises of others after a restart of Redis, but not for those of processes that ended.
#[test]
fn a_node_that_starts_waits_for_live_processes_only() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let home = Seckill::new();
    let id = create(&home, "100");
    let given_up = || {
        let log = std::fs::read_to_string(home.data_dir().join("seckill.log")).unwrap();
        log.matches("a node did not confirm its promises in time").count()
    };
    for suspended in [false, true] {
        let nodes = [home.spawn(&["work"]), home.spawn(&["work"])];
        wait_until_blocking(LONG, "both have reconciled Redis", || {
            let runs = home.redis().and_then(|mut redis| {
                let info = cmd("INFO").arg("server").query::<String>(&mut redis)?;
                let mut runs = cmd("HMGET");
                runs.arg("seckill:{p0}:reconciled").arg("node-1").arg("node-2");
                Ok((info, runs.query::<Vec<Option<String>>>(&mut redis)?))
            });
            runs.is_ok_and(|(info, runs)| {
                runs.iter().flatten().filter(|it| info.contains(*it)).count() == 2
            })
        });
        let [first, second] = nodes;
        if suspended {
            let file = home.data_dir().join("seckill.db");
            runtime.block_on(second.freeze_outside_a_write(&file));
        } else {
            second.signal(Signal::KILL);
        }
        first.signal(Signal::KILL);
        kill_redis(&home);
        first.wait(LONG);
        home.run(&["rush", "--voucher", &id, "--users", "1"]).expect_code(0);
        assert_eq!(given_up(), usize::from(suspended));
        second.signal(Signal::KILL);
        second.wait(LONG);
    }
}

/// On any Redis: its slot in the data directory shows that the process is gone.
#[test]
fn a_node_starts_under_the_name_of_a_killed_process_without_a_wait() {
    let (home, redis) = (Seckill::new(), TestRedis::start());
    // Longer than the test waits.
    let config = home.file("config.toml");
    std::fs::write(&config, "[engine]\nnode_dead_ms = 600000\n").unwrap();
    let url = redis.url();
    let globals = ["--redis", &url, "--config", config.to_str().unwrap()];
    let node = home.spawn(&[&globals[..], &["work"]].concat());
    let name = || {
        redis
            .query::<Vec<String>>(&["HKEYS", "seckill:{p0}:reconciled"])
            .into_iter()
            .find(|it| !it.starts_with(':'))
    };
    wait_until_blocking(LONG, "the node has reconciled Redis", || name().is_some());
    let killed = name();
    node.signal(Signal::KILL);
    node.wait(LONG);
    let create = ["sale", "create", "--title", "t", "--stock", "1", "--json"];
    let made = home.run(&[&globals[..], &create].concat()).expect_code(0).json();
    let id = made["voucher_id"].to_string();
    let rush = ["rush", "--voucher", &id, "--users", "1"];
    home.run(&[&globals[..], &rush].concat()).expect_code(0);
    assert_eq!(redis.query::<u64>(&["EXISTS", "seckill:{p0}:nodes"]), 0, "{killed:?} has left");
}

#[test]
fn a_killed_redis_is_started_again_and_the_rush_goes_on() {
    let home = Seckill::new();
    let id = create(&home, "30000");
    // Requests wait as long as two restarts take here.
    let config = home.file("config.toml");
    std::fs::write(&config, "[engine]\nanswer_within_ms = 60000\n").unwrap();
    let args = ["rush", "--voucher", &id, "--users", "60000", "--rate", "30000", "--json"];
    let rush = home.spawn(&[&["--config", config.to_str().unwrap()], &args[..]].concat());
    for killed in 1..=2_u64 {
        wait_until_blocking(LONG, "the rush is under way", || {
            let admitted = home.redis().and_then(|mut redis| {
                cmd("HLEN").arg(format!("seckill:{{p0}}:buyers:{id}")).query::<u64>(&mut redis)
            });
            admitted.is_ok_and(|admitted| admitted >= killed * 8_000)
        });
        kill_redis(&home);
    }
    let report = rush.wait(LONG).expect_code(0).json();
    assert_eq!((&report["admitted"], &report["errors"]), (&30_000.into(), &0.into()), "{report}");
    assert_eq!(recovers(&home), 30_000);
}

#[test]
fn a_second_process_attaches_to_the_same_server() {
    let home = Seckill::new();
    let id = create(&home, "1000");
    let workers = [home.spawn(&["work"]), home.spawn(&["work"])];
    wait_until_blocking(LONG, "both nodes live", || {
        let status = home.run(&["status", "--json"]).json();
        let consumers = status["stream"]["consumers"].as_array().cloned().unwrap_or_default();
        consumers.iter().filter(|consumer| consumer["alive"] == true).count() == 2
    });
    assert_eq!(home.processes().len(), 1, "two workers share one server");
    home.run(&["rush", "--voucher", &id, "--users", "2000"]).expect_code(0);
    for worker in workers {
        worker.signal(Signal::TERM);
        worker.wait(LONG).expect_code(0);
    }
    home.run(&["audit"]).expect_code(0);
}

#[test]
fn bad_input_gets_a_message_and_the_right_exit_code() {
    let home = Seckill::new();
    let sale = |title: &str, stock: &str, more: &[&str]| {
        let args =
            [&["sale", "create", "--title", title, "--stock", stock, "--json"], more].concat();
        home.run(&args)
    };
    refused(sale("", "1", &[]), 2, "the title is empty");
    refused(sale(&"x".repeat(10_000), "1", &[]), 2, "10,000 characters");
    refused(sale("a\u{1b}[2J", "1", &[]), 2, "control character");
    refused(sale("t", "0", &[]), 2, "stock of 0");
    refused(sale("t", "-5", &[]), 2, "-5");
    refused(sale("t", "99999999999", &[]), 2, "is not allowed");
    refused(sale("t", "99999999999999999999999", &[]), 2, "stock");
    refused(sale("t", "1", &["--begin", "+20m", "--end", "+10m"]), 2, "before it begins");
    refused(home.run(&["sale", "show", "42"]), 1, "no sale");
    refused(home.run(&["sale", "end", "42", "--yes"]), 1, "no sale");
    refused(home.run(&["rush", "--voucher", "42", "--users", "10"]), 1, "no sale");
    refused(home.run(&["rush", "--voucher", "x", "--users", "10"]), 2, "voucher");
    refused(home.run(&["rush", "--voucher", "1", "--users", "0"]), 2, "users is 0");
    refused(home.run(&["orders", "show", "banana"]), 2, "order ID");
    refused(
        home.run(&["--read-only", "sale", "create", "--title", "t", "--stock", "1"]),
        2,
        "read-only",
    );
    refused(home.run(&[]), 2, "terminal");
    refused(crate::support::run(&["demo"]), 2, "terminal");
    refused(home.run(&["demo"]), 2, "--data-dir");
    let demo = Background::spawn(BINARY, &["demo", "--headless"], &home, &[("TMPDIR", "/proc")]);
    refused(demo.wait(LONG), 3, "set TMPDIR");
    create(&home, "5");
    refused(home.run(&["sale", "end", "1"]), 2, "--yes");
}

#[test]
fn only_invalid_arguments_exit_with_code_2() {
    let home = Seckill::new();
    let worker = home.spawn(&["work"]);
    create(&home, "5");
    for rejected in [
        "sale start 1",
        "sale pause 42",
        "sale resume 42",
        "sale restock 1 -5",
        "sale end 42 --yes",
        "voucher buy 42 --user 7",
        "orders show 7",
        "orders pay 7",
        "pending plan",
        "pending apply --yes",
        "dead show 1-0",
        "dead replay 1-0 --yes",
        "dead discard --all --yes",
        "stream claim 1-0 --to nowhere --yes",
        "stream remove-consumer nowhere --yes",
        "locks release nothing --yes",
        "jobs run nothing",
        "jobs pause nothing",
        "jobs history nothing",
        "rush --voucher 42 --users 1",
    ] {
        home.run(&rejected.split(' ').collect::<Vec<_>>()).expect_code(1);
    }
    for invalid in [
        "sale create --title t --stock 1 --yes",
        "sale start 1 --yes",
        "sale pause 1 --yes",
        "sale pause 1 --read-only",
        "work --read-only",
        "status --partitions 3",
        "stream show --partition 9",
        "stream rewind --to 1-0@9 --yes",
        "sale resume 1 --yes",
        "sale restock 1 5 --yes",
        "sale end 1",
        "dead discard",
        "stream claim --to n",
        "rush --voucher 1 --users 0",
        "bench locks --millis 0",
        "audit --voucher x",
    ] {
        home.run(&invalid.split(' ').collect::<Vec<_>>()).expect_code(2);
    }
    let help = home.run(&["--help"]).expect_code(0).stdout;
    assert!(help.contains("Exit codes:"), "{help}");
    drop(worker);
}

#[test]
fn unreachable_servers_exit_with_code_3() {
    let home = Seckill::new();
    let locked = TestRedis::setup().password("sesame").start();
    let socket = format!("unix://{}", locked.socket().display());
    refused(home.run(&["--redis", &socket, "audit"]), 3, "login");
    let wrong = format!("{socket}?pass=hunter2");
    let ran = home.run(&["--redis", &wrong, "audit"]);
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    refused(ran, 3, "login");
    refused(home.run(&["--redis", "redis://:hunter2@127.0.0.1:1", "audit"]), 3, "127.0.0.1:1");
    refused(home.run(&["--redis", "http://u:hunter2@h", "audit"]), 2, "redis://");
    refused(home.run(&["--database", "oracle://u:hunter2@h/x", "audit"]), 2, "sqlite:");
    let file = home.file("a-file");
    std::fs::write(&file, "x").unwrap();
    refused(crate::support::run(&["--data-dir", file.to_str().unwrap(), "audit"]), 3, "a-file");
    refused(crate::support::run(&["--data-dir", "/proc/nowhere", "audit"]), 3, "/proc/nowhere");
}

#[test]
fn garbage_in_the_stream_becomes_dead_letters_and_the_rest_is_written() {
    let home = Seckill::new();
    let id = create(&home, "10");
    let worker = home.spawn(&["work"]);
    wait_until_blocking(LONG, "the worker has its group", || {
        home.run(&["status", "--json"]).json()["stream"]["group"] == true
    });
    let mut redis = home.redis().unwrap();
    for fields in [["userId", "x"], ["nonsense", ""], ["id", "-1"]] {
        cmd("XADD")
            .arg("seckill:{p0}:orders")
            .arg("*")
            .arg(&fields)
            .query::<()>(&mut redis)
            .unwrap();
    }
    home.run(&["rush", "--voucher", &id, "--users", "50"]).expect_code(0);
    wait_until_blocking(LONG, "the garbage is set aside", || {
        home.run(&["status", "--json"]).json()["stream"]["dead"] == 3
    });
    worker.signal(Signal::TERM);
    worker.wait(LONG).expect_code(0);
    home.run(&["audit"]).expect_code(0);
}

/// Only a command that opens the server fails, and an option overrides the file.
#[test]
fn an_unusable_url_stops_only_commands_that_use_it() {
    let home = Seckill::new();
    let report = home.run(&["--redis", "localhost", "doctor", "--json"]).expect_code(1).json();
    let checks = report["checks"].as_array().unwrap();
    let opening = checks.iter().find(|check| check["name"] == "opening").unwrap();
    assert!(opening["found"].as_str().unwrap().starts_with("a Redis URL starts with"), "{report}");
    home.run(&["--redis", "localhost", "--database", "oracle://h/d", "keys"]).expect_code(0);

    let config = home.file("config.toml");
    std::fs::write(&config, "read_only = false\nredis = \"localhost\"\n").unwrap();
    let with = |args: &[&str]| home.run(&[&["--config", config.to_str().unwrap()], args].concat());
    let refused = with(&["sale", "list"]).expect_code(2);
    assert!(refused.stderr.contains("config.toml: line 2, column 9: a Redis URL"), "{refused}");
    let found = with(&["doctor"]).expect_code(1).stdout;
    assert!(found.contains("config.toml: line 2, column 9: a Redis URL"), "{found}");
    let overridden = with(&["--redis", "redis://127.0.0.1:1", "doctor"]).expect_code(3).stdout;
    assert!(!overridden.contains("config.toml"), "{overridden}");
}
