//! The operator lock: recovery commands run under a lock that names its holder.
//!
//! Independent of the commands, whose executor takes the lock first.

use seckill_model::reason::reason;
use seckill_redis::{Connection, Layout, lock_holders};

use crate::{
    EngineError, Result,
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
) -> Result<Guard> {
    let name = LockName::new(NAME)?;
    match locks.try_lock(&name, &format!("{login}: {action}")).await {
        Err(LockError::Busy(_)) => {
            let holder = lock_holders::holder_of(conn, keys, NAME, |_| Some(true)).await?;
            let Some(lock) = holder else {
                return Err(EngineError::Failed(reason!("error-operator-just-finished")));
            };
            let who = format!("{} on {}", lock.task, lock.node);
            // A lock without a lease does not end.
            let seconds = lock.left_ms.map_or(0, |left| left.div_ceil(1_000));
            Err(EngineError::Failed(reason!("error-other-operator", who, seconds)))
        }
        other => Ok(other?),
    }
}

/// Returns whether the lock is held. It counts as held if its server did not reply to a probe of the connection and
/// others did.
pub async fn is_taken(conn: &mut Connection, keys: &Layout) -> Result<bool> {
    match lock_holders::holder_of(conn, keys, NAME, |_| Some(true)).await {
        Err(error) if error.is_away() && !conn.lost().is_empty() => Ok(true),
        holder => Ok(holder?.is_some()),
    }
}
