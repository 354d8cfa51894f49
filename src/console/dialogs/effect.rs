//! What an action leads to.

use seckill_engine::Command;
use seckill_lab::Work;

use super::{Confirm, Dialog};
use crate::text::commands::Question;

/// What an action leads to.
pub(crate) enum Effect {
    Done,
    Note(String),
    Success(String),
    Failure(String),
    Open(Dialog),
    /// Sends a command at once, with a reason for the audit log.
    Send(Command, Option<String>),
    /// Sets the work of the lab, and its seeds.
    LabWork(Work, Vec<u64>),
}

impl Effect {
    /// The command is sent once the user confirms it.
    pub(crate) fn confirm(question: Question, command: Command) -> Self {
        Self::Open(Dialog::Confirm(Confirm::command(question, command)))
    }

    pub(crate) fn note(text: impl Into<String>) -> Self {
        Self::Note(text.into())
    }
}
