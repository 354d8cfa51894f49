//! The flash-sale engine: buyer → admission → stream → consumer → store → acknowledge.
//!
//! Independent of terminals, HTTP and command lines. A [`node::Node`] is one engine process on a
//! [`deployment::Deployment`]: its [`Operator`] carries out [`Command`]s, and its snapshots show what happens.
//!
//! # Examples
//!
//! `cargo run --locked -p seckill-engine --example embed` runs this one; it needs `redis-server` or `valkey-server` on the
//! path.
//!
//! ```
#![doc = include_str!("examples/embed.rs")]
//! ```

pub mod admission;
pub mod commands;
pub mod consumer;
pub mod context;
pub mod dead_letters;
pub mod deployment;
pub mod error;
pub mod event;
pub mod event_log;
pub mod fault_injection;
pub mod heartbeat;
pub mod ids;
pub mod jobs;
pub mod ledger;
mod lists;
pub mod locks;
pub mod node;
pub mod orders;
pub mod outbox;
pub mod partitions;
pub mod payment;
#[cfg(test)]
mod protocol;
pub mod recovery;
pub mod retention;
mod schedule;
pub mod servers;
pub mod settings;
pub mod snapshot_task;
pub mod survey;
pub mod telemetry;
pub mod time_zone;
pub mod trace;
pub mod vouchers;

pub use commands::{
    Command, LoadReport, LoadTest, Pace, ReplayReport, Reply, Scope, command_handler::Operator,
};
pub use error::{EngineError, PlanError, Result};
pub use lists::sales as sale_list;
pub use locks::LockName;
pub use telemetry::{
    Snapshot,
    snapshot::{AlarmKind, Health, JobLine, LetterLine, SaleLine, StreamLine},
};
