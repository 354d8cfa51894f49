//! Position and height of forms, and the creation of a sale from the form to the reply.

use super::prelude::*;
use seckill_model::NewSale;

/// A form: the view below it, its keys, and its fields.
type Opened = (&'static str, fn() -> Snapshot, &'static str, usize);

const FORMS: [Opened; 5] = [
    ("sale", normal, "N", 5),
    ("rush", normal, "2jkR", 2),
    ("launch", normal, "L", 5),
    ("rewind", with_stream, "3W", 1),
    ("claim", with_stream, "3cC", 1),
];

/// Invalid input of every length.
const BAD: [&str; 5] =
    ["", "0", "x", "99999999999999999999999", "a word that is neither a number nor a time"];

/// The rows of the frame's corners with their positions.
fn frame(text: &str) -> Vec<(usize, usize)> {
    let corner = |line: &str| line.chars().position(|it| matches!(it, '╭' | '╰'));
    text.lines().enumerate().filter_map(|(y, line)| Some((y, corner(line)?))).collect()
}

fn clear(tui: &mut Tui) {
    tui.key(KeyCode::End);
    let all = KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL);
    tui.app.on_event(&Event::Key(all));
}

#[test]
fn no_form_changes_its_height() {
    for lang in ["en", "zh"] {
        set_thread_language(lang);
        for (name, snapshot, keys, fields) in FORMS {
            for (width, height) in SIZES {
                let mut tui = Tui::open(snapshot(), keys);
                let first = tui.screen_at(width, height);
                assert_eq!(frame(&first).len(), 2, "{name}: {first}");
                for _ in 0..fields {
                    for bad in BAD {
                        clear(&mut tui);
                        tui.paste(bad.to_owned());
                        let text = tui.screen_at(width, height);
                        assert_eq!(frame(&text), frame(&first), "{name} {bad:?}: {text}");
                    }
                    tui.press("\t");
                }
            }
        }
    }
}

#[test]
fn an_invalid_load_test_replaces_the_plan_by_the_error() {
    for (width, height) in SIZES {
        let mut tui = Tui::open(normal(), "2jkR");
        let row = |text: &str, what: &str| text.lines().position(|line| line.contains(what));
        let good = tui.screen_at(width, height);
        clear(&mut tui);
        let bad = tui.press("ten").screen_at(width, height);
        let error = row(&bad, "The plan appears here once both numbers are valid.");
        assert!(error.is_some(), "{bad}");
        assert_eq!(row(&good, "110,000 requests"), error, "{good}{bad}");
    }
}

#[test]
fn nothing_of_a_form_is_cut_in_the_smallest_window() {
    for lang in ["en", "zh"] {
        set_thread_language(lang);
        for (name, snapshot, keys, fields) in FORMS {
            let mut tui = Tui::open(snapshot(), keys);
            for _ in 0..fields {
                clear(&mut tui);
                let text = tui.screen_at(60, 15);
                let buffer = tui.draw(60, 15);
                let is = |x, y, sign| buffer[(x, y)].symbol() == sign;
                let corner = (0..15).find_map(|y| (0..60).find(|x| is(*x, y, "╮")).zip(Some(y)));
                let (right, top) = corner.unwrap();
                let bottom = (0..15).find(|y| is(right, *y, "╯")).unwrap();
                for y in top + 1..bottom {
                    let whole = is(right - 2, y, " ") && is(right - 1, y, " ") && is(right, y, "│");
                    assert!(whole && !(0..right).any(|x| is(x, y, "…")), "{name}: {text}");
                }
                tui.press("\t");
            }
        }
    }
}

fn form_of(tui: &Tui) -> &Form {
    match &tui.app.dialog {
        Some(Dialog::Form(form)) => form,
        other => panic!("no form is open: {other:?}"),
    }
}

