//! Repairs a partition by itself: a stream that left the clock behind, a group beyond the end of its stream, keys that
//! another program has overwritten.
//!
//! [`faults`] looks, [`mend_partition`] repairs; a node does so every second, and `audit --repair` without one. Sales
//! are not its matter.

use std::{collections::HashSet, time::Duration};

use redis::cmd;
use seckill_model::{EntryId, ForeignKey, Millis, OrderEntry, OrderId, Said};
use seckill_redis::{
    Layout, Link, dead_letters,
    group::{self, Rewinding},
    keys::{Partition, type_of},
    mend,
    stream::{self, Delivered},
    stream_stats::{Survey, survey_of},
};
use seckill_store::SharedStore;

pub use super::partition_fault::{Mended, PartitionFault, Repair};
use super::{
    EngineError,
    event::{Event, Subject},
    group::rewind::held,
    outbox::Outbox,
    reconcile::{Reconciler, new_token},
};
use crate::telemetry::{data_loss::HEALED, log::events::PARTITION_REPAIRED};

/// An ID that is further ahead of the clock of Redis was not given by it: a clock that was corrected, or another
/// program.
const AHEAD: Duration = Duration::from_hours(1);
/// Entries in one look.
const PAGE: usize = 1_000;
/// Most entries that are set aside at once; the consumers judge what is beyond.
const MOST_FOREIGN: usize = 10_000;
const REASON: &str = "its ID lies in the future, and no buyer was promised its order";

/// What is wrong with a partition now.
///
/// # Errors
/// Redis is away.
pub async fn faults(
    link: &mut Link,
    keys: &Layout,
    of: &Partition,
) -> Result<Vec<PartitionFault>, EngineError> {
    let survey = survey_of(link, keys, of).await?;
    let mut found = stream_faults(of, &survey);
    found.extend(faults_of(of, &survey));
    Ok(found)
}

/// Streams of another type, or that lost entries. They held orders, so they are not repaired but reconciled.
fn stream_faults(of: &Partition, survey: &Survey) -> Vec<PartitionFault> {
    let mut found = foreign(survey, &[of.orders(), of.dead()]);
    let is_foreign = |key: &&String| survey.foreign.iter().any(|it| it.key == **key);
    let lost = survey.lost.iter().filter(|key| !is_foreign(key));
    found.extend(lost.map(|key| PartitionFault::Lost(key.clone())));
    found
}

fn foreign(survey: &Survey, keys: &[String]) -> Vec<PartitionFault> {
    let found = survey.foreign.iter().filter(|it| keys.contains(&it.key));
    found.map(|it| PartitionFault::ForeignKey(it.clone())).collect()
}

fn faults_of(of: &Partition, survey: &Survey) -> Vec<PartitionFault> {
    let mut found = foreign(survey, &[of.nodes(), of.instances(), of.healed(), of.gone()]);
    let marks = survey.marks.first().copied().unwrap_or_default();
    let Some(last) = marks.generated else { return found };
    if last > horizon(survey.now, of) {
        found.push(PartitionFault::FutureId(last));
    } else if let Some(delivered) = marks.delivered.filter(|delivered| *delivered > last) {
        found.push(PartitionFault::GroupBeyond { delivered, last });
    }
    found
}

/// The last ID that the clock of Redis may have given.
fn horizon(now: Millis, of: &Partition) -> EntryId {
    let millis = u64::try_from(now.0).unwrap_or(0).saturating_add(AHEAD.as_millis() as u64);
    EntryId { partition: of.number(), ..EntryId::last_of(millis) }
}

/// Repairs what is wrong with a partition; returns what was. Safe to repeat, and from several nodes at once.
///
/// # Errors
/// A server is away; what was repaired by then is repaired.
pub async fn mend_partition(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
    of: &Partition,
) -> Result<Vec<Mended>, EngineError> {
    let survey = survey_of(link, keys, of).await?;
    let mut mended = Vec::new();
    for fault in faults_of(of, &survey) {
        let repair = match &fault {
            PartitionFault::ForeignKey(ForeignKey { key, .. }) => rename(link, key).await?,
            // Reconciled, which is more than a repair of this partition alone.
            PartitionFault::Lost(_) => None,
            PartitionFault::FutureId(_) => renew(store, link, keys, of, survey.now).await?,
            PartitionFault::GroupBeyond { delivered, .. } => {
                move_back(store, link, of, *delivered).await?
            }
        };
        // Another node was faster.
        mended.extend(repair.map(|repair| Mended { fault, repair }));
    }
    Ok(mended)
}

async fn rename(link: &mut Link, key: &str) -> Result<Option<Repair>, EngineError> {
    let Some(expected) = type_of(key) else { return Ok(None) };
    let found = mend::set_aside(link, key, expected).await?;
    Ok(found.map(|_| Repair::Renamed(mend::aside(key))))
}

