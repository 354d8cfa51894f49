//! What is seen of a running engine: counters, latencies, and the [`Snapshot`] that screens read.
//!
//! This room reads Redis and SQL and changes nothing in them. It must not know the engine's
//! inner workings, a terminal or a command line.

pub mod alarms;
mod attention;
pub mod books;
pub mod census;
pub mod collector;
mod entries;
pub mod forgot;
mod health;
pub mod ledger_page;
mod letters;
pub mod log;
pub mod meters;
mod orders;
pub mod series;
pub mod snapshot;
mod standing;
pub mod stock;
pub mod unread;
mod window;
pub mod writes;

pub use entries::StreamView;
pub use meters::Meters;
pub use orders::OrdersView;
pub use series::{Point, Series};
pub use snapshot::Snapshot;
