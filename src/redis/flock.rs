//! Advisory flock locks.
//!
//! Such a lock belongs to the open file description: it lasts while any process has it open, including a child that
//! inherited it.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Opens a file that is used only as a lock.
pub(super) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Tries to take an exclusive lock. On failure, a shared lock held before is lost.
pub(super) fn try_exclusive(file: &File) -> io::Result<bool> {
    acquired(file.try_lock())
}

/// Tries to take a shared lock.
pub(super) fn try_shared(file: &File) -> io::Result<bool> {
    acquired(file.try_lock_shared())
}

/// Whether no process holds the lock.
pub(super) fn is_free(file: &File) -> bool {
    let free = try_exclusive(file).unwrap_or(false);
    if free {
        release(file);
    }
    free
}

/// Releases the lock for every copy of the descriptor: closing only this one would leave it held by a child that is
/// just being started.
pub(super) fn release(file: &File) {
    let _ = file.unlock();
}

fn acquired(lock: Result<(), TryLockError>) -> io::Result<bool> {
    match lock {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
