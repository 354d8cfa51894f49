//! Position and height of forms, and the creation of a sale from the form to the reply.

use super::{
    prelude::*,
    screens::{Case, FORMS},
};
use crate::keymap::Action;

/// Each form, as it opens.
fn forms() -> impl Iterator<Item = Case> {
    FORMS.into_iter().filter(|(name, ..)| !name.ends_with("rejected"))
}

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
    tui.control('u');
}

#[test]
fn no_form_changes_its_height() {
    for _ in languages() {
        for (name, snapshot, keys) in forms() {
            for (width, height) in SIZES {
                let mut tui = Tui::open(snapshot(), keys);
                let first = tui.screen_at(width, height);
                assert_eq!(frame(&first).len(), 2, "{name}: {first}");
                for _ in 0..form_of(&tui).fields.len() {
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
    for size in SIZES {
        let mut tui = Tui::open(normal(), "2jkR");
        let good = tui.at(size).assert_shows("110,000 requests").screen();
        clear(&mut tui);
        let error = "The plan appears here once both numbers are valid.";
        let bad = tui.press("ten").assert_shows(error).assert_hides("110,000 requests").screen();
        let row = |text: &str, of: &str| text.lines().position(|line| line.contains(of));
        assert_eq!(row(&good, "110,000 requests"), row(&bad, error), "{good}{bad}");
    }
}

#[test]
fn nothing_of_a_form_is_cut_in_the_smallest_window() {
    for _ in languages() {
        for (name, snapshot, keys) in forms() {
            let mut tui = Tui::open(snapshot(), keys);
            for _ in 0..form_of(&tui).fields.len() {
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
    for (name, snapshot, keys) in forms() {
        let mut tui = Tui::open(snapshot(), keys);
        // In a text field they and the letters are text.
        clear(&mut tui);
        tui.press("hl←x→y");
        let form = |tui: &Tui| {
            let form = form_of(tui);
            (form.value(0).to_owned(), form.is_left_by(Action::Press), form.at_submit())
        };
        let text = "hxly".to_owned();
        let (cancel, submit) = ((text.clone(), true, false), (text.clone(), false, true));
        tui.press(&"\t".repeat(form_of(&tui).fields.len()));
        assert_eq!(form(&tui), cancel, "{name}");
        for (on, back) in [("→", "←"), ("l", "h")] {
            assert_eq!(form(tui.press(on)), submit, "{name} {on}");
            assert_eq!(form(tui.press(back)), cancel, "{name} {back}");
        }
        // The last field precedes the first button, and the first field follows the last button.
        assert_eq!(form(tui.press("→→!")).0, format!("{text}!"), "{name}");
        assert!(tui.app.dialog.is_some() && tui.sent().is_empty(), "{name}");
    }
}

#[test]
fn rebound_keys_move_between_buttons() {
    let chosen: Keys = toml::from_str("next-part = [\"ctrl-n\"]\nprevious-part = \"p\"").unwrap();
    keymap::choose_here(chosen.table().unwrap());
    let mut tui = Tui::open(normal(), "N\t\t\t\t\t");
    let is_on_cancel = |tui: &Tui| form_of(tui).is_left_by(Action::Press);
    assert!(is_on_cancel(&tui));
    tui.control('n');
    assert!(!is_on_cancel(&tui), "Create has the focus");
    // Bindings that are reserved for text input still work.
    assert!(is_on_cancel(tui.press("p")) && !is_on_cancel(tui.press("\t")));
}

/// Fills in the form, up to the question.
fn asked() -> Tui {
    Tui::open(normal(), "Nhot soup\t50\t\x082\t\t\n")
}

fn soup() -> Command {
    let sale = NewSale::checked("hot soup", 50, None, None, NOW).and_then(|it| it.limited(2));
    Command::CreateSale(sale.unwrap())
}

#[test]
fn nothing_is_created_without_confirmation() {
    let mut tui = asked();
    assert_eq!(tui.sent(), [], "the form leads to a question");
    tui.assert_shows("hot soup|50 pieces|2 orders|Opens immediately|No end time");
    tui.press("\n").assert_status("nothing was changed");
    assert!(matches!(tui.app.dialog, Some(Dialog::Form(_))), "it returns to the form");
    assert_eq!(tui.press("\ny").sent(), [soup()]);
}

#[test]
fn a_sale_that_is_on_its_way_is_not_sent_twice() {
    let mut tui = asked();
    assert_eq!(tui.press("y").sent(), [soup()]);
    let wait = "hot soup is being created; wait for the engine before creating another sale";
    tui.press("N").assert_idle().assert_status(wait);
    tui.answer(Ok(Reply::SaleCreated(VoucherId(12))));
    tui.assert_status("✔ sale #12 created and loaded into Redis");
    tui.press("N").assert_hides("hot soup").press("noodles\x1b");
    // A sale created by a launch does not affect the form.
    tui.app.on_answer((soup(), Ok(Ok(Reply::SaleCreated(VoucherId(13))))));
    tui.press("N").assert_shows("noodles");
    // Rejected input is restored.
    let mut tui = asked();
    tui.press("y").reply(Err(EngineError::Rejected("the database does not answer".into())));
    tui.press("N").assert_shows("hot soup");
}
