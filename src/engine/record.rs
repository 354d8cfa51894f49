//! What the audit log says of an act: its name, its subject, what was sent for it, and how it went.
//!
//! One arm a command in each of the functions. It knows what is sent, and sends nothing itself.

use unicode_segmentation::UnicodeSegmentation as _;

use super::{
    EngineError, apply,
    command::{Command, LetterScope, Reply, RushPlan},
    group::{self, RemoveReport, Rewind, claim::ClaimPart},
    repair::SaleRepair,
    told::Subject,
};
use crate::{
    broker::Layout,
    model::{NewSale, Payment, Said, VoucherId, counted},
};

/// Characters of a reason, as a person counts them.
pub const MAX_REASON: usize = 1_000;
/// Bytes of it: a character may bear any number of marks.
pub const MAX_REASON_BYTES: usize = 16_000;

/// Refuses a reason that no log has room for.
///
/// # Errors
/// [`EngineError::LongReason`] says how long it is.
pub fn check_reason(reason: Option<&str>) -> Result<(), EngineError> {
    let Some(reason) = reason else { return Ok(()) };
    let length = reason.graphemes(true).count();
    if length > MAX_REASON || reason.len() > MAX_REASON_BYTES {
        return Err(EngineError::LongReason { characters: length, bytes: reason.len() });
    }
    Ok(())
}

/// The sale that it is about, if it is about one.
pub fn about(command: &Command) -> Option<VoucherId> {
    match command {
        Command::StartSale(voucher)
        | Command::PauseSale(voucher)
        | Command::ResumeSale(voucher)
        | Command::EndSale(voucher)
        | Command::StopRush(voucher)
        | Command::Restock { voucher, .. } => Some(*voucher),
        Command::Rush(plan) => Some(plan.voucher),
        _ => None,
    }
}

