//! Words of the acts: what is asked, what came of it, and why nothing happens.

use std::fmt::Write as _;

use super::{
    figures::{self, counted, thousands},
    letters, sale_name,
};
use crate::{
    console::keymap::{Action, Context, key_of},
    engine::{
        command::{ReplayReport, Reply, RushPlan, RushReport},
        plan::Plan,
    },
    model::{JobOutcome, NewSale, Payment, Phase, SaleState, VoucherId},
    telemetry::snapshot::{Holder, JobLine, RecoveryLine, SaleLine},
};

pub(crate) const CANCEL: &str = "Cancel";
pub(crate) const NO_SALE: &str = "there is no sale to act on";
pub(crate) const CHOOSE_SALE: &str = "choose the sale that is meant, then press the key again";
pub(crate) const NOTHING_PENDING: &str = "nothing is pending, so there is nothing to replay";
pub(crate) const NOTHING_UNDER_WAY: &str = "nothing is under way that could be broken off";
pub(crate) const PLAN_READY: &str = "the plan is made; close this and press the key again";
pub(crate) const NOTHING_CHOSEN: &str = "no row is chosen";
pub(crate) const NOTHING_MARKED: &str = "no entry to mark here";
pub(crate) const NO_OTHER_SALE: &str = "no sale to choose";
pub(crate) const NO_FILTER: &str = "this view has no rows to filter";
pub(crate) const TOP: &str = "this is the first row";
pub(crate) const BOTTOM: &str = "this is the last row";
pub(crate) const FROZEN_PAGE: &str = "the picture is frozen; let it go on before turning the page";
pub(crate) const ZOOM_END: &str = "the chart shows no other time";
pub(crate) const ENGINE_GONE: &str =
    "the engine has stopped; what you see does not change any more";
pub(crate) const DRAFT_KEPT: &str = "nothing was created; the form keeps what you typed";
pub(crate) const UNANSWERED: &str =
    "the engine stopped before it answered; look at the sale again before repeating it";
pub(crate) const REASON: &str = "reason";
pub(crate) const REASON_HINT: &str = "optional, for the log; Tab goes here";
pub(crate) const CANCELLED: &str = "nothing was done";

pub(crate) fn does_nothing(key: &str) -> String {
    format!("{key} does nothing here; {} shows the keys", key_of(Action::Help))
}

pub(crate) fn works_elsewhere(key: &str, action: Action, views: &[Context]) -> String {
    let views: Vec<&str> = views.iter().map(|view| super::context(*view)).collect();
    format!("{key} ({}) works in {}", super::action(action).0, views.join(" and "))
}

fn name(sale: &SaleLine) -> String {
    sale_name(sale.voucher_id, &sale.title)
}

/// Why an act makes no sense in the sale's phase.
pub(crate) fn no_use(sale: &SaleLine) -> String {
    let id = sale.voucher_id;
    match sale.phase {
        Phase::Ended | Phase::Archived => format!("#{id} has ended; it can't be changed any more"),
        Phase::Running => format!("#{id} is running already"),
        Phase::SoldOut => format!("#{id} has started and is sold out"),
        Phase::Paused => format!("#{id} is paused; {} lets it go on", key_of(Action::Pause)),
        Phase::Planned => format!("#{id} has not started yet"),
    }
}

/// A question: its title, its sentences, the word on the button.
pub(crate) struct Question {
    pub(crate) title: String,
    pub(crate) lines: Vec<String>,
    pub(crate) yes: String,
}

fn question(title: &str, lines: Vec<String>, yes: &str) -> Question {
    Question { title: title.to_owned(), lines, yes: yes.to_owned() }
}

fn left(sale: &SaleLine) -> String {
    let left = sale.stock.map_or_else(|| super::UNKNOWN.to_owned(), figures::signed);
    format!("{left} of {} pieces", thousands(sale.initial))
}

pub(crate) fn start(sale: &SaleLine) -> Question {
    question(
        "Start the sale now?",
        vec![
            name(sale),
            format!("{} are open to buyers at once, before the planned time.", left(sale)),
        ],
        "Start",
    )
}

pub(crate) fn pause(sale: &SaleLine) -> Question {
    question(
        "Pause the sale?",
        vec![
            name(sale),
            format!(
                "{} are left. Buyers are turned away until it goes on; orders that were admitted are still written.",
                left(sale)
            ),
        ],
        "Pause",
    )
}

