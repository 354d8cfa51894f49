//! Texts of the presenter layout: short, without IDs and users, for an audience.

use seckill_engine::telemetry::snapshot::AlarmKind;
use seckill_model::message::text;

use super::{alarms::AlarmText, figures::span};
use crate::{
    keymap::{Action, key_of},
    view::View,
};

pub(crate) fn no_sale() -> String {
    text!("presenter-no-sales-yet-press", arm = key_of(Action::Arm))
}

/// An alarm in one line, without names; the keys it mentions work in the views, after leaving presenter mode.
pub(crate) fn alarm(kind: &AlarmKind) -> AlarmText {
    let name: &'static str = kind.into();
    // Its name in the catalog, the view to go to, and the figure before the text.
    let (kind, view, count) = match kind {
        AlarmKind::AuditFailed { .. } => (name, View::Ledger, None),
        AlarmKind::LagHigh { lag, .. } => (name, View::Stream, Some(*lag)),
        AlarmKind::JobFailed { .. } => (name, View::Jobs, None),
        AlarmKind::DeadConsumer { pending, known: false, .. } => {
            ("unknown-consumer", View::Pending, Some(*pending))
        }
        AlarmKind::DeadConsumer { pending, .. } | AlarmKind::SilentConsumer { pending, .. } => {
            (name, View::Pending, Some(*pending))
        }
        AlarmKind::DeadLetters { count } => (name, View::Letters, Some(*count)),
        AlarmKind::DataLoss { losses, .. } if losses.total.unknown > 0 => {
            ("lost-buyers", View::Overview, None)
        }
        AlarmKind::DataLoss { losses, .. } if losses.total.refused > 0 => {
            return text!("presenter-lost-promises", refused = losses.total.refused).into();
        }
        AlarmKind::ServerBack { away_ms, .. } => {
            return text!("presenter-server-back", away = span(*away_ms)).into();
        }
        _ => (name, View::Overview, None),
    };
    let (leave, key) = (key_of(Action::Present), key_of(Action::Go(view)));
    let text = text!("presenter-alarm", kind, count = count.unwrap_or(0), leave, key);
    match count {
        Some(count) => AlarmText::about(count, text),
        None => text.into(),
    }
}
