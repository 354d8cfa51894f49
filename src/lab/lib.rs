//! The lab: each design of the flash-sale tutorials on real, temporary servers, judged on the same work.
//!
//! A design is a file in `designs`: it serves one purchase, step by step, through a [`Lane`](lane::Lane). A `Lane` runs
//! each statement and command and records it, so a timeline shows what the servers did. The path of one run:
//!
//! 1. `shop` starts the servers and creates the tables of the tutorials;
//! 2. `fleet` starts the instances, each a process of its own (`instance`), which serve their share of the `work`;
//! 3. `holders` makes the incidents happen to the holders of locks, and `hand_over` those to the consumer of a design that
//!    writes its orders later; `lock` has the locks in Redis;
//! 4. `verdict` counts orders and stock in SQL, whatever the design replied, and `ownership` the locks that were deleted
//!    by others;
//! 5. `timeline` finds the shortest interleaving that broke a promise;
//! 6. `report` puts the runs of all seeds together.
//!
//! Apart from that, `playground` shows a lock, streams and schedules at work.

mod consumer;
mod database;
mod design;
mod designs;
mod engine_locks;
mod engine_node;
mod entry;
mod error;
mod fleet;
mod hand_over;
mod holders;
pub mod instance;
mod lane;
mod latency;
mod lock;
mod meeting;
mod memory_queue;
mod ownership;
mod parent;
pub mod playground;
mod queues;
mod redis_server;
mod report;
mod runner;
mod shop;
pub mod sql_programs;
mod sql_server;
mod stalls;
#[cfg(test)]
mod tests;
mod timeline;
mod trace;
mod verdict;
mod work;

pub use database::Database;
pub use design::{Design, Fault, Promise, Question, Source, When};
pub use designs::{all, find};
pub use error::{LabError, Result};
pub use fleet::Program;
pub use latency::Latency;
pub use queues::{Cell, How, Property, Queue, Queues};
pub use report::{DesignReport, NotApplicable, Ratio, Report, Run};
pub use runner::{Lab, Progress};
pub use timeline::{Line, Timeline};
pub use trace::{Action, Saw, Step};
pub use verdict::Verdict;
pub use work::{Incident, Work};
