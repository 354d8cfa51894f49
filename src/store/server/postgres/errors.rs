//! Errors of PostgreSQL: transient or permanent.

use sqlx::{Error, Postgres, error::DatabaseError};

use super::super::{
    super::{
        Reason, SchemaFault, StoreError,
        session::{Driver, run_by_driver},
    },
    store_error,
};

/// SQLSTATE codes and their classes.
mod state {
    pub(super) const READ_ONLY: &str = "25006";
    pub(super) const IDLE_IN_TRANSACTION: &str = "25P03";
    pub(super) const NO_DATABASE: &str = "3D000";
    pub(super) const SERIALIZATION: &str = "40001";
    pub(super) const DEADLOCK: &str = "40P01";
    pub(super) const DENIED: &str = "42501";
    pub(super) const UNKNOWN_TABLE: &str = "42P01";
    pub(super) const UNKNOWN_COLUMN: &str = "42703";
    pub(super) const DISK_FULL: &str = "53100";
    pub(super) const TOO_MANY_CONNECTIONS: &str = "53300";
    pub(super) const LOCK_WAIT: &str = "55P03";
    pub(super) const CANCELLED: &str = "57014";
    /// Connection exceptions, invalid authorization, operator intervention, system errors.
    pub(super) const CONNECTION: &str = "08";
    pub(super) const LOGIN: &str = "28";
    /// About the values of a row: invalid data, and violated constraints.
    pub(super) const ABOUT_A_ROW: &[&str] = &["22", "23"];
    pub(super) const OPERATOR: &str = "57";
    pub(super) const SYSTEM: &str = "58";
    pub(super) const INTERNAL: &str = "XX";
}

impl Driver for Postgres {
    run_by_driver!();

    fn store_error(error: Error) -> StoreError {
        store_error("PostgreSQL", error, store_error_by_state)
    }

    fn is_transient(error: &Error) -> bool {
        let passing = [state::SERIALIZATION, state::DEADLOCK, state::LOCK_WAIT];
        state_of(error).is_some_and(|it| passing.contains(&it.as_str()))
    }

    fn is_rolled_back(error: &Error) -> bool {
        // An error of the transaction itself, not of a server that shuts down.
        let going = [state::CONNECTION, state::OPERATOR, state::SYSTEM, state::INTERNAL];
        state_of(error).is_some_and(|it| !going.iter().any(|class| it.starts_with(class)))
    }
}

fn state_of(error: &Error) -> Option<String> {
    Some(error.as_database_error()?.code()?.into_owned())
}

fn store_error_by_state(fault: &dyn DatabaseError) -> StoreError {
    let code = fault.code().unwrap_or_default();
    let message = fault.message().to_owned();
    StoreError::Away(match &*code {
        state::SERIALIZATION | state::DEADLOCK | state::LOCK_WAIT => Reason::RowsLocked,
        state::READ_ONLY => Reason::Replica,
        state::NO_DATABASE => Reason::NoDatabase(message),
        state::TOO_MANY_CONNECTIONS => Reason::TooManyConnections(message),
        state::CANCELLED => Reason::StatementTimedOut,
        state::IDLE_IN_TRANSACTION => Reason::PausedInTransaction,
        state::DISK_FULL => Reason::CannotWrite(message),
        state::UNKNOWN_TABLE | state::UNKNOWN_COLUMN => {
            return SchemaFault::Changed(message).into();
        }
        code if code == state::DENIED || code.starts_with(state::LOGIN) => Reason::Denied(message),
        code if state::ABOUT_A_ROW.iter().any(|class| code.starts_with(class)) => {
            return StoreError::Refused(Reason::Quoted(message));
        }
        // No other error is proven to concern the request, so no order is discarded because of it.
        _ => Reason::Quoted(message),
    })
}
