//! Features of every table: filter, order, copies, the mouse, large counts, and custom keys.

use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use seckill_engine::{
    command::{Command, LettersCounted, Pace, Reply},
    plan::made_up,
    telemetry::Snapshot,
};
use seckill_model::{LetterCounts, LetterVerdict, Verdict, VoucherId, locale::set_thread_language};

use super::{
    fixture::{Bench, entry, normal, overflowing},
    letters::{letter, poisoned},
};
use crate::{Keys, dialogs::Dialog, keymap, text::conventions, views::View};

fn keys(text: &str) -> Keys {
    toml::from_str(text).expect("keys that can be read")
}

fn fault(text: &str) -> String {
    keys(text).check().expect_err("a fault").to_string()
}

#[test]
fn esc_dismisses_a_message_before_leaving_the_view() {
    let mut bench = Bench::new(normal());
    bench.keys("6Z");
    assert!(bench.said().contains("has no function here"), "{}", bench.said());
    bench.press(KeyCode::Esc);
    assert_eq!((bench.app.view, bench.said().as_str()), (View::Locks, ""));
    bench.press(KeyCode::Esc);
    assert_eq!(bench.app.view, View::Overview);
}

#[test]
fn a_question_that_opens_by_itself_ignores_keys_meant_for_the_view() {
    let mut bench = Bench::new(normal());
    bench.keys("4A");
    bench.sent();
    let plan = made_up::plan(&[(entry(1), Verdict::Stuck)], "");
    let asked = bench.app.now;
    bench.answer(Ok(Reply::Planned(plan.clone())));
    // The user was about to copy a row.
    bench.app.now = asked.plus(100);
    bench.keys("y");
    assert!(bench.sent().is_empty() && bench.app.dialog.is_some());
    assert_eq!(bench.said(), "the question has just appeared; read it, then press y again");
    bench.app.now = asked.plus(1_000);
    bench.keys("y");
    assert_eq!(bench.sent(), [Command::Apply(plan, Pace::default())]);
}

#[test]
fn every_table_is_filtered_alike() {
    let counts = [
        ('2', "running", "1 of 4"),
        ('2', "!running !ended", "2 of 4"),
        ('4', "node-b !stuck", "22 of 128 on this page"),
        ('5', "waits", "of 9"),
        ('6', "orphan", "1 of 3"),
        ('6', "stock !node-a", "1 of 3"),
        ('8', "paused", "1 of 3"),
        ('8', "!paused !done", "1 of 3"),
    ];
    for (view, filter, expected) in counts {
        let mut bench = Bench::new(poisoned());
        bench.keys(&format!("{view}/{filter}"));
        let text = bench.text(120, 36);
        assert!(text.contains(expected), "{view} {filter}: {text}");
        bench.press(KeyCode::Enter);
        bench.press(KeyCode::Esc);
        assert!(!bench.text(120, 36).contains(&format!("/{filter}")), "{view}");
    }
}

fn ids(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.split_whitespace().find(|it| it.starts_with('#'))).collect()
}

#[test]
fn rows_are_sorted_by_a_column_and_the_choice_stays_on_its_row() {
    let mut bench = Bench::new(normal());
    bench.keys("2jk");
    bench.text(120, 36);
    bench.keys("o");
    assert_eq!(bench.said(), "sorted by ID, ascending");
    let text = bench.text(120, 36);
    let table: Vec<&str> = text.lines().skip(5).take(6).collect();
    assert!(table.join("\n").contains("ID↑"), "{text}");
    assert_eq!(ids(&table.join("\n")), ["#5", "#7", "#8", "#9"], "{text}");
    assert_eq!(bench.app.sales.chosen, Some(VoucherId(7)));
    bench.keys("r");
    let text = bench.text(120, 36);
    assert!(text.contains("ID↓"), "{text}");
    // The command applies to the row that was chosen, wherever that moved.
    bench.keys("Ey");
    assert_eq!(bench.sent(), [Command::EndSale(VoucherId(7))]);
    for _ in 0..8 {
        bench.keys("o");
    }
    assert!(!bench.text(120, 36).lines().nth(5).unwrap_or_default().contains(['↑', '↓']));
}

#[test]
fn paged_lists_are_not_sortable_and_explain_it() {
    let mut bench = Bench::new(overflowing());
    bench.keys("4");
    bench.text(120, 36);
    bench.keys("o");
    assert!(bench.said().starts_with("12,340 are loaded in pages by ID"), "{}", bench.said());
    let mut bench = Bench::new(normal());
    bench.keys("4");
    bench.text(120, 36);
    bench.keys("oo");
    assert_eq!(bench.said(), "sorted by AGE, ascending");
    bench.show(overflowing());
    assert!(bench.said().contains("more than one page of rows"), "{}", bench.said());
    bench.keys("1o");
    assert_eq!(bench.said(), "this view has no table");
}

