//! Drafts of forms that lead to a question: input is restored when the form is opened again for the same subject, until
//! the command is sent.

use std::{
    collections::HashMap,
    mem::{Discriminant, discriminant},
};

use seckill_engine::Command;

use super::dialogs::{Form, Intent, Subject};

/// Forms that were left with input, one of each kind.
#[derive(Debug, Default)]
pub(crate) struct FormDrafts(HashMap<Discriminant<Subject>, Form>);

impl FormDrafts {
    /// Keeps a form that has input; `false` if nothing is kept.
    pub(super) fn keep(&mut self, form: Form) -> bool {
        let keeps = !matches!(form.subject, Subject::Rewind(_) | Subject::Claim(_));
        if !keeps || !form.is_changed() {
            return false;
        }
        self.0.insert(discriminant(&form.subject), form);
        true
    }

    /// Removes the draft of this kind, and returns it if it is about the same subject.
    pub(super) fn take(&mut self, subject: &Subject) -> Option<Form> {
        self.0.remove(&discriminant(subject)).filter(|form| form.subject == *subject)
    }

    /// The command was sent: the next form starts empty.
    pub(super) fn settle(&mut self, intent: &Intent) {
        match intent {
            Intent::Arm(_) => {
                self.take(&Subject::Launch(None));
            }
            other => {
                if let Some(Command::LoadTest(plan)) = other.command() {
                    self.take(&Subject::LoadTest(plan.voucher));
                }
            }
        }
    }
}
