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

pub(crate) const CANCEL: Label = Label("command-cancel");
pub(crate) const NO_SALE: Label = Label("command-there-is-no-sale-to-change");
pub(crate) const NOTHING_PENDING: Label = Label("command-there-are-no-pending-entries");
pub(crate) const NOTHING_UNDER_WAY: Label = Label("command-no-command-is-running");
pub(crate) const NOTHING_CHOSEN: Label = Label("command-no-row-is-selected");
pub(crate) const NOTHING_MARKED: Label = Label("command-there-is-no-entry");
pub(crate) const NO_FILTER: Label = Label("command-this-view-has-no-rows");
pub(crate) const DRAFT_KEPT: Label = Label("command-nothing-was-created-form-keeps");
pub(crate) const REASON: Label = Label("common-reason");
pub(crate) const CANCELLED: Label = Label("command-nothing-was-changed");

/// Names the key that also continues in a text field, if one does both.
pub(crate) fn reason_hint() -> String {
    let on = footer(Context::Confirm).find(|it| it.action == Action::NextPart);
    let keys = on.map_or(&[][..], |it| &it.keys[..]);
    let both = keys.iter().find(|key| lookup(Context::Form, **key) == Some(Action::NextPart));
    let key = both.or(keys.first()).map_or_else(|| key_of(Action::NextPart), |key| key.label());
    text!("command-optional-for-log-to-edit", key)
}

/// Names the help key if it is available.
pub(crate) fn does_nothing(key: &str, place: Context) -> String {
    if !actions(place).contains(&Action::Help) {
        return text!("command-does-nothing-here", key);
    }
    let help = key_of(Action::Help);
    text!("command-has-no-function-here-press", key, help)
}

/// Every view in which a key is bound, with its meaning there.
pub(crate) fn works_elsewhere(key: &str, meanings: &[(Action, Vec<Context>)]) -> String {
    let listed = |views: &[Context]| {
        let names: Vec<&str> = views.iter().map(|view| view.heading()).collect();
        match names.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, rest)) => {
                format!("{}{}{last}", rest.join(&Label("list-items")), Label("command-and").read())
            }
            None => String::new(),
        }
    };
    if let [(action, views)] = meanings {
        let (views, action) = (listed(views), action.label());
        return text!("command-works-in", key, action, views);
    }
    let each = meanings.iter().map(|(action, views)| {
        let (views, action) = (listed(views), action.label());
        text!("command-value", views, action)
    });
    let each = each.collect::<Vec<_>>().join(&Label("list-items"));
    text!("command-is-available", key, each)
}

fn name(sale: &SaleLine) -> String {
    sale_name(sale.voucher_id, &sale.title)
}

