//! Tests on real servers: what each design declares, and that timelines show what the servers saw.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails says where"
)]

use std::collections::{BTreeMap, BTreeSet};

use seckill_redis::Redis;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::UnixStream,
    sync::{Mutex, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    Action, Database, Design, Disruption, Lab, LabError, Program, Promise, Question, Report, Step,
    Work, designs, instance, instance::Served, shop::Shop, timeline,
};

const PATIENCE: std::time::Duration = std::time::Duration::from_mins(1);

/// The instances are this test binary, which runs [`instance_process`] only.
fn program() -> Program {
    let args = ["--ignored", "--exact", "tests::instance_process", "--nocapture"];
    Program { path: std::env::current_exe().unwrap(), args: args.iter().map(Into::into).collect() }
}

#[tokio::test]
#[ignore = "it is the process of an instance, started by the other tests"]
async fn instance_process() {
    let _ = instance::run().await;
}

fn lab(names: &[&str], work: Work, seeds: std::ops::Range<u64>) -> Lab {
    let designs = match names {
        [] => designs::all().to_vec(),
        names => names.iter().map(|name| designs::find(name).unwrap()).collect(),
    };
    Lab {
        designs,
        databases: vec![Database::Sqlite],
        work,
        seeds: seeds.collect(),
        program: program(),
    }
}

async fn run(names: &[&str], work: Work, seeds: std::ops::Range<u64>) -> Report {
    lab(names, work, seeds).run(|_| {}, &CancellationToken::new()).await.unwrap()
}

/// Runs that compare times: each gets the machine for itself.
static TIMED: Mutex<()> = Mutex::const_new(());

/// Runs designs, each under all disruptions that its question asks for, and compares what they broke with what they
/// declare.
async fn breaks_what_it_declares(database: Database, seeds: u32, names: &[&str]) {
    let _timed = TIMED.lock().await;
    let all =
        Lab { databases: vec![database], ..lab(names, Work::default(), 1..1 + u64::from(seeds)) };
    let report = all.run(|_| {}, &CancellationToken::new()).await.unwrap();
    assert!(report.missing.is_empty(), "{:?}", report.missing);
    let (lacking, run): (Vec<&Design>, Vec<&Design>) =
        all.designs.iter().partition(|it| it.not_on.contains(&database));
    let not_run: Vec<&str> = report.not_applicable.iter().map(|it| it.name).collect();
    assert_eq!(not_run, lacking.iter().map(|it| it.name).collect::<Vec<_>>());
    let rows: usize = run.iter().map(|it| it.question.disruptions().len()).sum();
    assert_eq!(report.designs.len(), rows);
    for design in &report.designs {
        let label = design.label();
        let broken: Vec<(Promise, u32)> = design.broken.clone().into_iter().collect();
        let declared: Vec<(Promise, u32)> = design.breaks.iter().map(|it| (*it, seeds)).collect();
        assert_eq!(broken, declared, "{label}");
        let shown: Vec<Promise> = design.timelines.iter().map(|it| it.promise).collect();
        assert_eq!(shown, design.breaks, "{label}: each broken promise has a timeline");
        for run in &design.runs {
            // Requests fail only if their process is killed.
            let dies = design.disruption == Some(Disruption::Death);
            assert_eq!(run.verdict.failed > 0, dies, "{label}: {run:?}");
            assert!(run.verdict.failed <= 4 && run.verdict.lost == 0, "{label}: {run:?}");
        }
    }
    assert!(!report.is_unexpected());
}

