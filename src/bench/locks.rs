//! Locks compared with a baseline: SET NX PX, a Lua release, and polling every few milliseconds. Also the cost of a
//! lock over several independent servers.

use std::time::{Duration, Instant};

use futures::future::join_all;
use seckill_engine::{
    EngineError, LockName,
    locks::{Guard, Locks, MultiGuard, MultiLock, Timing},
    telemetry::meters::histogram,
};
use seckill_redis::{HOME, Layout, Redis};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::plain_lock::PlainLock;

/// Polling interval of the baseline.
const PLAIN_POLL: Duration = Duration::from_millis(10);

/// Parameters.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Duration of each measurement.
    pub each: Duration,
    /// Tasks with one lock each.
    pub tasks: usize,
    /// Tasks that share one lock.
    pub waiting: usize,
}

/// Results of one implementation.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Figures {
    /// Acquisitions per second, one task.
    pub alone_per_second: f64,
    /// The same with many tasks, each with its own lock.
    pub many_per_second: f64,
    /// Hand-over latency in microseconds, from the release to the next acquisition: median.
    pub hand_over_p50_us: u64,
    /// 99th percentile.
    pub hand_over_p99_us: u64,
    /// Number of measured hand-overs.
    pub hand_overs: u64,
}

/// Maximum wait for a lock: with many servers, attempts often fail.
const WAIT: Duration = Duration::from_mins(1);
/// How long a lock is held in a hand-over: all tasks wait before the first one acquires it.
const HOLD: Duration = Duration::from_millis(1);

/// All results.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Report {
    /// SET NX PX with a Lua release.
    pub plain: Figures,
    /// The reentrant lock with watchdog, tokens and lock index.
    pub reentrant: Figures,
    /// The same over several independent servers, all of which must grant it.
    pub multilock: Figures,
    /// Number of these servers.
    pub servers: usize,
}

/// Runs the measurements in sequence: on `redis`, and over the independent `servers`.
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
        Ok(Report {
            plain: measure(
                plan,
                async |name| plain.acquire(format!("plain:{HOME}:{name}"), PLAIN_POLL).await,
                async |held| plain.release(held).await,
            )
            .await?,
            reentrant: measure(
                plan,
                async |name| reentrant.try_for(name, "bench", WAIT).await,
                async |held: Guard| held.release().await.map(drop),
            )
            .await?,
            multilock: measure(
                plan,
                async |name| multilock.try_for(name, "bench", WAIT).await,
                async |held: MultiGuard| held.release().await,
            )
            .await?,
            servers: multilock.servers(),
        })
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
) -> Result<Figures, EngineError>
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
    Ok(Figures {
        alone_per_second: rate(1).await?,
        many_per_second: rate(plan.tasks).await?,
        hand_over_p50_us: hand_overs.value_at_quantile(0.5),
        hand_over_p99_us: hand_overs.value_at_quantile(0.99),
        hand_overs: hand_overs.len(),
    })
}
