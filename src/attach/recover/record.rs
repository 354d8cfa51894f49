//! The log of recoveries: a file of JSON lines, as the database of the service gets no tables of ours.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use seckill_model::{Millis, OsError, RecoveryAction, Verdict, VoucherId, reason};
use serde::Serialize;

use crate::{AttachError, Result};

/// The log, to which lines are appended.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
    operator: String,
    reason: Option<String>,
}

/// An action on an entry, a buyer, a stock or the group.
#[derive(Debug, Default, Serialize)]
pub(super) struct Line<'a> {
    /// What is done: an action on an entry, or `create_group`, `add_buyer`, `remove_buyer`, `set_stock`.
    pub(super) action: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) entry: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) voucher: Option<VoucherId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) verdict: Option<Verdict>,
    /// Values before and after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<String>,
    /// Why it yields no order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fault: Option<String>,
    /// `planned` before it is applied; then `done`, or why not.
    pub(super) result: &'a str,
}

#[derive(Serialize)]
struct Full<'a> {
    at: Millis,
    operator: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    plan: Millis,
    #[serde(flatten)]
    line: &'a Line<'a>,
}

impl Log {
    /// Opens the log at this path, or creates it.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: &Path, operator: String, reason: Option<String>) -> Result<Self> {
        let opened = OpenOptions::new().create(true).append(true).open(path);
        let file = opened.map_err(|error| failed(path, &error))?;
        Ok(Self { path: path.to_owned(), file, operator, reason })
    }

    /// The operator who is recorded, and who holds the lock.
    pub(super) fn operator(&self) -> &str {
        &self.operator
    }

    /// Appends a line. A crash of this process does not lose it.
    pub(super) fn add(&mut self, plan: Millis, line: &Line<'_>) -> Result<()> {
        let (operator, reason) = (self.operator.as_str(), self.reason.as_deref());
        let full = Full { at: Millis::now(), operator, reason, plan, line };
        let written = serde_json::to_string(&full)
            .map_err(io::Error::from)
            .and_then(|text| self.file.write_all(format!("{text}\n").as_bytes()));
        written.map_err(|error| failed(&self.path, &error))
    }

    /// Syncs the lines, so that a crash of the machine does not lose them either.
    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| failed(&self.path, &error))
    }
}

fn failed(path: &Path, error: &io::Error) -> AttachError {
    let (path, why) = (path.to_string_lossy().into_owned(), OsError::of(error).to_string());
    AttachError::Refused(reason!("attach-recover-log", path, why))
}

/// The name of an action in the log.
pub(super) fn name(action: RecoveryAction) -> &'static str {
    action.into()
}
