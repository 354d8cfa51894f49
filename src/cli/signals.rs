//! Termination signals.

use std::{
    fs,
    process::exit,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::{pending, select_all};
use seckill_model::{OsError, text};
use seckill_redis::{ManagedServer, Redis};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{CliError, Result, error::INTERRUPTED};

/// How long the end of a process that a signal ends waits for the embedded server.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);
/// Added to the number of the signal that ends a process, by the convention of shells.
const BY_SIGNAL: i32 = 128;

/// Whether the command handles signals: they do not end the process.
static HANDLED: AtomicBool = AtomicBool::new(false);
/// Whether it waits for an answer to a prompt, and not for work that a signal could end early.
static ASKING: AtomicBool = AtomicBool::new(false);
/// Whether a signal is ending the process.
static ENDING: AtomicBool = AtomicBool::new(false);
/// The embedded server that this process uses. Not kept alive: a temporary data directory is removed with its last user.
static EMBEDDED: OnceLock<Weak<ManagedServer>> = OnceLock::new();

/// Has a signal that would end the process stop the embedded server first, unless another process uses it. Until the command
/// handles signals itself, and while it waits for an answer to a prompt.
pub(super) fn guard(redis: &Redis) -> Result<()> {
    let Some(server) = redis.managed() else { return Ok(()) };
    if EMBEDDED.set(Arc::downgrade(server)).is_err() {
        return Ok(());
    }
    let ignored = ignored();
    for kind in KINDS {
        if is_ignored(ignored, kind) {
            continue;
        }
        let mut signals = listen(kind)?;
        // Runs to the end of the process, as the handlers do.
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if !HANDLED.load(Ordering::Acquire) || ASKING.load(Ordering::Acquire) {
                    leave(BY_SIGNAL + kind.as_raw_value()).await;
                }
            }
        });
    }
    Ok(())
}

/// If a signal is ending the process, waits for that end: the exit code is that of the signal, and the command prints nothing
/// more.
pub(super) async fn end_if_interrupted() {
    if ENDING.load(Ordering::Acquire) {
        pending::<()>().await;
    }
}

/// The command handles signals from now on.
pub(super) fn handled() {
    HANDLED.store(true, Ordering::Release);
}

/// Waits for an answer to a prompt.
pub(super) fn asking<T>(ask: impl FnOnce() -> T) -> T {
    ASKING.store(true, Ordering::Release);
    let answer = ask();
    ASKING.store(false, Ordering::Release);
    answer
}

/// Ends the process without the clean-up of its command, but not before the embedded server is released.
#[allow(
    clippy::disallowed_methods,
    reason = "the user asks for an exit without clean-up, and no console has the terminal"
)]
async fn leave(code: i32) -> ! {
    ENDING.store(true, Ordering::Release);
    if let Some(server) = EMBEDDED.get().and_then(Weak::upgrade) {
        // Otherwise, the next process that uses the data directory stops it.
        let _ = tokio::time::timeout(LEAVE_WITHIN, server.detach()).await;
    }
    exit(code)
}

/// Signals that end a process.
const KINDS: [SignalKind; 4] =
    [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()];

fn listen(kind: SignalKind) -> Result<Signal> {
    let failed = |error| CliError::failed(text!("cli-signals", error = OsError::of(&error)));
    signal(kind).map_err(failed)
}

fn is_ignored(ignored: u64, kind: SignalKind) -> bool {
    ignored >> (kind.as_raw_value() - 1) & 1 == 1
}

/// Termination signals, handled from construction on: a signal during startup must not leave servers running.
pub(super) struct Signals(Vec<Signal>);

impl Signals {
    pub(super) fn listen() -> Result<Self> {
        let ignored = ignored();
        // Runs to the end of the process: the handlers stay when this value is dropped.
        if !is_ignored(ignored, SignalKind::interrupt()) {
            tokio::spawn(exit_at_second_interrupt(listen(SignalKind::interrupt())?));
        }
        let kinds = KINDS.into_iter().filter(|it| !is_ignored(ignored, *it));
        let signals = Self(kinds.map(listen).collect::<Result<_>>()?);
        // Only now: until then, a signal would be lost.
        handled();
        Ok(signals)
    }

    /// Waits for one of them.
    pub(super) async fn received(&mut self) {
        if self.0.is_empty() {
            return pending().await;
        }
        select_all(self.0.iter_mut().map(|signal| Box::pin(signal.recv()))).await;
    }

    /// Waits for `work`, which a signal ends early: `stop` is cancelled, and the result is that of the part that was
    /// done.
    pub(super) async fn cancelling<T>(
        &mut self,
        stop: &CancellationToken,
        work: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(work);
        tokio::select! {
            done = &mut work => done,
            () = self.received() => {
                stop.cancel();
                work.await
            }
        }
    }
}

/// The signals that the process ignores, one bit each: those that its starter had it ignore, as `nohup` does with SIGHUP and
/// a shell without job control with SIGINT for a command in the background. None where `/proc` is not Linux's.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Ends the process at the second Ctrl-C, whatever it waits for: after the first one, a command ends early but
/// cleanly.
async fn exit_at_second_interrupt(mut interrupts: Signal) {
    if interrupts.recv().await.is_some() && interrupts.recv().await.is_some() {
        leave(INTERRUPTED.into()).await;
    }
}