pub(crate) fn resume(sale: &SaleLine) -> Question {
    question(
        "Let the sale go on?",
        vec![name(sale), format!("{} are open to buyers again, within its window.", left(sale))],
        "Resume",
    )
}

pub(crate) fn end(sale: &SaleLine) -> Question {
    question(
        "End the sale for good?",
        vec![
            name(sale),
            format!("{} are unsold; buyers are refused from now on.", left(sale)),
            "This can't be undone.".to_owned(),
        ],
        "End",
    )
}

/// The exact plan of a rush, a sentence each.
pub(crate) fn rush_plan(plan: &RushPlan) -> Vec<String> {
    let again = (plan.users as f64 * plan.repeat).round() as u64;
    let pace = plan.rate.map_or_else(|| "as fast as it goes".to_owned(), figures::rate);
    vec![
        format!(
            "{} by {}, {} of them twice.",
            counted(plan.users + again, "request", "requests"),
            counted(plan.users, "buyer", "buyers"),
            thousands(again),
        ),
        format!("At most {} under way at once, {pace}.", thousands(plan.concurrency as u64)),
    ]
}

pub(crate) fn rush(sale: &SaleLine, plan: &RushPlan) -> Question {
    let mut lines = vec![name(sale)];
    lines.extend(rush_plan(plan));
    lines.push(match sale.phase {
        Phase::Running => format!("{} are left. Orders are real: they take stock.", left(sale)),
        Phase::SoldOut => "Nothing is left: every buyer will find it sold out.".to_owned(),
        Phase::Paused => "The sale is paused: every buyer will be turned away.".to_owned(),
        Phase::Planned => "The sale has not started: buyers will be turned away.".to_owned(),
        Phase::Ended | Phase::Archived => {
            "The sale has ended: every buyer will be turned away.".to_owned()
        }
    });
    question("Send simulated buyers?", lines, "Rush")
}

/// What a plan comes to, a line for each verdict.
pub(crate) fn plan(plan: &Plan, filtered: bool) -> Question {
    let totals = &plan.totals;
    let entries = counted(totals.entries, "entry", "entries");
    let mut lines = vec![if plan.head.filter.is_empty() {
        format!("{entries}, all that are pending.")
    } else {
        format!("{entries}, those that are marked.")
    }];
    if filtered {
        lines.push("The filter of this view does not limit it.".to_owned());
    }
    for total in &totals.verdicts {
        let (verdict, act) = (super::verdict(total.verdict), super::act(total.act));
        lines.push(format!("{:>9}  {verdict}: {act}", thousands(total.entries)));
    }
    let books = &totals.books;
    let mut after = format!(
        "Then: {} pending, {}, {} in SQL.",
        thousands(books.pending.after),
        counted(books.dead.after, "dead letter", "dead letters"),
        counted(books.persisted.after, "order", "orders"),
    );
    if books.rebuilt > 0 {
        let _ = write!(after, " {} go into the stream again.", thousands(books.rebuilt));
    }
    lines.push(after);
    question("Replay this?", lines, "Replay")
}

pub(crate) fn nothing_to_do(plan: &Plan) -> String {
    match plan.totals.entries {
        0 => "none of them is pending any more".to_owned(),
        held => format!("{} in the hands of live nodes; nothing to do", thousands(held)),
    }
}

pub(crate) fn break_off(line: &RecoveryLine) -> Question {
    question(
        "Break it off?",
        vec![
            format!("{}: {} of {}.", line.act, thousands(line.done), thousands(line.planned)),
            "The step in hand is finished; what was done stays done. A new plan goes on with the rest."
                .to_owned(),
        ],
        "Break off",
    )
}

pub(crate) fn release(lock: &Holder) -> Question {
    let waiting = match lock.waiting {
        0 => "Nobody waits for it.".to_owned(),
        waiting => format!("{} for it; one of them takes it.", counted(waiting, "waits", "wait")),
    };
    let holder = if lock.orphan {
        format!("Its holder {} gives no sign of life.", lock.node)
    } else {
        format!(
            "Its holder {} is alive: its work is cancelled, and what it writes late is refused.",
            lock.node
        )
    };
    let task = if lock.task.is_empty() { String::new() } else { format!(" ({})", lock.task) };
    question(
        "Take the lock from its holder?",
        vec![format!("'{}', held by {}{task}.", lock.name, lock.node), holder, waiting],
        "Release",
    )
}

