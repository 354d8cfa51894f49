//! The order stream and the consumers of its group on the screen, and what their keys do.

use seckill_engine::{
    commands::group::{
        ClaimPlan, Rewind, To,
        claim::{ClaimEntries, ClaimPart},
    },
    telemetry::snapshot::{EntryLine, NodeState, StreamPage, StreamStats},
};

use super::prelude::*;

/// The newest entries are a few milliseconds old.
pub(super) fn entry(number: u64) -> EntryId {
    EntryId { millis: 1_794_999_990_000 + number * 37, number: 0, partition: 0 }
}

fn line(number: u64, of: u64) -> EntryLine {
    let from_end = of.saturating_sub(number);
    let (alive, faulty) = (!from_end.is_multiple_of(3), from_end == 12);
    let holding = match from_end {
        ..=4 => DeliveryState::Undelivered,
        5..=13 => DeliveryState::Pending {
            consumer: if alive { "node-a/1" } else { "node-b/1" }.to_owned(),
            idle_ms: if alive { 40 } else { 42_000 },
            deliveries: 1 + number % 3,
        },
        _ => DeliveryState::Acknowledged,
    };
    EntryLine {
        entry: entry(number),
        order: OrderId::new(1_794_999_990, number).ok().filter(|_| !faulty),
        user: (!faulty).then_some(UserId(1_000 + number)),
        voucher: (!faulty).then_some(VoucherId(7)),
        fault: faulty.then(no_user),
        holding,
        holder: Some(if alive { NodeState::Alive } else { NodeState::Dead }),
        dead: Some(from_end == 15),
    }
}

pub(super) fn consumer(name: &str, alive: bool, pending: u64) -> ConsumerLine {
    let idle_ms = if alive { 10 } else { 42_000 };
    let state = if alive { NodeState::Alive } else { NodeState::Dead };
    let name = name.to_owned();
    ConsumerLine { partition: 0, name, state, alive, known: true, pending, idle_ms }
}

/// The window that ends with entry `last`.
pub(super) fn page(view: StreamView, last: u64) -> StreamPage {
    let first = last.saturating_sub(200);
    StreamPage {
        view,
        taken: Some(NOW),
        older: first > 0,
        lines: Arc::new((first..last).map(|number| line(number, 260)).collect()),
        partitions: vec![StreamStats {
            partition: 0,
            length: 6_880,
            added: 8_084,
            first: Some(EntryId { millis: 1_794_994_600_000, number: 3, partition: 0 }),
            last: Some(entry(259)),
            bytes: Some(1_240_000),
            group: true,
            delivered: Some(entry(255)),
            read: Some(8_079),
            lag: Some(1_204),
            pending: 128,
            oldest_pending: Some(EntryId { millis: 1_794_999_958_000, number: 0, partition: 0 }),
            ..StreamStats::default()
        }],
        consumers: vec![
            consumer("node-b/1", false, 86),
            consumer("node-a/1", true, 42),
            ConsumerLine { state: NodeState::Stopped, ..consumer("node-c/1", false, 0) },
        ],
    }
}

pub(super) fn with_stream() -> Snapshot {
    Snapshot { entries: page(StreamView::default(), 260), ..normal() }
}

pub(super) fn partitioned(unknown: bool) -> Snapshot {
    let mut snapshot = Snapshot { entries: page(StreamView::default(), 260), ..overflowing() };
    let entries = &mut snapshot.entries;
    let first = entries.partitions.remove(0);
    entries.partitions = (0..64)
        .map(|partition| StreamStats {
            partition,
            lag: first.lag.filter(|_| !unknown || partition != 5),
            read: first.read.filter(|_| !unknown),
            length: 12_345_678,
            added: 987_654_321,
            bytes: Some(8_000_000),
            ..first
        })
        .collect();
    for (number, line) in Arc::make_mut(&mut entries.lines).iter_mut().enumerate() {
        line.entry.partition = (number % 64) as u16;
        line.user = Some(UserId(u64::MAX));
    }
    for number in 0..60 {
        let name = format!("a-node-with-a-very-long-name-that-no-window-holds-{number}/1");
        entries.consumers.push(consumer(&name, number % 2 == 0, 3_000_000));
    }
    snapshot
}

