//! Locks compared with a baseline: SET NX PX, a Lua release, and polling every few milliseconds. Also the cost of a
//! lock over several independent servers.

use std::time::{Duration, Instant};

use futures::future::join_all;
use hdrhistogram::Histogram;
use seckill_engine::{
    EngineError, LockName,
    locks::{Guard, Locks, MultiGuard, MultiLock, Timing},
    telemetry::meters::histogram,
};
use seckill_redis::{HOME, Layout, Redis};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{plain_lock::PlainLock, rounds::in_turns, spread::Spread};

/// Polling interval of the baseline.
const PLAIN_POLL: Duration = Duration::from_millis(10);

/// Parameters.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Duration of each of the three measurements of an implementation, in each round.
    pub each: Duration,
    /// Tasks with one lock each.
    pub tasks: usize,
    /// Tasks that share one lock.
    pub waiting: usize,
    /// Rounds, after one that does not count.
    pub rounds: u64,
}

/// Results of one implementation.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Acquisitions per second, one task.
    pub alone_per_second: Spread,
    /// The same with many tasks, each with its own lock.
    pub many_per_second: Spread,
    /// Hand-over latency in microseconds, from the release to the next acquisition: median.
    pub hand_over_p50_us: Spread,
    /// 99th percentile.
    pub hand_over_p99_us: Spread,
    /// Measured hand-overs.
    pub hand_overs: u64,
}

/// An implementation in one round.
struct Sample {
    alone: f64,
    many: f64,
    hand_overs: Histogram<u64>,
}

impl Figures {
    fn of(rounds: &[Sample]) -> Self {
        let spread = |of: fn(&Sample) -> f64| Spread::of(rounds.iter().map(of).collect());
        Self {
            alone_per_second: spread(|it| it.alone),
            many_per_second: spread(|it| it.many),
            hand_over_p50_us: spread(|it| it.hand_overs.value_at_quantile(0.5) as f64),
            hand_over_p99_us: spread(|it| it.hand_overs.value_at_quantile(0.99) as f64),
            hand_overs: rounds.iter().map(|it| it.hand_overs.len()).sum(),
        }
    }
}

/// Maximum wait for a lock: with many servers, attempts often fail.
const WAIT: Duration = Duration::from_mins(1);
/// How long a lock is held in a hand-over: all tasks wait before the first one acquires it.
const HOLD: Duration = Duration::from_millis(1);

/// All results; the keys are a contract of `bench locks --json`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Report {
    /// Rounds.
    pub rounds: u64,
    /// SET NX PX with a Lua release.
    pub plain: Figures,
    /// The reentrant lock with watchdog, tokens and lock index.
    pub reentrant: Figures,
    /// The same over several independent servers, all of which must grant it.
    pub multilock: Figures,
    /// Number of these servers.
    pub servers: usize,
}

#[derive(Clone, Copy)]
enum Side {
    Plain,
    Reentrant,
    MultiLock,
}

/// Measures the implementations in turns: on `redis`, and over the independent `servers`.
///
/// # Errors
/// Redis is unavailable, or a server is named twice.
pub async fn run(redis: &Redis, servers: &[Redis], plan: Plan) -> Result<Report, EngineError> {
    let stop = CancellationToken::new();
    let (mut locks, watchdogs): (Vec<Locks>, Vec<_>) = std::iter::once(redis)
        .chain(servers)
        .map(|redis| {
            let (locks, watchdog) =
                Locks::new(redis, Layout::default(), "bench", Timing::default());
            (locks, tokio::spawn(watchdog.run(stop.clone())))
        })
        .unzip();
    let reentrant = locks.remove(0);
    let measuring = async {
        let plain = PlainLock::connect(redis).await?;
        let multilock = MultiLock::new(locks)?;
        let one = async |side| match side {
            Side::Plain => {
                let acquire = async |name: &LockName| {
                    plain.acquire(format!("plain:{HOME}:{name}"), PLAIN_POLL).await
                };
                measure(plan, acquire, async |held| plain.release(held).await).await
            }
            Side::Reentrant => {
                let acquire = async |name: &LockName| reentrant.try_for(name, "bench", WAIT).await;
                measure(plan, acquire, async |held: Guard| held.release().await.map(drop)).await
            }
            Side::MultiLock => {
                let acquire = async |name: &LockName| multilock.try_for(name, "bench", WAIT).await;
                measure(plan, acquire, async |held: MultiGuard| held.release().await).await
            }
        };
        let sides = [Side::Plain, Side::Reentrant, Side::MultiLock];
        let [plain, reentrant, multi] =
            in_turns(plan.rounds, sides, one).await?.map(|rounds| Figures::of(&rounds));
        let (rounds, servers) = (plan.rounds, multilock.servers());
        Ok(Report { rounds, plain, reentrant, multilock: multi, servers })
    };
    let report = measuring.await;
    stop.cancel();
    join_all(watchdogs).await;
    report
}

/// Measures an implementation by its calls: `acquire` waits until it holds the lock.
async fn measure<H, E>(
    plan: Plan,
    acquire: impl AsyncFn(&LockName) -> Result<H, E>,
    release: impl AsyncFn(H) -> Result<(), E>,
) -> Result<Sample, EngineError>
where
    EngineError: From<E>,
{
    // Acquires and releases a lock; returns when it did so.
    let turn = async |name: &LockName, hold: Duration| {
        let held = acquire(name).await?;
        let acquired = Instant::now();
        if !hold.is_zero() {
            tokio::time::sleep(hold).await;
        }
        let released = Instant::now();
        release(held).await?;
        Ok::<_, EngineError>((acquired, released))
    };
    // Acquisitions per second by concurrent tasks, each with its own lock.
    let rate = async |tasks: usize| {
        let begun = Instant::now();
        let work = (0..tasks).map(async |task| {
            let name = LockName::new(format!("bench:{task}"))?;
            let mut done = 0u64;
            while begun.elapsed() < plan.each {
                turn(&name, Duration::ZERO).await?;
                done += 1;
            }
            Ok::<u64, EngineError>(done)
        });
        let done: u64 = join_all(work).await.into_iter().sum::<Result<u64, EngineError>>()?;
        Ok::<f64, EngineError>(done as f64 / begun.elapsed().as_secs_f64())
    };
    // Many tasks wait for one lock, and each acquires it once: the microseconds from the release call to the next
    // acquisition.
    let mut hand_overs = histogram();
    let (name, until) = (LockName::new("bench:shared")?, Instant::now() + plan.each);
    while Instant::now() < until {
        let turns = join_all((0..plan.waiting).map(|_| turn(&name, HOLD))).await;
        let mut turns: Vec<_> = turns.into_iter().collect::<Result<_, _>>()?;
        turns.sort_unstable();
        for pair in turns.windows(2) {
            if let [(_, released), (acquired, _)] = pair {
                let took = acquired.saturating_duration_since(*released);
                hand_overs.saturating_record(took.as_micros() as u64);
            }
        }
    }
    Ok(Sample { alone: rate(1).await?, many: rate(plan.tasks).await?, hand_overs })
}
