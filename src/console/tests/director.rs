//! A launch: armed, aborted, fired, and what happens if anything has changed.

use crossterm::event::KeyCode;
use seckill_engine::{
    EngineError,
    command::{Command, LoadReport, LoadTest, Reply},
    telemetry::{Snapshot, snapshot::LoadTestLine},
};
use seckill_model::{Phase, SaleState, VoucherId, locale::set_thread_language};

use super::fixture::{Bench, NOW, normal, outage, read_only, rushing, sale};
use crate::dialogs::{Dialog, Form};

/// A change of the snapshot meanwhile.
type Change = fn(&mut Snapshot);

const TEA: VoucherId = VoucherId(9);

/// Selects the planned sale and fills in the form, up to the question.
fn asked(bench: &mut Bench) {
    bench.keys("2jjL");
    for _ in 0..5 {
        bench.press(KeyCode::Tab);
    }
    // From the Cancel button back to the last field, where Enter submits the form.
    bench.press(KeyCode::BackTab);
    bench.press(KeyCode::Enter);
    assert!(matches!(bench.app.dialog, Some(Dialog::Confirm(_))), "{}", bench.text(120, 36));
}

fn armed() -> Bench {
    let mut bench = Bench::new(normal());
    asked(&mut bench);
    bench.keys("y");
    assert!(bench.app.director.armed().is_some(), "{}", bench.said());
    bench
}

fn later(bench: &mut Bench, millis: i64) {
    bench.app.now = NOW.plus(millis);
    bench.app.on_launch_due();
}

fn opened(state: SaleState) -> Reply {
    Reply::SaleChanged { voucher: TEA, state }
}

/// The buyers of the form, spread over its seconds.
fn rush() -> Command {
    Command::LoadTest(LoadTest { rate: Some(2_200.0), ..LoadTest::new(TEA, 20_000) })
}

#[test]
fn nothing_is_armed_without_confirmation() {
    let mut bench = Bench::new(normal());
    asked(&mut bench);
    let text = bench.text(120, 36);
    for shown in [
        "10 s after you confirm, by the Redis clock:",
        "#9 starts with 2,000 pieces, before its planned time.",
        "Then 20,000 buyers arrive within 10 s",
        "press H to cancel",
    ] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    bench.press(KeyCode::Enter);
    assert!(bench.app.dialog.is_none() && bench.app.director.launch.is_none());
    later(&mut bench, 60_000);
    assert!(bench.sent().is_empty());
}

#[test]
fn an_armed_launch_is_in_the_top_line_of_every_view() {
    let mut bench = armed();
    later(&mut bench, 2_000);
    for view in "1234567809".chars().filter(|view| *view != '9') {
        bench.keys(&view.to_string());
        for (width, height) in [(120, 36), (80, 24), (60, 15)] {
            let text = bench.text(width, height);
            let top = text.lines().next().unwrap_or_default().to_owned();
            assert!(top.contains("LAUNCH 00:08") && top.contains("#9 cin"), "{view}: {top}");
        }
    }
    bench.keys("t");
    assert!(bench.text(80, 24).lines().next().unwrap_or_default().contains("LAUNCH 00:08"));
    bench.keys("tf");
    later(&mut bench, 7_000);
    assert!(bench.text(80, 24).contains("LAUNCH 00:03"), "a paused display stops no countdown");
}

#[test]
fn an_armed_launch_opens_the_sale_and_then_lets_its_buyers_in() {
    let mut bench = armed();
    assert_eq!(bench.app.launch_due().map(|it| it.as_millis()), Some(1_000));
    later(&mut bench, 9_999);
    assert!(bench.sent().is_empty(), "not before its time");
    assert_eq!(bench.app.launch_due().map(|it| it.as_millis()), Some(1));
    later(&mut bench, 10_000);
    assert_eq!(bench.sent(), [Command::StartSale(TEA)]);
    assert!(bench.app.launch_due().is_none(), "once");
    later(&mut bench, 11_000);
    assert!(bench.sent().is_empty(), "no buyer before the sale is open");
    bench.answer(Ok(opened(SaleState::Running)));
    assert_eq!(bench.sent(), [rush()]);
    bench.answer(Ok(Reply::LoadTestDone(LoadReport { settled: true, ..LoadReport::default() })));
    assert!(bench.app.director.launch.is_none());
    assert!(bench.said().starts_with("✔ load test"), "{}", bench.said());
}

