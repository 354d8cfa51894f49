//! Every audited command takes a reason, in the same field.

use crossterm::event::KeyCode;
use seckill_engine::{
    EngineError,
    command::{Command, Reply},
    telemetry::{OrdersView, Snapshot, snapshot::RecoveryLine},
};
use seckill_model::{Phase, SaleState, VoucherId};

use super::{
    fixture::{Bench, NOW, normal, rushing},
    orders,
};
use crate::dialogs::Dialog;

/// Types a reason into the open question, and confirms.
fn because(bench: &mut Bench, reason: &str) {
    assert!(matches!(bench.app.dialog, Some(Dialog::Confirm(_))), "{}", bench.text(120, 36));
    bench.press(KeyCode::Tab);
    bench.keys(reason);
    // Enter ends the text and does nothing else.
    bench.press(KeyCode::Enter);
    assert!(bench.sent().is_empty() && bench.app.dialog.is_some());
    bench.keys("y");
}

fn paused() -> Snapshot {
    let mut snapshot = normal();
    snapshot.sales[0].phase = Phase::Paused;
    snapshot
}

fn sold() -> Snapshot {
    Snapshot { orders: orders::page(OrdersView::default(), 900), ..normal() }
}

#[test]
fn every_confirmed_command_takes_a_reason() {
    type Case = (fn() -> Snapshot, &'static str, &'static str);
    let cases: [Case; 10] = [
        (normal, "2jjS", "StartSale"),
        (normal, "2jkP", "PauseSale"),
        (paused, "2jkP", "ResumeSale"),
        (normal, "2jkE", "EndSale"),
        (normal, "2jkR\n\n", "LoadTest"),
        (sold, "7P", "Pay"),
        (normal, "6jX", "ReleaseLock"),
        (normal, "8T", "RunJob"),
        (normal, "8P", "SwitchJob"),
        (normal, "8jP", "SwitchJob"),
    ];
    for (snapshot, keys, name) in cases {
        let mut bench = Bench::new(snapshot());
        for key in keys.chars() {
            match key {
                '\n' => bench.press(KeyCode::Enter),
                key => bench.keys(&key.to_string()),
            }
        }
        because(&mut bench, "yes, hl said 运维 so");
        let sent = bench.sent();
        assert!(
            matches!(&sent[..], [command] if format!("{command:?}").starts_with(name)),
            "{keys}: {sent:?}"
        );
        assert_eq!(bench.reason().as_deref(), Some("yes, hl said 运维 so"), "{keys}");
    }
}

#[test]
fn an_empty_input_is_no_reason() {
    let mut bench = Bench::new(normal());
    bench.keys("2jkE");
    because(&mut bench, "  ");
    assert_eq!(bench.sent(), [Command::EndSale(VoucherId(7))]);
    assert_eq!(bench.reason(), None);
}

#[test]
fn commands_outside_the_log_take_no_reason() {
    let mut leaving = Bench::new(rushing());
    leaving.keys("q");
    let mut snapshot = normal();
    snapshot.recoveries =
        vec![RecoveryLine { act: "pending apply".into(), done: 1, planned: 9, changes: true }];
    let mut breaking_off = Bench::new(snapshot);
    breaking_off.keys("4X");
    for bench in [&mut leaving, &mut breaking_off] {
        let text = bench.text(120, 36);
        assert!(text.contains("[ Cancel ]") && !text.contains("reason"), "{text}");
    }
}

/// Arms the launch of the planned sale.
fn arm(bench: &mut Bench, reason: &str) {
    bench.keys("2jjL");
    for _ in 0..5 {
        bench.press(KeyCode::Tab);
    }
    bench.press(KeyCode::BackTab);
    bench.press(KeyCode::Enter);
    because(bench, reason);
}

fn fire(bench: &mut Bench) {
    bench.app.now = NOW.plus(10_000);
    bench.app.on_launch_due();
}

#[test]
fn a_launch_and_its_cancellation_take_reasons() {
    let mut bench = Bench::new(normal());
    arm(&mut bench, "the show");
    bench.keys("F");
    because(&mut bench, "now");
    assert_eq!(bench.sent(), [Command::StartSale(VoucherId(9))]);
    assert_eq!(bench.reason().as_deref(), Some("now"));
    let mut bench = Bench::new(normal());
    arm(&mut bench, "the show");
    fire(&mut bench);
    assert_eq!(bench.sent(), [Command::StartSale(VoucherId(9))]);
    assert_eq!(bench.reason().as_deref(), Some("the show"));
    let reply = Reply::SaleChanged { voucher: VoucherId(9), state: SaleState::Running };
    bench.answer(Ok(reply));
    assert!(matches!(&bench.sent()[..], [Command::LoadTest(_)]));
    assert_eq!(bench.reason().as_deref(), Some("the show"));
    let mut bench = Bench::new(rushing());
    bench.keys("H");
    because(&mut bench, "too many");
    let voucher = VoucherId(7);
    assert_eq!(bench.sent(), [Command::StopLoadTest(voucher), Command::PauseSale(voucher)]);
    assert_eq!(bench.reason().as_deref(), Some("too many"));
}

#[test]
fn a_launch_at_its_time_takes_no_failure_away() {
    let mut bench = Bench::new(normal());
    arm(&mut bench, "");
    bench.keys("8Ty");
    assert_eq!(bench.sent(), [Command::RunJob("close-overdue".to_owned())]);
    bench.answer(Err(EngineError::Plan("it runs on node-b".to_owned())));
    assert!(bench.said().contains("it runs on node-b"), "{}", bench.said());
    fire(&mut bench);
    assert_eq!(bench.sent(), [Command::StartSale(VoucherId(9))]);
    bench.keys("j");
    assert!(bench.said().contains("it runs on node-b"), "{}", bench.said());
    bench.press(KeyCode::Esc);
    assert!(!bench.said().contains("it runs on node-b"), "{}", bench.said());
}
