//! The order stream, its group, and the entries that are not acknowledged yet.

use std::collections::{HashMap, HashSet};

use redis::{FromRedisValue, Value, cmd, from_redis_value, pipe};
use seckill_model::{ForeignKey, Millis, VoucherId};
use seckill_redis::{Connection, lossy_utf8::Text};

use crate::{
    ConsumerReport, Limits, PAGE, Poison, Profile, Result, StreamReport, database::Orders,
};

/// Newest entries that a pass reads.
const NEWEST: usize = 100;

/// ID and fields of an entry.
pub(crate) type RawEntry = (String, Vec<(Text, Text)>);

/// The consumer of `attach` in the group of the service.
pub(crate) const CONSUMER: &str = "seckill-attach";
/// Newest entries whose fields are compared.
pub(crate) const ENTRIES: usize = 20;

/// An entry that is not acknowledged, as the service wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) entry: String,
    pub(crate) voucher: VoucherId,
    pub(crate) user: String,
    pub(crate) order: String,
    pub(crate) delivered: bool,
}

/// Entries that were not acknowledged when they were read.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// All of them were read.
    pub(crate) complete: bool,
    /// The users whose orders they contain.
    pub(crate) users: HashMap<VoucherId, HashSet<String>>,
    /// Each of them with its order.
    pub(crate) entries: Vec<Waiting>,
    /// Entries whose user or sale is unreadable.
    pub(crate) unreadable: u64,
    /// Entries that the consumer cannot process.
    pub(crate) poison: HashMap<String, Poison>,
    /// Entries that were delivered many times, with the number of their deliveries.
    pub(crate) redelivered: HashMap<String, u64>,
    /// Entries pending for too long, by consumer: their number and the longest idle time.
    pub(crate) stuck: HashMap<String, (u64, u64)>,
    /// Age of the oldest entry that was never delivered.
    pub(crate) oldest_ms: Option<u64>,
    /// The newest entries, acknowledged ones included, in which an order can be read.
    pub(crate) newest: Vec<Waiting>,
}

impl InFlight {
    /// The number of users of a sale with an entry that may become an order: one that is not in SQL, of a user without a
    /// live one; `None` if it is unknown.
    pub(crate) fn of(&self, sale: VoucherId, orders: &Orders) -> Option<u64> {
        let of_sale = orders.of.get(&sale);
        let has_order = |it: &Waiting| {
            let is_live = of_sale.and_then(|users| users.get(&it.user)).is_some_and(|it| *it > 0);
            is_live || it.order.parse().is_ok_and(|id| orders.ids.contains(&id))
        };
        let waiting = self.entries.iter().filter(|it| it.voucher == sale && !has_order(it));
        let users: HashSet<&str> = waiting.map(|it| it.user.as_str()).collect();
        self.complete.then_some(users.len() as u64)
    }

    /// The number of entries of a sale, and of those that may be of any sale; `None` if it is unknown.
    pub(crate) fn count(&self, sale: VoucherId) -> Option<u64> {
        let of_sale = self.entries.iter().filter(|it| it.voucher == sale).count() as u64;
        self.complete.then_some(of_sale + self.unreadable)
    }

    fn add(&mut self, profile: &Profile, (id, fields): RawEntry, delivered: bool) {
        match waiting(profile, &id, &fields, delivered) {
            Some(entry) => {
                self.users.entry(entry.voucher).or_default().insert(entry.user.clone());
                self.entries.push(entry);
            }
            None => self.unreadable += 1,
        }
        if let Some(poison) = fault_of(profile, &fields) {
            self.poison.insert(id, poison);
        }
    }
}

pub(crate) fn value<'f>(fields: &'f [(Text, Text)], name: &str) -> Option<&'f str> {
    fields.iter().find(|(Text(it), _)| it == name).map(|(_, Text(value))| value.as_str())
}

/// The entry, if its buyer and sale are readable.
pub(crate) fn waiting(
    profile: &Profile,
    id: &str,
    fields: &[(Text, Text)],
    delivered: bool,
) -> Option<Waiting> {
    let voucher = value(fields, &profile.entry.voucher)?.parse().ok().map(VoucherId)?;
    let user = value(fields, &profile.entry.user)?;
    user.parse::<i64>().ok()?;
    let order = value(fields, &profile.entry.order).unwrap_or_default().to_owned();
    Some(Waiting { entry: id.to_owned(), voucher, user: user.to_owned(), order, delivered })
}

/// Why a consumer cannot process an entry with these fields.
pub(crate) fn fault_of(profile: &Profile, fields: &[(Text, Text)]) -> Option<Poison> {
    let names = &profile.entry;
    for name in [&names.order, &names.user, &names.voucher] {
        match value(fields, name) {
            None => return Some(Poison::NoField { name: name.clone() }),
            Some(value) if value.parse::<i64>().is_err() => {
                return Some(Poison::NoNumber { name: name.clone() });
            }
            Some(_) => {}
        }
    }
    None
}

/// Fields of an XINFO reply.
type Info = HashMap<String, Value>;

