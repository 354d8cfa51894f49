//! Forms: their position, their height and the creation of a sale. Questions: each sends its command and its reason.

use super::prelude::*;
use crate::{app::Course, keymap::Action};

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
    for (name, snapshot, keys) in in_each_language(forms) {
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
    for (name, snapshot, keys) in in_each_language(forms) {
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

pub(super) fn form_of(tui: &Tui) -> &Form {
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
    configure("next-part = [\"ctrl-n\"]\nprevious-part = \"p\"");
    let mut tui = Tui::open(normal(), "N\t\t\t\t\t\t");
    let is_on_cancel = |tui: &Tui| form_of(tui).is_left_by(Action::Press);
    assert!(is_on_cancel(&tui));
    tui.control('n');
    assert!(!is_on_cancel(&tui), "Create has the focus");
    // Bindings that are reserved for text input still work.
    assert!(is_on_cancel(tui.press("p")) && !is_on_cancel(tui.press("\t")));
}

/// Fills in the form, up to the question.
fn asked() -> Tui {
    Tui::open(normal(), "Nhot soup\t50\t\x082\t\t\t\n")
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
fn a_new_sale_may_be_spread_over_shards() {
    let mut tui = Tui::open(normal(), "Nhot soup\t50\t\t\t\t65\n");
    tui.assert_shows("65 shards are not allowed; enter 1 to 64");
    tui.press("\x08\x088\n").assert_shows("50 pieces|8 shards");
    let sale = NewSale::checked("hot soup", 50, None, None, NOW).and_then(|it| it.sharded(8));
    assert_eq!(tui.press("y").sent(), [Command::CreateSale(sale.unwrap())]);
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

const BECAUSE: &str = "yes, hl said 运维 so";

/// The commands that a confirmation leads to.
fn expected(name: &str) -> Vec<Command> {
    let (seven, nine) = (VoucherId(7), VoucherId(9));
    let (begin, end) = (Some(NOW.plus(600_000)), Some(NOW.plus(3_600_000)));
    let hot_pot = || NewSale {
        title: "火锅五折 🍲".to_owned(),
        stock: 10_000,
        limit: 1,
        begin,
        end,
        shards: 1,
    };
    let job = |job: &str, paused| Command::SwitchJob { job: job.to_owned(), paused };
    let marked = LetterScope::Letters(vec![letter(0), letter(1)]);
    let discard = |scope, compensate| Command::DiscardLetters { scope, compensate };
    let apply = |scope| Command::Apply(plan_of(&scope), Pace::default());
    let [lock, owner] = ["stock:8", "node-b/recount#0f1e2d3c4b5a"].map(str::to_owned);
    vec![match name {
        "sales create" => Command::CreateSale(hot_pot()),
        "sales start" | "launch fire" => Command::StartSale(nine),
        "sales pause" => Command::PauseSale(seven),
        "sales resume" => Command::ResumeSale(seven),
        "sales end" => Command::EndSale(seven),
        "sales load_test" => Command::LoadTest(LoadTest::new(seven, 100_000).within(10)),
        "sales restock" => Command::Restock { voucher: seven, by: -200 },
        "sales stop_load_test" => {
            return vec![Command::StopLoadTest(seven), Command::PauseSale(seven)];
        }
        "sales quit" | "launch schedule" | "launch cancel" => return Vec::new(),
        "pending marked" => apply(Scope::Entries(Vec::new())),
        "pending all" => apply(Scope::All(Filter::default())),
        "pending cancel" => Command::Cancel,
        "letters replay" => Command::ReplayLetters { scope: all_counted(), force: false },
        "letters discard" | "letters reason" => discard(all_counted(), false),
        "letters return_stock" => discard(all_counted(), true),
        "letters discard_marked" => discard(marked, false),
        "stream rewind" => Command::Rewind(vec![stream::rewound()]),
        "stream claim" => Command::Claim(stream::given()),
        "stream remove_consumer" => Command::RemoveConsumer(stream::removed()),
        "locks_and_jobs release" => Command::ReleaseLock { name: lock, owner },
        "locks_and_jobs run" => Command::RunJob("close-overdue".to_owned()),
        "locks_and_jobs pause" => job("close-overdue", true),
        "locks_and_jobs resume" => job("drop-id-keys", false),
        "orders_and_ledger pay" => Command::Pay(orders::id(900)),
        "orders_and_ledger repair" => Command::Repair(repairs()),
        _ => panic!("{name} has no command"),
    }]
}

/// The same snapshot with every list reversed.
fn reversed(snapshot: Snapshot) -> Snapshot {
    with(snapshot, |it| {
        it.sales.reverse();
        it.locks.locks.reverse();
        it.jobs.reverse();
        it.entries.consumers.reverse();
        Arc::make_mut(&mut it.pending.lines).reverse();
        Arc::make_mut(&mut it.letters.lines).reverse();
        Arc::make_mut(&mut it.orders.lines).reverse();
        Arc::make_mut(&mut it.ledger.lines).reverse();
    })
}

fn emptied(_: Snapshot) -> Snapshot {
    Snapshot { letters: letters::letters(0, 0, false), ..empty() }
}

fn question(tui: &Tui) -> &Confirm {
    match &tui.app.dialog {
        Some(Dialog::Confirm(confirm)) => confirm,
        other => panic!("no question is open: {other:?}"),
    }
}

#[test]
fn every_question_sends_the_shown_command_with_its_reason_whatever_changes_meanwhile() {
    for (name, snapshot, keys) in CONFIRMATIONS {
        let (about, case) = name.split_once(' ').unwrap();
        for (change, is_gone) in [(reversed as fn(Snapshot) -> Snapshot, false), (emptied, true)] {
            // A launch is called off if its sale is gone.
            let later = if about == "launch" { snapshot() } else { change(snapshot()) };
            let mut tui = Tui::new(snapshot());
            open_while(&mut tui, keys, |tui| _ = tui.show(later.clone()));
            tui.show(later);
            if let Some(number) = question(&tui).number_missing() {
                assert_eq!((case, tui.press("y").sent()), ("return_stock", vec![]));
                tui.assert_status_contains("this affects 8").press(&number.to_string());
            }
            let reason = match case {
                "cancel" | "quit" => None,
                "reason" => Some("poison of last night, 运维 says so"),
                _ => Some(BECAUSE),
            };
            tui.press("\t");
            assert_eq!(question(&tui).in_reason(), reason == Some(BECAUSE), "{name}");
            if reason == Some(BECAUSE) {
                // Enter ends the text and does nothing else.
                tui.press(BECAUSE).press("\n");
            }
            assert_eq!(question(&tui).reason().as_deref(), reason, "{name}");
            assert_eq!(tui.sent(), [], "{name}");
            let mut expected = expected(name);
            // Nothing is left to pause.
            expected.truncate(if is_gone { 1 } else { 2 });
            assert_eq!(tui.press("y").sent(), expected, "{name}");
            assert!(expected.is_empty() || tui.reason().as_deref() == reason, "{name}");
            let is_armed = tui.app.director.armed().is_some();
            assert_eq!(is_armed, name == "launch schedule", "{name}");
            assert_eq!(tui.app.terminal.course == Course::Quit, case == "quit", "{name}");
        }
    }
}

#[test]
fn enter_escape_and_n_leave_every_question() {
    for (name, snapshot, keys) in CONFIRMATIONS.into_iter().filter(|it| it.0 != "letters reason") {
        for key in ["\n", "\x1b", "n"] {
            let mut tui = opened(snapshot(), keys);
            tui.press(key);
            // Enter runs a command once its number is typed.
            if (name, key) == ("letters return_stock", "\n") {
                tui.assert_status_contains("this affects 8").press("\x1b");
            }
            // A question that a form has asked leads back to it.
            if matches!(tui.app.dialog, Some(Dialog::Form(_))) {
                tui.press("\x1b");
            }
            tui.assert_idle();
            assert_eq!(tui.app.terminal.course, Course::GoOn, "{name}");
        }
    }
    // Without anything in progress nothing is asked.
    assert_eq!(Tui::open(normal(), "q").app.terminal.course, Course::Quit);
}

#[test]
fn an_empty_input_is_no_reason() {
    let mut tui = Tui::open(normal(), "2jkE\t  \t\n");
    assert_eq!((tui.sent(), tui.reason()), (vec![Command::EndSale(VoucherId(7))], None));
}

/// A question that requires the number of entries.
fn numbered(tui: &mut Tui) -> Command {
    tui.press("4A").reply(Ok(Reply::Planned(stuck(1_204))));
    Command::Apply(stuck(1_204), Pace::default())
}

#[test]
fn a_large_command_requires_typing_its_count() {
    let mut tui = Tui::new(overflowing());
    let command = numbered(&mut tui);
    tui.assert_shows("Type 1,204 to confirm").assert_hides("y yes");
    let missing = "this affects 1,204: type that number, then press Enter";
    tui.press("y120\n").assert_status(missing);
    assert_eq!(tui.press("→\n").sent(), []);
    tui.paste("4");
    assert_eq!(tui.press("y").sent(), [], "a paste is no typing");
    tui.press("4").assert_shows("Type 1,204 to confirm|y yes");
    assert_eq!(tui.press("5\n").sent(), [], "12,045 is another number");
    // It is edited like a form field.
    tui.control('u');
    tui.press("2049\x08").key(KeyCode::Home);
    assert_eq!(tui.press("1\n").sent(), std::slice::from_ref(&command));
    // Cancel and the reason remain selectable.
    numbered(&mut tui);
    tui.press("1204⇤\n").assert_idle();
    numbered(&mut tui);
    tui.press("1204\t").assert_hides("y yes");
    assert_eq!(tui.press("yes\n").sent(), [], "it only ends the reason");
    assert_eq!((tui.press("\n").sent(), tui.reason().as_deref()), (vec![command], Some("yes")));
}

#[test]
fn a_question_that_opens_by_itself_ignores_keys_meant_for_the_view() {
    let mut tui = Tui::open(normal(), "4A");
    let asked = tui.app.display.now;
    tui.reply(Ok(Reply::Planned(stuck(1))));
    // The user was about to copy a row.
    tui.app.display.now = asked.plus(100);
    assert_eq!(tui.press("y").sent(), []);
    tui.assert_status("the question has just appeared; read it, then press y again");
    tui.app.display.now = asked.plus(1_000);
    assert_eq!(tui.press("y").sent(), [Command::Apply(stuck(1), Pace::default())]);
}
