//! Texts of the order stream, its group and its consumers.

use seckill_engine::{
    group::{ClaimPlan, RemoveReport, Rewind},
    telemetry::snapshot::{GroupConsumer, NodeState},
};

use seckill_model::message::{Label, text};

use super::{
    commands::Question,
    figures::{counted, span, thousands},
};
use crate::{
    keymap::{Action, key_of},
    views::View,
};

const STOPPED: Label = Label("stream-stopped");
pub(crate) const IN_LETTERS: Label = Label("stream-in-dead-letters");
pub(crate) const DEAD_OR_NOT: Label = Label("stream-acknowledged-or-dead");
pub(crate) const UNDELIVERED: Label = Label("stream-waiting");
pub(crate) const ACKNOWLEDGED: Label = Label("stream-acknowledged");

/// Column headings.
pub(crate) mod columns {
    pub(crate) use crate::text::PENDING;
    use seckill_model::message::Label;

    pub(crate) const ENTRY: Label = Label("tables-entry");
    pub(crate) const IDLE: Label = Label("tables-idle");
    pub(crate) const NODE: Label = Label("common-node");
    pub(crate) const ORDER: Label = Label("common-order-2");
    pub(crate) const USER: Label = Label("common-user");
    pub(crate) const SALE: Label = Label("common-sale-2");
    pub(crate) const TIME: Label = Label("common-time");
    pub(crate) const STATE: Label = Label("common-state");
    pub(crate) const CONSUMER: Label = Label("stream-consumer");
    pub(crate) const PARTITION: Label = Label("stream-partition");
}

/// Labels of the figures and of the detail.
pub(crate) mod labels {
    use seckill_model::message::Label;

    pub(crate) const ENTRY: Label = Label("tables-entry-2");
    pub(crate) const ORDER: Label = Label("common-order");
    pub(crate) const USER: Label = Label("tables-user");
    pub(crate) const SALE: Label = Label("common-sale");
    pub(crate) const FAULT: Label = Label("tables-fault");
    pub(crate) const GOOD: Label = Label("tables-none-its-fields-are-good");
    pub(crate) const LENGTH: Label = Label("stream-kept");
    pub(crate) const OLDEST: Label = Label("stream-oldest");
    pub(crate) const NEWEST: Label = Label("stream-newest");
    pub(crate) const TRIMMED: Label = Label("stream-trimmed");
    pub(crate) const LAG: Label = Label("common-lag");
    pub(crate) const PENDING: Label = Label("common-pending");
    pub(crate) const DELIVERED: Label = Label("stream-delivered");
    pub(crate) const READ: Label = Label("stream-read");
    pub(crate) const ADDED: Label = Label("stream-added");
    pub(crate) const STATE: Label = Label("stream-state");
}

/// The pending list is empty; undelivered entries are not in it.
pub(crate) fn nothing_pending(lag: Option<u64>) -> String {
    let key = key_of(Action::Go(View::Stream));
    match lag {
        Some(0) => text!("stream-nothing-is-pending-orders-go-straight"),
        Some(lag) => {
            let (wait, count) = (counted(lag, "entry waits", "entries wait"), thousands(lag));
            text!("stream-nothing-is-pending-in-the-stream", wait, key, count)
        }
        None => text!("stream-nothing-is-pending-how-many-entries", key),
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
        NodeState::Alive => super::ALIVE.read(),
        NodeState::Stopped if holds => super::STRANGER.read(),
        NodeState::Stopped => STOPPED.read(),
        NodeState::Dead => super::DEAD_HOLDER.read(),
    }
}

/// The consumer, since when, and the number of deliveries.
pub(crate) fn pending_with(consumer: &str, idle_ms: u64, deliveries: u64) -> String {
    let (idle, times) = (span(idle_ms), thousands(deliveries));
    let delivered = counted(deliveries, "time", "times");
    text!("stream-pending-with-idle-delivered", consumer, idle, delivered, times)
}

pub(crate) fn user(user: &str) -> String {
    let key = key_of(Action::Users);
    text!("stream-shows-or-masks-it", user, key)
}

/// Texts of the forms.
pub(crate) mod form {
    use super::{counted, thousands};
    use seckill_model::message::{Label, text};

    pub(crate) const REWIND: Label = Label("stream-deliver-entries-again-2");
    pub(crate) const TO: Label = Label("stream-from");
    pub(crate) const TO_HINT: Label = Label("stream-start-an-entrys-id-14-30");
    pub(crate) const RECEIVER: Label = Label("stream-to");
    pub(crate) const RECEIVER_HINT: Label = Label("stream-a-consumer-or-a-node-for");
    pub(crate) const NEXT: Label = Label("stream-look");
    pub(crate) const NAME_ONE: Label = Label("stream-name-the-consumer-that-gets-them");
    pub(crate) const NOTHING_YET: Label = Label("stream-nothing-is-done-yet-a-question");