#[test]
fn a_copy_is_reported_and_has_no_control_characters() {
    let mut hostile = normal();
    hostile.sales[2].title = "a\x1b[31m\u{202e}火锅\r\n".to_owned();
    let mut bench = Bench::new(hostile);
    bench.keys("2jjy");
    assert_eq!(bench.said(), "copied: 9");
    assert_eq!(bench.app.clipboard.take().as_deref(), Some("9"));
    bench.keys("w");
    let copied = bench.app.clipboard.take().unwrap_or_default();
    assert!(copied.contains(r#""title":"a\u001b[31m"#), "{copied:?}");
    assert!(!copied.contains(char::is_control), "{copied:?}");
    let mut bench = Bench::new(Snapshot { sales: Vec::new(), ..normal() });
    bench.keys("2y");
    assert_eq!(bench.said(), "no row is selected; use ↑ and ↓");
}

#[test]
fn a_copy_in_tmux_says_what_it_needs() {
    for (lang, expected) in [
        ("en", "copied: 9; tmux forwards it only with 'set -s set-clipboard on'"),
        ("zh", "已复制：9；tmux 需设置 'set -s set-clipboard on' 才会传给终端"),
    ] {
        set_thread_language(lang);
        let mut bench = Bench::new(normal());
        bench.app.in_tmux = true;
        bench.keys("2jjy");
        assert_eq!(bench.said(), expected);
        assert_eq!(bench.app.clipboard.take().as_deref(), Some("9"));
        bench.keys("w");
        assert!(bench.said().contains("tmux"), "{}", bench.said());
    }
}

fn mouse(bench: &mut Bench, kind: MouseEventKind, column: u16, row: u16) {
    let event = MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
    bench.app.on_event(&Event::Mouse(event));
}

#[test]
fn the_mouse_chooses_only_while_it_is_on() {
    const CLICK: MouseEventKind = MouseEventKind::Down(MouseButton::Left);
    let mut bench = Bench::new(normal());
    let text = bench.text(120, 36);
    let tabs: Vec<char> = text.lines().nth(1).unwrap_or_default().chars().collect();
    let at = tabs.windows(5).position(|it| it.iter().collect::<String>() == "Sales").unwrap_or(0);
    mouse(&mut bench, CLICK, at as u16, 1);
    assert_eq!(bench.app.view, View::Overview, "it is off");
    bench.keys("m");
    mouse(&mut bench, CLICK, at as u16, 1);
    assert_eq!(bench.app.view, View::Sales);
    let text = bench.text(120, 36);
    let row = text.lines().position(|line| line.contains("noodles")).unwrap_or(0);
    mouse(&mut bench, CLICK, 20, row as u16);
    assert_eq!(bench.app.sales.chosen, Some(VoucherId(5)));
    bench.text(120, 36);
    mouse(&mut bench, MouseEventKind::ScrollUp, 20, 9);
    assert_eq!(bench.app.sales.chosen, Some(VoucherId(7)));
    // Questions are answered with keys only.
    bench.keys("E");
    bench.text(120, 36);
    for y in 0..36 {
        for x in 0..120 {
            mouse(&mut bench, CLICK, x, y);
        }
    }
    assert!(matches!(bench.app.dialog, Some(Dialog::Confirm(_))) && bench.sent().is_empty());
    bench.keys("nm");
    mouse(&mut bench, CLICK, 1, 1);
    assert_eq!(bench.app.view, View::Sales);
}

#[test]
fn a_large_command_requires_typing_its_count() {
    let mut bench = Bench::new(overflowing());
    bench.keys("4A");
    bench.sent();
    let entries: Vec<_> = (0..1_204).map(|number| (entry(number), Verdict::Stuck)).collect();
    let plan = made_up::plan(&entries, "");
    bench.answer(Ok(Reply::Planned(plan.clone())));
    assert!(bench.text(120, 36).contains("Type 1,204 to confirm"), "{}", bench.text(120, 36));
    bench.keys("y120y");
    bench.press(KeyCode::Right);
    bench.press(KeyCode::Enter);
    assert!(bench.sent().is_empty(), "the number is not there yet");
    bench.app.on_event(&Event::Paste("4".to_owned()));
    bench.keys("y");
    assert!(bench.sent().is_empty(), "a paste is no typing");
    bench.keys("9");
    // It is edited like a form field.
    let held = |c| Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL));
    bench.app.on_event(&held('u'));
    bench.keys("2049");
    bench.press(KeyCode::Backspace);
    bench.press(KeyCode::Home);
    bench.keys("1y");
    assert_eq!(bench.sent(), [Command::Apply(plan, Pace::default())]);
}

