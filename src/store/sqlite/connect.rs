//! Opens a store in a file: checks the directory, the file and the schema, each with a specific error.
//!
//! The file is opened only through SQLite: closing any other descriptor would release the locks that SQLite holds on it
//! in this process.

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    fs::{Access, access},
    io::Errno,
};
use seckill_model::{OsError, Reason, reason};
use sqlx::{
    Connection, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use super::{
    READ, SqliteFile, TURN,
    file::{OpenFile, unreadable, unusable},
    full_disk::{self, FullDiskReader},
    lock::Lock,
    sessions,
    wal::{AUTOCHECKPOINT, Wal},
};
use crate::{
    DEPLOYMENT, Fault, Opening, Result, Sessions, StoreError,
    dialect::sqlite::{SQLITE, is_busy, is_no_room_for_index, store_error_at_open},
    migrations,
    schema::{self, State},
    settings::{Settings, Synchronous},
};

/// How long a statement waits for another process' write lock.
const BUSY: Duration = Duration::from_secs(5);
/// Timeout of a transaction, including its wait: a hanging disk must not block a task forever.
const WRITE: Duration = Duration::from_mins(1);
const READERS: u32 = 4;

/// Opens the file at `path`, creates it if it is missing, and upgrades its schema.
///
/// Returns its name, the connections that write, and the file.
pub(crate) async fn open(
    path: &Path,
    settings: &Settings,
    opening: &Opening,
) -> Result<(String, Sessions, SqliteFile)> {
    let path = std::path::absolute(path).map_err(|why| StoreError::File(unusable(path, why)))?;
    check_place(&path).map_err(StoreError::File)?;
    // Switching a new file to WAL needs exclusive access and does not wait, so the second of two processes that start
    // together retries.
    let started = Instant::now();
    loop {
        match open_once(&path, settings, opening).await {
            Err(Fault::Sql(fault)) if is_busy(&fault) && started.elapsed() < BUSY => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok(opened) => return Ok(opened),
            Err(Fault::Sql(fault)) => return Err(store_error_at_open(fault, &path)),
            Err(fault) => return Err(fault.store_error(&SQLITE)),
        }
    }
}

async fn open_once(
    path: &PathBuf,
    settings: &Settings,
    opening: &Opening,
) -> Result<(String, Sessions, SqliteFile), Fault> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .foreign_keys(true)
        .busy_timeout(BUSY)
        // With small buffers, the two threads of a connection would wait for each other.
        .row_buffer_size(1024);
    let (migrator, shown) = (&*migrations::SQLITE, format!("sqlite {}", path.display()));
    let (mut full, mut needs_upgrade) = (false, true);
    if path.metadata().is_ok_and(|it| it.len() > 0) {
        // Examined first: switching to WAL would rewrite a file that may belong to another program.
        let seen = match inspect(&options, path, opening).await {
            Err(Fault::Sql(fault)) if is_no_room_for_index(&fault) => {
                full = true;
                inspect(&full_disk::options(options.clone()), path, opening).await
            }
            seen => seen,
        };
        needs_upgrade = seen?;
    } else {
        opening.needs_upgrade(migrator, &shown, State::Missing, None)?;
    }
    let writing = options
        .clone()
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(match settings.synchronous {
            Synchronous::Full => SqliteSynchronous::Full,
            Synchronous::Normal => SqliteSynchronous::Normal,
        })
        // Buyers arrive in random order, so a batch touches pages all over their index: keep them in memory (up to
        // 256 MiB, the index of ten million), and checkpoint less often.
        .pragma("cache_size", "-262144")
        .pragma("wal_autocheckpoint", AUTOCHECKPOINT)
        // A batch is one statement, which is undone from a statement journal. In a temporary file that is nearly as
        // much to write as the log; in memory it is at most the touched pages.
        .pragma("temp_store", "memory");
    // A current file can also be opened while another program keeps it locked, or its disk is full.
    if needs_upgrade {
        let first = writing.clone().create_if_missing(true);
        let mut conn = SqliteConnection::connect_with(&first).await?;
        // SQLite has no lock for migrations; the write lock serves, and makes them atomic.
        let mut tx = conn.begin_with("BEGIN IMMEDIATE").await?;
        examine(&mut tx, path, opening).await?;
        let migrated = migrator.run_direct(None, &mut *tx, false).await;
        migrated.map_err(|error| schema::fault(migrator, &SQLITE, error))?;
        tx.commit().await?;
        conn.close().await?;
    }
    let lock = Lock::new(options.clone());
    // None of these creates the file: its removal during use must be noticed.
    let writer = sessions(writing, 1, TURN, WRITE);
    let full_disk = full.then(|| FullDiskReader::new(options.clone()));
    let readers = sessions(options.read_only(true), READERS, TURN, READ);
    let file = OpenFile::at(path)?;
    let file = SqliteFile { file, wal: Wal::beside(path), readers, full_disk, lock };
    Ok((shown, writer, file))
}

