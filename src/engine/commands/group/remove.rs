//! Removes an unused consumer, one without pending entries whose node is dead.

use seckill_model::reason::reason;
use seckill_redis::{
    group::{self, Removed},
    keys::{Partition, node_of},
};
use serde::{Deserialize, Serialize};

use crate::{
    EngineError, Result,
    commands::group::{no_consumer, partitions},
    deployment::servers::Servers,
    lists::partition_numbers,
};

/// Result of a removal; the keys are a contract of `stream remove-consumer --json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveReport {
    /// Its name.
    pub consumer: String,
    /// Partitions whose group contained it.
    pub partitions: Vec<u16>,
}

/// Previews the removal of a consumer.
///
/// # Errors
/// [`EngineError::Failed`] if it is unknown, holds entries, or its node is alive; Redis is unreachable.
pub async fn preview(
    servers: &mut Servers,
    name: &str,
    only: Option<u16>,
    dead_ms: u64,
) -> Result<RemoveReport> {
    let mut report = RemoveReport { consumer: name.to_owned(), partitions: Vec::new() };
    let mut there = Vec::new();
    for of in partitions(&servers.keys, only)? {
        let stats = servers.partition_stats(&of).await?;
        let Some(consumer) = stats.consumers.iter().find(|it| it.name == name) else {
            there.extend(stats.consumers);
            continue;
        };
        if stats.nodes.is_alive(node_of(name), dead_ms) {
            return Err(EngineError::Failed(reason!("group-alive", name)));
        }
        if consumer.pending > 0 {
            return Err(holds(name, &of, consumer.pending));
        }
        report.partitions.push(of.number());
    }
    if report.partitions.is_empty() {
        return Err(no_consumer(name, only, &there));
    }
    Ok(report)
}

fn holds(name: &str, of: &Partition, pending: u64) -> EngineError {
    let partition = of.number().to_string();
    EngineError::Failed(reason!("group-holds", name, pending, partition))
}

/// Removes it from the partitions of the preview.
///
/// # Errors
/// As [`preview`]; a consumer that received entries since then stays. The error names the partitions done by then.
pub async fn remove(
    servers: &mut Servers,
    shown: &RemoveReport,
    dead_ms: u64,
) -> Result<RemoveReport> {
    let mut done = Vec::new();
    for number in &shown.partitions {
        let (name, of) = (&shown.consumer, servers.keys.partition(*number));
        let why = match group::remove_consumer(&mut servers.conn, &of, name, dead_ms).await {
            Ok(Removed::Done) => {
                done.push(*number);
                continue;
            }
            // It has been removed since.
            Ok(Removed::Unknown) => continue,
            Ok(Removed::Alive) => EngineError::Failed(reason!("group-alive", name)),
            Ok(Removed::Pending(pending)) => holds(name, &of, pending),
            Err(error) => EngineError::from(error),
        };
        return Err(why.after(done.len() as u64, || {
            reason!("done-removed", partitions = partition_numbers(&done))
        }));
    }
    Ok(RemoveReport { consumer: shown.consumer.clone(), partitions: done })
}
