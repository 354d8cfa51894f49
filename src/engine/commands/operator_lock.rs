//! The operator lock: recovery commands run under a lock that names its holder.
//!
//! Independent of the commands, whose executor takes the lock first.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use seckill_model::reason::reason;
use seckill_redis::{Connection, Layout, lock_holders};
use tokio_util::sync::CancellationToken;

use crate::{
    EngineError,
    locks::{Guard, LockError, LockName, Locks},
};

/// Name of the lock, as `locks list` shows it.
pub const NAME: &str = "operator";

/// Acquires the operator lock for `login` to run `action`.
///
/// # Errors
/// [`EngineError::Failed`] names the holder; Redis is unreachable.
pub async fn take(
    locks: &Locks,
    conn: &mut Connection,
    keys: &Layout,
    login: &str,
    action: &str,
) -> Result<Guard, EngineError> {
    let name = LockName::new(NAME)?;
    match locks.try_lock(&name, &format!("{login}: {action}")).await {
        Err(LockError::Busy(_)) => {
            let holder = lock_holders::holder_of(conn, keys, NAME, |_| Some(true)).await?;
            let who = holder.map_or_else(
                || reason!("error-operator-just-finished"),
                |lock| format!("{} on {}", lock.task, lock.node).into(),
            );
            Err(EngineError::Failed(reason!("error-other-operator", who)))
        }
        other => Ok(other?),
    }
}

/// Returns whether the lock is held.
pub async fn is_taken(conn: &mut Connection, keys: &Layout) -> Result<bool, EngineError> {
    Ok(lock_holders::holder_of(conn, keys, NAME, |_| Some(true)).await?.is_some())
}

/// The recovery that this process runs under the lock, so that it can be stopped.
#[derive(Clone, Debug, Default)]
pub struct UnderWay(Arc<Mutex<Weak<CancellationToken>>>);

impl UnderWay {
    /// Registers a recovery until the returned token, a child of `stop`, is dropped.
    pub(crate) fn begin(&self, stop: &CancellationToken) -> Arc<CancellationToken> {
        let token = Arc::new(stop.child_token());
        *self.0.lock() = Arc::downgrade(&token);
        token
    }

    /// Requests a stop after the current step; `false` if no recovery is running.
    pub(crate) fn cancel(&self) -> bool {
        self.0.lock().upgrade().map(|token| token.cancel()).is_some()
    }
}
