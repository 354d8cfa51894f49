//! Names of locks and their owners.

use seckill_model::reason::reason;
use serde::{Deserialize, Serialize};

use super::{LockError, Result};

const LONGEST: usize = 200;

/// The name of a lock: 1 to 200 characters, none of them a control character.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, derive_more::Display)]
pub struct LockName(String);

impl LockName {
    /// Validates a name.
    pub fn new(name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        let length = name.chars().count();
        if name.is_empty() || length > LONGEST {
            return Err(LockError::Rule(reason!("lock-name-length", most = LONGEST, length)));
        }
        if name.chars().any(char::is_control) {
            let name = name.escape_debug().to_string();
            return Err(LockError::Rule(reason!("lock-name-control", name)));
        }
        Ok(Self(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns a new owner of a lock, `NODE/TASK#RANDOM`, one for each acquisition. A node's name has no '/'; unprintable
/// characters of the task are dropped.
pub(super) fn new_owner(node: &str, task: &str) -> String {
    let task: String = task.chars().filter(|c| !c.is_control() && *c != '#').take(80).collect();
    format!("{node}/{task}#{:016x}", rand::random::<u64>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use seckill_redis::lock_holders::node_and_task;

    #[test]
    fn unprintable_names_are_refused() {
        assert!(LockName::new("order:7").is_ok());
        assert!(LockName::new("订单").is_ok());
        for bad in ["", "a\nb", "\u{1b}[2J", &"x".repeat(10_000)] {
            let error = LockName::new(bad).unwrap_err().to_string();
            assert!(error.len() < 200 && !error.contains('\u{1b}'), "{error}");
        }
    }

    #[test]
    fn an_owner_names_its_node_and_task() {
        let owner = new_owner("node-1", "close/overdue#1");
        assert_eq!(node_and_task(&owner), ("node-1", "close/overdue1"));
        assert_ne!(owner, new_owner("node-1", "close/overdue#1"));
    }
}
