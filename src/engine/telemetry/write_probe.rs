//! Whether the database takes writes, which reading it does not tell: asked beside the pictures, none of which waits.
//!
//! It must not know what is read or written.

use std::time::Duration;

use seckill_store::SharedStore;
use tokio::task::{JoinError, JoinSet};

use super::read_error::Unread;

/// Bound on one look; the database itself waits for a lock for a second.
const PATIENCE_MS: u64 = 3_000;
/// A disk that stalls holds up one commit and not the next, so that one look in vain is no lock yet.
const LOOKS: u32 = 2;

/// Asks whether the database takes writes; what stands in the way counts from the second look in a row.
///
/// # Errors
/// What stood in the way of each look.
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

/// The question that is under way, one at a time; it ends with this.
#[derive(Debug, Default)]
pub(super) struct Writes(JoinSet<Result<(), Unread>>);

impl Writes {
    /// The answer to a question that has ended, and asks the next one. Waits for nothing.
    pub(super) fn ask(&mut self, store: &SharedStore) -> Option<Result<(), Unread>> {
        let ended = self.0.try_join_next();
        if self.0.is_empty() {
            let store = SharedStore::clone(store);
            self.0.spawn(async move { takes_writes(&store).await });
        }
        told(ended?)
    }

    /// Waits for the answer to the question that is under way, if there is one.
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
