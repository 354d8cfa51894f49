//! A launch: armed, aborted, fired, and what happens if anything has changed.

use super::prelude::*;

/// A change of the snapshot meanwhile.
type Change = fn(&mut Snapshot);

const TEA: VoucherId = VoucherId(9);

/// The question about a launch of the selected planned sale.
fn asked() -> Tui {
    let tui = Tui::open(normal(), "2jjL\t\t\t\t\n");
    assert!(matches!(tui.app.dialog, Some(Dialog::Confirm(_))));
    tui
}

pub(super) fn armed() -> Tui {
    let mut tui = asked();
    tui.press("y");
    assert!(tui.app.director.armed().is_some(), "{}", tui.status());
    tui
}

fn later(tui: &mut Tui, millis: i64) {
    tui.app.display.now = NOW.plus(millis);
    tui.app.on_launch_due();
}

fn opened(state: SaleState) -> Reply {
    Reply::SaleChanged { voucher: TEA, state }
}

/// The buyers of the form, spread over its seconds.
fn load_test() -> Command {
    Command::LoadTest(LoadTest { rate: Some(2_200.0), ..LoadTest::new(TEA, 20_000) })
}

#[test]
fn nothing_is_armed_without_confirmation() {
    let mut tui = asked();
    tui.press("\n");
    assert!(tui.app.dialog.is_none() && tui.app.director.launch.is_none());
    later(&mut tui, 60_000);
    assert!(tui.sent().is_empty());
}

#[test]
fn an_armed_launch_is_in_the_top_line_of_every_view() {
    let mut tui = armed();
    later(&mut tui, 2_000);
    for view in "1234567809".chars().filter(|view| *view != '9') {
        tui.press(&view.to_string());
        for (width, height) in [(120, 36), (80, 24), (60, 15)] {
            let text = tui.screen_at(width, height);
            let top = text.lines().next().unwrap_or_default().to_owned();
            assert!(top.contains("LAUNCH 00:08") && top.contains("#9 cin"), "{view}: {top}");
        }
    }
    tui.press("t");
    assert!(tui.screen_at(80, 24).lines().next().unwrap_or_default().contains("LAUNCH 00:08"));
    tui.press("tf");
    later(&mut tui, 7_000);
    assert!(tui.screen_at(80, 24).contains("LAUNCH 00:03"), "a paused display stops no countdown");
}

#[test]
fn an_armed_launch_opens_the_sale_and_then_lets_its_buyers_in() {
    let mut tui = armed();
    assert_eq!(tui.app.launch_due().map(|it| it.as_millis()), Some(1_000));
    later(&mut tui, 9_999);
    assert!(tui.sent().is_empty(), "not before its time");
    assert_eq!(tui.app.launch_due().map(|it| it.as_millis()), Some(1));
    later(&mut tui, 10_000);
    assert_eq!(tui.sent(), [Command::StartSale(TEA)]);
    assert!(tui.app.launch_due().is_none(), "once");
    later(&mut tui, 11_000);
    assert!(tui.sent().is_empty(), "no buyer before the sale is open");
    tui.answer(Ok(opened(SaleState::Running)));
    assert_eq!(tui.sent(), [load_test()]);
    tui.answer(Ok(Reply::LoadTestDone(LoadReport { settled: true, ..LoadReport::default() })));
    assert!(tui.app.director.launch.is_none());
    assert!(tui.status().starts_with("✔ load test"), "{}", tui.status());
}

/// Fills in a launch of 500 pieces, up to the question.
fn soup_asked() -> Tui {
    Tui::open(normal(), "Lhot soup\t500\t\t\t\n")
}

#[test]
fn a_new_sale_is_created_only_when_the_countdown_ends() {
    let mut tui = soup_asked();
    tui.assert_shows("'hot soup' is created with 500 pieces");
    assert!(tui.press("y").sent().is_empty());
    later(&mut tui, 10_000);
    let sent = tui.sent();
    assert!(
        matches!(&sent[..], [Command::CreateSale(it)] if it.title == "hot soup" && it.stock == 500)
    );
    tui.answer(Ok(Reply::SaleCreated(VoucherId(12))));
    let sent = tui.sent();
    assert!(matches!(&sent[..], [Command::LoadTest(plan)] if plan.voucher == VoucherId(12)));
}

#[test]
fn an_aborted_launch_has_no_effect() {
    let mut tui = armed();
    tui.press("H");
    assert!(tui.screen_at(80, 24).contains("Cancel the launch?"));
    tui.press("\n");
    assert!(tui.app.director.armed().is_some(), "Cancel has the focus");
    tui.press("Hy");
    assert!(tui.app.dialog.is_none());
    tui.assert_status("✔ cancelled: #9 cinema ticket was not started, nothing was changed");
    later(&mut tui, 60_000);
    assert!(tui.sent().is_empty());
    tui.press("H").assert_status("no launch is scheduled and no load test is running");
    tui.press("F").assert_status("no launch is scheduled; press L to schedule one");
}

