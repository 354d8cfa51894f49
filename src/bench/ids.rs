//! Order IDs per second, and the round trips that they cost: the engine's worker, which leases ranges, compared with the
//! tutorial's INCR for each ID, in turns on the same Redis.

use std::time::{Duration, Instant};

use redis::{InfoDict, RedisError as DriverError, aio::MultiplexedConnection, cmd};
use seckill_engine::{EngineError, deployment::Deployment, orders::ids::IdWorker};
use seckill_model::{Millis, OrderId, reason};
use seckill_redis::RedisError;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    rounds::in_turns,
    setup::{self, Bench, failed},
    spread::Spread,
    tutorial,
};

/// Tasks that are tried for the tutorial; each waits for its reply before it asks for the next ID.
const TASKS: [usize; 4] = [16, 64, 256, 1_024];

/// Parameters.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// IDs of each side in each round.
    pub ids: u64,
    /// Rounds, after one that does not count.
    pub rounds: u64,
}

/// Results; the keys are a contract of `bench ids --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// IDs of each side in each round.
    pub ids: u64,
    /// Rounds.
    pub rounds: u64,
    /// The engine's worker, in the batches of admission.
    pub seckill: Side,
    /// INCR for each ID, over one multiplexed connection.
    pub tutorial: Side,
    /// Tasks for which that was fastest.
    pub tasks: usize,
    /// IDs per second of the engine divided by those of the tutorial.
    pub ratio: f64,
    /// IDs in one batch of the engine.
    pub batch: usize,
    /// Redis used by both.
    pub redis: String,
}

/// One side over the rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Side {
    /// IDs per second.
    pub per_second: Spread,
    /// Calls of Redis in a round, as Redis counts them.
    pub round_trips: Spread,
}

impl Side {
    fn of(rounds: &[Sample]) -> Self {
        let spread = |of: fn(&Sample) -> f64| Spread::of(rounds.iter().map(of).collect());
        Self { per_second: spread(|it| it.per_second), round_trips: spread(|it| it.round_trips) }
    }
}

/// One side in one round.
#[derive(Clone, Copy)]
struct Sample {
    per_second: f64,
    round_trips: f64,
}

#[derive(Clone, Copy)]
enum Way {
    Seckill,
    Tutorial,
}

/// Measures both sides in turns, and cleans up.
///
/// # Errors
/// The servers are in use or unavailable, an ID occurred twice, or `stop` was cancelled.
pub async fn run(
    deployment: Deployment,
    plan: Plan,
    stop: &CancellationToken,
) -> Result<Report, EngineError> {
    let key = tutorial::keys(&deployment.redis).plain_counter();
    setup::run(deployment, vec![key.clone()], stop, async |bench| measure(bench, key, plan).await)
        .await
}

async fn measure(bench: &Bench, key: String, plan: Plan) -> Result<Report, EngineError> {
    let Deployment { redis, keys, settings, .. } = &bench.deployment;
    let (all, batch) = (plan.ids as usize, settings.admission_batch);
    let (mut conn, mut worker) = (redis.connection(), IdWorker::new(keys.home()));
    let connection = redis.connection().multiplexed(&key).await?;
    let counter = Counter { connection, key, address: redis.address().to_owned() };
    let (mut last_of_seckill, mut last_of_tutorial) = (None, None);
    let (mut tasks, mut fastest) = (1, Duration::MAX);
    for count in TASKS {
        let begun = Instant::now();
        let ids = counter.issue(all / TASKS.len(), count).await?;
        if begun.elapsed() < fastest {
            (tasks, fastest) = (count, begun.elapsed());
        }
        check(ids, &mut last_of_tutorial)?;
    }
    let measure = async |way| {
        let command = match way {
            Way::Seckill => "evalsha",
            Way::Tutorial => "incr",
        };
        let before = counter.calls(command).await?;
        let begun = Instant::now();
        let (ids, last) = match way {
            Way::Seckill => {
                let mut ids = Vec::with_capacity(all);
                while ids.len() < all {
                    ids.extend(worker.issue(&mut conn, batch.min(all - ids.len())).await?);
                }
                (ids, &mut last_of_seckill)
            }
            Way::Tutorial => (counter.issue(all, tasks).await?, &mut last_of_tutorial),
        };
        let per_second = all as f64 / begun.elapsed().as_secs_f64().max(1e-6);
        let round_trips = (counter.calls(command).await? - before) as f64;
        check(ids, last)?;
        Ok(Sample { per_second, round_trips })
    };
    let ways = [Way::Seckill, Way::Tutorial];
    let [seckill, tutorial] = in_turns(plan.rounds, ways, measure).await?.map(|it| Side::of(&it));
    Ok(Report {
        ids: plan.ids,
        rounds: plan.rounds,
        ratio: seckill.per_second.ratio(&tutorial.per_second),
        seckill,
        tutorial,
        tasks,
        batch,
        redis: redis.address().to_owned(),
    })
}

/// Checks that the IDs of a round are unique, and larger than those of the rounds before.
fn check(mut ids: Vec<OrderId>, last: &mut Option<OrderId>) -> Result<(), EngineError> {
    ids.sort_unstable();
    let unique = ids.is_sorted_by(|id, next| id < next);
    if !unique || last.is_some_and(|last| ids.first().is_none_or(|first| *first <= last)) {
        return Err(failed(reason!("bench-ids-repeated")));
    }
    *last = ids.last().copied();
    Ok(())
}

/// The counter of the tutorial.
struct Counter {
    connection: MultiplexedConnection,
    key: String,
    address: String,
}

impl Counter {
    /// Issues IDs as the tutorial does: a second, and INCR.
    async fn issue(&self, count: usize, tasks: usize) -> Result<Vec<OrderId>, EngineError> {
        let mut running = JoinSet::new();
        for task in 0..tasks {
            let (mut connection, key) = (self.connection.clone(), self.key.clone());
            let share = count / tasks + usize::from(task < count % tasks);
            running.spawn(async move {
                let mut ids = Vec::with_capacity(share);
                for _ in 0..share {
                    let second = Millis::now().0 / 1_000;
                    let number = cmd("INCR").arg(&key).query_async(&mut connection).await?;
                    ids.push((second, number));
                }
                Ok::<_, DriverError>(ids)
            });
        }
        let mut ids = Vec::with_capacity(count);
        for issued in running.join_all().await {
            for (second, number) in issued.map_err(|error| self.failed(&error))? {
                ids.push(OrderId::new(second, number).map_err(failed)?);
            }
        }
        Ok(ids)
    }

    /// How often Redis has run a command.
    async fn calls(&self, command: &str) -> Result<u64, EngineError> {
        let mut read = cmd("INFO");
        read.arg("commandstats");
        let info = read.query_async::<InfoDict>(&mut self.connection.clone()).await;
        let info = info.map_err(|error| self.failed(&error))?;
        // calls=5,usec=9,…
        let line: String = info.get(&format!("cmdstat_{command}")).unwrap_or_default();
        let calls = line.split(',').find_map(|field| field.strip_prefix("calls=")?.parse().ok());
        Ok(calls.unwrap_or_default())
    }

    fn failed(&self, error: &DriverError) -> EngineError {
        RedisError::from_redis(error, &self.address).into()
    }
}
