//! SQL behind one trait: the durable state of vouchers, sales, orders, jobs and the audit log.
//!
//! The statements are shared (`queries`); what differs between databases is in their `Dialect` and `Backend`. The same
//! tests run on all of them.

mod audit_log;
pub mod bench_baseline;
mod config_error;
mod dialect;
pub mod fault_injection;
mod migrations;
mod open;
mod order_rate;
mod queries;
mod reason;
mod rows;
mod rules;
mod schema;
mod server;
mod session;
mod settings;
mod sql_store;
mod sqlite;

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use seckill_model::{
    ClosedOrder, Fence, JobRun, JobSwitch, LiveOrder, Millis, NewRun, NewSale, Order, OrderCounts,
    OrderEntry, OrderFilter, OrderId, Payment, RunEnd, Sale, SaleState, UserId, Voucher,
    VoucherDetails, VoucherId,
    ledger::SqlLedger,
    message::{Label, text},
};

pub use audit_log::{Act, ActivityFilter, ENGINE, NO_OPERATOR, Place, Recorded, Which};
pub use config_error::{FileFault, SchemaFault, UrlFault};
use config_error::{MYSQL_PARAMETERS, POSTGRES_PARAMETERS};
pub use open::{file_of, open};
pub use order_rate::OrderFlow;
pub use reason::Reason;
pub use rules::SaleRule;
pub use settings::{Settings, Synchronous, Tls};

/// A store shared by tasks.
pub type SharedStore = Arc<dyn Store>;

/// Why an operation of the store failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreError {
    /// The database is unreachable or rejects all work for now; the operation may be repeated.
    #[error("{}", text!("store-away", reason = .0))]
    Away(Reason),
    /// Another program keeps the database file locked: it is readable but not writable.
    #[error("{}", Label("store-locked"))]
    Locked,
    /// The connection broke at the commit, with unknown outcome. Orders, payments and closings may be repeated, since
    /// each of them is idempotent.
    #[error("{}", text!("store-unknown", reason = .0))]
    Unknown(Reason),
    /// Another command changed the sale first.
    #[error("{}", text!("store-changed", voucher = .0))]
    Changed(VoucherId),
    /// The state of the sale does not permit the operation.
    #[error(transparent)]
    Rule(SaleRule),
    /// The database rejected this request with an error that is proven to concern its values; repeating it has the same
    /// result.
    #[error("{}", text!("store-refused", reason = .0))]
    Refused(Reason),
    /// No such sale.
    #[error("{}", text!("store-no-sale", voucher = .0))]
    NoSale(VoucherId),
    /// The sale is over; its state is final.
    #[error("{}", text!("store-ended", voucher = .0))]
    Ended(VoucherId),
    /// More orders than stock.
    #[error("{}", text!("store-out-of-stock", voucher = .0))]
    OutOfStock(VoucherId),
    /// The URL is invalid.
    #[error(transparent)]
    Url(#[from] UrlFault),
    /// The schema belongs to another version, or the server is unsupported.
    #[error(transparent)]
    Schema(#[from] SchemaFault),
    /// A write with a lower fencing token than the last one.
    #[error("{}", text!("store-fenced", name = .0))]
    Fenced(String),
    /// The file cannot be opened or written, or another program keeps its tables there.
    #[error(transparent)]
    File(#[from] FileFault),
}

impl StoreError {
    /// Whether any other request would fail as well, because of the database.
    pub fn stands_for_all(&self) -> bool {
        self.is_away() || matches!(self, Self::Schema(_) | Self::File(_) | Self::Url(_))
    }

    /// Whether the same request may succeed later.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Away(_) | Self::Locked | Self::Unknown(_))
    }
}

/// The result of one order of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The row is new, and one piece was taken from the stock.
    New,
    /// The same order already exists.
    Again,
    /// The buyer holds another live order for this voucher.
    Conflict {
        /// The existing order.
        holds: OrderId,
    },
    /// Another order has this ID.
    IdTaken,
    /// There is no such sale.
    NoSale,
}