/// The act's name and what it is about, for the audit log.
pub fn describe(command: &Command) -> (&'static str, Said) {
    let sale = |voucher: &VoucherId| Said::from(format!("#{voucher}"));
    let on = |subject: Subject| Said::of(&subject);
    match command {
        Command::CreateVoucher(title) => ("voucher create", format!("'{title}'").into()),
        Command::CreateSale(NewSale { title, stock, .. }) => {
            ("sale create", on(Subject::NewSale { title: title.clone(), stock: *stock }))
        }
        Command::StartSale(voucher) => ("sale start", sale(voucher)),
        Command::PauseSale(voucher) => ("sale pause", sale(voucher)),
        Command::ResumeSale(voucher) => ("sale resume", sale(voucher)),
        Command::EndSale(voucher) => ("sale end", sale(voucher)),
        Command::Restock { voucher, by } => {
            (if *by < 0 { "sale cut" } else { "sale restock" }, on(Subject::Pieces(*voucher, *by)))
        }
        Command::Rush(RushPlan { voucher, users, seed, .. }) => {
            ("rush", on(Subject::Rush { voucher: *voucher, users: *users, seed: *seed }))
        }
        Command::StopRush(voucher) => ("rush stop", sale(voucher)),
        Command::Repair(plan) => {
            let books = |it: &SaleRepair| (it.voucher_id, it.findings.clone());
            ("audit repair", on(Subject::Books(plan.iter().map(books).collect())))
        }
        // None of them changes anything that is kept.
        Command::Plan(_)
        | Command::CountLetters(_)
        | Command::Preview(_)
        | Command::Trace(_)
        | Command::Cancel => ("question", Said::default()),
        Command::Apply(plan, _) => {
            let digest: String = plan.digest().chars().take(12).collect();
            let (entries, filter) = (plan.totals.entries, plan.head.filter.clone());
            (apply::APPLY, on(Subject::Plan { entries, digest, filter }))
        }
        Command::Rewind(plan) => ("stream rewind", on(group::words::rewind(plan))),
        Command::Claim(plan) => ("stream claim", on(group::words::claim(plan))),
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

/// How it went, in English.
pub(super) fn told(reply: &Reply) -> String {
    match reply {
        Reply::VoucherCreated(voucher) => format!("voucher #{voucher}"),
        Reply::SaleCreated(voucher) => format!("sale #{voucher}"),
        Reply::SaleChanged { voucher, state } => format!("sale #{voucher} is {state}"),
        Reply::Restocked { voucher, initial } => format!("sale #{voucher} holds {initial} in all"),
        Reply::Paid { payment, .. } => match payment {
            Payment::Paid => "paid",
            Payment::PaidBefore => "paid before",
            Payment::TooLate => "too late: it is closed",
            Payment::NotFound => "no such order in SQL",
        }
        .to_owned(),
        Reply::Rewound(report) => group::words::rewound(report),
        Reply::Claimed(report) => group::words::claimed(report),
        Reply::ConsumerRemoved(report) => group::words::removed(report),
        Reply::LockReleased { .. } => "released".to_owned(),
        Reply::JobSwitched { paused, .. } => if *paused { "paused" } else { "resumed" }.to_owned(),
        Reply::RushStopped { rushes, .. } => format!("rushes stopped: {rushes}"),
        Reply::RushDone(report) => format!(
            "{}{}, {} admitted, {} persisted, {}",
            cut(report.cut_short),
            counted(report.attempts, "attempt", "attempts"),
            report.admitted,
            report.persisted,
            counted(report.dead, "dead letter", "dead letters")
        ),
        Reply::Repaired(done) => format!(
            "{} put back, {} enqueued, {} given back",
            counted(done.put_back, "buyer", "buyers"),
            counted(done.enqueued, "order", "orders"),
            counted(done.given_back, "piece", "pieces")
        ),
        Reply::Planned(plan) => counted(plan.totals.entries, "entry", "entries"),
        Reply::LettersCounted(found) => counted(found.counts.total(), "letter", "letters"),
        // Told by themselves, or by nobody.
        Reply::JobRun { .. } | Reply::Cancelled(_) | Reply::Previewed(_) | Reply::Traced(_) => {
            String::new()
        }
        Reply::Replayed(report) => format!(
            "{}{}: {} written, {} acknowledged, {}, {} left, {} rebuilt, {} without a body dropped, {} of those left, {} gone, {} changed",
            cut(report.cut_short),
            counted(report.seen, "entry", "entries"),
            report.persisted,
            report.acknowledged,
            counted(report.dead, "dead letter", "dead letters"),
            report.left,
            report.rebuilt,
            report.hollow,
            report.lost,
            report.gone,
            report.changed
        ),
        Reply::LettersReplayed(report) => format!(
            "{}{}: {} replayed, {} refused, {} gone",
            cut(report.cut_short),
            counted(report.seen, "letter", "letters"),
            report.replayed,
            report.refused.total(),
            report.gone
        ),
        Reply::LettersDiscarded(report) => format!(
            "{}{}: {} discarded, {} cancelled, {} given back, {} refused, {} gone",
            cut(report.cut_short),
            counted(report.seen, "letter", "letters"),
            report.discarded,
            report.compensated,
            counted(report.given_back, "piece", "pieces"),
            report.refused.total(),
            report.gone
        ),
    }
}

fn letters(scope: &LetterScope, force: bool, compensate: bool) -> Subject {
    let (named, filter) = match scope {
        LetterScope::Letters(ids) => (Some(ids.len() as u64), String::new()),
        LetterScope::Matching { filter, .. } => (None, filter.to_string()),
    };
    Subject::Letters { named, filter, force, compensate }
}

fn cut(cut_short: bool) -> &'static str {
    if cut_short { "cut short after " } else { "" }
}

/// What it sends to Redis and SQL: the statements, or their kinds where an act is about many entries.
pub fn commands(command: &Command, keys: &Layout) -> String {
    let home = keys.home();
    let state = |voucher: VoucherId, what: &str| {
        format!(
            "UPDATE tb_seckill_voucher SET {what}, version = version + 1 WHERE voucher_id = {voucher}; {}",
            sync(voucher, keys)
        )
    };
    match command {
        Command::CreateVoucher(_) => "INSERT INTO tb_voucher".to_owned(),
        Command::CreateSale(_) => {
            "INSERT INTO tb_voucher, tb_seckill_voucher; sync_sale.lua for its keys".to_owned()
        }
        Command::StartSale(voucher) => state(*voucher, "state = 'running', begin_time = now"),
        Command::PauseSale(voucher) => state(*voucher, "state = 'paused'"),
        Command::ResumeSale(voucher) => state(*voucher, "state = 'running'"),
        Command::EndSale(voucher) => state(*voucher, "state = 'ended'"),
        Command::Restock { voucher, by: by @ ..0 } => format!(
            "cut.lua {} by {by}; {}",
            keys.stock(*voucher),
            state(
                *voucher,
                &format!(
                    "initial_stock = initial_stock - {0}, stock = stock - {0}",
                    by.unsigned_abs()
                )
            )
        ),
        Command::Restock { voucher, by } => {
            state(*voucher, &format!("initial_stock = initial_stock + {by}, stock = stock + {by}"))
        }
        Command::Rush(plan) => format!(
            "admit.lua {} {} {}, in batches",
            keys.stock(plan.voucher),
            keys.buyers(plan.voucher),
            keys.partition_of(plan.voucher).orders()
        ),
        Command::Repair(plan) => {
            let sale = |it: &SaleRepair| {
                let cures: Vec<String> = it.cures.iter().map(|cure| format!("{cure:?}")).collect();
                format!("{} of {}", cures.join(" + "), keys.sale(it.voucher_id))
            };
            let sales: Vec<String> = plan.iter().map(sale).collect();
            format!(
                "{} (by sync_sale.lua, restore.lua, recount.lua, give_back.lua, XADD)",
                sales.join("; ")
            )
        }
        Command::Pay(order) => format!(
            "UPDATE tb_voucher_order SET status = 2, pay_time = now WHERE id = {order} AND status = 1"
        ),
        Command::ReleaseLock { name, owner } => {
            format!("lock_release.lua {} for {owner}", keys.lock(name))
        }
        Command::RunJob(job) => {
            format!("INSERT INTO tb_job_run for '{job}', then what the job sends")
        }
        Command::SwitchJob { job, paused } => {
            format!("UPDATE tb_job SET paused = {} WHERE name = '{job}'", u8::from(*paused))
        }
        Command::Plan(_)
        | Command::CountLetters(_)
        | Command::Preview(_)
        | Command::Trace(_)
        // Nothing is sent: this process alone sends the buyers.
        | Command::StopRush(_)
        | Command::Cancel => String::new(),
        Command::Apply(..) => format!(
            "XPENDING {0} {1}, SELECT FROM tb_voucher_order; then by verdict XACK, XCLAIM with INSERT INTO \
             tb_voucher_order and XACK, XADD, bury.lua to {2}; so {3}",
            home.orders(),
            home.group(),
            home.dead(),
            everywhere(keys)
        ),
        Command::ReplayLetters { .. } => {
            format!("replay.lua {} {}, {}", home.dead(), home.orders(), everywhere(keys))
        }
        Command::DiscardLetters { compensate, .. } => {
            let cancel = "INSERT INTO tb_voucher_order (cancelled), tb_give_back; give_back.lua; ";
            let cancel = if *compensate { cancel } else { "" };
            format!("{cancel}XDEL {}, {}", home.dead(), everywhere(keys))
        }
        Command::Rewind(plan) => {
            let one = |it: &Rewind| {
                let of = keys.partition(it.partition);
                let read = it.entries_read.map_or("-1".to_owned(), |read| read.to_string());
                let verb = if it.group { "SETID" } else { "CREATE" };
                let place = it.from.before().in_stream();
                format!("XGROUP {verb} {} {} {place} ENTRIESREAD {read}", of.orders(), of.group())
            };
            plan.iter().map(one).collect::<Vec<_>>().join("; ")
        }
        Command::Claim(plan) => {
            let one = |it: &ClaimPart| {
                let of = keys.partition(it.partition);
                format!("claim.lua {} {} to {}", of.orders(), of.group(), it.to)
            };
            plan.parts.iter().map(one).collect::<Vec<_>>().join("; ")
        }
        Command::RemoveConsumer(RemoveReport { consumer, partitions }) => {
            let one = |number: &u16| {
                let of = keys.partition(*number);
                format!("remove_consumer.lua {} {} {consumer}", of.orders(), of.group())
            };
            partitions.iter().map(one).collect::<Vec<_>>().join("; ")
        }
    }
}

/// Where an act on every partition is done.
fn everywhere(keys: &Layout) -> String {
    match keys.count() {
        1 => "in 1 partition".to_owned(),
        count => format!("in each of {count} partitions"),
    }
}

fn sync(voucher: VoucherId, keys: &Layout) -> String {
    format!("sync_sale.lua {} {}", keys.sale(voucher), keys.stock(voucher))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_an_end() {
        check_reason(None).unwrap();
        check_reason(Some(&"锅".repeat(MAX_REASON))).unwrap();
        for long in ["x".repeat(MAX_REASON + 1), format!("a{}", "\u{301}".repeat(9_000))] {
            let error = check_reason(Some(&long)).unwrap_err().to_string();
            assert!(error.contains("shorter"), "{error}");
        }
    }

    #[test]
    fn commands_name_the_keys_that_they_touch() {
        let keys = Layout::default();
        let sent = commands(&Command::EndSale(VoucherId(7)), &keys);
        assert!(sent.contains(&keys.sale(VoucherId(7))) && sent.contains("'ended'"), "{sent}");
        let sent = commands(
            &Command::ReplayLetters { scope: LetterScope::Letters(Vec::new()), force: false },
            &keys,
        );
        assert!(sent.contains(&keys.home().orders()), "{sent}");
    }
}
