//! The form of a command on the group: a position to rewind to, or a consumer to transfer entries to. A preview
//! follows.

use crossterm::event::Event;
use seckill_engine::group::{ClaimScope, GroupAct, To};

use super::Form;
use crate::text::{self, stream::form as words};

/// What the form asks for.
#[derive(Debug)]
enum Kind {
    Rewind { partition: Option<u16> },
    Claim { scope: ClaimScope },
}

#[derive(Debug)]
pub(crate) struct GroupForm {
    kind: Kind,
    pub(crate) form: Form,
}

impl GroupForm {
    pub(crate) fn rewind(partition: Option<u16>) -> Self {
        let form =
            Form::new(words::REWIND.to_owned(), words::NEXT).field(words::TO, words::TO_HINT, "");
        Self { kind: Kind::Rewind { partition }, form }
    }

    /// `title` names what is transferred; `to` lists possible receivers.
    pub(crate) fn claim(scope: ClaimScope, title: String, to: &str) -> Self {
        let form = Form::new(title, words::NEXT).field(words::RECEIVER, words::RECEIVER_HINT, to);
        Self { kind: Kind::Claim { scope }, form }
    }

    /// An error is shown until the next key: it refers to the state when it was checked.
    pub(crate) fn type_in(&mut self, event: &Event) {
        if self.form.type_in(event) {
            self.set_fault(None);
        }
    }

    /// The command to preview, or the error under its field.
    pub(crate) fn submit(&mut self) -> Option<GroupAct> {
        match self.act() {
            Ok(act) => Some(act),
            Err(fault) => {
                self.set_fault(Some(fault));
                self.form.focus(0);
                None
            }
        }
    }

    /// Where it applies, and that nothing is done yet.
    pub(crate) fn notes(&self) -> Vec<String> {
        let place = match &self.kind {
            Kind::Rewind { partition } => Some(words::place(*partition)),
            Kind::Claim { .. } => None,
        };
        place.into_iter().chain([words::NOTHING_YET.to_owned()]).collect()
    }

    fn set_fault(&mut self, fault: Option<String>) {
        if let Some(field) = self.form.fields.first_mut() {
            field.fault = fault;
        }
    }

    fn act(&self) -> Result<GroupAct, String> {
        let typed = self.form.value(0).trim();
        match &self.kind {
            Kind::Rewind { partition } => {
                let to: To = typed.parse().map_err(|fault| text::to_fault(&fault))?;
                Ok(GroupAct::Rewind { to, partition: *partition })
            }
            Kind::Claim { .. } if typed.is_empty() => Err(words::NAME_ONE.to_owned()),
            Kind::Claim { scope } => {
                Ok(GroupAct::Claim { scope: scope.clone(), to: typed.to_owned() })
            }
        }
    }
}