#[test]
fn few_letters_are_replayed_without_typing_a_count() {
    let mut counts = LetterCounts::default();
    counts.add(LetterVerdict::Awaited);
    let counted = Reply::LettersCounted(LettersCounted { counts, gone: 0, last: letter(0) });
    for (key, needed) in [("R", false), ("C", true)] {
        let mut bench = Bench::new(poisoned());
        bench.keys("5");
        bench.keys(key);
        bench.sent();
        bench.answer(Ok(counted.clone()));
        assert_eq!(bench.text(80, 24).contains("Type 1 to confirm"), needed, "{key}");
    }
}

#[test]
fn the_palette_explains_unavailable_actions_and_remembers_recent_ones() {
    let mut bench = Bench::new(normal());
    bench.keys("2:return stock");
    assert!(bench.text(120, 36).contains("in Dead letters"), "{}", bench.text(120, 36));
    bench.press(KeyCode::Enter);
    assert!(bench.app.dialog.is_some() && bench.sent().is_empty());
    bench.press(KeyCode::Esc);
    bench.keys(":freeze");
    bench.press(KeyCode::Enter);
    bench.keys(":");
    let text = bench.text(120, 36);
    let first = text.lines().find(|line| line.contains("recently used"));
    assert!(first.is_some_and(|line| line.contains("freeze")), "{text}");
    bench.press(KeyCode::Enter);
    assert!(!bench.app.frozen);
}

#[test]
fn a_long_paste_is_truncated_with_a_notice() {
    let shown = |bench: &mut Bench| {
        bench.text(120, 36).contains("the pasted text was truncated to 1,000 characters")
    };
    for keys in ["N", ":", "2jkE\t", "2/", "3/", "4/", "5/", "6/", "7/", "8/", "0/"] {
        let mut bench = Bench::new(normal());
        for key in keys.chars() {
            bench.press(if key == '\t' { KeyCode::Tab } else { KeyCode::Char(key) });
        }
        bench.app.on_event(&Event::Paste("锅".repeat(600)));
        assert!(!shown(&mut bench), "{keys}: there is room for it");
        bench.app.on_event(&Event::Paste("锅".repeat(600)));
        assert!(shown(&mut bench), "{keys}: {}", bench.text(120, 36));
        bench.press(KeyCode::Backspace);
        assert!(!shown(&mut bench), "{keys}: until the next key");
    }
    // Without input nothing is truncated.
    for keys in ["2", "x", "?", "8P"] {
        let mut bench = Bench::new(normal());
        bench.keys(keys);
        bench.app.on_event(&Event::Paste("锅".repeat(2_000)));
        assert!(!shown(&mut bench), "{keys}");
    }
}

