//! Parse the command line, start the runtime, call one command.

fn main() {}
