//! SQLite: one file, one writer, a few readers.
//!
//! WAL lets readers go on while the writer commits; `synchronous=FULL` makes a commit outlive a
//! power loss, since an acknowledgement in Redis follows it. Every writing transaction begins
//! with `BEGIN IMMEDIATE`: one that read first and wrote later would get BUSY at once, whatever
//! the timeout. This room must not know Redis or a command line.

mod batch;
mod dialect;
mod faults;
mod file;
mod lock;
mod narrow;
mod opening;
#[cfg(test)]
mod tests;
mod wal;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use seckill_model::{
    ClosedOrder, Fence, JobRun, JobSwitch, LiveOrder, Millis, NewRun, NewSale, Order, OrderCounts,
    OrderEntry, OrderFilter, OrderId, Payment, RunEnd, Sale, SaleState, UserId, Voucher,
    VoucherDetails, VoucherId, ledger::SqlBooks,
};
use sqlx::{Sqlite, SqlitePool};

use super::{
    Act, ActivityFilter, Cancelled, OrderFlow, Place, Recorded, Store, StoreError, Written,
    flow::Window,
    plain::Placed,
    queries::{
        self, Conn, PAGE, audit_log, bench_baseline, jobs, order_rate, orders, ordinary, payment,
        sales,
    },
    rows,
    session::{Fault, Lease, Sessions, Stage},
};
use faults::store_error;
use file::OpenFile;
use lock::Lock;
use narrow::Narrow;
use wal::Wal;

/// Folding the log into the file takes some of it.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);
/// A write passes its rows in one statement, however many they are: as JSON they are one value.
const WHOLE: usize = usize::MAX;

/// A store in one SQLite file, which other processes may use at the same time.
#[derive(Debug)]
pub(super) struct SqliteStore {
    file: OpenFile,
    wal: Wal,
    /// One connection: SQLite has one writer at a time, and a queue in front of it is fairer than
    /// its busy timeout. SQLite ends a transaction by itself where the disk fails it, so the connection is
    /// replaced unless its transaction came to a definite end.
    writer: Sessions<Sqlite>,
    readers: SqlitePool,
    /// Reads instead of them where the disk was full at the start.
    narrow: Option<Narrow>,
    lock: Lock,
    /// The last batch was not all new, and so may the next one be: then it is not tried as such in vain.
    mixed: AtomicBool,
}

/// Reads in a connection of its own.
macro_rules! read {
    ($self:ident, |$conn:ident| $work:expr) => {{
        let mut lease = $self.readers()?.acquire().await.map_err(store_error)?;
        let $conn: &mut Conn<Sqlite> = &mut lease;
        $work.await.map_err(Fault::store_error::<Sqlite>)
    }};
}

/// Writes in a transaction of its own, which holds the write lock from its first moment.
macro_rules! write {
    ($self:ident, |$conn:ident| $work:expr) => {
        $self
            .writer
            .work(move |stage| async move {
                let mut lease = $self.begin(stage).await?;
                let done = {
                    let $conn: &mut Conn<Sqlite> = &mut lease;
                    $work.await
                };
                $self.end(lease, done).await
            })
            .await
    };
}

impl SqliteStore {
    /// The connections that read, in the file that was opened: one that was removed or took its place has other rows.
    fn readers(&self) -> Result<&SqlitePool, StoreError> {
        self.file.check()?;
        let narrow = self.narrow.as_ref().and_then(|it| it.pool(&self.file));
        Ok(narrow.unwrap_or(&self.readers))
    }

    /// The connection that writes, once there is room for what it needs.
    fn writer(&self) -> Result<&Sessions<Sqlite>, StoreError> {
        self.file.check()?;
        if self.narrow.as_ref().is_some_and(|it| it.pool(&self.file).is_some()) {
            self.file.try_room()?;
        }
        Ok(&self.writer)
    }

    /// Begins a transaction in the file that was opened, not in one that was removed or took its place.
    async fn begin(&self, stage: Stage) -> Result<Lease<Sqlite>, Fault> {
        self.writer()?.begin(stage).await
    }

