//! The real program, as a process and in a pseudo-terminal.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails says where"
)]

#[path = "../support/mod.rs"]
mod support;

mod attach;
mod attach_beside;
mod attach_migrate;
mod bench;
mod cli_contract;
mod cli_dead_letters;
mod cli_output;
mod cli_sales;
mod cli_stream;
mod descriptions;
mod http;
mod incident;
mod lab;
mod lost_server;
mod output_files;
mod pictures;
mod process;
mod random;
mod small_disk;
mod suspended;
mod terminal;
mod terminal_restore;
mod unwitnessed;
mod upgrade;
mod wide_titles;
