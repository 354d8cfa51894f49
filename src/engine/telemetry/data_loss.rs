//! Data losses in Redis that a node has reconciled: events of the audit log. Nodes also publish them in Redis for the
//! minutes in which the database may not have them yet.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    fmt,
    sync::Once,
};

use redis::{cmd, pipe};
use seckill_model::{
    Message, Millis, OrderId, ShardId, VoucherId, ledger::SaleKey, message::text, reason::reason,
};
use seckill_redis::{Connection, Layout, RedisError, keys::Partition, lossy_utf8::Text};
use seckill_store::{AuditEntry, ENGINE};
use serde::{Deserialize, Serialize};

use crate::{
    EngineError, Result,
    lists::{CLAUSES, ITEMS},
    node::outbox::Outbox,
};

/// Name of the event in the audit log.
pub const REDIS_RECONCILED: &str = "redis reconciled";
/// How long a loss is displayed, in milliseconds.
const SHOWN_MS: u64 = 600_000;
/// Maximum number of losses a node publishes, the newest ones.
const PUBLISHED: usize = 50;
/// Above this age in milliseconds, the publishing node may have died before its event was in the database.
const WRITTEN_WITHIN_MS: u64 = 5_000;

/// What was lost, and what was restored: the data of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reconciled {
    /// Keys that were lost, replaced or rolled back; none if the server as a whole lost its last writes.
    pub keys: Vec<String>,
    /// Buyers restored, each with a piece.
    pub restored: u64,
    /// Buyers removed because their order is closed: an older copy of the buyers still held them.
    pub removed: u64,
    /// Orders unknown to SQL that were enqueued again: their buyers got the reply "admitted".
    pub promised: u64,
    /// Orders that cannot be restored: the piece is gone, or the buyer holds another one. A promise among them has
    /// become a dead letter.
    pub refused: u64,
    /// Buyers that Redis had admitted according to its stock, and of whom nothing else is known.
    pub unknown: u64,
    /// Archived sales that Redis still held.
    pub archived: u64,
    /// Why the sale stays closed.
    pub closed: Option<Closed>,
    /// The sale was paused: SQL was behind Redis, and what decides whether it sells was lost.
    pub paused: bool,
    /// Redis restarted or failed over while no node lived.
    pub unwitnessed: Option<Unwitnessed>,
    /// The `promised` orders; the event has only their number.
    #[serde(skip)]
    pub promised_ids: Vec<OrderId>,
    /// The `refused` orders.
    #[serde(skip)]
    pub refused_ids: Vec<OrderId>,
}

/// A restart or failover of Redis while no node lived, which would have remembered what it admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unwitnessed {
    /// How many seconds of admissions may be missing; 0 if that is unknown.
    pub seconds: u64,
    /// The newest admission that Redis has; `None` if it has none.
    pub newest: Option<Millis>,
}

impl fmt::Display for Unwitnessed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seconds, newest } = *self;
        let newest = newest.map_or_else(|| "none".to_owned(), |at| at.to_string());
        f.write_str(&text!("loss-unwitnessed", seconds, newest))
    }
}

/// Why a sale cannot be reconciled without an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Closed {
    /// It has more buyers than pieces.
    Oversold,
    /// Redis and SQL hold different sales under its ID.
    OtherSale,
}

impl Closed {
    /// From the fields `oversold` and `restoring` of a sale in Redis whose keys are inconsistent.
    pub(crate) fn of(oversold: Option<&str>, restoring: Option<&str>) -> Option<Self> {
        match (oversold, restoring) {
            (_, Some("another sale")) => Some(Self::OtherSale),
            (Some(_), None) => Some(Self::Oversold),
            _ => None,
        }
    }

    /// The corresponding error.
    pub(crate) fn error(self, voucher: VoucherId) -> EngineError {
        match self {
            Self::Oversold => EngineError::Failed(reason!("error-oversold", sale = voucher)),
            Self::OtherSale => EngineError::OtherSale(voucher),
        }
    }
}

