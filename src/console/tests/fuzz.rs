//! Random keys, snapshots and sizes: nothing panics, and no command is sent without confirmation.

use rand::{Rng, RngExt, SeedableRng, rngs::ChaCha8Rng, seq::IteratorRandom as _};

use super::prelude::*;
use crate::dialogs::Intent;

/// What the next key may send.
enum Allowed {
    Nothing,
    This(Box<Command>),
    /// A launch confirmed before its time.
    Opening,
    /// Stops the load test on this sale, which is paused as well.
    Stop(VoucherId),
}

fn allowed(tui: &Tui, key: &KeyEvent) -> Allowed {
    let Some(Dialog::Confirm(confirm)) = &tui.app.dialog else { return Allowed::Nothing };
    // In the reason letters are text, and a large command requires its number first.
    let yes = confirm.number_missing().is_none()
        && ((key.code == KeyCode::Char('y') && !confirm.in_reason())
            || (key.code == KeyCode::Enter && confirm.on_yes()));
    match (&confirm.intent, yes) {
        (Intent::Send(command), true) => Allowed::This(command.clone()),
        (Intent::Fire, true) => Allowed::Opening,
        (Intent::Abort { voucher, .. }, true) => Allowed::Stop(*voucher),
        _ => Allowed::Nothing,
    }
}

fn any_key(random: &mut impl Rng) -> KeyEvent {
    const LETTERS: &str =
        "1234557NSRPEADCXWLLFHtyyn fqgGhjklcpubs/:?+-=0599锅🍲xzzoorwmeepcdvn!mT68v<>[]";
    use KeyCode::{BackTab, Backspace, Char, Down, End, Enter, Esc, Home, Left, Right, Tab, Up};
    let special = [Enter, Enter, Esc, Tab, BackTab, Up, Down, Left, Right, Home, End, Backspace];
    let pages = [KeyCode::PageUp, KeyCode::PageDown];
    let code = if random.random_bool(0.45) {
        special.into_iter().chain(pages).choose(random)
    } else {
        LETTERS.chars().map(Char).choose(random)
    };
    KeyEvent::new(code.unwrap_or(Enter), KeyModifiers::NONE)
}

fn any_snapshot(random: &mut impl Rng) -> Snapshot {
    let scenes: [fn() -> Snapshot; 7] =
        [empty, normal, overflowing, outage, read_only, with_load_test, with_letters];
    let mut snapshot = scenes[random.random_range(0..scenes.len())]();
    if random.random_bool(0.3) {
        snapshot.pending = page(random.random_range(0..13_000), 12_340);
    }
    if random.random_bool(0.3) {
        snapshot.pending.taken = None;
    }
    if random.random_bool(0.3) {
        let first = random.random_range(0..200);
        snapshot.letters = letters::letters(first, random.random_range(0..101), random.random());
    } else if random.random_bool(0.1) {
        snapshot.letters = LetterPage::default();
    }
    if random.random_bool(0.2) {
        snapshot.sales.reverse();
        snapshot.sales.truncate(random.random_range(0..5));
    }
    if random.random_bool(0.1) {
        (snapshot.stream, snapshot.latency) = (None, None);
    }
    if random.random_bool(0.6) {
        snapshot.entries = stream::page(StreamView::default(), random.random_range(0..300));
        snapshot.orders = orders::page(OrdersView::default(), random.random_range(0..300));
        let first = random.random_range(0..3_000);
        snapshot.log = history::page(LogView::default(), first, 200, random.random());
    }
    snapshot.seq = random.random_range(0..3);
    snapshot
}

fn any_answer(random: &mut impl Rng) -> Result<Reply, EngineError> {
    match random.random_range(0..6) {
        0 => Ok(Reply::SaleCreated(VoucherId(random.random_range(1..12)))),
        1 => Ok(Reply::Planned(plan(&[(EntryId::MIN, Verdict::Stuck)], ""))),
        2 => Ok(Reply::Replayed(ReplayReport { seen: 5, lost: 1, ..ReplayReport::default() })),
        3 => {
            let verdicts = &LetterVerdict::ALL[..random.random_range(0..8)];
            Ok(Reply::LettersCounted(letters::counted(verdicts, random.random_range(0..3))))
        }
        4 => Ok(Reply::LettersReplayed(LettersReplayed::default())),
        _ => Err(EngineError::Rejected("no; 不行 🍲 ".repeat(random.random_range(1..40)).into())),
    }
}

#[test]
fn random_keys_neither_panic_nor_send_unconfirmed_commands() {
    // Two at a time, 6,300 events each. SEEDS=160 makes a million.
    let seeds = std::env::var("SEEDS").map_or(20, |seeds| seeds.parse().expect("a number"));
    let sent: usize = std::thread::scope(|scope| {
        let runs = [0, 1]
            .map(|half| scope.spawn(move || (half..seeds).step_by(2).map(play).sum::<usize>()));
        runs.into_iter().map(|run| run.join().expect("a run without a panic")).sum()
    });
    assert!(sent > 100, "the keys reached {sent} commands only");
}

