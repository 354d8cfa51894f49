//! SQL behind one type: the durable state of vouchers, sales, orders, jobs and the audit log.
//!
//! The statements are shared (`queries`); what differs between databases is in their `Dialect`, and a file needs more
//! care than a server (`sqlite`). The same tests run on all of them.

mod audit_log;
mod batch;
mod connection;
mod dialect;
mod fault;
pub mod fault_injection;
mod migrations;
mod open;
pub mod plain;
mod queries;
mod rows;
mod rules;
mod schema;
mod server;
mod session;
mod settings;
mod sqlite;
mod store;

use std::sync::Arc;

use seckill_model::{Label, OrderEntry, OrderError, OrderId, Reason, VoucherId, text};
use serde::{Deserialize, Serialize};

use self::{
    batch::OrderRow,
    connection::{Conn, params},
    dialect::{Dialect, Value},
    fault::Fault,
    session::{CommitSent, Sessions},
    store::{read, transaction},
};
pub use audit_log::{ActivityFilter, AuditEntry, ENGINE, LogPosition, NO_OPERATOR, Which};
pub use open::{DEPLOYMENT, Expected, Opening, check_url, file_of, open, open_as};
pub use queries::{ImportedOrder, OrderFlow, Overdue, Placed, Restocked, Sales, UnreadableSale};
pub use rules::check_restock;
pub use settings::{Settings, Synchronous, Tls};
pub use store::Store;

/// A store shared by tasks.
pub type SharedStore = Arc<Store>;

/// Result of an operation of the store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Why an operation of the store failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreError {
    /// The database is unreachable or rejects all work for now; the operation may be repeated.
    #[error("{}", text!("store-database-is-unavailable-work-continues", reason = .0))]
    Away(Reason),
    /// The database does not reply.
    #[error("{}", text!("store-silent", name, seconds = *millis as f64 / 1e3))]
    Silent {
        /// Its name.
        name: String,
        /// For how long.
        millis: u64,
    },
    /// Another program keeps the database file locked: it is readable but not writable.
    #[error("{}", Label("store-locked"))]
    Locked,
    /// The database answered with an error that names neither its own state nor, for certain, the request as its cause.
    #[error("{}", text!("store-failed", reason = .0))]
    Failed(Reason),
    /// The connection broke at the commit, with unknown outcome. Orders, payments and closings may be repeated, since
    /// each of them is idempotent.
    #[error("{}", text!("store-unknown", reason = .0))]
    Unknown(Reason),
    /// Another command changed the sale first.
    #[error("{}", text!("store-changed", voucher = .0))]
    Changed(VoucherId),
    /// Redis has a newer version of the sale: the database was restored from a backup.
    #[error("{}", text!("error-sql-behind", sale = .0))]
    Behind(VoucherId),
    /// The state of the sale does not permit the operation.
    #[error(transparent)]
    Rule(Reason),
    /// The database rejected this request with an error about values. It may reject every other request as well, for
    /// example after a change of its tables.
    #[error("{}", text!("store-refused", reason = .0))]
    Rejected(Reason),
    /// No such sale.
    #[error("{}", text!("store-no-sale", voucher = .0))]
    NoSale(VoucherId),
    /// The sale is over; its state is final.
    #[error("{}", text!("store-ended", voucher = .0))]
    Ended(VoucherId),
    /// More orders than stock.
    #[error("{}", text!("faults-voucher-has-no-stock-left", voucher = .0))]
    OutOfStock(VoucherId),
    /// The URL is invalid.
    #[error(transparent)]
    Url(Reason),
    /// The schema belongs to another version, or the server is unsupported.
    #[error(transparent)]
    Schema(Reason),
    /// The keys in Redis belong to another database. Nothing was changed in this one.
    #[error("{}", text!("store-foreign", database = .0))]
    Foreign(String),
    /// Whether the keys in Redis belong to this database is unknown, because Redis does not reply. Nothing was changed.
    #[error("{}", text!("store-unbound", database = .0))]
    Unbound(String),
    /// A write with a lower fencing token than the last one.
    #[error("{}", text!("store-fenced", name = .0))]
    Fenced(String),
    /// The file cannot be opened or written, or another program keeps its tables there.
    #[error(transparent)]
    File(Reason),
}

impl StoreError {
    /// Whether any other request would fail as well, because of the database.
    pub fn stands_for_all(&self) -> bool {
        self.is_outage() || matches!(self, Self::Schema(_))
    }

    /// Whether the database did not process the request, so that the error says nothing about it. All other errors are
    /// replies to the request: whether they are about it alone shows only in what happens to other requests.
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Failed(_) => false,
            Self::File(_) | Self::Url(_) => true,
            other => other.is_away(),
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_away(&self) -> bool {
        matches!(
            self,
            Self::Away(_)
                | Self::Silent { .. }
                | Self::Locked
                | Self::Failed(_)
                | Self::Unknown(_)
                | Self::Unbound(_)
        )
    }

    /// The cause alone, without the consequence for the request.
    pub fn reason(self) -> Reason {
        match self {
            Self::Away(why)
            | Self::Failed(why)
            | Self::Unknown(why)
            | Self::Rule(why)
            | Self::Rejected(why)
            | Self::Url(why)
            | Self::Schema(why)
            | Self::File(why) => why,
            Self::Locked => Label("store-locked").into(),
            other => Reason::Quoted(other.to_string()),
        }
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
    /// A live row at the buyer's place has an ID that is not one of an order: another program has inserted it.
    Foreign {
        /// The ID of the row.
        row: i64,
    },
    /// Another order has this ID.
    IdTaken,
    /// There is no such sale.
    NoSale,
}

impl Written {
    /// Why SQL rejects `order` with this result; `None` if it has the row.
    pub fn fault(self, order: &OrderEntry) -> Option<OrderError> {
        let OrderEntry { order, user, voucher, .. } = *order;
        Some(match self {
            Self::New | Self::Again => return None,
            Self::Conflict { holds } => OrderError::Holds { user, holds, voucher },
            Self::Foreign { row } => OrderError::Foreign { user, row, voucher },
            Self::IdTaken => OrderError::IdTaken(order),
            Self::NoSale => OrderError::NoSale(voucher),
        })
    }
}

/// Which orders a database accepts that has rejected one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// Others of the same sale.
    Sale,
    /// Those of other sales; none of the same sale, for this reason.
    OtherSales(StoreError),
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
    /// The database rejects this order alone: nothing changed.
    Rejected,
}
