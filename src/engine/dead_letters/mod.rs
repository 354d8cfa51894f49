//! Dead letters: judged against what Redis and SQL hold now, put back into the stream, or removed.
//!
//! An act is done letter by letter in steps that each happen once: whatever breaks off in between, the same act
//! again does the rest. It does not bury anything.

mod judge;
mod shown;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use seckill_model::{ClosedOrder, EntryId, LetterVerdict, Millis, OrderEntry};
use seckill_redis::{
    Layout, Link, Redis,
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
use crate::telemetry::{Meters, meters::RecoveryShown, snapshot::RecoveryLine};
pub use judge::{JudgedLetter, LETTER_FIELDS, judge};

/// As the screen calls a count, which changes nothing.
const COUNT: &str = "dead count";
/// Letters in one step of an act, and of a count.
const PAGE: usize = COPIES;

/// A page of the letters that an act is about.
#[derive(Debug, Default)]
struct Page {
    judged: Vec<JudgedLetter>,
    /// Asked for by their ids, and not there.
    gone: u64,
}

/// How far an act has come.
#[derive(Debug)]
struct Progress<'a> {
    scope: &'a LetterScope,
    /// Where that is shown.
    shown: Option<RecoveryShown<'a>>,
    /// Letters of the pages so far.
    done: u64,
    /// Of all letters, the last one of the pages so far.
    seen: Option<EntryId>,
    /// And the last one of all.
    last: EntryId,
    /// Of letters that were named, those to come.
    ids: Vec<EntryId>,
}

