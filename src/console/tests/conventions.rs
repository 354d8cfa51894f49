//! Features of every table: filter, order, copies, the mouse, large counts, and custom keys.

use seckill_engine::error::MAX_REASON;

use super::prelude::*;

fn keys(text: &str) -> Keys {
    toml::from_str(text).expect("keys that can be read")
}

fn fault(text: &str) -> String {
    keys(text).check().expect_err("a fault").to_string()
}

#[test]
fn esc_dismisses_a_message_before_leaving_the_view() {
    let mut tui = Tui::open(normal(), "6Z");
    tui.assert_status_contains("has no function here").press("\x1b").assert_status("");
    assert_eq!(tui.app.view, View::Locks);
    assert_eq!(tui.press("\x1b").app.view, View::Overview);
}

#[test]
fn tables_are_filtered_alike() {
    for (snapshot, view, filter, expected) in [
        (with_letters as fn() -> Snapshot, '2', "running", "1 of 4"),
        (with_letters, '2', "!running !ended", "2 of 4"),
        (with_letters, '4', "node-b !stuck", "22 of 128"),
        (with_letters, '5', "waits", "of 9"),
        (with_letters, '6', "orphan", "1 of 3"),
        (with_letters, '6', "stock !node-a", "1 of 3"),
        (with_letters, '8', "paused", "1 of 3"),
        (with_letters, '8', "!paused !done", "1 of 3"),
        (overflowing, '4', "node-a !stuck", " of 500 on this page"),
    ] {
        let mut tui = Tui::open(snapshot(), &format!("{view}/{filter}"));
        tui.assert_shows(expected);
        // A list that is loaded as a whole has no pages.
        if !expected.contains("page") {
            tui.assert_hides("on this page");
        }
        tui.press("\n\x1b").assert_hides(format!("/{filter}"));
    }
}

#[test]
fn rows_are_sorted_by_a_column_and_the_choice_stays_on_its_row() {
    let mut tui = Tui::open(normal(), "2jk");
    tui.press("o").assert_status("sorted by ID, ascending");
    let text = tui.assert_shows("ID↑").screen();
    let words = text.lines().skip(5).take(6).flat_map(str::split_whitespace);
    let ids: Vec<&str> = words.filter(|word| word.starts_with('#')).collect();
    assert_eq!(ids, ["#5", "#7", "#8", "#9"], "{text}");
    assert_eq!(tui.app.views.sales.chosen, Some(VoucherId(7)));
    tui.press("r").assert_shows("ID↓");
    // The command applies to the row that was chosen, wherever that moved.
    assert_eq!(tui.press("Ey").sent(), [Command::EndSale(VoucherId(7))]);
    tui.press("ooooooooo");
    assert!(!tui.screen().lines().nth(5).unwrap_or_default().contains(['↑', '↓']));
}

#[test]
fn paged_lists_are_not_sortable_and_explain_it() {
    let mut tui = Tui::open(overflowing(), "4");
    tui.press("o").assert_status_contains("12,340 rows are loaded in pages by ID");
    let mut tui = Tui::open(normal(), "4");
    tui.press("oo").assert_status("sorted by AGE, ascending");
    tui.show(overflowing()).assert_status_contains("more than one page of rows");
    // The page of the log is sorted, and the stream never.
    let mut tui = Tui::open(normal(), "0");
    tui.screen();
    tui.press("oo").assert_status_contains("sorted by ");
    tui.assert_shows("sorted by event within these ").press("g");
    let rows = tui.app.views.log.rows(&tui.app.display.shown);
    assert_eq!(tui.app.views.log.position(&rows), Some(0));
    tui.press("3o").assert_status("the stream is always in delivery order");
}