    /// Commits what went well; only what lies in the file under its path counts as written.
    async fn end<T>(&self, lease: Lease<Sqlite>, done: Result<T, Fault>) -> Result<T, Fault> {
        // An error about values leaves the connection as it was, whatever its code.
        let done = done.map_err(|fault| match fault {
            Fault::Sql(error) => Fault::Store(store_error(error)),
            fault => fault,
        });
        let done = lease.end(done).await?;
        self.file.check().map_err(StoreError::from)?;
        if self.wal.is_large() {
            self.fold_log().await;
        }
        Ok(done)
    }

    /// What was written is safe in the log, so that a failure here is nothing but a log that grows on.
    async fn fold_log(&self) {
        let folded = async {
            let mut lease = self.writer.lease().await?;
            let folded = self.wal.start_anew(&mut lease).await;
            lease.end(folded.map_err(Fault::Sql)).await
        };
        if let Err(fault) = folded.await {
            tracing::warn!(?fault, "the log of the database was not folded");
        }
    }

    /// Writes a batch that is all new; `false` where some of it was not, and then nothing was written.
    async fn write_new(&self, keys: &[rows::Key], now: Millis) -> Result<bool, StoreError> {
        self.writer
            .work(move |stage| async move {
                let mut lease = self.begin(stage).await?;
                let done = orders::write_new(&mut lease, keys, now, WHOLE).await;
                if matches!(done, Ok(false)) {
                    lease.roll_back().await?;
                    return Ok(false);
                }
                self.end(lease, done).await
            })
            .await
    }

    /// See [`super::plain::PlainOrders::place`].
    pub(super) async fn place(
        &self,
        order: &OrderEntry,
        now: Millis,
    ) -> Result<Placed, StoreError> {
        let key = rows::key(order)?;
        write!(self, |conn| bench_baseline::place(conn, key, now))
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn describe(&self) -> String {
        format!("sqlite {}", self.file.path().display())
    }

    async fn ping(&self) -> Result<String, StoreError> {
        read!(self, |conn| queries::version(conn))
    }

    async fn takes_writes(&self) -> Result<(), StoreError> {
        self.file.check_room()?;
        self.writer()?.takes_writes()?;
        self.lock.take_and_give_back().await
    }

    async fn durability(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.writer()?
            .work(move |_| async move {
                let mut lease = self.writer.lease().await?;
                let done = queries::durability(&mut lease).await;
                lease.end(done).await
            })
            .await
    }

    async fn create_voucher(
        &self,
        voucher: &VoucherDetails,
        now: Millis,
    ) -> Result<VoucherId, StoreError> {
        write!(self, |conn| sales::insert_voucher(conn, voucher, rows::ORDINARY, now))
    }

    async fn buy(
        &self,
        order: OrderId,
        user: UserId,
        voucher: VoucherId,
        now: Millis,
    ) -> Result<(), StoreError> {
        let purchase = rows::purchase(order, user, voucher)?;
        write!(self, |conn| ordinary::buy(conn, purchase, now))
    }

    async fn close_overdue_ordinary(
        &self,
        before: Millis,
        limit: u32,
        now: Millis,
        fence: &Fence,
    ) -> Result<u64, StoreError> {
        write!(self, |conn| async {
            jobs::pass_fence(conn, fence, now).await?;
            ordinary::close_overdue(conn, before, limit, now, WHOLE).await
        })
    }

    async fn reserve_numbers(&self, upto: VoucherId) -> Result<(), StoreError> {
        write!(self, |conn| sales::reserve_numbers(conn, upto))
    }

    async fn create_sale(&self, sale: &NewSale, now: Millis) -> Result<Sale, StoreError> {
        write!(self, |conn| sales::insert_sale(conn, sale, now))
    }

    async fn vouchers(
        &self,
        after: Option<VoucherId>,
        limit: u32,
    ) -> Result<Vec<Voucher>, StoreError> {
        read!(self, |conn| sales::vouchers(conn, after, limit))
    }

    async fn archived(
        &self,
        before: Option<VoucherId>,
        limit: u32,
    ) -> Result<Vec<Sale>, StoreError> {
        read!(self, |conn| sales::archived(conn, before, limit))
    }

    async fn sales(&self) -> Result<Vec<Sale>, StoreError> {
        read!(self, |conn| sales::all(conn))
    }

    async fn sale(&self, voucher: VoucherId) -> Result<Sale, StoreError> {
        read!(self, |conn| sales::one(conn, voucher))
    }

    async fn set_state(
        &self,
        voucher: VoucherId,
        state: SaleState,
        begin: Option<Millis>,
    ) -> Result<Sale, StoreError> {
        write!(self, |conn| sales::set_state(conn, voucher, state, begin))
    }

    async fn restock(
        &self,
        voucher: VoucherId,
        by: i64,
        seen: Option<u64>,
    ) -> Result<Sale, StoreError> {
        write!(self, |conn| sales::restock(conn, voucher, by, seen))
    }

    async fn undelivered(&self) -> Result<Vec<Sale>, StoreError> {
        read!(self, |conn| sales::undelivered(conn))
    }

    async fn note_delivered(&self, voucher: VoucherId, version: u64) -> Result<(), StoreError> {
        write!(self, |conn| sales::note_delivered(conn, voucher, version))
    }

    async fn adopt_sale(&self, sale: &Sale) -> Result<(), StoreError> {
        write!(self, |conn| sales::adopt(conn, sale))
    }

    async fn write_orders(
        &self,
        entries: &[OrderEntry],
        now: Millis,
    ) -> Result<Vec<Written>, StoreError> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let keys = &rows::keys(entries)?;
        if !self.mixed.load(Ordering::Relaxed) && self.write_new(keys, now).await? {
            return Ok(vec![Written::New; keys.len()]);
        }
        let written = write!(self, |conn| batch::write_mixed(conn, keys, now))?;
        self.mixed.store(rows::is_mixed(&written), Ordering::Relaxed);
        Ok(written)
    }

