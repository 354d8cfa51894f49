//! Fault injection for the demo and for drills: each fault leaves the same state as a real one.
//!
//! It asks for no confirmation: the caller works on a temporary deployment or has asked. Faults of the database are in
//! `store::fault_injection`.

use std::time::Duration;

use redis::{InfoDict, Value, cmd};
use rustix::process::{Pid, Signal, kill_process};
use seckill_model::{
    EntryId, OsError,
    entry::{FIELD_ORDER, FIELD_PLACE, FIELD_USER, FIELD_VOUCHER},
    reason::reason,
};
use seckill_redis::{
    Connection, Layout, Redis,
    keys::Partition,
    stream::{self, ReadFrom},
};

pub use crate::orders::ids::step_clock;
use crate::{EngineError, Result, node::heartbeat::beat_call};

/// Simulates a node that reads a batch of entries and dies before it writes or acknowledges any of them. Its last
/// heartbeat is made older than `dead_ms`, so that it counts as dead immediately.
///
/// Returns the number of entries it holds.
pub async fn die_with_batch(
    redis: &Redis,
    keys: &Layout,
    node: &str,
    most: usize,
    dead_ms: u64,
) -> Result<usize> {
    let mut conn = redis.connection();
    let mut taken = 0;
    let silent_ms = i64::try_from(dead_ms).unwrap_or(i64::MAX).saturating_add(1);
    for of in keys.partitions() {
        let mut beat = beat_call(&of, node, u32::MAX.into(), "drill", 0, "take");
        let (now, _): (i64, i64) = conn.invoke(beat.arg(0).arg("").arg("")).await?;
        let from = ReadFrom::New(Duration::from_millis(100));
        while taken < most {
            let want = most - taken;
            let batch = stream::read_group(&mut conn, &of, &of.consumer(node), from, want).await?;
            if batch.is_empty() {
                break;
            }
            taken += batch.len();
        }
        // A node that is not listed has shut down normally.
        let mut silent = cmd("ZADD");
        silent.arg(of.nodes()).arg(now.saturating_sub(silent_ms)).arg(node);
        conn.query::<u64>(&silent).await?;
    }
    Ok(taken)
}

/// Entries that cannot become an order.
pub const POISON: [&[(&str, &[u8])]; 6] = [
    // The fields of another program.
    &[("hello", b"world")],
    // Text instead of a number.
    &[(FIELD_USER, b"not a number"), (FIELD_VOUCHER, b"7"), (FIELD_ORDER, b"1")],
    // Bytes that are not valid UTF-8.
    &[(FIELD_USER, b"\xff\xfe"), (FIELD_VOUCHER, b"7"), (FIELD_ORDER, b"1")],
    // An order ID out of range.
    &[(FIELD_USER, b"1"), (FIELD_VOUCHER, b"7"), (FIELD_ORDER, b"99999999999999999999")],
    // A place out of range.
    &[(FIELD_USER, b"1"), (FIELD_VOUCHER, b"7"), (FIELD_ORDER, b"1"), (FIELD_PLACE, b"900")],
    // Valid fields of a nonexistent sale.
    &[(FIELD_USER, b"1"), (FIELD_VOUCHER, b"900000001"), (FIELD_ORDER, b"1")],
];

/// Adds `count` entries to a stream that cannot become orders, cycling through [`POISON`].
pub async fn poison(conn: &mut Connection, of: &Partition, count: usize) -> Result<()> {
    for fields in POISON.iter().cycle().take(count) {
        conn.query::<String>(cmd("XADD").arg(of.orders()).arg("*").arg(*fields)).await?;
    }
    Ok(())
}

/// Adds the newest entries of a stream a second time, like a producer that retries. Returns their number.
pub async fn duplicate(conn: &mut Connection, of: &Partition, most: usize) -> Result<usize> {
    let mut read = cmd("XREVRANGE");
    read.arg(of.orders()).arg("+").arg("-").arg("COUNT").arg(most);
    let newest: Vec<(String, Vec<Vec<u8>>)> = conn.query(&read).await?;
    for (_, fields) in &newest {
        conn.query::<String>(cmd("XADD").arg(of.orders()).arg("*").arg(fields)).await?;
    }
    Ok(newest.len())
}

/// Destroys the group of a stream with its pending list; `false` if there was no group or no stream.
pub async fn destroy_group(conn: &mut Connection, of: &Partition) -> Result<bool> {
    if !conn.query::<bool>(cmd("EXISTS").arg(of.orders())).await? {
        return Ok(false);
    }
    let mut destroy = cmd("XGROUP");
    destroy.arg("DESTROY").arg(of.orders()).arg(of.group());
    Ok(conn.query(&destroy).await?)
}

/// Deletes the bodies of all pending entries, and of those before them. Returns the number of deleted entries.
pub async fn trim_pending(conn: &mut Connection, of: &Partition) -> Result<u64> {
    let summary: (u64, Option<String>, Option<String>, Value) =
        conn.query(cmd("XPENDING").arg(of.orders()).arg(of.group())).await?;
    let Some(newest) = summary.2 else { return Ok(0) };
    // MINID keeps entries that are not smaller.
    let next = newest.parse::<EntryId>().ok().and_then(EntryId::next);
    let next = next.map_or(newest, EntryId::in_stream);
    Ok(conn.query(cmd("XTRIM").arg(of.orders()).arg("MINID").arg(next)).await?)
}

/// Sends SIGKILL to the program's own server; its next user restarts it.
///
/// # Errors
/// [`EngineError::Rejected`] if Redis was not started by this program.
pub async fn kill_redis(redis: &Redis) -> Result<()> {
    let rejected = |why| EngineError::Rejected(reason!("drill-redis-not-killed", why));
    if redis.managed().is_none() {
        return Err(rejected(reason!("drill-redis-not-managed")));
    }
    let info: InfoDict = redis.connection().query(cmd("INFO").arg("server")).await?;
    let pid = info.get("process_id").and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| rejected(reason!("drill-redis-without-pid")))?;
    kill_process(pid, Signal::KILL).map_err(|error| rejected(OsError::from(error).into()))
}
