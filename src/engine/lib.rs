//! The flash-sale engine: buyer → admission → stream → consumer → store → acknowledge.
//!
//! Independent of terminals, HTTP and command lines. A [`node::Node`] is one engine process on a
//! [`deployment::Deployment`]: its [`Operator`] carries out [`Command`]s, and its snapshots show what happens.
//!
//! The path of an order: [`admission`] decides and adds an entry to the stream; [`consumer`] writes it to SQL and acknowledges
//! it. [`orders`] issues IDs and handles sales and payment, [`ledger`] compares Redis with SQL, and [`recovery`] completes what a
//! failure left incomplete. Alongside them: [`jobs`] on schedules, [`locks`], [`commands`] of operators, and [`telemetry`].
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
pub mod deployment;
pub mod error;
pub mod fault_injection;
pub mod jobs;
pub mod ledger;
mod lists;
pub mod locks;
pub mod node;
pub mod orders;
#[cfg(test)]
mod protocol;
pub mod recovery;
pub mod telemetry;

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
