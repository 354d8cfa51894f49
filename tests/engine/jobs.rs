//! Scheduled jobs on real servers: each due time runs once on one node, across node failures.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::support::{Background, Seckill, TestRedis, wait_until};
use crate::world::{World, newest};
use futures::FutureExt as _;
use rustix::process::Signal;
use seckill_engine::{
    commands::{Command, Reply, Scope},
    deployment::{Deployment, settings::Settings},
    jobs::{Done, Job, Run, Runner, Schedule, Work, board, schedule},
    locks::{Locks, Timing},
};
use seckill_model::{Cause, Fence, JobOutcome, JobRun, Millis, filter::Filter};
use seckill_redis::{Layout, Redis};
use seckill_store::SharedStore;
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);
/// A dead node blocks others for this long.
const TIMING: Timing = Timing { lease: Duration::from_secs(3), poll: Duration::from_millis(500) };
/// The longest pause between two attempts to take a job's lock.
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);

fn job(name: &str, schedule: &str, work: Work) -> Job {
    Job {
        name: name.to_owned(),
        schedule: schedule.parse().unwrap(),
        at_most: 3 * SECOND,
        jitter: Duration::ZERO,
        work,
    }
}

/// A node that only runs jobs.
struct JobNode {
    runner: Runner,
    stop: CancellationToken,
}

impl JobNode {
    fn new(redis: &Redis, store: &SharedStore, node: &str) -> Self {
        let keys = Layout::default();
        let (locks, keeper) = Locks::new(redis, keys.clone(), node, TIMING);
        let stop = CancellationToken::new();
        tokio::spawn(keeper.run(stop.clone()));
        let runner = Runner {
            deployment: Deployment {
                redis: redis.clone(),
                store: store.clone(),
                keys,
                settings: Settings::default(),
            },
            node: node.to_owned(),
            locks,
        };
        Self { runner, stop }
    }

    fn schedule(&self, jobs: Vec<Job>) -> tokio::task::JoinHandle<()> {
        tokio::spawn(schedule(jobs, self.runner.clone(), 2, self.stop.clone()))
    }
}

/// Counts its runs, and notes each due time in SQL.
fn tick(ticks: &Arc<AtomicU64>) -> Work {
    let ticks = Arc::clone(ticks);
    Arc::new(move |run: Run| {
        ticks.fetch_add(1, Ordering::SeqCst);
        async move {
            let fence = Fence { name: format!("due:{}", run.due.0), token: run.fence.token };
            run.deployment.store.fenced_write(&fence, Millis::now()).await?;
            Ok(Done { rows: 1, detail: None })
        }
        .boxed()
    })
}

#[allow(clippy::panic, reason = "it is what is tested")]
fn panics() -> Work {
    Arc::new(|_| async { panic!("oh dear") }.boxed())
}

fn never_ends() -> Work {
    Arc::new(|_| std::future::pending().boxed())
}

/// Entry point of a child process: the test below re-executes this binary.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the work of a process that another test starts"]
async fn process_with_a_job() {
    let work = std::env::var("JOB_WORK").unwrap();
    let parts: Vec<&str> = work.split('|').collect();
    let [node, url, dir, kind] = parts[..] else { panic!("{work}") };
    let store = crate::world::open_sqlite(Path::new(dir)).await;
    let node = JobNode::new(&Redis::from_url(url).unwrap(), &store, node);
    let work: Work = match kind {
        "endless" => never_ends(),
        _ => tick(&Arc::default()),
    };
    let mut tick = job("tick", "every 1s", work);
    if kind == "endless" {
        tick.at_most = Duration::from_mins(10);
    }
    let scheduled = node.schedule(vec![tick]);
    println!("\nready");
    scheduled.await.unwrap();
}

fn process(node: &str, server: &TestRedis, dir: &Path, kind: &str) -> (Seckill, Background) {
    let sandbox = Seckill::new();
    let work = format!("{node}|{}|{}|{kind}", server.url(), dir.display());
    let this = std::env::current_exe().unwrap();
    let args = crate::support::only(module_path!(), "process_with_a_job");
    let env = [("JOB_WORK", work.as_str())];
    let process = Background::spawn(this.to_str().unwrap(), &args, &sandbox, &env);
    (sandbox, process)
}

