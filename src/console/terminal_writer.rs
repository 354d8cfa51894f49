//! Writes frames on a thread of its own: a terminal that is not read (a stopped multiplexer, a dead connection) delays nothing
//! but itself.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::AsFd,
    fs::{Mode, OFlags, open},
    io::Errno,
    termios::{QueueSelector, tcflush, ttyname},
};
use tokio::sync::watch;

/// A frame is being written, or waits for that.
static BUSY: AtomicBool = AtomicBool::new(false);
/// What is left of the frame is discarded.
static DISCARDS: AtomicBool = AtomicBool::new(false);

/// How long the terminal gets at the end to take the frame in hand, which it needs milliseconds for.
const FINISH_WITHIN: Duration = Duration::from_millis(300);
/// How long it may take to discard the rest, and what the terminal has not read.
const DISCARD_WITHIN: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(5);
/// How often a full terminal is tried again: a terminal whose output was discarded does not report that it has room.
const RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Hands frames to the thread, one at a time. The thread ends once this is dropped, at the latest with the next
/// [`finish`].
pub(super) struct Writer {
    frames: SyncSender<Vec<u8>>,
    done: watch::Receiver<io::Result<()>>,
}

impl Writer {
    pub(super) fn start() -> io::Result<Self> {
        let terminal = reopened()?;
        let (frames, waiting) = sync_channel(1);
        let (finished, done) = watch::channel(Ok(()));
        let write = move || write_each(&waiting, &terminal, &finished);
        thread::Builder::new().name("terminal".to_owned()).spawn(write)?;
        Ok(Self { frames, done })
    }

    /// Waits until it takes another frame.
    pub(super) async fn idle(&mut self) {
        while !is_idle() {
            if self.done.changed().await.is_err() {
                return;
            }
        }
    }

    /// Hands over a frame; only while it is [idle](is_idle).
    ///
    /// # Errors
    /// An earlier frame could not be written.
    pub(super) fn write(&mut self, frame: Vec<u8>) -> io::Result<()> {
        if let Err(error) = &*self.done.borrow_and_update() {
            return Err(error.kind().into());
        }
        BUSY.store(true, Ordering::SeqCst);
        // Otherwise its thread has ended with an error, which the next frame reports.
        if self.frames.try_send(frame).is_err() {
            BUSY.store(false, Ordering::SeqCst);
        }
        Ok(())
    }
}

/// Whether another frame can be handed over.
pub(super) fn is_idle() -> bool {
    !BUSY.load(Ordering::SeqCst)
}

/// The terminal once more, without blocking writes; those of the standard output are shared with the shell.
fn reopened() -> io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let named = ttyname(rustix::stdio::stdout(), Vec::new());
    let named = named.and_then(|name| open(&name, flags, Mode::empty()));
    // After `su`, the device belongs to another user; this is the same terminal.
    Ok(named.or_else(|_| open("/dev/tty", flags, Mode::empty()))?)
}

fn write_each(
    frames: &Receiver<Vec<u8>>,
    terminal: &OwnedFd,
    done: &watch::Sender<io::Result<()>>,
) {
    while let Ok(frame) = frames.recv() {
        let written = write_all(terminal, &frame);
        BUSY.store(false, Ordering::SeqCst);
        let failed = written.is_err();
        if done.send(written).is_err() || failed {
            return;
        }
    }
}

fn write_all(terminal: &OwnedFd, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() && !DISCARDS.load(Ordering::SeqCst) {
        match rustix::io::write(terminal, rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(Errno::AGAIN) => _ = has_room(terminal, &RETRY),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Waits until the terminal takes output. If it does not read, what it has not read yet is discarded: it would hold up the
/// end of the program. Returns whether it takes output now.
pub(super) fn finish() -> bool {
    let is_done = |within: Duration, meanwhile: fn()| {
        let until = Instant::now() + within;
        while !is_free() && Instant::now() < until {
            meanwhile();
            thread::sleep(POLL);
        }
        is_free()
    };
    let is_done = is_done(FINISH_WITHIN, || {}) || {
        DISCARDS.store(true, Ordering::SeqCst);
        is_done(DISCARD_WITHIN, || _ = tcflush(rustix::stdio::stdout(), QueueSelector::OFlush))
    };
    DISCARDS.store(false, Ordering::SeqCst);
    is_done
}

fn is_free() -> bool {
    is_idle() && has_room(rustix::stdio::stdout(), &Timespec::default())
}

/// Whether the terminal takes output within this time. One that is gone does, with an error.
fn has_room(terminal: impl AsFd, within: &Timespec) -> bool {
    let mut ready = [PollFd::new(&terminal, PollFlags::OUT)];
    !matches!(poll(&mut ready, Some(within)), Ok(0))
}
