//! The socket path of a managed server, within the limit of the operating system.

use std::{
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use seckill_model::reason::reason;

use super::{
    DataDirError,
    permissions::{is_private, make_dir},
};

/// Longest path of a Unix socket, without the terminating zero.
const SOCKET_PATH: usize = if cfg!(target_os = "macos") { 103 } else { 107 };

/// Socket path of a data directory, identical for every process of this user.
pub(super) fn socket_for(dir: &Path) -> Result<PathBuf, DataDirError> {
    let inside = dir.join("redis.sock");
    if fits(&inside) {
        return Ok(inside);
    }
    let short = short_dir(dir);
    make_dir(&short)?;
    // The parent directory is shared, so another user may have created this path first.
    let found = fs::symlink_metadata(&short).map_err(DataDirError::of(&short))?;
    if is_private(&found) {
        return Ok(short.join("redis.sock"));
    }
    Err(DataDirError(reason!("redis-data-dir-shared", path = short.as_path())))
}

/// Returns the first directory with a path short enough for a socket.
fn short_dir(dir: &Path) -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    let name = format!("seckill-{user}-{:016x}", fnv1a(dir.as_os_str().as_bytes()));
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    [runtime.filter(|it| it.is_dir()), Some(std::env::temp_dir())]
        .into_iter()
        .flatten()
        .map(|place| place.join(&name))
        .find(|short| short.is_absolute() && fits(&short.join("redis.sock")))
        .unwrap_or_else(|| Path::new("/tmp").join(&name))
}

/// Socket path of an abandoned data directory. Creates nothing, unlike [`socket_for`].
pub(super) fn socket_of(dir: &Path) -> PathBuf {
    let inside = dir.join("redis.sock");
    if fits(&inside) { inside } else { short_dir(dir).join("redis.sock") }
}

fn fits(socket: &Path) -> bool {
    socket.as_os_str().len() <= SOCKET_PATH
}

/// A hash that is stable between builds, unlike that of the standard library.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
