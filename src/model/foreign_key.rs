//! Keys of the program in Redis that hold what another program has written.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A key of the program that another program has written: the commands for it fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignKey {
    /// The key.
    pub key: String,
    /// Its type in Redis, or [`NO_NUMBER`].
    pub holds: String,
}

/// What a string holds that should be a number.
pub const NO_NUMBER: &str = "text that is no number";

/// After the name of a key that was renamed to make room for a new one.
pub const REPLACED: &str = ":replaced";

impl ForeignKey {
    /// It is in the way of a lock; nothing else is lost.
    pub fn is_lock(&self) -> bool {
        !self.key.contains("{p")
    }
}

impl fmt::Display for ForeignKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, holds } = self;
        write!(
            f,
            "the key '{key}' in Redis holds a {holds}, which seckill has not written; rename it (RENAME {key} {key}{REPLACED})"
        )?;
        if self.is_lock() { Ok(()) } else { f.write_str(", then run 'seckill audit --repair'") }
    }
}