fn field<T: FromRedisValue>(info: &Info, name: &str) -> Option<T> {
    info.get(name).and_then(|value| from_redis_value(value.clone()).ok())
}

/// What a read of the stream returns: the stream, its entries in flight, and the key if it holds something else.
pub(crate) type Read = (Option<StreamReport>, InFlight, Option<ForeignKey>);

/// Reads the stream: first what was never delivered, then what is pending, as entries move in this direction. An entry
/// that is in neither was acknowledged before.
pub(crate) async fn read(
    conn: &mut Connection,
    profile: &Profile,
    limits: &Limits,
    now: Millis,
) -> Result<Read> {
    let none = (None, InFlight::default(), None);
    if !profile.has_stream() {
        return Ok(none);
    }
    let (key, group) = (&profile.stream.key, &profile.stream.group);
    let holds: String = conn.query(cmd("TYPE").arg(key)).await?;
    match holds.as_str() {
        "stream" => {}
        "none" => {
            let (key, group) = (key.clone(), group.clone());
            let report = StreamReport { key, group, lag: Some(0), ..StreamReport::default() };
            let in_flight = InFlight { complete: true, ..InFlight::default() };
            return Ok((Some(report), in_flight, None));
        }
        _ => {
            let foreign = ForeignKey { key: key.clone(), holds };
            return Ok((None, InFlight::default(), Some(foreign)));
        }
    }
    let stream: Info = conn.query(cmd("XINFO").arg("STREAM").arg(key)).await?;
    let groups: Vec<Info> = conn.query(cmd("XINFO").arg("GROUPS").arg(key)).await?;
    let found = groups.iter().find(|it| field::<Text>(it, "name").is_some_and(|it| it.0 == *group));
    let delivered = found.and_then(|it| field::<String>(it, "last-delivered-id"));
    let newest = newest(conn, profile, NEWEST).await?;
    let newest = newest.iter().filter_map(|(id, fields)| waiting(profile, id, fields, false));
    let mut in_flight =
        InFlight { complete: true, newest: newest.collect(), ..InFlight::default() };
    // Without a group, no entry was delivered.
    let after = delivered.unwrap_or_else(|| "0-0".to_owned());
    let undelivered = add_undelivered(conn, profile, limits, after, now, &mut in_flight).await?;
    let mut report = StreamReport {
        key: key.clone(),
        group: group.clone(),
        exists: true,
        has_group: found.is_some(),
        length: field(&stream, "length").unwrap_or(0),
        added: field(&stream, "entries-added"),
        lag: undelivered.or_else(|| found.and_then(|it| field(it, "lag"))),
        pending: found.and_then(|it| field(it, "pending")).unwrap_or(0),
        consumers: Vec::new(),
        added_per_second: None,
        oldest_undelivered_ms: in_flight.oldest_ms,
    };
    if report.has_group {
        add_pending(conn, profile, limits, &mut in_flight).await?;
        let consumers: Vec<Info> =
            conn.query(cmd("XINFO").arg("CONSUMERS").arg(key).arg(group)).await?;
        report.consumers = consumers
            .iter()
            .map(|it| ConsumerReport {
                name: field::<Text>(it, "name").map_or_else(String::new, |Text(name)| name),
                pending: field(it, "pending").unwrap_or(0),
                idle_ms: field(it, "idle").unwrap_or(0),
            })
            .collect();
        report.consumers.sort_by_key(|it| (std::cmp::Reverse(it.pending), it.idle_ms));
    }
    Ok((Some(report), in_flight, None))
}

/// Adds the entries after `after`; returns their number, if all were read.
async fn add_undelivered(
    conn: &mut Connection,
    profile: &Profile,
    limits: &Limits,
    mut after: String,
    now: Millis,
    in_flight: &mut InFlight,
) -> Result<Option<u64>> {
    let mut count = 0;
    while count < limits.in_flight {
        let page = entries_after(conn, profile, &after, PAGE).await?;
        let (is_last, read) = (page.len() < PAGE, page.len());
        if count == 0 {
            let added = page.first().and_then(|(id, _)| id.split('-').next()?.parse().ok());
            in_flight.oldest_ms = added.map(|added| now.since(Millis(added)));
        }
        count += read;
        for entry in page {
            after.clone_from(&entry.0);
            in_flight.add(profile, entry, false);
        }
        if is_last {
            return Ok(Some(count as u64));
        }
    }
    in_flight.complete = false;
    Ok(None)
}

/// A pending entry.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) id: String,
    pub(crate) consumer: String,
    pub(crate) idle_ms: u64,
    pub(crate) deliveries: u64,
    /// `None` without a body.
    pub(crate) fields: Option<Vec<(Text, Text)>>,
}

