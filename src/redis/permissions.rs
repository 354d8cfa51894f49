//! Directories and files that only this user can access.

use std::{
    fs::{self, DirBuilder},
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::Path,
};

use super::DataDirError;

/// Contents of a data directory, by file name prefix. The socket keeps the mode set by its server.
const CONTENTS: [&str; 5] = ["lock", "nodes", "redis", "seckill.", ".probe-"];
/// Mode bits of group and others.
const OTHERS_MODE: u32 = 0o077;

/// Creates a directory and its parents with access for this user only, if missing.
pub(super) fn make_dir(path: &Path) -> Result<(), DataDirError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(DataDirError::of(path))
}

/// Removes the permissions of other users from an existing directory and from the files of earlier runs. Files of other
/// users and directories shared with other programs are left alone; `doctor` reports those, see [`others_may`].
pub(super) fn restrict_to_owner(path: &Path) {
    let Ok(entries) = fs::read_dir(path) else { return };
    let mut shared = false;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let ours = |it: &&str| name.as_encoded_bytes().starts_with(it.as_bytes());
        if !CONTENTS.iter().any(ours) {
            shared = true;
        } else if name != "redis.sock"
            && let Ok(found) = entry.metadata()
            && !found.is_symlink()
        {
            restrict_one(&entry.path(), &found);
        }
    }
    if !shared && let Ok(found) = fs::metadata(path) {
        restrict_one(path, &found);
    }
}

/// File systems without permissions and directories of other users are tolerated.
fn restrict_one(path: &Path, found: &fs::Metadata) {
    let mode = found.mode() & 0o7777;
    if mode & OTHERS_MODE != 0 && is_own(found) {
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(mode & !OTHERS_MODE));
    }
}

/// Whether a directory, not a link to one, belongs to this user and others cannot access it.
pub(super) fn is_private(found: &fs::Metadata) -> bool {
    found.is_dir() && is_own(found) && found.mode() & OTHERS_MODE == 0
}

/// Whether a file or directory belongs to this user.
pub(super) fn is_own(found: &fs::Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw()
}

/// Returns the mode of a file or directory that others may read, write or enter.
pub fn others_may(path: &Path) -> Option<u32> {
    let mode = fs::metadata(path).ok()?.mode() & 0o777;
    (mode & OTHERS_MODE != 0).then_some(mode)
}