pub(super) fn away() -> Snapshot {
    Snapshot { entries: with_stream().entries, ..outage() }
}

pub(super) fn without_group() -> Snapshot {
    let mut snapshot = with_stream();
    for it in &mut snapshot.entries.partitions {
        (it.group, it.lag, it.read, it.delivered) = (false, None, None, None);
    }
    snapshot.entries.consumers.clear();
    for line in Arc::make_mut(&mut snapshot.entries.lines) {
        (line.holding, line.dead) = (DeliveryState::Unknown, Some(false));
    }
    snapshot
}

pub(super) fn nothing() -> Snapshot {
    let mut entries = StreamPage { taken: Some(NOW), ..StreamPage::default() };
    let first = StreamStats { group: true, lag: Some(0), ..StreamStats::default() };
    entries.partitions = vec![first];
    entries.consumers = vec![consumer("node-a/1", true, 0)];
    Snapshot { entries, ..empty() }
}

fn chosen(tui: &Tui) -> Option<EntryId> {
    tui.app.views.stream.entries.chosen(&tui.app.display.shown).map(|it| it.entry)
}

#[test]
fn the_list_follows_until_the_user_scrolls_up() {
    let mut tui = Tui::new(with_stream());
    assert_eq!(tui.focus.borrow().stream, None, "the view is closed, so nothing is read");
    tui.press("3");
    assert_eq!(tui.focus.borrow().stream, Some(StreamView::default()));
    assert_eq!(chosen(&tui), Some(entry(259)));
    tui.show(Snapshot { entries: page(StreamView::default(), 270), ..normal() });
    assert_eq!(chosen(&tui), Some(entry(269)));
    tui.press("k");
    let held = StreamView { partition: None, before: entry(269).next_of_all() };
    assert_eq!(tui.focus.borrow().stream, Some(held));
    tui.show(Snapshot { entries: page(held, 270), ..normal() });
    assert_eq!(chosen(&tui), Some(entry(268)));
    tui.press("G");
    assert_eq!(tui.focus.borrow().stream, Some(StreamView::default()));
    tui.show(Snapshot { entries: page(StreamView::default(), 280), ..normal() });
    assert_eq!(chosen(&tui), Some(entry(279)));
    tui.press("j").assert_status("this is the last row");
    tui.press("1");
    assert_eq!(tui.focus.borrow().stream, None);
}

#[test]
fn pages_turn_at_their_ends_and_back() {
    let mut tui = Tui::open(with_stream(), "3gk");
    let older = StreamView { partition: None, before: Some(entry(60)) };
    assert_eq!(tui.focus.borrow().stream, Some(older));
    tui.show(Snapshot { entries: page(older, 60), ..normal() });
    assert_eq!(chosen(&tui), Some(entry(59)), "it goes on where the other one began");
    tui.press("j");
    let held = StreamView { partition: None, before: entry(259).next_of_all() };
    assert_eq!(tui.focus.borrow().stream, Some(held));
    tui.show(Snapshot { entries: page(held, 260), ..normal() });
    assert_eq!(chosen(&tui), Some(entry(60)));
    // The whole held window was trimmed.
    let gone = StreamPage { lines: Arc::default(), ..page(held, 260) };
    tui.show(Snapshot { entries: gone, ..normal() });
    assert_eq!(tui.focus.borrow().stream, Some(StreamView::default()));
}

#[test]
fn a_partition_is_chosen_or_all_of_them() {
    let mut tui = Tui::open(with_stream(), "3p");
    tui.assert_status("there is only one partition");
    tui.show(partitioned(false));
    tui.press("pp");
    let only = StreamView { partition: Some(1), before: None };
    assert_eq!(tui.focus.borrow().stream, Some(only));
    tui.assert_shows("partition 1 of 0 to 63");
    tui.press("W");
    "start".chars().for_each(|c| _ = tui.key(KeyCode::Char(c)));
    tui.press("\n");
    let action = GroupAction::Rewind { to: To::Start, partition: Some(1) };
    assert_eq!(tui.sent(), [Command::Preview(action)]);
}

