//! The database file on its disk: whether it was replaced, and whether there is room.
//!
//! SQLite keeps writing to a removed file, and keeps reading on a full disk. This module must not open the file.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use seckill_model::{OsError, Reason, reason};

use crate::{Result, StoreError};

/// Less free space than a small transaction needs.
const LEAST_FREE: u64 = 64 * 1024;

/// Identity of the file at its path when it was opened.
#[derive(Debug)]
pub(super) struct OpenFile {
    path: PathBuf,
    /// Device and inode.
    id: (u64, u64),
}

impl OpenFile {
    /// The file currently at `path`.
    pub(super) fn at(path: &Path) -> Result<Self> {
        let found = fs::metadata(path).map_err(|why| StoreError::File(unusable(path, why)))?;
        Ok(Self { path: path.to_owned(), id: id(&found) })
    }

    /// Checks that the path still leads to the opened file. Writes to a removed file are lost when the last process
    /// that has it open ends.
    pub(super) fn check(&self) -> Result<()> {
        let path = self.path.as_path();
        Err(StoreError::File(match fs::metadata(path) {
            Ok(found) if id(&found) == self.id => return Ok(()),
            Ok(_) => reason!("store-file-replaced", path),
            Err(why)
                if matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
            {
                reason!("store-file-removed", path)
            }
            Err(why) => unreadable(path, why),
        }))
    }

    /// Checks that the disk has room for a write. File systems that do not report their size are ignored.
    pub(super) fn check_room(&self) -> Result<()> {
        let Ok(disk) = rustix::fs::statvfs(&self.path) else { return Ok(()) };
        // Some blocks are reserved for the superuser.
        let root = rustix::process::geteuid().is_root();
        let blocks = if root { disk.f_bfree } else { disk.f_bavail };
        if disk.f_blocks > 0 && blocks.saturating_mul(disk.f_frsize) < LEAST_FREE {
            return Err(full());
        }
        Ok(())
    }

    /// Checks the same with a test write in its directory, which also detects quotas and process limits.
    pub(super) fn try_room(&self) -> Result<()> {
        let beside = self.path.parent().unwrap_or(&self.path);
        let written = tempfile::tempfile_in(beside)
            .and_then(|mut file| file.write_all(&vec![0; LEAST_FREE as usize]));
        written.map_err(|_| full())
    }
}

fn full() -> StoreError {
    StoreError::Away(reason!("store-reason-disk-full"))
}

fn id(found: &fs::Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

/// The file cannot be examined.
pub(super) fn unreadable(path: &Path, why: impl Into<OsError>) -> Reason {
    reason!("store-file-unreadable", path, reason = why.into())
}

/// The file cannot be used.
pub(super) fn unusable(path: &Path, why: impl Into<OsError>) -> Reason {
    reason!("store-file-unusable", path, reason = why.into())
}
