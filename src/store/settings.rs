//! Settings of the store, and the reasons for their defaults.

use std::{path::PathBuf, time::Duration};

use seckill_model::settings;
use serde::Deserialize;
use strum::VariantNames;

settings! {
    /// Settings of the connections to the database. For SQLite only `synchronous` applies.
    "store" Settings {
        /// Maximum number of connections of this process. One writes batches, the others serve screens and jobs.
        pub pool: u32 = 8, 2..=1_000;
        /// Timeout of a new connection, in milliseconds.
        pub connect_ms: u64 = 5_000, 100..=600_000;
        /// How long a task waits for a connection from the pool, in milliseconds.
        pub acquire_ms: u64 = 5_000, 100..=600_000;
        /// Timeout of one statement in milliseconds; twice as long for a transaction. Well below the time after
        /// which another node claims a batch.
        pub statement_ms: u64 = 10_000, 100..=600_000;
        /// Whether the connection is encrypted; an explicit URL parameter takes precedence.
        pub tls: Tls = Tls::Prefer;
        /// CA certificates (PEM) that are trusted in addition to those of the system.
        pub ca: Option<PathBuf> = None;
        /// When SQLite syncs a commit to disk.
        pub synchronous: Synchronous = Synchronous::Full;
    }
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

impl Settings {
    /// Timeout of a new connection.
    pub(super) fn connect(&self) -> Duration {
        Duration::from_millis(self.connect_ms)
    }

    /// Timeout of a transaction.
    pub(super) fn transaction(&self) -> Duration {
        Duration::from_millis(self.statement_ms * 2)
    }
}
