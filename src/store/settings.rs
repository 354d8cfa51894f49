//! Settings of the store, and the reasons for their defaults.

use std::{path::PathBuf, time::Duration};

use seckill_model::NumericSetting;
use serde::Deserialize;
use strum::VariantNames;

/// Settings of the connections to the database. For SQLite only `synchronous` applies.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Maximum number of connections of this process. One writes batches, the others serve screens and jobs.
    pub pool: u32,
    /// Timeout of a new connection, in milliseconds.
    pub connect_ms: u64,
    /// How long a task waits for a connection from the pool, in milliseconds.
    pub acquire_ms: u64,
    /// Timeout of one statement in milliseconds; twice as long for a transaction. Well below the time after which
    /// another node claims a batch.
    pub statement_ms: u64,
    /// Whether the connection is encrypted; an explicit URL parameter takes precedence.
    pub tls: Tls,
    /// CA certificates (PEM) that are trusted in addition to those of the system.
    pub ca: Option<PathBuf>,
    /// When SQLite syncs a commit to disk.
    pub synchronous: Synchronous,
}

/// Whether a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Tls {
    /// Never.
    Off,
    /// If the server supports it; an active attacker can prevent it.
    Prefer,
    /// Always, without verifying the server's certificate.
    Require,
    /// Always, with a certificate that is valid for the host.
    Verify,
}

/// When SQLite syncs a commit to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Synchronous {
    /// At its end: an acknowledgement in Redis follows it.
    Full,
    /// At the next checkpoint: a power loss may lose acknowledged orders.
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
    /// The numbers.
    pub fn numbers(&self) -> [NumericSetting; 4] {
        [
            // One for writes, one for reads.
            ("store.pool", u64::from(self.pool), 2..=1_000),
            ("store.connect_ms", self.connect_ms, 100..=600_000),
            ("store.acquire_ms", self.acquire_ms, 100..=600_000),
            ("store.statement_ms", self.statement_ms, 100..=600_000),
        ]
    }

    /// Timeout of a new connection.
    pub(super) fn connect(&self) -> Duration {
        Duration::from_millis(self.connect_ms)
    }

    /// Timeout of a transaction.
    pub(super) fn transaction(&self) -> Duration {
        Duration::from_millis(self.statement_ms * 2)
    }
}
