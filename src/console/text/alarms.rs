//! Texts of alarms: the problem, and the key that helps.

use seckill_engine::{
    error::{RedisError, StoreError},
    telemetry::{
        data_loss::{self, RecentLosses, Reconciled, list_keys},
        read_error::ReadError,
        snapshot::AlarmKind,
    },
};
use seckill_model::{
    ForeignKey, Message,
    message::{Label, text},
};

use super::figures::{span, within};
use crate::{
    keymap::{Action, key_of},
    view::View,
    widgets::right,
};

/// An alarm as text. Growing figures are in a column of their own or come last, so that no word moves.
pub(crate) struct AlarmText {
    /// An age or a count, in [`FIGURE`] cells.
    pub(crate) figure: Option<String>,
    pub(crate) text: String,
}

/// Cells of the figure before the text, in either language.
pub(crate) const FIGURE: usize = 8;

impl AlarmText {
    /// With its count.
    pub(super) fn about(count: u64, text: String) -> Self {
        Self { figure: Some(right(&within(count, FIGURE - 1), FIGURE)), text }
    }

    /// Cells before the text.
    pub(crate) fn indent(&self) -> usize {
        self.figure.as_ref().map_or(0, |_| FIGURE + 2)
    }
}

impl From<String> for AlarmText {
    fn from(text: String) -> Self {
        Self { figure: None, text }
    }
}

/// Formats an alarm: its duration or count in front, and the key that helps.
pub(crate) fn alarm(kind: &AlarmKind) -> AlarmText {
    let text = text(kind);
    match kind {
        AlarmKind::DeadConsumer { idle_ms: age_ms, .. }
        | AlarmKind::SilentConsumer { idle_ms: age_ms, .. }
        | AlarmKind::JobFailed { ago_ms: age_ms, .. } => {
            AlarmText { figure: Some(right(&span(*age_ms), FIGURE)), text }
        }
        AlarmKind::SqlLocked { waiting: Some(count @ 1..) }
        | AlarmKind::LagHigh { lag: count, .. }
        | AlarmKind::DeadLetters { count } => AlarmText::about(*count, text),
        _ => text.into(),
    }
}

fn text(kind: &AlarmKind) -> String {
    let (pending, plan) = (key_of(Action::Go(View::Pending)), key_of(Action::PlanRecovery));
    match kind {
        AlarmKind::RedisAway { error } => {
            text!("alarms-redis-is-unreachable-display", reason = reason(error))
        }
        AlarmKind::RedisReadOnly { error } => {
            let (reason, step) = (reason(error), next_step(error));
            text!("alarms-redis-rejects-writes-and-all", step, reason)
        }
        AlarmKind::ForeignKey(found) => {
            let kind = if found.is_lock() { "lock" } else { "other" };
            let (key, holds) = (&found.key, ForeignKey::content(&found.holds));
            text!("alarms-foreign-key", kind, key, holds)
        }
        // seckill cannot release the lock of another program, so the text states the consequence.
        AlarmKind::SqlLocked { waiting } => {
            text!("alarms-sql-locked", waiting = waiting.unwrap_or(0))
        }
        AlarmKind::SqlReadOnly { error } => {
            text!("alarms-database-rejects-writes-orders-wait", reason = reason(error))
        }
        AlarmKind::SqlAway { error } => {
            text!("alarms-database-is-unreachable-orders-wait", reason = reason(error))
        }
        AlarmKind::AuditFailed { finding, repairable } => {
            let repairable = if *repairable { "yes" } else { "no" };
            let ledger = key_of(Action::Go(View::Ledger));
            text!("alarms-audit-failed", repairable, finding, ledger)
        }
        AlarmKind::DeadConsumer { consumer, known, pending: count, .. } => {
            let state = if *known { "dead" } else { "unknown" };
            text!("alarms-consumer", state, consumer, pending, plan, count)
        }
        AlarmKind::SilentConsumer { consumer, pending: count, .. } => {
            text!("alarms-consumer", state = "silent", consumer, pending, plan, count)
        }
        AlarmKind::LagHigh { lag, drains_ms } => {
            let takes = drains_ms.map_or_else(|| "none".to_owned(), span);
            text!("alarms-lag-high", takes, lag, stream = key_of(Action::Go(View::Stream)))
        }
        AlarmKind::JobFailed { job, .. } => {
            let (jobs, run) = (key_of(Action::Go(View::Jobs)), key_of(Action::RunJob));
            text!("alarms-ago-last-run-of-failed", job, jobs, run)
        }
        AlarmKind::DeadLetters { count } => {
            let letters = key_of(Action::Go(View::Letters));
            text!("alarms-dead-letters-wait-for-review", count, letters)
        }
        AlarmKind::Undelivered { sales } => {
            let named = sales.iter().map(|sale| format!("#{sale}")).collect::<Vec<_>>().join(" ");
            text!("alarms-changed-in-sql-but", named)
        }
        AlarmKind::NoGroup => text!("alarms-stream-has-no-consumer-group", pending, plan),
        AlarmKind::Damaged { keys } => {
            text!("alarms-lost-in-redis-not-yet", keys = list_keys(&short(keys)))
        }
        AlarmKind::DataLoss { losses, pending } => lost(losses, *pending),
        AlarmKind::ServerBack { server, away_ms } => {
            text!("alarms-is-reachable-again-after", server, away = span(*away_ms))
        }
    }
}

