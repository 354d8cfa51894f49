//! Snapshots: each view in each state that looks different, each detail, and each dialog.
//!
//! A wide and a narrow window are in files of their own; the smallest window and the dialogs are
//! collected under headings. Chinese is pictured where the width of its characters matters.

use super::{prelude::*, presenter, truth};

/// What a snapshot shows: its name, the state of the engine, and the keys that lead there.
pub(super) type Case = (&'static str, fn() -> Snapshot, &'static str);
type Size = (u16, u16);
type Opened = fn() -> Tui;

const WIDE: Size = (120, 36);
const NARROW: Size = (80, 24);
const SMALLEST: Size = (60, 15);

/// Each view, while a sale is active, with more rows than fit, and while a server is unreachable.
pub(super) const VIEWS: [Case; 32] = [
    ("overview_normal", normal, "1"),
    ("overview_overflowing", overflowing, "1"),
    ("overview_outage", outage, "1"),
    ("overview_load_test", extreme, "1"),
    ("sales_normal", normal, "2"),
    ("sales_overflowing", overflowing, "2"),
    ("sales_outage", outage, "2"),
    ("stream_normal", with_stream, "3"),
    ("stream_overflowing", || stream::partitioned(true), "3"),
    ("stream_outage", || Snapshot { entries: with_stream().entries, ..outage() }, "3"),
    ("pending_normal", normal, "4"),
    ("pending_overflowing", overflowing, "4"),
    ("pending_outage", outage, "4"),
    ("letters_normal", with_letters, "5"),
    ("letters_overflowing", overflowing, "5"),
    ("letters_outage", || without_sql(with_letters()), "5"),
    ("locks_normal", normal, "6"),
    ("locks_overflowing", overflowing, "6"),
    ("locks_outage", outage, "6"),
    ("orders_normal", with_orders, "7"),
    ("orders_overflowing", orders::crowded, "7"),
    ("orders_outage", || without_sql(with_orders()), "7"),
    ("jobs_normal", normal, "8"),
    ("jobs_overflowing", overflowing, "8"),
    ("jobs_outage", outage, "8"),
    ("ledger_normal", with_findings, "9"),
    ("activity_normal", with_log, "0"),
    ("activity_overflowing", history::crowded, "0"),
    ("activity_outage", outage, "0"),
    ("http_normal", normal, "s"),
    ("http_overflowing", overflowing, "s"),
    ("lab_normal", normal, "e"),
];

/// Each view before the first sale.
const EMPTY: [Case; 10] = [
    ("overview", empty, "1"),
    ("sales", empty, "2"),
    ("stream", stream::nothing, "3"),
    ("pending", empty, "4"),
    ("letters", || Snapshot { letters: letters::letters(0, 0, false), ..empty() }, "5"),
    ("locks", empty, "6"),
    ("orders", orders::none, "7"),
    ("jobs", empty, "8"),
    ("activity", empty, "0"),
    ("http", empty, "s"),
];

/// The detail of a row of each view, and what else is drawn beside a list.
pub(super) const DETAILS: [Case; 12] = [
    ("sales_detail", normal, "2jkl"),
    ("stream_detail", with_stream, "3kkkkkkl"),
    ("stream_consumers", with_stream, "3cj"),
    ("stream_held", with_stream, "3kkk/node-b\n"),
    ("pending_detail", normal, "4 l"),
    ("letters_detail", with_letters, "5l"),
    ("locks_detail", normal, "6jl"),
    ("orders_detail", with_orders, "7jjjl"),
    ("jobs_detail", normal, "8l"),
    ("ledger_detail", with_findings, "9jl"),
    ("activity_detail", with_log, "0kl"),
    ("http_detail", normal, "sl"),
];

/// States of a part of a view, in the narrow window only.
const STATES: [Case; 8] = [
    ("overview_locked", || truth::locked(normal()), "1"),
    ("stream_unread", outage, "3"),
    ("stream_no_group", stream::without_group, "3"),
    ("letters_unread", letters::unread, "5"),
    ("letters_replay", letters::replay_running, "5"),
    ("orders_unread", orders::unread, "7"),
    ("letters_detail_came_back", with_letters, "5jl"),
    ("orders_typing", with_orders, "7/user=12 stat"),
];

