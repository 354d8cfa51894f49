//! Telemetry of a running engine: counters, latencies, alarms, and the [`Snapshot`] for the screens.
//!
//! It reads Redis and SQL; only [`event_log`] and [`data_loss`] hand lines of the audit log to the outbox. Nothing here knows a
//! terminal or a command line.

mod alarm;
pub mod alarms;
pub mod census;
pub mod collector;
pub mod curves;
pub mod data_loss;
pub mod event;
pub mod event_log;
mod ledger_hysteresis;
pub mod ledger_page;
pub mod ledger_totals;
pub mod log;
pub mod meters;
pub(crate) mod node_report;
mod sale_line;
pub mod series;
pub mod snapshot;
pub mod snapshot_task;
pub mod survey;
mod window;
pub mod write_probe;

pub use meters::Meters;
pub use series::{Point, Series};
pub use snapshot::{OrdersView, Page, Snapshot, StreamView};
