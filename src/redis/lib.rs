//! Redis: connecting, the managed server, key names, scripts, and replies turned into types.
//!
//! It decides nothing about sales or orders.

pub mod binary;
pub mod commands;
pub mod connect;
pub mod data_dir;
pub mod entries;
pub mod error;
mod flock;
pub mod group;
pub mod holders;
pub mod keys;
pub mod letters;
pub mod link;
pub mod mend;
pub mod nodes;
mod probe;
mod routing;
pub mod scripts;
mod sentinel;
pub mod server;
mod server_log;
pub mod stream;
pub mod survey;
pub mod text;
mod throw_away;
mod topology;
mod url;
pub mod url_fault;

pub use binary::find_server;
pub use connect::Redis;
pub use data_dir::{DataDir, DataDirError};
pub use error::{BrokerError, Unwilling};
pub use keys::Layout;
pub use link::Link;
pub use routing::HOME;
pub use server::{ManagedServer, ServerError};
pub use url_fault::{HostsFault, UrlFault};
