//! Redis: connecting, the managed server, key names, scripts, and replies turned into types.
//!
//! This room must not know SQL, and decides nothing about sales or orders.

pub mod connect;
pub mod data_dir;
pub mod error;
pub mod keys;
pub mod scripts;
pub mod server;
pub mod stream;
pub mod survey;

pub use connect::{Link, Redis};
pub use error::BrokerError;
pub use keys::Layout;
