//! Actions of the Stream view: commands on its consumer group, each with a preview.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use seckill_engine::{
    commands::group::{ClaimPlan, ClaimScope, GroupAction, Preview, Rewind},
    telemetry::snapshot::{ConsumerLine, DeliveryState, NodeState},
};

use super::{Effect, Pane, Scene, StreamState};
use crate::{
    dialogs::{Confirm, Dialog, Form},
    text::{
        commands::{self, Question},
        conventions,
        figures::thousands,
    },
    views::prelude::*,
};

impl StreamState {
    /// Carries out an action of this view, or says why it has no effect.
    pub(super) fn act(&mut self, action: Action, scene: &Scene) -> Option<Result<Effect, String>> {
        Some(match action {
            Action::Pane => {
                self.switch();
                Ok(Effect::Done)
            }
            Action::Partition if scene.frozen => Err(conventions::frozen()),
            Action::Partition if self.next_partition(&scene.shown) => Ok(Effect::Done),
            Action::Partition => Err(Label("stream-there-is-only-one-partition").to_owned()),
            Action::Rewind => Ok(Effect::Open(Dialog::Form(Form::rewind(self.partition())))),
            Action::Claim => self.claim(scene),
            Action::RemoveConsumer => self.remove(scene),
            _ => return None,
        })
    }

    /// Transfers the chosen entry, or all entries of the chosen consumer.
    fn claim(&self, scene: &Scene) -> Result<Effect, String> {
        let (scope, title, holder) = match self.pane {
            Pane::Consumers => {
                let ConsumerLine { name, pending, .. } = self.meant_consumer(scene)?;
                if pending == 0 {
                    return Err(text!("stream-holds-no-entries-to-transfer", name));
                }
                let title = text!("stream-give-of", holder = name, pending);
                (ClaimScope::Holder(name.clone()), title, name)
            }
            Pane::Entries => {
                let line = self.entries.chosen(&scene.shown).ok_or(commands::NOTHING_CHOSEN)?;
                let DeliveryState::Pending { consumer, .. } = &line.holding else {
                    return Err(Label("stream-entry-is-not-pending").to_owned());
                };
                let title = text!("stream-give-entry", entry = line.entry);
                (ClaimScope::Entries(vec![line.entry]), title, consumer.clone())
            }
        };
        // A node has one consumer per partition.
        let mut held: BTreeMap<&str, u64> = BTreeMap::new();
        for it in scene.newest.entries.consumers.iter().filter(|it| it.takes()) {
            *held.entry(node_of(&it.name)).or_default() += it.pending;
        }
        held.remove(node_of(&holder));
        let receiver = held.into_iter().min_by_key(|(_, pending)| *pending);
        let (to, _) = receiver.ok_or(Label("stream-no-consumer-of-another-live"))?;
        Ok(Effect::Open(Dialog::Form(Form::claim(scope, title, to))))
    }

    fn remove(&mut self, scene: &Scene) -> Result<Effect, String> {
        if self.pane == Pane::Entries {
            self.switch();
            return Err(text!("stream-select-consumer-in-list-above"));
        }
        let consumer = self.meant_consumer(scene)?;
        let (name, held) = (&consumer.name, consumer.pending);
        if consumer.state == NodeState::Alive {
            return Err(text!("stream-node-of-is-alive", name));
        } else if held > 0 {
            return Err(text!("stream-holds-entries-which-would", name, held));
        }
        Ok(Effect::Send(Command::Preview(GroupAction::Remove { name: consumer.name }), None))
    }

    /// The chosen consumer with its newest figures across all partitions: commands address it by name.
    fn meant_consumer(&self, scene: &Scene) -> Result<ConsumerLine, Label> {
        let chosen = self.consumers.chosen(&scene.shown).ok_or(commands::NOTHING_CHOSEN)?;
        let newest = scene.newest.entries.consumers.iter().filter(|it| it.name == chosen.name);
        let newest = newest.cloned().reduce(|all, it| ConsumerLine {
            state: if it.state == NodeState::Alive { it.state } else { all.state },
            pending: all.pending + it.pending,
            ..all
        });
        newest.ok_or(Label("command-consumer-no-longer-exists"))
    }
}

/// The action that asked for a preview, and the question that it leads to; confirming executes exactly this plan.
pub(crate) fn confirm(preview: &Preview, zone: &TimeZone) -> (Action, Confirm) {
    let at = |at: Millis| at.date_time(zone);
    let times = |it: &Rewind| (at(it.from_time), at(it.to_time));
    let (action, question, command) = match preview {
        Preview::Rewind(plan) => {
            (Action::Rewind, rewind(plan, times), Command::Rewind(plan.clone()))
        }
        Preview::Claim(plan) => (Action::Claim, claim(plan), Command::Claim(plan.clone())),
        Preview::Remove(found) => {
            let (name, groups) = (plain(&found.consumer), found.partitions.len());
            let question = question!("ask-remove-consumer", name, groups);
            (Action::RemoveConsumer, question, Command::RemoveConsumer(found.clone()))
        }
    };
    (action, Confirm::command(question, command))
}

/// The node in a consumer's name.
fn node_of(consumer: &str) -> &str {
    consumer.rsplit_once('/').map_or(consumer, |(node, _)| node)
}

/// What a rewind would do, one line for each count that is not 0.
fn rewind(plan: &[Rewind], time: impl Fn(&Rewind) -> (String, String)) -> Question {
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
    let counts = Lines(counts.collect::<Vec<_>>().join("\n"));
    let groups = if made > 0 { text!("stream-made-there", made) } else { String::new() };
    question!("ask-rewind", entries, groups, counts)
}

/// Names both consumers of a transfer.
fn claim(plan: &ClaimPlan) -> Question {
    let parts = plan.parts.iter().map(|part| {
        let (count, from, to) = (thousands(part.count), plain(&part.from), plain(&part.to));
        format!("{count:>9}  {from} → {to}")
    });
    let parts = Lines(parts.collect::<Vec<_>>().join("\n"));
    question!("ask-claim", count = plan.count(), parts, gone = plan.gone)
}