/// The result of cancelling one order that was never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// Cancelled now; Redis must be updated.
    Now,
    /// It was already cancelled or closed.
    Before,
    /// It is live: nothing changed.
    Live,
    /// Another order has this ID: nothing changed.
    IdTaken,
    /// There is no such sale: nothing changed.
    NoSale,
}

/// Operations of every database. All writes that a caller may repeat are idempotent.
#[async_trait]
pub trait Store: Send + Sync + std::fmt::Debug {
    /// Kind and location, without a password: `sqlite /path/seckill.db`.
    fn describe(&self) -> String;

    /// Checks that the database answers; returns the server's version.
    async fn ping(&self) -> Result<String, StoreError>;

    /// Checks whether writes are blocked while reads succeed, because another program keeps the file locked. Takes at
    /// most a second; a single failed attempt may be caused by a slow commit. Always succeeds for databases without
    /// such a lock.
    async fn takes_writes(&self) -> Result<(), StoreError>;

    /// Settings that affect durability, for `doctor`: name and value.
    async fn durability(&self) -> Result<Vec<(String, String)>, StoreError>;

    /// Creates an ordinary voucher: one without stock or window.
    async fn create_voucher(
        &self,
        voucher: &VoucherDetails,
        now: Millis,
    ) -> Result<VoucherId, StoreError>;

    /// Writes an unpaid order of an ordinary voucher, in one transaction. Repeating it has no effect.
    ///
    /// # Errors
    /// [`StoreError::Rule`] if there is no such voucher, or it is sold in a flash sale, off the shelf or expired;
    /// [`StoreError::Refused`] if another order has this ID. Then nothing was written.
    async fn buy(
        &self,
        order: OrderId,
        user: UserId,
        voucher: VoucherId,
        now: Millis,
    ) -> Result<(), StoreError>;

    /// Closes at most `limit` unpaid orders of ordinary vouchers that were written before `before`, oldest first, in
    /// one transaction under `fence`; returns how many. No stock is returned.
    ///
    /// # Errors
    /// As [`Store::close_overdue`].
    async fn close_overdue_ordinary(
        &self,
        before: Millis,
        limit: u32,
        now: Millis,
        fence: &Fence,
    ) -> Result<u64, StoreError>;

    /// Reserves the voucher IDs up to this one.
    async fn reserve_numbers(&self, upto: VoucherId) -> Result<(), StoreError>;

    /// Creates a flash-sale voucher and its sale in one transaction.
    async fn create_sale(&self, sale: &NewSale, now: Millis) -> Result<Sale, StoreError>;

    /// A page of vouchers of both kinds, by ID.
    async fn vouchers(
        &self,
        after: Option<VoucherId>,
        limit: u32,
    ) -> Result<Vec<Voucher>, StoreError>;

    /// All sales that are not archived, newest first.
    async fn sales(&self) -> Result<Vec<Sale>, StoreError>;

    /// A page of archived sales, newest first.
    async fn archived(
        &self,
        before: Option<VoucherId>,
        limit: u32,
    ) -> Result<Vec<Sale>, StoreError>;

    /// One sale, archived or not.
    async fn sale(&self, voucher: VoucherId) -> Result<Sale, StoreError>;

    /// Sets the operator-controlled state and increments the version. `begin` also changes the begin. A sale that has
    /// ended can only be archived.
    async fn set_state(
        &self,
        voucher: VoucherId,
        state: SaleState,
        begin: Option<Millis>,
    ) -> Result<Sale, StoreError>;

    /// Adds pieces to initial and to stock, or removes them if `by` is negative, and increments the version. With
    /// `seen`, only if that is still the version.
    ///
    /// # Errors
    /// [`StoreError::Changed`] for another version; [`StoreError::Refused`] for more pieces than a sale may hold, or
    /// fewer than live orders hold.
    async fn restock(
        &self,
        voucher: VoucherId,
        by: i64,
        seen: Option<u64>,
    ) -> Result<Sale, StoreError>;

