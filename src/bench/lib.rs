//! Benchmarks: the engine compared with a baseline, on the same server in the same run.
//!
//! Absolute times are noise on shared machines; ratios within one run are not.

pub mod locks;
pub mod persist;
mod plain_lock;
mod tutorial;
