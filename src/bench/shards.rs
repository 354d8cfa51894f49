//! One sale over shards: what a shard costs Redis, what a move of pieces costs, and a simulation of what cannot be measured
//! on one machine.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use redis::{InfoDict, cmd};
use seckill_engine::{
    EngineError, LoadTest, admission::Admission, deployment::Deployment, orders::vouchers::Vouchers,
};
use seckill_model::{
    Label, Message, Outcome, SaleShard, ShardId, UserId, VoucherId, reason, sale::Spread as Shards,
};
use seckill_redis::{Redis, RedisError};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

pub use crate::simulation::Simulated;
use crate::{
    rounds::in_turns,
    rush::{buy, load_test},
    setup::{self, Bench, failed, not_admitted},
    simulation::{Case, simulate},
    spread::Spread,
};

/// Numbers of shards that are measured; 1 is an ordinary sale.
const SHARDS: [u16; 4] = [1, 2, 4, 8];
/// Shards of the sale whose pieces move.
const MOVING: u16 = 8;
/// Moves that are timed alone.
const TIMED: u32 = 20;
/// Requests in flight of the skewed buyers.
const IN_FLIGHT: usize = 512;
/// Timeout of a skewed buyer's request.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
/// Pause of a buyer who was refused as busy.
const BUSY: Duration = Duration::from_millis(1);
/// Of the simulation.
const SEED: u64 = 1;

/// Parameters.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Buyers of each measurement.
    pub users: u64,
    /// Rounds, after one that does not count.
    pub rounds: u64,
}

/// Results; the keys are a contract of `bench shards --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Buyers of each measurement.
    pub users: u64,
    /// Rounds.
    pub rounds: u64,
    /// From one shard to the most, all on the same Redis.
    pub costs: Vec<Cost>,
    /// A sale that was sold out by skewed buyers.
    pub moves: Moves,
    /// Computed from these: the capacity of one shard, and the time of a move.
    pub simulated: Vec<Simulated>,
    /// Redis used.
    pub redis: String,
    /// Database used.
    pub database: String,
}

/// What a sale over this many shards costs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cost {
    /// Number of shards.
    pub shards: u16,
    /// Buyers admitted per second.
    pub per_second: Spread,
    /// CPU seconds of the Redis server per million admitted buyers.
    pub cpu_per_million: Spread,
    /// Computed: throughput on as many servers with a core each, divided by that of one shard. The number of shards times
    /// the CPU time of one in a round, divided by that of these in the same round.
    pub on_servers: Spread,
}

/// A single figure as a spread, for a chart.
#[must_use]
pub fn single(figure: f64) -> Spread {
    Spread::of(vec![figure])
}

/// Moves of pieces between shards.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Moves {
    /// Number of shards. Four of five buyers belong to the first.
    pub shards: u16,
    /// Pieces, all of which were sold.
    pub stock: u64,
    /// Times that a shard gave or received pieces until all were sold out; a move does so to two or more.
    pub changes: u64,
    /// Pieces that the shards had gained since the start at the end.
    pub gained: u64,
    /// 99th percentile of an admitted buyer's wait, in milliseconds, while 512 requests are in flight.
    pub p99_ms: f64,
    /// Longest wait, in milliseconds.
    pub max_ms: f64,
    /// Milliseconds of a move without load.
    pub move_ms: f64,
}

/// Measures the numbers of shards in turns, then the moves, simulates the rest, and cleans up.
///
/// # Errors
/// The servers are in use or unavailable, a reply or a count was wrong, or `stop` was cancelled.
pub async fn run(
    deployment: Deployment,
    plan: Plan,
    stop: &CancellationToken,
) -> Result<Report, EngineError> {
    setup::run(deployment, Vec::new(), stop, async |bench| measure(bench, plan).await).await
}

