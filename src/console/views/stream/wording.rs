//! Texts of the order stream, its group and its consumers.

use seckill_engine::{
    commands::group::{ClaimPlan, RemoveReport, Rewind},
    telemetry::snapshot::{GroupConsumer, NodeState},
};

use seckill_model::message::{Label, text};

use crate::{
    keymap::{Action, key_of},
    text::{
        self,
        commands::{Question, question},
        figures::{span, thousands},
    },
    views::View,
    widgets::plain,
};

/// The pending list is empty; undelivered entries are not in it.
pub(crate) fn nothing_pending(lag: Option<u64>) -> String {
    let key = key_of(Action::Go(View::Stream));
    match lag {
        Some(0) => text!("stream-no-pending-entries-every-delivered"),
        Some(lag) => {
            text!("stream-no-pending-entries-entries-wait", key, count = lag)
        }
        None => text!("stream-no-pending-entries-lag", key),
    }
}

/// Formats bytes.
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes {
        0..=9_999 => format!("{} B", thousands(bytes)),
        10_000..=999_999 => format!("{} kB", bytes / 1_000),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// The state of a node. An unlisted one that holds entries may never have been a node.
pub(crate) fn state(state: NodeState, holds: bool) -> &'static str {
    match state {
        NodeState::Alive => text::ALIVE.read(),
        NodeState::Stopped if holds => text::STRANGER.read(),
        NodeState::Stopped => Label("stream-stopped").read(),
        NodeState::Dead => text::DEAD_HOLDER.read(),
    }
}

/// The consumer, since when, and the number of deliveries.
pub(crate) fn pending_with(consumer: &str, idle_ms: u64, deliveries: u64) -> String {
    let idle = span(idle_ms);
    text!("stream-pending-with-idle-delivered", consumer, idle, times = deliveries)
}

pub(crate) fn user(user: &str) -> String {
    let key = key_of(Action::Users);
    text!("stream-press-to-show-or-mask", user, key)
}

/// What a rewind would do, one line for each count that is not 0.
pub(crate) fn rewind(plan: &[Rewind], time: impl Fn(&Rewind) -> (String, String)) -> Question {
    let sum = |count: fn(&Rewind) -> u64| plan.iter().map(count).sum::<u64>();
    let again = sum(|it| it.again);
    let made = plan.iter().filter(|it| !it.group).count();
    let entries = if let [only] = plan {
        let ((from, to), first) = (time(only), only.from);
        text!("stream-entries-are-redelivered", first, from, to, again)
    } else {
        let count = plan.len();
        text!("stream-entries-are-redelivered-in-partitions", count, again)
    };
    let parts = [
        (sum(|it| it.written), Label("stream-in-sql-already-acknowledged")),
        (sum(|it| it.missing), Label("stream-not-in-sql-written-if")),
        (sum(|it| it.unheld), Label("stream-of-these-no-longer-assigned")),
        (sum(|it| it.malformed), Label("stream-malformed-become-dead-letters")),
        (sum(|it| it.pending), Label("stream-pending-now-once")),
        (sum(|it| it.undelivered), Label("stream-after-them-delivered-anyway")),
        (sum(|it| it.trimmed), Label("stream-older-entries-are-trimmed")),
        (sum(|it| it.skipped), Label("stream-older-not-delivered")),
        (sum(|it| it.skipped_missing), Label("stream-of-these-not-in-sql")),
    ];
    let counts = parts.into_iter().filter(|(count, _)| *count > 0);
    let counts = counts.map(|(count, what)| format!("{:>9}  {}", thousands(count), what.read()));
    let counts = counts.collect::<Vec<_>>().join("\n");
    let groups = if made > 0 { text!("stream-made-there", made) } else { String::new() };
    question!("ask-rewind", entries, groups, counts)
}

/// Names both consumers of a transfer.
pub(crate) fn claim(plan: &ClaimPlan) -> Question {
    let parts = plan.parts.iter().map(|part| {
        let (count, from, to) = (thousands(part.count), plain(&part.from), plain(&part.to));
        format!("{count:>9}  {from} → {to}")
    });
    let parts = parts.collect::<Vec<_>>().join("\n");
    question!("ask-claim", count = plan.count(), parts, gone = plan.gone)
}

/// Where a consumer would be removed.
pub(crate) fn remove(found: &RemoveReport) -> Question {
    let (name, groups) = (plain(&found.consumer), found.partitions.len());
    question!("ask-remove-consumer", name, groups)
}

/// Why a consumer is not removed.
pub(crate) fn not_removed(consumer: &GroupConsumer) -> String {
    let (name, held) = (&consumer.name, consumer.pending);
    if consumer.state == NodeState::Alive {
        text!("stream-node-of-is-alive", name)
    } else {
        let key = key_of(Action::Claim);
        text!("stream-holds-entries-which-would", name, key, held)
    }
}
