//! Force-releases a lock: an operator command.

use redis::cmd;
use seckill_redis::{Connection, Layout, scripts};

use super::{LockError, LockName};

/// Force-releases a lock if this owner holds it, and notifies the owner's node.
///
/// # Errors
/// [`LockError::Changed`] or [`LockError::NotHeld`] if this owner no longer holds the lock, or Redis is unreachable.
pub async fn revoke(
    conn: &mut Connection,
    keys: &Layout,
    name: &LockName,
    owner: &str,
) -> Result<(), LockError> {
    let mut simple = scripts::LOCK_RELEASE_SIMPLE.prepare_invoke();
    simple.key(keys.lock(name.as_str())).key(keys.locks()).arg(owner).arg(name.as_str());
    if conn.invoke::<u8>(&simple).await? == 1 {
        return Ok(());
    }
    let mut call = scripts::LOCK_RELEASE.prepare_invoke();
    call.key(keys.lock(name.as_str())).key(keys.locks()).key(keys.lock_waiting(name.as_str()));
    call.arg(owner).arg(0).arg(name.as_str()).arg(keys.lock_channel()).arg("revoked");
    match conn.invoke::<u8>(&call).await? {
        1 => Ok(()),
        _ if conn.query::<bool>(cmd("EXISTS").arg(keys.lock(name.as_str()))).await? => {
            Err(LockError::Changed(name.clone()))
        }
        _ => Err(LockError::NotHeld(name.clone())),
    }
}