    async fn foresee(&self, entries: &[OrderEntry]) -> Result<Vec<Written>, StoreError> {
        let mut answers = Vec::with_capacity(entries.len());
        for page in entries.chunks(PAGE) {
            let keys = &rows::keys(page)?;
            answers.extend(read!(self, |conn| orders::foresee(conn, keys))?);
        }
        Ok(answers)
    }

    async fn cancel_orders(
        &self,
        entries: &[OrderEntry],
        now: Millis,
    ) -> Result<Vec<Cancelled>, StoreError> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let keys = &rows::keys(entries)?;
        write!(self, |conn| payment::cancel(conn, keys, now, WHOLE))
    }

    async fn order(&self, id: OrderId) -> Result<Option<Order>, StoreError> {
        read!(self, |conn| orders::one(conn, id))
    }

    async fn orders_among(&self, ids: &[OrderId]) -> Result<Vec<Order>, StoreError> {
        let mut found = Vec::new();
        for page in ids.chunks(PAGE) {
            found.extend(read!(self, |conn| orders::among_ids(conn, page))?);
        }
        Ok(found)
    }

    async fn orders(
        &self,
        filter: &OrderFilter,
        before: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<Order>, StoreError> {
        read!(self, |conn| orders::page(conn, filter, before, limit))
    }

    async fn existing(&self, ids: &[OrderId]) -> Result<Vec<OrderId>, StoreError> {
        let mut found = Vec::new();
        for page in ids.chunks(PAGE) {
            found.extend(read!(self, |conn| orders::existing(conn, page))?);
        }
        Ok(found)
    }

    async fn closed_among(&self, ids: &[OrderId]) -> Result<Vec<OrderId>, StoreError> {
        let mut found = Vec::new();
        for page in ids.chunks(PAGE) {
            found.extend(read!(self, |conn| orders::closed_among(conn, page))?);
        }
        Ok(found)
    }

    async fn live_orders(
        &self,
        voucher: VoucherId,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<LiveOrder>, StoreError> {
        read!(self, |conn| orders::live(conn, voucher, after, limit))
    }

    async fn books(&self, voucher: VoucherId) -> Result<SqlBooks, StoreError> {
        read!(self, |conn| orders::books(conn, voucher))
    }

    async fn order_counts(&self, voucher: VoucherId) -> Result<OrderCounts, StoreError> {
        read!(self, |conn| orders::counts(conn, voucher))
    }

    async fn repeat_buyers(
        &self,
        voucher: VoucherId,
        limit: u32,
    ) -> Result<Vec<(UserId, u64)>, StoreError> {
        read!(self, |conn| orders::repeat_buyers(conn, voucher, limit))
    }

    async fn pay(&self, ids: &[OrderId], now: Millis) -> Result<Vec<Payment>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        write!(self, |conn| payment::pay(conn, ids, now, WHOLE))
    }

    async fn close_overdue(
        &self,
        before: Millis,
        limit: u32,
        now: Millis,
        fence: &Fence,
    ) -> Result<Vec<ClosedOrder>, StoreError> {
        write!(self, |conn| async {
            jobs::pass_fence(conn, fence, now).await?;
            payment::close_overdue(conn, before, limit, now, WHOLE).await
        })
    }

    async fn give_backs(
        &self,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<ClosedOrder>, StoreError> {
        read!(self, |conn| payment::give_backs(conn, after, limit))
    }

    async fn given_since(
        &self,
        voucher: VoucherId,
        since: Millis,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<ClosedOrder>, StoreError> {
        read!(self, |conn| payment::given_since(conn, voucher, since, after, limit))
    }

    async fn gave_back(&self, ids: &[OrderId], now: Millis) -> Result<(), StoreError> {
        write!(self, |conn| payment::gave_back(conn, ids, now, WHOLE))
    }

    async fn forget_give_backs(&self, before: Millis) -> Result<u64, StoreError> {
        write!(self, |conn| payment::forget_give_backs(conn, before))
    }

    async fn returning(&self) -> Result<u64, StoreError> {
        read!(self, |conn| payment::returning(conn))
    }

    async fn begin_run(&self, run: &NewRun) -> Result<Option<i64>, StoreError> {
        write!(self, |conn| jobs::begin_run(conn, run))
    }

    async fn end_run(&self, id: i64, end: &RunEnd) -> Result<(), StoreError> {
        write!(self, |conn| jobs::end_run(conn, id, end))
    }

    async fn lose_runs(&self, job: &str, token: i64, now: Millis) -> Result<u64, StoreError> {
        write!(self, |conn| jobs::lose_runs(conn, job, token, now))
    }

    async fn runs(&self, job: Option<&str>, limit: u32) -> Result<Vec<JobRun>, StoreError> {
        read!(self, |conn| jobs::runs(conn, job, limit))
    }

    async fn last_due(&self, job: &str, now: Millis) -> Result<Option<JobRun>, StoreError> {
        read!(self, |conn| jobs::last_due(conn, job, now))
    }

    async fn forget_runs(&self, before: Millis) -> Result<u64, StoreError> {
        write!(self, |conn| jobs::forget_runs(conn, before))
    }

    async fn job_switches(&self) -> Result<Vec<JobSwitch>, StoreError> {
        read!(self, |conn| jobs::switches(conn))
    }

    async fn pause_job(&self, job: &str, paused: bool, now: Millis) -> Result<(), StoreError> {
        write!(self, |conn| jobs::pause(conn, job, paused, now))
    }

    async fn fenced_write(&self, fence: &Fence, now: Millis) -> Result<u64, StoreError> {
        write!(self, |conn| jobs::pass_fence(conn, fence, now))
    }

    async fn setting(&self, name: &str) -> Result<Option<String>, StoreError> {
        read!(self, |conn| jobs::setting(conn, name))
    }

    async fn change_setting(
        &self,
        name: &str,
        from: Option<&str>,
        to: &str,
    ) -> Result<bool, StoreError> {
        write!(self, |conn| jobs::change_setting(conn, name, from, to))
    }

    async fn record(&self, act: &Act) -> Result<(), StoreError> {
        write!(self, |conn| audit_log::record(conn, act))
    }

    async fn acts(&self, limit: u32) -> Result<Vec<Act>, StoreError> {
        read!(self, |conn| audit_log::acts(conn, limit))
    }

    async fn activity(
        &self,
        filter: &ActivityFilter,
        before: Option<Place>,
        limit: u32,
    ) -> Result<Vec<Recorded>, StoreError> {
        read!(self, |conn| audit_log::activity(conn, filter, before, limit))
    }

    async fn order_flow(
        &self,
        from: Millis,
        step_s: u32,
        spans: u32,
    ) -> Result<OrderFlow, StoreError> {
        let window = Window::new(from, step_s, spans);
        read!(self, |conn| order_rate::flow(conn, window))
    }

    async fn close(&self) {
        // Readers first: the last connection to go folds the log into the file, and needs to write.
        // A disk that hangs must not keep a process from ending.
        let _ = tokio::time::timeout(CLOSE_WITHIN, self.readers.close()).await;
        if let Some(narrow) = &self.narrow {
            let _ = tokio::time::timeout(CLOSE_WITHIN, narrow.close()).await;
        }
        self.lock.close().await;
        self.writer.close().await;
    }
}