impl Reconciled {
    pub(crate) fn add(&mut self, other: Self) {
        self.keys.extend(other.keys);
        self.restored += other.restored;
        self.removed += other.removed;
        self.promised += other.promised;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.archived += other.archived;
        self.closed = self.closed.or(other.closed);
        self.paused |= other.paused;
        self.unwitnessed = self.unwitnessed.or(other.unwitnessed);
        self.promised_ids.extend(other.promised_ids);
        self.refused_ids.extend(other.refused_ids);
    }

    /// What was restored and what could not be, without the keys.
    pub fn parts(&self) -> String {
        let Self { restored, removed, promised, refused, unknown, archived, .. } = self;
        let counted = |count: &u64, text: fn(u64) -> String| (*count > 0).then(|| text(*count));
        let parts = [
            counted(restored, |count| text!("loss-buyers", count)),
            counted(promised, |count| text!("loss-promised", count)),
            counted(refused, |count| text!("loss-refused", count)),
            counted(removed, |count| text!("loss-removed", count)),
            counted(unknown, |count| text!("loss-unknown", count)),
            counted(archived, |count| text!("loss-archived", count)),
        ];
        let unwitnessed = self.unwitnessed.map(|it| it.to_string());
        let parts: Vec<_> = parts.into_iter().flatten().chain(unwitnessed).collect();
        if parts.is_empty() { text!("loss-nothing") } else { parts.join(&CLAUSES) }
    }
}

/// Whether a field says nothing, and is left out of JSON.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Totals of recent losses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecentLosses {
    /// When the last one was reconciled.
    pub at: Millis,
    /// All of them; each key once.
    #[serde(flatten)]
    pub total: Reconciled,
    /// How often keys were lost that had been lost more often before than nodes report one loss: Redis evicts them, or
    /// another program deletes them.
    #[serde(skip_serializing_if = "is_default")]
    pub again: usize,
}

/// Each of a few nodes reports what it has restored after one loss.
const ONE_LOSS: usize = 4;

/// Maximum number of keys listed by name; the others are counted.
const NAMED: usize = 4;

/// Returns whether dead letters are among these keys: those without an order cannot be restored.
pub fn loses_letters(keys: &[String]) -> bool {
    keys.iter().any(|key| key.split(' ').next().is_some_and(|key| key.ends_with(":dead")))
}

/// Returns the keys to list, each once, with the type found if it was wrong, and the number of keys omitted.
pub fn named(keys: &[String]) -> (Vec<(&str, Option<&str>)>, usize) {
    let split = keys.iter().map(|key| match key.split_once(' ') {
        Some((key, held)) => (key, Some(held)),
        None => (key.as_str(), None),
    });
    let twice = |key: &str| keys.iter().filter_map(|it| it.split_once(' ')).any(|it| it.0 == key);
    let mut named: Vec<_> = split.filter(|(key, held)| held.is_some() || !twice(key)).collect();
    let more = named.len().saturating_sub(NAMED);
    named.truncate(NAMED);
    (named, more)
}

/// The same as text.
pub fn list_keys(keys: &[String]) -> String {
    let (named, more) = named(keys);
    let named = named.into_iter().map(|(key, was)| match was {
        Some(held) => text!("loss-was-a", key, held),
        None => key.to_owned(),
    });
    let named = named.collect::<Vec<_>>().join(&ITEMS);
    if more > 0 { text!("loss-and-more", named, more) } else { named }
}

/// Returns the inconsistent keys: streams that have `lost` entries, and the keys of these shards.
pub fn damaged_keys(
    keys: &Layout,
    lost: &[String],
    shards: impl Iterator<Item = (ShardId, Option<SaleKey>)>,
) -> Vec<String> {
    let damaged = shards.filter_map(|(shard, damaged)| {
        Some(match damaged? {
            SaleKey::Stock => keys.stock(shard),
            SaleKey::Buyers => keys.buyers(shard),
            SaleKey::Sale => keys.sale(shard),
            // The event names its keys; the ledger reports the sale as being reconciled.
            SaleKey::Restoring => return None,
        })
    });
    lost.iter().cloned().chain(damaged).collect()
}

/// Returns the number of buyers possibly admitted in a loss without any record, from the result of its event.
pub fn unknown_buyers(result: &Message) -> u64 {
    result.part("/data_loss/unknown").unwrap_or(0)
}

