//! Takes over the terminal, and restores it no matter how the program ends.

use std::{
    io::{self, Write, stdout},
    panic,
    sync::{
        Once,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use ratatui::{
    Terminal, TerminalOptions, Viewport,
    backend::CrosstermBackend,
    crossterm::{
        clipboard::CopyToClipboard,
        cursor::Show,
        event::{DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste},
        execute, queue,
        terminal::{
            BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
            LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
        },
    },
};
use rustix::process::Signal;

use super::{
    app::App,
    frame,
    terminal_writer::{self, Writer},
    widgets::Halves,
};

/// The console owns the terminal.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// A panic on another thread restored the terminal and was printed, while the console keeps running.
static LOST: AtomicBool = AtomicBool::new(false);

/// The drawing target.
pub(super) trait DrawTarget {
    fn draw(&mut self, app: &mut App) -> io::Result<()>;

    /// Whether the last frame is shown, so that another one can be drawn.
    fn is_idle(&self) -> bool {
        true
    }

    /// Waits until it is.
    fn idle(&mut self) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// Restores the terminal for the shell, stops the process until it is continued, and takes the terminal over again.
    fn suspend(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Takes the terminal over again if a panic on another thread restored it; returns whether it did.
    fn recover(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    /// Whether the terminal still exists.
    fn is_there(&self) -> bool {
        true
    }
}

/// Draws the console and sends each frame as one write: the backend flushes several times per frame, here into memory.
pub(super) struct Frames {
    terminal: Terminal<CrosstermBackend<Vec<u8>>>,
    halves: Halves,
}

impl Frames {
    pub(super) fn new(viewport: Viewport) -> io::Result<Self> {
        let backend = CrosstermBackend::new(Vec::new());
        let terminal = Terminal::with_options(backend, TerminalOptions { viewport })?;
        Ok(Self { terminal, halves: Halves::default() })
    }

    pub(super) fn draw(&mut self, app: &mut App, out: &mut impl Write) -> io::Result<()> {
        let halves = &mut self.halves;
        // Terminals show no partial frame; those without synchronized updates ignore the sequence.
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.draw(|frame| {
            frame::draw(app, frame);
            halves.settle(frame.buffer_mut());
        })?;
        queue!(self.terminal.backend_mut(), EndSynchronizedUpdate)?;
        let bytes = self.terminal.backend_mut().writer_mut();
        out.write_all(bytes)?;
        out.flush()?;
        let drawn = &mut app.terminal.drawn;
        drawn.last = bytes.len() as u64;
        drawn.frames += 1;
        drawn.bytes += drawn.last;
        bytes.clear();
        Ok(())
    }

    /// Invalidates the screen, so that all of it is redrawn. `Terminal::clear` would query the cursor position and race
    /// the event stream for the reply.
    fn forget(&mut self) -> io::Result<()> {
        let size = self.terminal.size()?;
        self.terminal.resize(size.into())
    }
}

/// The real terminal. It is restored on drop.
pub(super) struct Screen {
    frames: Frames,
    writer: Writer,
    /// Mouse capture is on.
    mouse: bool,
}

impl Screen {
    /// Takes over the terminal.
    pub(super) fn take() -> io::Result<Self> {
        restore_on_panic();
        LOST.store(false, Ordering::SeqCst);
        let frames = Frames::new(Viewport::Fullscreen)?;
        let writer = Writer::start()?;
        enter()?;
        Ok(Self { frames, writer, mouse: false })
    }

    /// Applies the mouse capture, and sends copied text to the clipboard.
    fn serve(&mut self, app: &mut App, out: &mut Vec<u8>) -> io::Result<()> {
        if app.terminal.mouse != self.mouse {
            if app.terminal.mouse {
                // Clicks and the wheel only: motion events would flood the input.
                out.write_all(b"\x1b[?1000h\x1b[?1006h")?;
            } else {
                execute!(out, DisableMouseCapture)?;
            }
            self.mouse = app.terminal.mouse;
        }
        if let Some(text) = app.terminal.clipboard.take() {
            execute!(out, CopyToClipboard::to_clipboard_from(text))?;
        }
        Ok(())
    }
}

impl DrawTarget for Screen {
    fn draw(&mut self, app: &mut App) -> io::Result<()> {
        if !TAKEN.load(Ordering::SeqCst) {
            // A panic is being printed: a backtrace takes time. `recover` causes the next frame.
            return Ok(());
        }
        let mut bytes = Vec::new();
        self.serve(app, &mut bytes)?;
        self.frames.draw(app, &mut bytes)?;
        self.writer.write(bytes)
    }

    fn is_idle(&self) -> bool {
        terminal_writer::is_idle()
    }

    async fn idle(&mut self) {
        self.writer.idle().await;
    }

    fn suspend(&mut self) -> io::Result<()> {
        leave();
        self.mouse = false;
        // Stops the whole process group, as the terminal itself does: a shell waits for the wrapper that started the
        // program, which must stop too. TSTP would only wake this process again.
        rustix::process::kill_current_process_group(Signal::STOP)?;
        // The stop may arrive a moment after the call returned.
        thread::sleep(Duration::from_millis(50));
        enter()?;
        self.frames.forget()
    }

    fn recover(&mut self) -> io::Result<bool> {
        let lost = LOST.swap(false, Ordering::SeqCst);
        if lost {
            self.mouse = false;
            enter()?;
            self.frames.forget()?;
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
    terminal_writer::finish();
    // Cleared explicitly for terminals without an alternate screen, without querying the cursor.
    let taken = enable_raw_mode().and_then(|()| {
        execute!(stdout(), EnterAlternateScreen, Clear(ClearType::All), EnableBracketedPaste)
    });
    taken.inspect_err(|_| leave())
}

/// Restores the terminal, once; every step is tried, whether or not the previous one failed.
fn leave() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        if terminal_writer::finish() {
            let mut out = stdout();
            // The last frame may be shown in part.
            let _ = execute!(out, EndSynchronizedUpdate);
            let _ = execute!(out, DisableBracketedPaste, DisableMouseCapture);
            let _ = execute!(out, LeaveAlternateScreen, Show);
        }
        let _ = disable_raw_mode();
    }
}

/// Makes a panic in any thread print on a restored terminal. If the console survives it, it takes the terminal over
/// again.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !TAKEN.load(Ordering::SeqCst) {
                return previous(info);
            }
            leave();
            previous(info);
            LOST.store(true, Ordering::SeqCst);
        }));
    });
}
