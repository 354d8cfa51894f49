//! Termination signals.

use futures::future::select_all;
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
        // Runs to the end of the process: the handlers stay when this value is dropped.
        tokio::spawn(exit_at_second_interrupt(listen(SignalKind::interrupt())?));
        let kinds = [
            SignalKind::terminate(),
            SignalKind::interrupt(),
            SignalKind::hangup(),
            SignalKind::quit(),
        ];
        Ok(Self(kinds.into_iter().map(listen).collect::<Result<_>>()?))
    }

    /// Waits for one of them.
    pub(super) async fn received(&mut self) {
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
