//! A hundred thousand random keys, clicks, pastes and resizes on a live engine: no panic, and the audit passes.

use crate::support::{LONG, Pty, Seckill, Terminal, wait_until_blocking};
use rand::rngs::ChaCha8Rng;
use rand::{Rng, RngExt, SeedableRng};
use rustix::process::Signal;

/// Events per terminal; two terminals run at a time.
const EVENTS: usize = 50_000;
/// Events between two checks.
const AT_ONCE: usize = 50;
const SPECIAL: [&str; 16] = [
    "\r", "\r", "\r", "\x1b", "\t", "\x1b[Z", "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\x1b[5~",
    "\x1b[6~", "\x1b[H", "\x1b[F", "\x7f", "\x15",
];
/// Keys of commands more often than the rest; no key that ends or stops the console.
const LETTERS: &str = "1234567890NSRPEADCXWLFHTyyyy fgGhjklcpub/:?+-=<>[]*05599锅🍲xzorwmtv!";

fn event(random: &mut impl Rng, all: &mut Vec<u8>) {
    match random.random_range(0..100) {
        0..45 => {
            let letters: Vec<char> = LETTERS.chars().collect();
            let letter = letters[random.random_range(0..letters.len())];
            all.extend(letter.to_string().bytes());
        }
        45..90 => all.extend(SPECIAL[random.random_range(0..SPECIAL.len())].bytes()),
        90..97 => {
            let (button, x, y) = (
                [0, 1, 2, 64, 65][random.random_range(0..5)],
                random.random_range(1..400),
                random.random_range(1..100),
            );
            let end = if random.random() { 'M' } else { 'm' };
            all.extend(format!("\x1b[<{button};{x};{y}{end}").bytes());
        }
        _ => {
            let text = "y\r12 锅\x07; ".repeat(random.random_range(1..40));
            all.extend(format!("\x1b[200~{text}\x1b[201~").bytes());
        }
    }
}

fn size(random: &mut impl Rng) -> (u16, u16) {
    match random.random_range(0..4) {
        0 => (80, 24),
        1 => (120, 36),
        2 => (random.random_range(60..=400), random.random_range(15..=100)),
        _ => (random.random_range(1..=400), random.random_range(1..=100)),
    }
}

fn play(seed: u64) {
    let random = &mut ChaCha8Rng::seed_from_u64(seed);
    let home = Seckill::new();
    let create = ["sale", "create", "--title", "火锅 five", "--stock", "300"];
    home.run(&create).expect_code(0);
    let files = home.file("exports");
    std::fs::create_dir(&files).unwrap();
    let open = || -> Pty {
        let terminal = home.pty(&["--export-dir", files.to_str().unwrap()], 120, 36, &[]);
        terminal.wait_for(LONG, "the sale", |screen| screen.contains("#1 火锅 five"));
        terminal
    };
    let mut terminal = open();
    // There is always activity.
    assert!(terminal.send_to_the_end(b"R\r\r\ry", LONG));
    wait_until_blocking(LONG, "a rush is under way", || {
        home.run(&["sale", "show", "1", "--json"]).json()["admitted"].as_u64() > Some(0)
    });
    for _ in 0..EVENTS / AT_ONCE {
        let mut keys = Vec::new();
        (0..AT_ONCE).for_each(|_| event(random, &mut keys));
        if random.random_bool(0.3) {
            let (cols, rows) = size(random);
            terminal.resize(cols, rows);
        }
        if !terminal.send_to_the_end(&keys, LONG) {
            assert!(terminal.exit_status(LONG).success(), "seed {seed}");
            terminal = open();
        }
    }
    terminal.signal(Signal::TERM);
    assert!(terminal.exit_status(LONG).success(), "seed {seed}");
    assert_eq!(terminal.terminal(), Terminal::RESTORED, "seed {seed}");
    home.run(&["audit"]).expect_code(0);
    assert!(home.processes().is_empty());
}

#[test]
fn a_live_engine_survives_random_keys() {
    std::thread::scope(|scope| {
        let runs = [1, 2].map(|seed| scope.spawn(move || play(seed)));
        for run in runs {
            run.join().expect("a run without a panic");
        }
    });
}
