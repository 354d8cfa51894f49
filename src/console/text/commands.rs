//! Texts of commands: questions, and why nothing happens.

use seckill_engine::{
    command::LoadTest,
    plan::Plan,
    telemetry::snapshot::{Holder, JobLine, RecoveryLine, SaleLine},
};
use seckill_model::{
    NewSale, Phase, VoucherId,
    locale::{Language, language},
    message::{Label, text},
};

use super::{
    figures::{self, counted, thousands},
    recovery, sale_name,
};
use crate::keymap::{Action, Context, actions, footer, key_of, lookup};

pub(crate) const CANCEL: Label = Label("acts-cancel");
pub(crate) const NO_SALE: Label = Label("acts-there-is-no-sale-to-act");
pub(crate) const NOTHING_PENDING: Label = Label("acts-nothing-is-pending-so-there-is");
pub(crate) const NOTHING_UNDER_WAY: Label = Label("acts-nothing-is-under-way-that-could");
pub(crate) const NOTHING_CHOSEN: Label = Label("acts-no-row-is-chosen");
pub(crate) const NOTHING_MARKED: Label = Label("acts-no-entry-to-mark-here");
pub(crate) const NO_FILTER: Label = Label("acts-this-view-has-no-rows-to");
pub(crate) const TOP: Label = Label("acts-this-is-the-first-row");
pub(crate) const BOTTOM: Label = Label("acts-this-is-the-last-row");
pub(crate) const ENGINE_GONE: Label = Label("acts-the-engine-has-stopped-what-you");
pub(crate) const DRAFT_KEPT: Label = Label("acts-nothing-was-created-the-form-keeps");
pub(crate) const REASON: Label = Label("common-reason");
pub(crate) const CANCELLED: Label = Label("acts-nothing-was-done");

/// Names the key that also continues in a text field, if one does both.
pub(crate) fn reason_hint() -> String {
    let on = footer(Context::Confirm).find(|it| it.action == Action::NextPart);
    let keys = on.map_or(&[][..], |it| &it.keys[..]);
    let both = keys.iter().find(|key| lookup(Context::Form, **key) == Some(Action::NextPart));
    let key = both.or(keys.first()).map_or_else(|| key_of(Action::NextPart), |key| key.label());
    text!("acts-optional-for-the-log-goes-here", key)
}

/// Names the help key if it is available.
pub(crate) fn does_nothing(key: &str, place: Context) -> String {
    if !actions(place).contains(&Action::Help) {
        return text!("acts-does-nothing-here", key);
    }
    let help = key_of(Action::Help);
    text!("acts-does-nothing-here-shows-the-keys", key, help)
}

/// Every view in which a key is bound, with its meaning there.
pub(crate) fn works_elsewhere(key: &str, meanings: &[(Action, Vec<Context>)]) -> String {
    let listed = |views: &[Context]| {
        let names: Vec<&str> = views.iter().map(|view| view.heading()).collect();
        match names.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, rest)) => {
                format!("{}{}{last}", rest.join(&Label("common-value")), Label("acts-and").read())
            }
            None => String::new(),
        }
    };
    if let [(action, views)] = meanings {
        let (views, action) = (listed(views), action.label());
        return text!("acts-works-in", key, action, views);
    }
    let each = meanings.iter().map(|(action, views)| {
        let (views, action) = (listed(views), action.label());
        text!("acts-value", views, action)
    });
    let each = each.collect::<Vec<_>>().join(&Label("common-value"));
    text!("acts-works-in-2", key, each)
}

fn name(sale: &SaleLine) -> String {
    sale_name(sale.voucher_id, &sale.title)
}

/// Why a command does not apply to the sale's phase.
pub(crate) fn no_use(sale: &SaleLine) -> String {
    let (id, pause) = (sale.voucher_id, key_of(Action::Pause));
    match sale.phase {
        Phase::Ended | Phase::Archived => {
            text!("acts-has-ended-it-cant-be-changed", id)
        }
        Phase::Running => text!("acts-is-running-already", id),
        Phase::SoldOut => text!("acts-has-started-and-is-sold-out", id),
        Phase::Paused => {
            text!("acts-is-paused-lets-it-go-on", id, pause)
        }
        Phase::Planned => text!("acts-has-not-started-yet", id),
    }
}

/// A question: title, sentences, button.
pub(crate) struct Question {
    pub(crate) title: String,
    pub(crate) lines: Vec<String>,
    pub(crate) yes: String,
}

fn question(title: Label, lines: Vec<String>, yes: Label) -> Question {
    Question { title: title.to_string(), lines, yes: yes.to_string() }
}

fn left(sale: &SaleLine) -> String {
    let left = super::left_in_redis(sale);
    let (pieces, initial) = (counted(sale.initial, "piece", "pieces"), thousands(sale.initial));
    text!("acts-of", left, pieces, initial)
}

pub(crate) fn start(sale: &SaleLine) -> Question {
    let left = left(sale);
    let text = text!("acts-open-to-buyers-at-once-before", left);
    question(Label("acts-start-the-sale-now"), vec![name(sale), text], Label("acts-start"))
}

