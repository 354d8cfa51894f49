//! Benchmarks: the engine compared with a baseline, on the same server in the same run.
//!
//! Absolute times are noise on shared machines; ratios within one run are not.

pub mod growth;
pub mod ids;
pub mod latency;
pub mod locks;
pub mod overload;
pub mod persist;
mod plain_lock;
pub mod recovery;
mod rounds;
pub mod rush;
mod script;
mod setup;
pub mod shards;
mod simulation;
mod spread;
mod tutorial;
