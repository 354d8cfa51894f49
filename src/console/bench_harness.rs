//! Benchmark of the console: the real loop, driven by scripted keys, drawing to a null terminal.

use std::{cell::Cell, io, iter::Cycle, rc::Rc, str::Chars, time::Duration};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use jiff::tz::TimeZone;
use ratatui::{Viewport, layout::Rect};
use seckill_engine::commands::Remote;
use seckill_model::Millis;
use tokio::time::{Instant, Interval, interval_at};

use super::{
    ConsoleError,
    app::App,
    event_loop::{Keyboard, drive},
    terminal::{DrawTarget, Frames},
    theme::{ColorChoice, Depth, Palette, Theme},
};

/// The scripted keys: every view, and a walk through its rows.
const KEYS: &str = "12jk4j5j6j8j";

/// A terminal and its simulated user.
#[derive(Clone, Copy, Debug)]
pub struct Person {
    /// Columns and rows.
    pub size: (u16, u16),
    /// Time between two keys; `None` for a user who only watches.
    pub pause: Option<Duration>,
}

/// What a console drew, accumulated over several runs.
#[derive(Debug, Default)]
pub struct Drawing {
    /// Microseconds from a snapshot of the engine to bytes for the terminal, for each frame.
    pub frames_us: Vec<f64>,
    /// Microseconds from a key to the last byte of the frame that reflects it, for each key.
    pub keys_us: Vec<f64>,
    /// Bytes of each frame, except first frames, which draw every cell.
    pub bytes: Vec<f64>,
}

/// Runs a console for `person` until `until` resolves, and adds what it drew to `drawing`.
///
/// # Errors
/// As for the console itself.
pub async fn gauge(
    remote: Remote,
    person: Person,
    drawing: &mut Drawing,
    until: impl Future<Output = ()>,
) -> Result<(), ConsoleError> {
    let (width, height) = person.size;
    let depth = Depth::detect(ColorChoice::Auto, |name| std::env::var(name).ok());
    let theme = Theme::of(&Palette::default(), depth, false);
    let mut app = App::new(remote, theme, TimeZone::system(), Millis::now());
    let frames = Frames::new(Viewport::Fixed(Rect::new(0, 0, width, height)))?;
    let pressed = Rc::new(Cell::new(None));
    let mut target = NullTerminal { frames, pressed: Rc::clone(&pressed), drawing };
    let due = person.pause.map(|pause| interval_at(Instant::now() + pause, pause));
    let mut keyboard = ScriptedKeys { keys: KEYS.chars().cycle(), due, pressed };
    tokio::select! {
        driven = drive(&mut app, &mut target, &mut keyboard, None) => Ok(driven?),
        () = until => Ok(()),
    }
}

/// Presses one key after another. Like a real user, it does not wait for the screen.
struct ScriptedKeys {
    keys: Cycle<Chars<'static>>,
    due: Option<Interval>,
    /// When the first key that is not drawn yet was pressed.
    pressed: Rc<Cell<Option<Instant>>>,
}

impl Keyboard for ScriptedKeys {
    async fn next(&mut self) -> Option<io::Result<Event>> {
        match &mut self.due {
            Some(due) => due.tick().await,
            None => std::future::pending().await,
        };
        let key = self.keys.next()?;
        self.pressed.set(self.pressed.get().or_else(|| Some(Instant::now())));
        Some(Ok(Event::Key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE))))
    }
}

/// Measures frames and discards them.
struct NullTerminal<'a> {
    frames: Frames,
    pressed: Rc<Cell<Option<Instant>>>,
    drawing: &'a mut Drawing,
}

impl DrawTarget for NullTerminal<'_> {
    fn draw(&mut self, app: &mut App) -> io::Result<()> {
        let began = Instant::now();
        let is_first = app.terminal.drawn.frames == 0;
        self.frames.draw(app, &mut io::sink())?;
        let micros = |since: Instant| since.elapsed().as_secs_f64() * 1e6;
        self.drawing.frames_us.push(micros(began));
        if !is_first {
            self.drawing.bytes.push(app.terminal.drawn.last as f64);
        }
        self.drawing.keys_us.extend(self.pressed.take().map(micros));
        Ok(())
    }
}
