//! Forms keep their position and height, whatever is typed into them.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use seckill_engine::telemetry::Snapshot;

use seckill_model::locale::set_thread_language;

use super::{
    fixture::{Bench, normal},
    screens::assert_screen,
    stream::flowing,
};
use crate::{
    Keys,
    dialogs::{Dialog, Form},
    keymap,
};

const SIZES: [(u16, u16); 3] = [(120, 36), (80, 24), (60, 15)];

/// A form: the view below it, its keys, and its fields.
type Opened = (&'static str, fn() -> Snapshot, &'static str, usize);

const FORMS: [Opened; 5] = [
    ("sale", normal, "N", 5),
    ("rush", normal, "2jkR", 2),
    ("launch", normal, "L", 5),
    ("rewind", flowing, "3W", 1),
    ("claim", flowing, "3cC", 1),
];

/// Invalid input of every length.
const BAD: [&str; 5] =
    ["", "0", "x", "99999999999999999999999", "a word that is neither a number nor a time"];

/// The rows of the frame's corners with their positions.
fn frame(text: &str) -> Vec<(usize, usize)> {
    let corner = |line: &str| line.chars().position(|it| matches!(it, '╭' | '╰'));
    text.lines().enumerate().filter_map(|(y, line)| Some((y, corner(line)?))).collect()
}

fn clear(bench: &mut Bench) {
    bench.press(KeyCode::End);
    let all = KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL);
    bench.app.on_event(&Event::Key(all));
}

#[test]
fn no_form_changes_its_height() {
    for lang in ["en", "zh"] {
        set_thread_language(lang);
        for (name, snapshot, keys, fields) in FORMS {
            for (width, height) in SIZES {
                let mut bench = Bench::new(snapshot());
                bench.keys(keys);
                let first = bench.text(width, height);
                assert_eq!(frame(&first).len(), 2, "{name}: {first}");
                for _ in 0..fields {
                    for bad in BAD {
                        clear(&mut bench);
                        bench.app.on_event(&Event::Paste(bad.to_owned()));
                        let text = bench.text(width, height);
                        assert_eq!(frame(&text), frame(&first), "{name} {bad:?}: {text}");
                    }
                    bench.press(KeyCode::Tab);
                }
            }
        }
    }
}

#[test]
fn an_invalid_rush_replaces_the_plan_by_the_error() {
    for (lang, expected) in [
        ("en", "The plan appears here once both numbers are valid."),
        ("zh", "两个数字都有效后，这里显示计划。"),
    ] {
        set_thread_language(lang);
        let tail = if lang == "zh" { "_zh" } else { "" };
        for (width, height) in SIZES {
            let mut bench = Bench::new(normal());
            bench.keys("2jkR");
            let row = |text: &str, what: &str| text.lines().position(|line| line.contains(what));
            let good = bench.text(width, height);
            let plan = if lang == "zh" { "100,000 位买家" } else { "110,000 requests" };
            clear(&mut bench);
            bench.keys("ten");
            let bad = bench.text(width, height);
            assert!(row(&bad, expected).is_some(), "{bad}");
            assert_eq!(row(&good, plan), row(&bad, expected), "{good}{bad}");
            assert_screen(&format!("form_rush_fault{tail}_{width}x{height}"), &bad);
        }
    }
}

#[test]
fn nothing_of_a_form_is_cut_in_the_smallest_window() {
    for lang in ["en", "zh"] {
        set_thread_language(lang);
        for (name, snapshot, keys, fields) in FORMS {
            let mut bench = Bench::new(snapshot());
            bench.keys(keys);
            for _ in 0..fields {
                clear(&mut bench);
                let text = bench.text(60, 15);
                let buffer = bench.draw(60, 15);
                let is = |x, y, sign| buffer[(x, y)].symbol() == sign;
                let corner = (0..15).find_map(|y| (0..60).find(|x| is(*x, y, "╮")).zip(Some(y)));
                let (right, top) = corner.unwrap();
                let bottom = (0..15).find(|y| is(right, *y, "╯")).unwrap();
                for y in top + 1..bottom {
                    let whole = is(right - 2, y, " ") && is(right - 1, y, " ") && is(right, y, "│");
                    assert!(whole && !(0..right).any(|x| is(x, y, "…")), "{name}: {text}");
                }
                bench.press(KeyCode::Tab);
            }
        }
    }
}

fn form_of(bench: &Bench) -> &Form {
    match &bench.app.dialog {
        Some(Dialog::Form(form)) => form,
        other => panic!("no form is open: {other:?}"),
    }
}

#[test]
fn arrows_move_between_buttons_and_inside_a_text() {
    for (name, snapshot, keys, fields) in FORMS {
        let mut bench = Bench::new(snapshot());
        bench.keys(keys);
        // In a text field they and the letters are text.
        clear(&mut bench);
        bench.keys("hl");
        bench.press(KeyCode::Left);
        bench.keys("x");
        bench.press(KeyCode::Right);
        bench.keys("y");
        let form = |bench: &Bench| {
            let form = form_of(bench);
            (form.value(0).to_owned(), form.at_cancel(), form.at_submit())
        };
        let text = "hxly".to_owned();
        let (cancel, submit) = ((text.clone(), true, false), (text.clone(), false, true));
        for _ in 0..fields {
            bench.press(KeyCode::Tab);
        }
        assert_eq!(form(&bench), cancel, "{name}");
        for (on, back) in
            [(KeyCode::Right, KeyCode::Left), (KeyCode::Char('l'), KeyCode::Char('h'))]
        {
            bench.press(on);
            assert_eq!(form(&bench), submit, "{name} {on}");
            bench.press(back);
            assert_eq!(form(&bench), cancel, "{name} {back}");
        }
        // The last field precedes the first button, and the first field follows the last button.
        bench.press(KeyCode::Right);
        bench.press(KeyCode::Right);
        bench.keys("!");
        assert_eq!(form(&bench).0, format!("{text}!"), "{name}");
        assert!(bench.app.dialog.is_some() && bench.sent().is_empty(), "{name}");
    }
}

#[test]
fn rebound_keys_move_between_buttons() {
    let chosen: Keys = toml::from_str("next-part = [\"ctrl-n\"]\nprevious-part = \"p\"").unwrap();
    keymap::choose_here(chosen.table().unwrap());
    let mut bench = Bench::new(normal());
    bench.keys("N");
    for _ in 0..5 {
        bench.press(KeyCode::Tab);
    }
    let at = |bench: &Bench| form_of(bench).at_cancel();
    assert!(at(&bench));
    bench.app.on_event(&Event::Key(KeyEvent::new(KeyCode::Char('n'), KeyModifiers::CONTROL)));
    assert!(!at(&bench), "Create has the focus");
    bench.keys("p");
    assert!(at(&bench));
    // Bindings that are reserved for text input still work.
    bench.press(KeyCode::Tab);
    assert!(!at(&bench));
}
