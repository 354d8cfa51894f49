//! Advisory locks of the flock kind, told as yes and no.
//!
//! Such a lock belongs to the open file description: it lives exactly as long as some process
//! holds that, and a child that was handed the file holds it too. It must not know what it guards.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::{fs::FlockOperation, io::Errno};

/// Opens a file that is only there to be locked.
pub(super) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Takes the lock for itself alone, if nobody else holds it. A shared lock held before is lost
/// when this says no.
pub(super) fn try_exclusive(file: &File) -> io::Result<bool> {
    try_lock(file, FlockOperation::NonBlockingLockExclusive)
}

/// Takes the lock beside others, if nobody holds it for itself alone.
pub(super) fn try_shared(file: &File) -> io::Result<bool> {
    try_lock(file, FlockOperation::NonBlockingLockShared)
}

/// Gives the lock back, for every copy of the file: closing this one alone would leave it held
/// by a child that is just being started.
pub(super) fn release(file: &File) {
    let _ = rustix::fs::flock(file, FlockOperation::Unlock);
}

fn try_lock(file: &File, how: FlockOperation) -> io::Result<bool> {
    loop {
        return match rustix::fs::flock(file, how) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(Errno::INTR) => continue,
            Err(fault) => Err(fault.into()),
        };
    }
}
