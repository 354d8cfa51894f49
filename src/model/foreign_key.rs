//! Redis keys of seckill that another program has overwritten.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Label, Reason, text};

/// A key that another program has overwritten, so that commands on it fail.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ForeignKey {
    /// The key.
    pub key: String,
    /// Its type in Redis, or [`NO_NUMBER`].
    pub holds: String,
}

/// Value of [`ForeignKey::holds`] for a string that should be a number and is not.
pub const NO_NUMBER: &str = "not-a-number";

/// Suffix of a key that was renamed to make room for a new one.
pub const REPLACED: &str = ":replaced";

impl ForeignKey {
    /// Whether it is the key of one lock, so that no data of a sale is affected; not one that all locks share.
    pub fn is_lock(&self) -> bool {
        let name = self.key.strip_prefix("{locks}:").unwrap_or(&self.key);
        !name.contains("{p") && !["locks", "locks:token"].contains(&name)
    }

    /// Describes the content: the name of a type, or that the string is not a number.
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
