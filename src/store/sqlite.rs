//! SQLite: one file, one writer, a few readers.
//!
//! WAL lets readers go on while the writer commits; `synchronous=FULL` makes a commit outlive a
//! power loss, since an acknowledgement in Redis follows it. Every writing transaction begins
//! with `BEGIN IMMEDIATE`: one that read first and wrote later would get BUSY at once, whatever
//! the timeout. This room must not know Redis or a command line.

mod acts;
mod faults;
mod flow;
mod jobs;
mod lock;
mod opening;
mod orders;
mod ordinary;
mod pages;
mod payment;
mod plain;
mod sales;
mod settings;

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use sqlx::{Sqlite, SqlitePool, Transaction};

use super::{
    Act, ActivityFilter, Cancelled, OrderFlow, Place, Recorded, Store, StoreError, Written,
    flow::Window, rows,
};
use crate::faults::{self as points, Point};
use crate::model::{
    ClosedOrder, Fence, JobRun, JobSwitch, LiveOrder, Millis, NewRun, NewSale, Order, OrderCounts,
    OrderEntry, OrderFilter, OrderId, Payment, RunEnd, Sale, SaleState, UserId, Voucher,
    VoucherDetails, VoucherId, ledger::SqlBooks,
};
use faults::told;
use lock::Lock;

/// Folding the log into the file takes some of it.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);
/// Entries in one look: a reader is not held for longer, nor the log behind it.
const FORESEE: usize = 10_000;

/// A store in one SQLite file, which other processes may use at the same time.
#[derive(Debug)]
pub(super) struct SqliteStore {
    path: PathBuf,
    /// One connection: SQLite has one writer at a time, and a queue in front of it is fairer than
    /// its busy timeout.
    writer: SqlitePool,
    readers: SqlitePool,
    lock: Lock,
    /// The last batch was not all new, and so may the next one be: then it is not tried as such in vain.
    mixed: AtomicBool,
}

impl SqliteStore {
    /// A transaction that holds the write lock from its first moment.
    async fn begin(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
        self.writer.begin_with("BEGIN IMMEDIATE").await.map_err(told)
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn describe(&self) -> String {
        format!("sqlite {}", self.path.display())
    }

    async fn ping(&self) -> Result<String, StoreError> {
        // `sqlite_version()` alone would not touch the file.
        sqlx::query_scalar("SELECT sqlite_version() FROM (SELECT COUNT(*) FROM sqlite_schema)")
            .fetch_one(&self.readers)
            .await
            .map_err(told)
    }

    async fn takes_writes(&self) -> Result<(), StoreError> {
        self.lock.take_and_give_back().await
    }

    async fn durability(&self) -> Result<Vec<(String, String)>, StoreError> {
        let mut writer = self.writer.acquire().await.map_err(told)?;
        let mut settings = Vec::new();
        for (name, pragma) in [
            ("journal_mode", "SELECT journal_mode FROM pragma_journal_mode"),
            (
                "synchronous",
                "SELECT CASE synchronous WHEN 0 THEN 'off' WHEN 1 THEN 'normal' WHEN 2 THEN 'full' \
                 ELSE 'extra' END FROM pragma_synchronous",
            ),
            ("foreign_keys", "SELECT iif(foreign_keys, 'on', 'off') FROM pragma_foreign_keys"),
            ("page_size", "SELECT CAST(page_size AS TEXT) FROM pragma_page_size"),
            ("busy_timeout", "SELECT timeout || ' ms' FROM pragma_busy_timeout"),
        ] {
            let value: String =
                sqlx::query_scalar(pragma).fetch_one(&mut *writer).await.map_err(told)?;
            settings.push((name.to_owned(), value));
        }
        Ok(settings)
    }

    async fn create_voucher(
        &self,
        voucher: &VoucherDetails,
        now: Millis,
    ) -> Result<VoucherId, StoreError> {
        let mut tx = self.begin().await?;
        let id = sales::insert_voucher(&mut tx, voucher, rows::ORDINARY, now).await?;
        commit(tx).await?;
        Ok(id)
    }

    async fn reserve_numbers(&self, upto: VoucherId) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        sales::reserve_numbers(&mut tx, upto).await?;
        commit(tx).await
    }

    async fn buy(
        &self,
        order: OrderId,
        user: UserId,
        voucher: VoucherId,
        now: Millis,
    ) -> Result<(), StoreError> {
        let purchase = rows::purchase(order, user, voucher)?;
        let mut tx = self.begin().await?;
        ordinary::buy(&mut tx, purchase, now).await?;
        commit(tx).await
    }

    async fn close_overdue_ordinary(
        &self,
        before: Millis,
        limit: u32,
        now: Millis,
        fence: &Fence,
    ) -> Result<u64, StoreError> {
        let mut tx = self.begin().await?;
        jobs::pass_fence(&mut tx, fence, now).await?;
        let closed = ordinary::close_overdue(&mut tx, before, limit, now).await?;
        commit(tx).await?;
        Ok(closed)
    }