async fn renew(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
    of: &Partition,
    now: Millis,
) -> Result<Option<Repair>, EngineError> {
    let mut foreign = Vec::new();
    let mut next = horizon(now, of).next();
    while let Some(from) = next.filter(|_| foreign.len() < MOST_FOREIGN) {
        let page = stream::range(link, of, from, PAGE).await?;
        next = page.last().and_then(|last| last.entry.next());
        let orders: Vec<OrderEntry> = page.iter().filter_map(Delivered::order).collect();
        // Buyers who were admitted meanwhile have IDs of the future as well.
        let mut known = held(link, keys, &orders).await?;
        known.extend(written(store, &orders).await?);
        let unknown = |it: &&Delivered| !it.order().is_some_and(|it| known.contains(&it.order));
        foreign.extend(page.iter().filter(unknown).map(|it| it.entry));
    }
    let done = mend::renew_stream(link, of, AHEAD, REASON, &foreign).await?;
    let aside = mend::aside(&of.orders());
    Ok(done.map(|it| Repair::Renewed { kept: it.kept, dead: it.dead, aside }))
}

async fn written(
    store: &SharedStore,
    orders: &[OrderEntry],
) -> Result<HashSet<OrderId>, EngineError> {
    let ids: Vec<OrderId> = orders.iter().map(|it| it.order).collect();
    Ok(store.existing(&ids).await?.into_iter().collect())
}

/// To the oldest entry that is neither in SQL nor a dead letter: what is delivered twice is written once.
async fn move_back(
    store: &SharedStore,
    link: &mut Link,
    of: &Partition,
    delivered: EntryId,
) -> Result<Option<Repair>, EngineError> {
    let mut dead: Option<HashSet<EntryId>> = None;
    let (mut last, mut next) = (None, Some(EntryId { partition: of.number(), ..EntryId::MIN }));
    while let Some(from) = next {
        let page = stream::range(link, of, from, PAGE).await?;
        next = page.last().and_then(|last| last.entry.next());
        last = page.last().map(|it| it.entry).or(last);
        let orders: Vec<OrderEntry> = page.iter().filter_map(Delivered::order).collect();
        let there = written(store, &orders).await?;
        for open in page.iter().filter(|it| !it.order().is_some_and(|it| there.contains(&it.order)))
        {
            let dead = match &mut dead {
                Some(dead) => dead,
                None => dead.insert(buried(link, of).await?),
            };
            if !dead.contains(&open.entry) {
                return to(link, of, delivered, open.entry).await;
            }
        }
    }
    if let Some(last) = last {
        return to(link, of, delivered, last).await;
    }
    let mut set = cmd("XGROUP");
    set.arg("SETID").arg(of.orders()).arg(of.group()).arg("0");
    link.query::<()>(&set).await?;
    Ok(Some(Repair::MovedBack(EntryId { partition: of.number(), ..EntryId::MIN })))
}

async fn to(
    link: &mut Link,
    of: &Partition,
    delivered: EntryId,
    from: EntryId,
) -> Result<Option<Repair>, EngineError> {
    let to = Rewinding { from, seen: Some(delivered), read: None };
    let done = group::rewind(link, of, &to).await? == group::Rewound::Done;
    Ok(done.then_some(Repair::MovedBack(from)))
}

/// Entries of which there is a dead letter.
async fn buried(link: &mut Link, of: &Partition) -> Result<HashSet<EntryId>, EngineError> {
    let (mut found, mut next) = (HashSet::new(), Some(EntryId::MIN));
    while let Some(from) = next {
        let page = dead_letters::read(link, of, from, PAGE).await?;
        next = page.last().and_then(|last| last.letter.next());
        found.extend(page.iter().filter_map(|letter| letter.entry));
    }
    Ok(found)
}

/// Repairs every partition, and puts what was repaired into the queue of the audit log; returns how many faults those
/// were.
///
/// # Errors
/// As [`mend_partition`].
pub async fn mend_all(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
    outbox: &Outbox,
    node: &str,
) -> Result<u64, EngineError> {
    let mut count = 0;
    for of in keys.partitions() {
        let mended = mend_partition(store, link, keys, &of).await?;
        count += mended.len() as u64;
        record(outbox, node, &of, mended);
    }
    Ok(count)
}

/// Reconciles streams that have another type or lost entries: orders that Redis or SQL knows are enqueued again. Returns
/// how many streams those were, and how many orders. A live node does this by itself.
///
/// # Errors
/// A server is unreachable; what was repaired by then is repaired.
pub async fn mend_streams(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
    outbox: &Outbox,
    node: &str,
) -> Result<(u64, u64), EngineError> {
    let (mut streams, mut orders) = (0, 0);
    for of in keys.partitions() {
        let found = stream_faults(&of, &survey_of(link, keys, &of).await?);
        if found.is_empty() {
            continue;
        }
        let run = link.run_id(&of.orders()).await?;
        let mut reconciler = Reconciler { store, link, keys, run: &run, token: &new_token() };
        let done = reconciler.streams(&of, &[]).await?;
        streams += found.len() as u64;
        orders += done.promised.len() as u64;
        let subject = Said::of(&Subject::Partition(of.number()));
        outbox.put_own(node, HEALED, subject, Said::of(&Event::Healed(done.into())));
    }
    Ok((streams, orders))
}

/// Puts what was repaired into the queue of the audit log.
pub fn record(outbox: &Outbox, node: &str, of: &Partition, mended: Vec<Mended>) {
    for mended in mended {
        tracing::warn!(partition = of.number(), %mended, "repaired");
        let (subject, result) =
            (Said::of(&Subject::Partition(of.number())), Said::of(&Event::Mended(mended)));
        outbox.put_own(node, PARTITION_REPAIRED, subject, result);
    }
}