/// Fills in a launch of 500 pieces, up to the question.
fn soup_asked() -> Bench {
    let mut bench = Bench::new(normal());
    bench.keys("L");
    bench.keys("hot soup");
    bench.press(KeyCode::Tab);
    bench.keys("500");
    for _ in 0..3 {
        bench.press(KeyCode::Tab);
    }
    bench.press(KeyCode::Enter);
    bench
}

#[test]
fn a_new_sale_is_created_only_when_the_countdown_ends() {
    let mut bench = soup_asked();
    assert!(bench.text(120, 36).contains("'hot soup' is created with 500 pieces"));
    bench.keys("y");
    assert!(bench.sent().is_empty());
    later(&mut bench, 10_000);
    let sent = bench.sent();
    assert!(
        matches!(&sent[..], [Command::CreateSale(it)] if it.title == "hot soup" && it.stock == 500)
    );
    bench.answer(Ok(Reply::SaleCreated(VoucherId(12))));
    let sent = bench.sent();
    assert!(matches!(&sent[..], [Command::LoadTest(plan)] if plan.voucher == VoucherId(12)));
}

#[test]
fn an_aborted_launch_has_no_effect() {
    let mut bench = armed();
    bench.keys("H");
    assert!(bench.text(80, 24).contains("Cancel the launch?"));
    bench.press(KeyCode::Enter);
    assert!(bench.app.director.armed().is_some(), "Cancel has the focus");
    bench.keys("Hy");
    assert!(bench.app.dialog.is_none());
    assert_eq!(bench.said(), "✔ cancelled: #9 cinema ticket was not started, nothing was changed");
    later(&mut bench, 60_000);
    assert!(bench.sent().is_empty());
    bench.keys("H");
    assert_eq!(bench.said(), "no launch is scheduled and no load test is running");
    bench.keys("F");
    assert_eq!(bench.said(), "no launch is scheduled; press L to schedule one");
}

#[test]
fn it_fires_early_only_after_confirmation() {
    let mut bench = armed();
    bench.keys("F");
    bench.press(KeyCode::Enter);
    assert!(bench.sent().is_empty() && bench.app.director.armed().is_some());
    bench.keys("Fy");
    assert_eq!(bench.sent(), [Command::StartSale(TEA)]);
    // The countdown was faster than the answer: it fires once.
    let mut bench = armed();
    bench.keys("F");
    later(&mut bench, 10_000);
    assert!(bench.app.dialog.is_none());
    bench.keys("y");
    assert_eq!(bench.sent(), [Command::StartSale(TEA)]);
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
        // Also while an older snapshot is shown.
        for keys in ["", "f"] {
            let mut bench = armed();
            bench.keys(keys);
            let mut snapshot = normal();
            change(&mut snapshot);
            bench.show(snapshot);
            let text = bench.text(160, 36);
            assert!(text.contains(expected) && text.contains("nothing was started"), "{text}");
            later(&mut bench, 20_000);
            assert!(bench.sent().is_empty(), "{expected}");
        }
    }
}

#[test]
fn it_does_not_fire_into_an_outage_or_late() {
    let mut bench = armed();
    bench.show(outage());
    later(&mut bench, 10_000);
    assert!(bench.text(160, 36).contains("nothing was started: Redis is unreachable"));
    let mut bench = armed();
    later(&mut bench, 14_000);
    assert!(bench.text(160, 36).contains("was suspended and is 4 s late"));
    assert!(bench.sent().is_empty());
}

#[test]
fn a_sale_that_does_not_open_gets_no_buyers() {
    let mut bench = armed();
    later(&mut bench, 10_000);
    bench.sent();
    bench.answer(Err(EngineError::Plan("the database does not answer; try again".to_owned())));
    assert!(bench.said().starts_with("✖ the database does not answer"), "{}", bench.said());
    assert!(bench.sent().is_empty() && bench.app.director.launch.is_none());
}

#[test]
fn stopping_while_the_sale_opens_admits_no_buyers() {
    let mut bench = armed();
    later(&mut bench, 10_000);
    bench.sent();
    bench.keys("Hy");
    bench.answer(Ok(opened(SaleState::Running)));
    assert_eq!(bench.sent(), [Command::PauseSale(TEA)]);
    // The countdown does not wait for the answer to the question.
    let mut bench = armed();
    bench.keys("H");
    later(&mut bench, 10_000);
    assert_eq!(bench.sent(), [Command::StartSale(TEA)]);
    bench.keys("y");
    bench.answer(Ok(opened(SaleState::Running)));
    assert_eq!(bench.sent(), [Command::PauseSale(TEA)]);
    // Its buyers arrived meanwhile: that is another question.
    let mut bench = armed();
    bench.keys("H");
    later(&mut bench, 10_000);
    bench.sent();
    bench.answer(Ok(opened(SaleState::Running)));
    bench.sent();
    bench.keys("y");
    assert!(bench.sent().is_empty());
    assert!(bench.text(120, 36).contains("Stop the load test"));
}

