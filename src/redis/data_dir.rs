//! The data directory: database, server files, log and locks.
//!
//! Every process that uses it holds a shared lock on `lock`, so that the last one to exit can be detected.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use seckill_model::reason::reason;
use tempfile::TempDir;

use super::{
    error::{DataDirError, is_full},
    flock,
    permissions::{make_dir, restrict_to_owner},
    socket_path::socket_for,
    temp_data_dir,
};

/// How long to wait for a process that is stopping this directory's server.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// Limit of live processes per directory.
const MAX_NODES: u32 = 1_000;

/// A data directory in use. Clones share one use; opening it twice makes two.
#[derive(Clone, Debug)]
pub struct DataDir(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    socket: PathBuf,
    lock: File,
    id: DirId,
    /// Set for a directory that is removed with its last user.
    temporary: Option<TempDir>,
}

impl DataDir {
    /// Default location: `$XDG_DATA_HOME/seckill` or `~/.local/share/seckill`.
    pub fn default_path() -> Result<PathBuf, DataDirError> {
        let absolute = |name: &str| {
            std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
        };
        absolute("XDG_DATA_HOME")
            .or_else(|| Some(absolute("HOME")?.join(".local/share")))
            .map(|base| base.join("seckill"))
            .ok_or_else(|| DataDirError(reason!("redis-data-dir-no-home")))
    }

    /// Opens the directory; creates it with access for this user only if it is missing.
    ///
    /// Blocks while the previous last user is stopping the server.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DataDirError> {
        Self::open_as(path.as_ref(), None)
    }

    /// Creates a temporary directory, removed when its last clone is dropped. Removes what killed demos left behind.
    pub fn throw_away() -> Result<Self, DataDirError> {
        Self::throw_away_in(&std::env::temp_dir())
    }

    /// Like [`DataDir::throw_away`], in a given location.
    pub fn throw_away_in(place: &Path) -> Result<Self, DataDirError> {
        temp_data_dir::sweep(place);
        let dir = temp_data_dir::create(place)?;
        let path = dir.path().to_owned();
        Self::open_as(&path, Some(dir))
    }

    fn open_as(path: &Path, temporary: Option<TempDir>) -> Result<Self, DataDirError> {
        make_dir(path)?;
        restrict_to_owner(path);
        let path = path.canonicalize().map_err(DataDirError::of(path))?;
        let id = DirId::of(&path).map_err(DataDirError::of(&path))?;
        let lock_path = path.join("lock");
        match try_writing(&path) {
            // Existing data stays readable; writers get the error from Redis and the database.
            Err(why) if is_full(&why) && lock_path.exists() => {}
            other => other.map_err(DataDirError::of(&path))?,
        }
        let lock = flock::open(&lock_path).map_err(DataDirError::of(&lock_path))?;
        let socket = socket_for(&path)?;
        let dir = Self(Arc::new(Inner { path, socket, lock, id, temporary }));
        dir.enter()?;
        Ok(dir)
    }

    /// Registers as a user of the directory, once.
    pub(super) fn enter(&self) -> Result<(), DataDirError> {
        let started = Instant::now();
        while !flock::try_shared(&self.0.lock).map_err(DataDirError::of(&self.0.path))? {
            if started.elapsed() > STOP_TIMEOUT {
                let (path, seconds) = (self.0.path.as_path(), STOP_TIMEOUT.as_secs());
                return Err(DataDirError(reason!("redis-data-dir-closing", path, seconds)));
            }
            std::thread::sleep(Duration::from_millis(3));
        }
        Ok(())
    }

    /// Unregisters as a user. Runs `last` before any new user is admitted, if this was the last one.
    ///
    /// If several leave at once, exactly the last one runs it: the upgrade to an exclusive lock fails for the others,
    /// which lose their shared lock and never take it back.
    pub(super) fn leave<T>(&self, last: impl FnOnce() -> T) -> Option<T> {
        let done = flock::try_exclusive(&self.0.lock).unwrap_or(false).then(last);
        flock::release(&self.0.lock);
        done
    }

    /// Absolute path without symbolic links.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Checks that the path still leads to the directory that was opened.
    pub(super) fn check(&self) -> Result<(), DataDirError> {
        self.0.id.check(&self.0.path)
    }

    /// URL of the SQLite database in it.
    pub fn database_url(&self) -> String {
        let path = self.0.path.join("seckill.db");
        format!("sqlite:{}", percent_encode(path.as_os_str().as_bytes(), PLAIN))
    }

    /// Directory of the server's files.
    pub fn redis_dir(&self) -> PathBuf {
        self.0.path.join("redis")
    }

    /// Socket of the server: `redis.sock` in this directory, or in one with a shorter path.
    pub fn socket_path(&self) -> &Path {
        &self.0.socket
    }

    /// Log file of the program.
    pub fn log_path(&self) -> PathBuf {
        self.0.path.join("seckill.log")
    }

    /// Takes the lowest slot, from 1, that no live process on this directory holds.
    pub fn node_slot(&self) -> Result<NodeSlot, DataDirError> {
        let nodes = self.slots();
        make_dir(&nodes)?;
        for number in 1..=MAX_NODES {
            let path = nodes.join(number.to_string());
            let file = flock::open(&path).map_err(DataDirError::of(&path))?;
            if flock::try_exclusive(&file).map_err(DataDirError::of(&path))? {
                return Ok(NodeSlot { number, file });
            }
        }
        let path = self.0.path.as_path();
        Err(DataDirError(reason!("redis-data-dir-crowded", path, nodes = MAX_NODES)))
    }

    /// Whether the process with this ID, which it has written to its slot, has certainly ended: another one has taken the
    /// slot since, or the lock is free.
    pub fn has_ended(&self, instance: &str) -> bool {
        let Ok(slots) = fs::read_dir(self.slots()) else { return false };
        slots.flatten().any(|slot| {
            let holders = fs::read_to_string(slot.path()).unwrap_or_default();
            match holders.lines().rev().position(|it| it == instance) {
                // A later process may hold the slot without having written its ID; then the lock is not free.
                Some(0) => flock::open(&slot.path()).is_ok_and(|file| flock::is_free(&file)),
                found => found.is_some(),
            }
        })
    }

    fn slots(&self) -> PathBuf {
        self.0.path.join("nodes")
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.temporary.is_some() {
            // A server cannot run without its directory.
            temp_data_dir::stop_server(&self.path, &self.socket);
        }
        flock::release(&self.lock);
    }
}

