//! A store that fails on demand, for tests, the demo and drills: as if its database were unavailable, hung, were slow,
//! or failed at the commit.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use rand::{RngExt as _, SeedableRng as _, rngs::ChaCha8Rng};
use seckill_model::{Reason, reason};

use crate::{Result, StoreError};

/// Injected fault.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Ill {
    /// None.
    #[default]
    Not,
    /// It refuses connections: every request fails at once.
    Away,
    /// It accepts requests without replying; each one times out after this time.
    Hangs(Duration),
    /// Each request takes this much longer.
    Slow(Duration),
    /// The connection breaks at the commit: this fraction of the writes, 0 to 1, is done or not, with unknown
    /// outcome.
    Unsure(f64),
}

/// Controls the fault of its store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Illness(Arc<State>);

#[derive(Debug)]
struct State {
    now: Mutex<(Ill, ChaCha8Rng)>,
    failed: AtomicU64,
}

impl Illness {
    pub(super) fn new(seed: u64) -> Self {
        let now = Mutex::new((Ill::Not, ChaCha8Rng::seed_from_u64(seed)));
        Self(Arc::new(State { now, failed: AtomicU64::new(0) }))
    }

    /// Sets the fault of future requests; requests in progress are not affected.
    pub fn set(&self, ill: Ill) {
        self.0.now.lock().0 = ill;
    }

    /// Number of requests that failed because of it.
    pub fn failed(&self) -> u64 {
        self.0.failed.load(Ordering::Relaxed)
    }

    /// Runs a unit of work under the fault.
    pub(super) async fn apply<T>(
        &self,
        writes: bool,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let (ill, unknown) = {
            let mut now = self.0.now.lock();
            let (ill, random) = &mut *now;
            let unknown = match *ill {
                Ill::Unsure(share) if writes => random.random_bool(share.clamp(0.0, 1.0)),
                _ => false,
            };
            (*ill, unknown.then(|| random.random_bool(0.5)))
        };
        match (ill, unknown) {
            (Ill::Away, _) => self.fail(StoreError::Away),
            (Ill::Hangs(bound), _) => {
                tokio::time::sleep(bound).await;
                self.fail(StoreError::Away)
            }
            (Ill::Slow(by), _) => {
                tokio::time::sleep(by).await;
                work.await
            }
            (Ill::Unsure(_), Some(is_done)) => {
                if is_done {
                    work.await?;
                }
                self.fail(StoreError::Unknown)
            }
            (Ill::Not | Ill::Unsure(_), _) => work.await,
        }
    }

    fn fail<T>(&self, error: fn(Reason) -> StoreError) -> Result<T> {
        self.0.failed.fetch_add(1, Ordering::Relaxed);
        Err(error(reason!("store-reason-drill")))
    }
}

#[cfg(test)]
mod tests {
    use seckill_model::{Millis, VoucherDetails};

    use super::*;
    use crate::{Settings, open};

    #[tokio::test]
    async fn injected_faults_fail_and_recover() {
        let files = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", files.path().join("t.db").display());
        let inner = open(&url, &Settings::default()).await.unwrap();
        let (store, illness) = inner.with_faults(7);
        illness.set(Ill::Away);
        assert!(matches!(store.ping().await, Err(StoreError::Away(_))));
        illness.set(Ill::Hangs(Duration::from_millis(1)));
        assert!(matches!(store.sales().await, Err(StoreError::Away(_))));
        assert_eq!(illness.failed(), 2);
        illness.set(Ill::Unsure(1.0));
        for _ in 0..40 {
            let answer = store.create_voucher(&VoucherDetails::titled("v"), Millis(0)).await;
            assert!(matches!(answer, Err(StoreError::Unknown(_))));
        }
        assert!(store.ping().await.is_ok(), "a read is never in doubt");
        illness.set(Ill::Not);
        let done = store.vouchers(None, 99).await.unwrap().len();
        assert!((10..=30).contains(&done), "{done} of 40 were done");
    }
}
