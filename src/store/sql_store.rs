//! The trait [`Store`] on top of the shared statements: each call is one read or one transaction of a [`Backend`].

use std::{
    fmt::Debug,
    sync::atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use seckill_model::{
    ClosedOrder, Fence, JobRun, JobSwitch, LiveOrder, Millis, NewRun, NewSale, Order, OrderCounts,
    OrderEntry, OrderFilter, OrderId, Payment, RunEnd, Sale, SaleState, UserId, Voucher,
    VoucherDetails, VoucherId, ledger::SqlLedger,
};

use super::{
    Act, ActivityFilter, Cancelled, OrderFlow, Place, Recorded, Store, StoreError, Written,
    bench_baseline::Placed,
    dialect::Dialect,
    order_rate::Window,
    queries::{
        self, Conn, PAGE, audit_log, bench_baseline, jobs, order_rate, orders, ordinary, payment,
        sales,
    },
    rows::{self, Key},
    session::{Fault, Lease, Sessions, Stage},
};

/// The connections to one database, and how its reads and transactions run.
pub(super) trait Backend: Debug + Send + Sync + 'static {
    /// The SQL of the database.
    type Db: Dialect;

    /// A read is repeated after a conflict, and has a timeout.
    const READS_ARE_BOUNDED: bool = true;

    /// Kind and location of the database, without a password.
    fn describe(&self) -> String;

    /// See [`Store::takes_writes`].
    fn takes_writes(&self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The connections that write.
    fn writer(&self) -> Result<&Sessions<Self::Db>, StoreError>;

    /// Returns a connection for read-only statements.
    fn reader(&self) -> impl Future<Output = Result<Lease<Self::Db>, Fault>> + Send;

    /// Returns such a connection to the pool.
    fn end_read<T: Send>(
        &self,
        lease: Lease<Self::Db>,
        done: Result<T, Fault>,
    ) -> impl Future<Output = Result<T, Fault>> + Send {
        lease.end(done)
    }

    /// Commits a transaction that succeeded and rolls back one that failed.
    fn end_write<T: Send>(
        &self,
        lease: Lease<Self::Db>,
        done: Result<T, Fault>,
    ) -> impl Future<Output = Result<T, Fault>> + Send {
        lease.end(done)
    }

    /// Most IDs or rows per statement.
    fn page(&self) -> usize {
        PAGE
    }

    /// Writes the new orders of a batch and returns the rows that conflict with the others.
    fn write_mixed(
        conn: &mut Conn<Self::Db>,
        keys: &[Key],
        now: Millis,
        page: usize,
    ) -> impl Future<Output = Result<Vec<Written>, Fault>> + Send {
        orders::write_mixed(conn, keys, now, page)
    }

    /// Closes all connections.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// A store in one database.
#[derive(Debug)]
pub(super) struct SqlStore<B> {
    pub(super) backend: B,
    /// The last batch contained existing orders, so the next one may as well: the fast path is skipped.
    mixed: AtomicBool,
}

/// Reads on a separate connection.
macro_rules! read {
    ($self:ident, |$conn:ident| $work:expr) => {{
        let backend = &$self.backend;
        let read = move |_: Stage| async move {
            let mut lease = backend.reader().await?;
            let done = {
                let $conn: &mut Conn<B::Db> = &mut lease;
                $work.await
            };
            backend.end_read(lease, done).await
        };
        if B::READS_ARE_BOUNDED {
            backend.writer()?.work(read).await
        } else {
            read(Stage::default()).await.map_err(Fault::store_error::<B::Db>)
        }
    }};
}

/// Writes in a separate transaction.
macro_rules! write {
    ($self:ident, |$conn:ident| $work:expr) => {{
        let backend = &$self.backend;
        let sessions = backend.writer()?;
        let write = move |stage| async move {
            let mut lease = sessions.begin(stage).await?;
            let done = {
                let $conn: &mut Conn<B::Db> = &mut lease;
                $work.await
            };
            backend.end_write(lease, done).await
        };
        sessions.work(write).await
    }};
}

impl<B: Backend> SqlStore<B> {
    /// A store on an open database with a current schema.
    pub(super) fn new(backend: B) -> Self {
        Self { backend, mixed: AtomicBool::new(false) }
    }

    /// Writes a batch of new orders; `false` if some exist, and then nothing was written.
    async fn write_new(&self, keys: &[Key], now: Millis) -> Result<bool, StoreError> {
        let sessions = self.backend.writer()?;
        let write = move |stage| async move {
            let mut lease = sessions.begin(stage).await?;
            let done = orders::write_new(&mut lease, keys, now, self.backend.page()).await;
            if matches!(done, Ok(false)) {
                lease.roll_back().await?;
                return Ok(false);
            }
            self.backend.end_write(lease, done).await
        };
        sessions.work(write).await
    }

    /// See [`super::bench_baseline::PlainOrders::place`].
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
impl<B: Backend> Store for SqlStore<B> {
    fn describe(&self) -> String {
        self.backend.describe()
    }

    async fn ping(&self) -> Result<String, StoreError> {
        read!(self, |conn| queries::version(conn))
    }

    async fn takes_writes(&self) -> Result<(), StoreError> {
        self.backend.takes_writes().await
    }

    async fn durability(&self) -> Result<Vec<(String, String)>, StoreError> {
        // Asked on a write connection, whose settings matter.
        let sessions = self.backend.writer()?;
        let read = move |_| async move {
            let mut lease = sessions.lease().await?;
            let done = queries::durability(&mut lease).await;
            lease.end(done).await
        };
        sessions.work(read).await
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
            ordinary::close_overdue(conn, before, limit, now, self.backend.page()).await
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
        let written = write!(self, |conn| B::write_mixed(conn, keys, now, self.backend.page()))?;
        self.mixed.store(rows::is_mixed(&written), Ordering::Relaxed);
        Ok(written)
    }

    async fn foresee(&self, entries: &[OrderEntry]) -> Result<Vec<Written>, StoreError> {
        let mut answers = Vec::with_capacity(entries.len());
        for page in entries.chunks(self.backend.page()) {
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
        write!(self, |conn| payment::cancel(conn, keys, now, self.backend.page()))
    }

    async fn order(&self, id: OrderId) -> Result<Option<Order>, StoreError> {
        read!(self, |conn| orders::one(conn, id))
    }

    async fn orders_among(&self, ids: &[OrderId]) -> Result<Vec<Order>, StoreError> {
        let mut found = Vec::new();
        for page in ids.chunks(self.backend.page()) {
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
        for page in ids.chunks(self.backend.page()) {
            found.extend(read!(self, |conn| orders::existing(conn, page))?);
        }
        Ok(found)
    }

    async fn closed_among(&self, ids: &[OrderId]) -> Result<Vec<OrderId>, StoreError> {
        let mut found = Vec::new();
        for page in ids.chunks(self.backend.page()) {
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

    async fn ledger(&self, voucher: VoucherId) -> Result<SqlLedger, StoreError> {
        read!(self, |conn| orders::ledger(conn, voucher))
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
        write!(self, |conn| payment::pay(conn, ids, now, self.backend.page()))
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
            payment::close_overdue(conn, before, limit, now, self.backend.page()).await
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
        write!(self, |conn| payment::gave_back(conn, ids, now, self.backend.page()))
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
        self.backend.close().await;
    }
}
