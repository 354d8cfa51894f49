//! The flash-sale engine: buyer → admission → stream → consumer → store → acknowledge.
//!
//! It knows nothing of terminals, HTTP or command lines.

pub mod command;
