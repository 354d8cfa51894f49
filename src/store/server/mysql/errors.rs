//! Errors of MySQL and MariaDB: transient or permanent.

use seckill_model::{Reason, reason};
use sqlx::{error::DatabaseError, mysql::MySqlDatabaseError};

use crate::{StoreError, dialect::schema_changed};

const DEADLOCK: u16 = 1213;
const LOCK_WAIT_TIMEOUT: u16 = 1205;
const RECORD_CHANGED: u16 = 1020;
/// About the values of a row: null, duplicates, range, type, length, foreign keys, checks.
const ABOUT_A_ROW: &[u16] =
    &[1048, 1062, 1216, 1217, 1264, 1292, 1364, 1366, 1406, 1451, 1452, 1586, 1690, 3819, 4025];

pub(super) fn is_transient(error: &dyn DatabaseError) -> bool {
    [DEADLOCK, LOCK_WAIT_TIMEOUT, RECORD_CHANGED].contains(&number_of(error))
}

pub(super) fn is_rolled_back(error: &dyn DatabaseError) -> bool {
    // A cluster rejects a commit with this error; others may occur after the commit was written.
    number_of(error) == DEADLOCK
}

/// 0 is no error number.
fn number_of(error: &dyn DatabaseError) -> u16 {
    error.try_downcast_ref::<MySqlDatabaseError>().map_or(0, MySqlDatabaseError::number)
}

/// Classifies an error by its number, since SQLSTATE is too general.
pub(super) fn classify(error: &dyn DatabaseError) -> StoreError {
    let message = error.message().to_owned();
    StoreError::Away(match number_of(error) {
        DEADLOCK | LOCK_WAIT_TIMEOUT | RECORD_CHANGED => reason!("store-reason-rows-locked"),
        // --read-only, a read-only transaction, --innodb-read-only.
        1290 | 1792 | 1836 => reason!("store-reason-replica"),
        // To a database, a login, a table, a column, by a missing privilege, by a plugin.
        1044 | 1045 | 1142 | 1143 | 1227 | 1698 => reason!("store-reason-denied", message),
        1049 => reason!("store-create-it-with-create-database", message),
        1046 => reason!("store-url-names-no-database"),
        // Of the server, of this user, by another limit of this user.
        1040 | 1203 | 1226 => reason!("store-reason-too-many-connections", message),
        // Of MariaDB, of MySQL.
        1969 | 3024 => reason!("store-reason-statement-timed-out"),
        // Disk full, error on write, table full.
        1021 | 1026 | 1114 => reason!("store-it-cannot-write-free-space", message),
        1153 => reason!("store-reason-packet-too-large", message),
        1665 => reason!("store-reason-statement-binlog"),
        // Unknown column, unknown table.
        1054 | 1146 => return schema_changed(message),
        other if ABOUT_A_ROW.contains(&other) => {
            return StoreError::Rejected(Reason::Quoted(message));
        }
        // No other error is proven to concern the request, so no order is discarded because of it.
        _ => Reason::Quoted(message),
    })
}
