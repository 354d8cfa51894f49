//! What the audit log records of a command: its name and its arguments.
//!
//! Each function has one arm per command. Statements are not quoted here: the stores and scripts define them.

use seckill_model::{Message, NewSale, VoucherId, reason::reason};
use unicode_segmentation::UnicodeSegmentation as _;

use crate::{
    EngineError,
    commands::{Command, LoadTest, apply, group::RemoveReport},
    dead_letters::LetterScope,
    error::{MAX_REASON, MAX_REASON_BYTES},
    event::Subject,
    recovery::repair::SaleRepair,
};

/// Rejects a reason that is too long for the audit log.
///
/// # Errors
/// [`EngineError::Rejected`] with the length.
pub fn check_reason(reason: Option<&str>) -> Result<(), EngineError> {
    let Some(reason) = reason else { return Ok(()) };
    let length = reason.graphemes(true).count();
    if length > MAX_REASON || reason.len() > MAX_REASON_BYTES {
        let (characters, bytes) = (length, reason.len());
        let (most, most_bytes) = (MAX_REASON, MAX_REASON_BYTES);
        let why = reason!("error-long-reason", characters, bytes, most, most_bytes);
        return Err(EngineError::Rejected(why));
    }
    Ok(())
}

/// The sale that the command is about, if any.
pub fn about(command: &Command) -> Option<VoucherId> {
    match command {
        Command::StartSale(voucher)
        | Command::PauseSale(voucher)
        | Command::ResumeSale(voucher)
        | Command::EndSale(voucher)
        | Command::StopLoadTest(voucher)
        | Command::Restock { voucher, .. } => Some(*voucher),
        Command::LoadTest(plan) => Some(plan.voucher),
        _ => None,
    }
}

/// Name and arguments of the command for the audit log.
pub fn describe(command: &Command) -> (&'static str, Message) {
    let sale = |voucher: &VoucherId| Message::from(format!("#{voucher}"));
    let on = |subject: Subject| Message::of(&subject);
    match command {
        Command::CreateVoucher(voucher) => {
            ("voucher create", on(Subject::NewVoucher(Box::new(voucher.clone()))))
        }
        // The order identifies the buyer; the log names no buyers.
        Command::BuyVoucher(voucher, _) => ("voucher buy", sale(voucher)),
        Command::CreateSale(NewSale { title, stock, begin, end, limit }) => {
            let (title, stock, limit) = (title.clone(), *stock, Some(*limit));
            ("sale create", on(Subject::NewSale { title, stock, limit, begin: *begin, end: *end }))
        }
        Command::StartSale(voucher) => ("sale start", sale(voucher)),
        Command::PauseSale(voucher) => ("sale pause", sale(voucher)),
        Command::ResumeSale(voucher) => ("sale resume", sale(voucher)),
        Command::EndSale(voucher) => ("sale end", sale(voucher)),
        Command::Restock { voucher, by } => {
            (if *by < 0 { "sale cut" } else { "sale restock" }, on(Subject::Pieces(*voucher, *by)))
        }
        Command::LoadTest(LoadTest { voucher, users, seed, .. }) => {
            ("rush", on(Subject::LoadTest { voucher: *voucher, users: *users, seed: *seed }))
        }
        Command::StopLoadTest(voucher) => ("rush stop", sale(voucher)),
        Command::Repair(plan) => {
            let findings = |it: &SaleRepair| (it.voucher_id, it.findings.clone());
            ("audit repair", on(Subject::Findings(plan.iter().map(findings).collect())))
        }
        // These commands change nothing.
        Command::Plan(_)
        | Command::CountLetters(_)
        | Command::Preview(_)
        | Command::Trace(_)
        | Command::Cancel => ("question", Message::default()),
        Command::Apply(plan, _) => {
            let digest: String = plan.digest().chars().take(12).collect();
            let (entries, filter) = (plan.totals.entries, plan.head.filter.clone());
            (apply::APPLY, on(Subject::Plan { entries, digest, filter }))
        }
        Command::Rewind(plan) => {
            ("stream rewind", on(Subject::Rewind(plan.iter().map(Into::into).collect())))
        }
        Command::Claim(plan) => (
            "stream claim",
            on(Subject::Claim(plan.parts.iter().map(Into::into).collect(), plan.force)),
        ),
        Command::RemoveConsumer(RemoveReport { consumer, partitions }) => {
            let only = <[u16; 1]>::try_from(partitions.as_slice()).ok().map(|[only]| only);
            ("stream remove-consumer", on(Subject::Consumer(consumer.clone(), only)))
        }
        Command::Pay(order) => ("order pay", order.to_string().into()),
        Command::ReleaseLock { name, owner } => {
            ("lock release", on(Subject::Lock(name.clone(), owner.clone())))
        }
        Command::RunJob(job) => ("job run", job.as_str().into()),
        Command::SwitchJob { job, paused: true } => ("job pause", job.as_str().into()),
        Command::SwitchJob { job, paused: false } => ("job resume", job.as_str().into()),
        Command::ReplayLetters { scope, force } => {
            ("dead replay", on(letters(scope, *force, false)))
        }
        Command::DiscardLetters { scope, compensate } => {
            ("dead discard", on(letters(scope, false, *compensate)))
        }
    }
}

fn letters(scope: &LetterScope, force: bool, compensate: bool) -> Subject {
    let (named, filter) = match scope {
        LetterScope::Letters(ids) => (Some(ids.len() as u64), String::new()),
        LetterScope::Matching { filter, .. } => (None, filter.to_string()),
    };
    Subject::Letters { named, filter, force, compensate }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_bounded() {
        check_reason(None).unwrap();
        check_reason(Some(&"锅".repeat(MAX_REASON))).unwrap();
        for long in ["x".repeat(MAX_REASON + 1), format!("a{}", "\u{301}".repeat(9_000))] {
            let error = check_reason(Some(&long)).unwrap_err().to_string();
            assert!(error.contains("shorten"), "{error}");
        }
    }
}