#[test]
fn it_fires_early_only_after_confirmation() {
    let mut tui = armed();
    tui.press("F\n");
    assert!(tui.sent().is_empty() && tui.app.director.armed().is_some());
    assert_eq!(tui.press("Fy").sent(), [Command::StartSale(TEA)]);
    // The countdown was faster than the answer: it fires once.
    let mut tui = armed();
    tui.press("F");
    later(&mut tui, 10_000);
    assert!(tui.app.dialog.is_none());
    assert_eq!(tui.press("y").sent(), [Command::StartSale(TEA)]);
}

#[test]
fn it_is_aborted_if_the_sale_has_changed() {
    let gone = |snapshot: &mut Snapshot| snapshot.sales.retain(|it| it.voucher_id != TEA);
    let ended = |snapshot: &mut Snapshot| snapshot.sales[2].phase = Phase::Ended;
    let more = |snapshot: &mut Snapshot| snapshot.sales[2].initial += 1;
    let earlier = |snapshot: &mut Snapshot| snapshot.sales[2].begin = Some(NOW.plus(5_000));
    let cases: [(Change, &str); 4] = [
        (gone, "the sale is no longer listed"),
        (ended, "the sale is no longer in the planned state"),
        (more, "the stock changed from 2,000 to 2,001"),
        (earlier, "the sale starts by itself before the countdown ends"),
    ];
    for (change, expected) in cases {
        // Also while an older snapshot is shown, or the question whether to launch now.
        for keys in ["", "f", "F"] {
            let mut tui = armed();
            tui.press(keys);
            let mut snapshot = normal();
            change(&mut snapshot);
            tui.show(snapshot);
            let text = tui.screen_at(160, 36);
            assert!(text.contains(expected) && text.contains("nothing was started"), "{text}");
            assert!(tui.app.dialog.is_none(), "{expected}");
            later(&mut tui, 20_000);
            assert!(tui.sent().is_empty(), "{expected}");
        }
    }
}

#[test]
fn it_does_not_fire_into_an_outage_or_late() {
    let mut tui = armed();
    tui.show(outage());
    later(&mut tui, 10_000);
    assert!(tui.screen_at(160, 36).contains("nothing was started: Redis is unreachable"));
    let mut tui = armed();
    later(&mut tui, 14_000);
    assert!(tui.screen_at(160, 36).contains("missed the launch time by 4 s"));
    assert!(tui.sent().is_empty());
}

#[test]
fn a_sale_that_does_not_open_gets_no_buyers() {
    let mut tui = armed();
    later(&mut tui, 10_000);
    tui.sent();
    tui.answer(Err(EngineError::Rejected("the database does not answer; try again".into())));
    assert!(tui.status().starts_with("✖ the database does not answer"), "{}", tui.status());
    assert!(tui.sent().is_empty() && tui.app.director.launch.is_none());
}

#[test]
fn stopping_while_the_sale_opens_admits_no_buyers() {
    let mut tui = armed();
    later(&mut tui, 10_000);
    tui.sent();
    tui.press("Hy");
    tui.answer(Ok(opened(SaleState::Running)));
    assert_eq!(tui.sent(), [Command::PauseSale(TEA)]);
    // The countdown does not wait for the answer to the question.
    let mut tui = armed();
    tui.press("H");
    later(&mut tui, 10_000);
    assert_eq!(tui.sent(), [Command::StartSale(TEA)]);
    tui.press("y");
    tui.answer(Ok(opened(SaleState::Running)));
    assert_eq!(tui.sent(), [Command::PauseSale(TEA)]);
    // Its buyers arrived meanwhile: that is another question.
    let mut tui = armed();
    tui.press("H");
    later(&mut tui, 10_000);
    tui.reply(Ok(opened(SaleState::Running)));
    tui.sent();
    assert!(tui.press("y").sent().is_empty());
    tui.assert_shows("Stop the load test");
}

#[test]
fn a_load_test_is_stopped_and_its_sale_paused_after_confirmation() {
    let mut tui = armed();
    later(&mut tui, 10_000);
    tui.reply(Ok(opened(SaleState::Running)));
    tui.sent();
    let mut snapshot = normal();
    snapshot.sales[2] = sale(9, "cinema ticket", Phase::Running, 2_000, 900);
    snapshot.load_tests = vec![LoadTestLine { voucher_id: TEA, sent: 1_100, planned: 22_000 }];
    tui.show(snapshot);
    tui.press("H").assert_shows("1,100 of 22,000 requests sent");
    assert!(tui.press("\n").sent().is_empty(), "Cancel has the focus");
    assert_eq!(tui.press("Hy").sent(), [Command::StopLoadTest(TEA), Command::PauseSale(TEA)]);
    // A load test without a launch is stopped in the same way.
    let mut tui = Tui::open(with_load_test(), "Hy");
    let seven = VoucherId(7);
    assert_eq!(tui.sent(), [Command::StopLoadTest(seven), Command::PauseSale(seven)]);
}

