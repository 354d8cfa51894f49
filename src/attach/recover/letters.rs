//! Dead letters of recoveries: read, and replayed after their cause was removed.

use redis::{Value, cmd};
use seckill_model::{Millis, reason};
use seckill_redis::{Connection, keys::attach_dead, lossy_utf8::Text, scripts};
use serde::Serialize;

use super::{
    Line, Log, Newest, Recovery,
    rows::{Facts, Order, order_of},
};
use crate::{
    AttachError, Profile, Result,
    marks::mark_of,
    stream::{self, RawEntry, entry_order},
};

/// Why the script did not add a letter.
const MOVED: i64 = 1;
const CHANGED: i64 = 2;
const SOLD_OUT: i64 = 3;
/// How often a letter is tried while users buy.
const TRIES: usize = 50;
/// Prefix of the fields of the body.
const BODY: &str = "body:";

/// An entry that a recovery has given up. The keys are a contract of `attach recover --dead-letters --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Letter {
    /// Its ID in the stream of dead letters.
    pub letter: String,
    /// The ID that it had in the stream of the service.
    pub entry: String,
    /// Why it yields no order.
    pub reason: String,
    /// The consumer that held it.
    pub consumer: String,
    /// When it was given up.
    pub at: Option<Millis>,
    /// Its fields; empty if it was trimmed or deleted before.
    pub body: Vec<(String, String)>,
}

impl Letter {
    fn of((letter, fields): RawEntry) -> Self {
        let value = |name| stream::value(&fields, name).unwrap_or_default().to_owned();
        let (entry, reason, consumer) = (value("entry"), value("reason"), value("consumer"));
        let at = value("at").parse().ok().map(Millis);
        let body = fields.into_iter().filter_map(|(name, value)| {
            name.0.strip_prefix(BODY).map(|name| (name.to_owned(), value.0))
        });
        Self { letter, entry, reason, consumer, at, body: body.collect() }
    }

    /// The value of a field of its body.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.body.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    /// The order that its entry asked for.
    pub(super) fn order(&self, profile: &Profile) -> Option<Order> {
        let fields =
            self.body.iter().map(|(name, value)| (Text(name.clone()), Text(value.clone())));
        let fields: Vec<(Text, Text)> = fields.collect();
        order_of(profile, Some(&fields)).ok()
    }
}

/// The dead letters of a stream from `from` on, oldest first, at most `count` of them.
pub(crate) async fn page(
    conn: &mut Connection,
    stream: &str,
    from: &str,
    count: usize,
) -> Result<Vec<Letter>> {
    let page = stream::range(conn, &attach_dead(stream), from, count).await?;
    Ok(page.into_iter().map(Letter::of).collect())
}

impl Recovery {
    /// The oldest dead letters of recoveries of this stream, at most `count` of them.
    ///
    /// # Errors
    /// Redis is unreachable.
    pub async fn letters(&mut self, count: usize) -> Result<Vec<Letter>> {
        page(&mut self.conn, &self.profile.stream.key, "-", count).await
    }

    /// The dead letter with this ID, if it can be replayed.
    ///
    /// # Errors
    /// There is none, it has no body, its sale has moved to an engine, or Redis is unreachable.
    pub async fn letter(&mut self, id: &str) -> Result<Letter> {
        let stream = &self.profile.stream.key;
        let refused = |why| Err(AttachError::Refused(why));
        // XRANGE rejects what is no ID.
        let (millis, number) = entry_order(id);
        let from = format!("{millis}-{number}");
        let found = page(&mut self.conn, stream, &from, 1).await?.pop();
        let found = found.filter(|it| it.letter == id);
        let Some(found) = found else {
            return refused(reason!("attach-letter-missing", letter = id, stream));
        };
        if found.body.is_empty() {
            return refused(reason!("attach-letter-no-body", letter = id));
        }
        let Some(order) = found.order(&self.profile) else {
            return refused(reason!("attach-letter-unreadable", letter = id));
        };
        let voucher = order.voucher;
        if self.conn.query(cmd("EXISTS").arg(mark_of(&self.profile, voucher))).await? {
            return refused(reason!("attach-letter-moved", letter = id, voucher));
        }
        self.check_free(&found, &order).await?;
        Ok(found)
    }

