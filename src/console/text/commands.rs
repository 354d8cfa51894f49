//! Texts of commands: questions, and why nothing happens.

use seckill_engine::{
    Command, LoadTest, SaleLine, Snapshot,
    commands::{audit_record, plan::Plan},
    telemetry::snapshot::{ConsumerLine, Holder, PendingLine},
};
use seckill_model::{EntryId, Label, Verdict, message::Lines, text};
use seckill_text::{
    audit_log::localized_subject,
    figures::{self, thousands},
    plain,
    time::event,
};

use super::sale_name;
use crate::keymap::{Action, Context};

pub(crate) const CANCEL: Label = Label("command-cancel");
pub(crate) const NO_SALE: Label = Label("command-there-is-no-sale-to-change");
pub(crate) const NOTHING_CHOSEN: Label = Label("command-no-row-is-selected");
pub(crate) const NOTHING_MARKED: Label = Label("command-there-is-no-entry");
pub(crate) const DRAFT_KEPT: Label = Label("command-nothing-was-changed-form-keeps");
pub(crate) const REASON: Label = Label("common-reason");
pub(crate) const CANCELLED: Label = Label("command-nothing-was-changed");

/// Every view in which a key is bound, with its meaning there.
pub(crate) fn works_elsewhere(key: &str, meanings: &[(Action, Vec<Context>)]) -> String {
    let each = meanings.iter().map(|(action, views)| {
        let views: Vec<&str> = views.iter().map(|view| view.heading()).collect();
        text!("command-value", views = views.join(&Label("list-items")), action = action.label())
    });
    let each = each.collect::<Vec<_>>().join(&Label("list-items"));
    text!("command-is-available", key, each)
}

fn name(sale: &SaleLine) -> String {
    sale_name(sale.voucher_id, &sale.title)
}

/// Why a command does not apply to the sale's phase.
pub(crate) fn no_use(sale: &SaleLine) -> String {
    text!("command-does-not-apply", id = sale.voucher_id, phase = sale.phase)
}

/// A question: title, sentences, button.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) title: String,
    pub(crate) lines: Vec<String>,
    pub(crate) yes: String,
}

impl Question {
    /// A message of the catalog: each line of `text` is a sentence, and its attributes are the title and the button.
    /// Names in the text must not contain line breaks.
    pub(crate) fn of(message: Label, text: &str) -> Self {
        let [title, yes] = ["title", "button"].map(|name| message.attribute(name));
        let lines = text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned);
        Self {
            title: title.unwrap_or_default().to_owned(),
            lines: lines.collect(),
            yes: yes.unwrap_or_default().to_owned(),
        }
    }
}

/// A question from the catalog, with arguments as for `text!`.
macro_rules! question {
    ($id:literal $($args:tt)*) => {
        $crate::text::commands::Question::of(
            seckill_model::message::Label($id),
            &seckill_model::message::text!($id $($args)*),
        )
    };
}
pub(crate) use question;

fn left(sale: &SaleLine) -> String {
    text!("command-of", left = super::left_in_redis(sale), initial = sale.initial)
}

/// A change of a sale's phase.
pub(crate) fn change(command: &Command, sale: &SaleLine) -> Question {
    let (name, left) = (name(sale), left(sale));
    match command {
        Command::StartSale(_) => question!("ask-start-sale", name, left),
        Command::PauseSale(_) => question!("ask-pause-sale", name, left),
        Command::ResumeSale(_) => question!("ask-resume-sale", name, left),
        _ => question!("ask-end-sale", name, left),
    }
}

/// A change of the stock.
pub(crate) fn restock(sale: &SaleLine, by: i64) -> Question {
    let (name, left, initial) = (name(sale), left(sale), sale.initial);
    let after = initial.saturating_add_signed(by);
    let change = if by < 0 { "removes" } else { "adds" };
    question!("ask-restock", name, change, pieces = by.unsigned_abs(), initial, after, left)
}

/// The exact plan of a load test, one sentence per item.
pub(crate) fn rush_plan(plan: &LoadTest) -> Vec<String> {
    let (again, buyers) = (plan.twice(), plan.users);
    let requests = buyers + again;
    let pace = plan.rate.map_or_else(|| text!("command-with-no-rate-limit"), figures::rate);
    vec![
        text!("command-requests-by-buyers", requests, buyers, again),
        text!("command-at-most-concurrent-requests", most = plan.concurrency, pace),
    ]
}

