//! Texts of recovery: verdicts, actions and progress.

use seckill_model::{
    Act, Verdict,
    message::{Label, text},
};

use crate::text::figures::span;

/// The verdict on a pending entry.
pub(crate) fn verdict(verdict: Verdict) -> &'static str {
    let text = match verdict {
        Verdict::Written => Label("recovery-in-sql-already"),
        Verdict::Stuck => Label("recovery-stuck-not-in-sql"),
        Verdict::InHand => Label("recovery-held-by-live-node"),
        Verdict::BodyGone => Label("recovery-body-gone"),
        Verdict::Malformed => Label("recovery-invalid-entry"),
        Verdict::TooOften => Label("recovery-delivered-too-often"),
        Verdict::Refused => Label("recovery-conflict-with-data-in-sql"),
        Verdict::NotPromised => Label("recovery-not-assigned-to-buyer"),
    };
    text.read()
}

/// The verdict and its action.
pub(crate) fn judged(verdict: Verdict) -> String {
    let (text, act) = (self::verdict(verdict), act(verdict.act()));
    text!("recovery-value", text, act)
}

/// The verdict in a column.
pub(crate) fn verdict_word(verdict: Verdict) -> &'static str {
    let text = match verdict {
        Verdict::Written => Label("common-in-sql"),
        Verdict::Stuck => Label("recovery-stuck"),
        Verdict::InHand => Label("recovery-held"),
        Verdict::BodyGone => Label("recovery-body-gone"),
        Verdict::Malformed => Label("common-no-order"),
        Verdict::TooOften => Label("recovery-too-often"),
        Verdict::Refused => Label("recovery-refused"),
        Verdict::NotPromised => Label("recovery-no-buyer"),
    };
    text.read()
}

/// The action on a pending entry.
pub(crate) fn act(act: Act) -> &'static str {
    let text = match act {
        Act::Acknowledge => Label("recovery-acknowledge"),
        Act::Process => Label("recovery-claim-and-write"),
        Act::Leave => Label("recovery-leave"),
        Act::Rebuild => Label("recovery-rebuild-from-the-buyers"),
        Act::DeadLetter => Label("recovery-dead-letter"),
    };
    text.read()
}

/// When live nodes begin to take entries over automatically.
pub(crate) fn takeover(left_ms: u64) -> String {
    if left_ms == 0 {
        return text!("recovery-live-nodes-are-claiming-these");
    }
    let left = span(left_ms);
    text!("recovery-live-nodes-claim-these-entries", left)
}

/// Nothing is left of the plan in question.
pub(crate) const TAKEN_OVER: Label = Label("recovery-nothing-left-to-apply-live");
