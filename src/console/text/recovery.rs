//! Texts of recovery: verdicts, actions and progress.

use seckill_model::{
    Act, Verdict,
    message::{Label, text},
};

use super::figures::span;

/// The verdict on a pending entry.
pub(crate) fn verdict(verdict: Verdict) -> &'static str {
    let text = match verdict {
        Verdict::Written => Label("recovery-in-sql-already"),
        Verdict::Stuck => Label("recovery-stuck-not-in-sql"),
        Verdict::InHand => Label("recovery-in-the-hands-of-a-live"),
        Verdict::BodyGone => Label("recovery-body-gone"),
        Verdict::Malformed => Label("recovery-makes-no-order"),
        Verdict::TooOften => Label("recovery-delivered-too-often"),
        Verdict::Refused => Label("recovery-refused-by-what-sql-holds"),
        Verdict::NotPromised => Label("recovery-not-promised-to-a-buyer"),
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

/// When live nodes begin to take entries over by themselves.
pub(crate) fn takeover(left_ms: u64) -> String {
    if left_ms == 0 {
        return text!("recovery-live-nodes-take-them-over-by");
    }
    let left = span(left_ms);
    text!("recovery-live-nodes-take-them-over-by-2", left)
}

/// Nothing is left of the plan in question.
pub(crate) const TAKEN_OVER: Label = Label("recovery-nothing-is-left-to-apply-live");
