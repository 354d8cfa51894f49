//! Dead letters: classified by Redis and SQL, replayed, or discarded.
//!
//! A command processes each letter in idempotent steps, so an interrupted command can be repeated. This module creates
//! no dead letters.

mod verdict;

use std::{collections::HashMap, slice, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use seckill_model::{
    EntryId, LetterCounts, LetterVerdict, OrderEntry, SaleOrder, filter::Filter, reason::reason,
};
use seckill_redis::dead_letters::{self, COPIES, DeadLetter};
use seckill_store::Cancelled;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::{
    EngineError, Result,
    consumer::order_writer::by_partition,
    deployment::{servers::Servers, settings::Settings},
    orders::payment,
    recovery::reconcile::put_back_written,
    telemetry::{
        Meters,
        snapshot::{LetterLine, LetterPage, RecoveryLine},
    },
};
pub use verdict::{ClassifiedLetter, LETTER_FIELDS, classify};

/// Letters per step of a command or a count.
const PAGE: usize = COPIES;
/// Letters per page of a screen.
const LINES: usize = 100;

/// Dead letters that a command applies to.
#[derive(Clone, Debug, PartialEq)]
pub enum LetterScope {
    /// These letters, by ID.
    Letters(Vec<EntryId>),
    /// Those that match, by the fields of `LETTER_FIELDS`.
    Matching {
        /// The filter.
        filter: Filter,
        /// The last letter; for a command, the last one that the preview counted.
        last: EntryId,
    },
}

/// Preview of a command on dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LettersCounted {
    /// Existing letters, by state.
    pub counts: LetterCounts,
    /// Named letters that no longer exist.
    pub gone: u64,
    /// The last matching letter that was read.
    pub last: EntryId,
}

impl LetterScope {
    /// The letters that were counted, without any added since.
    #[must_use]
    pub fn as_counted(self, found: &LettersCounted) -> Self {
        match self {
            Self::Letters(ids) => Self::Letters(ids),
            Self::Matching { filter, .. } => Self::Matching { filter, last: found.last },
        }
    }
}

/// Outcome of a replay of dead letters; the keys are a contract of `dead replay --json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LettersReplayed {
    /// Number of letters selected.
    pub seen: u64,
    /// Replayed into the order stream.
    pub replayed: u64,
    /// Kept, by state.
    pub refused: LetterCounts,
    /// No longer there.
    pub gone: u64,
    /// The command was stopped before the last letter.
    pub cut_short: bool,
}

/// Outcome of a discard of dead letters; the keys are a contract of `dead discard --json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LettersDiscarded {
    /// Number of letters selected.
    pub seen: u64,
    /// Removed.
    pub discarded: u64,
    /// Orders that this command recorded in SQL as cancelled.
    pub compensated: u64,
    /// Pieces and places that this command returned in Redis.
    pub given_back: u64,
    /// Kept, by state.
    pub refused: LetterCounts,
    /// No longer there.
    pub gone: u64,
    /// The command was stopped before the last letter.
    pub cut_short: bool,
}