/// What Redis lost, what was restored, and what is left to do; `stuck` entries are held by dead consumers.
fn lost(losses: &RecentLosses, stuck: u64) -> String {
    let Reconciled { keys, restored, promised, refused, unknown, archived, .. } = &losses.total;
    let counted = |count: &u64, text: fn(u64) -> String| (*count > 0).then(|| text(*count));
    let parts = [
        counted(promised, |orders| text!("alarms-orders-re-added-to-stream", orders)),
        counted(restored, |buyers| text!("alarms-buyers-restored", buyers)),
        counted(archived, |sales| text!("alarms-archived-sales-removed", sales)),
        counted(refused, |promises| text!("alarms-promises-cannot-be-fulfilled", promises)),
        counted(unknown, |buyers| text!("alarms-buyers-may-be-missing", buyers)),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    let parts = if parts.is_empty() {
        text!("alarms-reconciled")
    } else {
        parts.join(Label("alarms-list-separator").read())
    };
    let lost_letters = data_loss::loses_letters(keys);
    let keys = if keys.is_empty() { "none".to_owned() } else { list_keys(&short(keys)) };
    let outcome = text!("alarms-data-loss", keys, parts);
    let steps = text!(
        "alarms-after-data-loss",
        refused,
        letters = key_of(Action::Go(View::Letters)),
        unknown,
        activity = key_of(Action::Go(View::Activity)),
        lost = if lost_letters { "yes" } else { "no" },
        stuck,
        pending = key_of(Action::Go(View::Pending)),
        plan = key_of(Action::PlanRecovery),
        open = refused + unknown + stuck + u64::from(lost_letters)
    );
    format!("{outcome}{steps}")
}

/// Keys without their common prefix: an alarm sometimes has a single row.
fn short(keys: &[String]) -> Vec<String> {
    let short = |key: &String| key.split_once("}:").map_or(key.as_str(), |(_, it)| it).to_owned();
    keys.iter().map(short).collect()
}

/// How to make Redis accept writes again.
fn next_step(error: &Message) -> String {
    let remedy = match error.data() {
        Some(ReadError::Redis(error)) => error.remedy(),
        _ => Label("redis-remedy-other"),
    };
    remedy.to_owned()
}

/// The problem alone: the alarm has two lines in total.
fn reason(error: &Message) -> String {
    match error.data() {
        Some(ReadError::RedisSilent(_, millis) | ReadError::SqlSilent(_, millis)) => {
            let seconds = millis as f64 / 1e3;
            text!("alarms-no-reply-within-s", seconds)
        }
        Some(ReadError::Redis(RedisError::Certificate { detail, .. })) => detail,
        Some(ReadError::Redis(
            RedisError::Away { detail, .. }
            | RedisError::Login { detail, .. }
            | RedisError::Unwilling(detail)
            | RedisError::Rejected(detail),
        )) => detail.to_string(),
        Some(ReadError::Sql(StoreError::Away(detail) | StoreError::Rejected(detail))) => {
            detail.to_string()
        }
        _ => error.localized::<ReadError>().trim_end_matches(['.', '?', '!', '。']).to_owned(),
    }
}
