//! Consumers of the group on the screen, and entries whose fate is unknown.

use std::sync::Arc;

use crossterm::event::KeyCode;
use seckill_engine::{
    command::Command,
    group::{ClaimScope, GroupAct},
    telemetry::snapshot::{DeliveryState, GroupConsumer},
};

use super::{
    fixture::Bench,
    stream::{consumer, flowing, partitioned},
};

#[test]
fn unchecked_and_unknown_entries_are_labelled() {
    let mut snapshot = flowing();
    for (number, line) in Arc::make_mut(&mut snapshot.entries.lines).iter_mut().enumerate() {
        (line.dead, line.fault, line.holder) = (Some(false), None, None);
        line.holding = match number {
            199 => DeliveryState::Acknowledged,
            _ => DeliveryState::Pending { consumer: "node-d/1".into(), idle_ms: 9, deliveries: 1 },
        };
        line.dead = Some(false).filter(|_| number != 199);
    }
    let mut bench = Bench::new(snapshot);
    bench.keys("3l");
    let text = bench.text(120, 36);
    assert!(text.contains("pending node-d/1 unknown"), "{text}");
    assert!(text.contains("acknowledged or dead: too many dead letters"), "{text}");
    assert!(text.contains("press 5 to open them"), "{text}");
}

#[test]
fn commands_on_a_consumer_apply_to_all_partitions() {
    let mut snapshot = partitioned(false);
    let part = |partition, name: &str, alive, pending| GroupConsumer {
        partition,
        ..consumer(name, alive, pending)
    };
    snapshot.entries.consumers = vec![
        part(0, "node-b/1", false, 0),
        part(1, "node-b/1", false, 5),
        // The single row with the least is of the node with the most.
        part(0, "node-a/1", true, 0),
        part(1, "node-a/1", true, 90),
        part(0, "node-c/1", true, 7),
        part(1, "node-c/1", true, 8),
    ];
    let mut bench = Bench::new(snapshot);
    bench.keys("3cD");
    assert!(bench.said().contains("node-b/1 holds 5 entries"), "{}", bench.said());
    assert!(bench.sent().is_empty());
    bench.keys("C");
    assert!(bench.text(120, 36).contains("Transfer 5 entries of node-b/1"));
    bench.press(KeyCode::Enter);
    let scope = ClaimScope::Holder("node-b/1".to_owned());
    let act = GroupAct::Claim { scope, to: "node-c".to_owned() };
    assert_eq!(bench.sent(), [Command::Preview(act)]);
}
