//! The data directory: where the database, the server's files, the log and the locks lie.
//!
//! Every process that uses it holds a shared lock on `lock`, so that the last one out can be told
//! from the others. It must not know what is in those files.

use std::{
    fmt::Write as _,
    fs::{self, DirBuilder, File},
    io::{self, Write as _},
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use seckill_model::{
    OsError,
    message::{Label, text},
};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::{flock, temp_data_dir};

/// What a data directory holds, by the beginning of its name. The socket keeps the mode that its server gave it.
const NAMES: [&str; 5] = ["lock", "nodes", "redis", "seckill.", ".probe-"];
/// The bits of a mode that let others in.
const OTHERS: u32 = 0o077;
/// Longest path of a unix socket, without its closing zero.
const SOCKET_PATH: usize = if cfg!(target_os = "macos") { 103 } else { 107 };
/// How long to wait for the one who is stopping the server of this directory.
const LEAVING: Duration = Duration::from_secs(30);
/// More live processes than this on one directory are a mistake.
const NODES: u32 = 1_000;

/// Why a data directory can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataDirError {
    /// Something else has that name.
    #[error("{}", text!("redis-data-dir-not-a-directory", path = .0.display()))]
    NotADirectory(PathBuf),
    /// This user may not write there.
    #[error("{}", text!("redis-data-dir-denied", path = .0.display()))]
    Denied(PathBuf),
    /// The file system does not take writes.
    #[error("{}", text!("redis-data-dir-read-only", path = .0.display()))]
    ReadOnly(PathBuf),
    /// No room.
    #[error("{}", text!("redis-data-dir-full", path = .0.display()))]
    Full(PathBuf),
    /// Somebody holds the lock for itself alone, and has not let go for so many seconds.
    #[error("{}", text!("redis-data-dir-closing", path = .0.display(), seconds = .1))]
    Closing(PathBuf, u64),
    /// Neither `HOME` nor `XDG_DATA_HOME`.
    #[error("{}", Label("redis-data-dir-no-home"))]
    NoHome,
    /// A directory in a shared place that is not ours alone.
    #[error("{}", text!("redis-data-dir-shared", path = .0.display()))]
    Shared(PathBuf),
    /// Every number is taken, which are so many.
    #[error("{}", text!("redis-data-dir-crowded", path = .0.display(), nodes = .1))]
    Crowded(PathBuf, u32),
    /// It was removed or replaced while it was in use.
    #[error("{}", text!("redis-data-dir-gone", path = .0.display()))]
    Gone(PathBuf),
    /// Anything else.
    #[error("{}", text!("redis-data-dir-unusable", path = .path.display(), reason = .why))]
    Io {
        /// Where.
        path: PathBuf,
        /// What the system said.
        why: OsError,
    },
}

impl DataDirError {
    pub(super) fn of(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Denied(path),
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly(path),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full(path),
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                Self::NotADirectory(path)
            }
            _ => Self::Io { path, why: source.into() },
        }
    }
}

/// A data directory in use. Clones are the same user of it; opening it twice makes two.
#[derive(Clone, Debug)]
pub struct DataDir(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    socket: PathBuf,
    lock: File,
    id: DirId,
    /// Set for a directory that goes when its last user does.
    temporary: Option<TempDir>,
}

impl DataDir {
    /// Where data is kept unless somebody says otherwise: `$XDG_DATA_HOME/seckill` or
    /// `~/.local/share/seckill`.
    pub fn default_path() -> Result<PathBuf, DataDirError> {
        let absolute = |name: &str| {
            std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
        };
        absolute("XDG_DATA_HOME")
            .or_else(|| Some(absolute("HOME")?.join(".local/share")))
            .map(|base| base.join("seckill"))
            .ok_or(DataDirError::NoHome)
    }

