//! Which Redis goes with which database.
//!
//! A node on the wrong one of them would take the orders of others for nonsense. The database has a name of its
//! own, and Redis carries it; who finds another one there stops before it does anything.

use redis::cmd;
use seckill_redis::{Layout, Link, mend};
use seckill_store::SharedStore;

use super::EngineError;

/// Its name among the settings.
const SETTING: &str = "deployment";

/// Puts the database's name into a Redis that has none, and refuses one that has another. With `read_only` it
/// only looks.
///
/// # Errors
/// [`EngineError::Foreign`], or a server is away.
pub async fn tie(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
    read_only: bool,
) -> Result<(), EngineError> {
    let ours = match store.setting(SETTING).await? {
        Some(ours) => ours,
        None if read_only => return Ok(()),
        None => name(store, false).await?,
    };
    if !read_only {
        // One of another type names no database.
        mend::set_aside(link, &keys.deployment(), "string").await?;
        let mut put = cmd("SET");
        put.arg(keys.deployment()).arg(&ours).arg("NX");
        link.query::<Option<String>>(&put).await?;
    }
    let there: Option<String> = link.query(cmd("GET").arg(keys.deployment())).await?;
    match there {
        Some(there) if there != ours => Err(EngineError::Foreign(link.place().to_owned())),
        _ => Ok(()),
    }
}

/// The database's name, which it gets now if it has none; with `read_only` it stays without.
///
/// # Errors
/// SQL is away.
pub async fn name(store: &SharedStore, read_only: bool) -> Result<String, EngineError> {
    match store.setting(SETTING).await? {
        Some(name) => return Ok(name),
        None if read_only => return Ok(String::new()),
        None => {}
    }
    let new = uuid::Uuid::new_v4().simple().to_string();
    store.change_setting(SETTING, None, &new).await?;
    // Somebody may have been quicker.
    Ok(store.setting(SETTING).await?.unwrap_or(new))
}