#[test]
fn one_launch_runs_at_a_time_and_none_in_read_only_mode() {
    let mut tui = armed();
    tui.press("L");
    assert!(tui.app.dialog.is_none());
    tui.assert_status("a launch is scheduled; press H to cancel it first");
    tui.press("q").assert_shows("Quit while a launch is scheduled?");
    let mut tui = Tui::new(read_only());
    for key in ["L", "F", "H", "t", "L"] {
        tui.press(key);
        assert!(tui.app.dialog.is_none(), "{key}");
    }
    assert!(tui.sent().is_empty());
}

#[test]
fn errors_are_below_their_field() {
    let sales = normal().sales;
    for (values, place) in [
        (["#9", "", "500", "10", "10"], None),
        // The sale starts by itself in an hour.
        (["9", "", "500", "0", "3600"], Some(4)),
        (["soup", "1,000", "500", "0", "1"], None),
        (["", "5", "500", "10", "10"], Some(0)),
        // It is running already.
        (["#7", "", "500", "10", "10"], Some(0)),
        (["#4", "", "500", "10", "10"], Some(0)),
        (["#9", "5", "500", "10", "10"], Some(1)),
        (["soup", "", "500", "10", "10"], Some(1)),
        (["soup", "0", "500", "10", "10"], Some(1)),
        (["#9", "", "0", "10", "10"], Some(2)),
        (["#9", "", "500", "", "10"], Some(3)),
        (["#9", "", "500", "10", "0"], Some(4)),
    ] {
        let mut form = Form::launch(None, &sales);
        for (field, value) in form.fields.iter_mut().zip(values) {
            field.input = value.into();
        }
        form.submit(&sales, NOW);
        assert_eq!(form.fields.iter().position(|it| it.fault.is_some()), place, "{values:?}");
    }
}

#[test]
fn the_form_names_the_sale_that_its_number_means() {
    let mut tui = Tui::open(normal(), "2jjL");
    let named = "cinema ticket, 2,000 pieces";
    tui.assert_shows(named);
    // There is no sale 99.
    tui.press("9").assert_hides(named);
    tui.key(KeyCode::Backspace);
    tui.assert_shows(named);
    (0..2).for_each(|_| _ = tui.key(KeyCode::Backspace));
    tui.assert_shows("ID of a planned sale");
    // Also without its sign.
    tui.press("9").assert_shows(named);
}

#[test]
fn input_is_restored_after_cancelling() {
    let mut tui = soup_asked();
    tui.press("\x1bL").assert_shows("hot soup");
    tui.assert_shows("500");
    tui.press("\x1b").assert_status("nothing was changed; the form keeps your input");
    tui.press("L\t\t\t\t\nyHyL").assert_hides("hot soup");
}

fn two_load_tests() -> Snapshot {
    let load_test = |id| LoadTestLine { voucher_id: VoucherId(id), sent: 1_000, planned: 2_000 };
    Snapshot { load_tests: vec![load_test(8), load_test(7)], ..normal() }
}

#[test]
fn a_stop_targets_the_load_test_of_the_selected_sale() {
    let mut tui = Tui::open(two_load_tests(), "2jk");
    assert_eq!(tui.app.views.sales.chosen, Some(VoucherId(7)));
    tui.press("Hy");
    assert_eq!(
        tui.sent(),
        [Command::StopLoadTest(VoucherId(7)), Command::PauseSale(VoucherId(7))],
        "{}",
        tui.screen()
    );
    // The presenter layout shows one.
    let mut tui = Tui::open(two_load_tests(), "tHy");
    assert_eq!(tui.sent().first(), Some(&Command::StopLoadTest(VoucherId(7))));
    // Two, neither of them chosen.
    let mut tui = Tui::open(two_load_tests(), "H");
    assert!(tui.app.dialog.is_none(), "{}", tui.screen());
    assert!(
        tui.status().ends_with("select a sale with ↑ and ↓, then press H again"),
        "{}",
        tui.status()
    );
    tui.press("jHy");
    assert_eq!(tui.sent().first(), Some(&Command::StopLoadTest(VoucherId(8))));
    let tui = Tui::open(two_load_tests(), "2jjH");
    assert!(tui.app.dialog.is_none(), "#9 is not rushed");
}

#[test]
fn a_launch_that_is_withdrawn_holds_its_sale_for_the_reason_that_was_given() {
    let mut tui = asked();
    tui.press("\tdrill\ny");
    later(&mut tui, 10_000);
    tui.sent();
    assert_eq!(tui.reason().as_deref(), Some("drill"));
    tui.press("Hy");
    tui.answer(Ok(opened(SaleState::Running)));
    assert_eq!(tui.sent(), [Command::PauseSale(TEA)]);
    assert_eq!(tui.reason().as_deref(), Some("drill"));
}

#[test]
fn a_launch_is_fired_by_hand_even_if_its_time_has_long_passed() {
    let mut tui = armed();
    tui.press("F");
    tui.app.display.now = NOW.plus(60_000);
    assert_eq!(tui.press("y").sent(), [Command::StartSale(TEA)], "{}", tui.status());
}