/// An event that a node publishes: its time, its subject and result as stored in SQL, and its key in the log.
type Published = (Millis, String, String, Option<String>);

/// Publishes the losses reconciled by this node, and records those of other nodes, which may have died first.
#[derive(Debug, Default)]
pub(crate) struct LossExchange {
    own: Vec<AuditEntry>,
    /// Processed events, by their key in the log.
    seen: HashSet<Option<String>>,
}

impl LossExchange {
    /// Publishes new events in `outbox`, and takes over those published by other processes.
    pub(crate) async fn run(
        &mut self,
        conn: &mut Connection,
        of: &Partition,
        node: &str,
        outbox: &Outbox,
    ) -> Result<()> {
        for entry in published(conn, of).await? {
            // Events of an earlier process of this node stay published.
            let own = entry.node == node;
            let due = own || Millis::now().since(entry.at) > WRITTEN_WITHIN_MS;
            if due && self.seen.insert(entry.once.clone()) {
                self.own.extend(own.then(|| entry.clone()));
                outbox.put(entry);
            }
        }
        let new = |entry: &AuditEntry| entry.action == REDIS_RECONCILED && entry.node == node;
        let waiting = outbox.waiting().into_iter().filter(new);
        let new: Vec<AuditEntry> =
            waiting.filter(|entry| self.seen.insert(entry.once.clone())).collect();
        if new.is_empty() {
            return Ok(());
        }
        self.own.extend(new);
        self.own.retain(|entry| Millis::now().since(entry.at) < SHOWN_MS);
        self.own.drain(..self.own.len().saturating_sub(PUBLISHED));
        let own = self.own.iter();
        let own: Vec<Published> = own
            .map(|entry| {
                (entry.at, entry.subject.stored(), entry.result.stored(), entry.once.clone())
            })
            .collect();
        let Ok(json) = serde_json::to_string(&own) else { return Ok(()) };
        let mut publish = pipe();
        publish.cmd("HSET").arg(of.losses()).arg(node).arg(json).ignore();
        publish.cmd("PEXPIRE").arg(of.losses()).arg(SHOWN_MS).ignore();
        Ok(conn.pipe(&publish).await?)
    }
}

/// Warns once per process about a list that cannot be parsed: the lists are read for each snapshot.
static UNREADABLE: Once = Once::new();

/// Returns the losses published by nodes.
pub async fn published(
    conn: &mut Connection,
    of: &Partition,
) -> Result<Vec<AuditEntry>, RedisError> {
    let lists: Vec<(Text, Text)> = conn.query(cmd("HGETALL").arg(of.losses())).await?;
    let mut found = Vec::new();
    for (Text(node), Text(json)) in lists {
        let list: Vec<Published> = serde_json::from_str(&json).unwrap_or_else(|error| {
            UNREADABLE.call_once(|| {
                tracing::warn!(key = of.losses(), node, %error, "an unreadable list of losses is skipped");
            });
            Vec::new()
        });
        found.extend(list.into_iter().map(|(at, subject, result, once)| AuditEntry {
            at,
            operator: ENGINE.to_owned(),
            node: node.clone(),
            action: REDIS_RECONCILED.to_owned(),
            subject: Message::from_stored(subject),
            result: Message::from_stored(result),
            once,
            ..AuditEntry::default()
        }));
    }
    Ok(found)
}

/// Adds published losses that the log does not have yet to its `lines`, which stay sorted by time, newest first. Such a
/// line has a negative number.
pub fn add_published(lines: &mut Vec<AuditEntry>, published: Vec<AuditEntry>) {
    for (place, entry) in (1..).zip(published) {
        let is_same = |line: &AuditEntry| {
            (line.at, &line.action, &line.node, &line.subject)
                == (entry.at, &entry.action, &entry.node, &entry.subject)
        };
        if !lines.iter().any(is_same) {
            lines.push(AuditEntry { id: -place, ..entry });
        }
    }
    lines.sort_by_key(|line| Reverse(line.position()));
}