pub(crate) fn pause(sale: &SaleLine) -> Question {
    let left = left(sale);
    let text = text!("acts-left-buyers-are-turned-away-until", left);
    question(Label("acts-pause-the-sale"), vec![name(sale), text], Label("acts-pause"))
}

pub(crate) fn resume(sale: &SaleLine) -> Question {
    let left = left(sale);
    let text = text!("acts-open-to-buyers-again-within-its", left);
    question(Label("acts-let-the-sale-go-on"), vec![name(sale), text], Label("acts-resume"))
}

/// It cannot be undone.
pub(super) const FOR_GOOD: Label = Label("acts-this-cant-be-undone");

pub(crate) fn end(sale: &SaleLine) -> Question {
    let left = left(sale);
    let text = text!("acts-unsold-buyers-are-refused-from-now", left);
    question(
        Label("acts-end-the-sale-for-good"),
        vec![name(sale), text, FOR_GOOD.to_string()],
        Label("common-end"),
    )
}

/// The exact plan of a rush, one sentence each.
pub(crate) fn rush_plan(plan: &LoadTest) -> Vec<String> {
    let again = plan.twice();
    let (requests, buyers) = (plan.users + again, plan.users);
    let most = thousands(plan.concurrency as u64);
    let pace = plan.rate.map(figures::rate);
    let first = match language() {
        Language::ENGLISH => format!(
            "{} by {}, {} of them twice.",
            counted(requests, "request", "requests"),
            counted(buyers, "buyer", "buyers"),
            thousands(again),
        ),
        _ => format!(
            "{} 位买家共 {} 次请求，其中 {} 位请求两次。",
            thousands(buyers),
            thousands(requests),
            thousands(again),
        ),
    };
    let pace = pace.unwrap_or_else(|| text!("acts-as-fast-as-it-goes"));
    vec![first, text!("acts-at-most-under-way-at-once", most, pace)]
}

/// A sale to be created; times are in the user's time zone.
pub(crate) fn create(sale: &NewSale, begin: Option<&str>, end: Option<&str>) -> Question {
    let (count, limit) = (thousands(sale.stock), u64::from(sale.limit));
    let (pieces, orders) =
        (counted(sale.stock, "piece", "pieces"), counted(limit, "order", "orders"));
    let stock = text!("acts-a-user-may-hold-at-most", pieces, orders, count, limit);
    let begin = match begin {
        Some(begin) => text!("acts-it-opens-to-buyers-on", begin),
        None => text!("acts-it-is-open-to-buyers-at"),
    };
    let end = match end {
        Some(end) => text!("acts-it-ends-on", end),
        None => text!("acts-it-has-no-end"),
    };
    let lines = vec![sale.title.clone(), stock, begin, end];
    question(Label("acts-create-this-sale"), lines, Label("common-create"))
}

pub(crate) fn rush(sale: &SaleLine, plan: &LoadTest) -> Question {
    let mut lines = vec![name(sale)];
    lines.extend(rush_plan(plan));
    let left = left(sale);
    lines.push(match sale.phase {
        Phase::Running => text!("acts-left-orders-are-real-they-take", left),
        Phase::SoldOut => {
            text!("acts-nothing-is-left-every-buyer-will")
        }
        Phase::Paused => {
            text!("acts-the-sale-is-paused-every-buyer")
        }
        Phase::Planned => {
            text!("acts-the-sale-has-not-started-buyers")
        }
        Phase::Ended | Phase::Archived => {
            text!("acts-the-sale-has-ended-every-buyer")
        }
    });
    question(Label("acts-send-simulated-buyers"), lines, Label("acts-rush"))
}

/// Summarizes a plan, one line per verdict. `shown` is the number of entries that match the filter if the plan covers
/// all; `takeover_ms` is when live nodes begin to take entries over by themselves.
pub(crate) fn plan(plan: &Plan, shown: Option<usize>, takeover_ms: Option<u64>) -> Question {
    let totals = &plan.totals;
    let (count, entries) = (thousands(totals.entries), counted(totals.entries, "entry", "entries"));
    let mut lines = vec![if let Some(shown) = shown {
        let shown = thousands(shown as u64);
        text!("acts-all-not-only-the-that-the", count, shown)
    } else if plan.head.filter.is_empty() {
        text!("acts-all-that-are-pending", entries, count)
    } else {
        text!("acts-those-that-are-marked", entries, count)
    }];
    for total in &totals.verdicts {
        let (verdict, act) = (super::verdict(total.verdict), super::act(total.act));
        let count = thousands(total.entries);
        lines.push(text!("acts-value-2", count = format!("{count:>9}"), verdict, act));
    }
    let forecast = &totals.forecast;
    let (pending, letters) = (thousands(forecast.pending.after), thousands(forecast.dead.after));
    let (orders, rebuilt) = (thousands(forecast.persisted.after), thousands(forecast.rebuilt));
    let mut after = match language() {
        Language::ENGLISH => format!(
            "Then: {pending} pending, {}, {} in SQL.",
            counted(forecast.dead.after, "dead letter", "dead letters"),
            counted(forecast.persisted.after, "order", "orders"),
        ),
        _ => {
            format!("完成后：待确认 {pending} 条，死信 {letters} 条，SQL 中订单 {orders} 笔。")
        }
    };
    if forecast.rebuilt > 0 {
        after += &text!("acts-go-into-the-stream-again", rebuilt);
    }
    lines.push(after);
    lines.extend(takeover_ms.map(recovery::takeover));
    question(Label("acts-apply-this-plan"), lines, Label("acts-apply"))
}

