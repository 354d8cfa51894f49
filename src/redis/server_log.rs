//! The managed server's log: its length, and its last messages.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// A longer log is truncated.
const MAX_LEN: u64 = 1024 * 1024;

/// The server's log, and its length at the start.
pub(super) fn open(path: &Path) -> io::Result<(File, u64)> {
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let mut length = log.metadata()?.len();
    if length > MAX_LEN {
        log.set_len(0)?;
        length = 0;
    }
    Ok((log, length))
}

/// Returns what was written after the first `from` bytes.
pub(super) fn since(log: &Path, from: u64) -> io::Result<String> {
    let mut file = File::open(log)?;
    file.seek(SeekFrom::Start(from))?;
    let mut log = Vec::new();
    file.take(MAX_LEN).read_to_end(&mut log)?;
    Ok(String::from_utf8_lossy(&log).into_owned())
}

/// Last warnings of a log (`pid:M date # message`), or its last lines if it has none; `None` for an empty log.
pub(super) fn summary(log: &str) -> Option<String> {
    let warnings: Vec<&str> =
        log.lines().filter_map(|line| Some(line.split_once(" # ")?.1.trim())).collect();
    let plain: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let lines = if warnings.is_empty() { plain } else { warnings };
    let lines = lines.get(lines.len().saturating_sub(2)..).unwrap_or_default().join("; ");
    (!lines.is_empty()).then_some(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_messages_are_the_warnings() {
        let log =
            "7:M 21 Nov 2026 05:00:00.1 * Ready\n7:M 21 Nov 2026 05:00:00.2 # Failed opening\n";
        let last = |log| summary(log).unwrap_or_default();
        assert_eq!(last(log), "Failed opening");
        assert_eq!(last("\n*** FATAL ***\nBad directive\n"), "*** FATAL ***; Bad directive");
        assert_eq!(summary(""), None);
    }
}
