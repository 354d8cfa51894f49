//! Texts of the presenter layout: short, without IDs and users, for an audience.

use seckill_engine::telemetry::snapshot::AlarmKind;

use seckill_model::message::{Label, text};

use super::{alarms::AlarmText as Alarm, figures::span};
use crate::{
    keymap::{Action, key_of},
    views::View,
};

pub(crate) const PIECES: Label = Label("presenter-pieces");
pub(crate) const BALANCED: Label = Label("presenter-audit-passed");
pub(crate) const OPEN: Label = Label("presenter-audit-open");
pub(crate) const OFF: Label = Label("presenter-audit-failed");
pub(crate) const UNKNOWN: Label = Label("presenter-audit-unknown");
pub(crate) const OPENS: Label = Label("presenter-until-the-sale-opens");

pub(crate) fn no_sale() -> String {
    text!("presenter-no-sales-yet-press", arm = key_of(Action::Arm))
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
            text!("presenter-redis-is-unreachable-display")
        }
        AlarmKind::RedisReadOnly { .. } => {
            text!("presenter-redis-rejects-writes-buyers-wait")
        }
        AlarmKind::ForeignKey(_) => text!("presenter-another-program-overwrote-key"),
        AlarmKind::SqlLocked { .. } => text!("presenter-database-is-locked-by-another"),
        AlarmKind::SqlReadOnly { .. } => text!("presenter-database-rejects-writes-orders-wait"),
        AlarmKind::SqlAway { .. } => text!("presenter-database-is-unreachable-orders-wait"),
        AlarmKind::AuditFailed { .. } => {
            let (leave, key) = keys(Action::Go(View::Ledger));
            text!("presenter-audit-failed-press-then", leave, key)
        }
        AlarmKind::LagHigh { lag, .. } => {
            let (leave, key) = keys(Action::Go(View::Stream));
            let words = text!("presenter-orders-wait-for-sql-press", lag, leave, key);
            return Alarm::about(*lag, words);
        }
        AlarmKind::JobFailed { .. } => {
            let (leave, key) = keys(Action::Go(View::Jobs));
            text!("presenter-job-failed-press-then", leave, key)
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
            text!("presenter-change-of-sale")
        }
        AlarmKind::NoGroup => {
            text!("presenter-stream-has-no-consumer-group")
        }
        AlarmKind::Damaged { .. } => text!("presenter-redis-lost-data"),
        AlarmKind::DataLoss { losses, .. } if losses.unknown > 0 => {
            text!("presenter-redis-lost-data-some-buyers")
        }
        AlarmKind::DataLoss { losses, .. } if losses.refused > 0 => {
            text!("presenter-redis-lost-data-promises", refused = losses.refused)
        }
        AlarmKind::DataLoss { .. } => text!("presenter-redis-lost-data-everything"),
        AlarmKind::ServerBack { away_ms, .. } => {
            let away = span(*away_ms);
            text!("presenter-server-is-reachable-again-after", away)
        }
    };
    words.into()
}
