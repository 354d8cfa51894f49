//! Holders of locks, for display. Reads what `engine::locks` wrote and changes nothing.

use std::collections::HashMap;

use redis::{Value, pipe};
use seckill_model::{ForeignKey, Millis};
use serde::Serialize;

use super::{Connection, Layout, RedisError, Result, keys::type_of, lossy_utf8::Text};

/// Minimum remaining lease in milliseconds while the watchdog works: it renews a lease of 30 s every 10 s.
const RENEWED_MS: u64 = 18_000;

/// A lock and its holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Lock name.
    pub name: String,
    /// Lock kind.
    pub kind: Kind,
    /// Identity of the holder, unique per acquisition.
    pub owner: String,
    /// Node of the holder.
    pub node: String,
    /// Task of the holder.
    pub task: String,
    /// Reentrancy depth.
    pub depth: u32,
    /// Milliseconds left of the lease; `None` if it never expires.
    pub left_ms: Option<u64>,
    /// Acquisition time by Redis' clock; `None` for a simple lock.
    pub since: Option<Millis>,
    /// Fencing token; `None` for a simple lock.
    pub token: Option<i64>,
    /// Number of waiters.
    pub waiting: u64,
    /// The node sends no heartbeat or, if the node is unknown, the lease is not being renewed.
    pub orphan: bool,
    /// The holder is a known node; otherwise its liveness is unknown.
    pub known: bool,
}

/// Kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A string.
    Simple,
    /// A hash.
    Reentrant,
}

/// Held locks, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Holders {
    /// Approximate number of held locks: a lease may have expired just now.
    pub total: u64,
    /// The first of them.
    pub locks: Vec<Holder>,
    /// Keys of locks that hold a value of another program: such a lock cannot be acquired, and without their index only
    /// some of the held locks are found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub foreign: Vec<ForeignKey>,
}

/// Returns the first `most` held locks. Reads the lock index, these locks and the keys of the engine locks in `known` only.
/// `alive` returns whether a node is alive, or `None` if it is unknown. Without an index, which another program may have
/// overwritten, only the `known` locks are found.
pub async fn holders(
    conn: &mut Connection,
    keys: &Layout,
    most: usize,
    known: &[String],
    alive: impl Fn(&str) -> Option<bool>,
) -> Result<Holders> {
    let now = conn.now_at(&keys.locks()).await?;
    let mut foreign = foreign_locks(conn, keys, known).await?;
    foreign.extend(foreign_index(conn, keys).await?);
    let mut read = pipe();
    read.cmd("ZRANGEBYSCORE").arg(keys.locks()).arg(now.0).arg("+inf");
    read.arg("LIMIT").arg(0).arg(most);
    read.cmd("ZCOUNT").arg(keys.locks()).arg(now.0).arg("+inf");
    let (mut names, total): (Vec<String>, u64) = match conn.pipe(&read).await {
        Ok((names, total)) => {
            let names: Vec<Text> = names;
            (names.into_iter().map(|Text(name)| name).collect(), total)
        }
        Err(RedisError::Foreign(_)) => (known.to_vec(), known.len() as u64),
        Err(error) => return Err(error),
    };
    names.sort_unstable();
    let mut locks = Vec::new();
    for page in names.chunks(500) {
        locks.extend(read_locks(conn, keys, page, now, &alive).await?);
    }
    let ended = (names.len() - locks.len()) as u64;
    Ok(Holders { total: total.saturating_sub(ended), locks, foreign })
}

/// Returns the keys that all locks share, as far as another program has overwritten them: acquiring a lock does not depend
/// on them.
pub async fn foreign_index(conn: &mut Connection, keys: &Layout) -> Result<Vec<ForeignKey>> {
    let all = [keys.locks(), keys.lock_token()];
    let mut read = pipe();
    for key in &all {
        read.cmd("TYPE").arg(key);
    }
    let types: Vec<String> = conn.pipe(&read).await?;
    let found = all.into_iter().zip(types);
    let found = found.filter(|(key, holds)| holds != "none" && type_of(key) != Some(holds));
    Ok(found.map(|(key, holds)| ForeignKey { key, holds }).collect())
}

/// Returns those of these engine locks that cannot be acquired because of the value of their key.
pub async fn foreign_locks(
    conn: &mut Connection,
    keys: &Layout,
    names: &[String],
) -> Result<Vec<ForeignKey>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let mut read = pipe();
    for name in names {
        read.cmd("TYPE").arg(keys.lock(name));
    }
    let types: Vec<String> = conn.pipe(&read).await?;
    let found = names.iter().zip(types).filter(|(_, holds)| holds != "hash" && holds != "none");
    Ok(found.map(|(name, holds)| ForeignKey { key: keys.lock(name), holds }).collect())
}