pub(crate) fn run_job(job: &JobLine) -> Question {
    let mut lines = vec![job.name.clone(), format!("It will {}.", job.about)];
    lines.push("It runs at once on this node, unless it runs somewhere already.".to_owned());
    question("Run the job now?", lines, "Run")
}

pub(crate) fn switch_job(job: &JobLine) -> Question {
    if job.paused {
        let line = "It is due again by its schedule; what was due meanwhile is not made up for.";
        question("Let the job go on?", vec![job.name.clone(), line.to_owned()], "Resume")
    } else {
        let line = "It is not run any more on any node until it is resumed.";
        question("Pause the job?", vec![job.name.clone(), line.to_owned()], "Pause")
    }
}

pub(crate) fn quit(sent: u64, planned: u64) -> Question {
    question(
        "Quit while a rush is under way?",
        vec![
            format!("{} of {} requests were sent.", thousands(sent), thousands(planned)),
            "The rest is not sent. Orders that were admitted stay in the stream and are written \
             by the next engine."
                .to_owned(),
        ],
        "Quit",
    )
}

/// Told while the engine works on it.
pub(crate) mod asked {
    use super::{NewSale, RushPlan, VoucherId, thousands};

    pub(crate) fn create(sale: &NewSale) -> String {
        format!("creating {}", sale.title)
    }

    pub(crate) fn change(voucher: VoucherId) -> String {
        format!("changing #{voucher}")
    }

    pub(crate) fn rush(plan: &RushPlan) -> String {
        format!("{} buyers are on their way to #{}", thousands(plan.users), plan.voucher)
    }

    pub(crate) fn job(name: &str) -> String {
        format!("{name} is running")
    }

    pub(crate) const PLAN: &str = "looking at each entry";
    pub(crate) const REPLAY: &str = "replaying";
    pub(crate) const LETTERS: &str = "looking at each dead letter";
    pub(crate) const ACT: &str = "asking the engine";
}

/// What an act brought about, and whether it went as one would wish.
pub(crate) fn reply(reply: &Reply) -> (String, bool) {
    match reply {
        Reply::VoucherCreated(voucher) => (format!("voucher #{voucher} is created"), true),
        Reply::SaleCreated(voucher) => (format!("#{voucher} is created and in Redis"), true),
        Reply::SaleChanged { voucher, state } => {
            let state = match state {
                SaleState::Running => "open",
                SaleState::Paused => "paused",
                SaleState::Ended => "ended for good",
                SaleState::Archived => "archived",
            };
            (format!("#{voucher} is {state}"), true)
        }
        Reply::Restocked { voucher, initial } => {
            (format!("#{voucher} has {} pieces in all", thousands(*initial)), true)
        }
        Reply::RushDone(report) => rush_done(report),
        Reply::Repaired(done) => (
            format!(
                "{} buyers put back, {} orders enqueued, {} pieces given back",
                thousands(done.put_back),
                thousands(done.enqueued),
                thousands(done.given_back)
            ),
            true,
        ),
        Reply::Planned(plan) => (counted(plan.totals.entries, "entry", "entries"), true),
        Reply::Cancelled(true) => ("it ends after the step in hand".to_owned(), true),
        Reply::Cancelled(false) => (NOTHING_UNDER_WAY.to_owned(), true),
        Reply::Replayed(report) => replayed(report),
        Reply::LettersCounted(letters) => {
            (counted(letters.counts.total(), "dead letter", "dead letters"), true)
        }
        Reply::LettersReplayed(report) => letters::replayed(report),
        Reply::LettersDiscarded(report) => letters::discarded(report),
        Reply::Paid { order, payment } => match payment {
            Payment::Paid => (format!("order {order} is paid"), true),
            Payment::PaidBefore => (format!("order {order} was paid before"), true),
            Payment::TooLate => {
                (format!("order {order} was closed before; nothing was paid"), false)
            }
            Payment::NotFound => (format!("order {order} is not in SQL"), false),
        },
        Reply::Rewound(report) => {
            let again = counted(report.again, "entry is", "entries are");
            (format!("the group was moved back; {again} delivered again"), true)
        }
        Reply::Claimed(report) => {
            let given = counted(report.claimed, "entry is", "entries are");
            (format!("{given} with another consumer now"), report.claimed > 0)
        }
        Reply::ConsumerRemoved(report) => (format!("{} was removed", report.consumer), true),
        Reply::LockReleased { name, .. } => (format!("'{name}' was taken from its holder"), true),
        Reply::JobRun { job, end } => {
            let detail = end.detail.as_deref().map(|said| format!(": {said}")).unwrap_or_default();
            let took = figures::span(end.took_ms);
            let text = format!("{job} {} after {took}{detail}", super::outcome(end.outcome));
            (text, end.outcome == JobOutcome::Done)
        }
        Reply::JobSwitched { job, paused: true } => (format!("{job} is paused"), true),
        Reply::JobSwitched { job, paused: false } => (format!("{job} goes on"), true),
    }
}

