//! Localizes what was stored: the audit log, the job history, errors of entries. Texts of older versions are shown
//! unchanged.

use seckill_engine::{commands::outcome::CommandOutcome, telemetry::event::Event};
use seckill_model::{
    JobOutcome, Label, Message, OrderError, Reason,
    dead_letter::{MAX_REASON, shown},
    text,
};

/// Text of the outcome of a command, or of an event.
pub fn localized_result(message: &Message) -> String {
    match message.data::<CommandOutcome>() {
        Some(outcome) => outcome.to_string(),
        None => message.localized::<Event>(),
    }
}

/// Text of the result of a job run.
pub fn job_result(outcome: JobOutcome, message: Option<&Message>) -> String {
    let Some(message) = message else { return String::new() };
    match message.data::<Event>() {
        Some(result) => result.to_string(),
        // A run that is marked as lost has no data in SQL.
        None if outcome == JobOutcome::Lost => Label("job-node-lost").to_owned(),
        None => message.to_string(),
    }
}

/// Text of the object of a command or an event.
pub fn localized_subject(message: &Message) -> String {
    // Some objects are codes of the message.
    text!("activity-subject", key = message, subject = message.localized::<Reason>())
}

/// Why an entry is not a valid order.
pub fn order_error(message: &Message) -> String {
    let fault = message.data::<OrderError>();
    fault.map_or_else(|| message.to_string(), |fault| shown(&fault.to_string(), MAX_REASON))
}
