//! Redis: connections, the managed server, key names, scripts and typed replies. Contains no rules about sales and
//! orders.

mod cluster_slots;
pub mod commands;
pub mod connect;
pub mod connection;
pub mod data_dir;
pub mod dead_letters;
pub mod entries;
pub mod error;
mod flock;
pub mod group;
pub mod keys;
pub mod lock_holders;
pub mod lossy_utf8;
pub mod nodes;
pub mod permissions;
mod probe;
pub mod repair;
pub mod replicas;
mod routing;
pub mod scripts;
mod sentinel;
pub mod server;
pub mod server_binary;
pub mod shared_connection;
mod socket_path;
pub mod stream;
pub mod stream_stats;
mod temp_data_dir;
pub mod tls;
mod url;

pub use connect::{CLIENT_NAME, Redis};
pub use connection::Connection;
pub use data_dir::DataDir;
pub use error::{DataDirError, RedisError, Result};
pub use keys::Layout;
pub use routing::HOME;
pub use server::ManagedServer;
pub use server_binary::find_server;
pub use shared_connection::SharedConnection;
