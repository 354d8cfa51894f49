//! What the console costs: the real loop on a played keyboard, drawing to a terminal that nobody sees.
//!
//! It measures; it must not know what is going on in the engine meanwhile.

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
    terminal::Stage,
    theme::Theme,
    views,
    widgets::Halves,
};

/// What the person presses: every view, and a walk through its rows.
static KEYS: [char; 12] = ['1', '2', 'j', 'k', '4', 'j', '5', 'j', '6', 'j', '8', 'j'];

/// A terminal and a person at it.
#[derive(Clone, Copy, Debug)]
pub struct Person {
    /// Cells across and down.
    pub size: (u16, u16),
    /// Between two keys; `None` for somebody who only watches.
    pub pause: Option<Duration>,
}

/// Microseconds, over `n` samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Half of them were no longer.
    pub p50: u64,
    /// Ninety-nine of a hundred.
    pub p99: u64,
    /// The longest.
    pub max: u64,
    /// How many there were.
    pub n: u64,
}

/// What a console drew, over as many runs as were added up.
#[derive(Clone, Debug)]
pub struct Drawing {
    frames: Histogram<u64>,
    keys: Histogram<u64>,
    /// Without those of first frames, which draw every cell.
    bytes: u64,
    /// Frames that these bytes are of.
    later: u64,
}

/// Its figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Drawn {
    /// From a picture of the engine to bytes for the terminal.
    pub frame_us: Spread,
    /// From a key to the last byte of the frame that answers it.
    pub key_us: Spread,
    /// Bytes of an average frame.
    pub bytes_a_frame: u64,
}

impl Drawing {
    /// Nothing drawn yet.
    ///
    /// # Errors
    /// The histogram takes no such bounds, which are fixed here.
    pub fn new() -> io::Result<Self> {
        let histogram = || Histogram::new_with_bounds(1, 60_000_000, 3).map_err(io::Error::other);
        Ok(Self { frames: histogram()?, keys: histogram()?, bytes: 0, later: 0 })
    }

    /// As figures.
    pub fn drawn(&self) -> Drawn {
        Drawn {
            frame_us: spread(&self.frames),
            key_us: spread(&self.keys),
            bytes_a_frame: self.bytes / self.later.max(1),
        }
    }
}

/// Runs a console for `person` until `until` comes, and adds what it drew to `drawing`.
///
/// # Errors
/// As the console itself.
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
    let mut stage = Unseen::new(person.size, Rc::clone(&pressed), drawing)?;
    let (end, ended) = watch::channel(false);
    let mut played = Played {
        keys: KEYS.iter().copied().cycle(),
        pause: person.pause,
        due: person.pause.map(|pause| Instant::now() + pause),
        pressed,
        ended,
    };
    let driving = drive(&mut app, &mut stage, &mut played, None);
    let ending = async {
        until.await;
        end.send_replace(true);
    };
    let (driven, ()) = tokio::join!(driving, ending);
    Ok(driven?)
}

/// Presses one key after the other, and leaves when it is told to.
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
        // A person does not wait for the screen either.
        self.due = self.due.zip(self.pause).map(|(due, pause)| due + pause);
        self.pressed.set(self.pressed.get().or_else(|| Some(Instant::now())));
        Some(Ok(Event::Key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE))))
    }

    fn release(&mut self) {}
}

/// Counts bytes and forgets them.
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

/// A terminal that nobody sees.
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

impl Stage for Unseen<'_> {
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