    /// Sales with a change not yet confirmed by Redis, archived ones included, by ID.
    async fn undelivered(&self) -> Result<Vec<Sale>, StoreError>;

    /// Records that Redis has confirmed this version of a sale, or a newer one.
    async fn note_delivered(&self, voucher: VoucherId, version: u64) -> Result<(), StoreError>;

    /// Restores a sale from Redis, with its voucher if that is missing: for a database that was rolled back. The stock
    /// is derived from the live orders. Does nothing if SQL has this version or a newer one.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if there are more live orders than pieces, or the ID belongs to another voucher.
    async fn adopt_sale(&self, sale: &Sale) -> Result<(), StoreError>;

    /// Writes a batch of orders in one transaction: first the missing rows, then one stock update per voucher for the
    /// rows actually inserted. The results are in the order of `entries`. Fails as a whole: then nothing was written.
    async fn write_orders(
        &self,
        entries: &[OrderEntry],
        now: Millis,
    ) -> Result<Vec<Written>, StoreError>;

    /// Predicts the result of [`Store::write_orders`] for each entry alone, without writing; any number of entries.
    async fn foresee(&self, entries: &[OrderEntry]) -> Result<Vec<Written>, StoreError>;

    /// Cancels orders that were promised but never written, in one transaction: inserts a row each, cancelled at `now`,
    /// that takes no stock, and records that Redis must be updated. Existing rows are not changed. The results are in
    /// the order of `entries`.
    async fn cancel_orders(
        &self,
        entries: &[OrderEntry],
        now: Millis,
    ) -> Result<Vec<Cancelled>, StoreError>;

    /// One order, of a sale or of an ordinary voucher.
    async fn order(&self, id: OrderId) -> Result<Option<Order>, StoreError>;

    /// Those of these orders of sales that exist, live or closed, in any order; any number of IDs.
    async fn orders_among(&self, ids: &[OrderId]) -> Result<Vec<Order>, StoreError>;

