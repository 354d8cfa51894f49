//! Whether the database accepts writes, which reads do not show. Probed concurrently, without delaying a snapshot.
//!
//! It does not know what is read or written.

use std::time::Duration;

use seckill_store::SharedStore;
use tokio::task::{JoinError, JoinSet};

use super::read_error::Unread;

/// Time limit of one probe; the database itself waits one second for a lock.
const PATIENCE_MS: u64 = 3_000;
/// A disk that stalls delays one commit and not the next, so a single failed probe is not reported.
const LOOKS: u32 = 2;

/// Probes whether the database accepts writes; only a second failure in a row counts.
///
/// # Errors
/// The cause, if every probe failed.
pub async fn takes_writes(store: &SharedStore) -> Result<(), Unread> {
    let mut told = Ok(());
    for _ in 0..LOOKS {
        let look = tokio::time::timeout(Duration::from_millis(PATIENCE_MS), store.takes_writes());
        told = match look.await {
            Ok(told) => told.map_err(Unread::from),
            Err(_) => Err(Unread::SqlSilent(store.describe(), PATIENCE_MS)),
        };
        if told.is_ok() {
            break;
        }
    }
    told
}

/// The pending probe, one at a time; it is cancelled on drop.
#[derive(Debug, Default)]
pub(super) struct Writes(JoinSet<Result<(), Unread>>);

impl Writes {
    /// Returns the result of a finished probe and starts the next one, without waiting.
    pub(super) fn ask(&mut self, store: &SharedStore) -> Option<Result<(), Unread>> {
        let ended = self.0.try_join_next();
        if self.0.is_empty() {
            let store = SharedStore::clone(store);
            self.0.spawn(async move { takes_writes(&store).await });
        }
        told(ended?)
    }

    /// Waits for the result of the pending probe, if there is one.
    pub(super) async fn answer(&mut self) -> Option<Result<(), Unread>> {
        told(self.0.join_next().await?)
    }
}

fn told(ended: Result<Result<(), Unread>, JoinError>) -> Option<Result<(), Unread>> {
    ended.inspect_err(|error| tracing::error!(%error, "the look for a lock broke down")).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use seckill_store::StoreError;
    use seckill_store::{
        self,
        fault_injection::{Ill, faulty},
    };

    async fn open(dir: &tempfile::TempDir) -> SharedStore {
        let url = format!("sqlite:{}", dir.path().join("t.db").display());
        seckill_store::open(&url, &seckill_store::Settings::default()).await.unwrap()
    }

    #[tokio::test]
    async fn one_look_in_vain_is_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let (store, illness) = faulty(open(&dir).await, 7);
        illness.set(Ill::Away);
        assert!(matches!(takes_writes(&store).await, Err(Unread::Sql(StoreError::Away(_)))));
        assert_eq!(illness.failed(), u64::from(LOOKS), "it looked again");

        illness.set(Ill::Hangs(Duration::from_millis(50)));
        let asked = {
            let store = Arc::clone(&store);
            tokio::spawn(async move { takes_writes(&store).await })
        };
        tokio::task::yield_now().await;
        illness.set(Ill::Not);
        asked.await.unwrap().unwrap();
        assert_eq!(illness.failed(), u64::from(LOOKS) + 1, "the first look was in vain");
        store.close().await;
    }

    #[tokio::test]
    async fn nobody_waits_for_an_answer() {
        let dir = tempfile::tempdir().unwrap();
        let (store, illness) = faulty(open(&dir).await, 7);
        illness.set(Ill::Hangs(Duration::from_millis(50)));
        let mut writes = Writes::default();
        assert_eq!(writes.ask(&store), None);
        assert_eq!(writes.ask(&store), None, "the same question is under way");
        assert!(matches!(writes.answer().await, Some(Err(Unread::Sql(StoreError::Away(_))))));
        assert_eq!(illness.failed(), u64::from(LOOKS), "it was asked once");
        assert_eq!(writes.answer().await, None, "nothing is under way");
        store.close().await;
    }
}
