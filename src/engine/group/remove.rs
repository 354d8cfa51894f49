//! A consumer removed that nobody needs: its node is dead, and it holds nothing.

use serde::Serialize;

use super::{super::EngineError, GroupFault, names, partitions};
use crate::broker::{
    Layout, Link,
    group::{self, Removed},
    keys::{Partition, node_of},
    survey::survey_of,
};

/// Where a consumer was removed; the keys are a contract of `stream remove-consumer --json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RemoveReport {
    /// Its name.
    pub consumer: String,
    /// Partitions whose group it was in.
    pub partitions: Vec<u16>,
}

/// Says where the consumer is and may be removed, without doing it.
///
/// # Errors
/// [`GroupFault`] where it is unknown, holds entries, or its node is alive; Redis is away.
pub async fn preview(
    link: &mut Link,
    keys: &Layout,
    name: &str,
    only: Option<u16>,
    dead_ms: u64,
) -> Result<RemoveReport, EngineError> {
    let mut report = RemoveReport { consumer: name.to_owned(), partitions: Vec::new() };
    let mut there = Vec::new();
    for of in partitions(keys, only)? {
        let survey = survey_of(link, keys, &of).await?;
        let Some(consumer) = survey.consumers.iter().find(|it| it.name == name) else {
            there.extend(survey.consumers);
            continue;
        };
        if survey.nodes.is_alive(node_of(name), dead_ms) {
            return Err(GroupFault::Alive(name.to_owned()).into());
        }
        if consumer.pending > 0 {
            return Err(holds(name, &of, consumer.pending).into());
        }
        report.partitions.push(of.number());
    }
    if report.partitions.is_empty() {
        let place = only.map_or("any partition".to_owned(), |number| format!("partition {number}"));
        let (name, there) = (name.to_owned(), names(&there));
        return Err(GroupFault::NoConsumer { name, place, there }.into());
    }
    Ok(report)
}

fn holds(name: &str, of: &Partition, pending: u64) -> GroupFault {
    GroupFault::Holds { name: name.to_owned(), partition: of.number(), pending }
}

/// Removes it from the group of every partition where it is, or of that one. Nothing is removed where one of them
/// stands against it.
///
/// # Errors
/// As [`preview`]; one that was given entries since then stays.
pub async fn apply(
    link: &mut Link,
    keys: &Layout,
    name: &str,
    only: Option<u16>,
    dead_ms: u64,
) -> Result<RemoveReport, EngineError> {
    let mut report = preview(link, keys, name, only, dead_ms).await?;
    let found = std::mem::take(&mut report.partitions);
    for number in found {
        let of = keys.partition(number);
        match group::remove_consumer(link, &of, name, dead_ms).await? {
            Removed::Done => report.partitions.push(number),
            // Somebody else has done it.
            Removed::Unknown => {}
            Removed::Alive => return Err(GroupFault::Alive(name.to_owned()).into()),
            Removed::Pending(pending) => return Err(holds(name, &of, pending).into()),
        }
    }
    Ok(report)
}
