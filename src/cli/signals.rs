//! Termination signals.

use seckill_model::message::text;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{CliError, Result};

/// Termination signals, handled from construction on: a signal during startup must not leave servers running.
pub(super) struct Signals([Signal; 4]);

impl Signals {
    pub(super) fn listen() -> Result<Self> {
        let listen =
            |kind| signal(kind).map_err(|error| CliError::failed(text!("cli-signals", error)));
        Ok(Self([
            listen(SignalKind::terminate())?,
            listen(SignalKind::interrupt())?,
            listen(SignalKind::hangup())?,
            listen(SignalKind::quit())?,
        ]))
    }

    /// Waits for one of them.
    pub(super) async fn received(&mut self) {
        let [term, int, hup, quit] = &mut self.0;
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
            _ = hup.recv() => {}
            _ = quit.recv() => {}
        }
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
