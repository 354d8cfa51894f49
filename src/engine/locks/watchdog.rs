//! Background task of a node's locks: renews, listens, and releases what was dropped.

use std::{iter::once, sync::Arc, time::Duration};

use futures::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, join_all},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    LockName, Locks,
    reentrant::{Cleanup, Held},
};

/// Locks in one renewal call.
const PAGE: usize = 100;
/// Delay after a failed renewal, and between attempts to subscribe.
const RETRY: Duration = Duration::from_millis(500);
/// Delay before the first subscription; until then waiters poll.
const LISTEN_AFTER: Duration = Duration::from_millis(100);
/// Time limit for pending releases at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// One task per node and Redis; ends when its token is cancelled.
#[derive(Debug)]
pub struct Watchdog {
    locks: Locks,
    cleanups: mpsc::Receiver<Cleanup>,
}

impl Watchdog {
    pub(super) fn new(locks: Locks, cleanups: mpsc::Receiver<Cleanup>) -> Self {
        Self { locks, cleanups }
    }

    /// Runs until `stop`. Locks still held then end with their lease.
    pub fn run(self, stop: CancellationToken) -> BoxFuture<'static, ()> {
        let Self { locks, mut cleanups } = self;
        async move {
            tokio::join!(
                renew(&locks, &stop),
                listen(&locks, &stop),
                clean_up(&locks, &mut cleanups, &stop),
            );
        }
        .boxed()
    }
}

async fn renew(locks: &Locks, stop: &CancellationToken) {
    let every = locks.shared.timing.lease / 3;
    let mut pause = every;
    while stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
        pause = every;
        let held: Vec<Arc<Held>> = locks.watched().values().cloned().collect();
        let mut pages = held.chunks(PAGE);
        // One call also without a lock: it removes what dead holders left in the index.
        for page in once(pages.next().unwrap_or_default()).chain(pages) {
            let Some(renewed) = stop.run_until_cancelled(locks.renew(page)).await else { return };
            if let Err(error) = renewed {
                tracing::warn!(%error, locks = page.len(), "locks could not be renewed");
                pause = RETRY.min(every);
                break;
            }
        }
    }
}

async fn listen(locks: &Locks, stop: &CancellationToken) {
    let shared = &locks.shared;
    let listening = async {
        // Other requests have priority while the program starts.
        tokio::time::sleep(LISTEN_AFTER).await;
        loop {
            match shared.redis.subscribe(&shared.keys.lock_channel()).await {
                Ok(mut messages) => {
                    shared.bells.set_listening(true);
                    while let Some(message) = messages.next().await {
                        on_message(locks, &message);
                    }
                    shared.bells.set_listening(false);
                }
                Err(error) => tracing::debug!(%error, "cannot subscribe to lock messages"),
            }
            tokio::time::sleep(RETRY).await;
        }
    };
    stop.run_until_cancelled(listening).await;
    shared.bells.set_listening(false);
}

fn on_message(locks: &Locks, message: &str) {
    if let Some(name) = message.strip_prefix('+') {
        // A name that is invalid here belongs to another deployment.
        if let Ok(name) = LockName::new(name) {
            locks.shared.bells.ring(&name);
        }
    } else if let Some(owner) = message.strip_prefix('-')
        && let Some(held) = locks.watched().remove(owner)
    {
        held.mark_lost();
    }
}

async fn clean_up(locks: &Locks, cleanups: &mut mpsc::Receiver<Cleanup>, stop: &CancellationToken) {
    let mut page = Vec::new();
    while !stop.is_cancelled() {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            // Releases that failed are retried.
            () = tokio::time::sleep(RETRY), if !page.is_empty() => {}
            _ = cleanups.recv_many(&mut page, PAGE), if page.is_empty() => {}
        }
        page = retry(locks, page).await;
    }
    let last = async {
        while let Ok(later) = cleanups.try_recv() {
            page.push(later);
        }
        retry(locks, page).await
    };
    match tokio::time::timeout(SHUTDOWN_TIMEOUT, last).await {
        Ok(left) if left.is_empty() => {}
        _ => tracing::warn!("some locks were not released; they expire with their lease"),
    }
}

/// Returns those to retry; an expired lease needs no release.
async fn retry(locks: &Locks, page: Vec<Cleanup>) -> Vec<Cleanup> {
    let left = join_all(page.into_iter().map(|later| locks.clean_up(later))).await;
    left.into_iter().flatten().filter(|later| !later.is_over()).collect()
}