/// Three nodes, a job every second, one node killed and one suspended meanwhile; a minute of it with
/// `JOB_SECONDS=60`.
#[tokio::test(flavor = "multi_thread")]
async fn each_due_time_runs_once_across_node_failures() {
    let seconds: u32 =
        std::env::var("JOB_SECONDS").ok().and_then(|it| it.parse().ok()).unwrap_or(12);
    let server = TestRedis::start();
    let files = tempfile::tempdir().unwrap();
    let store = crate::world::open_sqlite(files.path()).await;
    let (_a, a) = process("a", &server, files.path(), "tick");
    let (_b, b) = process("b", &server, files.path(), "tick");
    let (_c, _c_process) = process("c", &server, files.path(), "tick");
    let runs = async || store.runs(Some("tick"), 10_000).await.unwrap();
    let until = async |count: usize| {
        wait_until(180 * SECOND, "runs go on", async || runs().await.len() >= count).await;
    };
    let total = seconds as usize;
    until(total / 4).await;
    a.signal(Signal::KILL);
    until(total / 3).await;
    b.freeze_outside_a_write(&files.path().join("t.db")).await;
    until(total * 2 / 3).await;
    b.signal(Signal::CONT);
    until(total).await;
    let history = runs().await;
    let mut dues: Vec<i64> = history.iter().map(|run| run.due.0).collect();
    dues.sort_unstable();
    let gaps: Vec<i64> = dues.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap > 0 && gap % 1_000 == 0), "each second once: {gaps:?}");
    // Due times pass without a run only while the lock of a killed or suspended node lasts, or the machine stalls.
    let longest = (TIMING.lease + LONGEST_BACKOFF + SECOND).as_millis() as i64;
    assert!(gaps.iter().all(|gap| *gap <= longest), "no pause after the lock is free: {gaps:?}");
    let skipped = gaps.iter().filter(|gap| **gap > 1_000).count();
    assert!(skipped <= 5, "one run makes up for those that were missed: {gaps:?}");
    let mut nodes: Vec<&str> = history.iter().map(|run| run.node.as_str()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    println!("{} due times, by {nodes:?}", history.len());
    for run in &history {
        // The work runs at most once per due time; a killed node may not have reached it.
        let fence = Fence { name: format!("due:{}", run.due.0), token: i64::MAX };
        let writes = store.fenced_write(&fence, Millis::now()).await.unwrap() - 1;
        let ended = run.outcome == JobOutcome::Done;
        assert!(writes <= 1 && (writes == 1 || !ended), "{writes} times: {run:?}");
    }
    // The last run may still be in progress.
    let last = dues.last().copied();
    let runs_now = |run: &JobRun| run.outcome == JobOutcome::Running && Some(run.due.0) == last;
    let odd =
        history.iter().filter(|run| run.outcome != JobOutcome::Done && !runs_now(run)).count();
    assert!(odd <= 3, "what did not end as it should hung on the two nodes: {history:?}");
}

