//! Features of every table: filter, order, copies, the mouse, large counts, and custom keys.

use ratatui::buffer::Cell;

use super::prelude::*;
use crate::text::conventions;
use seckill_model::text;

fn keys(text: &str) -> Keys {
    toml::from_str(text).expect("keys that can be read")
}

fn fault(text: &str) -> String {
    keys(text).check().expect_err("a fault").to_string()
}

#[test]
fn esc_dismisses_a_message_before_leaving_the_view() {
    let mut tui = Tui::open(normal(), "6Z");
    tui.assert_status_contains("has no function here");
    tui.press("\x1b");
    assert_eq!((tui.app.view, tui.status().as_str()), (View::Locks, ""));
    tui.press("\x1b");
    assert_eq!(tui.app.view, View::Overview);
}

#[test]
fn a_question_that_opens_by_itself_ignores_keys_meant_for_the_view() {
    let mut tui = Tui::open(normal(), "4A");
    tui.sent();
    let plan = plan(&[(entry(1), Verdict::Stuck)], "");
    let asked = tui.app.display.now;
    tui.answer(Ok(Reply::Planned(plan.clone())));
    // The user was about to copy a row.
    tui.app.display.now = asked.plus(100);
    tui.press("y");
    assert!(tui.sent().is_empty() && tui.app.dialog.is_some());
    tui.assert_status("the question has just appeared; read it, then press y again");
    tui.app.display.now = asked.plus(1_000);
    assert_eq!(tui.press("y").sent(), [Command::Apply(plan, Pace::default())]);
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

fn ids(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.split_whitespace().find(|it| it.starts_with('#'))).collect()
}

#[test]
fn rows_are_sorted_by_a_column_and_the_choice_stays_on_its_row() {
    let mut tui = Tui::open(normal(), "2jk");
    tui.screen();
    tui.press("o").assert_status("sorted by ID, ascending");
    let text = tui.screen();
    let table: Vec<&str> = text.lines().skip(5).take(6).collect();
    assert!(table.join("\n").contains("ID↑"), "{text}");
    assert_eq!(ids(&table.join("\n")), ["#5", "#7", "#8", "#9"], "{text}");
    assert_eq!(tui.app.views.sales.chosen, Some(VoucherId(7)));
    tui.press("r").assert_shows("ID↓");
    // The command applies to the row that was chosen, wherever that moved.
    assert_eq!(tui.press("Ey").sent(), [Command::EndSale(VoucherId(7))]);
    for _ in 0..8 {
        tui.press("o");
    }
    assert!(!tui.screen().lines().nth(5).unwrap_or_default().contains(['↑', '↓']));
}

#[test]
fn paged_lists_are_not_sortable_and_explain_it() {
    let mut tui = Tui::open(overflowing(), "4");
    tui.screen();
    tui.press("o");
    assert!(tui.status().starts_with("12,340 rows are loaded in pages by ID"), "{}", tui.status());
    let mut tui = Tui::open(normal(), "4");
    tui.screen();
    tui.press("oo").assert_status("sorted by AGE, ascending");
    tui.show(overflowing());
    tui.assert_status_contains("more than one page of rows");
    tui.press("1o").assert_status("this view has no table");
}

