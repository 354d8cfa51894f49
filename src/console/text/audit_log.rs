//! Localizes the audit log and the job history. Entries of older versions are shown unchanged.

use seckill_engine::{
    event::{Event, Subject},
    jobs::JobResult,
    outcome::CommandOutcome,
    partition_fault::PartitionFault,
};
use seckill_model::{JobOutcome, Message, message::Label};

/// Outcome of a command, or an event.
pub fn result(said: &Message) -> String {
    match said.data::<CommandOutcome>() {
        Some(outcome) => outcome.to_string(),
        None => said.localized::<Event>(),
    }
}

/// What is wrong with a partition.
pub(crate) fn partition_fault(said: &Message) -> String {
    said.localized::<PartitionFault>()
}

/// Result of a run of a job.
pub(crate) fn job_result(outcome: JobOutcome, said: Option<&Message>) -> String {
    let Some(said) = said else { return String::new() };
    match said.data::<JobResult>() {
        Some(result) => result.to_string(),
        // SQL stores it without data.
        None if outcome == JobOutcome::Lost => Label("job-node-lost").to_owned(),
        None => said.to_string(),
    }
}

/// Objects of events that are not names.
const SUBJECTS: &[(&str, Label)] = &[
    ("lag", Label("common-lag")),
    ("audit", Label("common-audit")),
    ("database", Label("events-database")),
    ("dead letters", Label("common-dead-letters")),
    ("consumer group", Label("events-consumer-group")),
    ("activity", Label("common-activity")),
];

/// Object of a command or an event.
pub(crate) fn subject(said: &Message) -> String {
    match SUBJECTS.iter().find(|(key, _)| *said == *key) {
        Some((_, word)) => String::from(*word),
        None => said.localized::<Subject>(),
    }
}
