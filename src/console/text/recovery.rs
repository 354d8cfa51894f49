//! Texts of recovery: verdicts, actions and progress.

use seckill_model::{RecoveryAction, Verdict, text};

/// The verdict on a pending entry.
pub(crate) fn verdict(verdict: Verdict) -> String {
    text!("recovery-verdict", verdict = <&str>::from(verdict))
}

/// The verdict and its action.
pub(crate) fn judged(verdict: Verdict) -> String {
    let (text, action) = (self::verdict(verdict), action(verdict.action()));
    text!("recovery-value", text, action)
}

/// The verdict in a column.
pub(crate) fn verdict_word(verdict: Verdict) -> String {
    text!("recovery-verdict-word", verdict = <&str>::from(verdict))
}

/// The action on a pending entry.
pub(crate) fn action(action: RecoveryAction) -> String {
    text!("recovery-action", action = <&str>::from(action))
}