    async fn create_sale(&self, sale: &NewSale, now: Millis) -> Result<Sale, StoreError> {
        let mut tx = self.begin().await?;
        let sale = sales::insert_sale(&mut tx, sale, now).await?;
        commit(tx).await?;
        Ok(sale)
    }

    async fn vouchers(
        &self,
        after: Option<VoucherId>,
        limit: u32,
    ) -> Result<Vec<Voucher>, StoreError> {
        sales::vouchers(&self.readers, after, limit).await
    }

    async fn archived(
        &self,
        before: Option<VoucherId>,
        limit: u32,
    ) -> Result<Vec<Sale>, StoreError> {
        sales::archived(&self.readers, before, limit).await
    }

    async fn sales(&self) -> Result<Vec<Sale>, StoreError> {
        sales::all(&self.readers).await
    }

    async fn sale(&self, voucher: VoucherId) -> Result<Sale, StoreError> {
        sales::one(&self.readers, voucher).await
    }

    async fn set_state(
        &self,
        voucher: VoucherId,
        state: SaleState,
        begin: Option<Millis>,
    ) -> Result<Sale, StoreError> {
        let mut tx = self.begin().await?;
        let sale = sales::set_state(&mut tx, voucher, state, begin).await?;
        commit(tx).await?;
        Ok(sale)
    }

    async fn restock(
        &self,
        voucher: VoucherId,
        by: i64,
        seen: Option<u64>,
    ) -> Result<Sale, StoreError> {
        let mut tx = self.begin().await?;
        let sale = sales::restock(&mut tx, voucher, by, seen).await?;
        commit(tx).await?;
        Ok(sale)
    }

    async fn undelivered(&self) -> Result<Vec<Sale>, StoreError> {
        sales::undelivered(&self.readers).await
    }

