//! Benchmark of the console: the real loop, driven by scripted keys, drawing to a null terminal.

use std::{
    cell::Cell,
    io,
    iter::{Copied, Cycle},
    rc::Rc,
    slice,
    time::Duration,
};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use hdrhistogram::Histogram;
use jiff::tz::TimeZone;
use ratatui::{Terminal, TerminalOptions, Viewport, backend::CrosstermBackend, layout::Rect};
use seckill_engine::command::Remote;
use seckill_model::Millis;
use serde::Serialize;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    ConsoleError, Options,
    app::App,
    event_loop::{Keyboard, drive},
    terminal::DrawTarget,
    theme::Theme,
    views,
    widgets::Halves,
};

/// The scripted keys: every view, and a walk through its rows.
static KEYS: [char; 12] = ['1', '2', 'j', 'k', '4', 'j', '5', 'j', '6', 'j', '8', 'j'];

/// A terminal and its simulated user.
#[derive(Clone, Copy, Debug)]
pub struct Person {
    /// Columns and rows.
    pub size: (u16, u16),
    /// Time between two keys; `None` for a user who only watches.
    pub pause: Option<Duration>,
}

/// A latency distribution over `n` samples, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The maximum.
    pub max: u64,
    /// The number of samples.
    pub n: u64,
}

/// What a console drew, accumulated over several runs.
#[derive(Clone, Debug)]
pub struct Drawing {
    frames: Histogram<u64>,
    keys: Histogram<u64>,
    /// Bytes, without first frames, which draw every cell.
    bytes: u64,
    /// Frames that the bytes were written in.
    later: u64,
}

/// Summary of [`Drawing`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Drawn {
    /// From a snapshot of the engine to bytes for the terminal.
    pub frame_us: Spread,
    /// From a key to the last byte of the frame that reflects it.
    pub key_us: Spread,
    /// Bytes of an average frame.
    pub bytes_a_frame: u64,
}

impl Drawing {
    /// An empty record.
    ///
    /// # Errors
    /// The histogram rejects its bounds, which are constant.
    pub fn new() -> io::Result<Self> {
        let histogram = || Histogram::new_with_bounds(1, 60_000_000, 3).map_err(io::Error::other);
        Ok(Self { frames: histogram()?, keys: histogram()?, bytes: 0, later: 0 })
    }

    /// Summarizes the record.
    pub fn drawn(&self) -> Drawn {
        Drawn {
            frame_us: spread(&self.frames),
            key_us: spread(&self.keys),
            bytes_a_frame: self.bytes / self.later.max(1),
        }
    }
}

/// Runs a console for `person` until `until` resolves, and adds what it drew to `drawing`.
///
/// # Errors
/// As for the console itself.
pub async fn gauge(
    remote: Remote,
    options: Options,
    person: Person,
    drawing: &mut Drawing,
    until: impl Future<Output = ()>,
) -> Result<(), ConsoleError> {
    let theme = Theme::detect(options.color, &options.palette, options.ascii, |name| {
        std::env::var(name).ok()
    });
    let mut app = App::new(remote, theme, TimeZone::system(), Millis::now());
    let pressed = Rc::new(Cell::new(None));
    let mut target = Unseen::new(person.size, Rc::clone(&pressed), drawing)?;
    let (end, ended) = watch::channel(false);
    let mut played = Played {
        keys: KEYS.iter().copied().cycle(),
        pause: person.pause,
        due: person.pause.map(|pause| Instant::now() + pause),
        pressed,
        ended,
    };
    let driving = drive(&mut app, &mut target, &mut played, None);
    let ending = async {
        until.await;
        end.send_replace(true);
    };
    let (driven, ()) = tokio::join!(driving, ending);
    Ok(driven?)
}

/// Presses one key after another, and quits when asked to.
struct Played {
    keys: Cycle<Copied<slice::Iter<'static, char>>>,
    pause: Option<Duration>,
    due: Option<Instant>,
    pressed: Rc<Cell<Option<Instant>>>,
    ended: watch::Receiver<bool>,
}

impl Keyboard for Played {
    async fn next(&mut self) -> Option<io::Result<Event>> {
        let Self { ended, due, .. } = self;
        let due_now = async {
            match *due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = ended.wait_for(|ended| *ended) => return None,
            () = due_now => {}
        }
        let key = self.keys.next()?;
        // Real users do not wait for the screen either.
        self.due = self.due.zip(self.pause).map(|(due, pause)| due + pause);
        self.pressed.set(self.pressed.get().or_else(|| Some(Instant::now())));
        Some(Ok(Event::Key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE))))
    }

    fn release(&mut self) {}
}

/// Counts bytes and discards them.
#[derive(Clone, Default)]
struct Counted(Rc<Cell<u64>>);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.set(self.0.get() + bytes.len() as u64);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A null terminal.
struct Unseen<'a> {
    terminal: Terminal<CrosstermBackend<Counted>>,
    halves: Halves,
    bytes: Counted,
    first: bool,
    pressed: Rc<Cell<Option<Instant>>>,
    drawing: &'a mut Drawing,
}

impl<'a> Unseen<'a> {
    fn new(
        (width, height): (u16, u16),
        pressed: Rc<Cell<Option<Instant>>>,
        drawing: &'a mut Drawing,
    ) -> io::Result<Self> {
        let bytes = Counted::default();
        let viewport = Viewport::Fixed(Rect::new(0, 0, width, height));
        let terminal = Terminal::with_options(
            CrosstermBackend::new(bytes.clone()),
            TerminalOptions { viewport },
        )?;
        Ok(Self { terminal, halves: Halves::default(), bytes, first: true, pressed, drawing })
    }
}

impl DrawTarget for Unseen<'_> {
    fn draw(&mut self, app: &mut App) -> io::Result<()> {
        let began = Instant::now();
        let halves = &mut self.halves;
        self.terminal.draw(|frame| {
            views::draw(app, frame);
            halves.settle(frame.buffer_mut());
        })?;
        let drawing = &mut *self.drawing;
        drawing.frames.saturating_record(began.elapsed().as_micros() as u64);
        let bytes = self.bytes.0.take();
        if !std::mem::take(&mut self.first) {
            drawing.bytes += bytes;
            drawing.later += 1;
        }
        if let Some(pressed) = self.pressed.take() {
            drawing.keys.saturating_record(pressed.elapsed().as_micros() as u64);
        }
        Ok(())
    }

    fn suspend(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn recover(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    fn is_there(&self) -> bool {
        true
    }
}

fn spread(of: &Histogram<u64>) -> Spread {
    Spread {
        p50: of.value_at_quantile(0.5),
        p99: of.value_at_quantile(0.99),
        max: of.max(),
        n: of.len(),
    }
}