#[test]
fn messages_are_above_the_filter_input() {
    let mut bench = Bench::new(normal());
    bench.keys("6/job");
    bench.app.on_event(&Event::Paste("x".repeat(2_000)));
    for (width, height) in [(120, 36), (80, 24), (60, 15)] {
        let text = bench.text(width, height);
        let lines: Vec<&str> = text.lines().collect();
        let said =
            lines.iter().position(|line| line.contains("the pasted text was truncated")).unwrap();
        let typed = lines.get(usize::from(height) - 2).unwrap();
        assert!(typed.starts_with(" /") && typed.contains('x'), "{text}");
        assert_eq!(said, usize::from(height) - 3, "{text}");
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
    let mut bench = Bench::new(normal());
    bench.keys("4vA");
    assert_eq!(bench.sent().len(), 1);
    bench.keys("2");
    assert!(bench.text(160, 40).contains("B new "), "{}", bench.text(160, 40));
    bench.keys("E");
    assert_eq!(bench.said(), "E has no function here; press F1 for the keys");
    bench.press(KeyCode::F(1));
    let text = bench.text(160, 80);
    assert!(text.contains("v F5") && text.contains("Ctrl-Q"), "{text}");
    let mut bench = Bench::new(Snapshot { sales: Vec::new(), ..normal() });
    bench.keys("2");
    assert!(bench.text(120, 36).contains("Press B to create one"));
}

#[test]
fn a_confirmation_names_the_configured_keys() {
    let table =
        keys("next-part = [\"ctrl-n\"]\npress = [\"ctrl-j\"]").table().expect("a good choice");
    keymap::choose_here(table);
    let mut bench = Bench::new(normal());
    bench.keys("2jkE");
    let text = bench.text(120, 36);
    assert!(text.contains("optional, for the log; Ctrl-N to edit"), "{text}");
    let large = conventions::number_typed(1_204);
    assert_eq!(large, "1,204: press Ctrl-J to confirm");
    assert!(conventions::number_first(1_204).ends_with("type that number, then press Ctrl-J"));
}

#[test]
fn two_keys_may_change_places() {
    assert!(keys("freeze = \"m\"\nmouse = \"f\"").check().is_ok());
    assert!(keys("").check().is_ok());
    assert!(keys("next-view = [\"tab\", \"ctrl-n\"]").check().is_ok());
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
}

#[test]
fn no_control_character_reaches_the_screen() {
    const HOSTILE: &str =
        "\x1b[31m\u{9b}2J\u{202e}\u{200b}\u{200d}עברית火锅\u{feff}\x07\u{1f468}\u{200d}\u{1f469}";
    let mut snapshot = poisoned();
    for sale in &mut snapshot.sales {
        sale.title = HOSTILE.to_owned();
    }
    for line in &mut snapshot.pending.lines {
        line.consumer = HOSTILE.to_owned();
        line.fault = Some(HOSTILE.into());
        line.verdict = None;
    }
    for line in std::sync::Arc::make_mut(&mut snapshot.letters.lines) {
        line.reason = HOSTILE.into();
        line.consumer = HOSTILE.to_owned();
        line.payload = vec![(HOSTILE.to_owned(), HOSTILE.repeat(40))];
    }
    for lock in &mut snapshot.locks.locks {
        (lock.name, lock.node) = (HOSTILE.to_owned(), HOSTILE.to_owned());
        (lock.task, lock.owner) = (HOSTILE.to_owned(), HOSTILE.to_owned());
    }
    for job in &mut snapshot.jobs {
        job.name = HOSTILE.to_owned();
        job.schedule = HOSTILE.to_owned();
        for run in &mut job.runs {
            (run.node, run.detail) = (HOSTILE.to_owned(), Some(HOSTILE.into()));
        }
    }
    let mut bench = Bench::new(snapshot);
    for view in ["1", "2", "4", "5", "6", "8"] {
        for keys in ["", "l", "y", "w", "/\u{202e}"] {
            bench.keys(view);
            bench.keys(keys);
            for (width, height) in [(200, 50), (120, 36), (80, 24), (60, 15)] {
                let buffer = bench.draw(width, height);
                for cell in &buffer.content {
                    let is_display_control = |c: char| {
                        c.is_control()
                            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
                    };
                    assert!(
                        !cell.symbol().contains(is_display_control),
                        "{view}{keys}: {:?}",
                        cell.symbol()
                    );
                }
            }
            bench.press(KeyCode::Esc);
        }
    }
}

#[test]
fn the_log_is_sorted_and_the_stream_keeps_its_order() {
    let mut bench = Bench::new(normal());
    bench.keys("0");
    bench.draw(120, 36);
    bench.keys("oo");
    assert!(bench.said().starts_with("sorted by "), "{}", bench.said());
    let text = bench.text(120, 36);
    assert!(text.contains("sorted by event within these "), "{text}");
    bench.keys("g");
    let rows = bench.app.log.rows(&bench.app.shown);
    assert_eq!(bench.app.log.position(&rows), Some(0));
    bench.keys("3o");
    let said = "the stream is always in delivery order";
    assert_eq!(bench.said(), said);
}

#[test]
fn a_paused_job_shows_the_reply_until_a_snapshot_agrees() {
    let mut bench = Bench::new(normal());
    bench.keys("8Py");
    let sent = bench.sent();
    let [Command::SwitchJob { job, paused }] = &sent[..] else { panic!("{sent:?}") };
    let (job, paused) = (job.clone(), *paused);
    bench.answer(Ok(Reply::JobSwitched { job: job.clone(), paused }));
    let shown = |bench: &Bench| {
        let all = &bench.app.shown.jobs;
        all.iter().find(|it| it.name == job).map(|it| it.paused)
    };
    assert_eq!(shown(&bench), Some(paused));
    // A snapshot that was read before the reply.
    bench.show(normal());
    assert_eq!(shown(&bench), Some(paused));
    bench.keys("Py");
    assert_eq!(bench.sent(), [Command::SwitchJob { job: job.clone(), paused: !paused }]);
    // The reply expires.
    bench.app.now = bench.app.now.plus(60_000);
    bench.show(normal());
    assert_eq!(shown(&bench), Some(!paused));
}
