//! Transfers pending entries to another consumer, which processes them on its next read of its own entries.
//!
//! An entry is transferred only while the holder shown to the operator still holds it.

use std::collections::BTreeMap;

use seckill_model::EntryId;
use seckill_redis::{
    Connection, Layout,
    group::{self, Transferred},
    keys::{Partition, node_of},
    stream,
    stream_stats::{RedisStats, read_partition},
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{
    super::{EngineError, error::PartDone},
    GroupFault, Names, partition,
};

/// Entries per step.
const PAGE: usize = 500;

/// Pending entries to transfer, as the operator names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimScope {
    /// These entries.
    Entries(Vec<EntryId>),
    /// All entries of this consumer, in every partition.
    Holder(String),
}

/// Transfers by holder; a plan and its preview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimPlan {
    /// Its parts.
    pub parts: Vec<ClaimPart>,
    /// Requested entries that are not pending, or held by the receiver already.
    pub gone: u64,
    /// Transfer them even to a consumer that is not active.
    pub force: bool,
}

/// Entries of one partition and one holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimPart {
    /// The partition.
    pub partition: u16,
    /// Current holder.
    pub from: String,
    /// Receiver.
    pub to: String,
    /// Number of entries.
    pub count: u64,
    /// The entries.
    pub entries: ClaimEntries,
}

/// Entries by ID, or all up to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimEntries {
    /// These entries.
    These(Vec<EntryId>),
    /// All up to this ID, the last one counted for the confirmation.
    UpTo(EntryId),
}

/// Result of a transfer; the keys are a contract of `stream claim --json`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimReport {
    /// Transferred.
    pub claimed: u64,
    /// No longer held by the holder shown, or never pending.
    pub gone: u64,
    /// Without a body, which a claim would drop; left unchanged.
    pub hollow: u64,
    /// The engine stopped before the last one.
    pub cut_short: bool,
}

impl ClaimPlan {
    /// Total number of entries.
    pub fn count(&self) -> u64 {
        self.parts.iter().map(|part| part.count).sum()
    }
}

/// Previews a transfer. `to` is a consumer, or a node: then its consumer of each partition.
///
/// # Errors
/// [`GroupFault`] if a name is unknown, the receiver is not active, or there is nothing to transfer; Redis is
/// unreachable.
pub async fn preview(
    conn: &mut Connection,
    keys: &Layout,
    scope: &ClaimScope,
    to: &str,
    dead_ms: u64,
    force: bool,
) -> Result<ClaimPlan, EngineError> {
    let plan = match scope {
        ClaimScope::Entries(entries) => of_entries(conn, keys, entries, to, dead_ms, force).await?,
        ClaimScope::Holder(from) => of_holder(conn, keys, from, to, dead_ms, force).await?,
    };
    if plan.parts.is_empty() {
        let from = match scope {
            ClaimScope::Entries(_) => None,
            ClaimScope::Holder(from) => Some(from.clone()),
        };
        return Err(GroupFault::NothingToGive { from, to: to.to_owned() }.into());
    }
    Ok(plan)
}

async fn of_entries(
    conn: &mut Connection,
    keys: &Layout,
    entries: &[EntryId],
    to: &str,
    dead_ms: u64,
    force: bool,
) -> Result<ClaimPlan, EngineError> {
    let mut plan = ClaimPlan { parts: Vec::new(), gone: 0, force };
    let mut by_partition: BTreeMap<u16, Vec<EntryId>> = BTreeMap::new();
    for entry in entries {
        by_partition.entry(entry.partition).or_default().push(*entry);
    }
    for (number, mut entries) in by_partition {
        let of = partition(keys, number)?;
        let stats = read_partition(conn, keys, &of).await?;
        let to = receiver(&of, &stats, to, dead_ms, force)?;
        entries.sort_unstable();
        entries.dedup();
        let mut by_holder: BTreeMap<String, Vec<EntryId>> = BTreeMap::new();
        for page in entries.chunks(PAGE) {
            let held = group::holders_of(conn, &of, page).await?;
            for (entry, holder) in page.iter().zip(held) {
                match holder {
                    Some(holder) if holder != to => {
                        by_holder.entry(holder).or_default().push(*entry);
                    }
                    _ => plan.gone += 1,
                }
            }
        }
        plan.parts.extend(by_holder.into_iter().map(|(from, entries)| ClaimPart {
            partition: number,
            from,
            to: to.clone(),
            count: entries.len() as u64,
            entries: ClaimEntries::These(entries),
        }));
    }
    Ok(plan)
}