pub(super) const CONFIRMATIONS: [Case; 29] = [
    ("sales create", normal, "N火锅五折 🍲\t10000\t\t+10m\t+1h\t\n"),
    ("sales start", normal, "2jjS"),
    ("sales pause", normal, "2jkP"),
    ("sales resume", || with(normal(), |it| it.sales[0].phase = Phase::Paused), "2jkP"),
    ("sales end", normal, "2jkE"),
    ("sales load_test", normal, "2jkR\n\n\n"),
    ("sales restock", normal, "2jkK-200\n"),
    ("sales stop_load_test", with_load_test, "H"),
    ("sales quit", with_load_test, "q"),
    ("launch schedule", normal, "2jjL\t\t\t\t\n"),
    ("launch fire", normal, "2jjL\t\t\t\t\nyF"),
    ("launch cancel", normal, "2jjL\t\t\t\t\nyH"),
    ("pending marked", normal, "4  A"),
    ("pending all", normal, "4A"),
    ("pending cancel", letters::replay_running, "4X"),
    ("letters replay", with_letters, "5*R"),
    ("letters discard", with_letters, "5*D"),
    ("letters return_stock", with_letters, "5*C"),
    ("letters discard_marked", with_letters, "5  D"),
    ("letters reason", with_letters, "5*D\tpoison of last night, 运维 says so"),
    ("stream rewind", with_stream, "3W-10m\n"),
    ("stream claim", with_stream, "3cC\n"),
    ("stream remove_consumer", with_stream, "3cjjD"),
    ("locks_and_jobs release", normal, "6jX"),
    ("locks_and_jobs run", normal, "8T"),
    ("locks_and_jobs pause", normal, "8P"),
    ("locks_and_jobs resume", normal, "8jP"),
    ("orders_and_ledger pay", with_orders, "7P"),
    ("orders_and_ledger repair", with_findings, "9A"),
];

pub(super) const FORMS: [Case; 9] = [
    ("sale", normal, "N"),
    ("sale_rejected", normal, "N火锅五折 🍲\t0\t\t\t\t\n"),
    ("load_test", normal, "2jkR"),
    ("load_test_rejected", normal, "2jkRten"),
    ("launch", normal, "2jjL"),
    ("rewind", with_stream, "3W"),
    ("rewind_rejected", with_stream, "3W\n"),
    ("claim", with_stream, "3cC"),
    ("lab_work", normal, "ec"),
];

/// Every view, detail, confirmation and form.
pub(super) fn every_screen() -> impl Iterator<Item = Case> {
    VIEWS.into_iter().chain(DETAILS).chain(CONFIRMATIONS).chain(FORMS)
}