#[test]
fn a_copy_is_reported_and_has_no_control_characters() {
    let mut hostile = normal();
    hostile.sales[2].title = "a\x1b[31m\u{202e}火锅\r\n".to_owned();
    let mut tui = Tui::open(hostile, "2jjy");
    tui.assert_status("copied: 9");
    assert_eq!(tui.app.terminal.clipboard.take().as_deref(), Some("9"));
    tui.press("w");
    let copied = tui.app.terminal.clipboard.take().unwrap_or_default();
    assert!(copied.contains(r#""title":"a\u001b[31m"#), "{copied:?}");
    assert!(!copied.contains(char::is_control), "{copied:?}");
    let mut tui = Tui::open(Snapshot { sales: Vec::new(), ..normal() }, "2y");
    tui.assert_status("no row is selected; use ↑ and ↓");
    // tmux keeps copies to itself by default.
    let mut tui = Tui::new(normal());
    tui.app.terminal.in_tmux = true;
    let needs = "copied: 9; tmux forwards it only with 'set -s set-clipboard on'";
    tui.press("2jjy").assert_status(needs);
    assert_eq!(tui.app.terminal.clipboard.take().as_deref(), Some("9"));
    tui.press("w").assert_status_contains("tmux");
}

fn mouse(tui: &mut Tui, kind: MouseEventKind, column: u16, row: u16) {
    let event = MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
    tui.app.on_event(&Event::Mouse(event));
}

#[test]
fn the_mouse_chooses_only_while_it_is_on() {
    const CLICK: MouseEventKind = MouseEventKind::Down(MouseButton::Left);
    let mut tui = Tui::new(normal());
    let text = tui.screen();
    let tabs: Vec<char> = text.lines().nth(1).unwrap_or_default().chars().collect();
    let at = tabs.windows(5).position(|it| it.iter().collect::<String>() == "Sales").unwrap_or(0);
    mouse(&mut tui, CLICK, at as u16, 1);
    assert_eq!(tui.app.view, View::Overview, "it is off");
    tui.press("m");
    mouse(&mut tui, CLICK, at as u16, 1);
    assert_eq!(tui.app.view, View::Sales);
    let text = tui.screen();
    let row = text.lines().position(|line| line.contains("noodles")).unwrap_or(0);
    mouse(&mut tui, CLICK, 20, row as u16);
    assert_eq!(tui.app.views.sales.chosen, Some(VoucherId(5)));
    tui.screen();
    mouse(&mut tui, MouseEventKind::ScrollUp, 20, 9);
    assert_eq!(tui.app.views.sales.chosen, Some(VoucherId(7)));
    // Questions are answered with keys only.
    tui.press("E");
    tui.screen();
    for y in 0..36 {
        for x in 0..120 {
            mouse(&mut tui, CLICK, x, y);
        }
    }
    assert!(matches!(tui.app.dialog, Some(Dialog::Confirm(_))) && tui.sent().is_empty());
    tui.press("nm");
    mouse(&mut tui, CLICK, 1, 1);
    assert_eq!(tui.app.view, View::Sales);
}

#[test]
fn a_large_command_requires_typing_its_count() {
    let mut tui = Tui::open(overflowing(), "4A");
    tui.sent();
    let entries: Vec<_> = (0..1_204).map(|number| (entry(number), Verdict::Stuck)).collect();
    let plan = plan(&entries, "");
    tui.answer(Ok(Reply::Planned(plan.clone())));
    tui.assert_shows("Type 1,204 to confirm");
    tui.press("y120y");
    tui.key(KeyCode::Right);
    assert!(tui.press("\n").sent().is_empty(), "the number is not there yet");
    tui.paste("4");
    assert!(tui.press("y").sent().is_empty(), "a paste is no typing");
    tui.press("9");
    // It is edited like a form field.
    let held = |c| Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL));
    tui.app.on_event(&held('u'));
    tui.press("2049");
    tui.key(KeyCode::Backspace);
    tui.key(KeyCode::Home);
    assert_eq!(tui.press("1y").sent(), [Command::Apply(plan, Pace::default())]);
}

#[test]
fn the_palette_explains_unavailable_actions_and_remembers_recent_ones() {
    let mut tui = Tui::open(normal(), "2:return stock");
    tui.assert_shows("in Dead letters");
    tui.press("\n");
    assert!(tui.app.dialog.is_some() && tui.sent().is_empty());
    let text = tui.press("\x1b:freeze\n:").screen();
    let first = text.lines().find(|line| line.contains("recently used"));
    assert!(first.is_some_and(|line| line.contains("freeze")), "{text}");
    tui.press("\n");
    assert!(!tui.app.display.frozen);
}