    /// Opens the directory, and creates it for this user alone if it's missing.
    ///
    /// Blocks while the last user before is still stopping the server.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DataDirError> {
        Self::open_as(path.as_ref(), None)
    }

    /// A new directory in the temporary place, removed when the last clone is dropped. Sweeps
    /// what demos before have left behind when they were killed.
    pub fn throw_away() -> Result<Self, DataDirError> {
        Self::throw_away_in(&std::env::temp_dir())
    }

    /// The same in another place.
    pub fn throw_away_in(place: &Path) -> Result<Self, DataDirError> {
        temp_data_dir::sweep(place);
        let dir = temp_data_dir::create(place)?;
        let path = dir.path().to_owned();
        Self::open_as(&path, Some(dir))
    }

    fn open_as(path: &Path, temporary: Option<TempDir>) -> Result<Self, DataDirError> {
        make_dir(path)?;
        close_to_others(path);
        let path = path.canonicalize().map_err(DataDirError::of(path))?;
        let id = DirId::of(&path).map_err(DataDirError::of(&path))?;
        let lock_path = path.join("lock");
        match try_writing(&path).map_err(DataDirError::of(&path)) {
            // What was written there before can be read; who writes learns from Redis and the database that there is
            // no room.
            Err(DataDirError::Full(_)) if lock_path.exists() => {}
            other => other?,
        }
        let lock = flock::open(&lock_path).map_err(DataDirError::of(&lock_path))?;
        let socket = socket_for(&path)?;
        let dir = Self(Arc::new(Inner { path, socket, lock, id, temporary }));
        dir.enter()?;
        Ok(dir)
    }

    /// Becomes a user of the directory, if it isn't one.
    pub(super) fn enter(&self) -> Result<(), DataDirError> {
        let started = Instant::now();
        while !flock::try_shared(&self.0.lock).map_err(DataDirError::of(&self.0.path))? {
            if started.elapsed() > LEAVING {
                return Err(DataDirError::Closing(self.0.path.clone(), LEAVING.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(3));
        }
        Ok(())
    }

    /// Is no user any more. Does `last` before anybody new comes in, if nobody else is a user.
    ///
    /// Of several that leave at once exactly the last finds nobody: a lock that can't be taken
    /// whole is lost, and never taken back.
    pub(super) fn leave<T>(&self, last: impl FnOnce() -> T) -> Option<T> {
        let done = flock::try_exclusive(&self.0.lock).unwrap_or(false).then(last);
        flock::release(&self.0.lock);
        done
    }

    /// The directory, absolute and without links.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Checks that its path still leads to the directory that was opened.
    pub(super) fn check(&self) -> Result<(), DataDirError> {
        self.0.id.check(&self.0.path)
    }

    /// URL of the database in it.
    pub fn database_url(&self) -> String {
        format!("sqlite:{}", percent_encoded(&self.0.path.join("seckill.db")))
    }

    /// Where the server keeps its files.
    pub fn redis_dir(&self) -> PathBuf {
        self.0.path.join("redis")
    }

    /// The server's socket: `redis.sock` in here, or in a place with a shorter name.
    pub fn socket_path(&self) -> &Path {
        &self.0.socket
    }

    /// The program's own log.
    pub fn log_path(&self) -> PathBuf {
        self.0.path.join("seckill.log")
    }

    /// Takes the lowest number from 1 that no live process on this directory has.
    pub fn node_slot(&self) -> Result<NodeSlot, DataDirError> {
        let nodes = self.0.path.join("nodes");
        make_dir(&nodes)?;
        for number in 1..=NODES {
            let path = nodes.join(number.to_string());
            let file = flock::open(&path).map_err(DataDirError::of(&path))?;
            if flock::try_exclusive(&file).map_err(DataDirError::of(&path))? {
                return Ok(NodeSlot { number, file });
            }
        }
        Err(DataDirError::Crowded(self.0.path.clone(), NODES))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.temporary.is_some() {
            // A server without its directory would be of no use to anybody.
            temp_data_dir::stop_server(&self.path, &self.socket);
        }
        flock::release(&self.lock);
    }
}

/// Device and inode of a directory in use: a path may come to lead elsewhere, or nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirId(u64, u64);

impl DirId {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        Ok(Self(found.dev(), found.ino()))
    }

    /// Checks that `path` still leads to this directory. One that can't be looked at now may be there.
    pub(super) fn check(self, path: &Path) -> Result<(), DataDirError> {
        match Self::of(path) {
            Ok(id) if id != self => Err(DataDirError::Gone(path.to_owned())),
            Err(fault)
                if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory]
                    .contains(&fault.kind()) =>
            {
                Err(DataDirError::Gone(path.to_owned()))
            }
            _ => Ok(()),
        }
    }
}

