//! Every audited command takes a reason, in the same field.

use super::{prelude::*, screens::opened};

/// Types a reason into the open question, and confirms.
fn because(tui: &mut Tui, reason: &str) {
    assert!(matches!(tui.app.dialog, Some(Dialog::Confirm(_))), "{}", tui.screen());
    tui.press("\t");
    tui.press(reason);
    // Enter ends the text and does nothing else.
    tui.press("\n");
    assert!(tui.sent().is_empty() && tui.app.dialog.is_some());
    tui.press("y");
}

fn paused() -> Snapshot {
    let mut snapshot = normal();
    snapshot.sales[0].phase = Phase::Paused;
    snapshot
}

#[test]
fn confirmed_commands_take_a_reason() {
    type Case = (fn() -> Snapshot, &'static str, &'static str);
    let cases: [Case; 13] = [
        (normal, "2jjS", "StartSale"),
        (normal, "2jkP", "PauseSale"),
        (paused, "2jkP", "ResumeSale"),
        (normal, "2jkE", "EndSale"),
        (normal, "2jkR\n\n", "LoadTest"),
        (normal, "4A", "Apply"),
        (with_letters, "5*D", "DiscardLetters"),
        (with_orders, "7P", "Pay"),
        (normal, "6jX", "ReleaseLock"),
        (normal, "8T", "RunJob"),
        (normal, "8P", "SwitchJob"),
        (normal, "8jP", "SwitchJob"),
        (with_findings, "9A", "Repair"),
    ];
    for (snapshot, keys, name) in cases {
        let mut tui = opened(snapshot(), keys);
        because(&mut tui, "yes, hl said 运维 so");
        let sent = tui.sent();
        assert!(
            matches!(&sent[..], [command] if format!("{command:?}").starts_with(name)),
            "{keys}: {sent:?}"
        );
        assert_eq!(tui.reason().as_deref(), Some("yes, hl said 运维 so"), "{keys}");
    }
}

#[test]
fn an_empty_input_is_no_reason() {
    let mut tui = Tui::open(normal(), "2jkE");
    because(&mut tui, "  ");
    assert_eq!(tui.sent(), [Command::EndSale(VoucherId(7))]);
    assert_eq!(tui.reason(), None);
}

#[test]
fn commands_outside_the_log_take_no_reason() {
    let mut leaving = Tui::new(with_load_test());
    leaving.press("q");
    let mut snapshot = normal();
    snapshot.recoveries =
        vec![RecoveryLine { action: "pending apply".into(), done: 1, planned: 9, changes: true }];
    let mut breaking_off = Tui::new(snapshot);
    breaking_off.press("4X");
    for tui in [&mut leaving, &mut breaking_off] {
        tui.assert_shows("[ Cancel ]");
        tui.assert_hides("reason");
    }
}

/// Arms the launch of the planned sale.
fn arm(tui: &mut Tui, reason: &str) {
    tui.press("2jjL\t\t\t\t\n");
    because(tui, reason);
}

fn fire(tui: &mut Tui) {
    tui.app.display.now = NOW.plus(10_000);
    tui.app.on_launch_due();
}

#[test]
fn a_launch_and_its_cancellation_take_reasons() {
    let mut tui = Tui::new(normal());
    arm(&mut tui, "the show");
    tui.press("F");
    because(&mut tui, "now");
    assert_eq!(tui.sent(), [Command::StartSale(VoucherId(9))]);
    assert_eq!(tui.reason().as_deref(), Some("now"));
    let mut tui = Tui::new(normal());
    arm(&mut tui, "the show");
    fire(&mut tui);
    assert_eq!(tui.sent(), [Command::StartSale(VoucherId(9))]);
    assert_eq!(tui.reason().as_deref(), Some("the show"));
    let reply = Reply::SaleChanged { voucher: VoucherId(9), state: SaleState::Running };
    tui.answer(Ok(reply));
    assert!(matches!(&tui.sent()[..], [Command::LoadTest(_)]));
    assert_eq!(tui.reason().as_deref(), Some("the show"));
    let mut tui = Tui::open(with_load_test(), "H");
    because(&mut tui, "too many");
    let voucher = VoucherId(7);
    assert_eq!(tui.sent(), [Command::StopLoadTest(voucher), Command::PauseSale(voucher)]);
    assert_eq!(tui.reason().as_deref(), Some("too many"));
}

#[test]
fn a_launch_at_its_time_takes_no_failure_away() {
    let mut tui = Tui::new(normal());
    arm(&mut tui, "");
    assert_eq!(tui.press("8Ty").sent(), [Command::RunJob("close-overdue".to_owned())]);
    tui.answer(Err(EngineError::Rejected("it runs on node-b".into())));
    tui.assert_status_contains("it runs on node-b");
    fire(&mut tui);
    assert_eq!(tui.sent(), [Command::StartSale(VoucherId(9))]);
    tui.press("j").assert_status_contains("it runs on node-b");
    tui.press("\x1b");
    assert!(!tui.status().contains("it runs on node-b"), "{}", tui.status());
}
