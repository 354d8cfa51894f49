//! What is seen of a running engine: counters, latencies, and the [`Snapshot`] that screens read.
//!
//! This room reads Redis and SQL and changes nothing in them. It must not know the engine's
//! inner workings, a terminal or a command line.

pub mod alarms;
mod attention;
pub mod census;
pub mod collector;
pub mod data_loss;
mod entries;
mod health;
mod ledger_hysteresis;
pub mod ledger_page;
pub mod ledger_totals;
mod letters;
pub mod log;
pub mod meters;
mod orders;
pub mod read_error;
pub mod series;
pub mod snapshot;
pub mod stock;
mod window;
pub mod write_probe;

pub use entries::StreamView;
pub use meters::Meters;
pub use orders::OrdersView;
pub use series::{Point, Series};
pub use snapshot::Snapshot;
