//! The managed server's log: its length, and its last messages.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// A longer log is truncated.
const LOG: u64 = 1024 * 1024;

/// The server's log, and its length at the start.
pub(super) fn open(path: &Path) -> io::Result<(File, u64)> {
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let mut length = log.metadata()?.len();
    if length > LOG {
        log.set_len(0)?;
        length = 0;
    }
    Ok((log, length))
}

/// Returns what was written after the first `from` bytes.
pub(super) fn since(log: &Path, from: u64) -> io::Result<String> {
    let mut file = File::open(log)?;
    file.seek(SeekFrom::Start(from))?;
    let mut words = Vec::new();
    file.take(LOG).read_to_end(&mut words)?;
    Ok(String::from_utf8_lossy(&words).into_owned())
}

/// Last warnings of a log (`pid:M date # words`), or its last lines if it has none; `None` for an empty log.
pub(super) fn told_in_one_line(words: &str) -> Option<String> {
    let warnings: Vec<&str> =
        words.lines().filter_map(|line| Some(line.split_once(" # ")?.1.trim())).collect();
    let plain: Vec<&str> = words.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let told = if warnings.is_empty() { plain } else { warnings };
    let told = told.get(told.len().saturating_sub(2)..).unwrap_or_default().join("; ");
    (!told.is_empty()).then_some(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_messages_are_the_warnings() {
        let log =
            "7:M 21 Nov 2026 05:00:00.1 * Ready\n7:M 21 Nov 2026 05:00:00.2 # Failed opening\n";
        let told = |words| told_in_one_line(words).unwrap_or_default();
        assert_eq!(told(log), "Failed opening");
        assert_eq!(told("\n*** FATAL ***\nBad directive\n"), "*** FATAL ***; Bad directive");
        assert_eq!(told_in_one_line(""), None);
    }
}
