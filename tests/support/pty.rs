//! The real binary in a real pseudo-terminal: a test reads its screen and sends keys.

use std::{
    ffi::OsStr,
    io::{Read, Write},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use portable_pty::{
    Child, CommandBuilder, ExitStatus, MasterPty, PtySize, SlavePty, native_pty_system,
};
use rustix::{
    fs::{Mode, OFlags},
    process::{Pid, Signal, kill_process},
    termios::{LocalModes, tcgetattr},
};
use vt100::{MouseProtocolMode, Screen};

use super::{PATIENCE, Seckill, came_true, process::BINARY};

/// Escape sequences of keys that are not characters.
pub mod key {
    pub const ENTER: &str = "\r";
    pub const ESC: &str = "\x1b";
    pub const TAB: &str = "\t";
    pub const BACKSPACE: &str = "\x7f";
    pub const UP: &str = "\x1b[A";
    pub const DOWN: &str = "\x1b[B";
    pub const RIGHT: &str = "\x1b[C";
    pub const LEFT: &str = "\x1b[D";
    pub const HOME: &str = "\x1b[H";
    pub const END: &str = "\x1b[F";
    pub const PAGE_UP: &str = "\x1b[5~";
    pub const PAGE_DOWN: &str = "\x1b[6~";
    pub const DELETE: &str = "\x1b[3~";
    pub const CTRL_C: &str = "\x03";
    pub const CTRL_D: &str = "\x04";
    pub const CTRL_L: &str = "\x0c";
    pub const CTRL_U: &str = "\x15";
    pub const CTRL_Z: &str = "\x1a";
}

/// The state in which a program left its terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    pub alternate_screen: bool,
    pub cursor_hidden: bool,
    pub bracketed_paste: bool,
    pub mouse: bool,
    pub application_keys: bool,
    /// The terminal edits lines and echoes keys, as at its start.
    pub cooked: bool,
}

impl Terminal {
    /// The state that every program has to restore.
    pub const RESTORED: Self = Self {
        alternate_screen: false,
        cursor_hidden: false,
        bracketed_paste: false,
        mouse: false,
        application_keys: false,
        cooked: true,
    };
}

/// A program in a terminal; killed when it is dropped.
pub struct Pty {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keyboard: Arc<Mutex<Box<dyn Write + Send>>>,
    shown: Arc<Shown>,
    reader: Option<JoinHandle<()>>,
    // Last, so that the program is gone before its home.
    own_sandbox: Option<Seckill>,
}

impl Pty {
    /// Starts the binary with a separate home directory.
    pub fn spawn(args: &[&str], cols: u16, rows: u16, envs: &[(&str, &str)]) -> Self {
        Self::spawn_program(BINARY, args, cols, rows, envs)
    }

    /// Starts any program with a separate home directory.
    pub fn spawn_program(
        program: &str,
        args: &[&str],
        cols: u16,
        rows: u16,
        envs: &[(&str, &str)],
    ) -> Self {
        let sandbox = Seckill::new();
        let mut pty = Self::open(program.as_ref(), args, cols, rows, &sandbox, envs);
        pty.own_sandbox = Some(sandbox);
        pty
    }

