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
    ledger::SqlBooks,
    message::{Label, text},
};

pub use audit_log::{Act, ActivityFilter, ENGINE, NOBODY, Place, Recorded, Which};
pub use config_error::{FileFault, SchemaFault, UrlFault};
use config_error::{MYSQL_PARAMETERS, POSTGRES_PARAMETERS};
pub use open::{file_of, open};
pub use order_rate::OrderFlow;
pub use reason::Reason;
pub use rules::SaleRule;
pub use settings::{Settings, Synchronous, Tls};

/// A store that any task may use.
pub type SharedStore = Arc<dyn Store>;

/// Why the store could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreError {
    /// The database can't be reached or refuses all work for now; what was asked may be asked again.
    #[error("{}", text!("store-away", reason = .0))]
    Away(Reason),
    /// Another program keeps the file of the database locked: it can be read, and nothing can be written.
    #[error("{}", Label("store-locked"))]
    Locked,
    /// The connection broke at the commit: what was asked is done or not. Orders, payments and closings may
    /// be asked again, since each of them happens once.
    #[error("{}", text!("store-unknown", reason = .0))]
    Unknown(Reason),
    /// Another command changed the sale first.
    #[error("{}", text!("store-changed", voucher = .0))]
    Changed(VoucherId),
    /// What was asked goes against the sale as it is.
    #[error(transparent)]
    Rule(SaleRule),
    /// The database refused this very request, by an error that is proven to be about its values; asking again gives
    /// the same answer.
    #[error("{}", text!("store-refused", reason = .0))]
    Refused(Reason),
    /// No such sale.
    #[error("{}", text!("store-no-sale", voucher = .0))]
    NoSale(VoucherId),
    /// The sale is over; its state can't change any more.
    #[error("{}", text!("store-ended", voucher = .0))]
    Ended(VoucherId),
    /// More orders than the stock has pieces.
    #[error("{}", text!("store-out-of-stock", voucher = .0))]
    OutOfStock(VoucherId),
    /// The URL is not understood.
    #[error(transparent)]
    Url(#[from] UrlFault),
    /// The schema was made by another version, or the server does not do.
    #[error(transparent)]
    Schema(#[from] SchemaFault),
    /// A write under a fencing token that is lower than one seen.
    #[error("{}", text!("store-fenced", name = .0))]
    Fenced(String),
    /// The file can't be opened or written, or another program keeps its tables there.
    #[error(transparent)]
    File(#[from] FileFault),
}

impl StoreError {
    /// Whether any other request would fail as well: the cause is the database, not the request.
    pub fn stands_for_all(&self) -> bool {
        self.is_away() || matches!(self, Self::Schema(_) | Self::File(_) | Self::Url(_))
    }

    /// Whether the same request may succeed later as it is.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Away(_) | Self::Locked | Self::Unknown(_))
    }
}

/// The result of one order of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The row is new, and one piece was taken from the stock.
    New,
    /// The same order was there already.
    Again,
    /// The buyer holds another live order for this voucher.
    Conflict {
        /// The order that stands.
        holds: OrderId,
    },
    /// The id belongs to another buyer's order.
    IdTaken,
    /// There is no such sale.
    NoSale,
}

/// The result of cancelling one order that was never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It is cancelled now, and Redis is to be informed.
    Now,
    /// It was cancelled or closed before.
    Before,
    /// It is live: nothing was changed.
    Live,
    /// The id belongs to another order: nothing was changed.
    IdTaken,
    /// There is no such sale: nothing was changed.
    NoSale,
}

/// What every database does for the engine. All writes are idempotent where a caller may repeat them.
#[async_trait]
pub trait Store: Send + Sync + std::fmt::Debug {
    /// What it is and where, without a password: `sqlite /path/seckill.db`.
    fn describe(&self) -> String;

    /// Asks for an answer and nothing else; says the server's version.
    async fn ping(&self) -> Result<String, StoreError>;

    /// Looks for what would make every write wait in vain, though reading goes on: a file that another program keeps
    /// locked. It takes a second at most; a single look in vain may have met a slow commit. Where one lock never
    /// stands in the way of all, there is nothing to look for.
    async fn takes_writes(&self) -> Result<(), StoreError>;

    /// Settings that decide what survives a power loss, for `doctor`: name and value.
    async fn durability(&self) -> Result<Vec<(String, String)>, StoreError>;

    /// Creates an ordinary voucher: one without stock or window.
    async fn create_voucher(
        &self,
        voucher: &VoucherDetails,
        now: Millis,
    ) -> Result<VoucherId, StoreError>;