impl<'a> Progress<'a> {
    /// What is a letter by `now`: one that comes back is not seen twice.
    fn of(scope: &'a LetterScope, now: Millis) -> Self {
        let now = EntryId::last_of(u64::try_from(now.0).unwrap_or(0));
        let ids = match scope {
            // Each once, the oldest last: pages are taken from the end.
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
    link: Link,
    store: SharedStore,
    keys: Layout,
    max_replays: u64,
    /// Where a person sees how far an act has come.
    meters: Option<Arc<Meters>>,
}

impl Letters {
    /// Over all partitions, with a connection of its own.
    pub fn new(redis: &Redis, store: SharedStore, keys: Layout, settings: &Settings) -> Self {
        let max_replays = settings.max_replays;
        Self { link: redis.link(), store, keys, max_replays, meters: None }
    }

    /// The same, whose counts and acts are shown while they are under way.
    #[must_use]
    pub fn shown_on(mut self, meters: &Arc<Meters>) -> Self {
        self.meters = Some(Arc::clone(meters));
        self
    }

    /// Judges one page of letters, oldest first, from `first` up to and with `last`: for each partition two
    /// round trips to Redis, and one question to SQL for all of them.
    pub async fn page(
        &mut self,
        first: EntryId,
        last: EntryId,
        count: usize,
    ) -> Result<Vec<JudgedLetter>, EngineError> {
        let page =
            dead_letters::page_of_all(&mut self.link, &self.keys, first, last, count).await?;
        self.judge(page).await
    }

    /// Judges these letters; what is gone is left out.
    pub async fn named(&mut self, ids: &[EntryId]) -> Result<Vec<JudgedLetter>, EngineError> {
        let mut found = Vec::new();
        for of in self.keys.partitions() {
            let here: Vec<EntryId> =
                ids.iter().copied().filter(|id| id.partition == of.number()).collect();
            if !here.is_empty() {
                found.extend(dead_letters::named(&mut self.link, &of, &here).await?);
            }
        }
        self.judge(found).await
    }

    /// Counts the letters that an act would be about, by what is true of them, and those that are not there.
    ///
    /// # Errors
    /// A server is away, or `stop` came.
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

    /// Puts letters back into the order stream: those for which a buyer waits, and with `force` also those that
    /// came back as often as they may. Others stay, and are counted as refused.
    ///
    /// # Errors
    /// A server is away; what was put back by then is back, once.
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
                let back = dead_letters::replay(&mut self.link, &of, &part).await?;
                report.replayed += back;
                report.gone += part.len() as u64 - back;
            }
        }
        Ok(())
    }

    /// Removes letters. A buyer who waits keeps his letter, unless `compensate`: then his order is cancelled in
    /// SQL, stock and place go back in Redis, and the letter goes last, so that each of it happens once however
    /// often the act is broken off and done again.
    ///
    /// Where Redis does not hold the sale there is nothing to give back in it: the cancelled row keeps the buyer
    /// out when the sale is loaded again. The letters of an archived sale, or of none, have no buyer.
    ///
    /// # Errors
    /// A server is away; what was removed by then had its compensation.
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
            // An act that was broken off has cancelled some, and Redis or SQL was not told of it.
            let mut returning: Vec<ClosedOrder> =
                judged.iter().filter_map(JudgedLetter::returning).collect();
            let mut parts: BTreeMap<u16, Vec<EntryId>> = BTreeMap::new();
            for JudgedLetter { letter, verdict, .. } in &judged {
                let answer = cancelled.get(&letter.letter);
                match (answer, letter.order) {
                    (Some(Cancelled::Now | Cancelled::Before), Some(order)) => {
                        returning.push(closed(&order));
                    }
                    // Written meanwhile, or the sale was never there: nobody waits.
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
                let Self { store, link, keys, .. } = self;
                report.given_back += payment::give_back(store, link, keys, &returning).await?;
                // Their buyers keep the other order.
                let another = |it: &&JudgedLetter| it.verdict == LetterVerdict::HoldsAnother;
                let kept: Vec<OrderEntry> =
                    judged.iter().filter(another).filter_map(|it| it.another).collect();
                put_back_written(store, link, keys, &kept).await?;
            }
            for (number, part) in parts {
                let (of, asked) = (self.keys.partition(number), part.len() as u64);
                let removed = dead_letters::remove(&mut self.link, &of, part).await?;
                report.discarded += removed;
                report.gone += asked - removed;
            }
        }
        Ok(())
    }

    /// Cancels the orders of those letters for which somebody waits, or may.
    async fn cancel(
        &mut self,
        judged: &[JudgedLetter],
        report: &mut LettersDiscarded,
    ) -> Result<BTreeMap<EntryId, Cancelled>, EngineError> {
        let waiting =
            |it: &&JudgedLetter| it.verdict.is_awaited() && it.verdict != LetterVerdict::IdTaken;
        // An entry that was parsed from a letter has the letter's id.
        let orders: Vec<OrderEntry> =
            judged.iter().filter(waiting).filter_map(|it| it.letter.order).collect();
        if orders.is_empty() {
            return Ok(BTreeMap::new());
        }
        let now = self.link.now().await?;
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
        let mut progress = Progress::of(scope, self.link.now().await?);
        if let Some(meters) = meters {
            let planned = match scope {
                LetterScope::Letters(_) => progress.ids.len() as u64,
                LetterScope::Matching { .. } => {
                    dead_letters::count(&mut self.link, &self.keys).await?
                }
            };
            let changes = act != COUNT;
            let line = RecoveryLine { act: act.to_owned(), done: 0, planned, changes };
            progress.shown = Some(meters.recovery_begins(line));
        }
        Ok(progress)
    }

    /// The next page of an act, in which there may be nothing; `None` behind the last one.
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
                    let now = self.link.now().await?;
                    judged.retain(|it| filter.passes(|field| it.fact(field, now)));
                }
                Ok(Some(Page { judged, gone: 0 }))
            }
        }
    }

    async fn judge(&mut self, letters: Vec<DeadLetter>) -> Result<Vec<JudgedLetter>, EngineError> {
        judge(&self.store, &mut self.link, &self.keys, self.max_replays, letters).await
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