    /// Starts any program in the environment of `sandbox`.
    pub fn open(
        program: &OsStr,
        args: &[impl AsRef<OsStr>],
        cols: u16,
        rows: u16,
        sandbox: &Seckill,
        envs: &[(&str, &str)],
    ) -> Self {
        let pair = native_pty_system().openpty(size(cols, rows)).unwrap();
        let mut command = CommandBuilder::new(program);
        command.args(args);
        command.cwd(env!("CARGO_MANIFEST_DIR"));
        for (name, value) in sandbox.environment() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            }
        }
        command.env("TERM", "xterm-256color");
        for (name, value) in envs {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).unwrap();
        // Only the program holds the other end now, so its exit ends the output.
        drop(pair.slave);

        let keyboard = Arc::new(Mutex::new(pair.master.take_writer().unwrap()));
        let shown = Arc::new(Shown::new(cols, rows));
        let reader = pair.master.try_clone_reader().unwrap();
        let reader = {
            let (shown, keyboard) = (Arc::clone(&shown), Arc::clone(&keyboard));
            std::thread::spawn(move || shown.read_all(reader, &keyboard))
        };
        let master = pair.master;
        Self { child, master, keyboard, shown, reader: Some(reader), own_sandbox: None }
    }

    /// Types text, or one of [`key`].
    pub fn send(&self, keys: &str) {
        let mut keyboard = self.keyboard.lock().unwrap();
        keyboard.write_all(keys.as_bytes()).unwrap();
        keyboard.flush().unwrap();
    }

    /// Types text that the program may exit before reading, and waits until it is read; returns whether it still runs.
    #[track_caller]
    pub fn send_to_the_end(&self, keys: &[u8], limit: Duration) -> bool {
        // At most what a terminal buffers for a program that does not read.
        for piece in keys.chunks(2_000) {
            let typed = self.keyboard.lock().unwrap().write_all(piece);
            let ended = || self.shown.lock().ended;
            let read = || ended() || self.unread().is_none_or(|left| left == 0);
            assert!(
                came_true(limit, read),
                "{:?} of what is typed are not read. The last screen:\n{}",
                self.unread(),
                framed(&self.screen())
            );
            if typed.is_err() || ended() {
                return false;
            }
        }
        true
    }

    /// Runs `meanwhile` while the output of the program is not read, beyond a few kilobytes. The screen cannot be read.
    pub fn unread_while<T>(&mut self, meanwhile: impl FnOnce(&mut Self) -> T) -> T {
        let shown = Arc::clone(&self.shown);
        let _unread = shown.lock();
        meanwhile(self)
    }

    /// Whether the program has exited.
    pub fn has_exited(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Number of unread input bytes; `None` without a terminal.
    fn unread(&self) -> Option<u64> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let tty = rustix::fs::open(self.master.tty_name()?, flags, Mode::empty()).ok()?;
        rustix::io::ioctl_fionread(tty).ok()
    }

    /// Waits until the text of the screen satisfies `holds`, and returns it.
    #[track_caller]
    pub fn wait_for(
        &self,
        limit: Duration,
        what: &str,
        mut holds: impl FnMut(&str) -> bool,
    ) -> String {
        let deadline = Instant::now() + limit;
        let mut state = self.shown.lock();
        loop {
            let text = state.parser.screen().contents();
            if holds(&text) {
                return text;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || state.ended {
                let why = if state.ended { "the program ended" } else { "the time is over" };
                drop(state);
                panic!("waited in vain for {what}: {why}. The last screen:\n{}", framed(&text));
            }
            state = self.shown.changed.wait_timeout(state, left).unwrap().0;
        }
    }

    /// Confirms the dialog on the screen. A dialog ignores keys just after it opened, so this retries.
    #[track_caller]
    pub fn say_yes(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            self.send("y");
            let again = Instant::now() + Duration::from_millis(1_500);
            let mut state = self.shown.lock();
            loop {
                if !state.parser.screen().contents().contains("[ Cancel ]") {
                    return;
                }
                let left = again.saturating_duration_since(Instant::now());
                if left.is_zero() || state.ended {
                    break;
                }
                state = self.shown.changed.wait_timeout(state, left).unwrap().0;
            }
        }
        panic!("the question stays");
    }

    /// Waits until the screen shows `text` on one line.
    #[track_caller]
    pub fn wait_for_text(&self, text: &str) -> String {
        self.wait_for(PATIENCE, &format!("{text:?}"), |screen| screen.contains(text))
    }

    /// The text on the screen now.
    pub fn screen(&self) -> String {
        self.with_screen(Screen::contents)
    }

    /// Inspects the screen: colours, cursor, attributes.
    pub fn with_screen<T>(&self, look: impl FnOnce(&Screen) -> T) -> T {
        look(self.shown.lock().parser.screen())
    }

    /// Every byte written by the program, for sequences that are not visible on the screen.
    pub fn output(&self) -> Vec<u8> {
        self.shown.lock().output.clone()
    }

    /// The output in chunks with the time since the start.
    pub fn recorded(&self) -> Vec<(Duration, Vec<u8>)> {
        let state = self.shown.lock();
        let mut begin = 0;
        let piece = |(at, end): &(Duration, usize)| {
            let piece = state.output[begin..*end].to_vec();
            begin = *end;
            (*at, piece)
        };
        state.pieces.iter().map(piece).collect()
    }

    /// Resizes the window; the program gets SIGWINCH.
    pub fn resize(&self, cols: u16, rows: u16) {
        let mut shown = self.shown.lock();
        // Text that wraps in one row, and a wide character in one column, make the emulator panic.
        let (kept_rows, kept_cols) = (rows.max(2), cols.max(2));
        let screen = shown.parser.screen();
        let edge = |row| screen.cell(row, kept_cols - 1).is_some_and(vt100::Cell::is_wide);
        if (0..screen.size().0).any(edge) {
            // The emulator keeps half of a wide character cut by the new edge and fails on it later. The program
            // redraws everything anyway.
            shown.parser.process(b"\x1b[2J");
        }
        shown.parser.screen_mut().set_size(kept_rows, kept_cols);
        drop(shown);
        self.master.resize(size(cols, rows)).unwrap();
    }

    pub fn pid(&self) -> u32 {
        self.child.process_id().expect("the program has a pid")
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).unwrap();
    }

    /// Waits until the program has exited and all of its output is on the screen.
    #[track_caller]
    pub fn exit_status(&mut self, limit: Duration) -> ExitStatus {
        let mut status = None;
        came_true(limit, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let Some(status) = status else {
            panic!("still running after {limit:?}. The last screen:\n{}", framed(&self.screen()))
        };
        // A child of the program that keeps the terminal open would block forever.
        came_true(Duration::from_secs(5), || self.shown.lock().ended);
        status
    }

    /// The current state of the terminal; used after [`Pty::exit_status`].
    pub fn terminal(&self) -> Terminal {
        let tty = self.master.tty_name().expect("the terminal has a name");
        // NOCTTY, so that it does not become the controlling terminal of the test.
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let tty = rustix::fs::open(tty, flags, Mode::empty()).unwrap();
        let modes = tcgetattr(tty).unwrap().local_modes;
        self.with_screen(|screen| Terminal {
            alternate_screen: screen.alternate_screen(),
            cursor_hidden: screen.hide_cursor(),
            bracketed_paste: screen.bracketed_paste(),
            mouse: screen.mouse_protocol_mode() != MouseProtocolMode::None,
            application_keys: screen.application_cursor() || screen.application_keypad(),
            cooked: modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG),
        })
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // Not `Child::kill`: that sends SIGHUP, which a program may handle slowly.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let pid = self.child.process_id().and_then(|pid| i32::try_from(pid).ok());
            if let Some(pid) = pid.and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
            let _ = self.child.wait();
        }
        if self.shown.lock().ended
            && let Some(reader) = self.reader.take()
        {
            let _ = reader.join();
        }
    }
}

