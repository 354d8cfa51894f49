//! The engine against real servers, most of it in this process: one program, so that it is linked once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails says where"
)]

#[path = "../support/mod.rs"]
mod support;
#[path = "../world/mod.rs"]
mod world;

mod admitted_once;
mod audit_log;
mod claims;
mod console_letters;
mod console_reads;
mod data_dir;
mod databases;
mod dead_letters;
mod drills;
mod durability;
mod failover;
mod flush;
mod groups;
mod http;
mod http_clients;
mod http_connections;
mod http_garbage;
mod jobs;
mod kills;
mod load_test_outages;
mod load_test_stop;
mod locks;
mod losses;
mod managed_redis;
mod order_path;
mod outages;
mod partitions;
mod payment;
mod poison;
mod recovery;
mod refusals;
mod restarts;
mod restock;
mod retention;
mod sale_faults;
mod sale_fields;
mod server_matrix;
mod servers;
mod set_back;
mod shards;
mod sql_changes;
mod store;
mod support_clusters;
mod support_works;
mod topology;
mod workers;
