//! What of the store can be set, and why the defaults are what they are.

use std::{path::PathBuf, time::Duration};

use serde::Deserialize;

use seckill_model::OutOfRange;

/// Settings of the connections to the database. SQLite, a file, heeds `synchronous` only.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Most connections of this process. One writes batches, the others answer screens and jobs.
    pub pool: u32,
    /// Milliseconds in which the server has to let a new process in.
    pub connect_ms: u64,
    /// Milliseconds that a task waits for a connection, an idle one or a new one.
    pub acquire_ms: u64,
    /// Milliseconds that one statement may take; twice as long for all of a transaction. Well below the
    /// time after which another node takes a batch over.
    pub statement_ms: u64,
    /// Whether the connection is encrypted; a URL that says so itself is heeded.
    pub tls: Tls,
    /// Certificates (PEM) that are trusted beside the system's.
    pub ca: Option<PathBuf>,
    /// When SQLite has a commit on the disk.
    pub synchronous: Synchronous,
}

/// Whether a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tls {
    /// Never.
    Off,
    /// If the server can; a stranger on the wire may prevent it.
    Prefer,
    /// Always, without a check of the server's certificate.
    Require,
    /// Always, and the server's certificate has to be good for its host.
    Verify,
}

/// When SQLite has a commit on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Synchronous {
    /// At its end: an acknowledgement in Redis follows it.
    Full,
    /// At the next checkpoint: a power loss may cost orders that were acknowledged.
    Normal,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pool: 8,
            connect_ms: 5_000,
            acquire_ms: 5_000,
            statement_ms: 10_000,
            tls: Tls::Prefer,
            ca: None,
            synchronous: Synchronous::Full,
        }
    }
}

impl Settings {
    /// Refuses what no store can work with.
    ///
    /// # Errors
    /// The first setting that lies outside its range.
    pub fn check(&self) -> Result<(), OutOfRange> {
        let ranges = [
            // One writes while another answers.
            ("pool", u64::from(self.pool), 2, 1_000),
            ("connect_ms", self.connect_ms, 100, 600_000),
            ("acquire_ms", self.acquire_ms, 100, 600_000),
            ("statement_ms", self.statement_ms, 100, 600_000),
        ];
        OutOfRange::check("store.", &ranges)
    }

    /// In which the server has to let a new process in.
    pub(super) fn connect(&self) -> Duration {
        Duration::from_millis(self.connect_ms)
    }

    /// That a task waits for a connection.
    pub(super) fn acquire(&self) -> Duration {
        Duration::from_millis(self.acquire_ms)
    }

    /// That all of a transaction may take.
    pub(super) fn transaction(&self) -> Duration {
        Duration::from_millis(self.statement_ms * 2)
    }
}
