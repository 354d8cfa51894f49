//! The fault matrix: an engine with one or two faults, different for each seed, and all eight invariants of the
//! ledger afterwards, verified by an independent checker.
//!
//! `SEEDS=1000 cargo test --test matrix` runs that many, `SEED=42` one, `FROM=500` starts there, `ONLY=trimmed` runs
//! only scenarios of such faults, `AT_ONCE=2` limits the parallel ones, `SHARDS=8` spreads every
//! sale, `DATABASE=mariadb`, `mysql` or `postgres` selects it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails says where"
)]
#![allow(unreachable_pub, reason = "`pub` here means: for the other parts of this test")]

mod attach;
mod buyers;
mod check;
mod dies;
mod live;
mod plan;
mod sale_fields;
mod small_disk;
mod sql_changes;
mod stage;
#[path = "../support/mod.rs"]
mod support;
#[path = "../world/mod.rs"]
mod world;

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use plan::{Fate, Loses, Plan, Scenario};
use seckill_model::faults::Point;
use stage::ScenarioReport;

const SEEDS: u64 = 120;
/// Scenarios in parallel: they spend most of their time waiting.
const AT_ONCE: u64 = 6;
/// A scenario that takes longer hangs.
const TIME_LIMIT: Duration = Duration::from_mins(3);

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|result| result.parse().unwrap_or_else(|_| panic!("{name}={result}")))
}

async fn play(plan: &Plan) -> Result<ScenarioReport, String> {
    match &plan.scenario {
        Scenario::Live(faults) => live::run(plan, faults).await,
        Scenario::Dies(fate) => dies::run(plan, *fate).await,
    }
}

/// Every failure names the command that repeats it. Each scenario has its own runtime.
fn run(seed: u64) -> Ran {
    let plan = Plan::of(seed);
    let started = Instant::now();
    let scenario = || {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        let result =
            runtime.block_on(async { tokio::time::timeout(TIME_LIMIT, play(&plan)).await });
        runtime.shutdown_background();
        result.unwrap_or_else(|_| Err(format!("it took longer than {TIME_LIMIT:?}")))
    };
    let result = catch_unwind(AssertUnwindSafe(|| {
        if small_disk::is_needed(&plan) { small_disk::run(seed) } else { scenario() }
    }));
    let result = result.unwrap_or_else(|_| Err("it panicked, see above".to_owned()));
    if let Err(why) = &result {
        println!(
            "\nseed {seed} failed: {why}\n{plan:?}\nagain: SEED={seed} cargo test --test matrix the_ledger -- --nocapture\n"
        );
    }
    Ran { plan, result, took: started.elapsed() }
}

struct Ran {
    plan: Plan,
    result: Result<ScenarioReport, String>,
    took: Duration,
}

fn kinds(plan: &Plan) -> Vec<String> {
    match &plan.scenario {
        Scenario::Live(faults) => faults.iter().map(|(_, fault)| fault.name()).collect(),
        Scenario::Dies(Fate::DiesAt(point, _)) => vec![format!("killed at {}", point.name())],
        Scenario::Dies(Fate::WithRedis { loses, .. }) => vec![
            match loses {
                Loses::Nothing => "killed with Redis",
                Loses::Tail => "killed with Redis, its file truncated",
                Loses::Since(_) => "killed with Redis, which restarts from an older copy",
            }
            .into(),
        ],
        Scenario::Dies(Fate::Inside { .. }) => vec!["suspended inside a transaction".into()],
        Scenario::Dies(Fate::Suspended { .. }) => vec!["suspended until dead".into()],
    }
}

#[test]
fn the_ledger_balances_after_every_fault() {
    let one = number("SEED");
    let from = one.or_else(|| number("FROM")).unwrap_or(1);
    let seeds = if one.is_some() { 1 } else { number("SEEDS").unwrap_or(SEEDS) };
    let started = Instant::now();
    let mut table: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let (mut failed, mut gone, mut admitted, mut slowest) = (Vec::new(), 0, 0, (Duration::ZERO, 0));
    let (next, (ran, scenarios)) = (AtomicU64::new(from), mpsc::channel());
    let only = std::env::var("ONLY").unwrap_or_default();
    let at_once = number("AT_ONCE").unwrap_or(AT_ONCE);
    std::thread::scope(|scope| {
        for _ in 0..at_once.min(seeds) {
            let (ran, next, only) = (ran.clone(), &next, only.clone());
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + seeds {
                        return;
                    }
                    if kinds(&Plan::of(seed)).iter().any(|kind| kind.contains(&only))
                        && ran.send(run(seed)).is_err()
                    {
                        return;
                    }
                }
            });
        }
    });
    drop(ran);
    for Ran { plan, result, took } in scenarios {
        slowest = slowest.max((took, plan.seed));
        for kind in kinds(&plan) {
            let line = table.entry(kind).or_default();
            line.0 += 1;
            line.1 += u64::from(result.as_ref().is_ok_and(|result| result.struck));
        }
        match result {
            Ok(result) => {
                gone += result.gone;
                admitted += result.admitted;
            }
            Err(_) => failed.push(plan.seed),
        }
    }
    println!("{:45} scenarios  in time", "fault");
    for (kind, (all, struck)) in &table {
        println!("{kind:45} {all:7} {struck:8}");
    }
    println!(
        "{seeds} seeds from {from} on in {:.0} s, {admitted} orders promised, {gone} lost with both their servers' \
         last second; the slowest was {} with {:.1} s",
        started.elapsed().as_secs_f32(),
        slowest.1,
        slowest.0.as_secs_f32()
    );
    failed.sort_unstable();
    assert!(failed.is_empty(), "{} of {seeds} seeds failed: {failed:?}", failed.len());
    if seeds >= SEEDS && only.is_empty() && cfg!(debug_assertions) {
        for &point in Point::ALL {
            let kind = format!("killed at {}", point.name());
            let reached = table.get(&kind).is_some_and(|it| it.1 > 0);
            assert!(reached || later_reaches(&kind, from + seeds), "no buyer was {kind}");
        }
    }
}

/// A scenario can end before its fault point. Whether one of the next few scenarios of `kind` reaches it.
fn later_reaches(kind: &str, from: u64) -> bool {
    let planned = (from..).filter(|&seed| kinds(&Plan::of(seed)).iter().any(|it| it == kind));
    planned.take(10).any(|seed| {
        run(seed).result.unwrap_or_else(|why| panic!("seed {seed} failed: {why}")).struck
    })
}

/// Entry point of a child process whose temporary directory is on a small disk.
#[test]
#[ignore = "the work of a process that another test starts"]
fn a_scenario_on_a_small_disk() {
    let seed = std::env::var(small_disk::CHILD).unwrap().parse().unwrap();
    println!("{}", small_disk::line(&run(seed).result));
}

/// Entry point of a child process: the scenarios re-execute this binary.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the work of a process that another test starts"]
async fn a_process_of_the_matrix() {
    dies::be_one(&std::env::var(dies::CHILD).unwrap()).await;
}
