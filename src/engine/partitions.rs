//! The number of partitions of a deployment: decided once, in SQL, for every node.
//!
//! The keys and the ID counter of a voucher depend on it, so it changes only while nothing is in flight and no node is
//! alive; then SQL knows every order, and the sales are loaded from it.

use std::collections::HashMap;

use redis::{cmd, pipe};
use seckill_model::{VoucherId, message::text, order_id::utc_day};
use seckill_redis::{Connection, Layout, RedisError, nodes::Nodes, stream_stats};
use seckill_store::SharedStore;
use serde::{Deserialize, Serialize};

use super::{
    EngineError,
    reconcile::{new_token, reconcile},
    retention::drop_keys,
    settings::MAX_PARTITIONS,
};

/// Key of the number among the settings.
const SETTING: &str = "partitions";
/// A process that dies while changing it blocks others for this long.
const CHANGE_WITHIN_MS: u64 = 60_000;

/// Why the number of partitions is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionsFault {
    /// The value in SQL is invalid.
    #[error("{}", text!("partitions-stored", text, most))]
    Stored {
        /// The value.
        text: String,
        /// The maximum.
        most: u16,
    },
    /// It was changed to the first number, and this node works with the second.
    #[error("{}", text!("partitions-other", stored = _0, known = _1))]
    Other(u16, u16),
    /// Two processes change it at once.
    #[error("{}", text!("partitions-changed"))]
    Changed,
    /// It cannot be changed from the first to the second now.
    #[error("{}", text!("partitions-not-now", from = _0, to = _1, why = _2))]
    NotNow(u16, u16, UnderWay),
}

/// What prevents a change of the number of partitions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnderWay {
    /// A live node that uses the old number.
    #[error("{}", text!("partitions-node", node = _0))]
    Node(String),
    /// An unknown number of entries.
    #[error("{}", text!("partitions-unknown"))]
    Unknown,
    /// Entries in the streams of so many partitions.
    #[error("{}", text!("partitions-entries", entries = _0, partitions = _1))]
    Entries(u64, u16),
    /// Dead letters.
    #[error("{}", text!("partitions-letters", letters = _0))]
    Letters(u64),
}

/// Returns the number in SQL; if there is none, stores `wanted` or 1, unless the caller is read-only.
///
/// # Errors
/// The value in SQL is invalid, or SQL is unreachable.
pub async fn agreed(
    store: &SharedStore,
    wanted: Option<u16>,
    read_only: bool,
) -> Result<u16, EngineError> {
    if let Some(stored) = stored(store).await? {
        return Ok(stored);
    }
    let decided = wanted.unwrap_or(1);
    if !read_only && !store.change_setting(SETTING, None, &decided.to_string()).await? {
        // Another process was faster.
        return Ok(stored(store).await?.unwrap_or(decided));
    }
    Ok(decided)
}

async fn stored(store: &SharedStore) -> Result<Option<u16>, EngineError> {
    let Some(text) = store.setting(SETTING).await? else { return Ok(None) };
    match text.parse() {
        Ok(number) if (1..=MAX_PARTITIONS).contains(&number) => Ok(Some(number)),
        _ => Err(PartitionsFault::Stored { text, most: MAX_PARTITIONS }.into()),
    }
}

/// Rejects a number other than that in SQL: a node that was started or suspended before a change must not sell with the
/// old one.
pub(super) async fn same(store: &SharedStore, keys: &Layout) -> Result<(), EngineError> {
    match stored(store).await? {
        Some(stored) if stored != keys.count() => {
            Err(PartitionsFault::Other(stored, keys.count()).into())
        }
        _ => Ok(()),
    }
}

/// Changes the number of partitions from that of `old` to that of `new`. Each step can be interrupted: SQL holds every
/// order, and the next node to start loads the sales from it.
///
/// # Errors
/// [`EngineError::Partitions`] with the obstacle: a node, or entries in flight.
pub async fn change(
    store: &SharedStore,
    conn: &mut Connection,
    old: &Layout,
    new: &Layout,
    dead_ms: u64,
) -> Result<(), EngineError> {
    if stored(store).await? != Some(old.count()) {
        return Err(PartitionsFault::Changed.into());
    }
    let turn: Option<String> = conn
        .query(cmd("SET").arg(old.changing()).arg(1).arg("NX").arg("PX").arg(CHANGE_WITHIN_MS))
        .await?;
    if turn.is_none() {
        return Err(PartitionsFault::Changed.into());
    }
    let done = drain_and_change(store, conn, old, new, dead_ms).await;
    conn.query::<u64>(cmd("DEL").arg(old.changing())).await?;
    done
}

