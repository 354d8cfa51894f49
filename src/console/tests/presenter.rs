//! The presenter layout: its states, its keys, and that no figure moves.

use super::{director, prelude::*};

/// Opens in five seconds.
pub(super) fn before() -> Snapshot {
    let mut planned = sale(7, "hot pot 50% off", Phase::Planned, 8_000, 8_000);
    planned.begin = Some(NOW.plus(5_000));
    Snapshot { sales: vec![planned], ..empty() }
}

/// Opens in an hour.
fn planned() -> Snapshot {
    with(before(), |it| it.sales[0].begin = Some(NOW.plus(3_600_000)))
}

pub(super) fn running() -> Snapshot {
    let sales = vec![sale(7, "hot pot 50% off", Phase::Running, 8_000, 3_120)];
    let running = Snapshot { sales, alarms: Vec::new(), ..normal() };
    // No node is dead.
    with(running, |it| it.stream.iter_mut().for_each(|it| it.consumers.retain(|it| it.alive)))
}

pub(super) fn sold_out() -> Snapshot {
    let mut sold = sale(7, "hot pot 50% off", Phase::SoldOut, 8_000, 0);
    sold.persisted = 8_000;
    Snapshot { sales: vec![sold], taken: NOW, ..empty() }
}

pub(super) fn away() -> Snapshot {
    let sales = running().sales;
    Snapshot { sales, ..outage() }
}

pub(super) fn unknown() -> Snapshot {
    let mut snapshot = running();
    (snapshot.sales[0].stock, snapshot.sales[0].admitted) = (None, None);
    snapshot.audit = Balance::Unknown;
    snapshot
}

/// A sale that was seen from its start to its last piece.
pub(super) fn sold_out_in_12_seconds() -> Tui {
    let mut tui = Tui::open(before(), "t");
    for (snapshot, millis) in [(running(), 3_000), (sold_out(), 12_300), (sold_out(), 99_000)] {
        tui.show(Snapshot { taken: NOW.plus(millis), ..snapshot });
    }
    tui
}

/// Paused 12 seconds ago, while Redis was unreachable.
pub(super) fn frozen() -> Tui {
    let mut tui = Tui::open(away(), "tf");
    tui.show(sold_out());
    tui.app.display.now = NOW.plus(12_000);
    tui.app.status.key_pressed();
    tui
}

pub(super) fn with_alarm() -> Snapshot {
    Snapshot { sales: running().sales, ..normal() }
}

/// With a guide.
pub(super) fn guided(snapshot: Snapshot, keys: &str) -> Tui {
    let mut tui = Tui::new(snapshot);
    tui.app.on_guide(guide());
    tui.press(keys);
    tui
}

/// The countdown of a launch of the planned sale.
pub(super) fn armed() -> Tui {
    let mut tui = director::armed();
    tui.press("t");
    tui.app.display.now = NOW.plus(1_500);
    tui.app.status.key_pressed();
    tui
}

fn guide() -> GuidePage {
    GuidePage { title: "NODE FAILURE".to_owned(), text: "node-b died holding 128 orders: admitted, but not in SQL. Press 4 to list them, A to plan the recovery, y to apply it.".to_owned(), key: Some("4  A  y".to_owned()), ..GuidePage::default() }
}

#[test]
fn the_summary_stays_until_a_key_that_does_nothing_else() {
    let figures = ["admitted", "persisted"].map(|label| (label.to_owned(), "8,128".to_owned()));
    let summary =
        GuidePage { summary: figures.to_vec(), next: "try 'seckill drill'".to_owned(), ..guide() };
    let opened = |keys| {
        let mut tui = Tui::open(running(), keys);
        tui.app.on_guide(summary.clone());
        tui
    };
    assert_eq!(opened("2").press("q").app.terminal.course, crate::app::Course::Quit);
    for keys in ["2", "t", "2E"] {
        let mut tui = opened(keys);
        for size in SIZES {
            tui.at(size).assert_shows("any key closes|admitted|persisted|8,128|'seckill drill'");
            let screen = tui.screen();
            let rows = screen.lines().skip_while(|line| !line.contains("'seckill drill'"));
            let rows = rows.take_while(|line| !line.contains("any key closes")).count();
            assert!(rows == 2 || size.1 <= 15, "one blank row:\n{screen}");
        }
        let before = (tui.app.view, tui.app.dialog.is_some());
        tui.press("y").assert_hides("any key closes");
        assert_eq!((tui.app.view, tui.app.dialog.is_some()), before);
        assert_eq!(tui.sent(), []);
    }
}