    /// Rejects a letter whose user has an order or another entry: one buyer in the set holds one piece.
    async fn check_free(&mut self, letter: &Letter, order: &Order) -> Result<()> {
        let (id, user, voucher) = (letter.letter.as_str(), order.user, order.voucher);
        let refused = |why| Err(AttachError::Refused(why));
        let mut conn = self.database.connection().await?;
        let facts = Facts::read(&self.database, &mut conn, &self.profile, &[*order]).await?;
        if facts.has(order) {
            let stream = attach_dead(&self.profile.stream.key);
            let order = order.id;
            return refused(reason!("attach-letter-written", letter = id, order, stream));
        }
        let newest = std::iter::once((letter.entry.as_str(), *order));
        let newest = Newest::read(&mut self.conn, &self.profile, newest).await?;
        let fault = facts.judge(&Ok(*order)).1.or_else(|| newest.replaced(&letter.entry, order));
        if let Some(fault) = fault {
            return refused(reason!("attach-letter-fault", letter = id, reason = fault.reason()));
        }
        let now = self.conn.now().await?;
        let groups = stream::groups(&mut self.conn, &self.profile).await?;
        let has_group = groups.iter().any(|(name, _)| *name == self.profile.stream.group);
        let start = (!has_group).then(|| "0-0".to_owned());
        let (entries, complete) = self.in_flight(start, now).await?;
        if !complete {
            return refused(reason!("attach-letter-more", letter = id));
        }
        let of_user = |it: &&super::Entry| {
            it.asked.as_ref().is_ok_and(|it| it.user == user && it.voucher == voucher)
        };
        if let Some(other) = entries.iter().find(of_user) {
            let entry = other.pending.id.as_str();
            return refused(reason!("attach-letter-entry", letter = id, user, entry, voucher));
        }
        Ok(())
    }

    /// Adds the body of a dead letter to the stream of the service again, and deletes the letter in the same step; returns
    /// the ID of the new entry. A user who is no buyer any more takes a piece.
    ///
    /// # Errors
    /// It was replayed, its sale moved, its user bought, or the last piece was sold meanwhile; Redis is unreachable, or the
    /// log cannot be written.
    pub async fn replay(&mut self, letter: &Letter, log: &mut Log) -> Result<String> {
        let (stream, plan) = (self.profile.stream.key.clone(), self.conn.now().await?);
        let id = letter.letter.as_str();
        let refused = |why| Err(AttachError::Refused(why));
        let Some(order) = letter.order(&self.profile) else {
            return refused(reason!("attach-letter-unreadable", letter = id));
        };
        let voucher = order.voucher;
        let mut line = Line { action: "replay_letter", entry: Some(id), ..Line::default() };
        (line.voucher, line.result) = (Some(voucher), "planned");
        log.add(plan, &line)?;
        log.sync()?;
        let mut tries = 0;
        let added = loop {
            tries += 1;
            // What is checked after this ID was read is known when the letter is added.
            let last = stream::position(&mut self.conn, &self.profile).await?.last;
            self.check_free(letter, &order).await?;
            let mut replay = scripts::ATTACH_REPLAY.prepare_invoke();
            replay.key(&stream).key(attach_dead(&stream)).key(self.profile.stock(voucher));
            replay.key(self.profile.buyers(voucher)).key(mark_of(&self.profile, voucher));
            replay.arg(id).arg(order.user.0).arg(last);
            let replayed: Value = self.conn.invoke(&replay).await?;
            match replayed {
                Value::Int(CHANGED) if tries < TRIES => {}
                other => break other,
            }
        };
        let entry: Option<String> = match &added {
            Value::Int(_) => None,
            other => redis::from_redis_value(other.clone()).ok(),
        };
        line.result = if entry.is_some() { "done" } else { "changed" };
        line.to.clone_from(&entry);
        log.add(plan, &line)?;
        log.sync()?;
        match (entry, added) {
            (Some(entry), _) => Ok(entry),
            (None, Value::Int(MOVED)) => {
                refused(reason!("attach-letter-moved", letter = id, voucher))
            }
            (None, Value::Int(CHANGED)) => refused(reason!("attach-letter-changed", letter = id)),
            (None, Value::Int(SOLD_OUT)) => {
                let user = order.user;
                refused(reason!("attach-letter-sold-out", letter = id, user, voucher))
            }
            _ => refused(reason!("attach-letter-missing", letter = id, stream)),
        }
    }
}
