//! Key figures of the deployment, cheap enough to be read before and after every command.
//!
//! The audit log keeps them as one line of JSON. A figure that a server does not return in time is unknown: no command
//! waits longer for it.

use std::time::Duration;

use serde::Serialize;

use seckill_model::{Millis, SaleShard, ShardId, VoucherId, ledger::Balance};
use seckill_redis::{
    Connection, Layout,
    stream_stats::{RedisStats, SaleStats, read_stats},
};
use seckill_store::{SharedStore, StoreError};

use crate::telemetry::ledger_totals::Figures as Totals;

/// Timeout for each of the two servers.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// The keys are a contract of `activity --json`; what is unknown is `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Figures {
    /// Sale of the stock, buyers and orders; `None` for all sales.
    #[serde(skip_serializing_if = "Option::is_none")]
    sale: Option<VoucherId>,
    stock: Option<i64>,
    db_stock: Option<u64>,
    admitted: Option<u64>,
    persisted: Option<u64>,
    undelivered: Option<u64>,
    pending: Option<u64>,
    dead: Option<u64>,
    audit: &'static str,
}

const OFF: &str = "off";

/// Returns the current figures, of one sale if `about` names one, or `None` if neither server answered; and the time by
/// the clock of Redis if it answered.
pub async fn take(
    store: &SharedStore,
    conn: &mut Connection,
    keys: &Layout,
    about: Option<VoucherId>,
) -> (Option<Millis>, Option<String>) {
    let reading = async { Ok::<_, StoreError>((store.sales().await?, store.returning().await?)) };
    let sql = tokio::time::timeout(READ_TIMEOUT, reading).await.ok().and_then(Result::ok);
    let shards: Vec<ShardId> =
        sql.iter().flat_map(|(sales, _)| sales).map(|shard| shard.id).collect();
    let looking = read_stats(conn, keys, &shards);
    let redis = tokio::time::timeout(READ_TIMEOUT, looking).await.ok().and_then(Result::ok);
    if sql.is_none() && redis.is_none() {
        return (None, None);
    }
    let mut known = figures(sql.as_ref(), redis.as_ref(), about);
    // SQL was read first: an order added in between looks like a surplus in Redis.
    if known.audit == OFF {
        let again =
            tokio::time::timeout(READ_TIMEOUT, store.sales()).await.ok().and_then(Result::ok);
        let live = |sales: &[SaleShard]| sales.iter().map(|it| it.live_orders()).sum::<u64>();
        let moved =
            again.zip(sql.as_ref()).is_some_and(|(now, (then, _))| live(&now) != live(then));
        if moved {
            known.audit = "in flight";
        }
    }
    (redis.map(|redis| redis.now), serde_json::to_string(&known).ok())
}

fn figures(
    sql: Option<&(Vec<SaleShard>, u64)>,
    redis: Option<&RedisStats>,
    about: Option<VoucherId>,
) -> Figures {
    let stream = redis.map(|redis| &redis.stream);
    let mut known = Figures {
        sale: about,
        undelivered: stream.and_then(|stream| stream.lag),
        pending: stream.map(|stream| stream.pending),
        dead: stream.map(|stream| stream.dead),
        audit: "unknown",
        ..Figures::default()
    };
    let Some((sales, returning)) = sql else { return known };
    let is_mine = |shard: &SaleShard| about.is_none_or(|only| only == shard.voucher_id);
    let mine = || sales.iter().filter(|sale| is_mine(sale));
    known.db_stock = Some(mine().map(|sale| sale.stock).sum());
    known.persisted = Some(mine().map(|sale| sale.live_orders()).sum());
    if let Some(redis) = redis {
        let facts: Option<Vec<SaleStats>> = redis.sales.iter().copied().collect();
        let Some(facts) = facts else { return known };
        let sales = || sales.iter().zip(facts.iter().copied());
        let mine = || sales().filter(|(sale, _)| is_mine(sale)).map(|(_, facts)| facts);
        known.stock = Some(mine().filter_map(|facts| facts.stock).sum());
        known.admitted = Some(mine().map(|facts| facts.buyers).sum());
        known.audit = audit(&Totals::of(sales(), stream, *returning));
    }
    known
}

/// Verdict of the audit from totals of one read: SQL was read first, so the totals are judged only while nothing is in
/// flight.
fn audit(totals: &Totals) -> &'static str {
    match totals.balance(None, totals.is_at_rest()) {
        Balance::Balanced { .. } => "balanced",
        Balance::InFlight { .. } => "in flight",
        Balance::Off { .. } => OFF,
        Balance::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_figures_are_null() {
        let unknown = figures(None, None, None);
        assert_eq!(unknown, Figures { audit: "unknown", ..Figures::default() });
        let text = serde_json::to_string(&unknown).unwrap();
        assert!(text.contains(r#""pending":null"#) && !text.contains("sale"), "{text}");
    }
}