impl fmt::Display for Reconciled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = &self.keys;
        let mut text = if keys.is_empty() {
            String::new()
        } else {
            text!("loss-keys", keys = list_keys(keys))
        };
        text += &self.parts();
        text.extend(loses_letters(keys).then(|| text!("loss-letters")));
        text.extend(self.closed.map(|closed| match closed {
            Closed::Oversold => text!("loss-oversold"),
            Closed::OtherSale => text!("loss-other-sale"),
        }));
        text.extend(self.paused.then(|| text!("loss-paused")));
        f.write_str(&text)
    }
}

impl RecentLosses {
    /// Returns the totals of recent losses in `log`, including published ones; `None` if nothing was lost.
    pub fn of(log: &[AuditEntry], now: Millis) -> Option<Self> {
        let is_recent = |entry: &&AuditEntry| {
            entry.action == REDIS_RECONCILED && now.since(entry.at) < SHOWN_MS
        };
        let (mut at, mut total) = (None, Reconciled::default());
        for entry in log.iter().filter(is_recent) {
            at = at.max(Some(entry.at));
            // An event without figures still indicates a loss.
            total.add(entry.result.part("/data_loss").unwrap_or_default());
        }
        let (mut times, mut again) = (HashMap::<String, usize>::new(), 0);
        total.keys.retain(|key| {
            let times = times.entry(key.clone()).or_default();
            *times += 1;
            again += usize::from(*times > ONE_LOSS);
            *times == 1
        });
        Some(Self { at: at?, total, again })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Line {
        data_loss: Reconciled,
    }

    impl fmt::Display for Line {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.data_loss.fmt(f)
        }
    }

    #[test]
    fn at_most_four_distinct_keys_are_named() {
        let keys =
            |keys: &[&str]| list_keys(&keys.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(keys(&["w list", "w"]), "w (was a list)");
        assert_eq!(keys(&["a", "b", "c", "d", "w", "w list"]), "a, b, c, d and 1 more");
    }

    #[test]
    fn recent_losses_in_the_log_are_summed_up() {
        let line = |id, at, buyers, refused| AuditEntry {
            id,
            at: Millis(at),
            action: REDIS_RECONCILED.to_owned(),
            result: Message::of(&Line {
                data_loss: Reconciled {
                    restored: buyers,
                    promised: 1,
                    refused,
                    ..Reconciled::default()
                },
            }),
            ..AuditEntry::default()
        };
        let other = AuditEntry { id: 9, action: "sale end".into(), ..AuditEntry::default() };
        let log = [line(3, 900_000, 5, 0), other, line(2, 899_000, 7, 1), line(1, 1, 99, 9)];
        let sum = RecentLosses::of(&log, Millis(901_000));
        let expected = RecentLosses {
            at: Millis(900_000),
            total: Reconciled { restored: 12, promised: 2, refused: 1, ..Reconciled::default() },
            again: 0,
        };
        assert_eq!(sum, Some(expected));
        assert_eq!(RecentLosses::of(&log[1..2], Millis(1)), None);
    }

    #[test]
    fn keys_that_are_lost_again_and_again_are_noticed() {
        let line = |id| {
            let keys = vec![Layout::default().buyers(ShardId::only(VoucherId(1)))];
            let data_loss = Reconciled { keys, ..Reconciled::default() };
            let (action, result) = (REDIS_RECONCILED.to_owned(), Message::of(&Line { data_loss }));
            AuditEntry { id, at: Millis(id), action, result, ..AuditEntry::default() }
        };
        let log: Vec<AuditEntry> = (1..=6).map(line).collect();
        let of = |log: &[AuditEntry]| RecentLosses::of(log, Millis(9)).unwrap();
        // Each node of a fleet reports what it has restored.
        assert_eq!((of(&log[..4]).again, of(&log[..4]).total.keys.len()), (0, 1));
        assert_eq!((of(&log).again, of(&log).total.keys.len()), (2, 1));
    }

    #[test]
    fn a_published_loss_is_counted_once() {
        let entry = |at| AuditEntry {
            at: Millis(at),
            action: REDIS_RECONCILED.to_owned(),
            ..AuditEntry::default()
        };
        let mut log = vec![AuditEntry { id: 7, ..entry(50) }];
        add_published(&mut log, vec![entry(50), entry(60)]);
        assert_eq!(log.iter().map(|line| line.id).collect::<Vec<_>>(), [-2, 7]);
    }
}