/// The pending entries from `from` on, at most `count` of them.
pub(crate) async fn pending_page(
    conn: &mut Connection,
    profile: &Profile,
    from: &str,
    count: usize,
) -> Result<Vec<Pending>> {
    let (key, group) = (&profile.stream.key, &profile.stream.group);
    let mut read = cmd("XPENDING");
    read.arg(key).arg(group).arg(from).arg("+").arg(count);
    let page: Vec<(String, Text, u64, u64)> = conn.query(&read).await?;
    if page.is_empty() {
        return Ok(Vec::new());
    }
    let mut read = pipe();
    for (id, ..) in &page {
        read.cmd("XRANGE").arg(key).arg(id).arg(id);
    }
    let bodies: Vec<Vec<RawEntry>> = conn.pipe(&read).await?;
    let entries = page.into_iter().zip(bodies);
    let entry = |((id, Text(consumer), idle_ms, deliveries), mut body): (_, Vec<RawEntry>)| {
        let fields = body.pop().map(|(_, fields)| fields);
        Pending { id, consumer, idle_ms, deliveries, fields }
    };
    Ok(entries.map(entry).collect())
}

/// The entries after `after`, at most `count` of them.
pub(crate) async fn entries_after(
    conn: &mut Connection,
    profile: &Profile,
    after: &str,
    count: usize,
) -> Result<Vec<RawEntry>> {
    range(conn, &profile.stream.key, &format!("({after}"), count).await
}

/// The entries of any stream from `from` on, at most `count` of them.
pub(crate) async fn range(
    conn: &mut Connection,
    key: &str,
    from: &str,
    count: usize,
) -> Result<Vec<RawEntry>> {
    let mut read = cmd("XRANGE");
    read.arg(key).arg(from).arg("+").arg("COUNT").arg(count);
    Ok(conn.query(&read).await?)
}

/// The newest entries, at most `count` of them.
pub(crate) async fn newest(
    conn: &mut Connection,
    profile: &Profile,
    count: usize,
) -> Result<Vec<RawEntry>> {
    let mut read = cmd("XREVRANGE");
    read.arg(&profile.stream.key).arg("+").arg("-").arg("COUNT").arg(count);
    Ok(conn.query(&read).await?)
}

/// The groups of the stream: name, and the ID that was delivered last.
pub(crate) async fn groups(
    conn: &mut Connection,
    profile: &Profile,
) -> Result<Vec<(String, String)>> {
    let groups: Vec<Info> = conn.query(cmd("XINFO").arg("GROUPS").arg(&profile.stream.key)).await?;
    let named = |it: &Info| {
        let Text(name) = field(it, "name")?;
        Some((name, field(it, "last-delivered-id")?))
    };
    Ok(groups.iter().filter_map(named).collect())
}

/// Milliseconds since each consumer last asked for entries.
pub(crate) async fn idle(conn: &mut Connection, profile: &Profile) -> Result<HashMap<String, u64>> {
    let (key, group) = (&profile.stream.key, &profile.stream.group);
    let consumers: Vec<Info> =
        conn.query(cmd("XINFO").arg("CONSUMERS").arg(key).arg(group)).await?;
    let named = |it: &Info| {
        let Text(name) = field(it, "name")?;
        Some((name, field(it, "idle")?))
    };
    Ok(consumers.iter().filter_map(named).collect())
}

/// How far a stream has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The ID that was added last.
    pub(crate) last: String,
    /// Number of entries that were ever added.
    pub(crate) added: u64,
}

/// How far the stream has come.
pub(crate) async fn position(conn: &mut Connection, profile: &Profile) -> Result<Position> {
    let stream: Info = conn.query(cmd("XINFO").arg("STREAM").arg(&profile.stream.key)).await?;
    let last = field(&stream, "last-generated-id").unwrap_or_default();
    Ok(Position { last, added: field(&stream, "entries-added").unwrap_or(0) })
}

/// Adds the pending entries.
async fn add_pending(
    conn: &mut Connection,
    profile: &Profile,
    limits: &Limits,
    in_flight: &mut InFlight,
) -> Result<()> {
    let (mut from, mut count) = ("-".to_owned(), 0);
    while count < limits.in_flight {
        let page = pending_page(conn, profile, &from, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        from = format!("({}", last.id);
        count += page.len();
        let is_last = page.len() < PAGE;
        for Pending { id, consumer, idle_ms, deliveries, fields } in page {
            if let Some(fields) = fields {
                in_flight.add(profile, (id.clone(), fields), true);
            } else {
                in_flight.unreadable += 1;
                in_flight.poison.insert(id.clone(), Poison::BodyGone);
            }
            if deliveries >= limits.deliveries && !in_flight.poison.contains_key(&id) {
                in_flight.redelivered.insert(id, deliveries);
            }
            if idle_ms >= limits.stuck_ms {
                let (count, longest) = in_flight.stuck.entry(consumer).or_default();
                *count += 1;
                *longest = idle_ms.max(*longest);
            }
        }
        if is_last {
            return Ok(());
        }
    }
    in_flight.complete = false;
    Ok(())
}

/// The numbers of an entry ID, for its order in the stream.
pub(crate) fn entry_order(id: &str) -> (u64, u64) {
    let (millis, number) = id.split_once('-').unwrap_or((id, ""));
    (millis.parse().unwrap_or(0), number.parse().unwrap_or(0))
}

/// When an entry was added.
pub(crate) fn added_at(entry: &Waiting) -> Millis {
    Millis(entry_order(&entry.entry).0 as i64)
}
