//! `seckill`: a terminal operations console that carries its own flash-sale engine.
//!
//! Read it along the path of an order: [`model`] says what things are, [`broker`] speaks to
//! Redis, [`store`] to SQL, [`engine`] moves an order from one to the other, [`telemetry`] takes
//! the pictures that [`console`] draws, [`bench`] measures, and [`cli`] ties them together. Imports
//! go that way up only; a test keeps it so. Below all of them lie [`faults`], where tests let a process die.

pub mod bench;
pub mod broker;
pub mod cli;
pub mod config;
pub mod console;
pub mod engine;
pub mod faults;
pub mod model;
pub mod store;
pub mod telemetry;
