//! What the audit log records of a command: its name and its arguments.
//!
//! Each function has one arm per command. Statements are not quoted here: the stores and scripts define them.

use seckill_model::{
    Message, NewSale, Reason, SaleAudit, VoucherDetails, VoucherId, ledger::Finding, reason::reason,
};
use unicode_segmentation::UnicodeSegmentation as _;

use crate::{
    commands::{
        Command, LoadTest, apply,
        group::{RemoveReport, Rewind, claim::ClaimPart},
    },
    error::{MAX_REASON, MAX_REASON_BYTES},
    lists::{CLAUSES, PARTS},
    recovery::dead_letters::LetterScope,
};

/// Rejects a reason that is too long for the audit log.
pub fn check_reason(reason: Option<&str>) -> Result<(), Reason> {
    let Some(reason) = reason else { return Ok(()) };
    let length = reason.graphemes(true).count();
    if length > MAX_REASON || reason.len() > MAX_REASON_BYTES {
        let (characters, bytes) = (length, reason.len());
        let (most, most_bytes) = (MAX_REASON, MAX_REASON_BYTES);
        return Err(reason!("error-long-reason", characters, bytes, most, most_bytes));
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
    let on = |subject: Reason| Message::of(&subject);
    match command {
        Command::CreateVoucher(voucher) => ("voucher create", on(new_voucher(voucher))),
        // The order identifies the buyer; the log names no buyers.
        Command::BuyVoucher(voucher, _) => ("voucher buy", sale(voucher)),
        Command::CreateSale(new) => ("sale create", on(new_sale(new))),
        Command::CreateSaleVoucher(voucher, new) => {
            ("sale create", on(Reason::Joined(vec![new_sale(new), content(voucher)])))
        }
        Command::StartSale(voucher) => ("sale start", sale(voucher)),
        Command::PauseSale(voucher) => ("sale pause", sale(voucher)),
        Command::ResumeSale(voucher) => ("sale resume", sale(voucher)),
        Command::EndSale(voucher) => ("sale end", sale(voucher)),
        Command::Restock { voucher, by } => {
            let name = if *by < 0 { "sale cut" } else { "sale restock" };
            (name, on(reason!("subject-pieces", sale = *voucher, count = by.unsigned_abs())))
        }
        Command::LoadTest(LoadTest { voucher, users, seed, .. }) => {
            let (sale, users, seed) = (*voucher, *users, seed.to_string());
            ("rush", on(reason!("subject-rush", sale, users, seed)))
        }
        Command::StopLoadTest(voucher) => ("rush stop", sale(voucher)),
        Command::Repair(plan) => {
            ("audit repair", on(Reason::list(plan.iter().map(sale_findings), PARTS)))
        }
        // These commands change nothing.
        Command::Plan(_)
        | Command::CountLetters(_)
        | Command::Preview(_)
        | Command::Trace(_)
        | Command::Cancel => ("question", Message::default()),
        Command::Apply(plan, _) => {
            let digest: String = plan.digest().chars().take(12).collect();
            let (entries, filter) = (plan.totals.entries, plan.head.filter.as_str());
            let subject = match filter {
                "" => reason!("subject-plan", entries, digest),
                _ => reason!("subject-plan-filtered", entries, digest, filter),
            };
            (apply::APPLY, on(subject))
        }
        Command::Rewind(plan) => {
            ("stream rewind", on(Reason::list(plan.iter().map(rewind_part), PARTS)))
        }
        Command::Claim(plan) => {
            let parts = Reason::list(plan.parts.iter().map(claim_part), PARTS);
            let forced = plan.force.then(|| reason!("subject-claim-forced"));
            let subject = Reason::Joined([Some(parts), forced].into_iter().flatten().collect());
            ("stream claim", on(subject))
        }
        Command::RemoveConsumer(RemoveReport { consumer: name, partitions }) => {
            let subject = match partitions.as_slice() {
                [only] => reason!("subject-consumer-of", name, partition = only.to_string()),
                _ => reason!("subject-consumer", name),
            };
            ("stream remove-consumer", on(subject))
        }
        Command::Pay(order) => ("order pay", order.to_string().into()),
        Command::ReleaseLock { name, owner } => {
            ("lock release", on(reason!("subject-lock", name, owner)))
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

fn new_voucher(voucher: &VoucherDetails) -> Reason {
    let (title, pay, actual) = (&voucher.title, voucher.pay_value, voucher.actual_value);
    let status = <&str>::from(voucher.status);
    let voucher = content(voucher);
    Reason::Joined(vec![reason!("subject-new-voucher", title, pay, actual, status), voucher])
}

/// What a voucher has besides a title and a price.
fn content(VoucherDetails { shop_id, sub_title, rules, .. }: &VoucherDetails) -> Reason {
    let mut parts = Vec::new();
    parts.extend(shop_id.map(|shop| reason!("subject-shop", shop = shop.to_string())));
    parts.extend(sub_title.as_ref().map(|text| reason!("subject-sub-title", text)));
    parts.extend(rules.as_ref().map(|text| reason!("subject-rules", text)));
    Reason::Joined(parts)
}

fn new_sale(NewSale { title, stock, limit, begin, end, shards }: &NewSale) -> Reason {
    let mut parts = vec![
        reason!("subject-new-sale", title, stock = *stock),
        reason!("subject-limit", limit = *limit),
    ];
    if *shards > 1 {
        parts.push(reason!("subject-shards", shards = *shards));
    }
    parts.extend(begin.map(|begin| reason!("subject-begins", begin)));
    parts.extend(end.map(|end| reason!("subject-ends", end)));
    Reason::Joined(parts)
}

fn sale_findings(audit: &SaleAudit) -> Reason {
    let findings = Reason::list(audit.findings.iter().map(Finding::reason), CLAUSES);
    reason!("subject-findings", sale = audit.voucher_id, findings)
}

fn rewind_part(rewind: &Rewind) -> Reason {
    let Rewind { from, again, last_delivered, .. } = *rewind;
    let partition = rewind.partition.to_string();
    match last_delivered {
        Some(was) => reason!("subject-rewind", partition, was, from, again),
        None => reason!("subject-partition-no-group-to-redelivers", partition, from, again),
    }
}

fn claim_part(part: &ClaimPart) -> Reason {
    let ClaimPart { partition, from, to, count, .. } = part;
    reason!("subject-claim", count = *count, partition = partition.to_string(), from, to)
}

fn letters(scope: &LetterScope, force: bool, compensate: bool) -> Reason {
    let which = match scope {
        LetterScope::Letters(ids) => reason!("subject-letters", count = ids.len()),
        LetterScope::Matching { filter, .. } if filter.is_empty() => {
            reason!("subject-letters-all")
        }
        LetterScope::Matching { filter, .. } => {
            reason!("subject-letters-matching", filter = filter.to_string())
        }
    };
    let forced = force.then(|| reason!("subject-forced"));
    let compensated = compensate.then(|| reason!("subject-compensated"));
    Reason::Joined([Some(which), forced, compensated].into_iter().flatten().collect())
}