#[test]
fn a_rush_is_stopped_and_its_sale_paused_after_confirmation() {
    let mut bench = armed();
    later(&mut bench, 10_000);
    bench.sent();
    bench.answer(Ok(opened(SaleState::Running)));
    bench.sent();
    let mut snapshot = normal();
    snapshot.sales[2] = sale(9, "cinema ticket", Phase::Running, 2_000, 900);
    snapshot.load_tests = vec![LoadTestLine { voucher_id: TEA, sent: 1_100, planned: 22_000 }];
    bench.show(snapshot);
    bench.keys("H");
    assert!(bench.text(120, 36).contains("1,100 of 22,000 requests sent"));
    bench.press(KeyCode::Enter);
    assert!(bench.sent().is_empty(), "Cancel has the focus");
    bench.keys("Hy");
    assert_eq!(bench.sent(), [Command::StopLoadTest(TEA), Command::PauseSale(TEA)]);
    // A rush without a launch is stopped in the same way.
    let mut bench = Bench::new(rushing());
    bench.keys("Hy");
    assert_eq!(
        bench.sent(),
        [VoucherId(7)]
            .map(Command::StopLoadTest)
            .into_iter()
            .chain([Command::PauseSale(VoucherId(7))])
            .collect::<Vec<_>>()
    );
}

#[test]
fn one_launch_runs_at_a_time_and_none_in_read_only_mode() {
    let mut bench = armed();
    bench.keys("L");
    assert!(bench.app.dialog.is_none());
    assert_eq!(bench.said(), "a launch is scheduled; press H to cancel it first");
    bench.keys("q");
    assert!(bench.text(120, 36).contains("Quit while a launch is scheduled?"));
    let mut bench = Bench::new(read_only());
    for key in ["L", "F", "H", "t", "L"] {
        bench.keys(key);
        assert!(bench.app.dialog.is_none(), "{key}");
    }
    assert!(bench.sent().is_empty());
}

#[test]
fn errors_are_below_their_field() {
    let sales = normal().sales;
    let place = |values: [&str; 5]| {
        let mut form = Form::launch(None, &sales);
        for (field, value) in form.fields.iter_mut().zip(values) {
            field.input = value.into();
        }
        form.submit(&sales, NOW);
        form.fields.iter().position(|field| field.fault.is_some())
    };
    assert_eq!(place(["#9", "", "500", "10", "10"]), None);
    assert_eq!(
        place(["9", "", "500", "0", "3600"]),
        Some(4),
        "the sale starts by itself in an hour"
    );
    assert_eq!(place(["soup", "1,000", "500", "0", "1"]), None);
    assert_eq!(place(["", "5", "500", "10", "10"]), Some(0));
    assert_eq!(place(["#7", "", "500", "10", "10"]), Some(0), "it runs already");
    assert_eq!(place(["#4", "", "500", "10", "10"]), Some(0));
    assert_eq!(place(["#9", "5", "500", "10", "10"]), Some(1));
    assert_eq!(place(["soup", "", "500", "10", "10"]), Some(1));
    assert_eq!(place(["soup", "0", "500", "10", "10"]), Some(1));
    assert_eq!(place(["#9", "", "0", "10", "10"]), Some(2));
    assert_eq!(place(["#9", "", "500", "", "10"]), Some(3));
    assert_eq!(place(["#9", "", "500", "10", "0"]), Some(4));
}

#[test]
fn the_form_names_the_sale_that_its_number_means() {
    let mut bench = Bench::new(normal());
    bench.keys("2jjL");
    let text = bench.text(80, 24);
    assert!(text.contains("#9") && text.contains("cinema ticket, 2,000 pieces"), "{text}");
    bench.keys("9");
    assert!(!bench.text(80, 24).contains("cinema ticket, "), "99 is none");
    bench.press(KeyCode::Backspace);
    assert!(bench.text(80, 24).contains("cinema ticket, "));
    for _ in 0..2 {
        bench.press(KeyCode::Backspace);
    }
    assert!(bench.text(80, 24).contains("ID of a planned sale"));
    bench.keys("9");
    assert!(bench.text(80, 24).contains("cinema ticket, "), "without its sign as well");
}