async fn drain_and_change(
    store: &SharedStore,
    conn: &mut Connection,
    old: &Layout,
    new: &Layout,
    dead_ms: u64,
) -> Result<(), EngineError> {
    refuse_unless_drained(conn, old, new.count(), dead_ms).await?;
    for of in old.partitions() {
        // A suspended node has to reconcile before it sells again.
        conn.query::<u64>(cmd("DEL").arg(of.healed())).await?;
    }
    let mut tallies = Vec::new();
    for sale in store.sales().await? {
        let voucher = sale.voucher_id;
        let tally: HashMap<String, i64> =
            conn.query(cmd("HGETALL").arg(old.tally(voucher))).await?;
        tallies.push((voucher, tally));
        drop_keys(conn, old, voucher).await?;
        // Leftovers of an earlier change must not be taken for the sale.
        drop_keys(conn, new, voucher).await?;
    }
    raise_counters(conn, old, new).await?;
    let (from, to) = (old.count().to_string(), new.count().to_string());
    if !store.change_setting(SETTING, Some(&from), &to).await? {
        return Err(PartitionsFault::Changed.into());
    }
    for (voucher, tally) in tallies.into_iter().filter(|(_, tally)| !tally.is_empty()) {
        keep_tally(conn, new, voucher, tally).await?;
    }
    for of in new.partitions() {
        reconcile(store, conn, new, &of, &[], &new_token()).await?;
    }
    Ok(())
}

async fn refuse_unless_drained(
    conn: &mut Connection,
    old: &Layout,
    wanted: u16,
    dead_ms: u64,
) -> Result<(), EngineError> {
    let refuse = |why| Err(PartitionsFault::NotNow(old.count(), wanted, why).into());
    for of in old.partitions() {
        let nodes = Nodes::read(conn, &of).await?;
        if let Some(node) = nodes.alive(dead_ms).next() {
            return refuse(UnderWay::Node(node.to_string()));
        }
    }
    let stream = stream_stats::read_stats(conn, old, &[]).await?.stream;
    let Some(lag) = stream.lag else {
        return refuse(UnderWay::Unknown);
    };
    let under_way = lag + stream.pending;
    if under_way > 0 {
        return refuse(UnderWay::Entries(under_way, old.count()));
    }
    if stream.dead > 0 {
        return refuse(UnderWay::Letters(stream.dead));
    }
    Ok(())
}

/// Numbers of the day that were used by the old counters are below those of the new ones.
async fn raise_counters(
    conn: &mut Connection,
    old: &Layout,
    new: &Layout,
) -> Result<(), EngineError> {
    // Nodes date IDs by their own clocks, which may be in the next or the previous day.
    let now = conn.now().await?.0.div_euclid(1_000);
    for day in [-86_400, 0, 86_400].map(|off| utc_day(now + off)) {
        let mut used = 0;
        for of in old.partitions() {
            let counted: Option<u64> = conn.query(cmd("GET").arg(of.sequence(day))).await?;
            used = used.max(counted.unwrap_or(0).saturating_mul(u64::from(of.of())));
        }
        let floor = used.div_ceil(u64::from(new.count()));
        for of in new.partitions().filter(|_| floor > 0) {
            let counted: Option<u64> = conn.query(cmd("GET").arg(of.sequence(day))).await?;
            if let Some(missing) = floor.checked_sub(counted.unwrap_or(0)).filter(|it| *it > 0) {
                let mut raise = pipe();
                raise.cmd("INCRBY").arg(of.sequence(day)).arg(missing);
                raise.cmd("EXPIRE").arg(of.sequence(day)).arg(3 * 86_400);
                conn.pipe::<()>(&raise).await?;
            }
        }
    }
    Ok(())
}

async fn keep_tally(
    conn: &mut Connection,
    new: &Layout,
    voucher: VoucherId,
    tally: HashMap<String, i64>,
) -> Result<(), RedisError> {
    let mut keep = cmd("HSET");
    keep.arg(new.tally(voucher));
    for (name, count) in tally {
        keep.arg(name).arg(count);
    }
    conn.query::<u64>(&keep).await?;
    Ok(())
}
