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

use super::wal::Growth;
use crate::{Result, StoreError};

/// Less free space than a small transaction needs.
const LEAST_FREE: u64 = 64 * 1024;

/// Identity of the file at its path when it was opened.
#[derive(Debug)]
pub(super) struct OpenFile {
    path: PathBuf,
    /// Device and inode.
    id: (u64, u64),
    /// Size of a simulated disk that holds only the database and its log; 0 for the real one.
    #[cfg(test)]
    pub(super) disk: std::sync::atomic::AtomicU64,
}

impl OpenFile {
    /// The file currently at `path`.
    pub(super) fn at(path: &Path) -> Result<Self> {
        let found = fs::metadata(path).map_err(|why| StoreError::File(unusable(path, why)))?;
        Ok(Self {
            path: path.to_owned(),
            id: id(&found),
            #[cfg(test)]
            disk: std::sync::atomic::AtomicU64::new(0),
        })
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

    /// Free space on its disk; `None` if the file system does not report its size.
    pub(super) fn free(&self) -> Option<u64> {
        #[cfg(test)]
        if let disk @ 1.. = self.disk.load(std::sync::atomic::Ordering::Relaxed) {
            let log = fs::metadata(format!("{}-wal", self.path.display())).map_or(0, |it| it.len());
            return Some(disk.saturating_sub(self.size() + log));
        }
        let disk = rustix::fs::statvfs(&self.path).ok().filter(|it| it.f_blocks > 0)?;
        // Some blocks are reserved for the superuser.
        let root = rustix::process::geteuid().is_root();
        let blocks = if root { disk.f_bfree } else { disk.f_bavail };
        Some(blocks.saturating_mul(disk.f_frsize))
    }

    /// Size of the file.
    pub(super) fn size(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |it| it.len())
    }

    /// Checks that the disk has room for a write.
    pub(super) fn check_room(&self) -> Result<()> {
        if self.free().is_some_and(|free| free < LEAST_FREE) { Err(full()) } else { Ok(()) }
    }

    /// Checks the same with a test write in its directory, which also detects quotas and process limits.
    pub(super) fn try_room(&self) -> Result<()> {
        let beside = self.path.parent().unwrap_or(&self.path);
        let written = tempfile::tempfile_in(beside)
            .and_then(|mut file| file.write_all(&vec![0; LEAST_FREE as usize]));
        written.map_err(|_| full())
    }
}

pub(super) fn full() -> StoreError {
    StoreError::Away(reason!("store-reason-disk-full"))
}

/// The log fills the disk, and a checkpoint needs more than is free.
pub(super) fn full_for_log(needs: Growth, free: u64) -> StoreError {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let (needed, log) = (mib(needs.by - free + LEAST_FREE), mib(needs.log));
    StoreError::Away(reason!("store-reason-disk-full-log", needed, log))
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