fn size(cols: u16, rows: u16) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}

/// The screen with its border, so that a failed test shows trailing space and size.
fn framed(text: &str) -> String {
    text.lines().fold(String::new(), |all, line| all + "│" + line + "\n")
}

/// The screen, shared with the reading thread.
struct Shown {
    state: Mutex<State>,
    changed: Condvar,
    started: Instant,
}

struct State {
    parser: vt100::Parser<Answers>,
    output: Vec<u8>,
    /// Time and end offset of each chunk of output.
    pieces: Vec<(Duration, usize)>,
    ended: bool,
}

impl Shown {
    fn new(cols: u16, rows: u16) -> Self {
        let parser = vt100::Parser::new_with_callbacks(rows, cols, 0, Answers::default());
        let state = State { parser, output: Vec::new(), pieces: Vec::new(), ended: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), started: Instant::now() }
    }

    /// Ignores poisoning: readers change nothing.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_all(&self, mut from: impl Read, keyboard: &Mutex<Box<dyn Write + Send>>) {
        let mut buffer = [0; 8192];
        // Linux reports a closed terminal as an error, not as end of file.
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let answers = {
                let mut state = self.lock();
                state.output.extend_from_slice(&buffer[..read]);
                let end = state.output.len();
                state.pieces.push((self.started.elapsed(), end));
                state.parser.process(&buffer[..read]);
                std::mem::take(&mut state.parser.callbacks_mut().0)
            };
            if !answers.is_empty() {
                let mut keyboard = keyboard.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = keyboard.write_all(&answers).and_then(|()| keyboard.flush());
            }
            self.changed.notify_all();
        }
        self.lock().ended = true;
        self.changed.notify_all();
    }
}

/// Replies of a terminal to queries; without them the program would wait.
#[derive(Default)]
struct Answers(Vec<u8>);

impl vt100::Callbacks for Answers {
    fn unhandled_csi(
        &mut self,
        screen: &mut Screen,
        i1: Option<u8>,
        _: Option<u8>,
        params: &[&[u16]],
        c: char,
    ) {
        let first = params.first().and_then(|it| it.first()).copied().unwrap_or(0);
        match (i1, c, first) {
            // Cursor position.
            (None, 'n', 6) => {
                let (row, col) = screen.cursor_position();
                self.0.extend(format!("\x1b[{};{}R", row + 1, col + 1).bytes());
            }
            // Device status.
            (None, 'n', 5) => self.0.extend(b"\x1b[0n"),
            // Device attributes: a VT220 with colours.
            (None, 'c', 0) => self.0.extend(b"\x1b[?62;22c"),
            _ => {}
        }
    }

    fn unhandled_osc(&mut self, _: &mut Screen, params: &[&[u8]]) {
        match params {
            // Colours: a dark terminal.
            [b"10", b"?"] => self.0.extend(b"\x1b]10;rgb:eeee/eeee/eeee\x1b\\"),
            [b"11", b"?"] => self.0.extend(b"\x1b]11;rgb:0000/0000/0000\x1b\\"),
            _ => {}
        }
    }
}