async fn measure(bench: &mut Bench, plan: Plan) -> Result<Report, EngineError> {
    let measure = async |shards| of_shards(bench, shards, plan.users).await;
    let figures = in_turns(plan.rounds, SHARDS, measure).await?;
    let (mut costs, mut one) = (Vec::<Cost>::new(), None);
    for (shards, rounds) in SHARDS.into_iter().zip(figures) {
        let (per_second, cpu): (Vec<_>, Vec<_>) = rounds.into_iter().unzip();
        let with_one = one.get_or_insert_with(|| cpu.clone());
        let on_servers = with_one.iter().zip(&cpu).map(|(one, cpu)| f64::from(shards) * one / cpu);
        costs.push(Cost {
            shards,
            on_servers: Spread::of(on_servers.collect()),
            per_second: Spread::of(per_second),
            cpu_per_million: Spread::of(cpu),
        });
    }
    let moves = skewed(bench, plan.users).await?;
    let per_second = costs.first().map_or(1.0, |one| one.per_second.median);
    let mut simulated = Vec::new();
    for shards in [8, 64, 256, 1_000] {
        for buyers in [1_000_000, 1_000_000_000] {
            for skewed in [false, true] {
                let move_seconds = moves.move_ms / 1_000.0;
                let case = Case { shards, buyers, skewed, per_second, move_seconds };
                simulated.push(simulate(case, SEED));
                tokio::task::yield_now().await;
            }
        }
    }
    Ok(Report {
        users: plan.users,
        rounds: plan.rounds,
        costs,
        moves,
        simulated,
        redis: bench.deployment.redis.address().to_owned(),
        database: bench.deployment.store.describe(),
    })
}

/// Buyers admitted per second, and CPU seconds of Redis per million of them. No shard runs dry.
async fn of_shards(bench: &mut Bench, shards: u16, users: u64) -> Result<(f64, f64), EngineError> {
    let voucher = bench.sale_over(Label("bench-rush-sale"), 2 * users, shards).await?;
    let node = bench.node();
    let admission = node.admission();
    buy(&admission, voucher, 1..=1).await?;
    let before = cpu_seconds(&bench.deployment.redis).await?;
    // As many requests in flight for each shard: batches are as large as with one shard on one server.
    let plan = load_test(voucher, users);
    let plan = LoadTest { concurrency: plan.concurrency * usize::from(shards), ..plan };
    let report = node.load(&admission, &plan).await?;
    let cpu = cpu_seconds(&bench.deployment.redis).await? - before;
    if report.admitted != users {
        return Err(not_admitted(users, report.admitted, &report));
    }
    node.stop().await;
    check(bench, voucher, users + 1, 0).await?;
    bench.clear().await?;
    Ok((report.per_second, cpu * 1e6 / users as f64))
}

/// CPU time of the server since its start, in seconds.
///
/// Source: <https://redis.io/docs/latest/commands/info/>, section CPU
async fn cpu_seconds(redis: &Redis) -> Result<f64, EngineError> {
    let info: InfoDict = redis.connection().query(cmd("INFO").arg("cpu")).await?;
    let of = |key| info.get::<f64>(key).ok_or(RedisError::Reply(None));
    Ok(of("used_cpu_user")? + of("used_cpu_sys")?)
}

/// Audits each shard, and compares the sums with those of the replies.
async fn check(
    bench: &Bench,
    voucher: VoucherId,
    admitted: u64,
    persisted: u64,
) -> Result<(), EngineError> {
    let line = bench.audit(voucher).await?;
    let (found, written) = (line.admitted, line.persisted);
    if (found, written) != (admitted, persisted) {
        return Err(failed(reason!("bench-rush-wrong", admitted, persisted, found, written)));
    }
    Ok(())
}

