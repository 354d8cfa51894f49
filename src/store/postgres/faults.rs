//! What errors of PostgreSQL mean for whoever asked: try later, or never.

use sqlx::{Error, Postgres, error::DatabaseError};

use super::super::{SchemaFault, StoreError, UrlFault, session::Dialect};

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
    /// Connections, logins, resources, an operator's acts, the system below.
    pub(super) const CONNECTION: &str = "08";
    pub(super) const LOGIN: &str = "28";
    /// About the values of a row: data that a column can't hold, and broken constraints.
    pub(super) const OF_A_ROW: &[&str] = &["22", "23"];
    pub(super) const OPERATOR: &str = "57";
    pub(super) const SYSTEM: &str = "58";
    pub(super) const INTERNAL: &str = "XX";
}

impl Dialect for Postgres {
    fn told(error: Error) -> StoreError {
        match &error {
            Error::Database(fault) => told_by_state(fault.as_ref()),
            Error::Io(fault) => StoreError::Away(format!("its connection broke: {fault}")),
            Error::Tls(fault) => {
                StoreError::Away(format!("no encrypted connection: {fault}; look at store.tls"))
            }
            Error::PoolClosed => StoreError::Away("the store was closed".to_owned()),
            Error::Protocol(fault) => {
                StoreError::Away(format!("it does not answer as PostgreSQL does: {fault}"))
            }
            Error::Configuration(fault) => UrlFault::Unusable(fault.to_string()).into(),
            // Of the driver: nothing says that it is about what was asked.
            other => StoreError::Away(other.to_string()),
        }
    }

    fn passes(error: &Error) -> bool {
        let passing = [state::SERIALIZATION, state::DEADLOCK, state::LOCK_WAIT];
        state_of(error).is_some_and(|it| passing.contains(&it.as_str()))
    }

    fn undone(error: &Error) -> bool {
        // An answer of the transaction itself, and not of a server that goes away meanwhile.
        let going = [state::CONNECTION, state::OPERATOR, state::SYSTEM, state::INTERNAL];
        state_of(error).is_some_and(|it| !going.iter().any(|class| it.starts_with(class)))
    }
}

fn state_of(error: &Error) -> Option<String> {
    Some(error.as_database_error()?.code()?.into_owned())
}

fn told_by_state(fault: &dyn DatabaseError) -> StoreError {
    let away = |why: &str| StoreError::Away(why.to_owned());
    let code = fault.code().unwrap_or_default();
    let said = fault.message();
    match &*code {
        state::SERIALIZATION | state::DEADLOCK | state::LOCK_WAIT => {
            away("other transactions keep the same rows locked")
        }
        state::READ_ONLY => away("it is read-only, as a replica is; give the URL of the primary"),
        state::NO_DATABASE => StoreError::Away(format!(
            "{said}; create it with CREATE DATABASE, or correct --database"
        )),
        state::TOO_MANY_CONNECTIONS => StoreError::Away(format!(
            "it takes no more connections: {said}; raise its limit or lower store.pool"
        )),
        state::CANCELLED => away("a statement took longer than store.statement_ms"),
        state::IDLE_IN_TRANSACTION => away("this process paused within a transaction"),
        state::DISK_FULL => {
            StoreError::Away(format!("it can't write: {said}; make room on its disk"))
        }
        state::UNKNOWN_TABLE | state::UNKNOWN_COLUMN => {
            SchemaFault::Changed(said.to_owned()).into()
        }
        code if code == state::DENIED || code.starts_with(state::LOGIN) => {
            StoreError::Away(format!(
                "it refuses this user, the password or what is asked: {said}; check --database and GRANT"
            ))
        }
        code if state::OF_A_ROW.iter().any(|class| code.starts_with(class)) => {
            StoreError::Refused(said.to_owned())
        }
        // Whatever else stands in the way is not about what was asked: nobody gives up an order for it.
        _ => StoreError::Away(said.to_owned()),
    }
}
