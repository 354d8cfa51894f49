//! A store wrapper that fails on demand, for tests, the demo and drills.
//!
//! Independent of dialects: it behaves like a store whose database is unavailable, hangs, is slow, or fails at the
//! commit.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use seckill_model::{
    ClosedOrder, Fence, JobRun, JobSwitch, LiveOrder, Millis, NewRun, NewSale, Order, OrderCounts,
    OrderEntry, OrderFilter, OrderId, Payment, RunEnd, Sale, SaleState, UserId, Voucher,
    VoucherDetails, VoucherId, ledger::SqlLedger,
};

use super::{
    Act, ActivityFilter, Cancelled, OrderFlow, Place, Reason, Recorded, SharedStore, Store,
    StoreError, Written,
};

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

/// Effect on one request.
#[derive(Clone, Copy)]
enum Effect {
    Pass(Duration),
    Fail(Duration),
    DoneUnknown,
    UndoneUnknown,
}

impl Illness {
    /// Sets the fault of future requests; requests in progress are not affected.
    pub fn set(&self, ill: Ill) {
        self.0.now.lock().unwrap_or_else(PoisonError::into_inner).0 = ill;
    }

    /// Number of requests that failed because of it.
    pub fn failed(&self) -> u64 {
        self.0.failed.load(Ordering::Relaxed)
    }

    fn effect(&self, writes: bool) -> Effect {
        let mut now = self.0.now.lock().unwrap_or_else(PoisonError::into_inner);
        let (ill, random) = &mut *now;
        match *ill {
            Ill::Away => Effect::Fail(Duration::ZERO),
            Ill::Hangs(bound) => Effect::Fail(bound),
            Ill::Slow(by) => Effect::Pass(by),
            Ill::Unsure(share) if writes && random.random_bool(share.clamp(0.0, 1.0)) => {
                if random.random_bool(0.5) { Effect::DoneUnknown } else { Effect::UndoneUnknown }
            }
            Ill::Not | Ill::Unsure(_) => Effect::Pass(Duration::ZERO),
        }
    }

    fn fail<T>(&self, error: fn(Reason) -> StoreError) -> Result<T, StoreError> {
        self.0.failed.fetch_add(1, Ordering::Relaxed);
        Err(error(Reason::Drill))
    }
}

/// Wraps `inner`, initially without a fault. `seed` determines which writes are done at a failed commit.
pub fn faulty(inner: SharedStore, seed: u64) -> (SharedStore, Illness) {
    let now = Mutex::new((Ill::Not, ChaCha8Rng::seed_from_u64(seed)));
    let illness = Illness(Arc::new(State { now, failed: AtomicU64::new(0) }));
    (Arc::new(Faulty { inner, illness: illness.clone() }), illness)
}

#[derive(Debug)]
struct Faulty {
    inner: SharedStore,
    illness: Illness,
}

type Answer<T> = Result<T, StoreError>;

impl Faulty {
    async fn read<T>(&self, work: impl Future<Output = Answer<T>> + Send) -> Answer<T> {
        self.ask(false, work).await
    }

    async fn write<T>(&self, work: impl Future<Output = Answer<T>> + Send) -> Answer<T> {
        self.ask(true, work).await
    }

    async fn ask<T>(
        &self,
        writes: bool,
        work: impl Future<Output = Answer<T>> + Send,
    ) -> Answer<T> {
        match self.illness.effect(writes) {
            Effect::Pass(late) => {
                if late > Duration::ZERO {
                    tokio::time::sleep(late).await;
                }
                work.await
            }
            Effect::Fail(late) => {
                tokio::time::sleep(late).await;
                self.illness.fail(StoreError::Away)
            }
            Effect::DoneUnknown => {
                work.await?;
                self.illness.fail(StoreError::Unknown)
            }
            Effect::UndoneUnknown => self.illness.fail(StoreError::Unknown),
        }
    }
}

