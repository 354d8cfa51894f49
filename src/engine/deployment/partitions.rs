//! The number of partitions of a deployment: decided once, in SQL, for every node.
//!
//! The keys and the ID counter of a voucher depend on it, so it changes only while nothing is in flight and no node is
//! alive; then SQL knows every order, and the sales are loaded from it.

use std::collections::HashMap;

use futures::{FutureExt as _, future::BoxFuture};
use redis::{cmd, pipe};
use seckill_model::{order_id::utc_day, reason::reason};
use seckill_redis::{Connection, Layout, nodes::Nodes, stream_stats};
use seckill_store::SharedStore;

use crate::{
    EngineError, Result,
    deployment::{servers::Servers, settings::MAX_PARTITIONS},
    ledger::sale_copy::drop_keys,
    recovery::reconcile::{new_token, reconcile},
};

/// Key of the number among the settings.
const SETTING: &str = "partitions";
/// A process that dies while changing it blocks others for this long.
const CHANGE_WITHIN_MS: u64 = 60_000;

/// Returns the number in SQL; if there is none, stores `wanted` or 1, unless the caller is read-only.
pub async fn agreed(store: &SharedStore, wanted: Option<u16>, read_only: bool) -> Result<u16> {
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

async fn stored(store: &SharedStore) -> Result<Option<u16>> {
    let Some(text) = store.setting(SETTING).await? else { return Ok(None) };
    match text.parse() {
        Ok(number) if (1..=MAX_PARTITIONS).contains(&number) => Ok(Some(number)),
        _ => {
            let why = reason!("partitions-stored", text, most = MAX_PARTITIONS);
            Err(EngineError::Rejected(why))
        }
    }
}

/// Rejects a number other than that in SQL: a node that was started or suspended before a change must not sell with the
/// old one.
pub(crate) async fn check(servers: &Servers) -> Result<()> {
    let known = servers.keys.count();
    match stored(&servers.store).await? {
        Some(stored) if stored != known => {
            Err(EngineError::Rejected(reason!("partitions-other", stored, known)))
        }
        _ => Ok(()),
    }
}

/// Changes the number of partitions to that of `new`. Each step can be interrupted: SQL holds every order, and the next
/// node to start loads the sales from it.
///
/// # Errors
/// [`EngineError::Rejected`] with the obstacle: a node, or entries in flight.
pub fn change<'a>(
    servers: &'a mut Servers,
    new: &'a Layout,
    dead_ms: u64,
) -> BoxFuture<'a, Result<()>> {
    async move {
        let old = servers.keys.clone();
        if stored(&servers.store).await? != Some(old.count()) {
            return Err(changed());
        }
        let mut lock = cmd("SET");
        lock.arg(old.changing()).arg(1).arg("NX").arg("PX").arg(CHANGE_WITHIN_MS);
        if servers.conn.query::<Option<String>>(&lock).await?.is_none() {
            return Err(changed());
        }
        let done = drain_and_change(servers, &old, new, dead_ms).await;
        servers.conn.query::<u64>(cmd("DEL").arg(old.changing())).await?;
        done
    }
    .boxed()
}

/// Another process changes it at the same time.
fn changed() -> EngineError {
    EngineError::Rejected(reason!("partitions-changed"))
}

async fn drain_and_change(
    servers: &mut Servers,
    old: &Layout,
    new: &Layout,
    dead_ms: u64,
) -> Result<()> {
    check_drained(servers, new.count(), dead_ms).await?;
    let Servers { store, conn, keys, .. } = servers;
    for of in old.partitions() {
        // A suspended node has to reconcile before it sells again.
        conn.query::<u64>(cmd("DEL").arg(of.reconciled())).await?;
    }
    let mut tallies = Vec::new();
    for sale in store.sales().await? {
        let shard = sale.id;
        let tally: HashMap<String, i64> = conn.query(cmd("HGETALL").arg(old.tally(shard))).await?;
        tallies.push((shard, tally));
        drop_keys(conn, old, shard).await?;
        // Leftovers of an earlier change must not be taken for the sale.
        drop_keys(conn, new, shard).await?;
    }
    raise_counters(conn, old, new).await?;
    let (from, to) = (old.count().to_string(), new.count().to_string());
    if !store.change_setting(SETTING, Some(&from), &to).await? {
        return Err(changed());
    }
    new.clone_into(keys);
    for (shard, tally) in tallies.into_iter().filter(|(_, tally)| !tally.is_empty()) {
        let mut keep = cmd("HSET");
        keep.arg(new.tally(shard));
        for (name, count) in tally {
            keep.arg(name).arg(count);
        }
        conn.query::<u64>(&keep).await?;
    }
    for of in new.partitions() {
        reconcile(servers, &of, &[], &new_token()).await?;
    }
    Ok(())
}

async fn check_drained(servers: &mut Servers, wanted: u16, dead_ms: u64) -> Result<()> {
    let Servers { conn, keys, .. } = servers;
    let (from, to) = (keys.count(), wanted);
    let reject = |why| Err(EngineError::Rejected(reason!("partitions-not-now", from, to, why)));
    for of in keys.partitions() {
        if let Some(node) = Nodes::read(conn, &of).await?.alive(dead_ms).next() {
            return reject(reason!("partitions-node", node));
        }
    }
    let stream = stream_stats::read_stats(conn, keys, &[]).await?.stream;
    match stream.lag.map(|lag| lag + stream.pending) {
        None => reject(reason!("partitions-unknown")),
        Some(entries @ 1..) => reject(reason!("partitions-entries", entries, partitions = from)),
        Some(0) if stream.dead > 0 => reject(reason!("partitions-letters", letters = stream.dead)),
        Some(0) => Ok(()),
    }
}

/// Numbers of the day that were used by the old counters are below those of the new ones.
async fn raise_counters(conn: &mut Connection, old: &Layout, new: &Layout) -> Result<()> {
    // IDs may be dated up to a minute ahead, or by a server whose clock was behind: the next or the previous day.
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