async fn one_run(node: &JobNode, job: &Job) -> JobRun {
    let _ = node.runner.run_now(job, &CancellationToken::new()).await.unwrap();
    node.runner.deployment.store.runs(Some(&job.name), 1).await.unwrap().remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_panics_or_hangs_does_not_affect_other_jobs() {
    let server = TestRedis::start();
    let files = tempfile::tempdir().unwrap();
    let store = crate::world::open_sqlite(files.path()).await;
    let node = JobNode::new(&Redis::from_url(&server.url()).unwrap(), &store, "a");
    let ticks = Arc::new(AtomicU64::new(0));
    let mut endless = job("endless", "every 500ms", never_ends());
    endless.at_most = Duration::from_millis(600);
    let jobs = vec![
        job("panics", "every 500ms", panics()),
        endless.clone(),
        job("tick", "every 500ms", tick(&ticks)),
    ];
    let scheduled = node.schedule(jobs);
    wait_until(60 * SECOND, "the good one goes on", async || ticks.load(Ordering::SeqCst) >= 3)
        .await;
    let panicked = wait_for_run(&store, "panics", JobOutcome::Failed).await;
    assert!(panicked.detail.unwrap_or_default().contains("oh dear"));
    let cancelled = wait_for_run(&store, "endless", JobOutcome::Cancelled).await;
    assert!(cancelled.detail.unwrap_or_default().contains("exceeded its time limit"));
    let started = Instant::now();
    node.stop.cancel();
    scheduled.await.unwrap();
    assert!(started.elapsed() < 10 * SECOND, "a stop has a bound");
}

async fn wait_for_run(store: &SharedStore, job: &str, outcome: JobOutcome) -> JobRun {
    let find = async || {
        let runs = store.runs(Some(job), 100).await.unwrap();
        runs.into_iter().find(|run| run.outcome == outcome)
    };
    wait_until(60 * SECOND, job, async || find().await.is_some()).await;
    find().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_runs_pauses_and_resumes_a_job() {
    let world = World::start().await;
    let execute = async |command| world.execute(command).await;
    let name = "trim-stream".to_owned();
    execute(Command::SwitchJob { job: name.clone(), paused: true }).await.unwrap();
    let Reply::JobRun { end, .. } = execute(Command::RunJob(name.clone())).await.unwrap() else {
        panic!()
    };
    assert_eq!(end.outcome, JobOutcome::Done, "also while it is paused");
    let last = world.store.runs(Some(&name), 1).await.unwrap().remove(0);
    assert_eq!((last.cause, last.node.as_str()), (Cause::Operator, crate::world::NODE));
    execute(Command::SwitchJob { job: name.clone(), paused: false }).await.unwrap();
    assert!(!world.store.job_switches().await.unwrap()[0].paused);
    let unknown = execute(Command::RunJob("no such".into())).await.unwrap_err();
    assert!(unknown.to_string().contains("jobs list"), "{unknown}");
    let lock = world.keys.lock("job:close-overdue");
    world.server.query::<()>(&["SET", &lock, "x"]);
    let barred = execute(Command::RunJob("close-overdue".into())).await.unwrap_err();
    assert!(barred.to_string().contains(&format!("'{lock}' holds a string")), "{barred}");
    let entries = newest(&world.store, 10).await;
    assert!(entries.iter().any(|entry| entry.action == "job pause"), "{entries:?}");
    world
        .until("the snapshot shows the jobs", async || {
            let snapshot = world.node().remote().snapshots.borrow().clone();
            snapshot.jobs.iter().any(|job| job.name == name && !job.runs.is_empty())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pauses_misses_and_names() {
    let server = TestRedis::start();
    let files = tempfile::tempdir().unwrap();
    let store = crate::world::open_sqlite(files.path()).await;
    let redis = Redis::from_url(&server.url()).unwrap();

    // One run covers the due times that were missed without a node.
    let now = Millis::now();
    let ago = Millis((now.0 / 1_000 - 20) * 1_000);
    let run = seckill_model::NewRun {
        job: "once".to_owned(),
        due: ago,
        cause: Cause::Due,
        node: "before".to_owned(),
        token: 1,
        started: ago,
    };
    store.begin_run(&run).await.unwrap().unwrap();
    let scheduled = JobNode::new(&redis, &store, "a");
    let task = scheduled.schedule(vec![job("once", "every 1s", tick(&Arc::default()))]);
    wait_until(60 * SECOND, "it is due again", async || {
        let runs = store.runs(Some("once"), 100).await.unwrap();
        runs.iter().any(|run| run.cause == Cause::Due && run.node == "a")
    })
    .await;
    scheduled.stop.cancel();
    task.await.unwrap();
    let runs = store.runs(Some("once"), 100).await.unwrap();
    let made_up = runs.iter().filter(|run| run.node == "a").count();
    assert!((1..=12).contains(&made_up), "{made_up}");
    // The previous run never ended; the next lock holder recorded that.
    assert!(runs.iter().any(|run| run.outcome == JobOutcome::Lost));
    // Paused: nothing runs, and missed due times are skipped.
    store.pause_job("paused", true, Millis::now()).await.unwrap();
    let paused = JobNode::new(&redis, &store, "a");
    let ticks = Arc::new(AtomicU64::new(0));
    let of = job("paused", "every 500ms", tick(&ticks));
    let task = paused.schedule(vec![of.clone()]);
    let begun = Instant::now();
    wait_until(10 * SECOND, "three due times pass", async || {
        assert_eq!(ticks.load(Ordering::SeqCst), 0);
        begun.elapsed() > Duration::from_millis(1_600)
    })
    .await;
    let by_hand = one_run(&paused, &of).await;
    assert_eq!((by_hand.cause, by_hand.outcome), (Cause::Operator, JobOutcome::Done));
    let resumed = Millis::now();
    store.pause_job("paused", false, resumed).await.unwrap();
    wait_for_run(&store, "paused", JobOutcome::Done).await;
    wait_until(60 * SECOND, "it goes on", async || ticks.load(Ordering::SeqCst) >= 3).await;
    let runs = store.runs(Some("paused"), 100).await.unwrap();
    let scheduled = runs.iter().filter(|run| run.cause != Cause::Operator);
    assert!(scheduled.into_iter().all(|run| run.due > resumed), "{runs:?}");
    paused.stop.cancel();
    task.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_delay_counts_from_the_end_on_any_node() {
    let server = TestRedis::start();
    let files = tempfile::tempdir().unwrap();
    let store = crate::world::open_sqlite(files.path()).await;
    let redis = Redis::from_url(&server.url()).unwrap();
    let nodes: Vec<JobNode> =
        ["a", "b", "c"].iter().map(|name| JobNode::new(&redis, &store, name)).collect();
    let mut tasks = Vec::new();
    for node in &nodes {
        let delayed = job("delayed", "after 700ms", tick(&Arc::default()));
        tasks.push(node.schedule(vec![delayed]));
    }
    wait_until(60 * SECOND, "it runs", async || {
        store.runs(Some("delayed"), 10).await.unwrap().len() >= 4
    })
    .await;
    for node in &nodes {
        node.stop.cancel();
    }
    for task in tasks {
        task.await.unwrap();
    }
    let mut runs = store.runs(Some("delayed"), 10).await.unwrap();
    runs.sort_by_key(|run| run.started.0);
    for pair in runs.windows(2) {
        let ended = pair[0].started.plus(pair[0].took_ms.unwrap_or(0) as i64);
        assert!(pair[1].started.since(ended) >= 700, "{runs:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn old_id_keys_are_removed_and_the_stream_is_trimmed_to_what_groups_need() {
    let world = World::with(|of| of.jobs.keep_stream_ms = 0).await;
    let now = Millis::now();
    let keys = |day: i64| {
        let second = now.0 / 1_000 - day * 86_400;
        world.keys.home().sequence(seckill_model::order_id::utc_day(second))
    };
    for day in [0, 1, 10, 30] {
        let _: () = world.server.query(&["SET", &keys(day), "7"]);
    }
    let run = async |name: &str| match world.execute(Command::RunJob(name.to_owned())).await {
        Ok(Reply::JobRun { end, .. }) if end.outcome == JobOutcome::Done => end,
        other => panic!("{other:?}"),
    };
    assert_eq!(run("drop-id-keys").await.rows, 2);
    let left = |day| world.server.query::<u64>(&["EXISTS", &keys(day)]);
    assert_eq!((left(0), left(1), left(10), left(30)), (1, 1, 0, 0));

    let sale = seckill_model::NewSale::checked("tea", 400, None, None, now).unwrap();
    let voucher = world.create(sale).await;
    assert_eq!(world.stick(voucher, 400, 50).await, 50);
    assert_eq!(world.pending().await, 50);
    let end = run("trim-stream").await;
    let length: u64 = world.server.query(&["XLEN", &world.keys.home().orders()]);
    assert!(length >= 50, "pending ones stay: {length}, {end:?}");
    // A second group that has read nothing keeps all entries.
    let group = ["XGROUP", "CREATE", &world.keys.home().orders(), "other", "0"];
    let _: () = world.server.query(&group);
    world.replay(Scope::All(Filter::default())).await;
    run("trim-stream").await;
    assert_eq!(world.server.query::<u64>(&["XLEN", &world.keys.home().orders()]), length);
    let _: u64 = world.server.query(&["XGROUP", "DESTROY", &world.keys.home().orders(), "other"]);
    run("trim-stream").await;
    let length: u64 = world.server.query(&["XLEN", &world.keys.home().orders()]);
    assert!(length < 300, "whole blocks of acknowledged entries go: {length}");
    world.settled_and_balanced().await;
    assert_eq!(run("check-ledger").await.outcome, JobOutcome::Done);
}

#[test]
fn schedules_are_read_from_settings() {
    assert!("0 0 2 1 * ? *".parse::<Schedule>().is_ok());
    assert!("0 0 0 30 2 ?".parse::<Schedule>().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_due_time_is_not_lost_while_another_process_holds_the_lock() {
    let server = TestRedis::start();
    let files = tempfile::tempdir().unwrap();
    let store = crate::world::open_sqlite(files.path()).await;
    let redis = Redis::from_url(&server.url()).unwrap();
    let name = seckill_engine::locks::LockName::new("job:rare").unwrap();
    // Another process holds the job's lock past the due time without running it.
    let dead = Locks::new(&redis, Layout::default(), "other", TIMING).0;
    let held_until = Millis::now().plus(TIMING.lease.as_millis() as i64);
    let guard = dead.try_lock(&name, "dies").await.unwrap();
    let rare = job("rare", "every 2s", tick(&Arc::default()));
    let node = JobNode::new(&redis, &store, "a");
    let task = node.schedule(vec![rare]);
    wait_until(30 * SECOND, "it runs all the same", async || {
        store.runs(Some("rare"), 10).await.unwrap().iter().any(|run| run.due.0 > 0)
    })
    .await;
    drop(guard);
    let first = store.runs(Some("rare"), 10).await.unwrap().pop().unwrap();
    assert!(first.started >= held_until, "not beside the holder of the lock: {first:?}");
    node.stop.cancel();
    task.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn long_outages_and_clock_steps_stop_no_job() {
    let server = TestRedis::start();
    let files = tempfile::tempdir().unwrap();
    let store = crate::world::open_sqlite(files.path()).await;
    let redis = Redis::from_url(&server.url()).unwrap();
    let now = Millis::now();
    for (name, last) in [("once", now.plus(-5_000_000)), ("ahead", now.plus(3_600_000))] {
        let due = Millis(last.0 / 500 * 500);
        let run = seckill_model::NewRun {
            job: name.to_owned(),
            due,
            cause: Cause::Due,
            node: "before".to_owned(),
            token: 1,
            started: due,
        };
        store.begin_run(&run).await.unwrap().unwrap();
        let of = job(name, "every 500ms", tick(&Arc::default()));
        let node = JobNode::new(&redis, &store, "a");
        let task = node.schedule(vec![of]);
        wait_until(30 * SECOND, name, async || {
            let runs = store.runs(Some(name), 100).await.unwrap();
            runs.iter().filter(|run| run.node == "a" && run.cause == Cause::Due).count() >= 2
        })
        .await;
        node.stop.cancel();
        task.await.unwrap();
        let runs = store.runs(Some(name), 100).await.unwrap();
        let made_up = runs.iter().filter(|run| run.cause == Cause::Missed).count();
        // Plus one per machine stall of more than a second.
        assert!(made_up <= 5, "one run makes up for all: {made_up}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn due_times_during_a_run_are_skipped() {
    let server = TestRedis::start();
    let files = tempfile::tempdir().unwrap();
    let store = crate::world::open_sqlite(files.path()).await;
    let node = JobNode::new(&Redis::from_url(&server.url()).unwrap(), &store, "a");
    let slow: Work = Arc::new(|_| {
        async {
            tokio::time::sleep(Duration::from_millis(1_300)).await;
            Ok(Done::default())
        }
        .boxed()
    });
    let slow = job("slow", "every 1s", slow);
    let task = node.schedule(vec![slow.clone()]);
    wait_until(60 * SECOND, "it runs", async || {
        store.runs(Some("slow"), 10).await.unwrap().len() >= 4
    })
    .await;
    node.stop.cancel();
    task.await.unwrap();
    let mut runs = store.runs(Some("slow"), 10).await.unwrap();
    runs.sort_by_key(|run| run.due.0);
    let waits = |pair: &[JobRun]| pair[1].due > slow.ended(&pair[0]);
    assert!(runs.windows(2).all(waits), "each waits for the next due time: {runs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_delay_without_a_run_counts_from_the_resume() {
    let server = TestRedis::start();
    let files = tempfile::tempdir().unwrap();
    let store = crate::world::open_sqlite(files.path()).await;
    let node = JobNode::new(&Redis::from_url(&server.url()).unwrap(), &store, "a");
    let task = node.schedule(vec![job("delayed", "after 2s", tick(&Arc::default()))]);
    let begun = Instant::now();
    let elapsed = async |time: Duration| {
        wait_until(30 * SECOND, "time passes", async || begun.elapsed() > time).await;
    };
    elapsed(SECOND / 2).await;
    store.pause_job("delayed", true, Millis::now()).await.unwrap();
    // The node looks at a paused job every five seconds: after two seconds and after seven.
    elapsed(6 * SECOND).await;
    let resumed = Millis::now();
    store.pause_job("delayed", false, resumed).await.unwrap();
    let run = wait_for_run(&store, "delayed", JobOutcome::Done).await;
    assert!(run.started >= resumed.plus(2_000), "resumed at {resumed:?}: {run:?}");
    node.stop.cancel();
    task.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_run_after_a_delay_counts_from_the_last_that_was_due() {
    let files = tempfile::tempdir().unwrap();
    let store = crate::world::open_sqlite(files.path()).await;
    let jobs = [job("delayed", "after 1m", tick(&Arc::default()))];
    let now = Millis::now();
    let next = async || board(&store, &jobs, now, 2).await.unwrap()[0].next;
    assert_eq!(next().await, None, "no node has started it yet");
    // More runs of an operator than are listed.
    for (cause, due) in
        [(Cause::Due, -30_000), (Cause::Operator, -9_000), (Cause::Operator, -6_000)]
    {
        let at = now.plus(due);
        let (job, node) = ("delayed".to_owned(), "a".to_owned());
        let run = seckill_model::NewRun { job, due: at, cause, node, token: 0, started: at };
        let id = store.begin_run(&run).await.unwrap().unwrap();
        let done = JobOutcome::Done;
        let end = seckill_model::RunEnd { outcome: done, took_ms: 500, detail: None, rows: 0 };
        store.end_run(id, &end).await.unwrap();
    }
    assert_eq!(next().await, Some(now.plus(-30_000 + 500 + 60_000)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_due_time_that_is_claimed_already_delays_no_later_one() {
    let server = TestRedis::start();
    let files = tempfile::tempdir().unwrap();
    let store = crate::world::open_sqlite(files.path()).await;
    let redis = Redis::from_url(&server.url()).unwrap();
    // By a clock that ran ahead, and by an operator at exactly that time.
    for (name, cause) in [("ahead", Cause::Due), ("operator", Cause::Operator)] {
        let claimed = Millis((Millis::now().0 / 1_000 + 3) * 1_000);
        let run = seckill_model::NewRun {
            job: name.to_owned(),
            due: claimed,
            cause,
            node: "before".to_owned(),
            token: 0,
            started: claimed,
        };
        store.begin_run(&run).await.unwrap().unwrap();
        let node = JobNode::new(&redis, &store, "a");
        let task = node.schedule(vec![job(name, "every 1s", tick(&Arc::default()))]);
        let runs = async || store.runs(Some(name), 100).await.unwrap();
        wait_until(60 * SECOND, name, async || {
            runs().await.iter().filter(|run| run.due > claimed).count() >= 3
        })
        .await;
        node.stop.cancel();
        task.await.unwrap();
        let mut runs = runs().await;
        runs.sort_by_key(|run| run.due.0);
        runs.retain(|run| run.due >= claimed);
        assert_eq!((runs[0].due, runs[0].node.as_str()), (claimed, "before"));
        // One may be skipped if the machine stalls.
        let gaps: Vec<u64> = runs.windows(2).map(|pair| pair[1].due.since(pair[0].due)).collect();
        assert!(gaps.iter().all(|gap| (1_000..=2_000).contains(gap)), "{name}: {gaps:?}");
    }
}

/// No busy loop while an `after` job is paused.
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_job_sends_few_queries() {
    let server = TestRedis::start();
    let files = tempfile::tempdir().unwrap();
    let store = crate::world::open_sqlite(files.path()).await;
    let redis = Redis::from_url(&server.url()).unwrap();
    let node = JobNode::new(&redis, &store, "a");
    let of = job("delayed", "after 100ms", tick(&Arc::default()));
    let task = node.schedule(vec![of]);
    wait_for_run(&store, "delayed", JobOutcome::Done).await;
    store.pause_job("delayed", true, Millis::now()).await.unwrap();
    let calls = || -> u64 {
        let stats: String = server.query(&["INFO", "commandstats"]);
        let calls = stats.lines().filter_map(|line| line.split("calls=").nth(1)?.split(',').next());
        calls.filter_map(|calls| calls.parse::<u64>().ok()).sum()
    };
    let started = Instant::now();
    let before = calls();
    wait_until(10 * SECOND, "a second passes", async || started.elapsed() > SECOND).await;
    let spent = calls() - before;
    assert!(spent < 400, "{spent} commands in a second, this test's own included");
    node.stop.cancel();
    task.await.unwrap();
}

/// Also for a job that may take ten minutes.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_killed_during_a_run_blocks_others_for_one_lease() {
    let server = TestRedis::start();
    let files = tempfile::tempdir().unwrap();
    let store = crate::world::open_sqlite(files.path()).await;
    let (_a, a) = process("a", &server, files.path(), "endless");
    wait_for_run(&store, "tick", JobOutcome::Running).await;
    let redis = Redis::from_url(&server.url()).unwrap();
    let b = JobNode::new(&redis, &store, "b");
    let mut tick = job("tick", "every 1s", tick(&Arc::default()));
    tick.at_most = Duration::from_mins(10);
    let error = b.runner.run_now(&tick, &b.stop).await.unwrap_err().to_string();
    assert!(error.contains("a "), "who runs it is named: {error}");
    let task = b.schedule(vec![tick]);
    a.signal(Signal::KILL);
    let killed = Instant::now();
    let lost = wait_for_run(&store, "tick", JobOutcome::Lost).await;
    assert_eq!(lost.node, "a");
    let next = wait_for_run(&store, "tick", JobOutcome::Done).await;
    assert_eq!(next.node, "b");
    println!(
        "free again {:?} after the kill, with a lease of {:?}",
        killed.elapsed(),
        TIMING.lease
    );
    b.stop.cancel();
    task.await.unwrap();
}

/// It is paused while it runs, so no later run finds that.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_paused_job_is_lost_with_its_node() {
    let server = TestRedis::start();
    let files = tempfile::tempdir().unwrap();
    let store = crate::world::open_sqlite(files.path()).await;
    let (_a, a) = process("a", &server, files.path(), "endless");
    wait_for_run(&store, "tick", JobOutcome::Running).await;
    store.pause_job("tick", true, Millis::now()).await.unwrap();
    let b = JobNode::new(&Redis::from_url(&server.url()).unwrap(), &store, "b");
    let task = b.schedule(vec![job("tick", "every 1s", tick(&Arc::default()))]);
    a.signal(Signal::KILL);
    assert_eq!(wait_for_run(&store, "tick", JobOutcome::Lost).await.node, "a");
    assert_eq!(store.runs(Some("tick"), 9).await.unwrap().len(), 1, "it stays paused");
    b.stop.cancel();
    task.await.unwrap();
}
