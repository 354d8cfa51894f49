//! MySQL, MariaDB and PostgreSQL: concurrent writers, each transaction holding the locks of its sales.
//!
//! The differences: URLs and sessions (`connect`), error codes (`errors`) and SQL ([`super::dialect::Dialect`]).

mod connect;
mod mysql;
mod postgres;

use sqlx::{Error, error::DatabaseError};

use super::{
    Reason, StoreError, UrlFault,
    dialect::Dialect,
    session::{Fault, Lease, Sessions},
    sql_store::{Backend, SqlStore},
};

/// A store in one database of a server.
pub(super) type ServerStore<D> = SqlStore<ServerBackend<D>>;

/// One database of a server.
#[derive(Debug)]
pub(super) struct ServerBackend<D: Dialect> {
    shown: String,
    sessions: Sessions<D>,
    /// Most IDs or rows per statement.
    page: usize,
}

impl<D: Dialect> Backend for ServerBackend<D> {
    type Db = D;

    fn describe(&self) -> String {
        self.shown.clone()
    }

    async fn takes_writes(&self) -> Result<(), StoreError> {
        // Row locks never block all writes. A read-only server or a full disk makes the writes themselves fail.
        self.sessions.takes_writes()
    }

    fn writer(&self) -> Result<&Sessions<D>, StoreError> {
        Ok(&self.sessions)
    }

    async fn reader(&self) -> Result<Lease<D>, Fault> {
        self.sessions.lease().await
    }

    fn page(&self) -> usize {
        self.page
    }

    async fn close(&self) {
        self.sessions.close().await;
    }
}

/// Classifies an error; `by_code` handles those of the server.
fn store_error(
    server: &'static str,
    error: Error,
    by_code: impl FnOnce(&dyn DatabaseError) -> StoreError,
) -> StoreError {
    match error {
        Error::Database(error) => by_code(error.as_ref()),
        Error::Io(error) => StoreError::Away(Reason::ConnectionFailed(error.into())),
        Error::Tls(error) => StoreError::Away(Reason::NoTls(error.to_string())),
        Error::PoolClosed => StoreError::Away(Reason::Closed),
        Error::Protocol(error) => StoreError::Away(Reason::OtherProtocol(server.into(), error)),
        Error::Configuration(error) => UrlFault::Unusable(error.to_string()).into(),
        // An error of the driver is not proven to concern the request.
        other => StoreError::Away(Reason::Quoted(other.to_string())),
    }
}
