//! The real program, as a process and in a pseudo-terminal.

#[path = "../support/mod.rs"]
mod support;

mod bench;
mod cli_dead;
mod cli_sales;
mod cli_stream;
mod cli_words;
mod descriptions;
mod ends;
mod incident;
mod pictures;
mod process;
mod random;
mod terminal;
mod titles;
