//! The operations of the store, shared by all dialects: methods of [`super::Store`], by subject.

mod audit_log;
mod bench_baseline;
mod jobs;
mod order_rate;
mod orders;
mod ordinary;
mod payment;
mod sales;
mod users;

pub use bench_baseline::Placed;
pub use order_rate::OrderFlow;
pub use payment::Overdue;
pub use sales::{ImportedOrder, Restocked, Sales, UnreadableSale};
