//! The question about a plan, while live nodes take over its entries.

use super::prelude::*;

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
fn asked_to_apply() -> Tui {
    let mut tui = Tui::open(stranded(87, 12_000), "4A");
    assert!(matches!(tui.sent()[..], [Command::Plan(_)]));
    tui.answer(Ok(planned(87)));
    tui
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
        let mut tui = asked_to_apply();
        for (idle_ms, expected) in [(12_000, eighteen), (25_000, five), (31_000, now)] {
            tui.show(stranded(87, idle_ms));
            let text = tui.screen();
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(tui.sent().is_empty(), "what is held is the same");
    }
    set_thread_language("en");
    let mut tui = asked_to_apply();
    let mut none = stranded(87, 12_000);
    none.claim_idle_ms = None;
    tui.show(none);
    tui.assert_hides("themselves");
}

#[test]
fn a_question_about_a_plan_follows_takeovers() {
    let mut tui = asked_to_apply();
    tui.show(stranded(40, 30_000));
    assert!(matches!(tui.sent()[..], [Command::Plan(_)]), "it is made again");
    tui.show(stranded(39, 30_000));
    assert!(tui.sent().is_empty(), "one at a time");
    tui.answer(Ok(planned(40)));
    tui.assert_shows("40 entries: all pending");
    tui.show(stranded(39, 31_000));
    tui.reply(Ok(planned(39)));
    tui.press("y");
    let Reply::Planned(plan) = planned(39) else { panic!() };
    assert_eq!(tui.sent(), [Command::Apply(plan, Pace::default())]);
}

#[test]
fn a_question_ends_when_nothing_of_its_plan_is_left() {
    for (lang, expected) in [
        ("en", "nothing left to apply: live nodes claimed the entries"),
        ("zh", "这些消息已由在线节点接管"),
    ] {
        set_thread_language(lang);
        let mut tui = asked_to_apply();
        tui.show(stranded(0, 0));
        tui.reply(Ok(planned(0)));
        assert!(tui.app.dialog.is_none());
        tui.assert_status_contains(expected);
        tui.press("y");
        assert!(tui.sent().is_empty());
    }
    set_thread_language("en");
    // After the question is left, it does not come back.
    let mut tui = asked_to_apply();
    tui.show(stranded(40, 30_000));
    tui.sent();
    tui.press("\x1b");
    tui.answer(Ok(planned(40)));
    assert!(tui.app.dialog.is_none());
}

#[test]
fn a_plan_whose_entries_vanished_is_reported() {
    let mut tui = asked_to_apply();
    tui.press("y");
    tui.sent();
    let report =
        ReplayReport { planned: 87, seen: 87, gone: 80, changed: 7, ..ReplayReport::default() };
    tui.answer(Ok(Reply::Replayed(report)));
    tui.assert_status_contains("nothing applied to the 87 entries of the plan");
}