/// Examines a file on a separate connection.
async fn inspect(
    options: &SqliteConnectOptions,
    path: &Path,
    opening: &Opening,
) -> Result<bool, Fault> {
    let mut conn = SqliteConnection::connect_with(options).await?;
    let seen = examine(&mut conn, path, opening).await;
    conn.close().await?;
    seen
}

/// Rejects a database with tables of another program, of a newer seckill or of another deployment; returns whether the
/// schema has to be upgraded.
async fn examine(
    conn: &mut SqliteConnection,
    path: &Path,
    opening: &Opening,
) -> Result<bool, Fault> {
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
         ORDER BY name",
    )
    .fetch_all(&mut *conn)
    .await?;
    let (migrator, shown) = (&*migrations::SQLITE, path.display().to_string());
    let state = schema::state(conn, migrator, &SQLITE, &shown, &tables).await?;
    let has_settings = tables.iter().any(|table| table == "tb_setting");
    let query = "SELECT value FROM tb_setting WHERE name = $1";
    let name: Option<String> = if has_settings {
        sqlx::query_scalar(query).bind(DEPLOYMENT).fetch_optional(conn).await?
    } else {
        None
    };
    Ok(opening.needs_upgrade(migrator, &shown, state, name.as_deref())?)
}

/// Checks of a path before SQLite sees it, for better messages than its own.
fn check_place(path: &Path) -> Result<(), Reason> {
    if path.to_str().is_none() {
        return Err(reason!("store-is-not-utf-which-sqlite", path));
    }
    let parent = path.parent().unwrap_or(path);
    match parent.metadata() {
        Ok(it) if !it.is_dir() => {
            return Err(reason!("store-is-not-directory-give-another", path = parent));
        }
        Ok(_) => {}
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            return Err(reason!("store-directory-does-not-exist-create", path = parent));
        }
        Err(why) => {
            return Err(reason!("store-file-closed", path = parent, reason = OsError::from(why)));
        }
    }
    match path.metadata() {
        Ok(it) if !it.is_file() => return Err(reason!("store-file-not-a-file", path)),
        Ok(_) => writable(path, Access::READ_OK | Access::WRITE_OK)?,
        Err(why) if why.kind() == io::ErrorKind::NotFound => {}
        Err(why) => return Err(unreadable(path, why)),
    }
    // SQLite keeps its write-ahead log in the same directory.
    writable(parent, Access::WRITE_OK | Access::EXEC_OK)
}

fn writable(path: &Path, how: Access) -> Result<(), Reason> {
    match access(path, how) {
        Ok(()) => Ok(()),
        Err(Errno::ROFS) => Err(reason!("store-file-read-only-system", path)),
        Err(Errno::ACCESS | Errno::PERM) => Err(reason!("store-file-denied", path)),
        Err(why) => Err(unusable(path, why)),
    }
}
