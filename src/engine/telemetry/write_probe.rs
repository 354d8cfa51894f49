//! Whether the database accepts writes, which a successful read does not prove. Probed concurrently, without delaying a
//! snapshot.

use std::time::Duration;

use seckill_store::{SharedStore, StoreError};
use tokio::task::{JoinError, JoinSet};

use crate::{EngineError, Result};

/// Time limit of one probe; the database itself waits one second for a lock.
const PROBE_TIMEOUT_MS: u64 = 3_000;
/// A disk that stalls delays one commit and not the next, so a single failed probe is not reported.
const PROBES: u32 = 2;

/// Probes whether the database accepts writes; only a second failure in a row counts.
pub async fn takes_writes(store: &SharedStore) -> Result<()> {
    let mut result = Ok(());
    for _ in 0..PROBES {
        let probe =
            tokio::time::timeout(Duration::from_millis(PROBE_TIMEOUT_MS), store.takes_writes());
        result = if let Ok(result) = probe.await {
            result.map_err(EngineError::from)
        } else {
            let name = store.describe();
            Err(StoreError::Silent { name, millis: PROBE_TIMEOUT_MS }.into())
        };
        if result.is_ok() {
            break;
        }
    }
    result
}

/// The pending probe, one at a time; it is cancelled on drop.
#[derive(Debug, Default)]
pub(super) struct WriteProbe(JoinSet<Result<()>>);

impl WriteProbe {
    /// Returns the result of a finished probe and starts the next one, without waiting.
    pub(super) fn ask(&mut self, store: &SharedStore) -> Option<Result<()>> {
        let ended = self.0.try_join_next();
        if self.0.is_empty() {
            let store = SharedStore::clone(store);
            self.0.spawn(async move { takes_writes(&store).await });
        }
        probe_result(ended?)
    }

    /// Waits for the result of the pending probe, if there is one.
    pub(super) async fn answer(&mut self) -> Option<Result<()>> {
        probe_result(self.0.join_next().await?)
    }
}

fn probe_result(ended: Result<Result<()>, JoinError>) -> Option<Result<()>> {
    ended
        .inspect_err(|error| tracing::error!(%error, "the write probe panicked or was cancelled"))
        .ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use seckill_store::StoreError;
    use seckill_store::{self, fault_injection::Ill};

    async fn open(dir: &tempfile::TempDir) -> SharedStore {
        let url = format!("sqlite:{}", dir.path().join("t.db").display());
        seckill_store::open(&url, &seckill_store::Settings::default()).await.unwrap()
    }

    #[tokio::test]
    async fn a_single_failed_probe_is_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let (store, fault) = open(&dir).await.with_faults(7);
        fault.set(Ill::Away);
        assert!(matches!(takes_writes(&store).await, Err(EngineError::Store(StoreError::Away(_)))));
        assert_eq!(fault.failed(), u64::from(PROBES), "it was probed again");

        fault.set(Ill::Hangs(Duration::from_millis(50)));
        let asked = {
            let store = Arc::clone(&store);
            tokio::spawn(async move { takes_writes(&store).await })
        };
        tokio::task::yield_now().await;
        fault.set(Ill::Not);
        asked.await.unwrap().unwrap();
        assert_eq!(fault.failed(), u64::from(PROBES) + 1, "the first probe failed");
        store.close().await;
    }

    #[tokio::test]
    async fn probing_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let (store, fault) = open(&dir).await.with_faults(7);
        fault.set(Ill::Hangs(Duration::from_millis(50)));
        let mut writes = WriteProbe::default();
        assert_eq!(writes.ask(&store), None);
        assert_eq!(writes.ask(&store), None, "the same probe is pending");
        assert!(matches!(
            writes.answer().await,
            Some(Err(EngineError::Store(StoreError::Away(_))))
        ));
        assert_eq!(fault.failed(), u64::from(PROBES), "it was probed once");
        assert_eq!(writes.answer().await, None, "no probe is pending");
        store.close().await;
    }
}
