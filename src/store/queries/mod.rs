//! The operations of the store, shared by all dialects: methods of [`super::Store`], by subject.

mod audit_log;
mod bench_baseline;
mod jobs;
mod order_rate;
pub(super) mod orders;
mod ordinary;
mod payment;
mod sales;

pub use bench_baseline::Placed;
pub use order_rate::OrderFlow;

/// Most IDs or rows per statement: pages keep one call from occupying a connection for seconds.
pub(super) const PAGE: usize = 10_000;
