//! The order stream on the screen, and what its keys do.

use std::sync::Arc;

use crossterm::event::KeyCode;
use seckill_engine::{
    EngineError,
    command::{Command, Reply},
    group::{
        ClaimPlan, ClaimScope, GroupAct, Preview, RemoveReport, Rewind, To,
        claim::{ClaimEntries, ClaimPart},
    },
    telemetry::{
        Snapshot, StreamView,
        snapshot::{DeliveryState, EntryLine, GroupConsumer, NodeState, StreamPage, StreamStats},
    },
};
use seckill_model::{EntryId, OrderId, UserId, VoucherId, locale::set_thread_language};

use super::{
    fixture::{Bench, NOW, empty, no_user, normal, outage, overflowing},
    screens::{SHOTS, assert_screen},
};
use crate::{
    dialogs::Dialog,
    theme::{Depth, Theme},
};

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

pub(super) fn consumer(name: &str, alive: bool, pending: u64) -> GroupConsumer {
    let idle_ms = if alive { 10 } else { 42_000 };
    let takes = alive && !name.ends_with("/replay");
    let state = if alive { NodeState::Alive } else { NodeState::Dead };
    GroupConsumer { partition: 0, name: name.to_owned(), state, takes, pending, idle_ms }
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
            GroupConsumer { state: NodeState::Stopped, ..consumer("node-c/1", false, 0) },
        ],
    }
}

pub(super) fn flowing() -> Snapshot {
    Snapshot { entries: page(StreamView::default(), 260), ..normal() }
}

