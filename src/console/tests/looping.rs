//! The event loop with a scripted keyboard and a fake screen.

use std::{collections::VecDeque, time::Instant};

use ratatui::Viewport;

use super::prelude::*;
use crate::{
    app::Drawn,
    event_loop::{Keyboard, drive},
    terminal::{DrawTarget, Frames},
};

/// Scripted keys; each waits its time, and input ends after the last.
struct Played {
    keys: VecDeque<(Duration, KeyEvent)>,
    /// Kept over a wait that another event interrupted.
    due: Option<Instant>,
    released: usize,
}

impl Played {
    /// A capital letter is pressed with Ctrl.
    fn new(keys: &[(u64, char)]) -> Self {
        let key = |(wait, letter): &(u64, char)| {
            let is_held = letter.is_ascii_uppercase();
            let held = if is_held { KeyModifiers::CONTROL } else { KeyModifiers::NONE };
            let code = KeyCode::Char(letter.to_ascii_lowercase());
            (Duration::from_millis(*wait), KeyEvent::new(code, held))
        };
        Self { keys: keys.iter().map(key).collect(), due: None, released: 0 }
    }
}

impl Keyboard for Played {
    async fn next(&mut self) -> Option<io::Result<Event>> {
        let (wait, key) = *self.keys.front()?;
        let due = *self.due.get_or_insert_with(|| Instant::now() + wait);
        tokio::time::sleep_until(due.into()).await;
        self.due = None;
        self.keys.pop_front();
        Some(Ok(Event::Key(key)))
    }

    fn release(&mut self) {
        self.released += 1;
    }
}

#[derive(Default)]
struct Counted {
    drawn: usize,
    suspended: usize,
    gone: bool,
    /// A panic on another thread restored the terminal.
    lost: bool,
    /// What was drawn over the shell then.
    astray: usize,
}

impl DrawTarget for Counted {
    fn draw(&mut self, _: &mut App) -> io::Result<()> {
        self.drawn += 1;
        self.astray += usize::from(self.lost);
        Ok(())
    }

    fn suspend(&mut self) -> io::Result<()> {
        self.suspended += 1;
        Ok(())
    }

    fn recover(&mut self) -> io::Result<bool> {
        Ok(std::mem::take(&mut self.lost))
    }

    fn is_there(&self) -> bool {
        !self.gone
    }
}

/// Not reached before a test is over.
const LATER: (u64, char) = (60_000, ' ');

/// Runs the loop with these keys until it ends; returns what was drawn, and how often the keyboard was released.
async fn ended(mut tui: Tui, keys: &[(u64, char)], mut target: Counted) -> (Counted, usize) {
    let mut keys = Played::new(keys);
    let ended = drive(&mut tui.app, &mut target, &mut keys, None);
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
    assert!(matches!(ended, Ok(Ok(()))));
    (target, keys.released)
}

#[tokio::test]
async fn the_end_of_the_input_or_of_the_terminal_and_control_c_end_it() {
    let (target, _) = ended(Tui::new(normal()), &[], Counted::default()).await;
    assert_eq!(target.drawn, 1);
    ended(Tui::new(normal()), &[LATER], Counted { gone: true, ..Counted::default() }).await;
    // Also while a question is open.
    let keys = [(0, 'q'), (0, 'C'), LATER];
    ended(Tui::new(with_load_test()), &keys, Counted::default()).await;
}

#[tokio::test]
async fn control_z_releases_the_keyboard_and_redraws() {
    // The node of its process stops as well, so it asks; who asks twice means it.
    for (keys, suspended) in [
        (&[(10, 'Z'), (100, 'C')][..], 0),
        (&[(10, 'Z'), (10, 'Z'), (100, 'C')], 1),
        (&[(10, 'q'), (10, 'Z'), (100, 'C')], 0),
    ] {
        let (target, released) = ended(Tui::new(with_load_test()), keys, Counted::default()).await;
        assert_eq!((released, target.suspended), (suspended, suspended), "{keys:?}");
        assert!(target.drawn >= 2);
    }
    let mut idle = normal();
    idle.read_only = true;
    let keys = [(10, 'Z'), (100, 'q')];
    let (target, _) = ended(Tui::new(idle), &keys, Counted::default()).await;
    assert_eq!(target.suspended, 1, "nothing runs in it");
}

#[tokio::test]
async fn a_flood_of_snapshots_is_drawn_thirty_times_a_second() {
    let tui = Tui::new(normal());
    let snapshots = tui.snapshots.clone();
    let flood = tokio::spawn(async move {
        let snapshot = Arc::new(normal());
        loop {
            snapshots.send_replace(Arc::clone(&snapshot));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    let (target, _) = ended(tui, &[(600, 'q')], Counted::default()).await;
    flood.abort();
    assert!((3..=21).contains(&target.drawn), "{}", target.drawn);
}

#[tokio::test]
async fn nothing_is_drawn_while_nothing_changes() {
    // Fresh for as long as the test runs.
    let later = Some(Millis::now().plus(60_000));
    let snapshot = with(Snapshot { sales: Vec::new(), ..normal() }, |it| {
        (it.redis.last_ok, it.sql.last_ok) = (later, later);
    });
    let (target, _) = ended(Tui::new(snapshot), &[(1_300, 'q')], Counted::default()).await;
    assert_eq!(target.drawn, 1);
}

#[tokio::test]
async fn nothing_is_drawn_on_a_terminal_restored_by_a_panic() {
    let target = Counted { lost: true, ..Counted::default() };
    let (target, _) = ended(Tui::new(normal()), &[(10, 'q')], target).await;
    assert!(target.drawn > 0 && !target.lost);
    assert_eq!(target.astray, 0);
}

#[tokio::test]
async fn the_console_outlives_the_engine_and_the_guide() {
    let mut tui = Tui::new(normal());
    tui.snapshots = watch::channel(Arc::default()).0;
    let over = GuidePage { title: "over".to_owned(), ..GuidePage::default() };
    let (sender, pages) = watch::channel(over);
    let guide = Guide { pages, asked: watch::Sender::default() };
    drop(sender);
    let (mut keys, mut target) = (Played::new(&[(100, 'q')]), Counted::default());
    let ended = drive(&mut tui.app, &mut target, &mut keys, Some(guide));
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
    assert!(matches!(ended, Ok(Ok(()))));
    assert_eq!(tui.app.guide.title, "over");
    let message = tui.app.status.shown().map(|(_, message, _)| message);
    assert_eq!(message, Some(Label("command-engine-has-stopped-display").read()));
}

#[test]
fn frames_and_their_bytes_are_counted() {
    let (mut tui, mut written) = (Tui::new(normal()), Vec::new());
    let mut frames = Frames::new(Viewport::Fixed(Rect::new(0, 0, 80, 24))).unwrap();
    assert_eq!(tui.app.terminal.drawn.summary(), None);
    let sizes = [0, 1].map(|_| {
        frames.draw(&mut tui.app, &mut written).unwrap();
        written.len() as u64
    });
    assert!(written.starts_with(b"\x1b[?2026h") && written.ends_with(b"\x1b[?2026l"));
    let [bytes, last] = [sizes[1], sizes[1] - sizes[0]];
    assert!(last < 100, "only the difference is written: {last} bytes");
    assert_eq!(tui.app.terminal.drawn, Drawn { frames: 2, bytes, last });
}
