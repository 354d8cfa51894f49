//! The question about a plan, while live nodes take over its entries.

use crossterm::event::KeyCode;
use seckill_engine::{
    command::{Command, Pace, ReplayReport, Reply},
    plan::made_up,
    telemetry::Snapshot,
};
use seckill_model::{Verdict, locale::set_thread_language};

use super::fixture::{Bench, entry, normal, page};

/// A dead consumer holds this many entries, each delivered this long ago; a live node takes them over after 30 s.
fn stranded(count: u64, idle_ms: u64) -> Snapshot {
    let mut snapshot = normal();
    snapshot.claim_idle_ms = Some(30_000);
    snapshot.pending = page(0, count);
    for line in &mut snapshot.pending.lines {
        (line.holder_alive, line.idle_ms) = (false, idle_ms);
    }
    if let Some(stream) = &mut snapshot.stream {
        stream.pending = count;
        stream.consumers[0].pending = count;
        stream.consumers[1].pending = 0;
    }
    snapshot
}

fn planned(count: u64) -> Reply {
    let stuck: Vec<_> = (0..count).map(|number| (entry(number), Verdict::Stuck)).collect();
    Reply::Planned(made_up::plan(&stuck, ""))
}

/// Asks about a plan for 87 stranded entries.
fn asked_to_apply() -> Bench {
    let mut bench = Bench::new(stranded(87, 12_000));
    bench.keys("4A");
    assert!(matches!(bench.sent()[..], [Command::Plan(_)]));
    bench.answer(Ok(planned(87)));
    bench
}

#[test]
fn a_question_about_a_plan_shows_when_live_nodes_take_over() {
    for (lang, eighteen, five, now) in [
        (
            "en",
            "automatically in 18 s",
            "automatically in 5 s",
            "claiming these entries automatically",
        ),
        ("zh", "在线节点将在 18 秒 后自动接管", "后自动接管", "正在自动接管"),
    ] {
        set_thread_language(lang);
        let mut bench = asked_to_apply();
        for (idle_ms, expected) in [(12_000, eighteen), (25_000, five), (31_000, now)] {
            bench.show(stranded(87, idle_ms));
            let text = bench.text(120, 36);
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(bench.sent().is_empty(), "what is held is the same");
    }
    set_thread_language("en");
    let mut bench = asked_to_apply();
    let mut none = stranded(87, 12_000);
    none.claim_idle_ms = None;
    bench.show(none);
    assert!(!bench.text(120, 36).contains("themselves"), "no engine runs here");
}

#[test]
fn a_question_about_a_plan_follows_takeovers() {
    let mut bench = asked_to_apply();
    bench.show(stranded(40, 30_000));
    assert!(matches!(bench.sent()[..], [Command::Plan(_)]), "it is made again");
    bench.show(stranded(39, 30_000));
    assert!(bench.sent().is_empty(), "one at a time");
    bench.answer(Ok(planned(40)));
    assert!(bench.text(120, 36).contains("40 entries: all pending"));
    bench.show(stranded(39, 31_000));
    bench.sent();
    bench.answer(Ok(planned(39)));
    bench.keys("y");
    let Reply::Planned(plan) = planned(39) else { panic!() };
    assert_eq!(bench.sent(), [Command::Apply(plan, Pace::default())]);
}

#[test]
fn a_question_ends_when_nothing_of_its_plan_is_left() {
    for (lang, expected) in [
        ("en", "nothing left to apply: live nodes claimed the entries"),
        ("zh", "这些消息已由在线节点接管"),
    ] {
        set_thread_language(lang);
        let mut bench = asked_to_apply();
        bench.show(stranded(0, 0));
        bench.sent();
        bench.answer(Ok(planned(0)));
        assert!(bench.app.dialog.is_none());
        assert!(bench.said().contains(expected), "{}", bench.said());
        bench.keys("y");
        assert!(bench.sent().is_empty());
    }
    set_thread_language("en");
    // After the question is left, it does not come back.
    let mut bench = asked_to_apply();
    bench.show(stranded(40, 30_000));
    bench.sent();
    bench.press(KeyCode::Esc);
    bench.answer(Ok(planned(40)));
    assert!(bench.app.dialog.is_none());
}

#[test]
fn a_plan_whose_entries_vanished_is_reported() {
    let mut bench = asked_to_apply();
    bench.keys("y");
    bench.sent();
    let report =
        ReplayReport { planned: 87, seen: 87, gone: 80, changed: 7, ..ReplayReport::default() };
    bench.answer(Ok(Reply::Replayed(report)));
    assert!(
        bench.said().contains("nothing applied to the 87 entries of the plan"),
        "{}",
        bench.said()
    );
}
