//! The question about a plan, whose entries live nodes may claim meanwhile.

use super::prelude::*;

/// Asks about a plan for 87 entries of a dead consumer, which a live node claims after 30 s.
fn asked_to_apply() -> Tui {
    let mut snapshot = normal();
    snapshot.claim_idle_ms = Some(30_000);
    let mut tui = Tui::open(snapshot, "4A");
    assert!(matches!(tui.sent()[..], [Command::Plan(_)]));
    let stuck: Vec<_> = (0..87).map(|number| (entry(number), Verdict::Stuck)).collect();
    tui.answer(Ok(Reply::Planned(plan(&stuck, ""))));
    tui
}

#[test]
fn a_question_about_a_plan_shows_when_live_nodes_claim_entries() {
    let mut tui = asked_to_apply();
    tui.assert_shows("that are idle for 30 s");
    let mut dead = Snapshot { claim_idle_ms: Some(30_000), ..normal() };
    for consumer in dead.stream.iter_mut().flat_map(|stream| &mut stream.consumers) {
        consumer.alive = false;
    }
    tui.press("n").show(dead);
    tui.press("A").reply(Ok(Reply::Planned(plan(&[(entry(1), Verdict::Stuck)], ""))));
    tui.assert_hides("Live nodes claim");
}

/// The engine skips entries that changed since the plan was made.
#[test]
fn the_confirmed_plan_is_the_shown_one_whatever_changed_meanwhile() {
    let mut tui = asked_to_apply();
    tui.show(Snapshot { pending: page(0, 7), ..normal() });
    tui.assert_shows("87 entries: all pending");
    assert!(tui.sent().is_empty(), "it is not made again");
    tui.press("y");
    let [Command::Apply(plan, _)] = &tui.sent()[..] else { panic!("{}", tui.screen()) };
    assert_eq!(plan.totals.to_do(), 87);
    let report =
        ReplayReport { planned: 87, seen: 87, gone: 80, changed: 7, ..ReplayReport::default() };
    tui.answer(Ok(Reply::Replayed(report)));
    tui.assert_shows("nothing left to apply to the 87 entries of the plan");
}
