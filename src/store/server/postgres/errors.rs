//! Errors of PostgreSQL: transient or permanent.

use seckill_model::{Reason, reason};
use sqlx::error::DatabaseError;

use crate::{StoreError, dialect::schema_changed};

const SERIALIZATION_FAILURE: &str = "40001";
const DEADLOCK: &str = "40P01";
const LOCK_NOT_AVAILABLE: &str = "55P03";

pub(super) fn is_transient(error: &dyn DatabaseError) -> bool {
    let code = error.code().unwrap_or_default();
    [SERIALIZATION_FAILURE, DEADLOCK, LOCK_NOT_AVAILABLE].contains(&&*code)
}

pub(super) fn is_rolled_back(error: &dyn DatabaseError) -> bool {
    // An error of the transaction itself, as opposed to a connection error (08), a shutdown by an operator (57), a
    // system error (58) or an internal error (XX).
    error
        .code()
        .is_some_and(|it| !["08", "57", "58", "XX"].iter().any(|class| it.starts_with(class)))
}

/// Classifies an error by its SQLSTATE, of which the first two characters are the class.
pub(super) fn classify(error: &dyn DatabaseError) -> StoreError {
    let code = error.code().unwrap_or_default();
    let message = error.message().to_owned();
    StoreError::Away(match &*code {
        SERIALIZATION_FAILURE | DEADLOCK | LOCK_NOT_AVAILABLE => {
            reason!("store-reason-rows-locked")
        }
        // Read-only transaction.
        "25006" => reason!("store-reason-replica"),
        "3D000" => reason!("store-create-it-with-create-database", message),
        "53300" => reason!("store-reason-too-many-connections", message),
        // Query cancelled.
        "57014" => reason!("store-reason-statement-timed-out"),
        "25P03" => reason!("store-this-process-paused-within-transaction"),
        "53100" => reason!("store-it-cannot-write-free-space", message),
        // Undefined table, undefined column.
        "42P01" | "42703" => return schema_changed(message),
        // Insufficient privilege, invalid authorization.
        code if code == "42501" || code.starts_with("28") => {
            reason!("store-reason-denied", message)
        }
        // About the values of a row: invalid data, and violated constraints.
        code if code.starts_with("22") || code.starts_with("23") => {
            return StoreError::Rejected(Reason::Quoted(message));
        }
        // No other error is proven to concern the request, so no order is discarded because of it.
        _ => Reason::Quoted(message),
    })
}
