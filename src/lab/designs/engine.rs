//! The engine of this project: real nodes on the servers of the lab, with its own tables and script.
//!
//! Right: one script admits a batch of buyers and puts their orders into the stream. The consumer writes a batch in one
//! transaction and acknowledges after the commit, takes over what a dead one had, and puts poison entries aside.

use super::prelude::*;
use crate::consumer::Consumer;

pub(super) const DESIGN: Design = Design {
    name: "engine",
    question: Question::HandOver,
    source: Source { text: "000", section: "12.6" },
    faults: &[],
    mended_by: None,
    why: Label("lab-why-engine"),
    not_on: &[],
    schema: &[],
    serve: |lane| lane.admit().boxed(),
    consumer: Some(Consumer::Engine),
};
