//! Transfers pending entries to another consumer, which processes them on its next read of its own entries.
//!
//! An entry is transferred only while the holder shown to the operator still holds it.

use seckill_model::{EntryId, reason::reason};
use seckill_redis::{
    Connection, group,
    keys::{Partition, node_of},
    stream,
    stream_stats::RedisStats,
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::{
    EngineError, Result,
    commands::group::{no_consumer, partition},
    deployment::servers::Servers,
    lists::group_by,
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
    /// These entries, sorted.
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
    pub without_body: u64,
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
/// [`EngineError::Failed`] if a name is unknown, the receiver is not active, or there is nothing to transfer; Redis is
/// unreachable.
pub async fn preview(
    servers: &mut Servers,
    scope: &ClaimScope,
    to: &str,
    dead_ms: u64,
    force: bool,
) -> Result<ClaimPlan> {
    let mut plan = ClaimPlan { parts: Vec::new(), gone: 0, force };
    let receiver = Receiver { name: to, dead_ms, force };
    let from = match scope {
        ClaimScope::Entries(entries) => {
            add_entries(servers, &mut plan, entries, receiver).await?;
            None
        }
        ClaimScope::Holder(from) => {
            add_holder(servers, &mut plan, from, receiver).await?;
            Some(from.clone())
        }
    };
    if plan.parts.is_empty() {
        return Err(EngineError::Failed(match from {
            Some(from) => reason!("group-nothing-to-claim-from", from, to),
            None => reason!("group-nothing-to-claim", to),
        }));
    }
    Ok(plan)
}

async fn add_entries(
    servers: &mut Servers,
    plan: &mut ClaimPlan,
    entries: &[EntryId],
    receiver: Receiver<'_>,
) -> Result<()> {
    for (number, mut entries) in group_by(entries.iter().copied(), |entry| entry.partition) {
        let of = partition(&servers.keys, number)?;
        let to = receiver.consumer(&of, &servers.partition_stats(&of).await?)?;
        entries.sort_unstable();
        entries.dedup();
        let mut held: Vec<(String, EntryId)> = Vec::new();
        for page in entries.chunks(PAGE) {
            let holders = group::holders_of(&mut servers.conn, &of, page).await?;
            let pending = holders.into_iter().zip(page);
            held.extend(pending.filter_map(|(holder, entry)| Some((holder?, *entry))));
        }
        held.retain(|(holder, _)| *holder != to);
        plan.gone += (entries.len() - held.len()) as u64;
        let by_holder = group_by(held, |(holder, _)| holder.clone());
        plan.parts.extend(by_holder.into_iter().map(|(from, entries)| ClaimPart {
            partition: number,
            from,
            to: to.clone(),
            count: entries.len() as u64,
            entries: ClaimEntries::These(entries.into_iter().map(|(_, entry)| entry).collect()),
        }));
    }
    Ok(())
}

async fn add_holder(
    servers: &mut Servers,
    plan: &mut ClaimPlan,
    from: &str,
    receiver: Receiver<'_>,
) -> Result<()> {
    let (mut there, mut known) = (Vec::new(), false);
    for of in servers.keys.partitions() {
        let stats = servers.partition_stats(&of).await?;
        let held = stats.consumers.iter().find(|it| it.name == from).map(|it| it.pending);
        known |= held.is_some();
        if let Some(count) = held.filter(|count| *count > 0) {
            let to = receiver.consumer(&of, &stats)?;
            // Entries delivered to the holder from now on are not counted.
            let last = EntryId { partition: of.number(), ..EntryId::last_of(stats.now) };
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
        return Ok(());
    }
    Err(no_consumer(from, None, &there))
}

/// The receiver of entries: a consumer, or a node for its consumer of each partition.
#[derive(Clone, Copy)]
struct Receiver<'a> {
    name: &'a str,
    dead_ms: u64,
    force: bool,
}

impl Receiver<'_> {
    /// Finds its consumer of a partition, on an active node.
    fn consumer(self, of: &Partition, stats: &RedisStats) -> Result<String> {
        let known = |name: &String| stats.consumers.iter().any(|it| it.name == *name);
        let meant = [self.name.to_owned(), of.consumer(self.name)].into_iter().find(known);
        let Some(name) = meant else {
            return Err(no_consumer(self.name, Some(of.number()), &stats.consumers));
        };
        // A replay reads under its own consumer name, which is unused once it ends.
        let node = node_of(&name);
        let works = name == of.consumer(node) && stats.nodes.is_alive(node, self.dead_ms);
        if works || self.force {
            return Ok(name);
        }
        Err(EngineError::Failed(reason!("group-idle", name)))
    }
}

/// Executes the plan.
///
/// # Errors
/// [`EngineError::Failed`] if the receiver is gone or no longer active; Redis is unreachable. Entries transferred by
/// then stay transferred.
pub async fn apply(
    servers: &mut Servers,
    plan: &ClaimPlan,
    dead_ms: u64,
    stop: &CancellationToken,
) -> Result<ClaimReport> {
    let mut report = ClaimReport { gone: plan.gone, ..ClaimReport::default() };
    let done = give_parts(servers, plan, dead_ms, stop, &mut report).await;
    let claimed = report.claimed;
    done.map_err(|why| why.after(claimed, || reason!("done-claimed", done = claimed)))?;
    Ok(report)
}

async fn give_parts(
    servers: &mut Servers,
    plan: &ClaimPlan,
    dead_ms: u64,
    stop: &CancellationToken,
    report: &mut ClaimReport,
) -> Result<()> {
    for part in &plan.parts {
        let of = partition(&servers.keys, part.partition)?;
        let receiver = Receiver { name: &part.to, dead_ms, force: plan.force };
        receiver.consumer(&of, &servers.partition_stats(&of).await?)?;
        // Entries delivered to the holder after the count stay there.
        let mut left = usize::try_from(part.count).unwrap_or(usize::MAX);
        let mut last = None;
        while left > 0 {
            let page = next_page(&mut servers.conn, &of, part, last, left.min(PAGE)).await?;
            let Some(end) = page.last() else { break };
            if stop.is_cancelled() {
                report.cut_short = true;
                return Ok(());
            }
            last = Some(*end);
            left -= page.len().min(left);
            let given = group::give(&mut servers.conn, &of, &part.from, &part.to, &page).await?;
            let gone = || {
                let (name, partition) = (&part.to, of.number().to_string());
                EngineError::Failed(reason!("group-consumer-gone", name, partition))
            };
            let (given, gone, without_body) = given.ok_or_else(gone)?;
            report.claimed += given;
            report.gone += gone;
            report.without_body += without_body;
        }
    }
    Ok(())
}

/// The entries of a part that follow `last`, oldest first, at most `count`.
async fn next_page(
    conn: &mut Connection,
    of: &Partition,
    part: &ClaimPart,
    last: Option<EntryId>,
    count: usize,
) -> Result<Vec<EntryId>> {
    match &part.entries {
        ClaimEntries::These(entries) => {
            let rest = entries.iter().filter(|entry| last.is_none_or(|last| **entry > last));
            Ok(rest.take(count).copied().collect())
        }
        ClaimEntries::UpTo(end) => {
            let start = EntryId { partition: of.number(), ..EntryId::MIN };
            let Some(first) = last.map_or(Some(start), EntryId::next) else {
                return Ok(Vec::new());
            };
            let from = Some(part.from.as_str());
            let page = stream::pending_ids(conn, of, from, first, *end, count).await?;
            Ok(page.into_iter().map(|(entry, _)| entry).collect())
        }
    }
}
