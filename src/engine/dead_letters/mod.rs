//! Dead letters: judged against Redis and SQL, replayed, or discarded.
//!
//! A command processes each letter in idempotent steps, so an interrupted command can be repeated. This module creates
//! no dead letters.

mod judge;
mod shown;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use seckill_model::{ClosedOrder, EntryId, LetterVerdict, Millis, OrderEntry};
use seckill_redis::{
    Connection, Layout, Redis,
    dead_letters::{self, COPIES, DeadLetter},
};
use seckill_store::{Cancelled, SharedStore};
use tokio_util::sync::CancellationToken;

use super::{
    EngineError,
    command::{LetterScope, LettersCounted, LettersDiscarded, LettersReplayed},
    error::PartDone,
    payment,
    reconcile::put_back_written,
    settings::Settings,
};
use crate::telemetry::{Meters, meters::InProgress, snapshot::RecoveryLine};
pub use judge::{JudgedLetter, LETTER_FIELDS, judge};

/// On-screen name of a count, which changes nothing.
const COUNT: &str = "dead count";
/// Letters per step of a command or a count.
const PAGE: usize = COPIES;

/// One page of a command's letters.
#[derive(Debug, Default)]
struct Page {
    judged: Vec<JudgedLetter>,
    /// Requested IDs that do not exist.
    gone: u64,
}

/// Progress of a command.
#[derive(Debug)]
struct Progress<'a> {
    scope: &'a LetterScope,
    /// Where progress is displayed.
    shown: Option<InProgress<'a, RecoveryLine>>,
    /// Letters processed so far.
    done: u64,
    /// Of all letters, the last one processed so far.
    seen: Option<EntryId>,
    /// The last one of all.
    last: EntryId,
    /// Remaining IDs of letters requested by ID.
    ids: Vec<EntryId>,
}

impl<'a> Progress<'a> {
    /// Covers letters that exist by `now`, so that one that returns is not processed twice.
    fn of(scope: &'a LetterScope, now: Millis) -> Self {
        let now = EntryId::last_of(u64::try_from(now.0).unwrap_or(0));
        let ids = match scope {
            // Without duplicates, the oldest last: pages are taken from the end.
            LetterScope::Letters(ids) => ids.iter().collect::<BTreeSet<_>>(),
            LetterScope::Matching { .. } => BTreeSet::new(),
        };
        let last = match scope {
            LetterScope::Letters(_) => now,
            LetterScope::Matching { last, .. } => now.min(*last),
        };
        let ids = ids.into_iter().rev().copied().collect();
        Self { scope, shown: None, done: 0, seen: None, last, ids }
    }
}

/// Reads, judges and settles dead letters. Owned by one task.
#[derive(Debug)]
pub struct Letters {
    conn: Connection,
    store: SharedStore,
    keys: Layout,
    max_replays: u64,
    /// Displays the progress of a command.
    meters: Option<Arc<Meters>>,
}

impl Letters {
    /// Covers all partitions, with its own connection.
    pub fn new(redis: &Redis, store: SharedStore, keys: Layout, settings: &Settings) -> Self {
        let max_replays = settings.max_replays;
        Self { conn: redis.connection(), store, keys, max_replays, meters: None }
    }

    /// Displays progress of counts and commands in `meters`.
    #[must_use]
    pub fn shown_on(mut self, meters: &Arc<Meters>) -> Self {
        self.meters = Some(Arc::clone(meters));
        self
    }

    /// Judges one page of letters, oldest first, from `first` through `last`, with two round trips to Redis per
    /// partition and one SQL query in total.
    pub async fn page(
        &mut self,
        first: EntryId,
        last: EntryId,
        count: usize,
    ) -> Result<Vec<JudgedLetter>, EngineError> {
        let page =
            dead_letters::page_of_all(&mut self.conn, &self.keys, first, last, count).await?;
        self.judge(page).await
    }

    /// Judges these letters; missing ones are omitted.
    pub async fn named(&mut self, ids: &[EntryId]) -> Result<Vec<JudgedLetter>, EngineError> {
        let mut found = Vec::new();
        for of in self.keys.partitions() {
            let here: Vec<EntryId> =
                ids.iter().copied().filter(|id| id.partition == of.number()).collect();
            if !here.is_empty() {
                found.extend(dead_letters::named(&mut self.conn, &of, &here).await?);
            }
        }
        self.judge(found).await
    }

