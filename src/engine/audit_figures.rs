//! Key figures of the deployment, cheap enough to be read before and after every command.
//!
//! The audit log keeps them as one line of JSON. A figure that a server does not return in time is unknown: no command
//! waits longer for it.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use seckill_model::{Millis, Sale, VoucherId};
use seckill_redis::{
    Connection, Layout,
    stream_stats::{RedisStats, read_stats},
};
use seckill_store::{SharedStore, StoreError};

/// For each of the two servers.
const PATIENCE: Duration = Duration::from_secs(1);

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
    let sql = tokio::time::timeout(PATIENCE, reading).await.ok().and_then(Result::ok);
    let vouchers: Vec<VoucherId> =
        sql.iter().flat_map(|(sales, _)| sales).map(|sale| sale.voucher_id).collect();
    let looking = read_stats(conn, keys, &vouchers);
    let redis = tokio::time::timeout(PATIENCE, looking).await.ok().and_then(Result::ok);
    if sql.is_none() && redis.is_none() {
        return (None, None);
    }
    let mut known = figures(sql.as_ref(), redis.as_ref(), about);
    // SQL was read first: an order added in between looks like a surplus in Redis.
    if known.audit == OFF {
        let again = tokio::time::timeout(PATIENCE, store.sales()).await.ok().and_then(Result::ok);
        let live = |sales: &[Sale]| sales.iter().map(Sale::live_orders).sum::<u64>();
        let moved =
            again.zip(sql.as_ref()).is_some_and(|(now, (then, _))| live(&now) != live(then));
        if moved {
            known.audit = "in flight";
        }
    }
    (redis.map(|redis| redis.now), serde_json::to_string(&known).ok())
}

fn figures(
    sql: Option<&(Vec<Sale>, u64)>,
    redis: Option<&RedisStats>,
    about: Option<VoucherId>,
) -> Figures {
    let mine = |sale: &&Sale| about.is_none_or(|only| only == sale.voucher_id);
    let stream = redis.map(|redis| redis.stream);
    let of_redis = sql.zip(redis).map(|((sales, _), redis)| {
        let facts = sales.iter().zip(&redis.sales).filter(|(sale, _)| mine(sale));
        facts.fold((0, 0), |(stock, buyers), (_, facts)| {
            (stock + facts.stock.unwrap_or(0), buyers + facts.buyers)
        })
    });
    Figures {
        sale: about,
        stock: of_redis.map(|(stock, _)| stock),
        db_stock: sql.map(|(sales, _)| sales.iter().filter(mine).map(|sale| sale.stock).sum()),
        admitted: of_redis.map(|(_, buyers)| buyers),
        persisted: sql.map(|(sales, _)| sales.iter().filter(mine).map(Sale::live_orders).sum()),
        undelivered: stream.and_then(|stream| stream.lag),
        pending: stream.map(|stream| stream.pending),
        dead: stream.map(|stream| stream.dead),
        audit: audit(sql, redis),
    }
}

/// Verdict of the audit from totals of one read: SQL was read first, so the totals are judged only while nothing is in
/// flight.
fn audit(sql: Option<&(Vec<Sale>, u64)>, redis: Option<&RedisStats>) -> &'static str {
    let (Some((sales, returning)), Some(redis)) = (sql, redis) else { return "unknown" };
    let Some(lag) = redis.stream.lag else { return "unknown" };
    if lag + redis.stream.pending + returning > 0 {
        return "in flight";
    }
    let holds = redis.sales.iter().all(|facts| {
        let initial = facts.initial.and_then(|initial| i64::try_from(initial).ok());
        initial
            .zip(facts.stock)
            .is_some_and(|(initial, stock)| initial == stock + facts.buyers as i64)
    });
    let admitted: u64 = redis.sales.iter().map(|facts| facts.buyers).sum();
    let persisted: u64 = sales.iter().map(Sale::live_orders).sum();
    if holds && admitted == persisted { "balanced" } else { OFF }
}

/// Describes what differs between two lines of figures: `pending 128 → 0, audit off → balanced`.
pub fn changes(before: Option<&str>, after: Option<&str>) -> String {
    let read = |text: Option<&str>| -> Map<String, Value> {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    };
    let (before, after) = (read(before), read(after));
    let shown = |value: Option<&Value>| match value {
        None | Some(Value::Null) => "unknown".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    let changed: Vec<String> = names
        .map(|name| (name, shown(before.get(name)), shown(after.get(name))))
        .filter(|(_, before, after)| before != after)
        .map(|(name, before, after)| format!("{} {before} → {after}", name.replace('_', " ")))
        .collect();
    changed.join(", ")
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

    #[test]
    fn only_changed_figures_are_described() {
        let before = r#"{"pending":128,"db_stock":3,"audit":"off"}"#;
        let after = r#"{"pending":0,"db_stock":3,"audit":"balanced"}"#;
        let text = changes(Some(before), Some(after));
        assert!(
            text.contains("pending 128 → 0") && text.contains("audit off → balanced"),
            "{text}"
        );
        assert!(!text.contains("stock"), "{text}");
        assert_eq!(changes(None, None), "");
        assert!(changes(Some(before), None).contains("pending 128 → unknown"));
    }
}
