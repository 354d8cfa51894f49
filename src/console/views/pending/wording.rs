//! Texts of recovery: verdicts, actions and progress.

use seckill_model::{RecoveryAction, Verdict, message::text};

/// The verdict on a pending entry.
pub(crate) fn verdict(verdict: Verdict) -> String {
    text!("recovery-verdict", verdict = <&str>::from(verdict))
}

/// The verdict and its action.
pub(crate) fn judged(verdict: Verdict) -> String {
    let (text, act) = (self::verdict(verdict), act(verdict.action()));
    text!("recovery-value", text, act)
}

/// The verdict in a column.
pub(crate) fn verdict_word(verdict: Verdict) -> String {
    text!("recovery-verdict-word", verdict = <&str>::from(verdict))
}

/// The action on a pending entry.
pub(crate) fn act(act: RecoveryAction) -> String {
    text!("recovery-action", act = <&str>::from(act))
}
