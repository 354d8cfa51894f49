//! One order the plain way: select, update, insert, each a statement and a round trip.
//!
//! It is what the engine is measured against, and writes to the same tables under the same
//! durability. No engine writes orders through it: that is [`super::Store::write_orders`].

use super::{StoreError, open::sqlite_path, sqlite::PlainSqlite};
use crate::model::{Millis, OrderEntry};

/// What became of one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// The row is new, and one piece was taken from the stock.
    Written,
    /// The buyer holds an order for this voucher already; nothing was written.
    Held,
    /// Nothing is left; nothing was written.
    SoldOut,
}

/// One connection to a database whose store was opened before: the schema is there.
#[derive(Debug)]
pub struct PlainOrders(Dialect);

#[derive(Debug)]
enum Dialect {
    Sqlite(PlainSqlite),
}

impl PlainOrders {
    /// Connects to the database behind `url`.
    ///
    /// # Errors
    /// The URL is not understood, or the database is away.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Ok(Self(Dialect::Sqlite(PlainSqlite::open(&sqlite_path(url)?).await?)))
    }

    /// One transaction: looks whether the buyer holds an order, takes a piece, inserts the row.
    ///
    /// # Errors
    /// The database is away or refuses; then nothing was written.
    pub async fn place(&mut self, order: &OrderEntry, now: Millis) -> Result<Placed, StoreError> {
        match &mut self.0 {
            Dialect::Sqlite(orders) => orders.place(order, now).await,
        }
    }

    /// Gives the connection back.
    pub async fn close(self) {
        match self.0 {
            Dialect::Sqlite(orders) => orders.close().await,
        }
    }
}