/// Device and inode of an open directory, because its path may be replaced or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirId(u64, u64);

impl DirId {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        Ok(Self(found.dev(), found.ino()))
    }

    /// Checks that `path` still leads to this directory. A path that cannot be examined counts as unchanged.
    pub(super) fn check(self, path: &Path) -> Result<(), DataDirError> {
        use io::ErrorKind::{NotADirectory, NotFound};
        let gone = match Self::of(path) {
            Ok(id) => id != self,
            Err(error) => matches!(error.kind(), NotFound | NotADirectory),
        };
        if gone { Err(DataDirError(reason!("redis-data-dir-gone", path))) } else { Ok(()) }
    }
}

/// Slot of a process on a data directory, held until the process ends in any way.
#[derive(Debug)]
pub struct NodeSlot {
    number: u32,
    file: File,
}

impl NodeSlot {
    /// Slot number, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Writes the ID of this process to the slot, after that of the previous node.
    pub fn write_instance(&self, instance: &str) -> io::Result<()> {
        let (mut file, mut before) = (&self.file, String::new());
        file.read_to_string(&mut before)?;
        file.set_len(0)?;
        file.rewind()?;
        write!(file, "{}\n{instance}", before.lines().next_back().unwrap_or_default())
    }
}

impl Drop for NodeSlot {
    fn drop(&mut self) {
        flock::release(&self.file);
    }
}

/// Tests by writing: permissions and flags do not show a full disk, a quota or a network share.
fn try_writing(dir: &Path) -> io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".probe-").tempfile_in(dir)?;
    file.write_all(b"seckill")?;
    file.flush()
}

/// Characters of a path that a URL contains as they are.
const PLAIN: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');