/// Each method calls the inner store unless a fault applies.
macro_rules! forward {
    ($($kind:ident $name:ident($($arg:ident: $ty:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl Store for Faulty {
            fn describe(&self) -> String {
                self.inner.describe()
            }

            $(async fn $name(&self, $($arg: $ty),*) -> Result<$answer, StoreError> {
                self.$kind(self.inner.$name($($arg),*)).await
            })*

            async fn close(&self) {
                self.inner.close().await;
            }
        }
    };
}

forward! {
    read ping() -> String;
    read takes_writes() -> ();
    read durability() -> Vec<(String, String)>;
    write reserve_numbers(upto: VoucherId) -> ();
    write create_voucher(voucher: &VoucherDetails, now: Millis) -> VoucherId;
    write buy(order: OrderId, user: UserId, voucher: VoucherId, now: Millis) -> ();
    write close_overdue_ordinary(before: Millis, limit: u32, now: Millis, fence: &Fence) -> u64;
    write create_sale(sale: &NewSale, now: Millis) -> Sale;
    read vouchers(after: Option<VoucherId>, limit: u32) -> Vec<Voucher>;
    read sales() -> Vec<Sale>;
    read archived(before: Option<VoucherId>, limit: u32) -> Vec<Sale>;
    read sale(voucher: VoucherId) -> Sale;
    write set_state(voucher: VoucherId, state: SaleState, begin: Option<Millis>) -> Sale;
    write restock(voucher: VoucherId, by: i64, seen: Option<u64>) -> Sale;
    read undelivered() -> Vec<Sale>;
    write note_delivered(voucher: VoucherId, version: u64) -> ();
    write adopt_sale(sale: &Sale) -> ();
    write write_orders(entries: &[OrderEntry], now: Millis) -> Vec<Written>;
    read foresee(entries: &[OrderEntry]) -> Vec<Written>;
    write cancel_orders(entries: &[OrderEntry], now: Millis) -> Vec<Cancelled>;
    read order(id: OrderId) -> Option<Order>;
    read orders_among(ids: &[OrderId]) -> Vec<Order>;
    read orders(filter: &OrderFilter, before: Option<OrderId>, limit: u32) -> Vec<Order>;
    read existing(ids: &[OrderId]) -> Vec<OrderId>;
    read closed_among(ids: &[OrderId]) -> Vec<OrderId>;
    read live_orders(voucher: VoucherId, after: Option<OrderId>, limit: u32) -> Vec<LiveOrder>;
    read ledger(voucher: VoucherId) -> SqlLedger;
    read order_counts(voucher: VoucherId) -> OrderCounts;
    read repeat_buyers(voucher: VoucherId, limit: u32) -> Vec<(UserId, u64)>;
    write pay(ids: &[OrderId], now: Millis) -> Vec<Payment>;
    write close_overdue(before: Millis, limit: u32, now: Millis, fence: &Fence) -> Vec<ClosedOrder>;
    read give_backs(after: Option<OrderId>, limit: u32) -> Vec<ClosedOrder>;
    read given_since(
        voucher: VoucherId, since: Millis, after: Option<OrderId>, limit: u32
    ) -> Vec<ClosedOrder>;
    write gave_back(ids: &[OrderId], now: Millis) -> ();
    write forget_give_backs(before: Millis) -> u64;
    read returning() -> u64;
    write begin_run(run: &NewRun) -> Option<i64>;
    write end_run(id: i64, end: &RunEnd) -> ();
    write lose_runs(job: &str, token: i64, now: Millis) -> u64;
    read runs(job: Option<&str>, limit: u32) -> Vec<JobRun>;
    read last_due(job: &str, now: Millis) -> Option<JobRun>;
    write forget_runs(before: Millis) -> u64;
    read job_switches() -> Vec<JobSwitch>;
    write pause_job(job: &str, paused: bool, now: Millis) -> ();
    write fenced_write(fence: &Fence, now: Millis) -> u64;
    read setting(name: &str) -> Option<String>;
    write change_setting(name: &str, from: Option<&str>, to: &str) -> bool;
    write record(act: &Act) -> ();
    read acts(limit: u32) -> Vec<Act>;
    read activity(filter: &ActivityFilter, before: Option<Place>, limit: u32) -> Vec<Recorded>;
    read order_flow(from: Millis, step_s: u32, spans: u32) -> OrderFlow;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Settings, open};

    #[tokio::test]
    async fn injected_faults_fail_and_recover() {
        let files = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", files.path().join("t.db").display());
        let inner = open(&url, &Settings::default()).await.unwrap();
        let (store, illness) = faulty(Arc::clone(&inner), 7);
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
