//! The flash-sale engine: buyer → admission → stream → consumer → store → acknowledge.
//!
//! Independent of terminals, HTTP and command lines.

pub mod admission;
pub mod apply;
pub mod audit_figures;
pub mod audit_record;
pub mod command;
pub mod command_handler;
pub mod consumer;
pub mod dead_letters;
mod delivery;
pub mod deployment;
pub mod durability;
mod entry_check;
pub mod error;
pub mod event;
pub mod event_log;
pub mod fault_injection;
pub mod group;
pub mod heartbeat;
pub mod ids;
pub mod jobs;
pub mod ledger;
mod lists;
pub mod load_generator;
pub mod locks;
pub mod node;
mod operator;
pub mod operator_lock;
pub mod order_writer;
pub mod orders;
pub mod outbox;
pub mod outcome;
pub mod partition_fault;
pub mod partition_repair;
pub mod partitions;
pub mod payment;
pub mod pending;
pub mod plan;
pub mod promise_journal;
pub mod purchase;
pub mod rebuild;
pub mod reconcile;
pub mod repair;
mod reply;
pub mod retention;
pub mod sale_copy;
pub mod sale_versions;
mod schedule;
pub mod servers;
pub mod settings;
pub mod snapshot_task;
pub mod telemetry;
pub mod trace;
pub mod vouchers;

pub use error::EngineError;