    /// Counts the letters in scope by verdict, and those that do not exist.
    ///
    /// # Errors
    /// A server is unreachable, or `stop` was requested.
    pub async fn count(
        &mut self,
        scope: &LetterScope,
        stop: &CancellationToken,
    ) -> Result<LettersCounted, EngineError> {
        let mut found = LettersCounted::default();
        let meters = self.meters.clone();
        let mut progress = self.begin(COUNT, scope, meters.as_deref()).await?;
        while let Some(page) = self.next(&mut progress).await? {
            if stop.is_cancelled() {
                return Err(EngineError::Stopping);
            }
            page.judged.iter().for_each(|judged| found.counts.add(judged.verdict));
            found.gone += page.gone;
            found.last = progress.seen.unwrap_or(EntryId::MIN);
        }
        Ok(found)
    }

    /// Puts letters back into the order stream: those with a waiting buyer, and with `force` also those that reached
    /// the replay limit. Others stay and are counted as refused.
    ///
    /// # Errors
    /// A server is unreachable; letters replayed by then stay replayed, once.
    pub async fn replay(
        &mut self,
        scope: &LetterScope,
        force: bool,
        stop: &CancellationToken,
    ) -> Result<LettersReplayed, EngineError> {
        let mut report = LettersReplayed::default();
        let done = self.replay_into(&mut report, scope, force, stop).await;
        done.map_err(|why| why.after(PartDone::Replayed(report.replayed)))?;
        Ok(report)
    }

    async fn replay_into(
        &mut self,
        report: &mut LettersReplayed,
        scope: &LetterScope,
        force: bool,
        stop: &CancellationToken,
    ) -> Result<(), EngineError> {
        let meters = self.meters.clone();
        let mut progress = self.begin("dead replay", scope, meters.as_deref()).await?;
        while let Some(Page { judged, gone }) = self.next(&mut progress).await? {
            if stop.is_cancelled() {
                report.cut_short = true;
                break;
            }
            report.seen += judged.len() as u64 + gone;
            report.gone += gone;
            let mut parts: BTreeMap<u16, Vec<&DeadLetter>> = BTreeMap::new();
            for JudgedLetter { letter, verdict, .. } in &judged {
                match verdict {
                    LetterVerdict::Awaited => {}
                    LetterVerdict::CameBack if force => {}
                    _ => {
                        report.refused.add(*verdict);
                        continue;
                    }
                }
                parts.entry(letter.letter.partition).or_default().push(letter);
            }
            for (number, part) in parts {
                let of = self.keys.partition(number);
                let back = dead_letters::replay(&mut self.conn, &of, &part).await?;
                report.replayed += back;
                report.gone += part.len() as u64 - back;
            }
        }
        Ok(())
    }

    /// Discards letters. A letter with a waiting buyer stays, unless `compensate` is set: then the order is cancelled
    /// in SQL, stock and the buyer's place are returned in Redis, and the letter is deleted last, so that each step
    /// happens once however often the command is interrupted and repeated.
    ///
    /// If Redis does not hold the sale there is nothing to return: the cancelled row excludes the buyer when the sale
    /// is loaded again. Letters of an archived or unknown sale have no buyer.
    ///
    /// # Errors
    /// A server is unreachable; letters discarded by then were compensated.
    pub async fn discard(
        &mut self,
        scope: &LetterScope,
        compensate: bool,
        stop: &CancellationToken,
    ) -> Result<LettersDiscarded, EngineError> {
        let mut report = LettersDiscarded::default();
        let done = self.discard_into(&mut report, scope, compensate, stop).await;
        done.map_err(|why| why.after(PartDone::Discarded(report.discarded)))?;
        Ok(report)
    }

    async fn discard_into(
        &mut self,
        report: &mut LettersDiscarded,
        scope: &LetterScope,
        compensate: bool,
        stop: &CancellationToken,
    ) -> Result<(), EngineError> {
        let meters = self.meters.clone();
        let mut progress = self.begin("dead discard", scope, meters.as_deref()).await?;
        while let Some(Page { judged, gone }) = self.next(&mut progress).await? {
            if stop.is_cancelled() {
                report.cut_short = true;
                break;
            }
            report.seen += judged.len() as u64 + gone;
            report.gone += gone;
            let cancelled =
                if compensate { self.cancel(&judged, report).await? } else { BTreeMap::new() };
            // An interrupted command may have cancelled some without completing Redis and SQL.
            let mut returning: Vec<ClosedOrder> =
                judged.iter().filter_map(JudgedLetter::returning).collect();
            let mut parts: BTreeMap<u16, Vec<EntryId>> = BTreeMap::new();
            for JudgedLetter { letter, verdict, .. } in &judged {
                let answer = cancelled.get(&letter.letter);
                match (answer, letter.order) {
                    (Some(Cancelled::Now | Cancelled::Before), Some(order)) => {
                        returning.push(closed(&order));
                    }
                    // Written meanwhile, or the sale never existed: no buyer waits.
                    (Some(Cancelled::Live | Cancelled::NoSale), _) => {}
                    (Some(_), _) => {
                        report.refused.add(LetterVerdict::IdTaken);
                        continue;
                    }
                    (None, _) if verdict.is_awaited() => {
                        report.refused.add(*verdict);
                        continue;
                    }
                    (None, _) => {}
                }
                parts.entry(letter.letter.partition).or_default().push(letter.letter);
            }
            if !returning.is_empty() {
                let Self { store, conn, keys, .. } = self;
                report.given_back += payment::give_back(store, conn, keys, &returning).await?;
                // Their buyers keep the other order.
                let another = |it: &&JudgedLetter| it.verdict == LetterVerdict::HoldsAnother;
                let kept: Vec<OrderEntry> =
                    judged.iter().filter(another).filter_map(|it| it.another).collect();
                put_back_written(store, conn, keys, &kept).await?;
            }
            for (number, part) in parts {
                let (of, asked) = (self.keys.partition(number), part.len() as u64);
                let removed = dead_letters::remove(&mut self.conn, &of, part).await?;
                report.discarded += removed;
                report.gone += asked - removed;
            }
        }
        Ok(())
    }