    async fn note_delivered(&self, voucher: VoucherId, version: u64) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        sales::note_delivered(&mut tx, voucher, version).await?;
        commit(tx).await
    }

    async fn adopt_sale(&self, sale: &Sale) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        sales::adopt(&mut tx, sale).await?;
        commit(tx).await
    }

    async fn write_orders(
        &self,
        entries: &[OrderEntry],
        now: Millis,
    ) -> Result<Vec<Written>, StoreError> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let keys = rows::keys(entries)?;
        if !self.mixed.load(Ordering::Relaxed) {
            let mut tx = self.begin().await?;
            if orders::write_new(&mut tx, &keys, now).await? {
                commit(tx).await?;
                return Ok(vec![Written::New; keys.len()]);
            }
            tx.rollback().await.map_err(told)?;
        }
        let mut tx = self.begin().await?;
        let written = orders::write_mixed(&mut tx, &keys, now).await?;
        commit(tx).await?;
        self.mixed.store(rows::is_mixed(&written), Ordering::Relaxed);
        Ok(written)
    }

    async fn foresee(&self, entries: &[OrderEntry]) -> Result<Vec<Written>, StoreError> {
        let mut answers = Vec::with_capacity(entries.len());
        for page in entries.chunks(FORESEE) {
            let keys = rows::keys(page)?;
            let mut conn = self.readers.acquire().await.map_err(told)?;
            answers.extend(orders::foresee(&mut conn, &keys).await?);
        }
        Ok(answers)
    }

    async fn cancel_orders(
        &self,
        entries: &[OrderEntry],
        now: Millis,
    ) -> Result<Vec<Cancelled>, StoreError> {
        let keys = rows::keys(entries)?;
        let mut tx = self.begin().await?;
        let cancelled = payment::cancel(&mut tx, &keys, now).await?;
        commit(tx).await?;
        Ok(cancelled)
    }

    async fn order(&self, id: OrderId) -> Result<Option<Order>, StoreError> {
        orders::one(&self.readers, id).await
    }

    async fn orders_among(&self, ids: &[OrderId]) -> Result<Vec<Order>, StoreError> {
        orders::among_ids(&self.readers, ids).await
    }

    async fn orders(
        &self,
        filter: &OrderFilter,
        before: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<Order>, StoreError> {
        pages::orders(&self.readers, filter, before, limit).await
    }

    async fn existing(&self, ids: &[OrderId]) -> Result<Vec<OrderId>, StoreError> {
        orders::existing(&self.readers, ids).await
    }

    async fn closed_among(&self, ids: &[OrderId]) -> Result<Vec<OrderId>, StoreError> {
        orders::closed_among(&self.readers, ids).await
    }

    async fn live_orders(
        &self,
        voucher: VoucherId,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<LiveOrder>, StoreError> {
        orders::live(&self.readers, voucher, after, limit).await
    }

    async fn books(&self, voucher: VoucherId) -> Result<SqlBooks, StoreError> {
        let mut tx = self.readers.begin().await.map_err(told)?;
        let books = orders::books(&mut tx, voucher).await?;
        tx.commit().await.map_err(told)?;
        Ok(books)
    }

    async fn order_counts(&self, voucher: VoucherId) -> Result<OrderCounts, StoreError> {
        orders::counts(&self.readers, voucher).await
    }

    async fn repeat_buyers(
        &self,
        voucher: VoucherId,
        limit: u32,
    ) -> Result<Vec<(UserId, u64)>, StoreError> {
        orders::repeat_buyers(&self.readers, voucher, limit).await
    }

    async fn pay(&self, ids: &[OrderId], now: Millis) -> Result<Vec<Payment>, StoreError> {
        let mut tx = self.begin().await?;
        let paid = payment::pay(&mut tx, ids, now).await?;
        commit(tx).await?;
        Ok(paid)
    }

    async fn close_overdue(
        &self,
        before: Millis,
        limit: u32,
        now: Millis,
        fence: &Fence,
    ) -> Result<Vec<ClosedOrder>, StoreError> {
        let mut tx = self.begin().await?;
        jobs::pass_fence(&mut tx, fence, now).await?;
        let closed = payment::close_overdue(&mut tx, before, limit, now).await?;
        commit(tx).await?;
        Ok(closed)
    }

    async fn give_backs(
        &self,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<ClosedOrder>, StoreError> {
        payment::give_backs(&self.readers, after, limit).await
    }

    async fn given_since(
        &self,
        voucher: VoucherId,
        since: Millis,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<ClosedOrder>, StoreError> {
        payment::given_since(&self.readers, voucher, since, after, limit).await
    }

    async fn gave_back(&self, ids: &[OrderId], now: Millis) -> Result<(), StoreError> {
        payment::gave_back(&self.writer, ids, now).await
    }

    async fn forget_give_backs(&self, before: Millis) -> Result<u64, StoreError> {
        payment::forget_give_backs(&self.writer, before).await
    }

    async fn returning(&self) -> Result<u64, StoreError> {
        payment::returning(&self.readers).await
    }

    async fn begin_run(&self, run: &NewRun) -> Result<Option<i64>, StoreError> {
        jobs::begin_run(&self.writer, run).await
    }

    async fn end_run(&self, id: i64, end: &RunEnd) -> Result<(), StoreError> {
        jobs::end_run(&self.writer, id, end).await
    }

    async fn lose_runs(&self, job: &str, token: i64, now: Millis) -> Result<u64, StoreError> {
        jobs::lose_runs(&self.writer, job, token, now).await
    }

    async fn runs(&self, job: Option<&str>, limit: u32) -> Result<Vec<JobRun>, StoreError> {
        jobs::runs(&self.readers, job, limit).await
    }

    async fn last_due(&self, job: &str, now: Millis) -> Result<Option<JobRun>, StoreError> {
        jobs::last_due(&self.readers, job, now).await
    }

    async fn forget_runs(&self, before: Millis) -> Result<u64, StoreError> {
        jobs::forget_runs(&self.writer, before).await
    }

    async fn job_switches(&self) -> Result<Vec<JobSwitch>, StoreError> {
        jobs::switches(&self.readers).await
    }

    async fn pause_job(&self, job: &str, paused: bool, now: Millis) -> Result<(), StoreError> {
        jobs::pause(&self.writer, job, paused, now).await
    }

    async fn fenced_write(&self, fence: &Fence, now: Millis) -> Result<u64, StoreError> {
        let mut tx = self.begin().await?;
        let writes = jobs::pass_fence(&mut tx, fence, now).await?;
        commit(tx).await?;
        Ok(writes)
    }

    async fn setting(&self, name: &str) -> Result<Option<String>, StoreError> {
        settings::read(&self.readers, name).await
    }

    async fn change_setting(
        &self,
        name: &str,
        from: Option<&str>,
        to: &str,
    ) -> Result<bool, StoreError> {
        settings::change(&self.writer, name, from, to).await
    }

    async fn record(&self, act: &Act) -> Result<(), StoreError> {
        acts::record(&self.writer, act).await
    }

    async fn acts(&self, limit: u32) -> Result<Vec<Act>, StoreError> {
        acts::acts(&self.readers, limit).await
    }

    async fn activity(
        &self,
        filter: &ActivityFilter,
        before: Option<Place>,
        limit: u32,
    ) -> Result<Vec<Recorded>, StoreError> {
        acts::activity(&self.readers, filter, before, limit).await
    }

    async fn order_flow(
        &self,
        from: Millis,
        step_s: u32,
        spans: u32,
    ) -> Result<OrderFlow, StoreError> {
        flow::flow(&self.readers, Window::new(from, step_s, spans)).await
    }

    async fn close(&self) {
        // Readers first: the last connection to go folds the log into the file, and needs to write.
        // A disk that hangs must not keep a process from ending.
        for pool in [&self.readers, self.lock.pool(), &self.writer] {
            let _ = tokio::time::timeout(CLOSE_WITHIN, pool.close()).await;
        }
    }
}

/// Ends a transaction that writes.
async fn commit(tx: Transaction<'static, Sqlite>) -> Result<(), StoreError> {
    points::pass(Point::BeforeCommit);
    tx.commit().await.map_err(told)
}
