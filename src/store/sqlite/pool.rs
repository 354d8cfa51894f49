//! Pools of connections to the file.

use std::time::Duration;

use sqlx::{pool::PoolOptions, sqlite::SqliteConnectOptions};

use crate::{Sessions, connection::Pool};

/// How long a task waits for a connection, behind writers that each wait for [`BUSY`].
pub(super) const TURN: Duration = Duration::from_secs(15);
/// Timeout of a read: some read every order of a sale.
pub(super) const READ: Duration = Duration::from_hours(1);

/// Connections that are kept: opening one costs more than keeping it.
pub(super) fn sessions(
    options: SqliteConnectOptions,
    most: u32,
    acquire: Duration,
    limit: Duration,
) -> Sessions {
    let pool = PoolOptions::new()
        .max_connections(most)
        .acquire_timeout(acquire)
        .idle_timeout(None)
        .max_lifetime(None);
    Sessions::new(Pool::Sqlite, pool, options, limit, [].into())
}
