//! Why a data directory cannot be used, as data displayed in the user's language.

use std::{
    io,
    path::{Path, PathBuf},
};

use seckill_model::{
    OsError,
    message::{Label, text},
};
use serde::{Deserialize, Serialize};

/// Why a data directory cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataDirError {
    /// The path is not a directory.
    #[error("{}", text!("redis-data-dir-not-a-directory", path = .0.display()))]
    NotADirectory(PathBuf),
    /// No write permission.
    #[error("{}", text!("redis-data-dir-denied", path = .0.display()))]
    Denied(PathBuf),
    /// Read-only file system.
    #[error("{}", text!("redis-data-dir-read-only", path = .0.display()))]
    ReadOnly(PathBuf),
    /// Disk full.
    #[error("{}", text!("redis-data-dir-full", path = .0.display()))]
    Full(PathBuf),
    /// Another process has held the exclusive lock for this many seconds.
    #[error("{}", text!("redis-data-dir-closing", path = .0.display(), seconds = .1))]
    Closing(PathBuf, u64),
    /// Neither `HOME` nor `XDG_DATA_HOME`.
    #[error("{}", Label("redis-data-dir-no-home"))]
    NoHome,
    /// A directory in a shared location that other users can access.
    #[error("{}", text!("redis-data-dir-shared", path = .0.display()))]
    Shared(PathBuf),
    /// All slots are taken; their number.
    #[error("{}", text!("redis-data-dir-crowded", path = .0.display(), nodes = .1))]
    Crowded(PathBuf, u32),
    /// Removed or replaced while in use.
    #[error("{}", text!("redis-data-dir-gone", path = .0.display()))]
    Gone(PathBuf),
    /// Any other error.
    #[error("{}", text!("redis-data-dir-unusable", path = .path.display(), reason = .why))]
    Io {
        /// Path.
        path: PathBuf,
        /// Error of the operating system.
        why: OsError,
    },
}

impl DataDirError {
    pub(super) fn of(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Denied(path),
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly(path),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full(path),
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                Self::NotADirectory(path)
            }
            _ => Self::Io { path, why: source.into() },
        }
    }
}
