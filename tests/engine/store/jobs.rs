use seckill_model::{Cause, Fence, JobOutcome, NewRun, RunEnd};
use seckill_store::{SharedStore, StoreError};

use super::NOW;

fn run(job: &str, due: i64, token: i64) -> NewRun {
    NewRun {
        job: job.into(),
        due: NOW.plus(due),
        cause: Cause::Due,
        node: "node-a".into(),
        token,
        started: NOW.plus(due + 1),
    }
}

fn end(outcome: JobOutcome) -> RunEnd {
    RunEnd { outcome, took_ms: 12, detail: Some("三 of 4 🍲".into()), rows: 3 }
}

pub(crate) async fn a_due_time_is_taken_once(store: SharedStore) {
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.begin_run(&run("close", 10, 1)).await.unwrap() })
        })
        .collect();
    let mut begun = Vec::new();
    for task in tasks {
        begun.extend(task.await.unwrap());
    }
    assert_eq!(begun.len(), 1, "{begun:?}");
    assert!(store.begin_run(&run("other", 10, 1)).await.unwrap().is_some());
    assert_eq!(store.runs(Some("close"), 9).await.unwrap().len(), 1);
    assert_eq!(store.runs(None, 9).await.unwrap().len(), 2);
}

pub(crate) async fn runs_are_kept_with_their_ends(store: SharedStore) {
    let first = store.begin_run(&run("close", 10, 1)).await.unwrap().unwrap();
    store.end_run(first, &end(JobOutcome::Done)).await.unwrap();
    store.end_run(first, &end(JobOutcome::Failed)).await.unwrap();
    let result = store.runs(Some("close"), 9).await.unwrap().remove(0);
    assert_eq!((result.id, result.outcome, result.took_ms), (first, JobOutcome::Done, Some(12)));
    assert_eq!((result.detail.as_deref(), result.rows), (Some("三 of 4 🍲"), Some(3)));
    assert_eq!(
        (result.due, result.started, result.cause),
        (NOW.plus(10), NOW.plus(11), Cause::Due)
    );

    // A node returns with its old token.
    store.begin_run(&run("close", 20, 3)).await.unwrap().unwrap();
    assert_eq!(store.begin_run(&run("close", 30, 2)).await.unwrap(), None);
    assert_eq!(store.lose_runs("close", 3, &"gone".into(), NOW).await.unwrap(), 0);
    assert_eq!(store.lose_runs("close", 4, &"gone".into(), NOW.plus(50)).await.unwrap(), 1);
    let result = store.runs(Some("close"), 1).await.unwrap().remove(0);
    assert_eq!((result.outcome, result.took_ms), (JobOutcome::Lost, Some(29)));
    assert_eq!(result.detail.as_deref(), Some("gone"));
    let operators = NewRun { cause: Cause::Operator, ..run("close", 40, 4) };
    store.begin_run(&operators).await.unwrap().unwrap();
    let last = store.last_due("close", NOW.plus(99)).await.unwrap().unwrap();
    assert_eq!(last.due, NOW.plus(20));
    assert_eq!(store.last_due("close", NOW.plus(9)).await.unwrap(), None);
}

pub(crate) async fn history_is_forgotten_but_for_the_newest(store: SharedStore) {
    for due in [10, 20, 30] {
        let id = store.begin_run(&run("close", due, 1)).await.unwrap().unwrap();
        if due != 20 {
            store.end_run(id, &end(JobOutcome::Done)).await.unwrap();
        }
    }
    let other = store.begin_run(&run("old", 1, 1)).await.unwrap().unwrap();
    store.end_run(other, &end(JobOutcome::Done)).await.unwrap();
    assert_eq!(store.forget_runs(NOW.plus(99)).await.unwrap(), 1);
    let left: Vec<_> = store.runs(None, 9).await.unwrap().into_iter().map(|it| it.due).collect();
    assert_eq!(left, [NOW.plus(1), NOW.plus(30), NOW.plus(20)]);
}

pub(crate) async fn a_paused_job_waits_for_its_operator(store: SharedStore) {
    assert_eq!(store.job_switches().await.unwrap(), []);
    assert!(store.pause_job("close", true, NOW).await.unwrap());
    assert!(!store.pause_job("close", true, NOW.plus(1)).await.unwrap());
    assert_eq!(store.job_switches().await.unwrap()[0].since, NOW);
    // What was due while no node could run it is not skipped by a resumption of what was not paused.
    assert!(!store.pause_job("missed", false, NOW.plus(1)).await.unwrap());
    assert_eq!(store.begin_run(&run("close", 10, 1)).await.unwrap(), None);
    let operators = NewRun { cause: Cause::Operator, ..run("close", 11, 1) };
    assert!(store.begin_run(&operators).await.unwrap().is_some());
    store.pause_job("close", false, NOW.plus(2)).await.unwrap();
    assert!(store.begin_run(&run("close", 12, 1)).await.unwrap().is_some());
    store.pause_job("close", false, NOW.plus(3)).await.unwrap();
    let switches = store.job_switches().await.unwrap();
    assert_eq!(switches.len(), 1);
    assert_eq!((switches[0].paused, switches[0].since), (false, NOW.plus(2)));
}

pub(crate) async fn a_fence_lets_no_older_token_pass(store: SharedStore) {
    let fence = |name: &str, token| Fence { name: name.into(), token };
    for (token, writes) in [(3, 1), (3, 2), (7, 3)] {
        assert_eq!(store.fenced_write(&fence("a", token), NOW).await.unwrap(), writes);
    }
    let late = store.fenced_write(&fence("a", 6), NOW).await;
    assert!(matches!(late, Err(StoreError::Fenced(name)) if name == "a"));
    // Many at once with a new name: each one counts.
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let store = store.clone();
            let fence = fence("b", 1);
            tokio::spawn(async move { store.fenced_write(&fence, NOW).await.unwrap() })
        })
        .collect();
    let mut seen = Vec::new();
    for task in tasks {
        seen.push(task.await.unwrap());
    }
    seen.sort_unstable();
    assert_eq!(seen, (1..=8).collect::<Vec<_>>());
}

pub(crate) async fn names_compare_byte_by_byte(store: SharedStore) {
    let longest = "锁".repeat(200);
    for name in ["a", "A", "a ", "á", "a\u{301}", "🍲", "🍜", &longest] {
        let fence = Fence { name: name.into(), token: 1 };
        assert_eq!(
            store.fenced_write(&fence, NOW).await.unwrap(),
            1,
            "'{name}' is a name of its own"
        );
        assert!(store.begin_run(&run(name, 1, 1)).await.unwrap().is_some(), "{name}");
        assert!(store.change_setting(name, None, name).await.unwrap(), "{name}");
        assert_eq!(store.setting(name).await.unwrap().as_deref(), Some(name));
    }
    assert!(!store.change_setting("a", Some("A"), "x").await.unwrap());
    assert!(store.change_setting("a", Some("a"), "a").await.unwrap(), "to what it is");
}