async fn of_holder(
    conn: &mut Connection,
    keys: &Layout,
    from: &str,
    to: &str,
    dead_ms: u64,
    force: bool,
) -> Result<ClaimPlan, EngineError> {
    let mut plan = ClaimPlan { parts: Vec::new(), gone: 0, force };
    let (mut there, mut known) = (Vec::new(), false);
    for of in keys.partitions() {
        let stats = read_partition(conn, keys, &of).await?;
        let held = stats.consumers.iter().find(|it| it.name == from).map(|it| it.pending);
        known |= held.is_some();
        if let Some(count) = held.filter(|count| *count > 0) {
            let to = receiver(&of, &stats, to, dead_ms, force)?;
            // Entries delivered to the holder from now on are not counted.
            let now = u64::try_from(stats.now.0).unwrap_or(0);
            let last = EntryId { partition: of.number(), ..EntryId::last_of(now) };
            if to != from {
                plan.parts.push(ClaimPart {
                    partition: of.number(),
                    from: from.to_owned(),
                    to,
                    count,
                    entries: ClaimEntries::UpTo(last),
                });
            }
        }
        there.extend(stats.consumers);
    }
    if known {
        return Ok(plan);
    }
    let (name, there) = (from.to_owned(), Names::of(&there));
    Err(GroupFault::NoConsumer { name, partition: None, there }.into())
}

/// Finds the consumer of a partition that `to` names, on an active node.
fn receiver(
    of: &Partition,
    stats: &RedisStats,
    to: &str,
    dead_ms: u64,
    force: bool,
) -> Result<String, EngineError> {
    let known = |name: &str| stats.consumers.iter().any(|it| it.name == name);
    let meant = [to.to_owned(), of.consumer(to)].into_iter().find(|name| known(name));
    let Some(name) = meant else {
        return Err(GroupFault::NoConsumer {
            name: to.to_owned(),
            partition: Some(of.number()),
            there: Names::of(&stats.consumers),
        }
        .into());
    };
    // A replay reads under its own consumer name, which is unused once it ends.
    let node = node_of(&name);
    let works = name == of.consumer(node) && stats.nodes.is_alive(node, dead_ms);
    if works || force { Ok(name) } else { Err(GroupFault::Idle(name).into()) }
}

/// Executes the plan.
///
/// # Errors
/// [`GroupFault`] if the receiver is gone or no longer active; Redis is unreachable. Entries transferred by then stay
/// transferred.
pub async fn apply(
    conn: &mut Connection,
    keys: &Layout,
    plan: &ClaimPlan,
    dead_ms: u64,
    stop: &CancellationToken,
) -> Result<ClaimReport, EngineError> {
    let mut report = ClaimReport { gone: plan.gone, ..ClaimReport::default() };
    let done = give_parts(conn, keys, plan, dead_ms, stop, &mut report).await;
    done.map_err(|why| why.after(PartDone::Claimed(report.claimed)))?;
    Ok(report)
}

async fn give_parts(
    conn: &mut Connection,
    keys: &Layout,
    plan: &ClaimPlan,
    dead_ms: u64,
    stop: &CancellationToken,
    report: &mut ClaimReport,
) -> Result<(), EngineError> {
    for part in &plan.parts {
        let of = partition(keys, part.partition)?;
        let stats = read_partition(conn, keys, &of).await?;
        receiver(&of, &stats, &part.to, dead_ms, plan.force)?;
        match &part.entries {
            ClaimEntries::These(entries) => {
                for page in entries.chunks(PAGE) {
                    if stop.is_cancelled() {
                        report.cut_short = true;
                        return Ok(());
                    }
                    report.add(give(conn, &of, part, page).await?);
                }
            }
            ClaimEntries::UpTo(last) => {
                let mut next = Some(EntryId { partition: of.number(), ..EntryId::MIN });
                // Entries delivered to the holder after the count stay there.
                let mut left = usize::try_from(part.count).unwrap_or(usize::MAX);
                while let Some(first) = next.filter(|_| left > 0) {
                    let from = Some(part.from.as_str());
                    let most = left.min(PAGE);
                    let page = stream::pending_ids(conn, &of, from, first, *last, most).await?;
                    left -= page.len().min(left);
                    let Some(end) = page.last() else { break };
                    if stop.is_cancelled() {
                        report.cut_short = true;
                        return Ok(());
                    }
                    next = end.entry.next();
                    let page: Vec<EntryId> = page.iter().map(|it| it.entry).collect();
                    report.add(give(conn, &of, part, &page).await?);
                }
            }
        }
    }
    Ok(())
}

async fn give(
    conn: &mut Connection,
    of: &Partition,
    part: &ClaimPart,
    entries: &[EntryId],
) -> Result<Transferred, EngineError> {
    let given = group::give(conn, of, &part.from, &part.to, entries).await?;
    let gone = || GroupFault::Gone { name: part.to.clone(), partition: of.number() };
    Ok(given.ok_or_else(gone)?)
}

impl ClaimReport {
    fn add(&mut self, Transferred { given, gone, hollow }: Transferred) {
        self.claimed += given;
        self.gone += gone;
        self.hollow += hollow;
    }
}
