//! Locks of users: the hashes of Redisson, and plain strings.

use std::collections::BTreeSet;

use redis::{Value, cmd, from_redis_value, pipe};
use seckill_model::ForeignKey;
use seckill_redis::{Connection, lossy_utf8::Text};

use crate::{Kind, Limits, LockReport, Locks, PAGE, Result};

/// Locks, and stock keys, that are read in one pass.
pub const MOST: usize = 1_000;
/// Longest owner that is read, in bytes.
const OWNER: isize = 99;

/// A SCAN that continues in the next pass where this one has stopped, so that the keyspace is covered over several
/// passes.
#[derive(Debug, Default)]
pub(crate) struct KeyScan {
    cursor: u64,
    /// The whole keyspace was examined at least once.
    complete: bool,
    /// Keys that existed in the last pass.
    pub(crate) known: BTreeSet<String>,
}

impl KeyScan {
    /// Adds the keys that are found now.
    pub(crate) async fn advance(
        &mut self,
        conn: &mut Connection,
        pattern: &str,
        limits: &Limits,
    ) -> Result<()> {
        for _ in 0..limits.scans {
            let page = scan(conn, &mut self.cursor, pattern).await?;
            let room = MOST.saturating_sub(self.known.len());
            self.known.extend(page.into_iter().take(room));
            if self.cursor == 0 {
                self.complete = true;
                break;
            }
        }
        Ok(())
    }

    /// Reads locks: those that were found now, and those known that still exist.
    pub(crate) async fn read(
        &mut self,
        conn: &mut Connection,
        pattern: &str,
        limits: &Limits,
    ) -> Result<(Locks, Vec<ForeignKey>)> {
        self.advance(conn, pattern, limits).await?;
        let names: Vec<String> = self.known.iter().cloned().collect();
        let (locks, foreign) = holders(conn, &names).await?;
        let held = locks.iter().map(|it| &it.key).chain(foreign.iter().map(|it| &it.key));
        self.known = held.cloned().collect();
        Ok((Locks { complete: self.complete, held: locks }, foreign))
    }
}

/// One SCAN, which moves the cursor.
pub(crate) async fn scan(
    conn: &mut Connection,
    cursor: &mut u64,
    pattern: &str,
) -> Result<Vec<String>> {
    let mut scan = cmd("SCAN");
    scan.arg(*cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(PAGE);
    let (next, page): (u64, Vec<Text>) = conn.query(&scan).await?;
    *cursor = next;
    Ok(page.into_iter().map(|Text(key)| key).collect())
}

/// The holders of these locks, and the keys that hold something else. A lock that was released meanwhile is omitted.
pub(crate) async fn holders(
    conn: &mut Connection,
    keys: &[String],
) -> Result<(Vec<LockReport>, Vec<ForeignKey>)> {
    let (mut locks, mut foreign) = (Vec::new(), Vec::new());
    if keys.is_empty() {
        return Ok((locks, foreign));
    }
    let mut read = pipe();
    for key in keys {
        read.cmd("TYPE").arg(key).cmd("PTTL").arg(key);
    }
    let facts: Vec<(String, i64)> = conn.pipe(&read).await?;
    let mut read = pipe();
    for (key, (kind, _)) in keys.iter().zip(&facts) {
        match kind.as_str() {
            // A lock has one field; the hash of another program may have many.
            "hash" => read.cmd("HSCAN").arg(key).arg(0).arg("COUNT").arg(1),
            "string" => read.cmd("GETRANGE").arg(key).arg(0).arg(OWNER),
            _ => read.cmd("ECHO").arg(""),
        };
    }
    let bodies: Vec<Value> = conn.pipe(&read).await?;
    for ((key, (holds, left)), body) in keys.iter().zip(facts).zip(bodies) {
        let key = key.clone();
        let (kind, holder) = match holds.as_str() {
            "hash" => (Kind::Hash, of_hash(body)),
            "string" => {
                let owner = from_redis_value(body).ok().map(|Text(owner)| (owner, 1));
                (Kind::String, owner.filter(|(owner, _)| !owner.is_empty()))
            }
            "none" => continue,
            _ => {
                foreign.push(ForeignKey { key, holds });
                continue;
            }
        };
        let Some((owner, depth)) = holder else { continue };
        locks.push(LockReport { key, kind, owner, depth, left_ms: u64::try_from(left).ok() });
    }
    Ok((locks, foreign))
}

/// Owner and depth of a lock of Redisson.
fn of_hash(body: Value) -> Option<(String, u64)> {
    let (_, fields): (u64, Vec<(Text, Text)>) = from_redis_value(body).ok()?;
    let (Text(owner), Text(depth)) = fields.into_iter().next()?;
    Some((owner, depth.parse().unwrap_or(1)))
}
