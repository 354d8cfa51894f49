//! A figure is the same wherever it is shown, and unknown values are not shown as known.

use seckill_engine::event::Event;

use super::layout::column;
use super::prelude::*;

/// The text right after a word in the first line that contains it.
fn behind<'a>(text: &'a str, word: &str) -> &'a str {
    let rest = text.split(word).nth(1).unwrap_or_default();
    rest.split_whitespace().next().unwrap_or_default()
}

#[test]
fn the_chart_and_the_funnel_show_the_same_rate() {
    let mut snapshot = normal();
    snapshot.funnel.admitted.per_second = 21_627.0;
    snapshot.written.per_second = 15_004.0;
    let text = Tui::new(snapshot).screen();
    let funnel = text.lines().find(|line| line.contains("admitted") && !line.contains("⠤"));
    let chart = text.lines().find(|line| line.contains("⠤ admitted")).unwrap_or_default();
    assert!(funnel.is_some_and(|line| line.contains("21,627/s")), "{text}");
    assert_eq!(behind(chart, "⠤ admitted"), "21,627/s", "{text}");
    assert_eq!(behind(chart, "persisted"), "15,004/s", "{text}");
}

#[test]
fn the_persisted_rate_is_unknown_while_sql_is_unreachable() {
    let mut snapshot = normal();
    (snapshot.sql.up, snapshot.sql.last_ok) = (false, Some(NOW.plus(-42_000)));
    let screen = Tui::new(snapshot).screen();
    let legend = screen.lines().find(|line| line.contains("⠤ admitted")).unwrap_or_default();
    assert_eq!((behind(legend, "admitted"), behind(legend, "persisted")), ("802/s", "unknown"));
}

/// A drain of 1,000,000 entries in 67 s, written in batches with every second snapshot.
fn draining(tick: u64) -> Snapshot {
    let mut snapshot = with_stream();
    snapshot.taken = NOW.plus(tick as i64 * 250);
    let lag = Some(1_000_000 - tick / 2 * 7_463);
    snapshot.entries.taken = Some(snapshot.taken);
    for line in &mut snapshot.entries.partitions {
        line.lag = lag;
    }
    snapshot.stream.iter_mut().for_each(|stream| stream.lag = lag);
    snapshot
}

#[test]
fn a_drain_ends_at_the_same_time_in_the_overview_and_in_the_stream() {
    let rows = ["1", "3"].map(|key| {
        let mut tui = Tui::new(draining(0));
        (1..=40).for_each(|tick| _ = tui.show(draining(tick)));
        tui.press(key);
        behind(&tui.screen(), "drains in").parse::<u64>().unwrap_or_default()
    });
    assert!(rows[0].abs_diff(57) < 12 && rows[0] == rows[1], "{rows:?}");
}

#[test]
fn a_failed_audit_is_in_the_header_even_with_orders_in_flight() {
    let mut snapshot = normal();
    let finding = SaleFinding { sale: None, what: Finding::Lost(2) };
    snapshot.audit = Balance::Off { findings: vec![finding] };
    let text = Tui::new(snapshot).screen();
    assert!(text.lines().next().is_some_and(|line| line.contains("✖ audit FAILED")), "{text}");
}

/// Redis is unreachable, and nothing was pending or locked at the last read.
fn quiet_outage() -> Snapshot {
    let mut snapshot = outage();
    snapshot.pending = PendingPage::default();
    snapshot.locks = Holders::default();
    snapshot
}

#[test]
fn an_unread_pending_list_is_not_shown_as_empty() {
    let mut tui = Tui::open(Snapshot { pending: PendingPage::default(), ..empty() }, "4");
    tui.assert_shows("reading");
    tui.assert_hides("Every delivered order");
    tui.show(empty());
    tui.assert_hides("reading");
}

#[test]
fn unreadable_values_are_not_shown_as_current() {
    let mut tui = Tui::new(quiet_outage());
    let overview = tui.screen();
    assert!(!overview.contains("  0/s") && !overview.contains("802/s"), "{overview}");
    let stream = overview.lines().find(|line| line.contains("STREAM")).unwrap_or_default();
    assert!(stream.contains("redis    42 s old"), "{overview}");
    assert!(!overview.contains("alive") && !overview.contains(" dead  "), "{overview}");
    for (key, false_word) in [("4", "Every delivered order"), ("6", "No locks are held")] {
        tui.press(key).assert_hides(false_word);
        tui.assert_shows("are unknown");
    }
}

#[test]
fn rows_that_were_read_before_redis_went_away_are_dimmed() {
    for (key, word) in [("4", "stuck"), ("6", "node-a")] {
        for (snapshot, dimmed) in [(normal(), false), (outage(), true)] {
            let mut tui = Tui::new(snapshot);
            let soft = tui.app.display.theme.dimmed;
            tui.press(key);
            let buffer = tui.draw(120, 36);
            let at = (3..36).filter_map(|y| Some((column(&buffer, y, word)? as u16, y)));
            // The row under the cursor has colours of its own.
            let lit: Vec<_> = at
                .filter(|at| buffer[*at].bg == Color::Reset && buffer[*at].modifier.is_empty())
                .map(|at| (at, buffer[at].fg != soft.fg.unwrap_or_default()))
                .collect();
            let well = !lit.is_empty() && lit.iter().all(|(_, it)| *it != dimmed);
            assert!(well, "{key}: {lit:?} {}", tui.screen());
        }
    }
}

#[test]
fn a_holder_that_is_not_a_node_looks_the_same_everywhere() {
    let mut snapshot = normal();
    for consumer in snapshot.stream.iter_mut().flat_map(|stream| &mut stream.consumers) {
        (consumer.alive, consumer.known) = (false, false);
    }
    for line in Arc::make_mut(&mut snapshot.pending.lines) {
        (line.holder_alive, line.holder_known) = (false, false);
    }
    let mut tui = Tui::new(snapshot);
    for key in ["1", "4"] {
        tui.press(key).assert_shows("no node");
        tui.assert_hides(" dead  ");
    }
}

#[test]
fn how_long_it_took_is_the_same_in_both_languages() {
    let message = Message::of(&Event::lasted(405_100));
    assert_eq!(result(&message), "after 405.1 s");
    set_thread_language("zh");
    assert_eq!(result(&message), "持续 405.1 秒");
}
