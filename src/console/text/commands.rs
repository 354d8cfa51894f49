//! Texts of commands: questions, and why nothing happens.

use seckill_engine::{
    commands::{Command, LoadTest, plan::Plan},
    telemetry::snapshot::{Holder, JobLine, RecoveryLine, SaleLine},
};
use seckill_model::{
    NewSale, Phase,
    message::{Label, text},
};

use super::{
    figures::{self, thousands},
    sale_name,
};
use crate::{
    keymap::{Action, Context, actions, footer, key_of, lookup},
    views::{orders, pending::wording as recovery},
};

pub(crate) const CANCEL: Label = Label("acts-cancel");
pub(crate) const NO_SALE: Label = Label("acts-there-is-no-sale-to-change");
pub(crate) const NOTHING_PENDING: Label = Label("acts-there-are-no-pending-entries");
pub(crate) const NOTHING_UNDER_WAY: Label = Label("acts-no-command-is-running");
pub(crate) const NOTHING_CHOSEN: Label = Label("acts-no-row-is-selected");
pub(crate) const NOTHING_MARKED: Label = Label("acts-there-is-no-entry");
pub(crate) const NO_FILTER: Label = Label("acts-this-view-has-no-rows");
pub(crate) const ENGINE_GONE: Label = Label("acts-engine-has-stopped-display");
pub(crate) const DRAFT_KEPT: Label = Label("acts-nothing-was-created-form-keeps");
pub(crate) const REASON: Label = Label("common-reason");
pub(crate) const CANCELLED: Label = Label("acts-nothing-was-changed");

/// Names the key that also continues in a text field, if one does both.
pub(crate) fn reason_hint() -> String {
    let on = footer(Context::Confirm).find(|it| it.action == Action::NextPart);
    let keys = on.map_or(&[][..], |it| &it.keys[..]);
    let both = keys.iter().find(|key| lookup(Context::Form, **key) == Some(Action::NextPart));
    let key = both.or(keys.first()).map_or_else(|| key_of(Action::NextPart), |key| key.label());
    text!("acts-optional-for-log-to-edit", key)
}

/// Names the help key if it is available.
pub(crate) fn does_nothing(key: &str, place: Context) -> String {
    if !actions(place).contains(&Action::Help) {
        return text!("acts-does-nothing-here", key);
    }
    let help = key_of(Action::Help);
    text!("acts-has-no-function-here-press", key, help)
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
    text!("acts-is-available", key, each)
}

fn name(sale: &SaleLine) -> String {
    sale_name(sale.voucher_id, &sale.title)
}