pub(crate) fn rush(sale: &SaleLine, plan: &LoadTest) -> Question {
    let (name, left, plan) = (name(sale), left(sale), Lines(rush_plan(plan).join("\n")));
    question!("ask-load-test", name, plan, phase = sale.phase, left)
}

/// Summarizes a plan, one line per verdict. `shown` is the number of entries that match the filter if the plan covers
/// all.
pub(crate) fn plan(plan: &Plan, shown: Option<usize>) -> Question {
    let totals = &plan.totals;
    let count = totals.entries;
    let entries = match shown {
        Some(shown) => text!("command-all-not-only-filtered-ones", count, shown),
        None if plan.head.filter.is_empty() => text!("command-all-that-are-pending", count),
        None => text!("command-entries-marked-ones", count),
    };
    let verdicts = totals.verdicts.iter().map(|total| {
        let verdict = text!("recovery-verdict", verdict = total.verdict);
        let action = text!("recovery-action", action = total.action);
        let count = format!("{:>9}", thousands(total.entries));
        text!("command-value-2", count, verdict, action)
    });
    let forecast = &totals.forecast;
    question!(
        "ask-apply-plan",
        entries,
        verdicts = Lines(verdicts.collect::<Vec<_>>().join("\n")),
        pending = forecast.pending.after,
        letters = forecast.dead.after,
        orders = forecast.persisted.after,
        rebuilt = forecast.rebuilt
    )
}

/// Live nodes that claim entries later than this are not worth waiting for.
const SOON_MS: u64 = 3_600_000;

/// The entries of a plan since it was made: how many are left, if not all, and when live nodes claim them. `marks` are
/// its entries, unless it covers all.
pub(crate) fn plan_now(plan: &Plan, marks: Option<&[EntryId]>, newest: &Snapshot) -> String {
    let page = &newest.pending;
    if !newest.redis.up || page.taken < Some(plan.head.made) {
        return String::new();
    }
    let is_left = |line: &&PendingLine| {
        let is_planned = marks.is_none_or(|marks| marks.contains(&line.entry));
        is_planned && line.entry <= plan.head.up_to && line.verdict != Some(Verdict::InHand)
    };
    let left: Vec<&PendingLine> = page.lines.iter().filter(is_left).collect();
    let (count, planned) = (left.len() as u64, plan.totals.to_do());
    let fewer = (page.is_whole() && count < planned)
        .then(|| text!("recovery-plan-left", left = count, planned));
    let mut consumers = newest.stream.iter().flat_map(|stream| &stream.consumers);
    let claim_ms = newest.claim_idle_ms.filter(|it| *it <= SOON_MS);
    let claim_ms = claim_ms.filter(|_| consumers.any(ConsumerLine::takes));
    let idle_ms = left.iter().map(|line| line.idle_ms).max();
    let claims = claim_ms.zip(idle_ms).map(|(claim_ms, idle_ms)| {
        text!("recovery-live-nodes-claim", left = figures::span(claim_ms.saturating_sub(idle_ms)))
    });
    fewer.into_iter().chain(claims).collect::<Vec<_>>().join(" ")
}

pub(crate) fn release(lock: &Holder) -> Question {
    let [name, node, task] = [&lock.name, &lock.node, &lock.task].map(|it| plain(it));
    let holder = match (lock.orphan, lock.known) {
        (true, _) => "orphan",
        (false, true) => "alive",
        (false, false) => "unknown",
    };
    let held = text!("command-held", name, node, task, has_task = !task.is_empty());
    question!("ask-release-lock", held, holder, node, waiting = lock.waiting)
}

/// Shown while the engine executes the command.
pub(crate) fn sent(command: &Command) -> String {
    if let Command::LoadTest(LoadTest { users, voucher, .. }) = command {
        return text!("command-buyers-are-sending-requests", users, voucher);
    }
    if !command.is_recorded() {
        return text!("command-waiting-for-engine");
    }
    let (action, on) = audit_record::describe(command);
    text!("command-sent", command = event(action, &localized_subject(&on)))
}
