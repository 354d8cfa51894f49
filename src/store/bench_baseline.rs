//! The baseline of `seckill bench`: one order by select, update and insert, each a statement and a round trip.
//!
//! The engine is measured against it. It writes to the same tables under the same durability. No engine writes orders through it: that is [`super::Store::write_orders`].

use seckill_model::{Millis, OrderEntry};
use sqlx::{MySql, Postgres};

use super::{
    Settings, Store as _, StoreError,
    open::{Place, place},
    server::ServerStore,
    sqlite::SqliteStore,
};

/// The result of one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// The row is new, and one piece was taken from the stock.
    Written,
    /// The buyer already holds an order for this voucher; nothing was written.
    Held,
    /// Sold out; nothing was written.
    SoldOut,
}

/// A connection to a database for the baseline, independent of an open store.
#[derive(Debug)]
pub struct PlainOrders(Dialect);

#[derive(Debug)]
enum Dialect {
    Sqlite(Box<SqliteStore>),
    Mysql(ServerStore<MySql>),
    Postgres(ServerStore<Postgres>),
}

impl PlainOrders {
    /// Opens the database behind `url` as [`super::open`] does.
    pub async fn open(url: &str, settings: &Settings) -> Result<Self, StoreError> {
        Ok(Self(match place(url)? {
            Place::Sqlite(path) => {
                Dialect::Sqlite(Box::new(SqliteStore::open(&path, settings).await?))
            }
            Place::Mysql(url) => Dialect::Mysql(ServerStore::open(&url, settings).await?),
            Place::Postgres(url) => Dialect::Postgres(ServerStore::open(&url, settings).await?),
        }))
    }

    /// One transaction: checks whether the buyer holds an order, takes a piece, inserts the row.
    ///
    /// # Errors
    /// The database is unavailable or rejects it; then nothing was written.
    pub async fn place(&self, order: &OrderEntry, now: Millis) -> Result<Placed, StoreError> {
        match &self.0 {
            Dialect::Sqlite(store) => store.place(order, now).await,
            Dialect::Mysql(store) => store.place(order, now).await,
            Dialect::Postgres(store) => store.place(order, now).await,
        }
    }

    /// Closes its connections.
    pub async fn close(self) {
        match self.0 {
            Dialect::Sqlite(store) => store.close().await,
            Dialect::Mysql(store) => store.close().await,
            Dialect::Postgres(store) => store.close().await,
        }
    }
}
