//! Key actions of the Stream view: paging, and commands on its consumer group, each with a preview.

use std::collections::BTreeMap;

use seckill_engine::{
    commands::{
        Command,
        group::{ClaimScope, GroupAction, Preview},
    },
    telemetry::snapshot::{DeliveryState, GroupConsumer, NodeState},
};
use seckill_model::message::{Label, text};

use super::{Pane, wording};
use crate::{
    app::App,
    dialogs::{Confirm, Dialog, Form},
    keymap::{Action, key_of},
    text::{commands, conventions},
};

impl App {
    pub(crate) fn next_partition(&mut self) {
        if self.display.frozen {
            return self.note(conventions::frozen());
        }
        if self.tables.stream.next_partition(&self.display.shown) {
            self.look();
        } else {
            self.note(Label("stream-there-is-only-one-partition").read());
        }
    }

    pub(crate) fn ask_rewind(&mut self) {
        let form = Form::rewind(self.tables.stream.partition());
        self.dialog = Some(Dialog::Form(form));
    }

    /// Transfers the chosen entry, or all entries of the chosen consumer.
    pub(crate) fn ask_claim(&mut self) {
        let (scope, title, holder) = match self.tables.stream.pane {
            Pane::Consumers => {
                let Some(consumer) = self.meant_consumer() else { return };
                if consumer.pending == 0 {
                    return self
                        .note(text!("stream-holds-no-entries-to-transfer", name = consumer.name));
                }
                let title =
                    text!("stream-give-of", holder = consumer.name, pending = consumer.pending);
                (ClaimScope::Holder(consumer.name.clone()), title, consumer.name)
            }
            Pane::Entries => {
                let Some(line) = self.tables.stream.entries.chosen(&self.display.shown).cloned()
                else {
                    return self.note(commands::NOTHING_CHOSEN);
                };
                let DeliveryState::Pending { consumer, .. } = line.holding else {
                    return self.note(Label("stream-entry-is-not-pending").read());
                };
                let title = text!("stream-give-entry", entry = line.entry);
                (ClaimScope::Entries(vec![line.entry]), title, consumer)
            }
        };
        // A node has one consumer per partition.
        let mut held: BTreeMap<&str, u64> = BTreeMap::new();
        for it in self.display.newest.entries.consumers.iter().filter(|it| it.takes) {
            *held.entry(node_of(&it.name)).or_default() += it.pending;
        }
        held.remove(node_of(&holder));
        let Some((to, _)) = held.into_iter().min_by_key(|(_, pending)| *pending) else {
            return self.note(Label("stream-no-consumer-of-another-live").read());
        };
        self.dialog = Some(Dialog::Form(Form::claim(scope, title, to)));
    }

    pub(crate) fn ask_remove(&mut self) {
        if self.tables.stream.pane == Pane::Entries {
            self.tables.stream.switch();
            return self.note(text!(
                "stream-select-consumer-in-list-above",
                up = key_of(Action::Up),
                down = key_of(Action::Down),
                again = key_of(Action::RemoveConsumer)
            ));
        }
        let Some(consumer) = self.meant_consumer() else { return };
        if consumer.state == NodeState::Alive || consumer.pending > 0 {
            return self.note(wording::not_removed(&consumer));
        }
        self.send(Command::Preview(GroupAction::Remove { name: consumer.name }));
    }

    /// The chosen consumer with its newest figures over all partitions: commands address it by name.
    fn meant_consumer(&mut self) -> Option<GroupConsumer> {
        let chosen = self.tables.stream.consumers.chosen(&self.display.shown).cloned();
        if chosen.is_none() {
            self.note(commands::NOTHING_CHOSEN);
        }
        let chosen = chosen?;
        let newest =
            self.display.newest.entries.consumers.iter().filter(|it| it.name == chosen.name);
        let newest = newest.cloned().reduce(|all, it| GroupConsumer {
            state: if it.state == NodeState::Alive { it.state } else { all.state },
            pending: all.pending + it.pending,
            ..all
        });
        if newest.is_none() {
            self.note(Label("command-consumer-no-longer-exists"));
        }
        newest
    }

    /// Asks for confirmation of a command on the group; confirming executes exactly this plan.
    pub(crate) fn ask_previewed(&mut self, preview: &Preview) {
        let again = match preview {
            Preview::Rewind(_) => Action::Rewind,
            Preview::Claim(_) => Action::Claim,
            Preview::Remove(_) => Action::RemoveConsumer,
        };
        if self.is_covered(Label("stream-statistics-are-ready"), again) {
            return;
        }
        let confirm = match preview {
            Preview::Rewind(plan) => {
                let time = |it: &seckill_engine::commands::group::Rewind| {
                    let at = |at: seckill_model::Millis| at.date_time(&self.display.zone);
                    (at(it.from_time), at(it.to_time))
                };
                Confirm::command(wording::rewind(plan, time), Command::Rewind(plan.clone()))
            }
            Preview::Claim(plan) => {
                Confirm::command(wording::claim(plan), Command::Claim(plan.clone()))
            }
            Preview::Remove(found) => {
                Confirm::command(wording::remove(found), Command::RemoveConsumer(found.clone()))
            }
        };
        self.confirm_reply(confirm);
    }
}

/// The node in a consumer's name.
fn node_of(consumer: &str) -> &str {
    consumer.rsplit_once('/').map_or(consumer, |(node, _)| node)
}
