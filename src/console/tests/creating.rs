//! Creating a sale, from the form to the reply: confirmed, sent once, and no input is lost.

use crossterm::event::KeyCode;
use seckill_engine::{
    EngineError,
    command::{Command, Reply},
};
use seckill_model::{Millis, NewSale, VoucherId, locale::set_thread_language};

use super::{
    fixture::{Bench, NOW, normal},
    screens::assert_screen,
};
use crate::dialogs::Dialog;

/// Fills in the form, up to the question.
fn asked(values: [&str; 5]) -> Bench {
    let mut bench = Bench::new(normal());
    bench.keys("N");
    for (place, value) in values.into_iter().enumerate() {
        if place > 0 {
            bench.press(KeyCode::Tab);
        }
        if place == 2 {
            bench.press(KeyCode::Backspace);
        }
        bench.keys(value);
    }
    bench.press(KeyCode::Enter);
    bench
}

fn soup() -> Command {
    let sale = NewSale::checked("hot soup", 50, None, None, NOW).and_then(|it| it.limited(2));
    Command::CreateSale(sale.unwrap())
}

#[test]
fn nothing_is_created_without_confirmation() {
    let mut bench = asked(["hot soup", "50", "2", "", ""]);
    assert!(bench.sent().is_empty(), "the form leads to a question");
    assert!(matches!(bench.app.dialog, Some(Dialog::Confirm(_))), "{}", bench.text(120, 36));
    let text = bench.text(120, 36);
    for shown in ["hot soup", "50 pieces", "2 orders", "Opens immediately", "No end time"] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    bench.press(KeyCode::Enter);
    assert!(bench.app.dialog.is_none() && bench.sent().is_empty(), "Cancel has the focus");
    assert_eq!(bench.said(), "nothing was created; the form keeps your input");
    bench.keys("N");
    assert!(bench.text(120, 36).contains("hot soup"));
    bench.press(KeyCode::Enter);
    // For the log, as any audited command.
    bench.press(KeyCode::Tab);
    bench.keys("drill");
    bench.press(KeyCode::Enter);
    bench.keys("y");
    assert_eq!(bench.sent(), [soup()]);
    assert_eq!(bench.reason().as_deref(), Some("drill"));
}

#[test]
fn a_sale_that_is_on_its_way_is_not_sent_twice() {
    let mut bench = asked(["hot soup", "50", "2", "", ""]);
    bench.keys("y");
    assert_eq!(bench.sent(), [soup()]);
    bench.keys("N");
    assert!(bench.app.dialog.is_none(), "{}", bench.text(120, 36));
    assert_eq!(
        bench.said(),
        "hot soup is being created; wait for the engine before creating another sale"
    );
    bench.answer(Ok(Reply::SaleCreated(VoucherId(12))));
    bench.keys("N");
    assert!(!bench.text(120, 36).contains("hot soup"), "the form is a new one");
    bench.keys("noodles");
    bench.press(KeyCode::Esc);
    // A sale created by a launch does not affect the form.
    bench.app.on_answer((soup(), Ok(Ok(Reply::SaleCreated(VoucherId(13))))));
    bench.keys("N");
    assert!(bench.text(120, 36).contains("noodles"), "what was typed is kept");
}

#[test]
fn rejected_input_is_restored_in_the_form() {
    let mut bench = asked(["hot soup", "50", "2", "", ""]);
    bench.keys("y");
    bench.sent();
    bench.answer(Err(EngineError::Plan("the database does not answer; try again".to_owned())));
    bench.keys("N");
    assert!(bench.text(120, 36).contains("hot soup"));
}

#[test]
fn the_question_shows_the_sale_window() {
    for lang in ["en", "zh"] {
        set_thread_language(lang);
        let tail = if lang == "zh" { "_zh" } else { "" };
        for (width, height) in [(120, 36), (80, 24), (60, 15)] {
            let mut bench = asked(["火锅五折 🍲", "10000", "1", "+10m", "+1h"]);
            let at = |minutes: i64| {
                let at: Millis = NOW.plus(minutes * 60_000);
                at.date_time(&bench.app.zone)
            };
            let (begin, end) = (at(10), at(60));
            let text = bench.text(width, height);
            assert!(text.contains(&begin) && text.contains(&end), "{begin} {end}: {text}");
            assert_screen(&format!("confirm_create{tail}_{width}x{height}"), &text);
        }
    }
}
