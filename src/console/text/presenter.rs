//! Texts of the presenter layout: short, without IDs and users, for an audience.

use seckill_engine::telemetry::snapshot::AlarmKind;

use seckill_model::message::{Label, text};

use super::{alarms::AlarmText as Alarm, figures::span};
use crate::{
    keymap::{Action, key_of},
    views::View,
};

pub(crate) const PIECES: Label = Label("presenter-pieces");
pub(crate) const BALANCED: Label = Label("presenter-books-balance");
pub(crate) const OPEN: Label = Label("presenter-books-open");
pub(crate) const OFF: Label = Label("presenter-books-off");
pub(crate) const UNKNOWN: Label = Label("presenter-books-unknown");
pub(crate) const OPENS: Label = Label("presenter-until-the-sale-opens");

pub(crate) fn no_sale() -> String {
    text!("presenter-no-sale-yet-arms-one", arm = key_of(Action::Arm))
}

/// The outcome; the large figure shows the number sold.
pub(crate) fn sold_of(initial: u64, took_ms: Option<u64>) -> String {
    match took_ms {
        Some(ms) => {
            let seconds = ms as f64 / 1e3;
            text!("presenter-sold-of-in-s", initial, seconds = format!("{seconds:.1}"))
        }
        None => text!("presenter-sold-of", initial),
    }
}

/// Why a figure is faint.
pub(crate) fn old(age_ms: Option<u64>) -> String {
    age_ms.map_or_else(|| super::UNKNOWN.to_owned(), super::old)
}

/// An alarm in one line, without names; its keys are those of the views beneath.
pub(crate) fn alarm(kind: &AlarmKind) -> Alarm {
    let keys = |view: Action| (key_of(Action::Present), key_of(view));
    let words = match kind {
        AlarmKind::RedisAway { .. } => {
            text!("presenter-redis-does-not-answer-what-you")
        }
        AlarmKind::RedisReadOnly { .. } => {
            text!("presenter-redis-takes-no-writes-buyers-wait")
        }
        AlarmKind::ForeignKey(_) => text!("presenter-another-program-has-overwritten-a-key"),
        AlarmKind::SqlLocked { .. } => text!("presenter-the-database-is-locked-by-another"),
        AlarmKind::SqlReadOnly { .. } => text!("presenter-the-database-takes-no-writes-orders"),
        AlarmKind::SqlAway { .. } => text!("presenter-the-database-does-not-answer-orders"),
        AlarmKind::AuditFailed { .. } => {
            let (leave, key) = keys(Action::Go(View::Ledger));
            text!("presenter-the-books-are-off-then-shows", leave, key)
        }
        AlarmKind::LagHigh { lag, .. } => {
            let (leave, key) = keys(Action::Go(View::Stream));
            let words = text!("presenter-for-sql-then-shows-who-reads", lag, leave, key);
            return Alarm::about(*lag, words);
        }
        AlarmKind::JobFailed { .. } => {
            let (leave, key) = keys(Action::Go(View::Jobs));
            text!("presenter-a-job-failed-then-shows-why", leave, key)
        }
        AlarmKind::DeadConsumer { pending, known, .. } => {
            let (leave, key) = keys(Action::Go(View::Pending));
            let words = if *known {
                text!("presenter-held-by-dead-node", pending, leave, key)
            } else {
                text!("presenter-held-by-unknown-node", pending, leave, key)
            };
            return Alarm::about(*pending, words);
        }
        AlarmKind::SilentConsumer { pending, .. } => {
            let (leave, key) = keys(Action::Go(View::Pending));
            let words = text!("presenter-held-by-idle-consumer", pending, leave, key);
            return Alarm::about(*pending, words);
        }
        AlarmKind::DeadLetters { count } => {
            let (leave, key) = keys(Action::Go(View::Letters));
            let words = text!("presenter-open-dead-letters", count, leave, key);
            return Alarm::about(*count, words);
        }
        AlarmKind::Undelivered { .. } => {
            text!("presenter-a-change-of-a-sale-has")
        }
        AlarmKind::NoGroup => {
            text!("presenter-the-stream-has-no-consumer-group")
        }
        AlarmKind::Damaged { .. } => text!("presenter-redis-lost-data-is-being-reconciled"),
        AlarmKind::DataLoss { losses, .. } if losses.unknown > 0 => {
            text!("presenter-redis-lost-data-not-all-known")
        }
        AlarmKind::DataLoss { losses, .. } if losses.refused > 0 => {
            text!("presenter-redis-had-lost-data-promises-that", refused = losses.refused)
        }
        AlarmKind::DataLoss { .. } => text!("presenter-redis-had-lost-data-all-of"),
        AlarmKind::ServerBack { away_ms, .. } => {
            let away = span(*away_ms);
            text!("presenter-a-server-is-back-after", away)
        }
    };
    words.into()
}
