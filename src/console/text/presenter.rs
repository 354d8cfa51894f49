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

/// Why a figure is dimmed: its age, or that it is unknown.
pub(crate) fn old(age_ms: Option<u64>) -> String {
    age_ms.map_or_else(|| super::UNKNOWN.to_owned(), super::old)
}

/// An alarm in one line, without names; the keys it mentions work in the views, after leaving presenter mode.
pub(crate) fn alarm(kind: &AlarmKind) -> Alarm {
    // Its name in the catalog, the view to go to, and the figure before the text.
    let none = View::Overview;
    let (kind, view, count) = match kind {
        AlarmKind::RedisAway { .. } => ("redis-away", none, None),
        AlarmKind::RedisReadOnly { .. } => ("redis-read-only", none, None),
        AlarmKind::ForeignKey(_) => ("foreign-key", none, None),
        AlarmKind::SqlLocked { .. } => ("sql-locked", none, None),
        AlarmKind::SqlReadOnly { .. } => ("sql-read-only", none, None),
        AlarmKind::SqlAway { .. } => ("sql-away", none, None),
        AlarmKind::AuditFailed { .. } => ("audit-failed", View::Ledger, None),
        AlarmKind::LagHigh { lag, .. } => ("lag-high", View::Stream, Some(*lag)),
        AlarmKind::JobFailed { .. } => ("job-failed", View::Jobs, None),
        AlarmKind::DeadConsumer { pending, known: true, .. } => {
            ("dead-consumer", View::Pending, Some(*pending))
        }
        AlarmKind::DeadConsumer { pending, .. } => {
            ("unknown-consumer", View::Pending, Some(*pending))
        }
        AlarmKind::SilentConsumer { pending, .. } => {
            ("silent-consumer", View::Pending, Some(*pending))
        }
        AlarmKind::DeadLetters { count } => ("dead-letters", View::Letters, Some(*count)),
        AlarmKind::Undelivered { .. } => ("undelivered", none, None),
        AlarmKind::NoGroup => ("no-group", none, None),
        AlarmKind::Damaged { .. } => ("damaged", none, None),
        AlarmKind::DataLoss { losses, .. } if losses.unknown > 0 => ("lost-buyers", none, None),
        AlarmKind::DataLoss { losses, .. } if losses.refused > 0 => {
            return text!("presenter-lost-promises", refused = losses.refused).into();
        }
        AlarmKind::DataLoss { .. } => ("data-loss", none, None),
        AlarmKind::ServerBack { away_ms, .. } => {
            return text!("presenter-server-back", away = span(*away_ms)).into();
        }
    };
    let (leave, key) = (key_of(Action::Present), key_of(Action::Go(view)));
    let text = text!("presenter-alarm", kind, count = count.unwrap_or(0), leave, key);
    match count {
        Some(count) => Alarm::about(count, text),
        None => text.into(),
    }
}
