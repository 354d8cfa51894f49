//! The presenter layout does not move: messages have reserved rows, and figures constant positions.

use seckill_engine::telemetry::Snapshot;
use seckill_model::ledger::Balance;

use super::{
    fixture::{Bench, empty, normal},
    presenter::{SIZES, running},
};

#[test]
fn nothing_moves_when_a_result_appears() {
    let long =
        "20,000 buyers came to the sale, 8,000 of them got a piece, and all others were shown \
                at once that it is sold out; "
            .repeat(2);
    for (width, height) in SIZES {
        for alarms in [Vec::new(), normal().alarms] {
            let mut bench = Bench::new(Snapshot { alarms, ..running() });
            bench.keys("t");
            let before = bench.text(width, height);
            bench.app.status.failure(long.clone());
            let after = bench.text(width, height);
            assert!(after.contains("20,000 buyers came"), "{after}");
            let kept = usize::from(height) - 5;
            let head = |text: &str| text.lines().take(kept).collect::<Vec<_>>().join("\n");
            assert_eq!(head(&before), head(&after), "{width}x{height}");
        }
    }
}

#[test]
fn in_flight_and_audit_have_constant_positions() {
    let labels = ["in flight", "moving", "audit passed", "audit open", "audit"];
    for (width, height) in SIZES {
        let places =
            [(Balance::Balanced { by_id: true }, 640.0), (Balance::InFlight { orders: 7 }, 640.0)]
                .map(|(books, rate)| {
                    let mut snapshot = running();
                    (snapshot.audit, snapshot.written.per_second) = (books, rate);
                    let mut bench = Bench::new(snapshot);
                    bench.keys("t");
                    let text = bench.text(width, height);
                    let at = |label: &&str| text.lines().position(|line| line.contains(*label));
                    (labels.iter().map(at).collect::<Vec<_>>(), text)
                });
        let [balanced, flying] = &places;
        assert_eq!(balanced.0, flying.0, "{}{}", balanced.1, flying.1);
        assert!(!balanced.1.contains("audit passed"), "orders come: {}", balanced.1);
    }
    // Once no more orders arrive, the audit is shown.
    let mut still = running();
    (still.audit, still.written.per_second) = (Balance::Balanced { by_id: true }, 0.0);
    still.funnel = seckill_engine::telemetry::snapshot::Funnel::default();
    let mut bench = Bench::new(still);
    bench.keys("t");
    let text = bench.text(120, 36);
    assert!(text.contains("audit passed") && text.contains("in flight"), "{text}");
}

#[test]
fn figures_and_labels_end_below_each_other() {
    let ends = |text: &str, label: &str| {
        let line = text.lines().position(|line| line.contains(label)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let end = |line: &str, at: usize| line.chars().take(at).collect::<String>();
        let at = lines[line].find(label).map(|at| lines[line][..at].chars().count()).unwrap();
        let at = at + label.chars().count();
        (end(lines[line - 1], at).chars().last(), lines[line - 1].chars().nth(at))
    };
    for (width, height) in [(200, 50), (120, 36), (80, 24)] {
        let mut snapshot = running();
        snapshot.sales[0].funnel.attempts.per_second = 3.0;
        snapshot.sales[0].persisted = 0;
        snapshot.audit = Balance::InFlight { orders: 3 };
        let mut bench = Bench::new(snapshot);
        bench.keys("t");
        let text = bench.text(width, height);
        for label in ["buyers per second", "orders written", "in flight"] {
            let (last, next) = ends(&text, label);
            assert!(last.is_some_and(|c| c != ' ') && next.is_none_or(|c| c == ' '), "{text}");
        }
    }
}

#[test]
fn a_step_without_a_next_sale_is_explained() {
    let mut bench = Bench::new(running());
    bench.keys("tj");
    assert_eq!(bench.said(), "there is no other sale to show");
    let mut bench = Bench::new(empty());
    bench.keys("tk");
    assert_eq!(bench.said(), "No sales yet. Press L to schedule one.");
    let mut bench = Bench::new(normal());
    bench.keys("tjjjjjj");
    assert_eq!(bench.said(), "this is the last sale");
    bench.keys("kkkkkk");
    assert_eq!(bench.said(), "this is the first sale");
}
