//! Every question: the command that it sends, whatever changes meanwhile, with its reason.

use super::{
    ledger::repairs,
    letters::all_counted,
    prelude::*,
    screens::{CONFIRMATIONS, open_while, opened, plan_of},
};
use crate::app::Course;

const BECAUSE: &str = "yes, hl said 运维 so";

/// The commands that a confirmation leads to.
fn expected(name: &str) -> Vec<Command> {
    let (seven, nine) = (VoucherId(7), VoucherId(9));
    let (begin, end) = (Some(NOW.plus(600_000)), Some(NOW.plus(3_600_000)));
    let hot_pot =
        || NewSale { title: "火锅五折 🍲".to_owned(), stock: 10_000, limit: 1, begin, end };
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
            assert_eq!(
                (question(&tui).reason().as_deref(), tui.sent()),
                (reason, vec![]),
                "{name}"
            );
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
