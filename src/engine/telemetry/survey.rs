//! One reading of the servers for a command that only looks: a [`Snapshot`] without an engine in this process, with an audit
//! by order ID.

use std::{sync::Arc, time::Duration};

use seckill_model::{Balance, EntryId, reason};
use seckill_redis::stream_stats::{read_stats, shards_held};
use seckill_store::ActivityFilter;

use crate::{
    EngineError, Result, Snapshot,
    commands::command_handler::lock_names,
    deployment::Deployment,
    jobs::{board, builtin},
    ledger,
    recovery::partition_repair::{PartitionFindings, all_faults, prevent_audit},
    telemetry::{
        Meters,
        alarms::alarms,
        collector::Collector,
        data_loss::{RecentLosses, add_published, damaged_keys},
        snapshot_task::AUDIT_UP_TO,
    },
};

/// Pause between two snapshots: a change reaches Redis a few milliseconds after its commit.
const BETWEEN: Duration = Duration::from_millis(100);
/// Limit of one read.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Runs of each job that are searched for the last that ended.
const JOB_RUNS: u32 = 20;
/// Lines of the activity log that are searched for data loss.
const EVENTS: u32 = 50;

/// A snapshot with its alarms, and what only an audit finds.
#[derive(Debug)]
pub struct Survey {
    /// The snapshot, once nothing was in flight.
    pub snapshot: Snapshot,
    /// Partitions with findings.
    pub partitions: Vec<PartitionFindings>,
    /// Why the result of the audit is unknown although both servers answer.
    pub unaudited: Option<Unaudited>,
}

/// Why sales were not audited.
#[derive(Debug)]
pub enum Unaudited {
    /// Because of a key that a finding about its partition names.
    Partition,
    /// A read failed.
    Failed(EngineError),
}

/// What [`settled`] has read.
#[derive(Debug)]
pub struct Settled {
    /// The last snapshot.
    pub snapshot: Snapshot,
    /// Why it is unknown which sales SQL has lost although both servers answer.
    pub lost_unknown: Option<EngineError>,
    collector: Collector,
}

/// Takes snapshots until no order and no change of a sale is in flight, at most three: a difference counts only if two
/// consecutive snapshots show it. Sales that SQL has lost are searched in Redis.
pub async fn settled(deployment: &Deployment, read_only: bool) -> Settled {
    let (meters, locks) = (Arc::new(Meters::default()), lock_names(&deployment.settings));
    let mut collector = Collector::new(deployment, meters, String::new(), read_only, locks);
    let mut snapshot = collector.collect().await;
    let mut lost_unknown = None;
    if snapshot.redis.up && snapshot.sql.up {
        match within(collector.find_lost()).await {
            Ok(false) => {}
            Ok(true) => snapshot = collector.collect().await,
            Err(why) => lost_unknown = Some(why),
        }
    }
    for _ in 0..2 {
        if !matches!(snapshot.audit, Balance::InFlight { .. }) && snapshot.undelivered.is_empty() {
            break;
        }
        tokio::time::sleep(BETWEEN).await;
        snapshot = collector.collect().await;
    }
    Settled { snapshot, lost_unknown, collector }
}

/// A complete snapshot with an audit by order ID, and whether the database accepts writes. What cannot be read is missing in
/// it, and says so.
pub async fn survey(deployment: &Deployment, read_only: bool) -> Survey {
    let (mut partitions, mut unaudited, mut recent) = (Vec::new(), None, Vec::new());
    let Settled { mut collector, mut snapshot, .. } = settled(deployment, read_only).await;
    collector.add_write_probe(&mut snapshot).await;
    let (mut losses, mut servers) = (Vec::new(), deployment.probed().await);
    if snapshot.redis.up {
        // A server may have been lost since the snapshot.
        if servers.conn.lost().len() > snapshot.unreachable.len() {
            snapshot.unreachable = servers.conn.lost().to_vec();
        }
        if let Ok(rows) = collector.pending(EntryId::MIN).await {
            snapshot.pending = collector.pending_page(EntryId::MIN, &rows, snapshot.taken);
        }
        // Before the events: what is written meanwhile is in both.
        losses = collector.losses().await.unwrap_or_default();
        match servers.following(async |it| all_faults(it).await).await {
            Ok(found) => partitions = found,
            Err(error) => unaudited = Some(Unaudited::Failed(error)),
        }
        if !snapshot.sql.up {
            snapshot.damaged = within(damaged(deployment)).await.unwrap_or_default();
        }
    }
    if snapshot.sql.up {
        let jobs = builtin::jobs(&deployment.settings);
        match board(&deployment.store, &jobs, snapshot.taken, JOB_RUNS).await {
            Ok(lines) => snapshot.jobs = lines,
            Err(error) => tracing::warn!(%error, "the history of jobs was not read"),
        }
        match deployment.store.activity(&ActivityFilter::default(), None, EVENTS).await {
            Ok(events) => recent = events,
            Err(error) => tracing::warn!(%error, "the activity log was not read"),
        }
        // By order ID, as the audit does: totals alone miss a sale that SQL does not know.
        if snapshot.redis.up && snapshot.funnel.admitted.total <= AUDIT_UP_TO {
            match servers.following(async |it| ledger::audit(it, None).await).await {
                Ok(audit) if audit.balanced => {}
                Ok(audit) if audit.findings().next().is_none() => {
                    snapshot.audit = Balance::Unknown;
                }
                Ok(audit) => snapshot.audit = Balance::Off { findings: audit.findings().collect() },
                Err(error) if prevent_audit(&partitions, &error) => {
                    unaudited = Some(Unaudited::Partition);
                }
                Err(error) => unaudited = Some(Unaudited::Failed(error)),
            }
        }
        // The audit itself fails where a partition has findings.
        let passed = matches!(snapshot.audit, Balance::Balanced { .. });
        if unaudited.is_some() || (passed && !partitions.is_empty()) {
            snapshot.audit = Balance::Unknown;
        }
    }
    add_published(&mut recent, losses);
    let losses = RecentLosses::of(&recent, snapshot.taken);
    snapshot.alarms = alarms(&snapshot, losses);
    Survey { snapshot, partitions, unaudited }
}

/// Damaged keys without SQL: the sales are known by their keys in Redis only.
async fn damaged(deployment: &Deployment) -> Result<Vec<String>> {
    let (keys, mut conn, mut held) = (&deployment.keys, deployment.redis.connection(), Vec::new());
    conn.probe(keys).await;
    for of in conn.reachable(keys) {
        held.extend(shards_held(&mut conn, &of).await?);
    }
    let stats = read_stats(&mut conn, keys, &held).await?;
    let damaged = stats.sales.iter().map(|facts| facts.and_then(|facts| facts.damaged));
    Ok(damaged_keys(keys, &stats.lost, held.into_iter().zip(damaged)))
}

/// A read within its limit.
async fn within<T>(read: impl Future<Output = Result<T>>) -> Result<T> {
    let none = |_| EngineError::Failed(reason!("cli-no-answer", seconds = TIMEOUT.as_secs()));
    tokio::time::timeout(TIMEOUT, read).await.map_err(none)?
}
