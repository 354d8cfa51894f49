//! The database file on its disk: whether it was replaced, and whether there is room.
//!
//! SQLite keeps writing to a removed file, and keeps reading on a full disk. This module must not open the file.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::{
    super::{FileFault, Reason},
    StoreError,
};

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
    pub(super) fn at(path: &Path) -> Result<Self, FileFault> {
        let found = fs::metadata(path);
        let found = found.map_err(|fault| FileFault::Unusable(shown(path), fault.into()))?;
        Ok(Self { path: path.to_owned(), id: id(&found) })
    }

    /// Checks that the path still leads to the opened file. Writes to a removed file are lost when the last process
    /// that has it open ends.
    pub(super) fn check(&self) -> Result<(), FileFault> {
        match fs::metadata(&self.path) {
            Ok(found) if id(&found) == self.id => Ok(()),
            Ok(_) => Err(FileFault::Replaced(shown(&self.path))),
            Err(fault)
                if matches!(
                    fault.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Err(FileFault::Removed(shown(&self.path)))
            }
            Err(fault) => Err(FileFault::Unreadable(shown(&self.path), fault.into())),
        }
    }

    /// Checks that the disk has room for a write. File systems that do not report their size are ignored.
    pub(super) fn check_room(&self) -> Result<(), StoreError> {
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
    pub(super) fn try_room(&self) -> Result<(), StoreError> {
        let beside = self.path.parent().unwrap_or(&self.path);
        let written = tempfile::tempfile_in(beside)
            .and_then(|mut file| file.write_all(&vec![0; LEAST_FREE as usize]));
        written.map_err(|_| full())
    }
}

fn full() -> StoreError {
    StoreError::Away(Reason::DiskFull)
}

fn id(found: &fs::Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
