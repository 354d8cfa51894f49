//! Tests on real servers: what each design declares, and that timelines show what the servers saw.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails says where"
)]

use std::collections::BTreeSet;

use tokio_util::sync::CancellationToken;

use crate::{Lab, Program, Promise, Report, Work, designs, instance};

/// The instances are this test binary, which runs [`instance_process`] only.
fn program() -> Program {
    let args = ["--ignored", "--exact", "tests::instance_process", "--nocapture"];
    Program { path: std::env::current_exe().unwrap(), args: args.iter().map(Into::into).collect() }
}

#[tokio::test]
#[ignore = "it is the process of an instance, started by the other tests"]
async fn instance_process() {
    let _ = instance::run().await;
}

fn lab(names: &[&str], work: Work, seeds: std::ops::Range<u64>) -> Lab {
    let designs = match names {
        [] => designs::all().to_vec(),
        names => names.iter().map(|name| designs::find(name).unwrap()).collect(),
    };
    Lab { designs, work, seeds: seeds.collect(), program: program() }
}

async fn run(names: &[&str], work: Work, seeds: std::ops::Range<u64>) -> Report {
    lab(names, work, seeds).run(|_| {}, &CancellationToken::new()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_design_breaks_what_it_declares_and_nothing_else() {
    let report = run(&[], Work::default(), 1..4).await;
    for design in &report.designs {
        let broken: BTreeSet<Promise> = design.broken.keys().copied().collect();
        assert_eq!(broken, design.breaks.iter().copied().collect(), "{}", design.name);
        assert!(
            design.broken.values().all(|seeds| *seeds == 3),
            "{}: {:?}",
            design.name,
            design.broken
        );
        let shown: Vec<Promise> = design.timelines.iter().map(|it| it.promise).collect();
        assert_eq!(shown, design.breaks, "{}: each broken promise has a timeline", design.name);
        for run in &design.runs {
            assert_eq!((run.verdict.failed, run.verdict.lost), (0, 0), "{}: {run:?}", design.name);
        }
    }
    assert!(!report.is_unexpected());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_memory_is_right_with_one_instance() {
    let work = Work { instances: 1, ..Work::default() };
    let report = run(&["counter-in-memory", "process-mutex"], work, 1..3).await;
    for design in &report.designs {
        assert!(
            design.breaks.is_empty() && design.broken.is_empty(),
            "{}: {:?}",
            design.name,
            design.broken
        );
        assert!(design.runs.iter().all(|it| it.verdict.sold == 100), "{:?}", design.runs);
    }
}

#[test]
fn a_design_is_mended_by_one_that_keeps_what_it_breaks() {
    let work = Work::default();
    let names: BTreeSet<&str> = designs::all().iter().map(|it| it.name).collect();
    assert_eq!(names.len(), designs::all().len());
    for design in designs::all() {
        assert_eq!(design.mended_by.is_none(), design.faults.is_empty(), "{}", design.name);
        if let Some(name) = design.mended_by {
            let mended = designs::find(name).unwrap();
            assert!(design.breaks(&work).all(|promise| mended.keeps(promise, &work)), "{name}");
        }
    }
}
