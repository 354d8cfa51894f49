//! The terminal itself: taken over, given back, and given back in every way that the program
//! can end. What is drawn is not known here.

use std::{
    io::{self, Write, stdout},
    mem::ManuallyDrop,
    panic,
    sync::{
        Once,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    crossterm::{
        clipboard::CopyToClipboard,
        cursor::Show,
        event::{
            DisableBracketedPaste, DisableFocusChange, DisableMouseCapture, EnableBracketedPaste,
        },
        execute,
        terminal::{
            Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
            enable_raw_mode,
        },
    },
};
use rustix::process::Signal;

use super::{app::App, frame_writer::Ink, views, widgets::Halves};

/// The terminal is in our hands.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// A panic elsewhere gave the terminal back while the console goes on.
static LOST: AtomicBool = AtomicBool::new(false);
/// That panic is being told: a backtrace takes its time.
static TELLING: AtomicBool = AtomicBool::new(false);
/// For which the console waits at most.
const TOLD_WITHIN: Duration = Duration::from_secs(5);

/// Where pictures go.
pub(super) trait Stage {
    fn draw(&mut self, app: &mut App) -> io::Result<()>;

    /// Gives the terminal to the shell, sleeps until somebody wakes the program, takes it again.
    fn suspend(&mut self) -> io::Result<()>;

    /// Takes the terminal again if a panic elsewhere gave it back; says whether it did.
    fn recover(&mut self) -> io::Result<bool>;

    /// Whether there is still a terminal at the other end.
    fn is_there(&self) -> bool;
}

/// The real terminal. Dropping it gives it back.
pub(super) struct Screen {
    /// Never dropped: its drop complains on standard error when the terminal is gone, and where
    /// that is the same terminal the complaint panics. [`leave`] does all that is needed.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Ink>>>,
    ink: Ink,
    halves: Halves,
    /// The mouse was asked for.
    mouse: bool,
}

impl Screen {
    /// Takes the terminal over.
    pub(super) fn take() -> io::Result<Self> {
        restore_on_panic();
        LOST.store(false, Ordering::SeqCst);
        let ink = Ink::default();
        let terminal = Terminal::new(CrosstermBackend::new(ink.clone()))?;
        enter()?;
        Ok(Self {
            terminal: ManuallyDrop::new(terminal),
            ink,
            halves: Halves::default(),
            mouse: false,
        })
    }

    /// Takes or gives back the mouse, and hands over what was copied.
    fn serve(&mut self, app: &mut App) -> io::Result<()> {
        let mut out = stdout();
        if app.mouse != self.mouse {
            if app.mouse {
                // Clicks and the wheel; each move would be a flood of reports that nobody reads.
                out.write_all(b"\x1b[?1000h\x1b[?1006h")?;
            } else {
                execute!(out, DisableMouseCapture)?;
            }
            self.mouse = app.mouse;
        }
        if let Some(text) = app.clipboard.take() {
            execute!(out, CopyToClipboard::to_clipboard_from(text))?;
        }
        out.flush()
    }

    /// Forgets what was on the screen, so that all of it is drawn again. `Terminal::clear` would
    /// ask the terminal for its cursor and race the event stream for the answer.
    fn forget(&mut self) -> io::Result<()> {
        let size = self.terminal.size()?;
        self.terminal.resize(size.into())
    }
}

impl Stage for Screen {
    fn draw(&mut self, app: &mut App) -> io::Result<()> {
        self.serve(app)?;
        let halves = &mut self.halves;
        self.terminal
            .draw(|frame| {
                views::draw(app, frame);
                halves.settle(frame.buffer_mut());
            })
            .map(|_| ())?;
        self.ink.send(&mut stdout().lock(), &mut app.drawn)
    }

    fn suspend(&mut self) -> io::Result<()> {
        leave();
        self.mouse = false;
        // The whole group, as the terminal itself does it: a shell waits for the wrapper that
        // started us, and that one must stop too. TSTP would only wake ourselves again.
        rustix::process::kill_current_process_group(Signal::STOP)?;
        // The stop may come a moment after the call returned.
        thread::sleep(Duration::from_millis(50));
        enter()?;
        self.forget()
    }

    fn recover(&mut self) -> io::Result<bool> {
        let lost = LOST.swap(false, Ordering::SeqCst);
        if lost {
            let since = Instant::now();
            while TELLING.load(Ordering::SeqCst) && since.elapsed() < TOLD_WITHIN {
                thread::sleep(Duration::from_millis(10));
            }
            self.mouse = false;
            enter()?;
            self.forget()?;
        }
        Ok(lost)
    }

    fn is_there(&self) -> bool {
        rustix::termios::isatty(rustix::stdio::stdin())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

fn enter() -> io::Result<()> {
    TAKEN.store(true, Ordering::SeqCst);
    // Cleared for terminals that have no alternate screen; this way nobody is asked for the cursor.
    let taken = enable_raw_mode().and_then(|()| {
        execute!(stdout(), EnterAlternateScreen, Clear(ClearType::All), EnableBracketedPaste)
    });
    if taken.is_err() {
        leave();
    }
    taken
}

/// Gives the terminal back, once; every step is tried, whatever became of the one before.
fn leave() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let mut out = stdout();
        // Focus reports are none of ours, and switching them off harms nobody.
        let _ = execute!(out, DisableBracketedPaste, DisableFocusChange, DisableMouseCapture);
        let _ = execute!(out, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
        let _ = out.flush();
    }
}

/// A panic in any thread prints on a terminal in order. If the console outlives it, it takes the
/// terminal again.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !TAKEN.load(Ordering::SeqCst) {
                return previous(info);
            }
            TELLING.store(true, Ordering::SeqCst);
            leave();
            LOST.store(true, Ordering::SeqCst);
            previous(info);
            TELLING.store(false, Ordering::SeqCst);
        }));
    });
}