/// A process' number among those on one data directory, its own until it ends, however it ends.
#[derive(Debug)]
pub struct NodeSlot {
    number: u32,
    file: File,
}

impl NodeSlot {
    /// The number, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for NodeSlot {
    fn drop(&mut self) {
        flock::release(&self.file);
    }
}

/// Creates a directory for this user alone, with all above it, if it's missing.
pub(super) fn make_dir(path: &Path) -> Result<(), DataDirError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(DataDirError::of(path))
}

/// Takes the rights of others from a directory that was made beforehand, and from what earlier runs left in it. What
/// belongs to another user, and a directory that is used for something else as well, is left as it is: `doctor`
/// reports that, see [`others_may`].
fn close_to_others(path: &Path) {
    let Ok(entries) = fs::read_dir(path) else { return };
    let mut shared = false;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let ours = |it: &&str| name.as_encoded_bytes().starts_with(it.as_bytes());
        if !NAMES.iter().any(ours) {
            shared = true;
        } else if name != "redis.sock"
            && let Ok(found) = entry.metadata()
            && !found.is_symlink()
        {
            close_one(&entry.path(), &found);
        }
    }
    if !shared && let Ok(found) = fs::metadata(path) {
        close_one(path, &found);
    }
}

/// A file system that knows no rights, or a directory of another user, is no reason not to run a sale.
fn close_one(path: &Path, found: &fs::Metadata) {
    let mode = found.mode() & 0o7777;
    if mode & OTHERS != 0 && found.uid() == rustix::process::geteuid().as_raw() {
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(mode & !OTHERS));
    }
}

/// Returns the mode of a file or directory that others may read, write or enter.
pub fn others_may(path: &Path) -> Option<u32> {
    let mode = fs::metadata(path).ok()?.mode() & 0o777;
    (mode & OTHERS != 0).then_some(mode)
}

/// Rights and flags can lie (a full disk, a quota, a network share): only a write tells.
fn try_writing(dir: &Path) -> io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".probe-").tempfile_in(dir)?;
    file.write_all(b"seckill")?;
    file.flush()
}

/// The socket of a data directory: the same for every process of this user.
fn socket_for(dir: &Path) -> Result<PathBuf, DataDirError> {
    let inside = dir.join("redis.sock");
    if fits(&inside) {
        return Ok(inside);
    }
    let short = short_dir(dir);
    make_dir(&short)?;
    // The place above is shared with others, who may have been there first.
    let found = fs::symlink_metadata(&short).map_err(DataDirError::of(&short))?;
    let mine = found.is_dir()
        && found.uid() == rustix::process::geteuid().as_raw()
        && found.mode() & OTHERS == 0;
    if mine { Ok(short.join("redis.sock")) } else { Err(DataDirError::Shared(short)) }
}

/// A directory for the socket whose own path is short, in the first place that is short enough.
fn short_dir(dir: &Path) -> PathBuf {
    let name = format!(
        "seckill-{}-{:016x}",
        rustix::process::geteuid().as_raw(),
        fnv1a(dir.as_os_str().as_bytes())
    );
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    [runtime.filter(|it| it.is_dir()), Some(std::env::temp_dir())]
        .into_iter()
        .flatten()
        .map(|place| place.join(&name))
        .find(|short| short.is_absolute() && fits(&short.join("redis.sock")))
        .unwrap_or_else(|| Path::new("/tmp").join(&name))
}

/// Where an abandoned directory's socket was, without creating anything.
pub(super) fn socket_of(dir: &Path) -> PathBuf {
    let inside = dir.join("redis.sock");
    if fits(&inside) { inside } else { short_dir(dir).join("redis.sock") }
}

fn fits(socket: &Path) -> bool {
    socket.as_os_str().len() <= SOCKET_PATH
}

/// A hash that stays the same between builds, which the standard library does not promise.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A path as it stands in a URL, with everything that a URL reads otherwise written as `%XX`.
pub(super) fn percent_encoded(path: &Path) -> String {
    path.as_os_str().as_bytes().iter().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(byte) {
            text.push(char::from(*byte));
        } else {
            // Writing to a String can't fail.
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}
