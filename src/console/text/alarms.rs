//! Texts of alarms: the problem, and the key that helps.

use seckill_engine::{
    error::{RedisError, StoreError},
    telemetry::{
        data_loss::{self, RecentLosses, list_keys},
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
    views::View,
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
    /// With its duration.
    fn since(age_ms: u64, text: String) -> Self {
        Self { figure: Some(right(&span(age_ms), FIGURE, "")), text }
    }

    /// With its count.
    pub(super) fn about(count: u64, text: String) -> Self {
        Self { figure: Some(right(&within(count, FIGURE - 1), FIGURE, "")), text }
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

/// Formats an alarm, with the key that helps.
pub(crate) fn alarm(kind: &AlarmKind) -> AlarmText {
    let (pending, plan) = (key_of(Action::Go(View::Pending)), key_of(Action::PlanRecovery));
    let text = match kind {
        AlarmKind::RedisAway { error } => {
            text!("alarms-redis-is-unreachable-display", reason = reason(error))
        }
        AlarmKind::RedisReadOnly { error } => {
            let (reason, step) = (reason(error), next_step(error));
            text!("alarms-redis-rejects-writes-and-all", step, reason)
        }
        AlarmKind::ForeignKey(found) => {
            let (key, holds) = (&found.key, ForeignKey::content(&found.holds));
            if found.is_lock() {
                text!("alarms-redis-key-holds-of-another", key, holds)
            } else {
                text!("alarms-redis-key-holds-of-another-program", key, holds)
            }
        }
        AlarmKind::SqlLocked { waiting } => return locked(*waiting),
        AlarmKind::SqlReadOnly { error } => {
            text!("alarms-database-rejects-writes-orders-wait", reason = reason(error))
        }
        AlarmKind::SqlAway { error } => {
            text!("alarms-database-is-unreachable-orders-wait", reason = reason(error))
        }
        AlarmKind::AuditFailed { finding, repairable } => {
            let ledger = key_of(Action::Go(View::Ledger));
            if *repairable {
                text!("alarms-audit-failed-press-to-repair", finding, ledger)
            } else {
                text!("alarms-audit-failed-press-for-details", finding, ledger)
            }
        }
        AlarmKind::DeadConsumer { consumer, known, pending: count, idle_ms } => {
            let text = if *known {
                text!("alarms-is-dead-press-to-open", consumer, pending, plan, count)
            } else {
                text!("alarms-is-idle", consumer, pending, plan, count)
            };
            return AlarmText::since(*idle_ms, text);
        }
        AlarmKind::SilentConsumer { consumer, pending: count, idle_ms } => {
            let text = text!("alarms-is-idle-but-its-node", consumer, pending, plan, count);
            return AlarmText::since(*idle_ms, text);
        }
        AlarmKind::LagHigh { lag, drains_ms } => {
            let stream = key_of(Action::Go(View::Stream));
            let text = match drains_ms.map(span) {
                Some(takes) => text!("alarms-lag-drains", lag, stream, takes),
                None => text!("alarms-lag-not-shrinking", lag, stream),
            };
            return AlarmText::about(*lag, text);
        }
        AlarmKind::JobFailed { job, ago_ms } => {
            let (jobs, run) = (key_of(Action::Go(View::Jobs)), key_of(Action::RunJob));
            let text = text!("alarms-ago-last-run-of-failed", job, jobs, run);
            return AlarmText::since(*ago_ms, text);
        }
        AlarmKind::DeadLetters { count } => {
            let letters = key_of(Action::Go(View::Letters));
            let text = text!("alarms-dead-letters-wait-for-review", count, letters);
            return AlarmText::about(*count, text);
        }
        AlarmKind::Undelivered { sales } => {
            let named = sales.iter().map(|sale| format!("#{sale}")).collect::<Vec<_>>().join(" ");
            text!("alarms-changed-in-sql-but", named)
        }
        AlarmKind::NoGroup => text!("alarms-stream-has-no-consumer-group", pending, plan),
        AlarmKind::Damaged { keys } => {
            let keys = list_keys(&short(keys));
            text!("alarms-lost-in-redis-not-yet", keys)
        }
        AlarmKind::DataLoss { losses, pending } => lost(losses, *pending),
        AlarmKind::ServerBack { server, away_ms } => {
            let away = span(*away_ms);
            text!("alarms-is-reachable-again-after", server, away)
        }
    };
    text.into()
}

/// What Redis lost, what was restored, and what is left to do; `stuck` entries are held by dead consumers.
fn lost(losses: &RecentLosses, stuck: u64) -> String {
    let RecentLosses { keys, buyers, promised, refused, unknown, archived, .. } = losses;
    let counted = |count: &u64, text: fn(u64) -> String| (*count > 0).then(|| text(*count));
    let parts = [
        counted(promised, |orders| text!("alarms-orders-re-added-to-stream", orders)),
        counted(buyers, |buyers| text!("alarms-buyers-restored", buyers)),
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
    let mut text = if keys.is_empty() {
        text!("alarms-redis-had-lost-data", parts)
    } else {
        let keys = list_keys(&short(keys));
        text!("alarms-redis-lost", keys, parts)
    };
    if *refused > 0 {
        text.push_str(&text!("alarms-shows-them", letters = key_of(Action::Go(View::Letters))));
    }
    if *unknown > 0 {
        text.push_str(&text!(
            "alarms-has-the-event",
            activity = key_of(Action::Go(View::Activity))
        ));
    }
    let letters_lost = data_loss::loses_letters(keys);
    if letters_lost {
        text.push_str(&text!("alarms-unknown-number-of-dead-letters"));
    }
    if stuck > 0 {
        let (pending, plan) = (key_of(Action::Go(View::Pending)), key_of(Action::PlanRecovery));
        text.push_str(&text!("alarms-press-then-to-recover-rest", pending, plan));
    } else if refused + unknown == 0 && !letters_lost {
        text.push_str(&text!("alarms-no-action-needed"));
    }
    text
}

/// Keys without their common prefix: an alarm sometimes has a single row.
fn short(keys: &[String]) -> Vec<String> {
    let short = |key: &String| key.split_once("}:").map_or(key.as_str(), |(_, it)| it).to_owned();
    keys.iter().map(short).collect()
}

/// Another program locks the database. It cannot be ended from here, so the text states the consequence.
fn locked(waiting: Option<u64>) -> AlarmText {
    let Some(waiting) = waiting.filter(|waiting| *waiting > 0) else {
        let text = text!("alarms-another-program-keeps-the-database");
        return text.into();
    };
    let text = text!("alarms-lag-database-locked", waiting);
    AlarmText::about(waiting, text)
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