    /// Cancels the orders of letters that have, or may have, a waiting buyer.
    async fn cancel(
        &mut self,
        judged: &[JudgedLetter],
        report: &mut LettersDiscarded,
    ) -> Result<BTreeMap<EntryId, Cancelled>, EngineError> {
        let waiting =
            |it: &&JudgedLetter| it.verdict.is_awaited() && it.verdict != LetterVerdict::IdTaken;
        // An entry parsed from a letter has the letter's ID.
        let orders: Vec<OrderEntry> =
            judged.iter().filter(waiting).filter_map(|it| it.letter.order).collect();
        if orders.is_empty() {
            return Ok(BTreeMap::new());
        }
        let now = self.conn.now().await?;
        let answers = self.store.cancel_orders(&orders, now).await?;
        report.compensated += answers.iter().filter(|it| **it == Cancelled::Now).count() as u64;
        Ok(orders.iter().map(|order| order.entry).zip(answers).collect())
    }

    async fn begin<'a>(
        &mut self,
        act: &str,
        scope: &'a LetterScope,
        meters: Option<&'a Meters>,
    ) -> Result<Progress<'a>, EngineError> {
        let mut progress = Progress::of(scope, self.conn.now().await?);
        if let Some(meters) = meters {
            let planned = match scope {
                LetterScope::Letters(_) => progress.ids.len() as u64,
                LetterScope::Matching { .. } => {
                    dead_letters::count(&mut self.conn, &self.keys).await?
                }
            };
            let changes = act != COUNT;
            let line = RecoveryLine { act: act.to_owned(), done: 0, planned, changes };
            progress.shown = Some(meters.recovery_begins(line));
        }
        Ok(progress)
    }

    /// Returns the next page of a command, which may be empty; `None` after the last one.
    async fn next(&mut self, progress: &mut Progress<'_>) -> Result<Option<Page>, EngineError> {
        if let Some(shown) = &progress.shown {
            shown.progress(progress.done);
        }
        match progress.scope {
            LetterScope::Letters(_) => {
                let rest = progress.ids.len().saturating_sub(PAGE);
                let ids = progress.ids.split_off(rest);
                if ids.is_empty() {
                    return Ok(None);
                }
                progress.done += ids.len() as u64;
                let judged = self.named(&ids).await?;
                let gone = (ids.len() - judged.len()) as u64;
                Ok(Some(Page { judged, gone }))
            }
            LetterScope::Matching { filter, .. } => {
                let from = progress.seen.map_or(Some(EntryId::MIN), EntryId::next_of_all);
                let Some(from) = from else { return Ok(None) };
                let mut judged = self.page(from, progress.last, PAGE).await?;
                let Some(end) = judged.last() else { return Ok(None) };
                progress.seen = Some(end.letter.letter);
                progress.done += judged.len() as u64;
                if !filter.is_empty() {
                    let now = self.conn.now().await?;
                    judged.retain(|it| filter.passes(|field| it.fact(field, now)));
                }
                Ok(Some(Page { judged, gone: 0 }))
            }
        }
    }

    async fn judge(&mut self, letters: Vec<DeadLetter>) -> Result<Vec<JudgedLetter>, EngineError> {
        judge(&self.store, &mut self.conn, &self.keys, self.max_replays, letters).await
    }
}

fn closed(order: &OrderEntry) -> ClosedOrder {
    ClosedOrder {
        id: order.order,
        user_id: order.user,
        voucher_id: order.voucher,
        place: order.place,
    }
}
