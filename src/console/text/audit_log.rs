//! Localizes the audit log and the job history. Entries of older versions are shown unchanged.

use seckill_engine::{
    event::{Event, Subject},
    jobs::JobResult,
    outcome::CommandOutcome,
    partition_fault::PartitionFault,
};
use seckill_model::{
    JobOutcome, Message,
    message::{Label, text},
};

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

/// Object of a command or an event.
pub(crate) fn subject(said: &Message) -> String {
    // Objects of some events are not names.
    text!("activity-subject", key = said.replace(' ', "-"), subject = said.localized::<Subject>())
}
