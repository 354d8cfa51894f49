//! Locks compared with a baseline: SET NX PX, a Lua release, and polling every few milliseconds. Also the cost of a
//! lock over several independent servers.

use std::time::{Duration, Instant};

use futures::future::join_all;
use hdrhistogram::Histogram;
use redis::{ExistenceCheck, Script, SetExpiry, SetOptions, aio::MultiplexedConnection};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use seckill_engine::{
    EngineError,
    locks::{LockName, Locks, MultiLock, Timing},
};
use seckill_redis::{HOME, Layout, Redis, RedisError};

/// Polling interval of the baseline.
const PLAIN_POLL: Duration = Duration::from_millis(10);
pub(super) const PLAIN_LEASE_MS: u64 = 30_000;
pub(super) const PLAIN_RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

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

/// Timeout for the multi-server lock: with many servers, attempts often fail.
const MULTI_WAIT: Duration = Duration::from_mins(1);

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
    let (mut kept, mut keeping): (Vec<Locks>, Vec<_>) = std::iter::once(redis)
        .chain(servers)
        .map(|redis| {
            let (locks, keeper) = Locks::new(redis, Layout::default(), "bench", Timing::default());
            (locks, tokio::spawn(keeper.run(stop.clone())))
        })
        .unzip();
    let locks = kept.remove(0);
    let measuring = async {
        let plain = Plain { connection: redis.connection().multiplexed(HOME).await? };
        measure(&locks, &MultiLock::new(kept)?, &plain, plan).await
    };
    let report = measuring.await;
    stop.cancel();
    for keeper in keeping.drain(..) {
        // It ends with its token; the measurement is complete.
        let _ = keeper.await;
    }
    report
}

async fn measure(
    locks: &Locks,
    multi: &MultiLock,
    plain: &Plain,
    plan: Plan,
) -> Result<Report, EngineError> {
    let wide = |name: LockName| async move {
        multi.try_for(&name, "bench", Some(MULTI_WAIT), None).await?.release().await?;
        Ok(())
    };
    let ours = |name: LockName| async move {
        locks.try_lock(&name, "bench", None).await?.release().await?;
        Ok(())
    };
    let theirs = |name: LockName| async move {
        if let Some(owner) = plain.take(&name).await? {
            plain.give_back(&name, &owner).await?;
        }
        Ok(())
    };
    let (plain_p50, plain_p99, plain_n) = hand_over(plan, |name| plain.turn(name)).await?;
    let (p50, p99, n) = hand_over(plan, |name| turn(locks, name)).await?;
    let (multi_p50, multi_p99, multi_n) = hand_over(plan, |name| multi_turn(multi, name)).await?;
    Ok(Report {
        plain: Figures {
            alone_per_second: rate(plan.each, 1, theirs).await?,
            many_per_second: rate(plan.each, plan.tasks, theirs).await?,
            hand_over_p50_us: plain_p50,
            hand_over_p99_us: plain_p99,
            hand_overs: plain_n,
        },
        reentrant: Figures {
            alone_per_second: rate(plan.each, 1, ours).await?,
            many_per_second: rate(plan.each, plan.tasks, ours).await?,
            hand_over_p50_us: p50,
            hand_over_p99_us: p99,
            hand_overs: n,
        },
        multilock: Figures {
            alone_per_second: rate(plan.each, 1, wide).await?,
            many_per_second: rate(plan.each, plan.tasks, wide).await?,
            hand_over_p50_us: multi_p50,
            hand_over_p99_us: multi_p99,
            hand_overs: multi_n,
        },
        servers: multi.servers(),
    })
}

/// Calls of `once` per second by `tasks` concurrent tasks, each with its own lock.
async fn rate<F>(
    each: Duration,
    tasks: usize,
    once: impl Fn(LockName) -> F,
) -> Result<f64, EngineError>
where
    F: Future<Output = Result<(), EngineError>>,
{
    let begun = Instant::now();
    let work = (0..tasks).map(async |task| {
        let name = LockName::new(format!("bench:{task}"))?;
        let mut done = 0u64;
        while begun.elapsed() < each {
            once(name.clone()).await?;
            done += 1;
        }
        Ok::<u64, EngineError>(done)
    });
    let done: u64 = join_all(work).await.into_iter().sum::<Result<u64, EngineError>>()?;
    Ok(done as f64 / begun.elapsed().as_secs_f64())
}

