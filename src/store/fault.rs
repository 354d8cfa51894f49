//! Errors of a unit of work, before they are classified for the caller.

use seckill_model::Label;

use crate::{Dialect, StoreError};

/// Why a unit of work failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// An error of the driver.
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    /// A classified error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The connection broke at the commit, with unknown outcome.
    #[error("at the commit: {0}")]
    AtCommit(sqlx::Error),
    /// A concurrent transaction changed the rows read; the retry sees it.
    #[error("conflict with a concurrent transaction")]
    Again,
}

impl Fault {
    /// Classifies the error and explains it to the user.
    pub(super) fn store_error(self, dialect: &Dialect) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Again => StoreError::Away(Label("store-reason-contention").into()),
            Self::AtCommit(error) => StoreError::Unknown(dialect.store_error(error).reason()),
            Self::Sql(error) => dialect.store_error(error),
        }
    }
}
