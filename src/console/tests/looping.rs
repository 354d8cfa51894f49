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
    fn new(keys: &[(u64, KeyCode, KeyModifiers)]) -> Self {
        let key = |(wait, code, modifiers): &(u64, KeyCode, KeyModifiers)| {
            (Duration::from_millis(*wait), KeyEvent::new(*code, *modifiers))
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

const PLAIN: KeyModifiers = KeyModifiers::NONE;
/// Not reached before a test is over.
const LATER: (u64, KeyCode, KeyModifiers) = (60_000, KeyCode::Null, PLAIN);

async fn run(tui: &mut Tui, keys: &mut Played, target: &mut Counted) -> bool {
    let ended = drive(&mut tui.app, target, keys, None);
    matches!(tokio::time::timeout(Duration::from_secs(20), ended).await, Ok(Ok(())))
}

#[tokio::test]
async fn the_end_of_the_input_ends_it() {
    let (mut keys, mut target) = (Played::new(&[]), Counted::default());
    assert!(run(&mut Tui::new(normal()), &mut keys, &mut target).await);
    assert_eq!(target.drawn, 1);
}

#[tokio::test]
async fn a_closed_terminal_ends_it() {
    let mut keys = Played::new(&[LATER]);
    let mut target = Counted { gone: true, ..Counted::default() };
    assert!(run(&mut Tui::new(normal()), &mut keys, &mut target).await);
}

#[tokio::test]
async fn control_c_leaves_also_from_a_question() {
    let mut keys = Played::new(&[
        (0, KeyCode::Char('q'), PLAIN),
        (0, KeyCode::Char('c'), KeyModifiers::CONTROL),
        LATER,
    ]);
    assert!(run(&mut Tui::new(with_load_test()), &mut keys, &mut Counted::default()).await);
}

#[tokio::test]
async fn control_z_releases_the_keyboard_and_redraws() {
    let mut keys = Played::new(&[
        (10, KeyCode::Char('z'), KeyModifiers::CONTROL),
        (100, KeyCode::Char('q'), PLAIN),
    ]);
    let mut target = Counted::default();
    assert!(run(&mut Tui::new(normal()), &mut keys, &mut target).await);
    assert_eq!((keys.released, target.suspended), (1, 1));
    assert!(target.drawn >= 2);
}

#[tokio::test]
async fn a_flood_of_snapshots_is_drawn_thirty_times_a_second() {
    let mut tui = Tui::new(normal());
    let snapshots = tui.snapshots.clone();
    let flood = tokio::spawn(async move {
        let snapshot = Arc::new(normal());
        loop {
            snapshots.send_replace(Arc::clone(&snapshot));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    let mut keys = Played::new(&[(600, KeyCode::Char('q'), PLAIN)]);
    let mut target = Counted::default();
    assert!(run(&mut tui, &mut keys, &mut target).await);
    flood.abort();
    assert!((3..=21).contains(&target.drawn), "{}", target.drawn);
}

#[tokio::test]
async fn nothing_is_drawn_while_nothing_changes() {
    let mut snapshot = normal();
    snapshot.sales.clear();
    // Fresh for as long as the test runs.
    let later = Millis::now().plus(60_000);
    (snapshot.redis.last_ok, snapshot.sql.last_ok) = (Some(later), Some(later));
    let mut tui = Tui::new(snapshot);
    let mut keys = Played::new(&[(1_300, KeyCode::Char('q'), PLAIN)]);
    let mut target = Counted::default();
    assert!(run(&mut tui, &mut keys, &mut target).await);
    assert_eq!(target.drawn, 1);
}

#[tokio::test]
async fn nothing_is_drawn_on_a_terminal_restored_by_a_panic() {
    let mut keys = Played::new(&[(10, KeyCode::Char('q'), PLAIN)]);
    let mut target = Counted { lost: true, ..Counted::default() };
    assert!(run(&mut Tui::new(normal()), &mut keys, &mut target).await);
    assert!(target.drawn > 0 && !target.lost);
    assert_eq!(target.astray, 0);
}

#[tokio::test]
async fn the_console_outlives_the_engine_and_the_guide() {
    let mut tui = Tui::new(normal());
    tui.snapshots = watch::channel(Arc::default()).0;
    let (sender, guide) =
        watch::channel(GuidePage { title: "over".to_owned(), ..GuidePage::default() });
    drop(sender);
    let mut keys = Played::new(&[(100, KeyCode::Char('q'), PLAIN)]);
    let mut target = Counted::default();
    let ended = drive(&mut tui.app, &mut target, &mut keys, Some(guide));
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
    assert!(matches!(ended, Ok(Ok(()))));
    assert_eq!(tui.app.guide.title, "over");
    let message = tui.app.status.shown().map(|(_, message, _)| message.to_owned());
    assert_eq!(message.as_deref(), Some(Label("command-engine-has-stopped-display").read()));
}

#[test]
fn a_frame_is_one_synchronized_write_and_is_counted() {
    struct Writes(Vec<Vec<u8>>);

    impl io::Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut tui = Tui::new(normal());
    let mut frames = Frames::new(Viewport::Fixed(Rect::new(0, 0, 80, 24))).unwrap();
    let mut writes = Writes(Vec::new());
    assert_eq!(tui.app.terminal.drawn.summary(), None);
    frames.draw(&mut tui.app, &mut writes).unwrap();
    frames.draw(&mut tui.app, &mut writes).unwrap();
    let [first, second] = writes.0.as_slice() else { panic!("{} writes", writes.0.len()) };
    for frame in [first, second] {
        assert!(frame.starts_with(b"\x1b[?2026h") && frame.ends_with(b"\x1b[?2026l"));
    }
    let [first, last] = [first, second].map(|frame| frame.len() as u64);
    assert!(last < 100, "only the difference is written: {last} bytes");
    assert_eq!(tui.app.terminal.drawn, Drawn { frames: 2, bytes: first + last, last });
}
