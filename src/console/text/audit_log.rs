//! Localizes the audit log and the job history. Entries of older versions are shown unchanged.

use seckill_engine::{
    commands::outcome::CommandOutcome, event::Event, jobs::JobResult,
    partition_fault::PartitionFault,
};
use seckill_model::{
    JobOutcome, Message, Reason,
    message::{Label, text},
};

/// Outcome of a command, or an event.
pub fn result(message: &Message) -> String {
    match message.data::<CommandOutcome>() {
        Some(outcome) => outcome.to_string(),
        None => message.localized::<Event>(),
    }
}

/// What is wrong with a partition.
pub(crate) fn partition_fault(message: &Message) -> String {
    message.localized::<PartitionFault>()
}

/// Result of a run of a job.
pub(crate) fn job_result(outcome: JobOutcome, message: Option<&Message>) -> String {
    let Some(message) = message else { return String::new() };
    match message.data::<JobResult>() {
        Some(result) => result.to_string(),
        // SQL stores it without data.
        None if outcome == JobOutcome::Lost => Label("job-node-lost").to_owned(),
        None => message.to_string(),
    }
}

/// Object of a command or an event.
pub fn subject(message: &Message) -> String {
    // Objects of some events are not names.
    text!(
        "activity-subject",
        key = message.replace(' ', "-"),
        subject = message.localized::<Reason>()
    )
}
