//! Going back in time: moments in the chart, pages of the log, one sale over its time.

use seckill_engine::telemetry::event::Event;

use super::prelude::*;

fn line(
    id: i64,
    ago_s: i64,
    operator: &str,
    action: &str,
    subject: impl Into<Message>,
    result: impl Into<Message>,
) -> AuditEntry {
    let (at, subject, result) = (NOW.plus(-ago_s * 1_000), subject.into(), result.into());
    let [operator, action, node] = [operator, action, "node-a"].map(str::to_owned);
    AuditEntry { id, at, operator, node, action, subject, result, ..AuditEntry::default() }
}

/// The newest lines of a log, newest first.
pub(super) fn log_lines() -> Vec<AuditEntry> {
    let outcome = |outcome: CommandOutcome| Message::of(&outcome);
    let event = |event: Event| Message::of(&event);
    let holds = event(Event::Other(reason!("event-dead-holds", pending = 86_u64)));
    let plan = Message::of(&reason!("subject-plan", entries = 86_u64, digest = "3f9a1c0b77de"));
    let report = ReplayReport { planned: 86, seen: 86, persisted: 80, ..ReplayReport::default() };
    let report = ReplayReport { acknowledged: 6, ..report };
    let replayed = outcome(CommandOutcome::Done(Reply::Replayed(report)));
    let mut applied = line(7, 20, "kim", "pending apply", plan, replayed);
    let started = Reply::SaleChanged { voucher: VoucherId(7), state: SaleState::Running };
    let sale = reason!("subject-new-sale", title = "hot pot 50% off", stock = 10_000_u64);
    let sale = Message::of(&sale);
    applied.reason = Some("node-b was killed, and its buyers wait".to_owned());
    applied.before = Some(r#"{"stock":3120,"db_stock":3220,"admitted":6880,"persisted":6780,"undelivered":0,"pending":128,"dead":0,"audit":"in flight"}"#.to_owned());
    applied.after = Some(r#"{"stock":3120,"db_stock":3140,"admitted":6880,"persisted":6860,"undelivered":0,"pending":42,"dead":0,"audit":"in flight"}"#.to_owned());
    vec![
        line(8, 12, "kim", "sale end", "#8", outcome(CommandOutcome::Failed(sql_away()))),
        applied,
        line(6, 38, "-", "database back", "sqlite", event(Event::lasted(7_500))),
        line(5, 42, "-", "alarm raised", "node-b/1", holds),
        line(4, 45, "-", "database away", "sqlite", "disk I/O error"),
        line(3, 110, "kim", "sale start", "#7", outcome(CommandOutcome::Done(started))),
        line(2, 4_000, "-", "node started", "node-a", "seckill 0.1.0"),
        // Written by an older version.
        line(1, 90_000, "lee", "sale create", sale, "sale #7"),
    ]
}

/// The curves of sale 7, with an outage.
pub(super) fn curves() -> Curves {
    let mut curves = Curves::default();
    for tick in 0..108_i64 {
        let at = NOW.plus((tick - 108) * 1_000);
        let left = (!(60..68).contains(&tick)).then_some(10_000 - tick * tick * 6_880 / 11_449);
        curves.note(VoucherId(7), at, left, left.map(|left| 10_000 - left));
    }
    curves
}

/// A page of the log with `count` lines from number `first` on, a second apart.
pub(super) fn page(look: LogView, first: i64, count: i64, older: bool) -> LogPage {
    let long = "a subject that no window holds ".repeat(9);
    let lines = (first..first + count).map(|id| {
        let ago = 3_000 - id;
        match id % 4 {
            0 => line(id, ago, "kim", "order pay", format!("{id}"), "paid"),
            1 => line(id, ago, "-", "alarm raised", "dead-letters", "3 for review"),
            2 => line(id, ago, "-", "node started", "node-b", "seckill 0.1.0"),
            _ => line(id, ago, "锅锅锅锅锅锅锅", "sale create", long.as_str(), "\x1b[2J 火锅 🍲"),
        }
    });
    LogPage { view: look, taken: Some(NOW), more: older, lines: Arc::new(lines.collect()) }
}

pub(super) fn read(look: LogView, first: i64, count: i64, older: bool) -> Snapshot {
    Snapshot { log: page(look, first, count, older), ..overflowing() }
}

pub(super) fn crowded() -> Snapshot {
    read(LogView::default(), 2_000, 200, true)
}

pub(super) fn with_log() -> Snapshot {
    let lines = Arc::new(log_lines().into_iter().rev().collect());
    let log = LogPage { taken: Some(NOW), lines, ..LogPage::default() };
    Snapshot { log, ..normal() }
}

#[test]
fn lines_are_filtered_by_level_and_text() {
    let mut tui = Tui::open(crowded(), "0v");
    let alarms = LogView { which: Some(Which::Events), before: None };
    assert_eq!(tui.focus.borrow().log, Some(alarms));
    tui.show(read(alarms, 2_000, 200, true)).assert_shows("alarm raised|50 of 200 on this page");
    tui.assert_hides("node started").press("v");
    let entries = LogView { which: Some(Which::Commands), before: None };
    assert_eq!(tui.focus.borrow().log, Some(entries));
    tui.press("v/pay\n").show(crowded());
    tui.assert_shows("order pay").assert_hides("alarm raised");
    tui.press("\x1b").assert_shows("alarm raised");
}

#[test]
fn a_past_moment_is_shown_with_its_figures_and_time() {
    // A running display is paused first.
    let mut tui = Tui::new(normal());
    for (keys, frozen, moment) in [("<<<", true, true), ("\x1b", true, false), ("<f", false, false)]
    {
        assert_eq!(tui.press(keys).app.display.frozen, frozen, "{keys}");
        assert_eq!(tui.app.views.overview.moment().is_some(), moment, "{keys}");
    }
}

#[test]
fn events_on_the_chart_are_reached_and_shown() {
    let mut tui = Tui::new(normal());
    tui.press("[").assert_shows("sale end  #8");
    tui.press("[").assert_shows("pending apply  86 entries");
    tui.press("[[[").assert_shows("database away  sqlite");
    tui.press("[").assert_shows("sale start  #7");
    tui.press("[").assert_status_contains("no earlier command or alarm");
    tui.press("]]]]]]]").assert_status_contains("no later command or alarm");
}

#[test]
fn the_ends_of_the_chart_are_reported() {
    let mut tui = Tui::new(normal());
    tui.press("<>>").assert_status_contains("latest moment");
    tui.press(&"<".repeat(200)).assert_status_contains("start of the chart");
    let mut tui = Tui::new(normal());
    tui.at((60, 15)).screen();
    tui.press("<").assert_status_contains("too small for the chart");
    assert!(!tui.app.display.frozen);
}

#[test]
fn the_chart_zooms_over_half_an_hour() {
    let mut tui = Tui::new(normal());
    tui.assert_shows("last 2 min").press("+").assert_shows("last 1 min");
    tui.press("+").assert_shows("last 30 s").press("-----").assert_shows("last 30 min");
    tui.press("-=").assert_shows("last 2 min");
}
