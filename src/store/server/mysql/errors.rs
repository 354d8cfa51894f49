//! Errors of MySQL and MariaDB: transient or permanent.

use sqlx::{Error, MySql, mysql::MySqlDatabaseError};

use super::super::{
    super::{
        Reason, SchemaFault, StoreError,
        session::{Driver, run_by_driver},
    },
    store_error,
};

/// Error numbers, where SQLSTATE is too general.
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
    /// About the values of a row: null, duplicates, range, type, length, foreign keys, checks.
    pub(super) const ABOUT_A_ROW: &[u16] =
        &[1048, 1062, 1216, 1217, 1264, 1292, 1364, 1366, 1406, 1451, 1452, 1586, 1690, 3819, 4025];
}

impl Driver for MySql {
    run_by_driver!();

    fn store_error(error: Error) -> StoreError {
        store_error("MySQL", error, |error| match error.try_downcast_ref::<MySqlDatabaseError>() {
            Some(error) => store_error_by_number(error),
            None => StoreError::Away(Reason::Quoted(error.to_string())),
        })
    }

    fn is_transient(error: &Error) -> bool {
        let passing = [number::DEADLOCK, number::LOCK_WAIT, number::RECORD_CHANGED];
        number_of(error).is_some_and(|it| passing.contains(&it))
    }

    fn is_rolled_back(error: &Error) -> bool {
        // A cluster rejects a commit with this error; others may occur after the commit was written.
        number_of(error).is_some_and(|it| it == number::DEADLOCK)
    }
}

fn number_of(error: &Error) -> Option<u16> {
    Some(error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?.number())
}

fn store_error_by_number(fault: &MySqlDatabaseError) -> StoreError {
    let message = fault.message().to_owned();
    StoreError::Away(match fault.number() {
        number::DEADLOCK | number::LOCK_WAIT | number::RECORD_CHANGED => Reason::RowsLocked,
        number::OPTION_PREVENTS | number::READ_ONLY | number::READ_ONLY_TRANSACTION => {
            Reason::Replica
        }
        number::DATABASE_DENIED
        | number::USER_DENIED
        | number::TABLE_DENIED
        | number::COLUMN_DENIED
        | number::RIGHT_DENIED
        | number::PLUGIN_DENIED => Reason::Denied(message),
        number::UNKNOWN_DATABASE => Reason::NoDatabase(message),
        number::NO_DATABASE => Reason::NoDatabaseNamed,
        number::TOO_MANY_CONNECTIONS
        | number::TOO_MANY_CONNECTIONS_OF_USER
        | number::TOO_MUCH_OF_USER => Reason::TooManyConnections(message),
        number::STATEMENT_TIME | number::EXECUTION_TIME => Reason::StatementTimedOut,
        number::DISK_FULL | number::ON_WRITE | number::TABLE_FULL => Reason::CannotWrite(message),
        number::PACKET_TOO_LARGE => Reason::PacketTooLarge(message),
        number::STATEMENT_BINLOG => Reason::StatementBinlog,
        number::UNKNOWN_TABLE | number::UNKNOWN_COLUMN => {
            return SchemaFault::Changed(message).into();
        }
        other if number::ABOUT_A_ROW.contains(&other) => {
            return StoreError::Refused(Reason::Quoted(message));
        }
        // No other error is proven to concern the request, so no order is discarded because of it.
        _ => Reason::Quoted(message),
    })
}
