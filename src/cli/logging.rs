//! The log file in the data dir. Terminals and stdout belong to the program's answers.

use std::{fs::OpenOptions, path::Path, sync::Mutex};

use tracing_subscriber::EnvFilter;

/// A larger file is set aside when the next program starts.
const LARGE: u64 = 16 * 1024 * 1024;

/// Sends log lines to `path`; how much is said follows from `SECKILL_LOG` (default `info`). A log that
/// can't be written is no reason not to run a sale.
pub(super) fn to_file(path: &Path) {
    if path.metadata().is_ok_and(|meta| meta.len() > LARGE) {
        let _ = std::fs::rename(path, path.with_extension("log.1"));
    }
    let Ok(file) = OpenOptions::new().create(true).append(true).open(path) else { return };
    let filter =
        EnvFilter::try_from_env("SECKILL_LOG").unwrap_or_else(|_| EnvFilter::new("info,sqlx=warn"));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .log_internal_errors(false);
    // A second start in one process (tests) keeps the first one's file.
    let _ = lines.with_writer(Mutex::new(file)).try_init();
}
