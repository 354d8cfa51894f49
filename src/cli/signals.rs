//! Termination signals.

use std::fs;

use futures::future::{pending, select_all};
use seckill_model::{OsError, text};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{CliError, Result, error::INTERRUPTED};

/// Termination signals, handled from construction on: a signal during startup must not leave servers running.
pub(super) struct Signals(Vec<Signal>);

impl Signals {
    pub(super) fn listen() -> Result<Self> {
        let failed = |error| CliError::failed(text!("cli-signals", error = OsError::of(&error)));
        let listen = |kind| signal(kind).map_err(failed);
        let ignored = ignored();
        let is_ignored = |kind: &SignalKind| ignored >> (kind.as_raw_value() - 1) & 1 == 1;
        // Runs to the end of the process: the handlers stay when this value is dropped.
        if !is_ignored(&SignalKind::interrupt()) {
            tokio::spawn(exit_at_second_interrupt(listen(SignalKind::interrupt())?));
        }
        let kinds = [
            SignalKind::terminate(),
            SignalKind::interrupt(),
            SignalKind::hangup(),
            SignalKind::quit(),
        ];
        let kinds = kinds.into_iter().filter(|kind| !is_ignored(kind));
        Ok(Self(kinds.map(listen).collect::<Result<_>>()?))
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
#[allow(
    clippy::disallowed_methods,
    reason = "the user asks for an exit without clean-up, and no console has the terminal"
)]
async fn exit_at_second_interrupt(mut interrupts: Signal) {
    if interrupts.recv().await.is_some() && interrupts.recv().await.is_some() {
        std::process::exit(INTERRUPTED.into());
    }
}
