//! Dead letters of recoveries: read, and replayed after their cause was removed.

use redis::cmd;
use seckill_model::{Millis, VoucherId, reason};
use seckill_redis::{Connection, keys::attach_dead, scripts};
use serde::Serialize;

use super::{Line, Log, Recovery};
use crate::{
    AttachError, Profile, Result,
    migrate::mark_of,
    stream::{self, RawEntry},
    watcher::entry_order,
};

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

    fn voucher(&self, profile: &Profile) -> Option<VoucherId> {
        self.value(&profile.entry.voucher)?.parse().ok().map(VoucherId)
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
        if let Some(voucher) = found.voucher(&self.profile)
            && self.conn.query(cmd("EXISTS").arg(mark_of(&self.profile, voucher))).await?
        {
            return refused(reason!("attach-letter-moved", letter = id, voucher));
        }
        Ok(found)
    }

    /// Adds the body of a dead letter to the stream of the service again, and deletes the letter in the same step; returns
    /// the ID of the new entry.
    ///
    /// # Errors
    /// It was replayed or its sale moved meanwhile, Redis is unreachable, or the log cannot be written.
    pub async fn replay(&mut self, letter: &Letter, log: &mut Log) -> Result<String> {
        let (stream, plan) = (self.profile.stream.key.clone(), self.conn.now().await?);
        let voucher = letter.voucher(&self.profile);
        let entry = Some(letter.letter.as_str());
        let mut line = Line { action: "replay_letter", entry, voucher, ..Line::default() };
        line.result = "planned";
        log.add(plan, &line)?;
        log.sync()?;
        let mut replay = scripts::ATTACH_REPLAY.prepare_invoke();
        replay.key(&stream).key(attach_dead(&stream));
        // No sale is number 0, so an unreadable one has no mark.
        replay.key(mark_of(&self.profile, voucher.unwrap_or(VoucherId(0)))).arg(&letter.letter);
        let added: Option<String> = self.conn.invoke(&replay).await?;
        line.result = if added.is_some() { "done" } else { "changed" };
        line.to.clone_from(&added);
        log.add(plan, &line)?;
        log.sync()?;
        match added {
            Some(added) => Ok(added),
            None => Err(AttachError::Refused(reason!(
                "attach-letter-missing",
                letter = letter.letter.as_str(),
                stream
            ))),
        }
    }
}
