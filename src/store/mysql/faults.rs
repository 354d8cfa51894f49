//! What errors of MySQL and MariaDB mean for whoever asked: try later, or never.

use sqlx::{Error, MySql, error::ErrorKind, mysql::MySqlDatabaseError};

use super::super::{SchemaFault, StoreError, UrlFault, session::Dialect};

/// Numbers of errors, where SQLSTATE says too little.
mod number {
    pub(super) const DISK_FULL: u16 = 1021;
    pub(super) const ON_WRITE: u16 = 1026;
    pub(super) const RECORD_CHANGED: u16 = 1020;
    pub(super) const TOO_MANY_CONNECTIONS: u16 = 1040;
    pub(super) const DATABASE_DENIED: u16 = 1044;
    pub(super) const USER_DENIED: u16 = 1045;
    pub(super) const NO_DATABASE: u16 = 1046;
    pub(super) const UNKNOWN_DATABASE: u16 = 1049;
    pub(super) const UNKNOWN_COLUMN: u16 = 1054;
    pub(super) const TABLE_FULL: u16 = 1114;
    pub(super) const TABLE_DENIED: u16 = 1142;
    pub(super) const COLUMN_DENIED: u16 = 1143;
    pub(super) const UNKNOWN_TABLE: u16 = 1146;
    pub(super) const PACKET_TOO_LARGE: u16 = 1153;
    pub(super) const TOO_MANY_CONNECTIONS_OF_USER: u16 = 1203;
    pub(super) const LOCK_WAIT: u16 = 1205;
    pub(super) const DEADLOCK: u16 = 1213;
    pub(super) const TOO_MUCH_OF_USER: u16 = 1226;
    pub(super) const RIGHT_DENIED: u16 = 1227;
    pub(super) const OPTION_PREVENTS: u16 = 1290;
    pub(super) const STATEMENT_BINLOG: u16 = 1665;
    pub(super) const PLUGIN_DENIED: u16 = 1698;
    pub(super) const READ_ONLY_TRANSACTION: u16 = 1792;
    pub(super) const READ_ONLY: u16 = 1836;
    pub(super) const STATEMENT_TIME: u16 = 1969;
    pub(super) const EXECUTION_TIME: u16 = 3024;
    /// About the values of a row: null, twice, range, type, length, foreign keys, checks.
    pub(super) const OF_A_ROW: &[u16] =
        &[1048, 1062, 1216, 1217, 1264, 1292, 1364, 1366, 1406, 1451, 1452, 1586, 1690, 3819, 4025];
}

impl Dialect for MySql {
    fn told(error: Error) -> StoreError {
        match &error {
            Error::Database(fault) => match fault.try_downcast_ref::<MySqlDatabaseError>() {
                Some(fault) => told_by_number(fault),
                None => StoreError::Away(error.to_string()),
            },
            Error::Io(fault) => StoreError::Away(format!("its connection broke: {fault}")),
            Error::Tls(fault) => {
                StoreError::Away(format!("no encrypted connection: {fault}; look at store.tls"))
            }
            Error::PoolClosed => StoreError::Away("the store was closed".to_owned()),
            Error::Protocol(fault) => {
                StoreError::Away(format!("it does not answer as MySQL does: {fault}"))
            }
            Error::Configuration(fault) => UrlFault::Unusable(fault.to_string()).into(),
            // Of the driver: nothing says that it is about what was asked.
            other => StoreError::Away(other.to_string()),
        }
    }

    fn passes(error: &Error) -> bool {
        let passing = [number::DEADLOCK, number::LOCK_WAIT, number::RECORD_CHANGED];
        number_of(error).is_some_and(|it| passing.contains(&it))
    }

    fn undone(error: &Error) -> bool {
        // A cluster refuses a commit by this; others may come after the commit was written.
        number_of(error).is_some_and(|it| it == number::DEADLOCK)
    }
}

fn number_of(error: &Error) -> Option<u16> {
    Some(error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?.number())
}

/// Whether a row stood in the way of an insert.
pub(super) fn is_taken(error: &Error) -> bool {
    error.as_database_error().is_some_and(|it| it.kind() == ErrorKind::UniqueViolation)
}

fn told_by_number(fault: &MySqlDatabaseError) -> StoreError {
    let away = |why: &str| StoreError::Away(why.to_owned());
    let said = fault.message();
    match fault.number() {
        number::DEADLOCK | number::LOCK_WAIT | number::RECORD_CHANGED => {
            away("other transactions keep the same rows locked")
        }
        number::OPTION_PREVENTS | number::READ_ONLY | number::READ_ONLY_TRANSACTION => {
            away("it is read-only, as a replica is; give the URL of the primary")
        }
        number::DATABASE_DENIED
        | number::USER_DENIED
        | number::TABLE_DENIED
        | number::COLUMN_DENIED
        | number::RIGHT_DENIED
        | number::PLUGIN_DENIED => StoreError::Away(format!(
            "it refuses this user, the password or what is asked: {said}; check --database and GRANT"
        )),
        number::UNKNOWN_DATABASE => StoreError::Away(format!(
            "{said}; create it with CREATE DATABASE, or correct --database"
        )),
        number::NO_DATABASE => away("the URL names no database"),
        number::TOO_MANY_CONNECTIONS
        | number::TOO_MANY_CONNECTIONS_OF_USER
        | number::TOO_MUCH_OF_USER => StoreError::Away(format!(
            "it takes no more connections: {said}; raise its limit or lower store.pool"
        )),
        number::STATEMENT_TIME | number::EXECUTION_TIME => {
            away("a statement took longer than store.statement_ms")
        }
        number::DISK_FULL | number::ON_WRITE | number::TABLE_FULL => {
            StoreError::Away(format!("it can't write: {said}; make room on its disk"))
        }
        number::PACKET_TOO_LARGE => {
            StoreError::Away(format!("{said}; raise max_allowed_packet of the server"))
        }
        number::STATEMENT_BINLOG => StoreError::Away(
            "its binlog_format is STATEMENT; set it to ROW or MIXED, which READ COMMITTED needs"
                .to_owned(),
        ),
        number::UNKNOWN_TABLE | number::UNKNOWN_COLUMN => {
            SchemaFault::Changed(said.to_owned()).into()
        }
        other if number::OF_A_ROW.contains(&other) => StoreError::Refused(said.to_owned()),
        // Whatever else stands in the way is not about what was asked: nobody gives up an order for it.
        _ => StoreError::Away(said.to_owned()),
    }
}
