//! Temporary data directories of demos, and cleanup after killed demos.
//!
//! Only directories of this user's demos are removed, and none that a process is using or has just created. A failed
//! cleanup does not fail the demo.

use std::{
    fs::{self, DirEntry},
    os::unix::fs::PermissionsExt,
    path::Path,
    time::{Duration, Instant},
};

use seckill_model::{OsError, reason::reason};
use tempfile::TempDir;

use super::{DataDirError, flock, permissions::is_own, probe, socket_path::socket_of};

const PREFIX: &str = "seckill-demo-";
/// A younger directory may be in creation and not locked yet.
const MIN_AGE: Duration = Duration::from_mins(1);
/// Timeout for an abandoned server to end, and for the whole cleanup.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) fn create(place: &Path) -> Result<TempDir, DataDirError> {
    tempfile::Builder::new()
        .prefix(PREFIX)
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(place)
        .map_err(|error| {
            DataDirError(reason!("redis-temp-dir", path = place, reason = OsError::from(error)))
        })
}

/// Ends the server of a directory that is about to be removed, if one is running.
pub(super) fn stop_server(dir: &Path, socket: &Path) {
    let redis = dir.join("redis");
    if redis.is_dir() {
        probe::stop(socket, &redis, &redis.join("server.lock"), CLEANUP_TIMEOUT, || {});
    }
    if !socket.starts_with(dir)
        && let Some(short) = socket.parent()
    {
        let _ = fs::remove_file(socket);
        let _ = fs::remove_dir(short);
    }
}

/// Removes what killed demos have left in `place`.
pub(super) fn sweep(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    let started = Instant::now();
    for entry in entries.flatten() {
        if started.elapsed() > CLEANUP_TIMEOUT {
            break;
        }
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            // Failures are retried by the next cleanup.
            let _ = remove_one(&entry);
        }
    }
}

fn remove_one(entry: &DirEntry) -> std::io::Result<()> {
    // Metadata of the entry itself: a symbolic link may lead anywhere.
    let found = entry.metadata()?;
    if !found.is_dir() || !is_own(&found) {
        return Ok(());
    }
    let dir = entry.path().canonicalize()?;
    let lock_path = dir.join("lock");
    let born = lock_path.symlink_metadata().unwrap_or(found).modified()?;
    if born.elapsed().unwrap_or_default() < MIN_AGE {
        return Ok(());
    }
    let lock = flock::open(&lock_path)?;
    if flock::try_exclusive(&lock)? {
        stop_server(&dir, &socket_of(&dir));
        fs::remove_dir_all(&dir)?;
    }
    Ok(())
}