/// The same a little later, with fewer entries to deliver.
fn draining(bench: &mut Bench) {
    let mut later = flowing();
    later.entries.taken = Some(NOW.plus(1_000));
    for it in &mut later.entries.partitions {
        it.lag = it.lag.map(|lag| lag - 400);
    }
    bench.show(later);
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

fn away() -> Snapshot {
    Snapshot { entries: flowing().entries, ..outage() }
}

fn without_group() -> Snapshot {
    let mut snapshot = flowing();
    for it in &mut snapshot.entries.partitions {
        (it.group, it.lag, it.read, it.delivered) = (false, None, None, None);
    }
    snapshot.entries.consumers.clear();
    for line in Arc::make_mut(&mut snapshot.entries.lines) {
        (line.holding, line.dead) = (DeliveryState::Unknown, Some(false));
    }
    snapshot
}

fn nothing() -> Snapshot {
    let mut entries = StreamPage { taken: Some(NOW), ..StreamPage::default() };
    let first = StreamStats { group: true, lag: Some(0), ..StreamStats::default() };
    entries.partitions = vec![first];
    entries.consumers = vec![consumer("node-a/1", true, 0)];
    Snapshot { entries, ..empty() }
}

#[test]
fn every_state_at_every_size() {
    type Scene = (&'static str, fn() -> Snapshot);
    let scenes: [Scene; 7] = [
        ("empty", nothing),
        ("normal", flowing),
        ("overflowing", || partitioned(true)),
        ("outage", away),
        ("unread", || Snapshot { entries: StreamPage::default(), ..outage() }),
        ("no_group", without_group),
        ("read_only", || Snapshot { read_only: true, ..flowing() }),
    ];
    for (scene, snapshot) in scenes {
        for (lang, width, height) in SHOTS {
            set_thread_language(lang);
            let tail = if lang == "zh" { "_zh" } else { "" };
            let mut bench = Bench::new(snapshot());
            bench.keys("3");
            if scene == "normal" {
                draining(&mut bench);
            }
            let text = bench.text(width, height);
            assert_screen(&format!("stream_{scene}{tail}_{width}x{height}"), &text);
        }
    }
}

#[test]
fn details_consumers_and_a_held_window() {
    let shots = [
        ("stream_detail", "3kkkkkkl"),
        ("stream_consumers", "3cj"),
        ("stream_held", "3kkk/node-b"),
        ("form_rewind", "3W"),
        ("form_claim", "3cC"),
    ];
    for (name, keys) in shots {
        for (width, height) in [(120, 36), (80, 24), (60, 15)] {
            let mut bench = Bench::new(flowing());
            bench.keys(keys);
            if name == "stream_held" {
                bench.press(KeyCode::Enter);
            }
            assert_screen(&format!("{name}_{width}x{height}"), &bench.text(width, height));
        }
    }
}

#[test]
fn the_view_is_localized() {
    set_thread_language("zh");
    let mut bench = Bench::new(flowing());
    bench.keys("3kkkkkkl");
    let text = bench.text(120, 36);
    set_thread_language("en");
    assert_screen("stream_zh_120x36", &text);
}

#[test]
fn ascii_mode_and_a_terminal_without_colour_show_it_all() {
    for keys in ["3", "3kkl", "3c", "3W"] {
        let mut bench = Bench::themed(flowing(), Theme::new(Depth::None, true));
        bench.keys(keys);
        let text = bench.text(120, 36);
        let beyond: Vec<char> = text.chars().filter(|c| !c.is_ascii()).collect();
        assert!(beyond.is_empty(), "{beyond:?}: {text}");
    }
}

#[test]
fn the_list_follows_until_the_user_scrolls_up() {
    let mut bench = Bench::new(flowing());
    assert_eq!(bench.focus.borrow().stream, None, "the view is closed, so nothing is read");
    bench.keys("3");
    assert_eq!(bench.focus.borrow().stream, Some(StreamView::default()));
    let chosen =
        |bench: &Bench| bench.app.stream.entries.chosen(&bench.app.shown).map(|it| it.entry);
    assert_eq!(chosen(&bench), Some(entry(259)));
    bench.show(Snapshot { entries: page(StreamView::default(), 270), ..normal() });
    assert_eq!(chosen(&bench), Some(entry(269)));
    bench.keys("k");
    let held = StreamView { partition: None, before: entry(269).next_of_all() };
    assert_eq!(bench.focus.borrow().stream, Some(held));
    bench.show(Snapshot { entries: page(held, 270), ..normal() });
    assert_eq!(chosen(&bench), Some(entry(268)));
    bench.keys("G");
    assert_eq!(bench.focus.borrow().stream, Some(StreamView::default()));
    bench.show(Snapshot { entries: page(StreamView::default(), 280), ..normal() });
    assert_eq!(chosen(&bench), Some(entry(279)));
    bench.keys("j");
    assert_eq!(bench.said(), "this is the last row");
    bench.keys("1");
    assert_eq!(bench.focus.borrow().stream, None);
}

#[test]
fn pages_turn_at_their_ends_and_back() {
    let mut bench = Bench::new(flowing());
    bench.keys("3g");
    bench.keys("k");
    let older = StreamView { partition: None, before: Some(entry(60)) };
    assert_eq!(bench.focus.borrow().stream, Some(older));
    bench.show(Snapshot { entries: page(older, 60), ..normal() });
    let chosen =
        |bench: &Bench| bench.app.stream.entries.chosen(&bench.app.shown).map(|it| it.entry);
    assert_eq!(chosen(&bench), Some(entry(59)), "it goes on where the other one began");
    bench.keys("j");
    let held = StreamView { partition: None, before: entry(259).next_of_all() };
    assert_eq!(bench.focus.borrow().stream, Some(held));
    bench.show(Snapshot { entries: page(held, 260), ..normal() });
    assert_eq!(chosen(&bench), Some(entry(60)));
    // The whole held window was trimmed.
    let gone = StreamPage { lines: Arc::default(), ..page(held, 260) };
    bench.show(Snapshot { entries: gone, ..normal() });
    assert_eq!(bench.focus.borrow().stream, Some(StreamView::default()));
}

#[test]
fn a_partition_is_chosen_or_all_of_them() {
    let mut bench = Bench::new(flowing());
    bench.keys("3p");
    assert_eq!(bench.said(), "there is only one partition");
    bench.show(partitioned(false));
    bench.keys("pp");
    let only = StreamView { partition: Some(1), before: None };
    assert_eq!(bench.focus.borrow().stream, Some(only));
    assert!(bench.text(120, 36).contains("partition 1 of 0 to 63"));
    bench.keys("W");
    "start".chars().for_each(|c| bench.press(KeyCode::Char(c)));
    bench.press(KeyCode::Enter);
    let act = GroupAct::Rewind { to: To::Start, partition: Some(1) };
    assert_eq!(bench.sent(), [Command::Preview(act)]);
}

fn rewound() -> Rewind {
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

fn given() -> ClaimPlan {
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
    let mut bench = Bench::new(flowing());
    bench.keys("3W");
    bench.press(KeyCode::Enter);
    assert!(bench.text(120, 36).contains("is not a position in the stream"));
    assert!(bench.sent().is_empty());
    bench.press(KeyCode::BackTab);
    bench.press(KeyCode::Tab);
    bench.keys("-10m");
    bench.press(KeyCode::Enter);
    let to: To = "-10m".parse().unwrap();
    assert_eq!(bench.sent(), [Command::Preview(GroupAct::Rewind { to, partition: None })]);
    bench.answer(Ok(Reply::Previewed(Preview::Rewind(vec![rewound()]))));
    for (width, height) in [(120, 36), (80, 24), (60, 15)] {
        assert_screen(&format!("confirm_rewind_{width}x{height}"), &bench.text(width, height));
    }
    bench.press(KeyCode::Enter);
    assert!(bench.sent().is_empty(), "Cancel has the focus");
    bench.keys("W-10m");
    bench.press(KeyCode::Enter);
    bench.sent();
    bench.answer(Ok(Reply::Previewed(Preview::Rewind(vec![rewound()]))));
    bench.keys("y");
    assert_eq!(bench.sent(), [Command::Rewind(vec![rewound()])]);
}

#[test]
fn a_claim_moves_entries_from_the_selected_consumer_to_a_live_one() {
    let mut bench = Bench::new(flowing());
    bench.keys("3cC");
    bench.press(KeyCode::Enter);
    let scope = ClaimScope::Holder("node-b/1".to_owned());
    let act = GroupAct::Claim { scope, to: "node-a".to_owned() };
    assert_eq!(bench.sent(), [Command::Preview(act)]);
    // The rows are reversed meanwhile.
    let mut later = flowing();
    later.entries.consumers.reverse();
    bench.show(later);
    bench.answer(Ok(Reply::Previewed(Preview::Claim(given()))));
    for (width, height) in [(120, 36), (80, 24), (60, 15)] {
        assert_screen(&format!("confirm_claim_{width}x{height}"), &bench.text(width, height));
    }
    bench.keys("y");
    assert_eq!(bench.sent(), [Command::Claim(given())]);
    // An entry by its identity.
    let mut bench = Bench::new(flowing());
    bench.keys("3C");
    assert_eq!(bench.said(), "the entry is not pending and cannot be transferred");
    bench.keys("kkkkkC");
    bench.press(KeyCode::Enter);
    let scope = ClaimScope::Entries(vec![entry(254)]);
    let act = GroupAct::Claim { scope, to: "node-a".to_owned() };
    assert_eq!(bench.sent(), [Command::Preview(act)]);
}

#[test]
fn only_a_dead_consumer_without_entries_is_removed() {
    let mut bench = Bench::new(flowing());
    bench.keys("3D");
    assert_eq!(
        bench.said(),
        "select a consumer in the list above with ↑ and ↓, then press D again"
    );
    bench.keys("D");
    assert!(bench.said().contains("node-b/1 holds 86 entries"), "{}", bench.said());
    bench.keys("jD");
    assert!(bench.said().contains("is alive"), "{}", bench.said());
    bench.keys("C");
    assert!(bench.said().contains("no consumer of another live node"), "{}", bench.said());
    bench.keys("jD");
    let name = "node-c/1".to_owned();
    assert_eq!(bench.sent(), [Command::Preview(GroupAct::Remove { name: name.clone() })]);
    let found = RemoveReport { consumer: name, partitions: vec![0] };
    bench.answer(Ok(Reply::Previewed(Preview::Remove(found.clone()))));
    bench.keys("y");
    assert_eq!(bench.sent(), [Command::RemoveConsumer(found)]);
}

#[test]
fn late_figures_do_not_open_over_a_dialog() {
    let mut bench = Bench::new(flowing());
    bench.keys("3cC");
    bench.press(KeyCode::Enter);
    bench.sent();
    bench.keys("?");
    bench.answer(Ok(Reply::Previewed(Preview::Claim(given()))));
    assert!(matches!(bench.app.dialog, Some(Dialog::Help(_))));
    bench.press(KeyCode::Esc);
    bench.keys("C");
    bench.press(KeyCode::Enter);
    bench.sent();
    bench.answer(Err(EngineError::Plan("there is no consumer 'x'".to_owned())));
    assert!(bench.app.dialog.is_none());
    assert!(bench.said().contains("there is no consumer"), "{}", bench.said());
}

#[test]
fn read_only_mode_refuses_commands() {
    let mut bench = Bench::new(Snapshot { read_only: true, ..flowing() });
    bench.keys("3c");
    for key in ["W", "C", "D"] {
        bench.keys(key);
        assert!(bench.app.dialog.is_none(), "{key}");
        assert_eq!(
            bench.said(),
            "read-only mode: commands are disabled; restart without --read-only"
        );
    }
    assert!(bench.sent().is_empty());
}

#[test]
fn users_are_masked_until_asked() {
    let mut bench = Bench::new(flowing());
    bench.keys("3");
    let text = bench.text(120, 36);
    assert!(text.contains("***59") && !text.contains(" 1259"), "{text}");
    bench.keys("u");
    assert!(bench.text(120, 36).contains(" 1259"));
}

#[test]
fn consumers_of_one_name_are_distinguished_by_partition() {
    let mut snapshot = partitioned(false);
    snapshot.entries.consumers = (0..3)
        .map(|partition| GroupConsumer { partition, ..consumer("node-b/1", false, 5) })
        .collect();
    let mut bench = Bench::new(snapshot);
    bench.keys("3cj");
    let chosen = |bench: &Bench| {
        let it = bench.app.stream.consumers.chosen(&bench.app.shown).unwrap();
        it.partition
    };
    assert_eq!(chosen(&bench), 1);
    bench.keys("j");
    assert_eq!(chosen(&bench), 2);
    let text = bench.text(120, 36);
    assert!(text.contains("PARTITION"), "{text}");
}

#[test]
fn an_unavailable_count_is_derived_from_the_lag() {
    let mut snapshot = flowing();
    snapshot.entries.partitions[0].read = None;
    let mut bench = Bench::new(snapshot.clone());
    bench.keys("3");
    let text = bench.text(120, 36);
    assert!(text.contains("6,880 of 8,084 added"), "{text}");
    snapshot.entries.partitions[0].lag = None;
    let mut bench = Bench::new(snapshot);
    bench.keys("3");
    let text = bench.text(120, 36);
    assert!(text.contains("not counted; 8,084 added") && text.contains("unknown"), "{text}");
}

#[test]
fn stopped_nodes_are_distinguished_from_dead_ones() {
    let mut snapshot = flowing();
    for (number, line) in Arc::make_mut(&mut snapshot.entries.lines).iter_mut().enumerate() {
        (line.dead, line.fault) = (Some(number == 199), None);
        line.holding = match number {
            199 => DeliveryState::Acknowledged,
            _ => DeliveryState::Pending { consumer: "node-c/1".into(), idle_ms: 9, deliveries: 1 },
        };
        line.holder = Some(NodeState::Stopped);
    }
    let mut bench = Bench::new(snapshot);
    bench.keys("3l");
    let text = bench.text(120, 36);
    assert!(text.contains("pending node-c/1 no node"), "{text}");
    assert!(text.contains("in dead letters; press 5 to open"), "{text}");
}
