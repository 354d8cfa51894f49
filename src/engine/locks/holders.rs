//! Who holds what: for a person, and for taking a lock from its holder.

use std::collections::HashMap;

use redis::{Value, cmd, pipe};
use serde::Serialize;

use super::{LockError, LockName, Owner};
use crate::{
    broker::{BrokerError, Layout, Link, scripts},
    model::Millis,
};

/// Entries of the index whose lease ended that long ago are dropped from it.
const STALE_MS: i64 = 60_000;

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
    /// Its node gives no sign of life.
    pub orphan: bool,
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
    alive: impl Fn(&str) -> bool,
) -> Result<Holders, BrokerError> {
    let mut read = pipe();
    read.cmd("TIME");
    read.cmd("ZRANGE")
        .arg(keys.locks())
        .arg(0)
        .arg(most.saturating_sub(1))
        .cmd("ZCARD")
        .arg(keys.locks());
    let ((seconds, micros), mut names, total): ((i64, i64), Vec<String>, u64) =
        link.pipe(&read).await?;
    let now = Millis(seconds * 1_000 + micros / 1_000);
    names.sort_unstable();
    let mut locks = Vec::new();
    for page in names.chunks(500) {
        locks.extend(look(link, keys, page, now, &alive).await?);
    }
    if locks.len() < names.len() {
        // Only those that ended long ago: one that is taken just now must not leave the index.
        let mut sweep = cmd("ZREMRANGEBYSCORE");
        sweep.arg(keys.locks()).arg("-inf").arg(now.0 - STALE_MS);
        link.query::<u64>(&sweep).await?;
    }
    let ended = (names.len() - locks.len()) as u64;
    Ok(Holders { total: total.saturating_sub(ended), locks })
}

async fn look(
    link: &mut Link,
    keys: &Layout,
    names: &[String],
    now: Millis,
    alive: &impl Fn(&str) -> bool,
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
    let unexpected = || BrokerError::Reply("the look at locks");
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
    alive: &impl Fn(&str) -> bool,
) -> Option<Holder> {
    let (kind, owner, depth, since, token) = match kind.as_str() {
        "hash" => {
            let mut fields: HashMap<String, String> = redis::from_redis_value(body).ok()?;
            let token = fields.remove("@token").and_then(|token| token.parse().ok());
            let since = fields.remove("@since").and_then(|at| at.parse().ok()).map(Millis);
            let (owner, depth) = fields.into_iter().next()?;
            (Kind::Reentrant, owner, depth.parse().ok()?, since, token)
        }
        "string" => (Kind::Simple, redis::from_redis_value(body).ok()?, 1, None, None),
        _ => return None,
    };
    let owner = Owner::from_redis(owner);
    Some(Holder {
        name: name.to_owned(),
        kind,
        node: owner.node().to_owned(),
        task: owner.task().to_owned(),
        depth,
        left_ms: u64::try_from(left).ok(),
        since,
        token,
        waiting,
        orphan: !alive(owner.node()),
        owner: owner.as_str().to_owned(),
    })
}

/// The holder of one lock.
///
/// # Errors
/// [`LockError::NotHeld`], or Redis is away.
pub async fn holder_of(
    link: &mut Link,
    keys: &Layout,
    name: &LockName,
    alive: impl Fn(&str) -> bool,
) -> Result<Holder, LockError> {
    let names = [name.as_str().to_owned()];
    let found = look(link, keys, &names, Millis::default(), &alive).await?;
    found.into_iter().next().ok_or_else(|| LockError::NotHeld(name.clone()))
}

/// Takes a lock from this very holder, and tells its node so.
///
/// # Errors
/// [`LockError::NotHeld`] when it does not hold the lock any more, or Redis is away.
pub async fn revoke(
    link: &mut Link,
    keys: &Layout,
    name: &LockName,
    owner: &str,
) -> Result<(), LockError> {
    let mut simple = scripts::LOCK_RELEASE_SIMPLE.prepare_invoke();
    simple.key(keys.lock(name.as_str())).key(keys.locks()).arg(owner).arg(name.as_str());
    if link.invoke::<u8>(&simple).await? == 1 {
        return Ok(());
    }
    let mut call = scripts::LOCK_RELEASE.prepare_invoke();
    call.key(keys.lock(name.as_str())).key(keys.locks()).key(keys.lock_waiting(name.as_str()));
    call.arg(owner).arg(0).arg(name.as_str()).arg(keys.lock_channel()).arg(0).arg("revoked");
    match link.invoke::<u8>(&call).await? {
        1 => Ok(()),
        _ => Err(LockError::NotHeld(name.clone())),
    }
}