/// Why a command does not apply to the sale's phase.
pub(crate) fn no_use(sale: &SaleLine) -> String {
    let (id, pause) = (sale.voucher_id, key_of(Action::Pause));
    match sale.phase {
        Phase::Ended | Phase::Archived => {
            text!("acts-has-ended", id)
        }
        Phase::Running => text!("acts-is-running-already", id),
        Phase::SoldOut => text!("acts-has-started-and-is-sold", id),
        Phase::Paused => {
            text!("acts-is-paused-press-to-resume", id, pause)
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

impl Question {
    pub(crate) fn new(title: Label, lines: Vec<String>, yes: Label) -> Self {
        Self { title: title.to_owned(), lines, yes: yes.to_owned() }
    }
}

fn left(sale: &SaleLine) -> String {
    text!("acts-of", left = super::left_in_redis(sale), initial = sale.initial)
}

/// It cannot be undone.
pub(crate) const FOR_GOOD: Label = Label("acts-this-cannot-be-undone");

/// A change of a sale's phase.
pub(crate) fn change(command: &Command, sale: &SaleLine) -> Question {
    let left = left(sale);
    let (title, text, yes) = match command {
        Command::StartSale(_) => (
            Label("acts-start-the-sale-now"),
            text!("acts-available-immediately-before-planned-start", left),
            Label("acts-start"),
        ),
        Command::PauseSale(_) => (
            Label("acts-pause-the-sale"),
            text!("acts-left-buyers-are-rejected-until", left),
            Label("acts-pause"),
        ),
        Command::ResumeSale(_) => (
            Label("acts-resume-sale"),
            text!("acts-available-again-within-its-sale", left),
            Label("acts-resume"),
        ),
        _ => (
            Label("acts-end-sale-permanently"),
            text!("acts-unsold-buyers-are-rejected", left),
            Label("common-end"),
        ),
    };
    let mut lines = vec![name(sale), text];
    if matches!(command, Command::EndSale(_)) {
        lines.push(FOR_GOOD.to_owned());
    }
    Question::new(title, lines, yes)
}

/// The exact plan of a load test, one sentence per item.
pub(crate) fn rush_plan(plan: &LoadTest) -> Vec<String> {
    let (again, buyers) = (plan.twice(), plan.users);
    let requests = buyers + again;
    let pace = plan.rate.map_or_else(|| text!("acts-with-no-rate-limit"), figures::rate);
    vec![
        text!("acts-requests-by-buyers", requests, buyers, again),
        text!("acts-at-most-concurrent-requests", most = plan.concurrency, pace),
    ]
}

/// A sale to be created; times are in the user's time zone.
pub(crate) fn create(sale: &NewSale, begin: Option<&str>, end: Option<&str>) -> Question {
    let stock = text!("acts-pieces-limit-per-user-orders", count = sale.stock, limit = sale.limit);
    let begin = match begin {
        Some(begin) => text!("acts-it-opens-to-buyers-on", begin),
        None => text!("acts-opens-immediately"),
    };
    let end = match end {
        Some(end) => text!("acts-it-ends-on", end),
        None => text!("acts-it-has-no-end"),
    };
    let lines = vec![sale.title.clone(), stock, begin, end];
    Question::new(Label("acts-create-this-sale"), lines, Label("common-create"))
}

pub(crate) fn rush(sale: &SaleLine, plan: &LoadTest) -> Question {
    let mut lines = vec![name(sale)];
    lines.extend(rush_plan(plan));
    let left = left(sale);
    lines.push(match sale.phase {
        Phase::Running => text!("acts-left-orders-are-real", left),
        Phase::SoldOut => {
            text!("acts-no-stock-left-every-buyer")
        }
        Phase::Paused => {
            text!("acts-sale-is-paused-every-buyer")
        }
        Phase::Planned => {
            text!("acts-sale-has-not-started-buyers")
        }
        Phase::Ended | Phase::Archived => {
            text!("acts-sale-has-ended-every-buyer")
        }
    });
    Question::new(Label("acts-send-simulated-buyers"), lines, Label("acts-rush"))
}

/// Summarizes a plan, one line per verdict. `shown` is the number of entries that match the filter if the plan covers
/// all; `claim_idle_ms` is the idle time after which live nodes claim an entry automatically.
pub(crate) fn plan(plan: &Plan, shown: Option<usize>, claim_idle_ms: Option<u64>) -> Question {
    let totals = &plan.totals;
    let count = totals.entries;
    let mut lines = vec![if let Some(shown) = shown {
        text!("acts-all-not-only-filtered-ones", count, shown)
    } else if plan.head.filter.is_empty() {
        text!("acts-all-that-are-pending", count)
    } else {
        text!("acts-entries-marked-ones", count)
    }];
    for total in &totals.verdicts {
        let (verdict, act) = (recovery::verdict(total.verdict), recovery::act(total.act));
        let count = format!("{:>9}", thousands(total.entries));
        lines.push(text!("acts-value-2", count, verdict, act));
    }
    let forecast = &totals.forecast;
    let mut after = text!(
        "acts-then-pending-dead-in-sql",
        pending = forecast.pending.after,
        letters = forecast.dead.after,
        orders = forecast.persisted.after
    );
    if forecast.rebuilt > 0 {
        after += &text!("acts-will-be-re-added", rebuilt = forecast.rebuilt);
    }
    lines.push(after);
    let claims = |idle| text!("recovery-live-nodes-claim", idle = figures::span(idle));
    lines.extend(claim_idle_ms.map(claims));
    Question::new(Label("acts-apply-this-plan"), lines, Label("acts-apply"))
}

pub(crate) fn nothing_to_do(plan: &Plan) -> String {
    match plan.totals.entries {
        0 => text!("acts-these-entries-are-no-longer"),
        held => text!("acts-held-by-live-nodes-nothing", held),
    }
}

pub(crate) fn break_off(line: &RecoveryLine) -> Question {
    let act = super::time::act_word(&line.act);
    let progress = text!("acts-of-2", act, done = line.done, planned = line.planned);
    let lines = vec![progress, text!("acts-current-step-is-completed")];
    Question::new(Label("acts-stop-this-command"), lines, Label("acts-break-off"))
}

pub(crate) fn release(lock: &Holder) -> Question {
    let Holder { name, node, task, .. } = lock;
    let waiting = match lock.waiting {
        0 => text!("acts-no-waiters"),
        count => text!("acts-wait-for-it-one", count),
    };
    let holder = match (lock.orphan, lock.known) {
        (true, _) => text!("acts-its-holder-sends-no-heartbeat", node),
        (false, true) => text!("acts-its-holder-is-alive", node),
        (false, false) => text!("acts-its-holder-is-not-known", node),
    };
    let held = if task.is_empty() {
        text!("acts-held-by", name, node)
    } else {
        text!("acts-held", name, node, task)
    };
    let lines = vec![held, holder, waiting];
    Question::new(Label("acts-force-release-lock"), lines, Label("acts-release"))
}

pub(crate) fn run_job(job: &JobLine) -> Question {
    let what = text!("acts-it-will", about = job.about);
    let lines = vec![job.name.clone(), what, text!("acts-it-runs-now")];
    Question::new(Label("acts-run-the-job-now"), lines, Label("acts-run"))
}

pub(crate) fn switch_job(job: &JobLine) -> Question {
    let (title, line, yes) = if job.paused {
        (
            Label("acts-resume-job"),
            Label("acts-it-follows-its-schedule-again"),
            Label("acts-resume"),
        )
    } else {
        (Label("acts-pause-the-job"), Label("acts-no-node-runs-it-until"), Label("acts-pause"))
    };
    Question::new(title, vec![job.name.clone(), line.to_string()], yes)
}

pub(crate) fn quit_act(act: &str, done: u64, planned: u64) -> Question {
    let progress = text!("acts-of-done", act = super::time::act_word(act), done, planned);
    let lines = vec![progress, text!("acts-current-step-is-completed-rest")];
    Question::new(Label("acts-quit-while-command-is-running"), lines, Label("common-quit"))
}

pub(crate) fn quit(sent: u64, planned: u64) -> Question {
    let progress = text!("acts-of-sent", sent, planned);
    let lines =
        vec![progress, text!("acts-quit-load-test-rest", unsent = planned.saturating_sub(sent))];
    Question::new(Label("acts-quit-while-load-test"), lines, Label("common-quit"))
}

/// Shown while the engine executes the command.
pub(crate) fn sent(command: &Command) -> String {
    match command {
        Command::CreateSale(sale) => text!("acts-creating", title = sale.title),
        Command::StartSale(voucher)
        | Command::PauseSale(voucher)
        | Command::ResumeSale(voucher)
        | Command::EndSale(voucher)
        | Command::Restock { voucher, .. } => text!("acts-changing", voucher),
        Command::LoadTest(plan) => {
            text!("acts-buyers-are-sending-requests", users = plan.users, voucher = plan.voucher)
        }
        Command::StopLoadTest(voucher) => text!("director-stopping-load-test", voucher),
        Command::Plan(_) => text!("acts-examining-entries"),
        Command::Apply(..) => text!("acts-applying-the-plan"),
        Command::CountLetters(_) => text!("acts-examining-dead-letters"),
        Command::RunJob(name) => text!("acts-is-running", name),
        Command::Preview(_) => text!("stream-calculating-effect"),
        Command::Trace(_) => orders::wording::LOOKING.to_owned(),
        _ => text!("acts-waiting-for-engine"),
    }
}