    pub(crate) fn claim_of(holder: &str, pending: u64) -> String {
        let (entries, pending) = (counted(pending, "entry", "entries"), thousands(pending));
        text!("stream-give-of", entries, holder, pending)
    }

    pub(crate) fn claim_entry(entry: &str) -> String {
        text!("stream-give-entry", entry)
    }

    /// Whether the form applies to all partitions or one.
    pub(crate) fn place(partition: Option<u16>) -> String {
        match partition {
            Some(number) => text!("stream-in-partition-only", number),
            None => text!("stream-in-every-partition"),
        }
    }
}

fn question(title: String, lines: Vec<String>, yes: Label) -> Question {
    Question { title, lines, yes: yes.read().to_owned() }
}

/// What a rewind would do, one line for each count that is not 0.
pub(crate) fn rewind(plan: &[Rewind], time: impl Fn(&Rewind) -> (String, String)) -> Question {
    let sum = |count: fn(&Rewind) -> u64| plan.iter().map(count).sum::<u64>();
    let again = sum(|it| it.again);
    let entries = counted(again, "entry is", "entries are");
    let again = thousands(again);
    let made = plan.iter().filter(|it| !it.group).count();
    let head = if let [only] = plan {
        let ((from, to), first) = (time(only), only.from);
        text!("stream-delivered-again-from-to", entries, first, from, to, again)
    } else {
        let count = plan.len();
        text!("stream-delivered-again-in-partitions", entries, count, again)
    };
    let mut lines = vec![head];
    if made > 0 {
        let gone = counted(made as u64, "group is gone and is", "groups are gone and are");
        lines.push(text!("stream-made-there", gone, made));
    }
    let parts = [
        (sum(|it| it.written), Label("stream-in-sql-already-acknowledged")),
        (sum(|it| it.missing), Label("stream-not-in-sql-written-if-a")),
        (sum(|it| it.unheld), Label("stream-of-those-no-buyer-holds-it")),
        (sum(|it| it.malformed), Label("stream-malformed-become-dead-letters")),
        (sum(|it| it.pending), Label("stream-pending-now-once")),
        (sum(|it| it.undelivered), Label("stream-after-them-delivered-anyway")),
        (sum(|it| it.trimmed), Label("stream-older-ones-are-trimmed-gone")),
        (sum(|it| it.skipped), Label("stream-older-not-delivered")),
        (sum(|it| it.skipped_missing), Label("stream-of-those-not-in-sql-skipped")),
    ];
    let counts = parts.into_iter().filter(|(count, _)| *count > 0);
    lines.extend(counts.map(|(count, what)| format!("{:>9}  {}", thousands(count), what.read())));
    let title = text!("stream-move-the-group-back");
    question(title, lines, Label("stream-rewind-2"))
}

/// Names both consumers of a transfer.
pub(crate) fn claim(plan: &ClaimPlan) -> Question {
    let count = thousands(plan.count());
    let entries = counted(plan.count(), "pending entry gets", "pending entries get");
    let mut lines = vec![text!("stream-another-holder", entries, count)];
    for part in &plan.parts {
        let (count, from, to) = (thousands(part.count), &part.from, &part.to);
        lines.push(format!("{count:>9}  {from} → {to}"));
    }
    if plan.gone > 0 {
        let gone = thousands(plan.gone);
        lines.push(text!("stream-no-longer-pending-or-with-it", gone));
    }
    lines.push(text!("stream-it-is-no-delivery-the-new"));
    let title = text!("stream-give-these-entries-away");
    question(title, lines, Label("stream-claim-2"))
}

/// Where a consumer would be removed.
pub(crate) fn remove(found: &RemoveReport) -> Question {
    let (name, groups) = (&found.consumer, found.partitions.len());
    let partitions = counted(groups as u64, "partition", "partitions");
    let lines = vec![name.clone(), text!("stream-its-node-does-not-run-and", partitions, groups)];
    question(text!("stream-remove-the-consumer"), lines, Label("stream-remove-2"))
}

/// Why a consumer is not removed.
pub(crate) fn not_removed(consumer: &GroupConsumer) -> String {
    let (name, held) = (&consumer.name, thousands(consumer.pending));
    let entries = counted(consumer.pending, "entry", "entries");
    if consumer.state == NodeState::Alive {
        text!("stream-the-node-of-is-alive-and", name)
    } else {
        let key = key_of(Action::Claim);
        text!("stream-holds-which-would-be-lost-with", name, entries, key, held)
    }
}