fn any_mouse(random: &mut impl Rng) -> Event {
    use MouseEventKind::{Down, Moved, ScrollDown, ScrollUp, Up};
    let buttons = [Down(MouseButton::Left), Down(MouseButton::Right), Up(MouseButton::Left)];
    let kinds = buttons.into_iter().chain([Moved, ScrollUp, ScrollDown]);
    let kind = kinds.choose(random).unwrap_or(Moved);
    let [column, row] = [400, 100].map(|end| random.random_range(0..end));
    Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE })
}

/// Commands sent, without read-only ones, which a snapshot or a click may trigger.
fn commands(tui: &mut Tui) -> Vec<Command> {
    use Command::{CountLetters, Plan, Preview, Trace};
    let mut sent = tui.sent();
    sent.retain(|it| !matches!(it, Trace(_) | Preview(_) | Plan(_) | CountLetters(_)));
    sent
}

/// One run of random events; returns the number of commands.
fn play(seed: u64) -> usize {
    let mut sent_in_all = 0;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut tui = Tui::new(normal());
    for step in 0..6_300_i64 {
        tui.app.display.now = NOW.plus(step * 700);
        match random.random_range(0..100) {
            0..80 => {
                let key = any_key(&mut random);
                let may = allowed(&tui, &key);
                tui.app.on_event(&Event::Key(key));
                let mut sent = tui.sent();
                sent_in_all += sent.len();
                // Read-only requests; a snapshot may trigger one as well.
                sent.retain(|it| !matches!(it, Command::Trace(_) | Command::Preview(_)));
                let fine = match (&sent[..], &may) {
                    // A plan and a count change nothing.
                    ([] | [Command::Plan(_) | Command::CountLetters(_)], _)
                    | ([Command::CreateSale(_) | Command::StartSale(_)], Allowed::Opening) => true,
                    ([one], Allowed::This(command)) => *one == **command,
                    ([Command::StopLoadTest(one), rest @ ..], Allowed::Stop(it)) => {
                        one == it
                            && matches!(rest, [] | [Command::PauseSale(_)])
                            && rest.iter().all(|paused| *paused == Command::PauseSale(*it))
                    }
                    _ => false,
                };
                assert!(fine, "seed {seed}, step {step}: {sent:?} after {key:?}");
            }
            80..88 => _ = tui.show(any_snapshot(&mut random)),
            88..92 => {
                let answer = any_answer(&mut random);
                if tui.has_outstanding() {
                    tui.answer(answer);
                }
                // A sale that a launch has opened gets its buyers, or is paused if they are unwanted.
                let sent = commands(&mut tui);
                let fine = matches!(sent[..], [] | [Command::LoadTest(_) | Command::PauseSale(_)]);
                assert!(fine, "seed {seed}, step {step}: {sent:?} after an answer");
            }
            92..94 => {
                let text = ["pasted 火锅\n\x1b[2J", "10000", "+1h", "\u{202e}\u{200d}"];
                tui.paste(text[random.random_range(0..text.len())]);
            }
            94..95 => tui.app.on_guide(GuidePage {
                title: "火锅 ".repeat(random.random_range(0..30)),
                text: "word ".repeat(random.random_range(0..90)),
                key: random.random_bool(0.5).then(|| "a very long key indeed".to_owned()),
                countdown: random.random_bool(0.5).then(|| random.random()),
                done: random.random_bool(0.2),
                summary: vec![("火锅".repeat(9), "1".to_owned()); random.random_range(0..30)],
                next: "word ".repeat(random.random_range(0..90)),
            }),
            95..97 => {
                tui.app.on_tick();
                tui.app.advance_launch();
                // What was armed was confirmed then.
                let sent = commands(&mut tui);
                let opening =
                    |it: &Command| matches!(it, Command::CreateSale(_) | Command::StartSale(_));
                assert!(sent.len() <= 1 && sent.iter().all(opening), "seed {seed}: {sent:?}");
            }
            _ => {
                tui.app.on_event(&any_mouse(&mut random));
                let sent = commands(&mut tui);
                assert!(sent.is_empty(), "seed {seed}, step {step}: {sent:?} by mouse");
            }
        }
        if step % 2_500 == 9 {
            tui.paste("\x1b[31m锅 ".repeat(150_000));
            let sent = commands(&mut tui);
            assert!(sent.is_empty(), "seed {seed}, step {step}: {sent:?} by paste");
        }
        if step % 25 == 0 {
            let (width, height) = match random.random_range(0..6) {
                0 => (random.random_range(1..70), random.random_range(1..20)),
                1 => (60, 15),
                2 => (80, 24),
                3 => (200, 50),
                4 => (random.random_range(1..401), random.random_range(1..101)),
                _ => (120, 36),
            };
            tui.draw(width, height);
        }
    }
    sent_in_all
}
