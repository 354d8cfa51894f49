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
    tui.press("\tdrill\ny");
    assert!(tui.app.director.armed().is_some(), "{}", tui.status());
    tui
}

fn later(tui: &mut Tui, millis: i64) {
    tui.app.display.now = NOW.plus(millis);
    tui.app.advance_launch();
}

fn running() -> Reply {
    Reply::SaleChanged { voucher: TEA, state: SaleState::Running }
}

#[test]
fn an_armed_launch_is_in_the_top_line_of_every_view() {
    let mut tui = armed();
    later(&mut tui, 2_000);
    for view in view_keys() {
        for size in [(120, 36), (80, 24), (60, 15)] {
            let top = tui.at(size).press(view).header();
            assert!(top.contains("LAUNCH 00:08") && top.contains("#9 cin"), "{view}: {top}");
        }
    }
    assert!(tui.press("t").header().contains("LAUNCH 00:08"));
    tui.press("tf");
    later(&mut tui, 7_000);
    tui.assert_shows("LAUNCH 00:03");
    let due = tui.app.director.due(tui.app.display.now);
    assert!(due.is_some(), "a paused display stops no countdown");
}

#[test]
fn a_launch_sends_each_command_once_with_its_reason() {
    let due = |tui: &Tui| tui.app.director.due(tui.app.display.now).map(|it| it.as_millis());
    let [start, pause] = [Command::StartSale(TEA), Command::PauseSale(TEA)];
    // The buyers of the form, spread over its seconds.
    let buyers = LoadTest { rate: Some(2_200.0), ..LoadTest::new(TEA, 20_000) };
    let buyers = Command::LoadTest(buyers);
    let (start, pause, buyers) = (Some(&start), Some(&pause), Some(&buyers));
    // `@` sets the clock and lets the launch look at it, `~` only sets it, and `<` is the reply that the sale is open.
    let flows: [&[(&str, Option<&Command>)]; 8] = [
        &[("@9999", None), ("@10000", start), ("@11000", None), ("<", buyers)],
        &[("F\n", None), ("Fy", start)],
        // The countdown was faster than the answer.
        &[("F", None), ("@10000", start), ("y", None)],
        &[("F", None), ("~60000", None), ("y", start)],
        &[("@10000", start), ("Hy", None), ("<", pause)],
        &[("H", None), ("@10000", start), ("y", None), ("<", pause)],
        // The buyers arrived meanwhile: that is another question.
        &[("H", None), ("@10000", start), ("<", buyers), ("y", None)],
        &[("H\n", None), ("Hy", None), ("@60000", None)],
    ];
    for steps in flows {
        let mut tui = armed();
        assert_eq!(due(&tui), Some(1_000));
        for (step, sends) in steps {
            match step.split_at(1) {
                ("@", millis) => later(&mut tui, millis.parse().unwrap()),
                ("~", millis) => tui.app.display.now = NOW.plus(millis.parse().unwrap()),
                ("<", _) => _ = tui.answer(Ok(running())),
                _ => _ = tui.press(step),
            }
            assert_eq!(tui.sent().first(), *sends, "{step} of {steps:?}");
            let reason = tui.reason();
            assert!(sends.is_none() || reason.as_deref() == Some("drill"), "{step}: {reason:?}");
        }
    }
    let mut tui = armed();
    later(&mut tui, 9_999);
    assert_eq!(due(&tui), Some(1));
    tui.press("F\tnow\ny");
    assert_eq!((tui.sent().first(), tui.reason().as_deref()), (start, Some("now")));
    assert_eq!(due(&tui), None);
    tui.answer(Ok(running())).sent();
    let done = LoadReport { settled: true, ..LoadReport::default() };
    tui.answer(Ok(Reply::LoadTestDone(done))).assert_status_contains("✔ load test");
    assert!(tui.app.director.launch.is_none());
    // An aborted launch is reported.
    let mut tui = armed();
    tui.press("H").assert_shows("Cancel the launch?").press("y");
    tui.assert_status("✔ cancelled: #9 cinema ticket was not started, nothing was changed");
    tui.press("H").assert_status("no launch is scheduled and no load test is running");
    tui.press("F").assert_status("no launch is scheduled; press L to schedule one");
}

/// Fills in a launch of 500 pieces, up to the question.
fn soup_asked() -> Tui {
    Tui::open(normal(), "Lhot soup\t500\t\t\t\n")
}

