//! Actions of the Stream view: commands on its consumer group, each with a preview.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use seckill_engine::{
    commands::{
        Command,
        group::{ClaimScope, GroupAction, Preview, Rewind},
    },
    telemetry::snapshot::{DeliveryState, GroupConsumer, NodeState},
};
use seckill_model::{
    Millis,
    message::{Label, text},
};

use super::{Effect, Pane, Scene, StreamState, wording};
use crate::{
    dialogs::{Confirm, Dialog, Form},
    keymap::{Action, key_of},
    text::{commands, conventions},
};

impl StreamState {
    /// Carries out an action of this view, or says why it has no effect.
    pub(super) fn act(
        &mut self,
        action: Action,
        scene: &Scene<'_>,
    ) -> Option<Result<Effect, String>> {
        Some(match action {
            Action::Pane => {
                self.switch();
                Ok(Effect::Done)
            }
            Action::Partition if scene.frozen => Err(conventions::frozen()),
            Action::Partition if self.next_partition(scene.snapshot) => Ok(Effect::Done),
            Action::Partition => Err(Label("stream-there-is-only-one-partition").to_owned()),
            Action::Rewind => Ok(Effect::Open(Dialog::Form(Form::rewind(self.partition())))),
            Action::Claim => self.claim(scene),
            Action::RemoveConsumer => self.remove(scene),
            _ => return None,
        })
    }

    /// Transfers the chosen entry, or all entries of the chosen consumer.
    fn claim(&self, scene: &Scene<'_>) -> Result<Effect, String> {
        let (scope, title, holder) = match self.pane {
            Pane::Consumers => {
                let GroupConsumer { name, pending, .. } = self.meant_consumer(scene)?;
                if pending == 0 {
                    return Err(text!("stream-holds-no-entries-to-transfer", name));
                }
                let title = text!("stream-give-of", holder = name, pending);
                (ClaimScope::Holder(name.clone()), title, name)
            }
            Pane::Entries => {
                let line = self.entries.chosen(scene.snapshot).ok_or(commands::NOTHING_CHOSEN)?;
                let DeliveryState::Pending { consumer, .. } = &line.holding else {
                    return Err(Label("stream-entry-is-not-pending").to_owned());
                };
                let title = text!("stream-give-entry", entry = line.entry);
                (ClaimScope::Entries(vec![line.entry]), title, consumer.clone())
            }
        };
        // A node has one consumer per partition.
        let mut held: BTreeMap<&str, u64> = BTreeMap::new();
        for it in scene.newest.entries.consumers.iter().filter(|it| it.takes) {
            *held.entry(node_of(&it.name)).or_default() += it.pending;
        }
        held.remove(node_of(&holder));
        let receiver = held.into_iter().min_by_key(|(_, pending)| *pending);
        let (to, _) = receiver.ok_or(Label("stream-no-consumer-of-another-live"))?;
        Ok(Effect::Open(Dialog::Form(Form::claim(scope, title, to))))
    }

    fn remove(&mut self, scene: &Scene<'_>) -> Result<Effect, String> {
        if self.pane == Pane::Entries {
            self.switch();
            let [up, down, again] = [Action::Up, Action::Down, Action::RemoveConsumer].map(key_of);
            return Err(text!("stream-select-consumer-in-list-above", up, down, again));
        }
        let consumer = self.meant_consumer(scene)?;
        if consumer.state == NodeState::Alive || consumer.pending > 0 {
            return Err(wording::not_removed(&consumer));
        }
        Ok(Effect::Send(Command::Preview(GroupAction::Remove { name: consumer.name }), None))
    }

    /// The chosen consumer with its newest figures over all partitions: commands address it by name.
    fn meant_consumer(&self, scene: &Scene<'_>) -> Result<GroupConsumer, Label> {
        let chosen = self.consumers.chosen(scene.snapshot).ok_or(commands::NOTHING_CHOSEN)?;
        let newest = scene.newest.entries.consumers.iter().filter(|it| it.name == chosen.name);
        let newest = newest.cloned().reduce(|all, it| GroupConsumer {
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
            (Action::Rewind, wording::rewind(plan, times), Command::Rewind(plan.clone()))
        }
        Preview::Claim(plan) => (Action::Claim, wording::claim(plan), Command::Claim(plan.clone())),
        Preview::Remove(found) => {
            let command = Command::RemoveConsumer(found.clone());
            (Action::RemoveConsumer, wording::remove(found), command)
        }
    };
    (action, Confirm::command(question, command))
}

/// The node in a consumer's name.
fn node_of(consumer: &str) -> &str {
    consumer.rsplit_once('/').map_or(consumer, |(node, _)| node)
}
