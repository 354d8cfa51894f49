//! The flash-sale engine: buyer → admission → stream → consumer → store → acknowledge.
//!
//! It knows nothing of terminals, HTTP or command lines.

pub mod admission;
mod answers;
pub mod apply;
pub mod beat;
pub mod chronicle;
pub mod command;
pub mod consumer;
pub mod dead;
pub mod deployment;
pub mod drill;
pub mod durability;
mod entry_check;
pub mod error;
pub mod figures;
pub mod gate;
pub mod group;
pub mod ids;
pub mod jobs;
pub mod journal;
pub mod ledger;
pub mod locks;
pub mod mend;
pub mod node;
pub mod operator;
pub mod operator_lock;
pub mod orders;
pub mod outbox;
pub mod partitions;
pub mod payment;
pub mod pending;
pub mod plan;
pub mod purchase;
pub mod rebuild;
pub mod reconcile;
pub mod record;
pub mod refusal;
pub mod repair;
pub mod retention;
pub mod rush;
pub mod sale_versions;
pub mod settings;
pub mod telemetry;
pub mod told;
pub mod trace;
pub mod vouchers;
pub mod watcher;
pub mod writer;

pub use error::EngineError;