    /// Writes an unpaid order of an ordinary voucher, in one transaction. The same order again does nothing.
    ///
    /// # Errors
    /// [`StoreError::Rule`] where there is no such voucher, or it is sold in a flash sale, off the shelf or expired;
    /// [`StoreError::Refused`] where the id belongs to another order. Then nothing was written.
    async fn buy(
        &self,
        order: OrderId,
        user: UserId,
        voucher: VoucherId,
        now: Millis,
    ) -> Result<(), StoreError>;

    /// Closes at most `limit` unpaid orders of ordinary vouchers that were written before `before`, oldest first, in one
    /// transaction under `fence`; returns how many. No stock is involved, so nothing goes back.
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

    /// Gives no new voucher a number up to this one.
    async fn reserve_numbers(&self, upto: VoucherId) -> Result<(), StoreError>;

    /// Creates a flash-sale voucher and its sale in one transaction.
    async fn create_sale(&self, sale: &NewSale, now: Millis) -> Result<Sale, StoreError>;

    /// A page of vouchers of either kind, by number.
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

    /// Sets what the operator decided and raises the version. `begin` moves the opening as well. A sale
    /// that has ended can only be archived.
    async fn set_state(
        &self,
        voucher: VoucherId,
        state: SaleState,
        begin: Option<Millis>,
    ) -> Result<Sale, StoreError>;

    /// Adds pieces to initial and to stock, or takes them away where `by` is below 0, and raises the
    /// version. With `seen`, only if that is the version still.
    ///
    /// # Errors
    /// [`StoreError::Changed`] for another version; [`StoreError::Refused`] for more pieces than a sale may
    /// hold, or fewer than live orders hold.
    async fn restock(
        &self,
        voucher: VoucherId,
        by: i64,
        seen: Option<u64>,
    ) -> Result<Sale, StoreError>;

    /// Sales with a change that Redis has not confirmed, archived ones included, by number.
    async fn undelivered(&self) -> Result<Vec<Sale>, StoreError>;

    /// Notes that Redis has confirmed this version of a sale, or a newer one.
    async fn note_delivered(&self, voucher: VoucherId, version: u64) -> Result<(), StoreError>;

    /// Takes a sale over as Redis holds it, with its voucher where that is missing: for a database that was set back.
    /// Its stock is what the live orders leave. Does nothing where SQL has this version or a newer one.
    ///
    /// # Errors
    /// [`StoreError::Refused`] where there are more live orders than pieces, or the number belongs to another voucher.
    async fn adopt_sale(&self, sale: &Sale) -> Result<(), StoreError>;

    /// Writes a batch of orders in one transaction: the rows that are not there yet, then one
    /// stock update a voucher by the rows that were really inserted. The answers are in the
    /// order of `entries`. Fails as a whole: then nothing was written.
    async fn write_orders(
        &self,
        entries: &[OrderEntry],
        now: Millis,
    ) -> Result<Vec<Written>, StoreError>;

    /// What [`Store::write_orders`] would answer to each of these alone, without writing; any number of entries.
    async fn foresee(&self, entries: &[OrderEntry]) -> Result<Vec<Written>, StoreError>;

    /// Cancels orders that were promised and never written, in one transaction: a row each, cancelled at `now`,
    /// that takes no piece of the stock, and Redis to be informed. A row that has an id already is left as it
    /// is. The answers are in the order of `entries`.
    async fn cancel_orders(
        &self,
        entries: &[OrderEntry],
        now: Millis,
    ) -> Result<Vec<Cancelled>, StoreError>;

    /// One order, of a sale or of an ordinary voucher.
    async fn order(&self, id: OrderId) -> Result<Option<Order>, StoreError>;

    /// Those of these orders of sales that exist, live or closed, in any order; any number of ids.
    async fn orders_among(&self, ids: &[OrderId]) -> Result<Vec<Order>, StoreError>;

