//! Advisory locks of the flock kind, told as yes and no.
//!
//! Such a lock belongs to the open file description: it lives exactly as long as some process
//! holds that, and a child that was handed the file holds it too. It must not know what it guards.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Opens a file that is only there to be locked.
pub(super) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Takes the lock for itself alone, if nobody else holds it. A shared lock held before is lost
/// when this says no.
pub(super) fn try_exclusive(file: &File) -> io::Result<bool> {
    ask(|| file.try_lock())
}

/// Takes the lock beside others, if nobody holds it for itself alone.
pub(super) fn try_shared(file: &File) -> io::Result<bool> {
    ask(|| file.try_lock_shared())
}

/// Gives the lock back, for every copy of the file: closing this one alone would leave it held
/// by a child that is just being started.
pub(super) fn release(file: &File) {
    let _ = file.unlock();
}

fn ask(lock: impl Fn() -> Result<(), TryLockError>) -> io::Result<bool> {
    loop {
        return match lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(fault)) if fault.kind() == io::ErrorKind::Interrupted => {
                continue;
            }
            Err(TryLockError::Error(fault)) => Err(fault),
        };
    }
}