#[test]
fn input_is_restored_after_cancelling() {
    let mut bench = soup_asked();
    bench.press(KeyCode::Esc);
    bench.keys("L");
    let text = bench.text(120, 36);
    assert!(text.contains("hot soup") && text.contains("500"), "{text}");
    bench.press(KeyCode::Esc);
    assert_eq!(bench.said(), "nothing was changed; the form keeps your input");
    bench.keys("L");
    for _ in 0..4 {
        bench.press(KeyCode::Tab);
    }
    bench.press(KeyCode::Enter);
    bench.keys("yHyL");
    assert!(!bench.text(120, 36).contains("hot soup"), "what is armed is not asked for again");
}

#[test]
fn forms_and_questions() {
    for lang in ["en", "zh"] {
        set_thread_language(lang);
        let tail = if lang == "zh" { "_zh" } else { "" };
        for (width, height) in [(120, 36), (80, 24)] {
            let shot = |name: &str, bench: &mut Bench| {
                let name = format!("launch_{name}{tail}_{width}x{height}");
                super::screens::assert_screen(&name, &bench.text(width, height));
            };
            let mut bench = Bench::new(normal());
            bench.keys("2jjL");
            shot("form", &mut bench);
            let mut bench = Bench::new(normal());
            asked(&mut bench);
            shot("confirm_arm", &mut bench);
            let mut bench = armed();
            later(&mut bench, 2_000);
            shot("armed", &mut bench);
            bench.keys("F");
            shot("confirm_fire", &mut bench);
            let mut bench = armed();
            bench.keys("H");
            shot("confirm_disarm", &mut bench);
            let mut bench = Bench::new(rushing());
            bench.keys("H");
            shot("confirm_abort", &mut bench);
        }
    }
}

fn rushed_twice() -> Snapshot {
    let rush = |id| LoadTestLine { voucher_id: VoucherId(id), sent: 1_000, planned: 2_000 };
    Snapshot { load_tests: vec![rush(8), rush(7)], ..normal() }
}

#[test]
fn a_stop_targets_the_load_test_of_the_selected_sale() {
    let mut bench = Bench::new(rushed_twice());
    bench.keys("2jk");
    assert_eq!(bench.app.sales.chosen, Some(VoucherId(7)));
    bench.keys("Hy");
    assert_eq!(
        bench.sent(),
        [Command::StopLoadTest(VoucherId(7)), Command::PauseSale(VoucherId(7))],
        "{}",
        bench.text(120, 36)
    );
    // The presenter layout shows one.
    let mut bench = Bench::new(rushed_twice());
    bench.keys("tHy");
    assert_eq!(bench.sent().first(), Some(&Command::StopLoadTest(VoucherId(7))));
    // Two, neither of them chosen.
    let mut bench = Bench::new(rushed_twice());
    bench.keys("H");
    assert!(bench.app.dialog.is_none(), "{}", bench.text(120, 36));
    assert!(
        bench.said().ends_with("select a sale with ↑ and ↓, then press H again"),
        "{}",
        bench.said()
    );
    bench.keys("jHy");
    assert_eq!(bench.sent().first(), Some(&Command::StopLoadTest(VoucherId(8))));
    let mut bench = Bench::new(rushed_twice());
    bench.keys("2jjH");
    assert!(bench.app.dialog.is_none(), "#9 is not rushed");
}

#[test]
fn a_changed_stock_is_reported() {
    let mut bench = armed();
    bench.keys("F");
    let mut snapshot = normal();
    snapshot.sales[2].initial += 1;
    bench.show(snapshot);
    assert!(bench.app.dialog.is_none(), "nothing is left to be fired");
    let text = bench.text(160, 36);
    assert!(text.contains("the stock changed from 2,000 to 2,001"), "{text}");
}

#[test]
fn a_launch_that_is_withdrawn_holds_its_sale_for_the_reason_that_was_given() {
    let mut bench = Bench::new(normal());
    asked(&mut bench);
    bench.press(KeyCode::Tab);
    bench.keys("drill");
    bench.press(KeyCode::Enter);
    bench.keys("y");
    later(&mut bench, 10_000);
    bench.sent();
    assert_eq!(bench.reason().as_deref(), Some("drill"));
    bench.keys("Hy");
    bench.answer(Ok(opened(SaleState::Running)));
    assert_eq!(bench.sent(), [Command::PauseSale(TEA)]);
    assert_eq!(bench.reason().as_deref(), Some("drill"));
}