/// All designs but those whose lock is the same on each database.
fn of_the_database() -> Vec<&'static str> {
    let in_sql = |it: &&&Design| {
        it.question != Question::Locks || ["mysql-row-lock", "fencing-token"].contains(&it.name)
    };
    designs::all().iter().filter(in_sql).map(|it| it.name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite_each_design_breaks_what_it_declares_and_nothing_else() {
    breaks_what_it_declares(Database::Sqlite, 1, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_mariadb_each_design_breaks_what_it_declares_and_nothing_else() {
    breaks_what_it_declares(Database::Mariadb, 1, &of_the_database()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_each_design_breaks_what_it_declares_and_nothing_else() {
    breaks_what_it_declares(Database::Postgres, 1, &of_the_database()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_memory_is_right_with_one_instance_if_it_is_held_until_the_commit() {
    let _timed = TIMED.lock().await;
    let work = Work { instances: 1, ..Work::default() };
    let names = [
        "counter-in-memory",
        "process-mutex",
        "lock-per-interned-key",
        "unlock-after-commit",
        "lock-per-string",
        "unlock-before-commit",
    ];
    let report = run(&names, work, 1..4).await;
    for (design, is_right) in report.designs.iter().zip([true, true, true, true, false, false]) {
        let broken = design.broken.get(&Promise::OneOrder).copied().unwrap_or_default();
        assert_eq!(broken, if is_right { 0 } else { 3 }, "{}", design.name);
        assert_eq!(design.breaks.is_empty(), is_right, "{}", design.name);
        assert!(design.runs.iter().all(|it| it.verdict.sold == 100), "{:?}", design.runs);
    }
    assert!(!report.is_unexpected());
}

#[test]
fn a_design_is_mended_by_one_that_keeps_what_it_breaks() {
    let names: BTreeSet<&str> = designs::all().iter().map(|it| it.name).collect();
    assert_eq!(names.len(), designs::all().len());
    let one_instance = Work { instances: 1, ..Work::default() };
    for design in designs::all() {
        assert_eq!(design.mended_by.is_none(), design.faults.is_empty(), "{}", design.name);
        let Some(name) = design.mended_by else { continue };
        let mended = designs::find(name).unwrap();
        // Of locks, each mends one fault of the one before, and has another.
        let works = [Work::default(), one_instance].map(|work| design.question.works(&work));
        let is_mended = |work: Work| {
            design.breaks(&work).next().is_some()
                && design.breaks(&work).all(|promise| mended.keeps(promise, &work))
        };
        let one_is_mended =
            |work: Work| design.breaks(&work).any(|promise| mended.keeps(promise, &work));
        let mut works = works.into_iter().flatten();
        let mends = match design.question {
            Question::Locks => works.any(one_is_mended),
            Question::Overselling | Question::OneOrder => works.any(is_mended),
        };
        assert!(mends, "{name}");
    }
}

/// What SQLite records by itself about each change, in the order of its transactions.
const LOG: [&str; 3] = [
    "CREATE TABLE log (position INTEGER PRIMARY KEY, order_id BIGINT NOT NULL, stock BIGINT NOT NULL)",
    "CREATE TRIGGER taken AFTER UPDATE ON tb_seckill_voucher \
     BEGIN INSERT INTO log (order_id, stock) VALUES (0, NEW.stock); END",
    "CREATE TRIGGER ordered AFTER INSERT ON tb_voucher_order \
     BEGIN INSERT INTO log (order_id, stock) VALUES (NEW.id, 0); END",
];

/// Collects what MONITOR shows until `end` is sent through another connection.
async fn monitor(socket: &str, end: &str) -> tokio::task::JoinHandle<Vec<String>> {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    stream.write_all(b"MONITOR\r\n").await.unwrap();
    let mut lines = BufReader::new(stream).lines();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "+OK");
    let end = end.to_owned();
    tokio::spawn(async move {
        let mut seen = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains(&end) {
                break;
            }
            let (_, command) = line.split_once("] ").unwrap();
            seen.push(command.replace('"', ""));
        }
        seen
    })
}

/// Checks that steps whose order is certain are in this order in the server too.
#[track_caller]
fn in_order(steps: &[&Step], position: impl Fn(&Step) -> usize) {
    for first in steps {
        for second in steps.iter().filter(|second| first.precedes(second)) {
            assert!(position(first) < position(second), "{first:?} {second:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_and_timelines_are_what_sqlite_and_redis_saw() {
    let lab = lab(&["unguarded"], Work::default(), 5..6);
    let design = lab.designs[0];
    let mut shop = Shop::open(Database::Sqlite, &CancellationToken::new()).await.unwrap();
    shop.set_up(design, &lab.work).await.unwrap();
    let mut sql = shop.sql().await.unwrap();
    for statement in LOG {
        sql.command(statement).await.unwrap();
    }
    let redis_url = shop.redis_url();
    let monitoring = monitor(redis_url.strip_prefix("unix://").unwrap(), "the-end").await;
    let stop = CancellationToken::new();
    let served = lab.serve_requests(&mut shop, design, &lab.work, 5, &stop).await.unwrap();
    let mut redis = Redis::from_url(&redis_url).unwrap().connection();
    let () = redis.query(redis::cmd("SET").arg("the-end").arg(1)).await.unwrap();
    let monitored = timeout(PATIENCE, monitoring).await.unwrap().unwrap();
    let log: Vec<[i64; 2]> =
        sql.rows("SELECT order_id, stock FROM log ORDER BY position", &[]).await.unwrap();
    drop(sql);

    let steps = |is_it: &dyn Fn(&Step) -> bool| -> Vec<&Step> {
        served.iter().flat_map(|it: &Served| &it.steps).filter(|it| is_it(it)).collect()
    };
    // Each INSERT is in SQLite, once, and in an order that its times allow.
    let inserts = steps(&|it| it.is_on(Action::Write, "tb_voucher_order"));
    let logged: Vec<i64> = log.iter().map(|row| row[0]).filter(|id| *id != 0).collect();
    assert!(logged.len() > 100, "it oversells: {}", logged.len());
    let mut traced: Vec<i64> = inserts.iter().map(|it| it.values[0]).collect();
    traced.sort_unstable();
    let mut sorted = logged.clone();
    sorted.sort_unstable();
    assert_eq!(traced, sorted);
    in_order(&inserts, |it| logged.iter().position(|id| *id == it.values[0]).unwrap());

    // Each UPDATE took one piece, and each SELECT saw a stock that SQLite had at that time.
    let updates = steps(&|it| it.is_on(Action::Write, "tb_seckill_voucher"));
    let stocks: Vec<i64> = log.iter().filter(|row| row[0] == 0).map(|row| row[1]).collect();
    let expected: Vec<i64> = (1..=updates.len() as i64).map(|taken| 100 - taken).collect();
    assert_eq!(stocks, expected);
    let reads = steps(&|it| it.is_on(Action::Read, "tb_seckill_voucher"));
    assert_eq!(reads.len(), served.len());
    for read in reads {
        let before = updates.iter().filter(|it| it.precedes(read)).count() as i64;
        let after = updates.iter().filter(|it| read.precedes(it)).count();
        let within = (updates.len() - after) as i64;
        let stock = read.seen().unwrap();
        assert!((100 - within..=100 - before).contains(&stock), "{read:?} {before} {within}");
    }

    // Redis received each command of the trace, and nothing else of its kind.
    let commands = steps(&|it| it.action == Action::Redis);
    let received: Vec<&String> = monitored.iter().filter(|it| it.starts_with("INCR")).collect();
    assert_eq!(received.len(), commands.len());
    assert!(commands.iter().all(|it| *received[0] == it.what), "{received:?}");
    in_order(&commands, |it| it.seen().unwrap() as usize);

    // The timeline consists of these steps: the last piece was taken between the check and the write of another request.
    let shown = timeline::find(Promise::NoOverselling, 5, &lab.work, &served).unwrap();
    assert!(shown.lines.iter().all(|line| steps(&|it| *it == line.step).len() == 1));
    let pieces: Vec<u64> = shown.lines.iter().filter_map(|it| it.piece).collect();
    assert!(matches!(pieces[..], [100, beyond] if beyond > 100), "{pieces:?}");
    let check = shown.lines.iter().find(|it| it.column == 1).unwrap();
    assert!(check.step.seen().unwrap() >= 1);
    let taken = shown.lines.iter().find(|it| it.piece == Some(100)).unwrap();
    assert!(check.step.precedes(&taken.step));
    shop.close().await.unwrap();
}

/// Runs one design under one disruption, and returns it with its requests and the commands that its Redis received.
async fn run_disrupted(name: &str, disruption: Disruption) -> (Work, Vec<Served>, Vec<String>) {
    let _timed = TIMED.lock().await;
    let lab = lab(&[name], Work::default().disrupted(Some(disruption)), 5..6);
    let design = lab.designs[0];
    let mut shop = Shop::open(Database::Sqlite, &CancellationToken::new()).await.unwrap();
    shop.set_up(design, &lab.work).await.unwrap();
    let redis_url = shop.redis_url();
    let monitoring = monitor(redis_url.strip_prefix("unix://").unwrap(), "the-end").await;
    let stop = CancellationToken::new();
    let served = lab.serve_requests(&mut shop, design, &lab.work, 5, &stop).await.unwrap();
    let mut redis = Redis::from_url(&redis_url).unwrap().connection();
    let () = redis.query(redis::cmd("SET").arg("the-end").arg(1)).await.unwrap();
    let monitored = timeout(PATIENCE, monitoring).await.unwrap().unwrap();
    shop.close().await.unwrap();
    (lab.work, served, monitored)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_timeline_of_a_deleted_lock_is_what_redis_saw() {
    let (work, served, monitored) = run_disrupted("setnx-blind-release", Disruption::Pause).await;
    // Redis received each command on a lock as often as the trace says, and in its order.
    let mut received: BTreeMap<&str, usize> = BTreeMap::new();
    for command in monitored.iter().filter(|it| it.contains("lock:order:")) {
        *received.entry(command).or_default() += 1;
    }
    let mut sent: BTreeMap<&str, usize> = BTreeMap::new();
    let steps = || served.iter().flat_map(|it| &it.steps);
    for step in steps().filter(|it| it.action.is_redis() && it.what.contains("lock:order:")) {
        *sent.entry(&step.what).or_default() += 1;
    }
    assert_eq!(received, sent);
    let last = |what: &str| monitored.iter().rposition(|it| it == what).unwrap();

    let shown = timeline::find(Promise::OwnLock, 5, &work, &served).unwrap();
    assert!(shown.lines.iter().all(|line| steps().any(|it| *it == line.step)));
    let line = |column: usize, action: Action| {
        shown.lines.iter().find(|it| it.column == column && it.step.action == action).unwrap()
    };
    let (acquired, stolen) = (line(0, Action::Acquire), line(1, Action::Acquire));
    let (deleted, too_late) = (line(0, Action::Release), line(1, Action::Release));
    assert_eq!(line(0, Action::Disruption).step.what, "SIGSTOP");
    assert_eq!(deleted.lock_of, Some(stolen.step.lane));
    assert_eq!((deleted.step.seen(), too_late.step.seen()), (Some(1), Some(0)));
    // Both release by the same command: the first one in the log is that of the holder that was stopped.
    let deletions: Vec<usize> = (0..monitored.len())
        .filter(|position| *monitored[*position] == *deleted.step.what)
        .collect();
    assert_eq!(deletions.len(), 2);
    let order = [last(&acquired.step.what), last(&stolen.step.what), deletions[0], deletions[1]];
    assert!(order.is_sorted(), "{order:?}");
    // Nothing but the end of the lease freed the lock for the second holder.
    let held = stolen.step.ended.since(acquired.step.begun);
    assert!(u128::from(held) >= work.lease().as_nanos(), "{held}");
    let text = shown.text();
    assert!(text.contains("this was the lock of request"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_over_several_servers_is_not_lost_with_one_of_them() {
    for (name, broken) in [("watchdog", true), ("multilock", false)] {
        let (work, served, _) = run_disrupted(name, Disruption::Failover).await;
        let shown = timeline::find(Promise::OneOrder, 5, &work, &served);
        assert_eq!(shown.is_some(), broken, "{name}");
        let Some(shown) = shown else { continue };
        let disruption = shown.lines.iter().find(|it| it.step.action == Action::Disruption);
        let acquired = shown.lines.iter().filter(|it| it.step.action == Action::Acquire);
        let ended: Vec<_> = acquired.map(|it| it.step.ended).collect();
        let between = disruption.unwrap().step.ended;
        assert!(ended.len() == 2 && ended[0] < between && between < ended[1], "{}", shown.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_run_leaves_nothing() {
    // Long enough to be cancelled in between.
    let long = Work { buyers: 500, stock: 500, think_ms: 100, ..Work::default() };
    // After so many runs, it is cancelled while requests are served; of `watchdog`, while a process is stopped.
    for (name, work, runs) in [("process-mutex", long, 0), ("watchdog", Work::default(), 2)] {
        let lab = lab(&[name], work, 1..2);
        let mut shop = Shop::open(Database::Sqlite, &CancellationToken::new()).await.unwrap();
        let stop = CancellationToken::new();
        let mut sql = shop.sql().await.unwrap();
        let (begun, is_begun) = watch::channel(0);
        let watching = async {
            is_begun.clone().wait_for(|done| *done >= runs).await.unwrap();
            loop {
                let orders = sql.rows::<1>("SELECT COUNT(*) FROM tb_voucher_order", &[]).await;
                let is_busy = orders.is_ok_and(|rows| (4..40).contains(&rows[0][0]));
                if is_busy || *is_begun.borrow() > runs {
                    stop.cancel();
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        let progress = |it: crate::Progress| {
            begun.send_replace(it.done);
        };
        let running = lab.run_in(&mut shop, 0, progress, &stop);
        let (report, ()) =
            timeout(PATIENCE, async { tokio::join!(running, watching) }).await.unwrap();
        assert!(matches!(report, Err(LabError::Cancelled)), "{name}: {report:?}");
        drop(sql);
        let urls = [vec![shop.redis_url()], shop.more_redis_urls()].concat();
        assert_eq!(urls.len(), lab.designs[0].question.servers());
        shop.close().await.unwrap();
        for url in urls {
            let dir = std::path::Path::new(url.strip_prefix("unix://").unwrap()).parent().unwrap();
            assert!(!dir.exists(), "{name}: {}", dir.display());
        }
    }
}