/// When the lock was acquired and released.
type Turn = (Instant, Instant);

/// Many tasks wait for one lock, and each acquires it once. Returns the median, the 99th percentile and the number of
/// hand-overs, from the release call to the next acquisition.
async fn hand_over<F>(
    plan: Plan,
    turn: impl Fn(LockName) -> F,
) -> Result<(u64, u64, u64), EngineError>
where
    F: Future<Output = Result<Turn, EngineError>>,
{
    let mut seen = Histogram::<u64>::new_with_bounds(1, 60_000_000, 3)
        .map_err(|error| EngineError::Plan(error.to_string()))?;
    let until = Instant::now() + plan.each;
    while Instant::now() < until {
        let name = LockName::new("bench:shared")?;
        let turns = join_all((0..plan.waiting).map(|_| turn(name.clone()))).await;
        let mut turns: Vec<Turn> = turns.into_iter().collect::<Result<_, _>>()?;
        turns.sort_unstable();
        for pair in turns.windows(2) {
            if let [(_, given_back), (got, _)] = pair {
                let took = got.saturating_duration_since(*given_back);
                seen.saturating_record(took.as_micros() as u64);
            }
        }
    }
    Ok((seen.value_at_quantile(0.5), seen.value_at_quantile(0.99), seen.len()))
}

/// All tasks wait before the first one acquires it, because a turn is short.
const HOLD: Duration = Duration::from_millis(1);

async fn turn(locks: &Locks, name: LockName) -> Result<Turn, EngineError> {
    let guard = locks.lock(&name, "bench", None).await?;
    let got = Instant::now();
    tokio::time::sleep(HOLD).await;
    let given_back = Instant::now();
    guard.release().await?;
    Ok((got, given_back))
}

async fn multi_turn(multi: &MultiLock, name: LockName) -> Result<Turn, EngineError> {
    let guard = multi.try_for(&name, "bench", Some(MULTI_WAIT), None).await?;
    let got = Instant::now();
    tokio::time::sleep(HOLD).await;
    let given_back = Instant::now();
    guard.release().await?;
    Ok((got, given_back))
}

/// The baseline.
struct Plain {
    connection: MultiplexedConnection,
}

impl Plain {
    async fn take(&self, name: &LockName) -> Result<Option<String>, RedisError> {
        let owner = Uuid::new_v4().to_string();
        let options = SetOptions::default()
            .conditional_set(ExistenceCheck::NX)
            .with_expiration(SetExpiry::PX(PLAIN_LEASE_MS));
        let set = redis::Cmd::set_options(plain_key(name), &owner, options);
        let set: Option<String> = set
            .query_async(&mut self.connection.clone())
            .await
            .map_err(|error| RedisError::from_redis(&error, "the bench's server"))?;
        Ok(set.map(|_| owner))
    }

    async fn give_back(&self, name: &LockName, owner: &str) -> Result<(), RedisError> {
        let script = Script::new(PLAIN_RELEASE);
        let mut call = script.prepare_invoke();
        call.key(plain_key(name)).arg(owner);
        let _: u8 = call
            .invoke_async(&mut self.connection.clone())
            .await
            .map_err(|error| RedisError::from_redis(&error, "the bench's server"))?;
        Ok(())
    }

    async fn turn(&self, name: LockName) -> Result<Turn, EngineError> {
        let owner = loop {
            match self.take(&name).await? {
                Some(owner) => break owner,
                None => tokio::time::sleep(PLAIN_POLL).await,
            }
        };
        let got = Instant::now();
        tokio::time::sleep(HOLD).await;
        let given_back = Instant::now();
        self.give_back(&name, &owner).await?;
        Ok((got, given_back))
    }
}

fn plain_key(name: &LockName) -> String {
    format!("plain:{HOME}:{name}")
}
