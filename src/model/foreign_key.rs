//! Keys of the program in Redis that hold what another program has written.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    Reason,
    message::{Label, text},
};

/// A key of the program that another program has written: the commands for it fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignKey {
    /// The key.
    pub key: String,
    /// Its type in Redis, or [`NO_NUMBER`].
    pub holds: String,
}

/// What a string holds that should be a number.
pub const NO_NUMBER: &str = "not-a-number";

/// After the name of a key that was renamed to make room for a new one.
pub const REPLACED: &str = ":replaced";

impl ForeignKey {
    /// It is in the way of a lock; nothing else is lost.
    pub fn is_lock(&self) -> bool {
        !self.key.contains("{p")
    }

    /// What it holds, to be read: the name of a type, or that it is not a number.
    pub fn content(holds: &str) -> Reason {
        if holds == NO_NUMBER { Label("faults-not-a-number").into() } else { holds.into() }
    }
}

impl fmt::Display for ForeignKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, holds) = (&self.key, Self::content(&self.holds));
        let aside = format!("{key}{REPLACED}");
        f.write_str(&if self.is_lock() {
            text!("faults-foreign-lock", key, holds, aside)
        } else {
            text!("faults-foreign-key", key, holds, aside)
        })
    }
}
