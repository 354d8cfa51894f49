//! Dead letters: classified by Redis and SQL, replayed, or discarded.
//!
//! A command processes each letter in idempotent steps, so an interrupted command can be repeated. This module creates
//! no dead letters.

mod scope;
mod shown;
mod verdict;

use std::{collections::HashMap, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use seckill_model::{ClosedOrder, EntryId, LetterVerdict, OrderEntry, reason::reason};
use seckill_redis::dead_letters::{self, COPIES, DeadLetter};
use seckill_store::Cancelled;
use tokio_util::sync::CancellationToken;

use crate::{
    EngineError,
    consumer::order_writer::by_partition,
    payment,
    recovery::reconcile::put_back_written,
    servers::Servers,
    settings::Settings,
    telemetry::{Meters, meters::InProgress, snapshot::RecoveryLine},
};
pub use scope::{LetterScope, LettersCounted, LettersDiscarded, LettersReplayed};
pub use verdict::{ClassifiedLetter, LETTER_FIELDS, classify};

/// On-screen name of a count, which changes nothing.
const COUNT: &str = "dead count";
/// Letters per step of a command or a count.
const PAGE: usize = COPIES;

/// One page of a command's letters.
#[derive(Debug, Default)]
struct Page {
    letters: Vec<ClassifiedLetter>,
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
    /// Remaining IDs of letters requested by ID, the oldest last: pages are taken from the end.
    ids: Vec<EntryId>,
}

/// Reads, classifies and settles dead letters. Owned by one task.
#[derive(Debug)]
pub struct Letters {
    servers: Servers,
    max_replays: u64,
    /// Displays the progress of a command.
    meters: Option<Arc<Meters>>,
}

impl Letters {
    /// Covers all partitions.
    pub fn new(servers: Servers, settings: &Settings) -> Self {
        Self { servers, max_replays: settings.max_replays, meters: None }
    }

    /// Displays progress of counts and commands in `meters`.
    #[must_use]
    pub fn shown_on(mut self, meters: &Arc<Meters>) -> Self {
        self.meters = Some(Arc::clone(meters));
        self
    }

    /// Classifies one page of letters, oldest first, from `first` through `last`.
    pub fn page(
        &mut self,
        first: EntryId,
        last: EntryId,
        count: usize,
    ) -> BoxFuture<'_, Result<Vec<ClassifiedLetter>, EngineError>> {
        async move {
            let Servers { conn, keys, .. } = &mut self.servers;
            let page = dead_letters::page_of_all(conn, keys, first, last, count).await?;
            classify(&mut self.servers, self.max_replays, page).await
        }
        .boxed()
    }

    /// Classifies these letters; missing ones are omitted.
    pub async fn named(&mut self, ids: &[EntryId]) -> Result<Vec<ClassifiedLetter>, EngineError> {
        let Servers { conn, keys, .. } = &mut self.servers;
        let mut found = Vec::new();
        for (of, ids) in by_partition(keys, ids.iter().copied(), |id| *id) {
            found.extend(dead_letters::named(conn, &of, &ids).await?);
        }
        classify(&mut self.servers, self.max_replays, found).await
    }

    /// Counts the letters in scope by verdict, and those that do not exist.
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
            page.letters.iter().for_each(|letter| found.counts.add(letter.verdict));
            found.gone += page.gone;
            found.last = progress.seen.unwrap_or(EntryId::MIN);
        }
        Ok(found)
    }

    /// Puts letters back into the order stream: those with a waiting buyer, and with `force` also those that reached
    /// the replay limit. Others stay and are counted as rejected.
    /// After an error, the letters replayed so far stay replayed, once.
    pub async fn replay(
        &mut self,
        scope: &LetterScope,
        force: bool,
        stop: &CancellationToken,
    ) -> Result<LettersReplayed, EngineError> {
        let mut report = LettersReplayed::default();
        let done = self.replay_into(&mut report, scope, force, stop).await;
        let replayed = report.replayed;
        done.map_err(|why| why.after(replayed, || reason!("done-replayed", done = replayed)))?;
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
        while let Some(Page { letters, gone }) = self.next(&mut progress).await? {
            if stop.is_cancelled() {
                report.cut_short = true;
                break;
            }
            report.seen += letters.len() as u64 + gone;
            report.gone += gone;
            let mut chosen: Vec<&DeadLetter> = Vec::new();
            for ClassifiedLetter { letter, verdict, .. } in &letters {
                match verdict {
                    LetterVerdict::Awaited => chosen.push(letter),
                    LetterVerdict::CameBack if force => chosen.push(letter),
                    _ => report.refused.add(*verdict),
                }
            }
            let Servers { conn, keys, .. } = &mut self.servers;
            for (of, part) in by_partition(keys, chosen, |letter| letter.letter) {
                let back = dead_letters::replay(conn, &of, &part).await?;
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
    /// If the sale is not in Redis, there is nothing to return: the cancelled row excludes the buyer when the sale
    /// is loaded again. Letters of an archived or unknown sale have no buyer.
    /// After an error, the letters discarded so far were compensated.
    pub async fn discard(
        &mut self,
        scope: &LetterScope,
        compensate: bool,
        stop: &CancellationToken,
    ) -> Result<LettersDiscarded, EngineError> {
        let mut report = LettersDiscarded::default();
        let done = self.discard_into(&mut report, scope, compensate, stop).await;
        let discarded = report.discarded;
        done.map_err(|why| why.after(discarded, || reason!("done-discarded", done = discarded)))?;
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
        while let Some(Page { letters, gone }) = self.next(&mut progress).await? {
            if stop.is_cancelled() {
                report.cut_short = true;
                break;
            }
            report.seen += letters.len() as u64 + gone;
            report.gone += gone;
            let cancelled =
                if compensate { self.cancel(&letters, report).await? } else { HashMap::new() };
            // An interrupted command may have cancelled some without completing Redis and SQL.
            let mut returning: Vec<ClosedOrder> =
                letters.iter().filter_map(ClassifiedLetter::returning).collect();
            let mut chosen: Vec<EntryId> = Vec::new();
            for ClassifiedLetter { letter, verdict, .. } in &letters {
                match (cancelled.get(&letter.letter), letter.order) {
                    (Some(Cancelled::Now | Cancelled::Before), Some(order)) => {
                        returning.push(closed(&order));
                    }
                    // Written since, or the sale never existed: no buyer waits.
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
                chosen.push(letter.letter);
            }
            if !returning.is_empty() {
                report.given_back += payment::give_back(&mut self.servers, &returning).await?;
                // Their buyers keep the other order.
                let another = |it: &&ClassifiedLetter| it.verdict == LetterVerdict::HoldsAnother;
                let kept = letters.iter().filter(another).filter_map(|it| it.another);
                put_back_written(&mut self.servers, kept).await?;
            }
            let Servers { conn, keys, .. } = &mut self.servers;
            for (of, part) in by_partition(keys, chosen, |letter| *letter) {
                let asked = part.len() as u64;
                let removed = dead_letters::remove(conn, &of, part).await?;
                report.discarded += removed;
                report.gone += asked - removed;
            }
        }
        Ok(())
    }

    /// Cancels the orders of letters that have, or may have, a waiting buyer.
    async fn cancel(
        &mut self,
        letters: &[ClassifiedLetter],
        report: &mut LettersDiscarded,
    ) -> Result<HashMap<EntryId, Cancelled>, EngineError> {
        let waiting = |it: &&ClassifiedLetter| {
            it.verdict.is_awaited() && it.verdict != LetterVerdict::IdTaken
        };
        // An entry parsed from a letter has the letter's ID.
        let orders: Vec<OrderEntry> =
            letters.iter().filter(waiting).filter_map(|it| it.letter.order).collect();
        if orders.is_empty() {
            return Ok(HashMap::new());
        }
        let now = self.servers.conn.now().await?;
        let answers = self.servers.store.cancel_orders(&orders, now).await?;
        report.compensated += answers.iter().filter(|it| **it == Cancelled::Now).count() as u64;
        Ok(orders.iter().map(|order| order.entry).zip(answers).collect())
    }

    /// Covers letters that exist by now, so that one that returns is not processed twice.
    async fn begin<'a>(
        &mut self,
        act: &str,
        scope: &'a LetterScope,
        meters: Option<&'a Meters>,
    ) -> Result<Progress<'a>, EngineError> {
        let Servers { conn, keys, .. } = &mut self.servers;
        let now = EntryId::last_of(u64::try_from(conn.now().await?.0).unwrap_or(0));
        let (mut ids, last) = match scope {
            LetterScope::Letters(ids) => (ids.clone(), now),
            LetterScope::Matching { last, .. } => (Vec::new(), now.min(*last)),
        };
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids.dedup();
        let mut progress = Progress { scope, shown: None, done: 0, seen: None, last, ids };
        if let Some(meters) = meters {
            let planned = match scope {
                LetterScope::Letters(_) => progress.ids.len() as u64,
                LetterScope::Matching { .. } => dead_letters::count(conn, keys).await?,
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
                let letters = self.named(&ids).await?;
                let gone = (ids.len() - letters.len()) as u64;
                Ok(Some(Page { letters, gone }))
            }
            LetterScope::Matching { filter, .. } => {
                let from = progress.seen.map_or(Some(EntryId::MIN), EntryId::next_of_all);
                let Some(from) = from else { return Ok(None) };
                let mut letters = self.page(from, progress.last, PAGE).await?;
                let Some(end) = letters.last() else { return Ok(None) };
                progress.seen = Some(end.letter.letter);
                progress.done += letters.len() as u64;
                if !filter.is_empty() {
                    let now = self.servers.conn.now().await?;
                    letters.retain(|it| filter.passes(|field| it.fact(field, now)));
                }
                Ok(Some(Page { letters, gone: 0 }))
            }
        }
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