pub(super) fn assert_screen(name: &str, text: &str) {
    insta::with_settings!({
        snapshot_path => "../snapshots",
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, { insta::assert_snapshot!(name, text) });
}

/// A console after these keys, with the replies of the engine that they need.
pub(super) fn opened(snapshot: Snapshot, keys: &str) -> Tui {
    let mut tui = Tui::new(snapshot);
    open(&mut tui, keys);
    tui
}

pub(super) fn open(tui: &mut Tui, keys: &str) {
    open_while(tui, keys, |_| ());
}

/// As `open`, with something that happens before each reply.
pub(super) fn open_while(tui: &mut Tui, keys: &str, meanwhile: impl Fn(&mut Tui)) {
    for key in keys.chars() {
        tui.press(&key.to_string());
        let reply = match tui.sent().as_slice() {
            [Command::Plan(scope)] => Reply::Planned(plan_of(scope)),
            [Command::CountLetters(_)] => Reply::LettersCounted(letters::letters_counted()),
            [Command::Preview(action)] => Reply::Previewed(match action {
                GroupAction::Rewind { .. } => Preview::Rewind(vec![stream::rewound()]),
                GroupAction::Claim { .. } => Preview::Claim(stream::given()),
                GroupAction::Remove { .. } => Preview::Remove(stream::removed()),
            }),
            [Command::Trace(order)] => Reply::Traced(Box::new(orders::trace(*order))),
            _ => continue,
        };
        meanwhile(tui);
        tui.answer(Ok(reply));
    }
}

/// A plan of two marked entries, or of a whole list with something of each kind.
pub(super) fn plan_of(scope: &Scope) -> Plan {
    let verdict = |number: u64| match (scope, number % 40) {
        (Scope::Entries(_), _) => Verdict::Stuck,
        (_, 3) => Verdict::Malformed,
        (_, 9) => Verdict::BodyGone,
        (_, 10..15) => Verdict::InHand,
        (_, 20..25) => Verdict::Written,
        _ => Verdict::Stuck,
    };
    let (count, filter) = match scope {
        Scope::Entries(_) => (2, "2 entries by name"),
        Scope::All(_) => (128, ""),
    };
    let entries: Vec<_> = (0..count).map(|number| (entry(number), verdict(number))).collect();
    plan(&entries, filter)
}

/// The open dialog without the view around it.
fn dialog(tui: &mut Tui, (width, height): Size) -> String {
    let buffer = tui.draw(width, height);
    let corner = |symbol: &str| {
        let at = buffer.content.iter().position(|cell| cell.symbol() == symbol);
        buffer.pos_of(at.expect("an open dialog"))
    };
    let ((left, top), (right, bottom)) = (corner("╭"), corner("╯"));
    lines(&buffer, Rect::new(left, top, right - left + 1, bottom - top + 1))
}

pub(super) fn assert_screens(name: &str, screens: impl IntoIterator<Item = (String, String)>) {
    let sections = screens.into_iter().map(|(heading, text)| format!("== {heading}\n{text}\n"));
    assert_screen(name, &sections.collect::<Vec<_>>().join("\n"));
}

fn assert_sizes(name: &str, tui: &mut Tui, sizes: &[Size]) {
    for &(width, height) in sizes {
        assert_screen(&format!("{name}_{width}x{height}"), &tui.screen_at(width, height));
    }
}

#[test]
fn every_view_detail_and_state() {
    // A wide window shows an outage as a narrow one does.
    let sizes =
        |name: &str| if name.ends_with("_outage") { &[NARROW] } else { &[WIDE, NARROW][..] };
    let both = VIEWS.iter().chain(&DETAILS).map(|case| (case, sizes(case.0)));
    for ((name, snapshot, keys), sizes) in both.chain(STATES.iter().map(|it| (it, &[NARROW][..]))) {
        assert_sizes(name, &mut opened(snapshot(), keys), sizes);
    }
}

#[test]
fn every_view_without_data() {
    assert_screens(
        "empty_80x24",
        EMPTY.map(|(name, snapshot, keys)| {
            let text = opened(snapshot(), keys).screen_at(NARROW.0, NARROW.1);
            let rows: Vec<&str> = text.lines().skip(3).filter(|line| !line.is_empty()).collect();
            (name.to_owned(), rows.join("\n"))
        }),
    );
}

/// The views and details of a key in the smallest window.
#[test]
fn the_smallest_window() {
    for key in view_keys() {
        let cases =
            VIEWS.iter().chain(&STATES).chain(&DETAILS).filter(|(.., keys)| keys.starts_with(key));
        let screens: Vec<_> = cases
            .map(|(name, snapshot, keys)| {
                let text = opened(snapshot(), keys).screen_at(SMALLEST.0, SMALLEST.1);
                ((*name).to_owned(), text)
            })
            .collect();
        let view = screens[0].0.split('_').next().unwrap_or_default().to_owned();
        assert_screens(&format!("{view}_60x15"), screens);
    }
}

#[test]
fn confirmations_and_forms() {
    let about = |case: &Case| case.0.split(' ').next().unwrap_or_default();
    let groups = CONFIRMATIONS.chunk_by(|one, two| about(one) == about(two));
    let groups = groups.map(|cases| (format!("confirm_{}", about(&cases[0])), cases));
    for (group, cases) in groups.chain([("forms".to_owned(), &FORMS[..])]) {
        for size in [WIDE, SMALLEST] {
            let screens = cases.iter().map(|(name, snapshot, keys)| {
                let name = name.split(' ').next_back().unwrap_or_default();
                (name.to_owned(), dialog(&mut opened(snapshot(), keys), size))
            });
            assert_screens(&format!("{group}_{}x{}", size.0, size.1), screens);
        }
    }
}

#[test]
fn the_export_menu() {
    let menus: [Case; 3] =
        [("table", normal, "4x"), ("no_table", normal, "1x"), ("empty", empty, "4x")];
    let screens = menus.map(|(name, snapshot, keys)| {
        let mut tui = opened(snapshot(), keys);
        tui.app.terminal.export_dir =
            Some(PathBuf::from("/var/tmp/a/rather/long/way/to/the/last/directory"));
        (name.to_owned(), dialog(&mut tui, NARROW))
    });
    assert_screens("export_menu", screens);
}

/// A console that draws no other signs than those of ASCII, and no colours.
fn plain(snapshot: Snapshot, keys: &str) -> Tui {
    let mut tui = Tui::themed(snapshot, Theme::new(Depth::None, true));
    tui.press(keys);
    tui
}

/// A console in Chinese, whose characters are wide.
fn chinese(snapshot: Snapshot, keys: &str) -> Tui {
    set_thread_language("zh");
    opened(snapshot, keys)
}

fn frozen() -> Tui {
    let mut tui = opened(with_load_test(), "f");
    tui.show(empty()).app.display.now = NOW.plus(12_000);
    tui
}

#[test]
fn other_states_of_the_console() {
    let cases: [(&str, Opened, &[Size]); 16] = [
        ("help", || opened(normal(), "?"), &[WIDE, NARROW]),
        ("palette", || opened(normal(), ":"), &[WIDE, NARROW]),
        ("orders_elsewhere", orders::elsewhere, &[WIDE, NARROW]),
        ("overview_moment", || opened(normal(), "<<<"), &[WIDE, NARROW]),
        ("overview_moment_outage", || opened(normal(), "[[[[["), &[WIDE]),
        ("overview", || opened(normal(), "1"), &[(200, 50)]),
        ("sales_detail", || opened(normal(), "2jkl"), &[(200, 50)]),
        ("overview_frozen", frozen, &[WIDE]),
        ("guide", || presenter::guided(normal(), ""), &[NARROW]),
        ("overview_ascii", || plain(normal(), ""), &[WIDE]),
        ("presenter_ascii", || plain(presenter::running(), "t"), &[NARROW]),
        ("presenter_running", || opened(presenter::running(), "t"), &[(200, 50)]),
        ("too_small", || Tui::new(normal()), &[(20, 5)]),
        ("overview_zh", || chinese(normal(), "1"), &[NARROW]),
        ("letters_detail_zh", || chinese(with_letters(), "5jl"), &[NARROW]),
        ("presenter_zh", || chinese(presenter::running(), "t"), &[NARROW]),
    ];
    for (name, tui, sizes) in cases {
        assert_sizes(name, &mut tui(), sizes);
    }
}

const PRESENTER: [(&str, Opened); 9] = [
    ("empty", || opened(empty(), "t")),
    ("before", || opened(presenter::before(), "t")),
    ("running", || opened(presenter::running(), "t")),
    ("result", presenter::sold_out_in_12_seconds),
    ("outage", || opened(presenter::away(), "t")),
    ("unknown", || opened(presenter::unknown(), "t")),
    ("frozen", presenter::frozen),
    ("guide", || presenter::guided(presenter::with_alarm(), "t")),
    ("armed", presenter::armed),
];

#[test]
fn the_presenter_layout() {
    // Without a sale the window is almost blank.
    for (name, tui) in &PRESENTER[1..] {
        assert_sizes(&format!("presenter_{name}"), &mut tui(), &[WIDE]);
    }
    for (width, height) in [NARROW, SMALLEST] {
        let screens =
            PRESENTER.map(|(name, tui)| (name.to_owned(), tui().screen_at(width, height)));
        assert_screens(&format!("presenter_{width}x{height}"), screens);
    }
}