#[test]
fn a_question_names_the_sale() {
    let rushed = Snapshot { load_tests: vec![load_test(7, 52_000, 110_000)], ..running() };
    for (keys, snapshot) in [("tH", rushed), ("tL\t\t\t\t\n", planned())] {
        let mut tui = Tui::open(snapshot, keys);
        for size in SIZES {
            tui.at(size).assert_shows("Cancel|hot pot 50% off");
        }
    }
}

#[test]
fn only_keys_that_do_something_are_offered() {
    let offered = |tui: &mut Tui| {
        let text = tui.screen();
        ["L schedule", "F launch", "H stop"].map(|key| text.lines().last().unwrap().contains(key))
    };
    let mut tui = Tui::open(running(), "t");
    assert_eq!(offered(&mut tui), [true, false, false], "nothing is armed");
    tui.show(Snapshot { load_tests: vec![load_test(7, 1, 2)], ..running() });
    assert_eq!(offered(&mut tui), [true, false, true], "a rush can be halted");
    let mut tui = Tui::open(planned(), "tL\t\t\t\t\ny");
    assert_eq!(offered(&mut tui), [true, true, true], "a launch is scheduled");
    let mut tui = Tui::open(Snapshot { read_only: true, ..running() }, "t");
    assert_eq!(offered(&mut tui), [false; 3], "commands are disabled");
}

#[test]
fn the_load_test_message_ends_after_a_while() {
    let mut tui = Tui::open(running(), "t");
    tui.app.send(Command::LoadTest(LoadTest::new(VoucherId(7), 20_000)), None);
    tui.assert_shows("20,000 buyers are sending requests");
    tui.show(sold_out()).assert_shows("20,000 buyers are sending requests");
    tui.app.display.now = tui.app.display.now.plus(10_000);
    tui.app.on_tick();
    tui.assert_hides("sending requests");
}

#[test]
fn no_id_and_no_user_is_shown() {
    let snapshots = [before(), running(), sold_out(), away(), normal(), read_only()];
    let consoles = snapshots.map(|snapshot| Tui::open(snapshot, "t"));
    for mut tui in consoles.into_iter().chain([armed()]) {
        for size in SIZES {
            tui.at(size).assert_hides("#|user|node-");
        }
    }
}

#[test]
fn keys_toggle_presenter_mode() {
    let mut tui = Tui::open(normal(), "4");
    let steps = [("t", true), ("t", false), ("t", true), ("\x1b", false), (":pres\n", true)];
    for (keys, is_on) in steps {
        assert_eq!(tui.press(keys).app.presenter.on, is_on, "{keys}");
        assert_eq!(tui.app.view, View::Pending);
    }
    let first = tui.app.presented();
    assert_ne!(tui.press("j").app.presented(), first);
    tui.press(":").assert_shows("schedule launch");
}

#[test]
fn a_key_of_the_views_does_not_end_a_demo() {
    let expected =
        [" works in the views; press t to leave presenter mode", " 用于普通视图，按 t 退出演示"];
    for (_, expected) in languages().zip(expected) {
        let mut tui = Tui::open(normal(), "4t");
        for key in ["1", "2", "3", "5", "6", "7", "8", "0", "D", "x"] {
            tui.press(key);
            assert!(tui.app.presenter.on && tui.app.dialog.is_none(), "{key}");
            assert_eq!(tui.status(), format!("{key}{expected}"));
        }
        assert!(tui.press("\t").app.presenter.on, "{}", tui.status());
        assert_eq!((tui.app.view, tui.sent()), (View::Pending, vec![]));
        assert_eq!(tui.press("t2").app.view, View::Sales);
    }
}

#[test]
fn the_keys_of_a_guide_leave_the_layout() {
    let mut tui = Tui::new(running());
    let mut ends = |keys: &str, page: GuidePage, end: &str| {
        tui.app.on_guide(page);
        let line = tui.press(keys).at((80, 24)).line("NODE FAILURE");
        assert!(line.ends_with(end), "{line}");
    };
    let of_views = || GuidePage { key: Some("5  *  D".to_owned()), ..guide() };
    ends("", of_views(), "  5  *  D");
    ends("t", of_views(), "  t  5  *  D");
    ends("", guide(), "  4  A  y");
    ends("", GuidePage { key: Some("q".to_owned()), ..guide() }, "  q");
}

/// A sold-out sale, with entries that a dead node and a recovery hold.
fn held([by_dead, by_recovery]: [u64; 2], audit: Balance) -> Snapshot {
    let holders = [("node-b/1", false, by_dead), ("node-a/replay", true, by_recovery)];
    with(sold_out(), |it| {
        it.audit = audit;
        for sale in &mut it.sales {
            sale.persisted = sale.admitted.unwrap_or(0) - by_dead - by_recovery;
        }
        let consumers = holders.map(|(name, alive, held)| stream::consumer(name, alive, held));
        it.stream.iter_mut().for_each(|stream| stream.consumers = consumers.to_vec());
    })
}

