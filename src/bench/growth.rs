//! Growth: orders written per second beside more and more rows, by the engine's consumer and by inserts of the same rows,
//! in turns on the same database. Each measurement has a sale of its own.

use seckill_engine::{EngineError, deployment::Deployment};
use seckill_model::Label;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{
    persist::{insert, of_seckill, only_inserted, rates},
    rounds::in_turns,
    rush::load_test,
    setup::{self, Bench},
    spread::Spread,
};

/// Rows that are added at once between the measurements.
const FILL: usize = 100_000;

/// Parameters.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rows in the table at the first measurement. The next ones have ten times as many each.
    pub first: u64,
    /// Rows at the last measurement.
    pub rows: u64,
    /// Orders of each side in each round.
    pub orders: u64,
    /// Rounds at each size, after one that does not count.
    pub rounds: u64,
}

impl Plan {
    fn sizes(self) -> impl Iterator<Item = u64> {
        let sizes = std::iter::successors(Some(self.first), |size| size.checked_mul(10));
        sizes.take_while(move |size| *size < self.rows).chain([self.rows])
    }
}

/// Results; the keys are a contract of `bench growth --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Orders of each side in each round.
    pub orders: u64,
    /// Rounds at each size.
    pub rounds: u64,
    /// From the smallest table to the largest.
    pub sizes: Vec<Size>,
    /// Redis used by the engine.
    pub redis: String,
    /// Database used by both.
    pub database: String,
}

/// Both sides at one size of the table.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Size {
    /// Rows that this run had written before the measurement.
    pub rows: u64,
    /// Orders per second of the engine's consumer.
    pub seckill: Spread,
    /// Rows per second that were only inserted.
    pub inserted: Spread,
    /// The engine's median divided by that of the inserts.
    pub ratio_inserted: f64,
    /// The engine's median divided by that of the first size.
    pub ratio_first: f64,
    /// The same of the inserts.
    pub ratio_first_inserted: f64,
    /// Bytes of a row with its indexes, after the measurement.
    pub bytes_per_row: f64,
}

#[derive(Clone, Copy)]
enum Side {
    Seckill,
    Inserted,
}

/// Measures both sides in turns at each size, and cleans up; the rows stay.
///
/// # Errors
/// The servers are in use or unavailable, an order was lost or duplicated, or `stop` was cancelled.
pub async fn run(
    deployment: Deployment,
    plan: Plan,
    stop: &CancellationToken,
) -> Result<Report, EngineError> {
    setup::run(deployment, Vec::new(), stop, async |bench| measure(bench, plan).await).await
}

async fn measure(bench: &mut Bench, plan: Plan) -> Result<Report, EngineError> {
    let empty = bench.deployment.store.order_bytes().await?;
    let filled = bench.sql_sale(Label("bench-inserted-sale"), plan.rows).await?;
    // Archived before it has orders: a node that starts restores the buyers of a sale that is not.
    bench.clear().await?;
    let buyers = load_test(filled, plan.rows).arrivals();
    let (mut buyers, mut rows, mut sizes) = (buyers.as_slice(), 0, Vec::<Size>::new());
    for size in plan.sizes() {
        let (fill, later) = buyers.split_at((size.saturating_sub(rows) as usize).min(buyers.len()));
        for part in fill.chunks(FILL) {
            insert(bench, filled, part).await?;
        }
        (buyers, rows) = (later, rows + fill.len() as u64);
        let measure = async |side| match side {
            Side::Seckill => of_seckill(bench, plan.orders, false).await,
            Side::Inserted => only_inserted(bench, plan.orders).await,
        };
        let sides = [Side::Seckill, Side::Inserted];
        let [seckill, inserted] =
            in_turns(plan.rounds, sides, measure).await?.map(|it| rates(plan.orders, &it));
        let written = rows + 2 * (plan.rounds + 1) * plan.orders;
        let bytes = bench.deployment.store.order_bytes().await?.saturating_sub(empty);
        let first = sizes.first().map_or((seckill, inserted), |it| (it.seckill, it.inserted));
        sizes.push(Size {
            rows,
            ratio_inserted: seckill.ratio(&inserted),
            ratio_first: seckill.ratio(&first.0),
            ratio_first_inserted: inserted.ratio(&first.1),
            seckill,
            inserted,
            bytes_per_row: bytes as f64 / written as f64,
        });
        rows = written;
    }
    Ok(Report {
        orders: plan.orders,
        rounds: plan.rounds,
        sizes,
        redis: bench.deployment.redis.address().to_owned(),
        database: bench.deployment.store.describe(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_grow_tenfold_up_to_the_last() {
        let sizes =
            |first, rows| Plan { first, rows, orders: 1, rounds: 1 }.sizes().collect::<Vec<_>>();
        assert_eq!(sizes(100, 10_000), [100, 1_000, 10_000]);
        assert_eq!(sizes(100, 2_000), [100, 1_000, 2_000]);
        assert_eq!(sizes(100, 100), [100]);
    }
}