/// Sells out a sale to twice as many buyers as it has pieces.
async fn skewed(bench: &mut Bench, users: u64) -> Result<Moves, EngineError> {
    let stock = users / 2;
    let voucher = bench.sale_over(Label("bench-rush-sale"), stock, MOVING).await?;
    let node = bench.node();
    node.consume();
    let admission = node.admission();
    buy(&admission, voucher, 1..=1).await?;
    let move_ms = time_moves(bench, voucher).await?;
    let before = bench.deployment.store.shards_of(voucher).await?;
    let (spread, admission) = (Shards { sale: voucher.into(), count: MOVING }, &admission);
    let answers: Vec<Option<Duration>> = stream::iter(skewed_users(spread, users))
        .map(|user| ask(admission, voucher, user))
        .buffer_unordered(IN_FLIGHT)
        .collect::<Vec<_>>()
        .await
        .into_iter()
        .collect::<Result<_, _>>()?;
    bench.drained(Instant::now()).await?;
    node.stop().await;
    check(bench, voucher, stock, stock).await?;
    let mut waits: Vec<Duration> = answers.into_iter().flatten().collect();
    // One piece was sold before.
    let admitted = waits.len() as u64 + 1;
    let after = bench.deployment.store.shards_of(voucher).await?;
    let left: u64 = after.iter().map(|shard| shard.stock).sum();
    if admitted != stock || left > 0 {
        let (orders, why) = (stock, String::new());
        return Err(failed(reason!("bench-not-admitted", orders, admitted, why)));
    }
    bench.clear().await?;
    waits.sort_unstable();
    let ms = |at: usize| waits.get(at).map_or(0.0, |wait| wait.as_secs_f64() * 1e3);
    let version = |shards: &[SaleShard]| shards.iter().map(|shard| shard.version).sum::<u64>();
    let gained =
        before.iter().zip(&after).map(|(one, other)| other.initial.saturating_sub(one.initial));
    Ok(Moves {
        shards: MOVING,
        stock,
        changes: version(&after) - version(&before),
        gained: gained.sum(),
        p99_ms: ms(waits.len() * 99 / 100),
        max_ms: ms(waits.len().saturating_sub(1)),
        move_ms,
    })
}

/// Milliseconds of a move of one piece, to a shard and back in turns.
async fn time_moves(bench: &Bench, voucher: VoucherId) -> Result<f64, EngineError> {
    let shard = |number| ShardId { sale: voucher.into(), number };
    let mut servers = bench.deployment.servers();
    let mut vouchers = Vouchers { servers: &mut servers };
    let (mut from, mut to, begun) = (shard(1), shard(2), Instant::now());
    for _ in 0..TIMED {
        vouchers.move_pieces(&[(from, 1)], &[(to, 1)]).await?;
        (from, to) = (to, from);
    }
    Ok(begun.elapsed().as_secs_f64() * 1e3 / f64::from(TIMED))
}

/// Users of whom four of five belong to the first shard.
fn skewed_users(spread: Shards, users: u64) -> impl Iterator<Item = UserId> {
    let of = move |is_first| {
        let is_of = move |user: &UserId| (spread.of_user(*user).number == 1) == is_first;
        (1..).map(UserId).filter(is_of)
    };
    let (mut hot, mut cold) = (of(true), of(false));
    (0..users).filter_map(move |at| if at % 5 == 0 { cold.next() } else { hot.next() })
}

/// The wait of an admitted buyer; `None` if the sale was sold out. A busy node is asked again.
async fn ask(
    admission: &Admission,
    voucher: VoucherId,
    user: UserId,
) -> Result<Option<Duration>, EngineError> {
    let begun = Instant::now();
    while begun.elapsed() < ANSWERED_WITHIN {
        let why = match admission.request(voucher, user).answer().await.outcome {
            Ok(Outcome::Admitted { .. }) => return Ok(Some(begun.elapsed())),
            Ok(Outcome::SoldOut) => return Ok(None),
            Ok(Outcome::Busy) => String::new(),
            Ok(outcome) => Message::of(&outcome).to_string(),
            Err(error) => error.to_string(),
        };
        if !why.is_empty() {
            return Err(unanswered(why));
        }
        tokio::time::sleep(BUSY).await;
    }
    Err(unanswered(Message::of(&Outcome::Busy).to_string()))
}

fn unanswered(why: String) -> EngineError {
    failed(reason!("bench-not-admitted", orders = 1_u64, admitted = 0_u64, why))
}

#[cfg(test)]
mod tests {
    use seckill_model::SaleId;

    use super::*;

    #[test]
    fn four_of_five_users_belong_to_one_shard() {
        let spread = Shards { sale: SaleId(7), count: MOVING };
        let users: Vec<UserId> = skewed_users(spread, 100).collect();
        let hot = users.iter().filter(|user| spread.of_user(**user).number == 1).count();
        assert_eq!((users.len(), hot), (100, 80));
    }
}