#[test]
fn the_main_figure_follows_a_recovery_to_its_proof() {
    let open = |orders| Balance::InFlight { orders };
    let passed = || Balance::Balanced { by_id: true };
    let proof = "audit passed: 128 stranded orders accounted for";
    let mut tui = Tui::open(sold_out(), "t");
    tui.assert_shows("sold of 8,000").assert_hides("stranded");
    for size in SIZES {
        tui.at(size);
        for counts in [[128, 0], [40, 88], [0, 40], [0, 0]] {
            tui.show(held(counts, open(128))).assert_shows("stranded").assert_hides("sold of");
        }
        tui.show(held([0, 0], passed())).assert_shows(proof);
        // A false proof is never shown.
        tui.show(held([0, 0], Balance::Unknown)).assert_hides(proof);
        tui.show(held([0, 0], passed())).assert_shows(proof);
    }
    // The next buyers begin another act.
    tui.show(running()).show(sold_out()).assert_shows("sold of 8,000").assert_hides(proof);
    tui.show(held([1, 0], open(1))).show(before()).assert_shows("until the sale opens");
}

#[test]
fn entries_are_recovered_in_presenter_mode() {
    let mut tui = Tui::open(with_alarm(), "t");
    tui.assert_shows("orders held by a dead node; A to recover");
    assert_eq!(tui.press("A").sent(), [Command::Plan(Scope::All(Filter::default()))]);
    tui.answer(Ok(Reply::Planned(stuck(86)))).assert_shows("86 entries");
    assert_eq!(tui.press("y").sent(), [Command::Apply(stuck(86), Pace::default())]);
    assert!(tui.app.presenter.on);
    assert_eq!(tui.press("4").app.view, View::Pending);
    let none = "there are no pending entries to plan for";
    Tui::open(sold_out(), "tA").assert_status(none).assert_idle();
}

/// With these figures: buyers per second, orders written, and orders in flight, or an audit that passed.
fn counting((rate, persisted, in_flight): (u64, u64, u64)) -> Snapshot {
    with(running(), |it| {
        it.sales[0].funnel.attempts.per_second = rate as f64;
        it.sales[0].persisted = persisted;
        it.audit = match in_flight {
            0 => Balance::Balanced { by_id: true },
            orders => Balance::InFlight { orders },
        };
    })
}

#[test]
fn nothing_moves_while_figures_grow_and_when_a_result_appears() {
    let figures = [(3, 1, 7), (9_876, 4_860, 1_332), (10_987, 7_999, 12_345), (640, 640, 0)];
    let long = "20,000 buyers came to the sale, 8,000 of them got a piece, and all others were \
                shown at once that it is sold out; ";
    for size in SIZES {
        let mut tui = Tui::open(running(), "t");
        tui.at(size);
        let screens = figures.map(|it| tui.show(counting(it)).screen());
        assert_steady(&screens, &["buyers/s", "persisted", "in flight"]);
        assert!(!screens[3].contains("audit passed"), "orders come: {}", screens[3]);
        for alarms in [Vec::new(), normal().alarms] {
            let mut tui = Tui::open(Snapshot { alarms, ..running() }, "t");
            tui.at(size);
            let before = inner(&tui.screen(), 0, 5);
            tui.app.status.failure(long.repeat(2));
            assert_eq!(inner(&tui.assert_shows("20,000 buyers came").screen(), 0, 5), before);
        }
    }
    let large = counting((640, 640, 1_234_567));
    Tui::open(large, "t").at((120, 36)).assert_shows("1,234,567");
    // Once no more orders arrive, the audit is shown.
    let still = with(counting((0, 640, 0)), |it| {
        (it.funnel, it.written.per_second) = (Funnel::default(), 0.0);
    });
    Tui::open(still, "t").assert_shows("audit passed|in flight");
}

#[test]
fn figures_and_labels_end_below_each_other() {
    let mut tui = Tui::open(counting((3, 0, 3)), "t");
    for (width, height) in &SIZES[..3] {
        let text = tui.screen_at(*width, *height);
        let lines: Vec<Vec<char>> = text.lines().map(|line| line.chars().collect()).collect();
        for label in ["buyers/s", "persisted", "in flight"] {
            let row = text.lines().position(|line| line.contains(label)).unwrap();
            let (before, _) = text.lines().nth(row).unwrap().split_once(label).unwrap();
            let end = before.chars().count() + label.len();
            let [last, next] = [end - 1, end].map(|at| lines[row - 1].get(at));
            assert!(last.is_some_and(|c| *c != ' ') && next.is_none_or(|c| *c == ' '), "{text}");
        }
    }
}