#[test]
fn arrows_move_between_buttons_and_inside_a_text() {
    for (name, snapshot, keys, fields) in FORMS {
        let mut tui = Tui::open(snapshot(), keys);
        // In a text field they and the letters are text.
        clear(&mut tui);
        tui.press("hl");
        tui.key(KeyCode::Left);
        tui.press("x");
        tui.key(KeyCode::Right);
        tui.press("y");
        let form = |tui: &Tui| {
            let form = form_of(tui);
            (form.value(0).to_owned(), form.at_cancel(), form.at_submit())
        };
        let text = "hxly".to_owned();
        let (cancel, submit) = ((text.clone(), true, false), (text.clone(), false, true));
        for _ in 0..fields {
            tui.press("\t");
        }
        assert_eq!(form(&tui), cancel, "{name}");
        for (on, back) in
            [(KeyCode::Right, KeyCode::Left), (KeyCode::Char('l'), KeyCode::Char('h'))]
        {
            tui.key(on);
            assert_eq!(form(&tui), submit, "{name} {on}");
            tui.key(back);
            assert_eq!(form(&tui), cancel, "{name} {back}");
        }
        // The last field precedes the first button, and the first field follows the last button.
        tui.key(KeyCode::Right);
        tui.key(KeyCode::Right);
        tui.press("!");
        assert_eq!(form(&tui).0, format!("{text}!"), "{name}");
        assert!(tui.app.dialog.is_some() && tui.sent().is_empty(), "{name}");
    }
}

#[test]
fn rebound_keys_move_between_buttons() {
    let chosen: Keys = toml::from_str("next-part = [\"ctrl-n\"]\nprevious-part = \"p\"").unwrap();
    keymap::choose_here(chosen.table().unwrap());
    let mut tui = Tui::open(normal(), "N\t\t\t\t\t");
    let at = |tui: &Tui| form_of(tui).at_cancel();
    assert!(at(&tui));
    tui.control('n');
    assert!(!at(&tui), "Create has the focus");
    tui.press("p");
    assert!(at(&tui));
    // Bindings that are reserved for text input still work.
    tui.press("\t");
    assert!(!at(&tui));
}

/// Fills in the form, up to the question.
fn asked(values: [&str; 5]) -> Tui {
    let mut tui = Tui::open(normal(), "N");
    for (place, value) in values.into_iter().enumerate() {
        if place > 0 {
            tui.press("\t");
        }
        if place == 2 {
            tui.key(KeyCode::Backspace);
        }
        tui.press(value);
    }
    tui.press("\n");
    tui
}

fn soup() -> Command {
    let sale = NewSale::checked("hot soup", 50, None, None, NOW).and_then(|it| it.limited(2));
    Command::CreateSale(sale.unwrap())
}

#[test]
fn nothing_is_created_without_confirmation() {
    let mut tui = asked(["hot soup", "50", "2", "", ""]);
    assert!(tui.sent().is_empty(), "the form leads to a question");
    assert!(matches!(tui.app.dialog, Some(Dialog::Confirm(_))), "{}", tui.screen());
    let text = tui.screen();
    for shown in ["hot soup", "50 pieces", "2 orders", "Opens immediately", "No end time"] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    tui.press("\n").assert_idle();
    tui.assert_status("nothing was created; the form keeps your input");
    tui.press("N").assert_shows("hot soup");
    tui.press("\n");
    // For the log, as any audited command.
    assert_eq!(tui.press("\tdrill\ny").sent(), [soup()]);
    assert_eq!(tui.reason().as_deref(), Some("drill"));
}

#[test]
fn a_sale_that_is_on_its_way_is_not_sent_twice() {
    let mut tui = asked(["hot soup", "50", "2", "", ""]);
    assert_eq!(tui.press("y").sent(), [soup()]);
    tui.press("N");
    assert!(tui.app.dialog.is_none(), "{}", tui.screen());
    tui.assert_status(
        "hot soup is being created; wait for the engine before creating another sale",
    );
    tui.answer(Ok(Reply::SaleCreated(VoucherId(12))));
    tui.assert_status("✔ sale #12 created and loaded into Redis");
    tui.press("N").assert_hides("hot soup");
    tui.press("noodles\x1b");
    // A sale created by a launch does not affect the form.
    tui.app.on_answer((soup(), Ok(Ok(Reply::SaleCreated(VoucherId(13))))));
    tui.press("N").assert_shows("noodles");
}

#[test]
fn rejected_input_is_restored_in_the_form() {
    let mut tui = asked(["hot soup", "50", "2", "", ""]);
    tui.press("y");
    tui.sent();
    tui.answer(Err(EngineError::Rejected("the database does not answer; try again".into())));
    tui.press("N").assert_shows("hot soup");
}