async fn read_locks(
    conn: &mut Connection,
    keys: &Layout,
    names: &[String],
    now: Millis,
    alive: &impl Fn(&str) -> Option<bool>,
) -> Result<Vec<Holder>> {
    let mut read = pipe();
    for name in names {
        let key = keys.lock(name);
        read.cmd("TYPE").arg(&key).cmd("PTTL").arg(&key);
        read.cmd("ZCOUNT").arg(keys.lock_waiting(name)).arg(now.0).arg("+inf");
    }
    let facts: Vec<(String, i64, u64)> = conn.pipe(&read).await?;
    let mut read = pipe();
    for (name, (kind, ..)) in names.iter().zip(&facts) {
        match kind.as_str() {
            "hash" => read.cmd("HGETALL").arg(keys.lock(name)),
            "string" => read.cmd("GET").arg(keys.lock(name)),
            _ => read.cmd("ECHO").arg(""),
        };
    }
    let bodies: Vec<Value> = conn.pipe(&read).await?;
    let rows = names.iter().zip(facts).zip(bodies);
    Ok(rows.filter_map(|((name, facts), body)| holder(name, facts, body, alive)).collect())
}

/// Parses a holder; `None` if the lock was released between the two reads.
fn holder(
    name: &str,
    (kind, left, waiting): (String, i64, u64),
    body: Value,
    alive: &impl Fn(&str) -> Option<bool>,
) -> Option<Holder> {
    let (kind, owner, depth, since, token) = match kind.as_str() {
        "hash" => {
            let mut fields: HashMap<String, String> = redis::from_redis_value(body).ok()?;
            let token = fields.remove("@token").and_then(|token| token.parse().ok());
            // A token is the time of the acquisition in microseconds, unless the clock was set back.
            let since = token.map(|token: i64| Millis(token / 1_000));
            let (owner, depth) = fields.into_iter().next()?;
            (Kind::Reentrant, owner, depth.parse().ok()?, since, token)
        }
        "string" => (Kind::Simple, redis::from_redis_value(body).ok()?, 1, None, None),
        _ => return None,
    };
    let (node, task) = node_and_task(&owner);
    let left_ms = u64::try_from(left).ok();
    let life = alive(node);
    Some(Holder {
        name: name.to_owned(),
        kind,
        node: node.to_owned(),
        task: task.to_owned(),
        depth,
        since,
        token,
        waiting,
        known: life.is_some(),
        orphan: match life {
            Some(alive) => !alive,
            None => left_ms.is_some_and(|left| left < RENEWED_MS),
        },
        left_ms,
        owner,
    })
}

/// Holder of one lock; `None` if it is free.
pub async fn holder_of(
    conn: &mut Connection,
    keys: &Layout,
    name: &str,
    alive: impl Fn(&str) -> Option<bool>,
) -> Result<Option<Holder>> {
    let now = conn.now_at(&keys.locks()).await?;
    Ok(read_locks(conn, keys, &[name.to_owned()], now, &alive).await?.into_iter().next())
}

/// Splits an owner `NODE/TASK#RANDOM` into node and task. For other owners, everything is the node.
pub fn node_and_task(owner: &str) -> (&str, &str) {
    let (node, rest) = owner.split_once('/').unwrap_or((owner, ""));
    (node, rest.rsplit_once('#').map_or(rest, |(task, _)| task))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_split_into_node_and_task() {
        assert_eq!(node_and_task("node-1/close/overdue#1f2e"), ("node-1", "close/overdue"));
        assert_eq!(node_and_task("1f2e"), ("1f2e", ""));
    }

    #[test]
    fn holder_without_node_lives_while_its_lease_is_renewed() {
        let held = |left: i64, alive: Option<bool>| {
            let owner = Value::BulkString(b"desk/root: pending apply#1".to_vec());
            holder("operator", ("string".to_owned(), left, 0), owner, &|_| alive).unwrap()
        };
        assert!(!held(20_500, None).orphan && held(9_000, None).orphan);
        assert!(held(29_000, Some(false)).orphan && !held(1_000, Some(true)).orphan);
        assert!(!held(20_500, None).known && held(29_000, Some(false)).known);
    }
}
