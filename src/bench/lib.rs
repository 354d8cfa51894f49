//! Figures: what the engine does beside what the plain way does, on the same server in the same run.
//!
//! Times are noise on shared machines; the ratios of one run are not. It must not know a command line.

pub mod locks;
pub mod persist;
mod tutorial;