pub(crate) fn nothing_to_do(plan: &Plan) -> String {
    let held = thousands(plan.totals.entries);
    match plan.totals.entries {
        0 => text!("acts-none-of-them-is-pending-any"),
        _ => text!("acts-in-the-hands-of-live-nodes", held),
    }
}

pub(crate) fn break_off(line: &RecoveryLine) -> Question {
    let act = super::time::act_word(&line.act);
    let (done, planned) = (thousands(line.done), thousands(line.planned));
    question(
        Label("acts-break-it-off"),
        vec![text!("acts-of-2", act, done, planned), text!("acts-the-step-in-hand-is-finished")],
        Label("acts-break-off"),
    )
}

pub(crate) fn release(lock: &Holder) -> Question {
    let Holder { name, node, task, .. } = lock;
    let (count, wait) = (thousands(lock.waiting), counted(lock.waiting, "waits", "wait"));
    let waiting = match lock.waiting {
        0 => text!("acts-no-waiters"),
        _ => text!("acts-for-it-one-of-them-takes", wait, count),
    };
    let holder = match (lock.orphan, lock.known) {
        (true, _) => text!("acts-its-holder-gives-no-sign-of", node),
        (false, true) => text!("acts-its-holder-is-alive-its-work", node),
        (false, false) => text!("acts-its-holder-is-no-node-here", node),
    };
    let held = if task.is_empty() {
        text!("acts-held-by", name, node)
    } else {
        text!("acts-held-by-2", name, node, task)
    };
    question(
        Label("acts-take-the-lock-from-its-holder"),
        vec![held, holder, waiting],
        Label("acts-release"),
    )
}

pub(crate) fn run_job(job: &JobLine) -> Question {
    let lines = vec![
        job.name.clone(),
        text!("acts-it-will", about = job.about),
        text!("acts-it-runs-at-once-on-this"),
    ];
    question(Label("acts-run-the-job-now"), lines, Label("acts-run"))
}

pub(crate) fn switch_job(job: &JobLine) -> Question {
    let (title, line, yes) = if job.paused {
        (
            Label("acts-let-the-job-go-on"),
            Label("acts-it-is-due-again-by-its"),
            Label("acts-resume"),
        )
    } else {
        (Label("acts-pause-the-job"), Label("acts-it-is-not-run-any-more"), Label("acts-pause"))
    };
    question(title, vec![job.name.clone(), line.to_string()], yes)
}

pub(crate) fn quit_act(act: &str, done: u64, planned: u64) -> Question {
    let (act, done, planned) = (super::time::act_word(act), thousands(done), thousands(planned));
    question(
        Label("acts-quit-while-an-act-is-under"),
        vec![
            text!("acts-of-done", act, done, planned),
            text!("acts-the-step-in-hand-is-finished-2"),
        ],
        Label("common-quit"),
    )
}

pub(crate) fn quit(sent: u64, planned: u64) -> Question {
    let requests = counted(planned, "request", "requests");
    let (sent, planned) = (thousands(sent), thousands(planned));
    question(
        Label("acts-quit-while-a-rush-is-under"),
        vec![
            text!("acts-of-sent", sent, requests, planned),
            text!("acts-the-rest-is-not-sent-orders"),
        ],
        Label("common-quit"),
    )
}

/// Shown while the engine executes the command.
pub(crate) mod asked {
    use super::{LoadTest, NewSale, VoucherId, counted, thousands};
    use seckill_model::message::{Label, text};

    pub(crate) fn create(sale: &NewSale) -> String {
        let title = &sale.title;
        text!("acts-creating", title)
    }

    pub(crate) fn change(voucher: VoucherId) -> String {
        text!("acts-changing", voucher)
    }

    pub(crate) fn rush(plan: &LoadTest) -> String {
        let (users, voucher) = (thousands(plan.users), plan.voucher);
        let come = counted(plan.users, "buyer is", "buyers are");
        text!("acts-on-the-way-to", come, voucher, users)
    }

    pub(crate) fn job(name: &str) -> String {
        text!("acts-is-running", name)
    }

    pub(crate) const PLAN: Label = Label("acts-looking-at-each-entry");
    pub(crate) const APPLY: Label = Label("acts-applying-the-plan");
    pub(crate) const LETTERS: Label = Label("acts-looking-at-each-dead-letter");
    pub(crate) const ACT: Label = Label("acts-asking-the-engine");
}