#[test]
fn a_long_paste_is_truncated_with_a_notice() {
    let shown =
        |tui: &mut Tui| tui.screen().contains("the pasted text was truncated to 1,000 characters");
    for keys in ["N", ":", "2jkE\t", "2/", "3/", "4/", "5/", "6/", "7/", "8/", "0/"] {
        let mut tui = Tui::new(normal());
        tui.press(keys);
        tui.paste("锅".repeat(600));
        assert!(!shown(&mut tui), "{keys}: there is room for it");
        tui.paste("锅".repeat(600));
        assert!(shown(&mut tui), "{keys}: {}", tui.screen());
        tui.key(KeyCode::Backspace);
        assert!(!shown(&mut tui), "{keys}: until the next key");
    }
    // Without input nothing is truncated.
    for keys in ["2", "x", "?", "8P"] {
        let mut tui = Tui::open(normal(), keys);
        tui.paste("锅".repeat(2_000));
        assert!(!shown(&mut tui), "{keys}");
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
    let table = keys(
        "mark = [\"v\", \"f5\"]\nnew-sale = \"B\"\nhelp = \"f1\"\nquit = \"ctrl-q\"\nend = []",
    )
    .table()
    .expect("a good choice");
    keymap::choose_here(table);
    let mut tui = Tui::open(normal(), "4vA");
    assert_eq!(tui.sent().len(), 1);
    tui.press("2");
    assert!(tui.screen_at(160, 40).contains("B new "), "{}", tui.screen_at(160, 40));
    tui.press("E").assert_status("E has no function here; press F1 for the keys");
    tui.key(KeyCode::F(1));
    let text = tui.screen_at(160, 80);
    assert!(text.contains("v F5") && text.contains("Ctrl-Q"), "{text}");
    let mut tui = Tui::open(Snapshot { sales: Vec::new(), ..normal() }, "2");
    tui.assert_shows("Press B to create one");
}

#[test]
fn a_confirmation_names_the_configured_keys() {
    let configured = keys("next-part = [\"ctrl-n\"]\npress = [\"ctrl-j\"]");
    keymap::choose_here(configured.table().expect("a good choice"));
    Tui::open(normal(), "2jkE").assert_shows("optional, for the log; Ctrl-N to edit");
    let typed = text!("conventions-does-it", count = 1_204);
    assert_eq!(typed, "1,204: press Ctrl-J to confirm");
    assert!(conventions::number_first(1_204).ends_with("type that number, then press Ctrl-J"));
}

#[test]
fn invalid_keys_are_reported_one_by_one() {
    let cases = [
        ("fly = \"a\"", "unknown action 'fly'"),
        ("mark = \"hyper-x\"", "'mark': 'hyper-x' is not a key"),
        ("mark = \"ctrl-m\"", "cannot distinguish 'ctrl-m' from 'enter'"),
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
fn no_control_character_reaches_the_screen() {
    const HOSTILE: &str =
        "\x1b[31m\u{9b}2J\u{202e}\u{200b}\u{200d}עברית火锅\u{feff}\x07\u{1f468}\u{200d}\u{1f469}";
    let mut snapshot = with_letters();
    for sale in &mut snapshot.sales {
        sale.title = HOSTILE.to_owned();
    }
    for line in Arc::make_mut(&mut snapshot.pending.lines) {
        line.consumer = HOSTILE.to_owned();
        line.fault = Some(HOSTILE.into());
        line.verdict = None;
    }
    for line in Arc::make_mut(&mut snapshot.letters.lines) {
        let line = &mut line.letter;
        (line.reason, line.consumer) = (HOSTILE.into(), HOSTILE.to_owned());
        line.payload = vec![(HOSTILE.to_owned(), HOSTILE.repeat(40))];
    }
    for lock in &mut snapshot.locks.locks {
        for text in [&mut lock.name, &mut lock.node, &mut lock.task, &mut lock.owner] {
            HOSTILE.clone_into(text);
        }
    }
    for job in &mut snapshot.jobs {
        (job.name, job.schedule) = (HOSTILE.to_owned(), HOSTILE.to_owned());
        for run in &mut job.runs {
            (run.node, run.detail) = (HOSTILE.to_owned(), Some(HOSTILE.into()));
        }
    }
    let mut tui = Tui::new(snapshot);
    let is_control =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    for view in ["1", "2", "4", "5", "6", "8"] {
        for keys in ["", "l", "y", "w", "/\u{202e}"] {
            tui.press(view).press(keys);
            for (width, height) in SIZES {
                let buffer = tui.draw(width, height);
                let mut symbols = buffer.content.iter().map(Cell::symbol);
                let found = symbols.find(|symbol| symbol.contains(is_control));
                assert_eq!(found, None, "{view}{keys}");
            }
            tui.press("\x1b");
        }
    }
}

#[test]
fn the_log_is_sorted_and_the_stream_keeps_its_order() {
    let mut tui = Tui::open(normal(), "0");
    tui.draw(120, 36);
    tui.press("oo");
    assert!(tui.status().starts_with("sorted by "), "{}", tui.status());
    tui.assert_shows("sorted by event within these ");
    tui.press("g");
    let rows = tui.app.views.log.rows(&tui.app.display.shown);
    assert_eq!(tui.app.views.log.position(&rows), Some(0));
    tui.press("3o");
    let message = "the stream is always in delivery order";
    tui.assert_status(message);
}

#[test]
fn a_job_is_switched_back_once_a_snapshot_shows_it() {
    let mut tui = Tui::open(normal(), "8Py");
    let sent = tui.sent();
    let [Command::SwitchJob { job, paused }] = &sent[..] else { panic!("{sent:?}") };
    let (job, paused) = (job.clone(), *paused);
    tui.answer(Ok(Reply::JobSwitched { job: job.clone(), paused }));
    let mut snapshot = normal();
    for line in snapshot.jobs.iter_mut().filter(|it| it.name == job) {
        line.paused = paused;
    }
    tui.show(snapshot);
    assert_eq!(tui.press("Py").sent(), [Command::SwitchJob { job, paused: !paused }]);
}

#[test]
fn the_wheel_requests_the_page_after_the_last_row() {
    let mut tui = Tui::open(overflowing(), "4mG");
    tui.screen();
    let before = *tui.focus.borrow();
    mouse(&mut tui, MouseEventKind::ScrollDown, 20, 12);
    let after = *tui.focus.borrow();
    assert!(before.pending < after.pending, "{before:?}, {after:?}");
}
