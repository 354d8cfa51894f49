//! One operator at a time: acts of recovery are done under a lock, whose holder's name the next one is told.
//!
//! It knows no act; whoever executes one takes the operator's lock first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seckill_redis::{Layout, Link, lock_holders};
use tokio_util::sync::CancellationToken;

use super::{
    EngineError,
    locks::{Guard, LockError, LockName, Locks},
};

/// Name of the lock, as `locks list` shows it.
pub const NAME: &str = "operator";

/// Takes the operator's lock for `login`, who is about to do `act`.
///
/// # Errors
/// [`EngineError::OtherOperator`] names who holds it; Redis is away.
pub async fn take(
    locks: &Locks,
    link: &mut Link,
    keys: &Layout,
    login: &str,
    act: &str,
) -> Result<Guard, EngineError> {
    let name = LockName::new(NAME)?;
    match locks.try_lock(&name, &format!("{login}: {act}"), None).await {
        Err(LockError::Busy(_)) => {
            let holder = lock_holders::holder_of(link, keys, NAME, |_| Some(true)).await?;
            Err(EngineError::OtherOperator(holder.map_or_else(
                || "somebody who has just finished".to_owned(),
                |lock| format!("{} on {}", lock.task, lock.node),
            )))
        }
        other => Ok(other?),
    }
}

/// Whether somebody holds it now.
///
/// # Errors
/// Redis is away.
pub async fn is_taken(link: &mut Link, keys: &Layout) -> Result<bool, EngineError> {
    Ok(lock_holders::holder_of(link, keys, NAME, |_| Some(true)).await?.is_some())
}

/// What this process does under the lock, so that it can be broken off.
#[derive(Clone, Debug, Default)]
pub struct UnderWay(Arc<Mutex<Option<CancellationToken>>>);

/// Cleared when it is dropped.
#[derive(Debug)]
pub(super) struct Begun(UnderWay);

impl UnderWay {
    pub(super) fn begin(&self, stop: &CancellationToken) -> Begun {
        *self.lock() = Some(stop.clone());
        Begun(self.clone())
    }

    /// Asks it to end after the step in hand; `false` where nothing is under way.
    pub(super) fn cancel(&self) -> bool {
        self.lock().as_ref().map(CancellationToken::cancel).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Option<CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}