    /// A page of orders of sales and of ordinary vouchers, newest first: those before `before` that match the filter.
    async fn orders(
        &self,
        filter: &OrderFilter,
        before: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<Order>, StoreError>;

    /// Which of these orders exist, live or closed; any number of IDs.
    async fn existing(&self, ids: &[OrderId]) -> Result<Vec<OrderId>, StoreError>;

    /// Which of these orders are closed or cancelled and already returned in Redis; any number of IDs.
    async fn closed_among(&self, ids: &[OrderId]) -> Result<Vec<OrderId>, StoreError>;

    /// Live orders of a voucher after `after`, by ID, at most `limit`.
    async fn live_orders(
        &self,
        voucher: VoucherId,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<LiveOrder>, StoreError>;

    /// The ledger of one sale, counted in one read transaction.
    async fn ledger(&self, voucher: VoucherId) -> Result<SqlLedger, StoreError>;

    /// The number of orders of one sale by status; zeros if there is no such sale. Reads every order of the sale.
    async fn order_counts(&self, voucher: VoucherId) -> Result<OrderCounts, StoreError>;

    /// Buyers with more than one order of a sale, in any status, each with the number: the most first, and at most
    /// `limit`. Reads every order of the sale.
    async fn repeat_buyers(
        &self,
        voucher: VoucherId,
        limit: u32,
    ) -> Result<Vec<(UserId, u64)>, StoreError>;

    /// Pays orders, each only if it is still unpaid. The results are in the order of `ids`.
    async fn pay(&self, ids: &[OrderId], now: Millis) -> Result<Vec<Payment>, StoreError>;

    /// Closes at most `limit` unpaid orders of sales that were written before `before`, oldest first: each only if it
    /// is still unpaid, with its piece returned to the stock and an update of Redis recorded, in one transaction under
    /// `fence`.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if another holder has the lock; then nothing was closed.
    async fn close_overdue(
        &self,
        before: Millis,
        limit: u32,
        now: Millis,
        fence: &Fence,
    ) -> Result<Vec<ClosedOrder>, StoreError>;

    /// Closed orders not yet returned in Redis, by ID, at most `limit` after `after`.
    async fn give_backs(
        &self,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<ClosedOrder>, StoreError>;

    /// Closed orders of a voucher returned in Redis at `since` or later, or not at all: those to repeat in a Redis that
    /// lost its last seconds.
    async fn given_since(
        &self,
        voucher: VoucherId,
        since: Millis,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<ClosedOrder>, StoreError>;

    /// Records that these were returned in Redis.
    async fn gave_back(&self, ids: &[OrderId], now: Millis) -> Result<(), StoreError>;

    /// Deletes records of orders returned in Redis before `before`; returns how many.
    async fn forget_give_backs(&self, before: Millis) -> Result<u64, StoreError>;

    /// Number of closed orders not yet returned in Redis.
    async fn returning(&self) -> Result<u64, StoreError>;

    /// Starts a run of a job. `None` if that due time was already taken, if the job is paused and no operator requested
    /// the run, or if a run with a higher token exists.
    async fn begin_run(&self, run: &NewRun) -> Result<Option<i64>, StoreError>;

    /// Stores the result of a run, unless it has one.
    async fn end_run(&self, id: i64, end: &RunEnd) -> Result<(), StoreError>;

    /// Marks unfinished runs of a job with a lower token than `token` as lost; returns how many.
    async fn lose_runs(&self, job: &str, token: i64, now: Millis) -> Result<u64, StoreError>;

    /// The newest runs, newest first: of one job or of all.
    async fn runs(&self, job: Option<&str>, limit: u32) -> Result<Vec<JobRun>, StoreError>;

    /// The run with the latest due time up to `now`, inclusive, except those requested by operators.
    async fn last_due(&self, job: &str, now: Millis) -> Result<Option<JobRun>, StoreError>;

    /// Deletes ended runs that were due before `before`, but never a job's newest; returns how many.
    async fn forget_runs(&self, before: Millis) -> Result<u64, StoreError>;

    /// Jobs that were ever paused, with their current state.
    async fn job_switches(&self) -> Result<Vec<JobSwitch>, StoreError>;

    /// Pauses or resumes a job.
    async fn pause_job(&self, job: &str, paused: bool, now: Millis) -> Result<(), StoreError>;

    /// Records a write with a fencing token; returns how many there were with this name.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if a higher token was used.
    async fn fenced_write(&self, fence: &Fence, now: Millis) -> Result<u64, StoreError>;

    /// A setting shared by all nodes; `None` if it is not set yet.
    async fn setting(&self, name: &str) -> Result<Option<String>, StoreError>;

    /// Changes it if its value is still `from`; returns whether it did.
    async fn change_setting(
        &self,
        name: &str,
        from: Option<&str>,
        to: &str,
    ) -> Result<bool, StoreError>;

    /// Adds a line to the audit log, unless one with the same `once` exists.
    async fn record(&self, act: &Act) -> Result<(), StoreError>;

    /// The newest lines of the audit log, newest first.
    async fn acts(&self, limit: u32) -> Result<Vec<Act>, StoreError>;

    /// A page of the log in time order, newest first: lines before `before` that match the filter.
    async fn activity(
        &self,
        filter: &ActivityFilter,
        before: Option<Place>,
        limit: u32,
    ) -> Result<Vec<Recorded>, StoreError>;

    /// Orders over time: `spans` intervals of `step_s` seconds each, from `from`.
    async fn order_flow(
        &self,
        from: Millis,
        step_s: u32,
        spans: u32,
    ) -> Result<OrderFlow, StoreError>;

    /// Closes the connections; the database is consistent at any time, also without this.
    async fn close(&self);
}