pub(super) fn rewound() -> Rewind {
    let (from, to) = (entry(10), entry(255));
    Rewind {
        partition: 0,
        group: true,
        from,
        to,
        from_time: NOW.plus(-9_000),
        to_time: NOW,
        again: 246,
        written: 240,
        missing: 5,
        unheld: 1,
        malformed: 1,
        pending: 9,
        undelivered: 1_204,
        trimmed: 1_204,
        skipped: 0,
        skipped_missing: 0,
        last_delivered: Some(to),
        entries_read: Some(8_079),
    }
}

pub(super) fn given() -> ClaimPlan {
    let part = ClaimPart {
        partition: 0,
        from: "node-b/1".to_owned(),
        to: "node-a/1".to_owned(),
        count: 86,
        entries: ClaimEntries::UpTo(entry(259)),
    };
    ClaimPlan { parts: vec![part], gone: 0, force: false }
}

#[test]
fn a_rewind_is_confirmed_with_its_counts_and_done_as_shown() {
    let mut tui = Tui::open(with_stream(), "3W\n");
    tui.assert_shows("is not a position in the stream");
    assert!(tui.sent().is_empty());
    tui.key(KeyCode::BackTab);
    tui.press("\t-10m\n");
    let to: To = "-10m".parse().unwrap();
    assert_eq!(tui.sent(), [Command::Preview(GroupAction::Rewind { to, partition: None })]);
    tui.answer(Ok(Reply::Previewed(Preview::Rewind(vec![rewound()]))));
    assert!(tui.press("\n").sent().is_empty(), "Cancel has the focus");
    tui.press("W-10m\n");
    tui.reply(Ok(Reply::Previewed(Preview::Rewind(vec![rewound()]))));
    assert_eq!(tui.press("y").sent(), [Command::Rewind(vec![rewound()])]);
}

#[test]
fn a_claim_moves_entries_from_the_selected_consumer_to_a_live_one() {
    let mut tui = Tui::open(with_stream(), "3cC\n");
    let scope = ClaimScope::Holder("node-b/1".to_owned());
    let action = GroupAction::Claim { scope, to: "node-a".to_owned() };
    assert_eq!(tui.sent(), [Command::Preview(action)]);
    // The rows are reversed meanwhile.
    let mut later = with_stream();
    later.entries.consumers.reverse();
    tui.show(later);
    tui.answer(Ok(Reply::Previewed(Preview::Claim(given()))));
    assert_eq!(tui.press("y").sent(), [Command::Claim(given())]);
    // An entry by its identity.
    let mut tui = Tui::open(with_stream(), "3C");
    tui.assert_status("the entry is not pending and cannot be transferred");
    tui.press("kkkkkC\n");
    let scope = ClaimScope::Entries(vec![entry(254)]);
    let action = GroupAction::Claim { scope, to: "node-a".to_owned() };
    assert_eq!(tui.sent(), [Command::Preview(action)]);
}

#[test]
fn only_a_dead_consumer_without_entries_is_removed() {
    let mut tui = Tui::open(with_stream(), "3D");
    tui.assert_status("select a consumer in the list above with ↑ and ↓, then press D again");
    tui.press("D").assert_status_contains("node-b/1 holds 86 entries");
    tui.press("jD").assert_status_contains("is alive");
    tui.press("C").assert_status_contains("no consumer of another live node");
    tui.press("jD");
    let name = "node-c/1".to_owned();
    assert_eq!(tui.sent(), [Command::Preview(GroupAction::Remove { name: name.clone() })]);
    let found = RemoveReport { consumer: name, partitions: vec![0] };
    tui.answer(Ok(Reply::Previewed(Preview::Remove(found.clone()))));
    assert_eq!(tui.press("y").sent(), [Command::RemoveConsumer(found)]);
}

#[test]
fn late_figures_do_not_open_over_a_dialog() {
    let mut tui = Tui::open(with_stream(), "3cC\n");
    tui.sent();
    tui.press("?");
    tui.answer(Ok(Reply::Previewed(Preview::Claim(given()))));
    assert!(matches!(tui.app.dialog, Some(Dialog::Help(_))));
    tui.press("\x1bC\n");
    tui.sent();
    tui.answer(Err(EngineError::Rejected("there is no consumer 'x'".into())));
    assert!(tui.app.dialog.is_none());
    tui.assert_status_contains("there is no consumer");
}

