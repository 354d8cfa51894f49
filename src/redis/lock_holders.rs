//! Who holds which lock, for a person.
//!
//! It reads what `engine::locks` has written, and changes nothing.

use std::collections::HashMap;

use redis::{Value, pipe};
use seckill_model::{ForeignKey, Millis};
use serde::Serialize;

use super::{BrokerError, Layout, Link, lossy_utf8::Text};

/// A lease of 30 s that is renewed every 10 s has at least that long to go, in milliseconds.
const RENEWED_MS: u64 = 18_000;

/// A lock and its holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Which lock.
    pub name: String,
    /// Which kind.
    pub kind: Kind,
    /// The holder's identity, one for each acquisition.
    pub owner: String,
    /// Its node.
    pub node: String,
    /// What it does.
    pub task: String,
    /// How deep it is held.
    pub depth: u32,
    /// Milliseconds left of the lease; `None` where it never ends.
    pub left_ms: Option<u64>,
    /// Since when, by the clock of Redis; `None` for a simple one.
    pub since: Option<Millis>,
    /// Its fencing token; `None` for a simple one.
    pub token: Option<i64>,
    /// How many wait for it.
    pub waiting: u64,
    /// Its node gives no sign of life, or nobody renews its lease.
    pub orphan: bool,
    /// It is one of the nodes that gave signs of life; else nobody can tell whether it is alive.
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

/// Locks that are held, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Holders {
    /// How many are held, about: a lease may have ended just now.
    pub total: u64,
    /// The first of them.
    pub locks: Vec<Holder>,
    /// Locks whose key holds what another program has written: they can't be taken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub foreign: Vec<ForeignKey>,
}

/// The first `most` locks that are held. Reads the index of locks and those locks, nothing else.
/// A node counts as alive when `alive` says so.
///
/// # Errors
/// Redis is away.
pub async fn holders(
    link: &mut Link,
    keys: &Layout,
    most: usize,
    alive: impl Fn(&str) -> Option<bool>,
) -> Result<Holders, BrokerError> {
    let now = link.now().await?;
    let mut read = pipe();
    read.cmd("ZRANGEBYSCORE").arg(keys.locks()).arg(now.0).arg("+inf");
    read.arg("LIMIT").arg(0).arg(most);
    read.cmd("ZCOUNT").arg(keys.locks()).arg(now.0).arg("+inf");
    let (names, total): (Vec<Text>, u64) = link.pipe(&read).await?;
    let mut names: Vec<String> = names.into_iter().map(|Text(name)| name).collect();
    names.sort_unstable();
    let mut locks = Vec::new();
    for page in names.chunks(500) {
        locks.extend(look(link, keys, page, now, &alive).await?);
    }
    let ended = (names.len() - locks.len()) as u64;
    Ok(Holders { total: total.saturating_sub(ended), locks, foreign: Vec::new() })
}

/// Of these locks, which the engine takes, those that can't be taken for what their key holds.
///
/// # Errors
/// Redis is away.
pub async fn foreign_locks(
    link: &mut Link,
    keys: &Layout,
    names: &[String],
) -> Result<Vec<ForeignKey>, BrokerError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let mut read = pipe();
    for name in names {
        read.cmd("TYPE").arg(keys.lock(name));
    }
    let types: Vec<String> = link.pipe(&read).await?;
    let found = names.iter().zip(types).filter(|(_, holds)| holds != "hash" && holds != "none");
    Ok(found.map(|(name, holds)| ForeignKey { key: keys.lock(name), holds }).collect())
}

async fn look(
    link: &mut Link,
    keys: &Layout,
    names: &[String],
    now: Millis,
    alive: &impl Fn(&str) -> Option<bool>,
) -> Result<Vec<Holder>, BrokerError> {
    let mut read = pipe();
    for name in names {
        let key = keys.lock(name);
        read.cmd("TYPE").arg(&key).cmd("PTTL").arg(&key);
        read.cmd("ZCOUNT").arg(keys.lock_waiting(name)).arg(now.0).arg("+inf");
    }
    let facts: Vec<(String, i64, u64)> = triples(&link.pipe::<Vec<Value>>(&read).await?)?;
    let mut read = pipe();
    for (name, (kind, ..)) in names.iter().zip(&facts) {
        match kind.as_str() {
            "hash" => read.cmd("HGETALL").arg(keys.lock(name)),
            "string" => read.cmd("GET").arg(keys.lock(name)),
            _ => read.cmd("ECHO").arg(""),
        };
    }
    let bodies: Vec<Value> = link.pipe(&read).await?;
    let rows = names.iter().zip(facts).zip(bodies);
    Ok(rows.filter_map(|((name, facts), body)| holder(name, facts, body, alive)).collect())
}

fn triples(values: &[Value]) -> Result<Vec<(String, i64, u64)>, BrokerError> {
    let unexpected = || BrokerError::Reply(None);
    values
        .chunks_exact(3)
        .map(|row| redis::from_redis_value(Value::Array(row.to_vec())).map_err(|_| unexpected()))
        .collect()
}

/// `None` when it was given back between the two looks.
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
            fields.remove("@kept");
            let since = fields.remove("@since").and_then(|at| at.parse().ok()).map(Millis);
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

/// The holder of one lock; `None` when nobody holds it.
///
/// # Errors
/// Redis is away.
pub async fn holder_of(
    link: &mut Link,
    keys: &Layout,
    name: &str,
    alive: impl Fn(&str) -> Option<bool>,
) -> Result<Option<Holder>, BrokerError> {
    let now = link.now().await?;
    Ok(look(link, keys, &[name.to_owned()], now, &alive).await?.into_iter().next())
}

/// Node and task of an owner `NODE/TASK#RANDOM`. Of one that another program made, all is the node.
pub fn node_and_task(owner: &str) -> (&str, &str) {
    let (node, rest) = owner.split_once('/').unwrap_or((owner, ""));
    (node, rest.rsplit_once('#').map_or(rest, |(task, _)| task))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_says_who_it_is() {
        assert_eq!(node_and_task("node-1/close/overdue#1f2e"), ("node-1", "close/overdue"));
        assert_eq!(node_and_task("1f2e"), ("1f2e", ""));
    }

    #[test]
    fn who_is_no_node_lives_as_long_as_his_lease_is_renewed() {
        let held = |left: i64, alive: Option<bool>| {
            let owner = Value::BulkString(b"desk/root: pending apply#1".to_vec());
            holder("operator", ("string".to_owned(), left, 0), owner, &|_| alive).unwrap()
        };
        assert!(!held(20_500, None).orphan && held(9_000, None).orphan);
        assert!(held(29_000, Some(false)).orphan && !held(1_000, Some(true)).orphan);
        assert!(!held(20_500, None).known && held(29_000, Some(false)).known);
    }
}
