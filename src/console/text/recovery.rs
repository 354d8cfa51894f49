//! Words of recovery: verdicts, acts, and how far they have come.

use super::figures::thousands;
use crate::model::{Act, Verdict};

/// How far a plan, or what it says, has come.
pub(crate) fn recovery(act: &str, done: u64, planned: u64) -> String {
    format!("{act} {} of {}", thousands(done), thousands(planned))
}

/// What is true of a pending entry.
pub(crate) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Written => "in SQL already",
        Verdict::Stuck => "stuck, not in SQL",
        Verdict::InHand => "in the hands of a live node",
        Verdict::BodyGone => "body gone",
        Verdict::Malformed => "makes no order",
        Verdict::TooOften => "delivered too often",
        Verdict::Refused => "refused by what SQL holds",
    }
}

/// The same in a column.
pub(crate) fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Written => "in SQL",
        Verdict::Stuck => "stuck",
        Verdict::InHand => "held",
        Verdict::BodyGone => "body gone",
        Verdict::Malformed => "no order",
        Verdict::TooOften => "too often",
        Verdict::Refused => "refused",
    }
}

/// What is done with a pending entry.
pub(crate) fn act(act: Act) -> &'static str {
    match act {
        Act::Acknowledge => "acknowledge",
        Act::Process => "claim and write",
        Act::Leave => "leave",
        Act::Rebuild => "rebuild from the buyers",
        Act::DeadLetter => "dead letter",
    }
}
