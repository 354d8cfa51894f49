//! The order stream and the consumers of its group on the screen, and what their keys do.

use seckill_engine::commands::group::claim::{ClaimEntries, ClaimPart};

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
    ConsumerLine {
        partition: 0,
        name,
        state,
        alive,
        known: true,
        pending,
        idle_ms,
        per_second: alive.then_some(640),
    }
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
            reported_lag: Some(1_204),
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
    let mut snapshot = Snapshot { entries: with_stream().entries, ..overflowing() };
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

pub(super) fn without_group() -> Snapshot {
    with(with_stream(), |it| {
        let partition = &mut it.entries.partitions[0];
        (partition.group, partition.lag, partition.read) = (false, None, None);
        partition.delivered = None;
        it.entries.consumers.clear();
        for line in Arc::make_mut(&mut it.entries.lines) {
            (line.holding, line.dead) = (DeliveryState::Unknown, Some(false));
        }
    })
}

pub(super) fn nothing() -> Snapshot {
    let partitions = vec![StreamStats { group: true, lag: Some(0), ..StreamStats::default() }];
    let (taken, consumers) = (Some(NOW), vec![consumer("node-a/1", true, 0)]);
    let entries = StreamPage { taken, partitions, consumers, ..StreamPage::default() };
    Snapshot { entries, ..empty() }
}

#[test]
fn what_xinfo_reports_is_beside_a_conclusion_that_differs() {
    let shown = |lag, reported, read, text: &str| {
        let snapshot = with(with_stream(), |it| {
            let partition = &mut it.entries.partitions[0];
            (partition.lag, partition.reported_lag, partition.read) = (lag, reported, read);
        });
        Tui::open(snapshot, "3").at((120, 36)).assert_shows(text);
    };
    shown(Some(6), None, Some(8_079), "lag       6         |XINFO: nil");
    shown(Some(4), Some(-67), Some(8_079), "lag       4         |XINFO: -67");
    shown(None, Some(9), Some(8_079), "lag       unknown      XINFO: 9");
    shown(Some(6), Some(6), None, "read      8,078 of 8,084 added  XINFO: nil");
    Tui::open(with_stream(), "3").at((120, 36)).assert_hides("XINFO");
    Tui::open(without_group(), "3").at((120, 36)).assert_hides("XINFO");
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
    let action = GroupAction::Rewind { to: To::Start, partition: Some(1) };
    assert_eq!(tui.press("Wstart\n").sent(), [Command::Preview(action)]);
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

pub(super) fn removed() -> RemoveReport {
    RemoveReport { consumer: "node-c/1".to_owned(), partitions: vec![0] }
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
fn a_rewind_requires_a_position() {
    let mut tui = Tui::open(with_stream(), "3W\n");
    tui.assert_shows("is not a position in the stream").key(KeyCode::BackTab);
    assert_eq!(tui.sent(), []);
    let action = GroupAction::Rewind { to: "-10m".parse().unwrap(), partition: None };
    assert_eq!(tui.press("\t-10m\n").sent(), [Command::Preview(action)]);
}

fn claim(scope: ClaimScope, to: &str) -> Command {
    Command::Preview(GroupAction::Claim { scope, to: to.to_owned() })
}

#[test]
fn a_claim_moves_the_entries_of_a_consumer_or_one_entry_to_a_live_node() {
    let holder = ClaimScope::Holder("node-b/1".to_owned());
    assert_eq!(Tui::open(with_stream(), "3cC\n").sent(), [claim(holder, "node-a")]);
    let mut tui = Tui::open(with_stream(), "3C");
    tui.assert_status("the entry is not pending and cannot be transferred");
    let scope = ClaimScope::Entries(vec![entry(254)]);
    assert_eq!(tui.press("kkkkkC\n").sent(), [claim(scope, "node-a")]);
}

#[test]
fn only_a_dead_consumer_without_entries_is_removed() {
    let mut tui = Tui::open(with_stream(), "3D");
    tui.assert_status("select a consumer in the list above with ↑ and ↓, then press D again");
    tui.press("D").assert_status_contains("node-b/1 holds 86 entries");
    tui.press("jD").assert_status_contains("is alive");
    tui.press("C").assert_status_contains("no consumer of another live node");
    let action = GroupAction::Remove { name: "node-c/1".to_owned() };
    assert_eq!(tui.press("jD").sent(), [Command::Preview(action)]);
}

/// Consumers with their partitions, and the entries that they hold.
fn consumers(lines: &[(u16, &str, u64)]) -> Snapshot {
    let line = |(partition, name, pending): &(u16, &str, u64)| {
        let is_alive = !name.contains("node-b");
        ConsumerLine { partition: *partition, ..consumer(name, is_alive, *pending) }
    };
    with(partitioned(false), |it| it.entries.consumers = lines.iter().map(line).collect())
}

#[test]
fn consumers_of_one_name_are_distinguished_by_partition() {
    let snapshot = consumers(&[(0, "node-b/1", 5), (1, "node-b/1", 5), (2, "node-b/1", 5)]);
    let mut tui = Tui::open(snapshot, "3cj");
    for partition in [1, 2] {
        let chosen = tui.app.views.stream.consumers.chosen(&tui.app.display.shown);
        assert_eq!(chosen.map(|it| it.partition), Some(partition));
        tui.press("j").assert_shows("PARTITION");
    }
}

#[test]
fn commands_on_a_consumer_apply_to_all_partitions() {
    // The single row with the least is of the node with the most.
    let [dead, most] =
        [[(0, "node-b/1", 0), (1, "node-b/1", 5)], [(0, "node-a/1", 0), (1, "node-a/1", 90)]];
    let least = [(0, "node-c/1", 7), (1, "node-c/1", 8)];
    let mut tui = Tui::open(consumers(&[dead, most, least].concat()), "3cD");
    tui.assert_status_contains("node-b/1 holds 5 entries").assert_idle();
    tui.press("C").assert_shows("Transfer 5 entries of node-b/1");
    assert_eq!(tui.press("\n").sent(), [claim(ClaimScope::Holder("node-b/1".into()), "node-c")]);
}

#[test]
fn consumers_are_sorted_while_their_list_has_the_focus() {
    let snapshot = consumers(&[(0, "node-b/1", 5), (0, "node-a/1", 0), (0, "node-c/1", 7)]);
    let mut tui = Tui::open(snapshot, "3o");
    tui.assert_status_contains("always in delivery order").press("c").screen();
    tui.press("o");
    let is_sorted = |tui: &mut Tui| {
        let text = tui.screen();
        ["node-a/1", "node-b/1", "node-c/1"].map(|name| text.find(name).unwrap()).is_sorted()
    };
    assert!(is_sorted(&mut tui), "{}", tui.screen());
    assert!(!is_sorted(tui.press("r")), "{}", tui.screen());
}