/// What a command does with its letters, and its report.
enum Work<'a> {
    Count(&'a mut LettersCounted),
    /// Also those that have reached the replay limit, if set.
    Replay(&'a mut LettersReplayed, bool),
    /// Also those with a waiting buyer, whose orders are cancelled, if set.
    Discard(&'a mut LettersDiscarded, bool),
}

/// One page of a command's letters.
struct Page {
    letters: Vec<ClassifiedLetter>,
    /// Requested IDs that do not exist.
    gone: u64,
    /// Of all letters, the last one read so far.
    last: EntryId,
}

/// Reads, classifies and settles dead letters. Owned by one task.
#[derive(Debug)]
pub struct Letters {
    servers: Servers,
    max_replays: u64,
    /// Where the progress of a command is displayed.
    pub(crate) meters: Arc<Meters>,
}

impl Letters {
    /// Covers all partitions.
    pub fn new(servers: Servers, settings: &Settings) -> Self {
        Self { servers, max_replays: settings.max_replays, meters: Arc::default() }
    }

    /// Classifies one page of letters, oldest first, from `first` through `last`.
    pub fn page(
        &mut self,
        first: EntryId,
        last: EntryId,
        count: usize,
    ) -> BoxFuture<'_, Result<Vec<ClassifiedLetter>>> {
        async move {
            let Servers { conn, keys, .. } = &mut self.servers;
            let page = dead_letters::page_of_all(conn, keys, first, last, count).await?;
            classify(&mut self.servers, self.max_replays, page).await
        }
        .boxed()
    }

    /// Returns a page for a screen, starting at this letter; without those of servers of a cluster that do not reply.
    pub async fn screen_page(&mut self, from: EntryId) -> Result<LetterPage> {
        let Servers { conn, keys, .. } = &mut self.servers;
        conn.probe(keys).await;
        let taken = conn.now_of_reachable(keys).await?;
        // Reads one extra letter to detect whether more follow.
        let letters = self.page(from, EntryId::MAX, LINES + 1).await?;
        let line = |ClassifiedLetter { letter, verdict, .. }| {
            let age_ms = taken.since(letter.at);
            LetterLine { letter, age_ms, verdict }
        };
        Ok(LetterPage::of(from, taken, letters.into_iter().map(line).collect(), LINES))
    }

    /// Classifies these letters; missing ones are omitted.
    pub async fn named(&mut self, ids: &[EntryId]) -> Result<Vec<ClassifiedLetter>> {
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
    ) -> Result<LettersCounted> {
        let mut found = LettersCounted::default();
        if self.each_page(Work::Count(&mut found), scope, stop).await? {
            Ok(found)
        } else {
            Err(EngineError::Stopping)
        }
    }

    /// Puts letters back into the order stream: those with a waiting buyer, and with `force` also those that reached
    /// the replay limit. Others stay and are counted as rejected.
    /// After an error, the letters replayed so far stay replayed, once.
    pub async fn replay(
        &mut self,
        scope: &LetterScope,
        force: bool,
        stop: &CancellationToken,
    ) -> Result<LettersReplayed> {
        let mut report = LettersReplayed::default();
        let done = self.each_page(Work::Replay(&mut report, force), scope, stop).await;
        let replayed = report.replayed;
        report.cut_short = !done
            .map_err(|why| why.after(replayed, || reason!("done-replayed", done = replayed)))?;
        Ok(report)
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
    ) -> Result<LettersDiscarded> {
        let mut report = LettersDiscarded::default();
        let done = self.each_page(Work::Discard(&mut report, compensate), scope, stop).await;
        let discarded = report.discarded;
        report.cut_short = !done
            .map_err(|why| why.after(discarded, || reason!("done-discarded", done = discarded)))?;
        Ok(report)
    }

    /// Does the work on each page of the letters in scope that exist by now, so that one that returns is not processed
    /// twice; `false` if `stop` came before the last page.
    async fn each_page(
        &mut self,
        mut work: Work<'_>,
        scope: &LetterScope,
        stop: &CancellationToken,
    ) -> Result<bool> {
        let Servers { conn, keys, .. } = &mut self.servers;
        let now = EntryId::last_of(conn.now().await?);
        // Pages of letters requested by ID are taken from the end, the oldest first.
        let (mut ids, mut next) = (Vec::new(), Some(EntryId::MIN));
        let (planned, last) = match scope {
            LetterScope::Letters(requested) => {
                ids.clone_from(requested);
                ids.sort_unstable_by(|a, b| b.cmp(a));
                ids.dedup();
                (ids.len() as u64, now)
            }
            LetterScope::Matching { last, .. } => {
                (dead_letters::count(conn, keys).await?, now.min(*last))
            }
        };
        let (action, changes) = match work {
            Work::Count(_) => ("dead count", false),
            Work::Replay(..) => ("dead replay", true),
            Work::Discard(..) => ("dead discard", true),
        };
        let line = RecoveryLine { action: action.to_owned(), done: 0, planned, changes };
        let (shown, mut done) = (self.meters.recovery_begins(line), 0);
        loop {
            let page = match scope {
                LetterScope::Letters(_) => {
                    let ids = ids.split_off(ids.len().saturating_sub(PAGE));
                    if ids.is_empty() {
                        return Ok(true);
                    }
                    done += ids.len() as u64;
                    let letters = self.named(&ids).await?;
                    let gone = (ids.len() - letters.len()) as u64;
                    Page { letters, gone, last: EntryId::MIN }
                }
                LetterScope::Matching { filter, .. } => {
                    let Some(from) = next else { return Ok(true) };
                    let mut letters = self.page(from, last, PAGE).await?;
                    let Some(end) = letters.last() else { return Ok(true) };
                    let last = end.letter.letter;
                    next = last.next_of_all();
                    done += letters.len() as u64;
                    if !filter.is_empty() {
                        let now = self.servers.conn.now().await?;
                        letters.retain(|it| filter.passes(|field| it.fact(field, now)));
                    }
                    Page { letters, gone: 0, last }
                }
            };
            if stop.is_cancelled() {
                return Ok(false);
            }
            let servers = &mut self.servers;
            match &mut work {
                Work::Count(found) => {
                    page.letters.iter().for_each(|letter| found.counts.add(letter.verdict));
                    found.gone += page.gone;
                    found.last = page.last;
                }
                Work::Replay(report, force) => replay_page(servers, page, *force, report).await?,
                Work::Discard(report, compensate) => {
                    discard_page(servers, page, *compensate, report).await?;
                }
            }
            shown.progress(done);
        }
    }
}

async fn replay_page(
    servers: &mut Servers,
    Page { letters, gone, .. }: Page,
    force: bool,
    report: &mut LettersReplayed,
) -> Result<()> {
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
    for (of, part) in by_partition(&servers.keys, chosen, |letter| letter.letter) {
        let back = dead_letters::replay(&mut servers.conn, &of, &part).await?;
        report.replayed += back;
        report.gone += part.len() as u64 - back;
    }
    Ok(())
}

async fn discard_page(
    servers: &mut Servers,
    Page { letters, gone, .. }: Page,
    compensate: bool,
    report: &mut LettersDiscarded,
) -> Result<()> {
    report.seen += letters.len() as u64 + gone;
    report.gone += gone;
    let cancelled =
        if compensate { cancel(servers, &letters, report).await? } else { HashMap::new() };
    // An interrupted command may have cancelled some without completing Redis and SQL.
    let mut returning: Vec<SaleOrder> =
        letters.iter().filter_map(ClassifiedLetter::returning).collect();
    let mut chosen: Vec<EntryId> = Vec::new();
    for ClassifiedLetter { letter, verdict, .. } in &letters {
        match (cancelled.get(&letter.letter), letter.order) {
            (Some(Cancelled::Now | Cancelled::Before), Some(order)) => {
                returning.push(SaleOrder::from(&order));
            }
            // Written since: no buyer waits.
            (Some(Cancelled::Live), _) => {}
            (Some(Cancelled::NoSale), _) => {
                report.refused.add(LetterVerdict::SaleLost);
                continue;
            }
            (Some(Cancelled::IdTaken), _) => {
                report.refused.add(LetterVerdict::IdTaken);
                continue;
            }
            (Some(_), _) => {
                report.refused.add(*verdict);
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
        report.given_back += payment::give_back(servers, &returning).await?;
        // Their buyers keep the other order.
        let another = |it: &&ClassifiedLetter| it.verdict == LetterVerdict::HoldsAnother;
        let kept = letters.iter().filter(another).filter_map(|it| it.another);
        put_back_written(servers, kept).await?;
    }
    for (of, part) in by_partition(&servers.keys, chosen, |letter| *letter) {
        let asked = part.len() as u64;
        let removed = dead_letters::remove(&mut servers.conn, &of, part).await?;
        report.discarded += removed;
        report.gone += asked - removed;
    }
    Ok(())
}

/// Cancels the orders of letters that have, or may have, a waiting buyer.
async fn cancel(
    servers: &mut Servers,
    letters: &[ClassifiedLetter],
    report: &mut LettersDiscarded,
) -> Result<HashMap<EntryId, Cancelled>> {
    let waiting = |it: &&ClassifiedLetter| {
        it.verdict.is_awaited()
            && !matches!(it.verdict, LetterVerdict::IdTaken | LetterVerdict::SaleLost)
    };
    // An entry parsed from a letter has the letter's ID.
    let orders: Vec<OrderEntry> =
        letters.iter().filter(waiting).filter_map(|it| it.letter.order).collect();
    if orders.is_empty() {
        return Ok(HashMap::new());
    }
    let now = servers.conn.now().await?;
    let answers = match servers.store.cancel_orders(&orders, now).await {
        Err(error) if !error.stands_for_all() && orders.len() > 1 => {
            // A row that the database rejects is not to keep the others from being cancelled.
            let mut answers = Vec::with_capacity(orders.len());
            for order in &orders {
                answers.push(match servers.store.cancel_orders(slice::from_ref(order), now).await {
                    Ok(answer) => answer.into_iter().next(),
                    Err(error) if error.stands_for_all() => return Err(error.into()),
                    Err(error) => {
                        tracing::error!(%error, order = %order.order, "an order was not cancelled");
                        None
                    }
                });
            }
            answers
        }
        answers => answers?.into_iter().map(Some).collect(),
    };
    let answers = answers.into_iter().map(|it| it.unwrap_or(Cancelled::Rejected));
    let answers: Vec<Cancelled> = answers.collect();
    report.compensated += answers.iter().filter(|it| **it == Cancelled::Now).count() as u64;
    Ok(orders.iter().map(|order| order.entry).zip(answers).collect())
}