/// Why a command does not apply to the sale's phase.
pub(crate) fn no_use(sale: &SaleLine) -> String {
    let (id, pause) = (sale.voucher_id, key_of(Action::Pause));
    match sale.phase {
        Phase::Ended | Phase::Archived => {
            text!("command-has-ended", id)
        }
        Phase::Running => text!("command-is-running-already", id),
        Phase::SoldOut => text!("command-has-started-and-is-sold", id),
        Phase::Paused => {
            text!("command-is-paused-press-to-resume", id, pause)
        }
        Phase::Planned => text!("command-has-not-started-yet", id),
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
    text!("command-of", left = super::left_in_redis(sale), initial = sale.initial)
}

/// It cannot be undone.
pub(crate) const FOR_GOOD: Label = Label("command-this-cannot-be-undone");

/// A change of a sale's phase.
pub(crate) fn change(command: &Command, sale: &SaleLine) -> Question {
    let left = left(sale);
    let (title, text, yes) = match command {
        Command::StartSale(_) => (
            Label("command-start-the-sale-now"),
            text!("command-available-immediately-before-planned-start", left),
            Label("command-start"),
        ),
        Command::PauseSale(_) => (
            Label("command-pause-the-sale"),
            text!("command-left-buyers-are-rejected-until", left),
            Label("command-pause"),
        ),
        Command::ResumeSale(_) => (
            Label("command-resume-sale"),
            text!("command-available-again-within-its-sale", left),
            Label("command-resume"),
        ),
        _ => (
            Label("command-end-sale-permanently"),
            text!("command-unsold-buyers-are-rejected", left),
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
    let pace = plan.rate.map_or_else(|| text!("command-with-no-rate-limit"), figures::rate);
    vec![
        text!("command-requests-by-buyers", requests, buyers, again),
        text!("command-at-most-concurrent-requests", most = plan.concurrency, pace),
    ]
}

/// A sale to be created; times are in the user's time zone.
pub(crate) fn create(sale: &NewSale, begin: Option<&str>, end: Option<&str>) -> Question {
    let stock =
        text!("command-pieces-limit-per-user-orders", count = sale.stock, limit = sale.limit);
    let begin = match begin {
        Some(begin) => text!("command-it-opens-to-buyers-on", begin),
        None => text!("command-opens-immediately"),
    };
    let end = match end {
        Some(end) => text!("command-it-ends-on", end),
        None => text!("command-it-has-no-end"),
    };
    let lines = vec![sale.title.clone(), stock, begin, end];
    Question::new(Label("command-create-this-sale"), lines, Label("common-create"))
}

pub(crate) fn rush(sale: &SaleLine, plan: &LoadTest) -> Question {
    let mut lines = vec![name(sale)];
    lines.extend(rush_plan(plan));
    let left = left(sale);
    lines.push(match sale.phase {
        Phase::Running => text!("command-left-orders-are-real", left),
        Phase::SoldOut => {
            text!("command-no-stock-left-every-buyer")
        }
        Phase::Paused => {
            text!("command-sale-is-paused-every-buyer")
        }
        Phase::Planned => {
            text!("command-sale-has-not-started-buyers")
        }
        Phase::Ended | Phase::Archived => {
            text!("command-sale-has-ended-every-buyer")
        }
    });
    Question::new(Label("command-send-simulated-buyers"), lines, Label("command-rush"))
}

/// Summarizes a plan, one line per verdict. `shown` is the number of entries that match the filter if the plan covers
/// all; `claim_idle_ms` is the idle time after which live nodes claim an entry automatically.
pub(crate) fn plan(plan: &Plan, shown: Option<usize>, claim_idle_ms: Option<u64>) -> Question {
    let totals = &plan.totals;
    let count = totals.entries;
    let mut lines = vec![if let Some(shown) = shown {
        text!("command-all-not-only-filtered-ones", count, shown)
    } else if plan.head.filter.is_empty() {
        text!("command-all-that-are-pending", count)
    } else {
        text!("command-entries-marked-ones", count)
    }];
    for total in &totals.verdicts {
        let (verdict, action) = (recovery::verdict(total.verdict), recovery::action(total.act));
        let count = format!("{:>9}", thousands(total.entries));
        lines.push(text!("command-value-2", count, verdict, action));
    }
    let forecast = &totals.forecast;
    let mut after = text!(
        "command-then-pending-dead-in-sql",
        pending = forecast.pending.after,
        letters = forecast.dead.after,
        orders = forecast.persisted.after
    );
    if forecast.rebuilt > 0 {
        after += &text!("command-will-be-re-added", rebuilt = forecast.rebuilt);
    }
    lines.push(after);
    let claims = |idle| text!("recovery-live-nodes-claim", idle = figures::span(idle));
    lines.extend(claim_idle_ms.map(claims));
    Question::new(Label("command-apply-this-plan"), lines, Label("command-apply"))
}

pub(crate) fn nothing_to_do(plan: &Plan) -> String {
    match plan.totals.entries {
        0 => text!("command-these-entries-are-no-longer"),
        held => text!("command-held-by-live-nodes-nothing", held),
    }
}

pub(crate) fn break_off(line: &RecoveryLine) -> Question {
    let action = super::time::event_name(&line.act);
    let progress = text!("command-of-2", action, done = line.done, planned = line.planned);
    let lines = vec![progress, text!("command-current-step-is-completed")];
    Question::new(Label("command-stop-this-command"), lines, Label("command-stop-button"))
}

pub(crate) fn release(lock: &Holder) -> Question {
    let Holder { name, node, task, .. } = lock;
    let waiting = match lock.waiting {
        0 => text!("command-no-waiters"),
        count => text!("command-wait-for-it-one", count),
    };
    let holder = match (lock.orphan, lock.known) {
        (true, _) => text!("command-its-holder-sends-no-heartbeat", node),
        (false, true) => text!("command-its-holder-is-alive", node),
        (false, false) => text!("command-its-holder-is-not-known", node),
    };
    let held = if task.is_empty() {
        text!("command-held-by", name, node)
    } else {
        text!("command-held", name, node, task)
    };
    let lines = vec![held, holder, waiting];
    Question::new(Label("command-force-release-lock"), lines, Label("command-release"))
}

pub(crate) fn run_job(job: &JobLine) -> Question {
    let what = text!("command-it-will", about = job.about);
    let lines = vec![job.name.clone(), what, text!("command-it-runs-now")];
    Question::new(Label("command-run-the-job-now"), lines, Label("command-run"))
}

pub(crate) fn switch_job(job: &JobLine) -> Question {
    let (title, line, yes) = if job.paused {
        (
            Label("command-resume-job"),
            Label("command-it-follows-its-schedule-again"),
            Label("command-resume"),
        )
    } else {
        (
            Label("command-pause-the-job"),
            Label("command-no-node-runs-it-until"),
            Label("command-pause"),
        )
    };
    Question::new(title, vec![job.name.clone(), line.to_string()], yes)
}

pub(crate) fn quit_command(name: &str, done: u64, planned: u64) -> Question {
    let progress = text!("command-of-done", action = super::time::event_name(name), done, planned);
    let lines = vec![progress, text!("command-current-step-is-completed-rest")];
    Question::new(Label("command-quit-while-command-is-running"), lines, Label("common-quit"))
}

pub(crate) fn quit(sent: u64, planned: u64) -> Question {
    let progress = text!("command-of-sent", sent, planned);
    let lines =
        vec![progress, text!("command-quit-load-test-rest", unsent = planned.saturating_sub(sent))];
    Question::new(Label("command-quit-while-load-test"), lines, Label("common-quit"))
}

/// Shown while the engine executes the command.
pub(crate) fn sent(command: &Command) -> String {
    match command {
        Command::CreateSale(sale) => text!("command-creating", title = sale.title),
        Command::StartSale(voucher)
        | Command::PauseSale(voucher)
        | Command::ResumeSale(voucher)
        | Command::EndSale(voucher)
        | Command::Restock { voucher, .. } => text!("command-changing", voucher),
        Command::LoadTest(plan) => {
            text!("command-buyers-are-sending-requests", users = plan.users, voucher = plan.voucher)
        }
        Command::StopLoadTest(voucher) => text!("director-stopping-load-test", voucher),
        Command::Plan(_) => text!("command-examining-entries"),
        Command::Apply(..) => text!("command-applying-the-plan"),
        Command::CountLetters(_) => text!("command-examining-dead-letters"),
        Command::RunJob(name) => text!("command-is-running", name),
        Command::Preview(_) => text!("stream-calculating-effect"),
        Command::Trace(_) => orders::wording::LOOKING.to_owned(),
        _ => text!("command-waiting-for-engine"),
    }
}
