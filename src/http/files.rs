//! The limit of open files of this process, and how many of them connections of clients may take.
//!
//! Each connection is a file. Without a reserve, a crowd of clients would leave none for the connections of the engine to
//! Redis and the database: locks would not be renewed, and orders not written.

use std::io;

use rlimit::Resource;

use crate::HttpSettings;

/// More than any number of connections that can be set. In containers, the hard limit is often a billion, and programs that
/// this one starts may prepare for as many files as they may open.
const ENOUGH: u64 = 1 << 21;
/// Files of a node: connections to Redis and the database, SQLite, the log, the runtime, and programs that it starts. With one
/// partition, it has about 50.
const ENGINE: u64 = 256;
/// Files of each partition: its admission and its consumer have connections of their own, in a cluster to each server.
const PARTITION: u64 = 16;

/// Raises the soft limit to the hard one; shells and service managers set a low one for programs that use `select`.
///
/// # Errors
/// The system refuses it; the limit stays as it was.
pub fn raise_limit() -> io::Result<()> {
    rlimit::increase_nofile_limit(ENOUGH).map(drop)
}

/// How many files this process may open.
pub fn limit() -> u64 {
    Resource::NOFILE.get_soft().unwrap_or(u64::MAX)
}

/// How many connections of clients a node may have with this number of partitions, and with this limit of open files: as
/// the settings allow, but only what the engine leaves.
pub fn connections(settings: &HttpSettings, partitions: u16, limit: u64) -> usize {
    let left = limit.saturating_sub(ENGINE + PARTITION * u64::from(partitions));
    settings.connections.min(usize::try_from(left).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_to_the_engine() {
        let settings = HttpSettings::default();
        let of = |partitions, limit| connections(&settings, partitions, limit);
        assert_eq!([of(1, 1_024), of(8, 1_024)], [752, 640]);
        assert_eq!([of(64, 20_000), of(1, u64::MAX)], [settings.connections; 2]);
        assert_eq!([of(1, 100), of(64, 1_024)], [0; 2]);
    }
}
