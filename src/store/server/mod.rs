//! MySQL, MariaDB and PostgreSQL: many writers, each transaction under the locks of the sales that it touches.
//!
//! What differs between them: how a URL is read and a session prepared (`connect`), what their errors mean (`errors`),
//! and their SQL ([`super::dialect::Dialect`]). This module must not know Redis or a command line.

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
    /// Most IDs or rows in one statement.
    page: usize,
}

impl<D: Dialect> Backend for ServerBackend<D> {
    type Db = D;

    fn describe(&self) -> String {
        self.shown.clone()
    }

    async fn takes_writes(&self) -> Result<(), StoreError> {
        // Row locks never block all writes. A read-only server or a full disk shows in the writes themselves.
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

/// Classifies an error: `by_code` one that the server sent.
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
        // An error of the driver is not proven to be about the request.
        other => StoreError::Away(Reason::Quoted(other.to_string())),
    }
}
