//! The file of the database on its disk: whether it is still the one that was opened, and whether there is room.
//!
//! SQLite keeps writing to a file that was removed, and reads on where the disk is full. It must not open the file.

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

/// With less free space not even a small transaction fits.
const LEAST_FREE: u64 = 64 * 1024;

/// The file under its path, as it was when it was opened.
#[derive(Debug)]
pub(super) struct OpenFile {
    path: PathBuf,
    /// Device and inode.
    id: (u64, u64),
}

impl OpenFile {
    /// The file that is at `path` now.
    pub(super) fn at(path: &Path) -> Result<Self, FileFault> {
        let found = fs::metadata(path);
        let found = found.map_err(|fault| FileFault::Unusable(shown(path), fault.into()))?;
        Ok(Self { path: path.to_owned(), id: id(&found) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the path still leads to the file that was opened. What is written to one that was removed is
    /// lost when the last process that has it open ends.
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

    /// Checks that the disk has room for a write. A file system that does not report its size is not judged.
    pub(super) fn check_room(&self) -> Result<(), StoreError> {
        let Ok(disk) = rustix::fs::statvfs(&self.path) else { return Ok(()) };
        // Some blocks are kept for the superuser.
        let root = rustix::process::geteuid().is_root();
        let blocks = if root { disk.f_bfree } else { disk.f_bavail };
        if disk.f_blocks > 0 && blocks.saturating_mul(disk.f_frsize) < LEAST_FREE {
            return Err(full());
        }
        Ok(())
    }

    /// Checks the same by a write beside the file, which also meets a quota and a limit of this process.
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
