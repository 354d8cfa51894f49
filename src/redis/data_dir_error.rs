//! Why a data directory cannot be used.

use std::{io, path::Path};

use seckill_model::{OsError, Reason, reason::reason};
use serde::{Deserialize, Serialize};

/// Why a data directory cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(transparent)]
#[error("{0}")]
pub struct DataDirError(pub Reason);

/// Whether an error means that there is no room for a write.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl DataDirError {
    pub(super) fn of(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| {
            let path = path.as_path();
            Self(match source.kind() {
                _ if is_full(&source) => reason!("redis-data-dir-full", path),
                io::ErrorKind::PermissionDenied => reason!("redis-data-dir-denied", path),
                io::ErrorKind::ReadOnlyFilesystem => reason!("redis-data-dir-read-only", path),
                io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                    reason!("redis-data-dir-not-a-directory", path)
                }
                _ => reason!("redis-data-dir-unusable", path, reason = OsError::from(source)),
            })
        }
    }
}