#[test]
fn a_copy_is_reported_and_has_no_control_characters() {
    let hostile = "a\x1b[31m\u{202e}火锅\r\n".to_owned();
    let mut tui = Tui::open(with(normal(), |it| it.sales[2].title = hostile), "2jjy");
    assert_eq!(tui.assert_status("copied: 9").copied(), "9");
    let copied = tui.press("w").copied();
    assert!(copied.contains(r#""title":"a\u001b[31m"#), "{copied:?}");
    assert!(!copied.contains(char::is_control), "{copied:?}");
    // tmux keeps copies to itself by default.
    let mut tui = Tui::new(normal());
    tui.app.terminal.in_tmux = true;
    let needs = "copied: 9; tmux forwards it only with 'set -s set-clipboard on'";
    assert_eq!(tui.press("2jjy").assert_status(needs).copied(), "9");
    tui.press("w").assert_status_contains("tmux");
}

#[test]
fn the_mouse_chooses_only_while_it_is_on() {
    const CLICK: MouseEventKind = MouseEventKind::Down(MouseButton::Left);
    let mut tui = Tui::new(normal());
    let text = tui.screen();
    let at = text.lines().nth(1).unwrap_or_default().find("Sales").unwrap();
    tui.mouse(CLICK, at as u16, 1);
    assert_eq!(tui.app.view, View::Overview, "it is off");
    tui.press("m");
    tui.mouse(CLICK, at as u16, 1);
    assert_eq!(tui.app.view, View::Sales);
    let text = tui.screen();
    let row = text.lines().position(|line| line.contains("noodles")).unwrap_or(0);
    tui.mouse(CLICK, 20, row as u16);
    assert_eq!(tui.app.views.sales.chosen, Some(VoucherId(5)));
    tui.screen();
    tui.mouse(MouseEventKind::ScrollUp, 20, 9);
    assert_eq!(tui.app.views.sales.chosen, Some(VoucherId(7)));
    // Questions are answered with keys only.
    tui.press("E");
    tui.screen();
    for y in 0..36 {
        for x in 0..120 {
            tui.mouse(CLICK, x, y);
        }
    }
    assert!(matches!(tui.app.dialog, Some(Dialog::Confirm(_))) && tui.sent().is_empty());
    // A key hint runs its action, and a row of the stock panel chooses its sale.
    let click = |tui: &mut Tui, text: &str| {
        let screen = tui.screen();
        let (row, line) = screen.lines().enumerate().find(|(_, line)| line.contains(text)).unwrap();
        let before = line.split(text).next().unwrap_or_default().chars().count();
        tui.mouse(CLICK, before as u16, row as u16);
    };
    tui.press("n1");
    click(&mut tui, "#9 cinema");
    assert_eq!(tui.app.views.sales.chosen, Some(VoucherId(9)));
    click(&mut tui, "? help");
    assert!(matches!(tui.app.dialog, Some(Dialog::Help(_))));
    // A tab opens its view also from the filter.
    tui.press("\x1b2/noo");
    click(&mut tui, "Orders");
    assert_eq!((tui.app.view, tui.app.views.filtering), (View::Orders, false));
    tui.press("2m");
    tui.mouse(CLICK, 1, 1);
    assert_eq!(tui.app.view, View::Sales);
}

#[test]
fn the_palette_runs_a_command_of_another_view_there_and_remembers_recent_ones() {
    let mut tui = Tui::open(with_letters(), "2:return stock");
    tui.assert_shows("in Dead letters").press("\n");
    assert_eq!(tui.app.view, View::Letters);
    assert!(matches!(tui.sent()[..], [Command::CountLetters(_)]), "the question follows");
    let text = tui.press("\x1b:freeze\n:").screen();
    let first = text.lines().find(|line| line.contains("recently used"));
    assert!(first.is_some_and(|line| line.contains("freeze")), "{text}");
    tui.press("\n");
    assert!(!tui.app.display.frozen);
}

#[test]
fn the_palette_goes_to_a_row_by_its_id_or_name() {
    let mut tui = Tui::open(normal(), "4/zzz\n1:noodles");
    tui.assert_shows("#5 noodles").press("\n");
    assert_eq!((tui.app.view, tui.app.views.sales.chosen), (View::Sales, Some(VoucherId(5))));
    let entry = tui.app.display.shown.pending.lines[3].entry;
    tui.press(&format!(":{entry}\n"));
    assert_eq!((tui.app.view, tui.app.views.pending.cursor), (View::Pending, Some(entry)));
    assert!(tui.app.views.pending.controls.filter.value().is_empty(), "the filter hid it");
    let consumer = tui.app.display.shown.stream.as_ref().unwrap().consumers[1].name.clone();
    tui.press(&format!(":{consumer}\n"));
    assert_eq!((tui.app.view, tui.app.views.stream.pane), (View::Stream, views::Pane::Consumers));
    let pointed = tui.app.views.stream.consumers.cursor.as_ref();
    assert_eq!(pointed.map(|(_, name)| name), Some(&consumer));
    // An order that is not loaded is searched for.
    tui.press(":1234567890123\n").assert_shows("ORDERS  1234567890123");
    assert_eq!(tui.app.view, View::Orders);
    // Rows are not listed before something is typed, nor by scattered letters.
    Tui::open(normal(), "4:").assert_hides("#5 noodles");
    Tui::open(normal(), "4:nodl").assert_hides("#5 noodles");
    // A sale is offered once, although the Ledger has it too, and lines of the log have no name.
    let mut tui = Tui::open(with_findings(), "4:5");
    tui.assert_shows("#5 noodles").assert_hides("in Ledger").assert_hides("in Activity");
}

#[test]
fn a_paste_is_truncated_with_a_notice_and_does_no_harm() {
    const CUT: &str = "the pasted text was truncated to 1,000 characters";
    for keys in ["N", ":", "2jkE\t", "2/", "3/", "4/", "5/", "6/", "7/", "8/", "0/"] {
        let mut tui = Tui::open(normal(), keys);
        // There is room for the first one, and the notice stays until the next key.
        tui.paste("锅".repeat(600));
        tui.assert_hides(CUT).paste("锅".repeat(600));
        tui.assert_shows(CUT).key(KeyCode::Backspace);
        tui.assert_hides(CUT);
    }
    // Without input nothing is truncated.
    for keys in ["2", "x", "?", "8P"] {
        let mut tui = Tui::open(normal(), keys);
        tui.paste("锅".repeat(2_000));
        tui.assert_hides(CUT);
    }
    // Filters are repeated in short.
    for (lang, view) in
        ["en", "zh"].iter().flat_map(|lang| "23456780".chars().map(|it| (*lang, it)))
    {
        set_thread_language(lang);
        let mut tui = Tui::open(normal(), &format!("{view}/"));
        tui.paste("x".repeat(1_000));
        let text = tui.press("\n").screen_at(80, 24);
        assert!(text.lines().filter(|it| it.contains("xxxxxxxx")).count() <= 2, "{view}: {text}");
    }
    // A megabyte is a valid reason, and no answer.
    for text in ["x".repeat(1 << 20), "火\n".repeat(1 << 18), "\u{301}a\x1b[2J".repeat(1 << 17)] {
        let mut tui = Tui::open(normal(), "2jkE");
        tui.paste("y");
        assert_eq!(tui.press("\t").sent(), []);
        tui.paste(text.clone());
        tui.paste(text);
        tui.press("more").draw(80, 24);
        assert_eq!(tui.press("\ny").sent().len(), 1);
        let reason = tui.reason().unwrap();
        assert!(audit_record::check_reason(Some(&reason)).is_ok());
        assert!(reason.chars().count() <= MAX_REASON);
        assert!(!reason.contains(char::is_control));
    }
}

#[test]
fn messages_are_above_the_filter_input() {
    let mut tui = Tui::open(normal(), "6/job");
    tui.paste("x".repeat(2_000));
    for (width, height) in SIZES {
        let text = tui.screen_at(width, height);
        let lines: Vec<&str> = text.lines().collect();
        let [.., message, typed, _] = &lines[..] else { panic!("{text}") };
        assert!(message.contains("the pasted text was truncated"), "{text}");
        assert!(typed.starts_with(" /") && typed.contains('x'), "{text}");
    }
}

#[test]
fn configured_keys_apply_to_dispatch_help_and_messages() {
    let chosen =
        "mark = [\"v\", \"f5\"]\nnew-sale = \"B\"\nhelp = \"f1\"\nquit = \"ctrl-q\"\nend = []";
    keymap::choose_here(keys(chosen).table().expect("a good choice"));
    let mut tui = Tui::open(normal(), "4vA");
    assert_eq!(tui.sent().len(), 1);
    tui.at((160, 80)).press("2").assert_shows("B new ");
    tui.press("E").assert_status("E has no function here; press F1 for the keys");
    tui.key(KeyCode::F(1)).assert_shows("v F5|Ctrl-Q");
    let none = Snapshot { sales: Vec::new(), ..normal() };
    Tui::open(none, "2").assert_shows("Press B to create one");
    // A confirmation names them as well.
    let configured = keys("next-part = [\"ctrl-n\"]\npress = [\"ctrl-j\"]");
    keymap::choose_here(configured.table().expect("a good choice"));
    Tui::open(normal(), "2jkE").assert_shows("optional, for the log; Ctrl-N to edit");
    let missing = text!("conventions-this-affects-type-that-number", count = 1_204);
    assert!(missing.ends_with("type that number, then press Ctrl-J"));
}

#[test]
fn invalid_keys_are_reported_one_by_one() {
    let cases = [
        ("fly = \"a\"", "unknown action 'fly'"),
        ("mark = \"hyper-x\"", "'mark': 'hyper-x' is not a key"),
        (
            "mark = \"ctrl-m\"",
            "'ctrl-m': ctrl can only be combined with a letter other than i and m",
        ),
        ("mark = \"f13\"", "is not a key"),
        ("mark = \"f\"", "'mark' and 'freeze' would share the key 'f'"),
        ("release = \"x\"", "needs a capital letter; 'x' is not one"),
        ("release = \"ctrl-x\"", "needs a capital letter"),
        ("accept = \"E\"", "pressing one twice would confirm"),
        ("quit = []", "'quit' has no key left"),
        ("cancel = []", "'cancel' has no key left"),
        ("quit-now = \"x\"", "also applies while text is typed"),
    ];
    for (text, expected) in cases {
        assert!(fault(text).contains(expected), "{text}: {}", fault(text));
    }
    // The first error in the text, not in alphabetical order.
    let at = keys("quit = []\naccept = \"E\"").check().map_err(|fault| fault.at);
    assert_eq!(at, Err(0));
    assert!(toml::from_str::<Keys>("mark = 5").is_err());
    // Two actions may exchange their keys.
    for text in ["freeze = \"m\"\nmouse = \"f\"", "", "next-view = [\"tab\", \"ctrl-n\"]"] {
        assert!(keys(text).check().is_ok(), "{text}");
    }
}

#[test]
fn a_job_is_switched_back_once_a_snapshot_shows_it() {
    let mut tui = Tui::open(normal(), "8Py");
    let sent = tui.sent();
    let [Command::SwitchJob { job, paused }] = &sent[..] else { panic!("{sent:?}") };
    let (job, paused) = (job.clone(), *paused);
    tui.answer(Ok(Reply::JobSwitched { job: job.clone(), paused }));
    tui.show(with(normal(), |it| it.jobs[0].paused = paused));
    assert_eq!(tui.press("Py").sent(), [Command::SwitchJob { job, paused: !paused }]);
}