fn rush_done(report: &RushReport) -> (String, bool) {
    let mut text = format!(
        "Rush over: {} asked, {} admitted, {} sold out, {} twice, {}, p99 {}; ",
        thousands(report.attempts),
        thousands(report.admitted),
        thousands(report.sold_out),
        thousands(report.duplicate),
        figures::rate(report.per_second),
        figures::latency(report.latency_us.p99),
    );
    if report.settled {
        let _ = write!(
            text,
            "all settled after {:.1} s: {} written",
            report.settled_seconds,
            thousands(report.persisted)
        );
    } else {
        let _ = write!(text, "not settled yet: {} written so far", thousands(report.persisted));
    }
    let extras = [
        (report.rejected, "turned away"),
        (report.errors, "without an answer"),
        (report.dead, "dead letters"),
    ];
    for (count, word) in extras.into_iter().filter(|(count, _)| *count > 0) {
        let _ = write!(text, ", {} {word}", thousands(count));
    }
    (text, report.settled && report.errors == 0 && report.dead == 0)
}

fn replayed(report: &ReplayReport) -> (String, bool) {
    let mut text = format!(
        "Replayed {}: {} written, {} acknowledged, {}, {} left",
        thousands(report.seen),
        thousands(report.persisted),
        thousands(report.acknowledged),
        counted(report.dead, "dead letter", "dead letters"),
        thousands(report.left),
    );
    let extras = [
        (report.rebuilt, "rebuilt"),
        (report.hollow, "without a body dropped"),
        (report.lost, "without a body left"),
        (report.gone, "settled before their turn"),
        (report.changed, "changed since, so left alone"),
    ];
    for (count, word) in extras.into_iter().filter(|(count, _)| *count > 0) {
        let _ = write!(text, ", {} {word}", thousands(count));
    }
    if report.cut_short {
        text.push_str("; cut short");
    }
    let well = report.dead + report.lost + report.changed == 0;
    (text, well && !report.cut_short)
}

/// Words of the forms.
pub(crate) mod form {
    use super::super::figures::thousands;

    pub(crate) const NEW_SALE: &str = "New sale";
    pub(crate) const TITLE: &str = "Title";
    pub(crate) const STOCK: &str = "Stock";
    pub(crate) const LIMIT: &str = "Limit";
    pub(crate) const BEGIN: &str = "Begin";
    pub(crate) const END: &str = "End";
    pub(crate) const BEGIN_HINT: &str = "empty is at once; 14:30, +10m or 2026-11-20 14:30";
    pub(crate) const END_HINT: &str = "empty is never; 15:00, +1h or 2026-11-20 15:00";
    pub(crate) const TITLE_HINT: &str = "what buyers read";
    pub(crate) const STOCK_HINT: &str = "pieces on sale";
    pub(crate) const LIMIT_HINT: &str = "orders that one user may hold, 1 to 20";
    pub(crate) const CREATE: &str = "Create";
    pub(crate) const BUYERS: &str = "Buyers";
    pub(crate) const BUYERS_HINT: &str = "different people, 1 to 10,000,000";
    pub(crate) const REPEAT: &str = "Twice";
    pub(crate) const REPEAT_HINT: &str = "percent of them that ask twice, 0 to 100";
    pub(crate) const NEXT: &str = "Go on";

    pub(crate) fn rush(sale: &str) -> String {
        format!("Rush on {sale}")
    }

    pub(crate) fn no_number(text: &str) -> String {
        let shown: String = text.chars().take(20).collect();
        format!("'{shown}' is no whole number")
    }

    pub(crate) fn out_of_range(least: u64, most: u64) -> String {
        format!("give {} to {}", thousands(least), thousands(most))
    }
}