#[test]
fn consumers_of_one_name_are_distinguished_by_partition() {
    let mut snapshot = partitioned(false);
    snapshot.entries.consumers = (0..3)
        .map(|partition| ConsumerLine { partition, ..consumer("node-b/1", false, 5) })
        .collect();
    let mut tui = Tui::open(snapshot, "3cj");
    let chosen = |tui: &Tui| {
        let it = tui.app.views.stream.consumers.chosen(&tui.app.display.shown).unwrap();
        it.partition
    };
    assert_eq!(chosen(&tui), 1);
    tui.press("j");
    assert_eq!(chosen(&tui), 2);
    tui.assert_shows("PARTITION");
}

#[test]
fn an_unavailable_count_is_derived_from_the_lag() {
    let mut snapshot = with_stream();
    snapshot.entries.partitions[0].read = None;
    let mut tui = Tui::open(snapshot.clone(), "3");
    tui.assert_shows("6,880 of 8,084 added");
    snapshot.entries.partitions[0].lag = None;
    let mut tui = Tui::open(snapshot, "3");
    tui.assert_shows("not counted; 8,084 added");
    tui.assert_shows("unknown");
}

#[test]
fn stopped_nodes_are_distinguished_from_dead_ones() {
    let mut snapshot = with_stream();
    for (number, line) in Arc::make_mut(&mut snapshot.entries.lines).iter_mut().enumerate() {
        (line.dead, line.fault) = (Some(number == 199), None);
        line.holding = match number {
            199 => DeliveryState::Acknowledged,
            _ => DeliveryState::Pending { consumer: "node-c/1".into(), idle_ms: 9, deliveries: 1 },
        };
        line.holder = Some(NodeState::Stopped);
    }
    let mut tui = Tui::open(snapshot, "3l");
    tui.assert_shows("pending node-c/1 no node");
    tui.assert_shows("in dead letters; press 5 to open");
}

#[test]
fn unchecked_and_unknown_entries_are_labelled() {
    let mut snapshot = with_stream();
    for (number, line) in Arc::make_mut(&mut snapshot.entries.lines).iter_mut().enumerate() {
        (line.dead, line.fault, line.holder) = (Some(false), None, None);
        line.holding = match number {
            199 => DeliveryState::Acknowledged,
            _ => DeliveryState::Pending { consumer: "node-d/1".into(), idle_ms: 9, deliveries: 1 },
        };
        line.dead = Some(false).filter(|_| number != 199);
    }
    let mut tui = Tui::open(snapshot, "3l");
    tui.assert_shows("pending node-d/1 unknown");
    tui.assert_shows("acknowledged or dead: too many dead letters");
    tui.assert_shows("press 5 to open them");
}

#[test]
fn commands_on_a_consumer_apply_to_all_partitions() {
    let mut snapshot = partitioned(false);
    let part = |partition, name: &str, alive, pending| ConsumerLine {
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
    let mut tui = Tui::open(snapshot, "3cD");
    tui.assert_status_contains("node-b/1 holds 5 entries");
    assert!(tui.sent().is_empty());
    tui.press("C").assert_shows("Transfer 5 entries of node-b/1");
    tui.press("\n");
    let scope = ClaimScope::Holder("node-b/1".to_owned());
    let action = GroupAction::Claim { scope, to: "node-c".to_owned() };
    assert_eq!(tui.sent(), [Command::Preview(action)]);
}

#[test]
fn consumers_are_sorted_while_their_list_has_the_focus() {
    let mut snapshot = partitioned(false);
    snapshot.entries.consumers = vec![
        consumer("node-b/1", false, 5),
        consumer("node-a/1", true, 0),
        consumer("node-c/1", true, 7),
    ];
    let mut tui = Tui::open(snapshot, "3o");
    tui.assert_status_contains("always in delivery order");
    tui.press("co");
    let names = |text: String| {
        let names = ["node-a/1", "node-b/1", "node-c/1"].map(|name| text.find(name).unwrap());
        names.is_sorted()
    };
    assert!(names(tui.screen()), "{}", tui.screen());
    tui.press("r");
    assert!(!names(tui.screen()), "{}", tui.screen());
}