#[test]
fn a_new_sale_is_created_only_when_the_countdown_ends() {
    let mut tui = soup_asked();
    tui.assert_shows("'hot soup' is created with 500 pieces");
    assert_eq!(tui.press("y").sent(), []);
    later(&mut tui, 10_000);
    let sent = tui.sent();
    let is_soup =
        matches!(&sent[..], [Command::CreateSale(it)] if it.title == "hot soup" && it.stock == 500);
    assert!(is_soup, "{sent:?}");
    let sent = tui.answer(Ok(Reply::SaleCreated(VoucherId(12)))).sent();
    assert!(matches!(&sent[..], [Command::LoadTest(plan)] if plan.voucher == VoucherId(12)));
}

#[test]
fn it_is_aborted_if_the_sale_has_changed_or_its_time_was_missed() {
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
            tui.at((160, 36)).press(keys).show(with(normal(), change));
            tui.assert_shows(format!("{expected}|nothing was started")).assert_idle();
            later(&mut tui, 20_000);
            tui.assert_idle();
        }
    }
    for (snapshot, millis, expected) in [
        (outage(), 10_000, "nothing was started: Redis is unreachable"),
        (normal(), 14_000, "missed the launch time by 4 s"),
    ] {
        let mut tui = armed();
        later(tui.at((160, 36)).show(snapshot), millis);
        tui.assert_shows(expected).assert_idle();
    }
}

#[test]
fn a_failure_is_shown_until_it_is_dismissed() {
    let mut tui = armed();
    later(&mut tui, 10_000);
    let error = "the database does not answer; try again";
    tui.reply(Err(EngineError::Rejected(error.into()))).assert_status_contains(error);
    assert!(tui.sent().is_empty() && tui.app.director.launch.is_none(), "it gets no buyers");
    // Nor does a launch take the failure of another command away.
    let mut tui = armed();
    tui.press("8Ty").reply(Err(EngineError::Rejected("it runs on node-b".into())));
    later(&mut tui, 10_000);
    assert_eq!(tui.sent(), [Command::StartSale(TEA)]);
    tui.press("j").assert_status_contains("it runs on node-b");
    tui.press("\x1b").assert_hides("it runs on node-b");
}

#[test]
fn one_launch_runs_at_a_time_and_none_in_read_only_mode() {
    let mut tui = armed();
    tui.press("L").assert_status("a launch is scheduled; press H to cancel it first").assert_idle();
    tui.press("q").assert_shows("Quit while a launch is scheduled?");
    let mut tui = Tui::new(read_only());
    for key in ["L", "F", "H", "t", "L"] {
        tui.press(key).assert_idle();
    }
}

#[test]
fn errors_are_below_their_field() {
    let tui = Tui::open(normal(), "");
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
        let mut form = Form::launch(None);
        for (field, value) in form.fields.iter_mut().zip(values) {
            field.input = value.into();
        }
        form.submit(&tui.app.display);
        assert_eq!(form.fault.map(|(place, _)| place), place, "{values:?}");
    }
}

#[test]
fn the_form_names_the_sale_that_its_number_means() {
    let named = "cinema ticket, 2,000 pieces";
    let mut tui = Tui::open(normal(), "2jjL");
    // There is no sale 99.
    tui.assert_shows(named).key(KeyCode::End).press("9").assert_hides(named);
    tui.press("\x08").assert_shows(named).press("\x08\x08");
    // Also without its sign.
    tui.assert_shows("ID of a planned sale").press("9").assert_shows(named);
}

#[test]
fn input_is_restored_after_cancelling() {
    let mut tui = soup_asked();
    tui.press("\x1b").assert_shows("hot soup|500");
    tui.press("\x1b").assert_status("nothing was changed; the form keeps your input");
    tui.press("L\t\t\t\t\nyHyL").assert_hides("hot soup");
}

#[test]
fn a_stop_targets_the_load_test_of_the_selected_sale() {
    let load_tests = [8, 7].map(|sale| load_test(sale, 1_000, 2_000)).to_vec();
    let two = || Snapshot { load_tests: load_tests.clone(), ..normal() };
    // The presenter layout shows one.
    for (keys, sale) in [("2jkHy", 7), ("tHy", 7), ("HjHy", 8)] {
        let sent = Tui::open(two(), keys).sent();
        assert_eq!(sent.first(), Some(&Command::StopLoadTest(VoucherId(sale))), "{keys}");
    }
    // Two, neither of them chosen.
    let mut tui = Tui::open(two(), "H");
    tui.assert_status_contains("select a sale with ↑ and ↓, then press H again").assert_idle();
    Tui::open(two(), "2jjH").assert_idle();
    // That of a launch.
    let mut tui = armed();
    later(&mut tui, 10_000);
    tui.reply(Ok(running()));
    tui.show(Snapshot { load_tests: vec![load_test(9, 1_100, 22_000)], ..normal() });
    tui.press("H").assert_shows("1,100 of 22,000 requests sent");
}