    /// A page of orders of sales and of ordinary vouchers, newest first: those before `before` that the filter lets through.
    async fn orders(
        &self,
        filter: &OrderFilter,
        before: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<Order>, StoreError>;

    /// Which of these orders exist, live or closed; any number of ids.
    async fn existing(&self, ids: &[OrderId]) -> Result<Vec<OrderId>, StoreError>;

    /// Which of these orders are closed or cancelled and not about to be given back in Redis; any number
    /// of ids.
    async fn closed_among(&self, ids: &[OrderId]) -> Result<Vec<OrderId>, StoreError>;

    /// Live orders of a voucher after `after`, by id, at most `limit`.
    async fn live_orders(
        &self,
        voucher: VoucherId,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<LiveOrder>, StoreError>;

    /// The books of one sale, counted in one read transaction.
    async fn books(&self, voucher: VoucherId) -> Result<SqlBooks, StoreError>;

    /// The orders of one sale, counted by status; none where there is no such sale. It reads every one of them.
    async fn order_counts(&self, voucher: VoucherId) -> Result<OrderCounts, StoreError>;

    /// Buyers with more than one order of a sale, whatever became of those, each with their number: the most first,
    /// and at most `limit`. It reads every order of the sale.
    async fn repeat_buyers(
        &self,
        voucher: VoucherId,
        limit: u32,
    ) -> Result<Vec<(UserId, u64)>, StoreError>;

    /// Pays orders, each only if it is unpaid still. The answers are in the order of `ids`.
    async fn pay(&self, ids: &[OrderId], now: Millis) -> Result<Vec<Payment>, StoreError>;

    /// Closes at most `limit` unpaid orders of sales that were written before `before`, oldest first: each
    /// only if it is unpaid still, its piece back to the stock, and Redis to be informed, in one
    /// transaction under `fence`.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] when another holder has the lock by now; then nothing was closed.
    async fn close_overdue(
        &self,
        before: Millis,
        limit: u32,
        now: Millis,
        fence: &Fence,
    ) -> Result<Vec<ClosedOrder>, StoreError>;

    /// Closed orders of which Redis was not informed yet, by id, at most `limit` after `after`.
    async fn give_backs(
        &self,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<ClosedOrder>, StoreError>;

    /// Closed orders of a voucher of which Redis was informed at `since` or later, or not at all: what a Redis that
    /// lost its last seconds has to learn again.
    async fn given_since(
        &self,
        voucher: VoucherId,
        since: Millis,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<ClosedOrder>, StoreError>;

    /// Notes that Redis was informed of these.
    async fn gave_back(&self, ids: &[OrderId], now: Millis) -> Result<(), StoreError>;

    /// Deletes those of which Redis was informed before `before`; returns how many.
    async fn forget_give_backs(&self, before: Millis) -> Result<u64, StoreError>;

    /// How many closed orders Redis was not informed of yet.
    async fn returning(&self) -> Result<u64, StoreError>;

    /// Begins a run of a job. `None` when that due time was taken before, when the job is paused and
    /// no operator asks for it, or when a run under a higher token was seen.
    async fn begin_run(&self, run: &NewRun) -> Result<Option<i64>, StoreError>;

    /// Writes how a run ended, unless that is known already.
    async fn end_run(&self, id: i64, end: &RunEnd) -> Result<(), StoreError>;

    /// Runs of a job that began under a lower token than `token` and never ended are lost; returns
    /// how many.
    async fn lose_runs(&self, job: &str, token: i64, now: Millis) -> Result<u64, StoreError>;

    /// The newest runs, newest first: of one job or of all.
    async fn runs(&self, job: Option<&str>, limit: u32) -> Result<Vec<JobRun>, StoreError>;

    /// The run of the newest due time up to and with `now`, operators' own left out.
    async fn last_due(&self, job: &str, now: Millis) -> Result<Option<JobRun>, StoreError>;

    /// Forgets ended runs that were due before `before`, but never a job's newest; returns how many.
    async fn forget_runs(&self, before: Millis) -> Result<u64, StoreError>;

    /// Jobs that were ever paused, and whether they are.
    async fn job_switches(&self) -> Result<Vec<JobSwitch>, StoreError>;

    /// Pauses a job or lets it go on.
    async fn pause_job(&self, job: &str, paused: bool, now: Millis) -> Result<(), StoreError>;

    /// Notes a write under a fencing token; returns how many there were under this name.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] when a higher token was seen.
    async fn fenced_write(&self, fence: &Fence, now: Millis) -> Result<u64, StoreError>;

    /// A setting that all nodes share; `None` where it is not set yet.
    async fn setting(&self, name: &str) -> Result<Option<String>, StoreError>;

    /// Decides it, if it stands at `from` still; says whether it did.
    async fn change_setting(
        &self,
        name: &str,
        from: Option<&str>,
        to: &str,
    ) -> Result<bool, StoreError>;

    /// Adds a line to the audit log, unless one of the same `once` is there.
    async fn record(&self, act: &Act) -> Result<(), StoreError>;

    /// The newest acts, newest first.
    async fn acts(&self, limit: u32) -> Result<Vec<Act>, StoreError>;

    /// A page of the log in the order of time, newest first: what lies before `before` and passes the filter.
    async fn activity(
        &self,
        filter: &ActivityFilter,
        before: Option<Place>,
        limit: u32,
    ) -> Result<Vec<Recorded>, StoreError>;

    /// Orders over time: `spans` spans of `step_s` seconds each, the first one from `from`.
    async fn order_flow(
        &self,
        from: Millis,
        step_s: u32,
        spans: u32,
    ) -> Result<OrderFlow, StoreError>;

    /// Gives the connections back; the database is consistent at any moment, also without this.
    async fn close(&self);
}
