//! The task behind a node's locks: it renews, it listens, it gives back what was dropped.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, future::join_all};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{LockName, Locks, held::Held, reentrant::Later};
use crate::broker::Redis;

/// Locks in one renewal call.
const PAGE: usize = 100;
/// After a renewal that failed, and between two tries to subscribe.
const RETRY: Duration = Duration::from_millis(500);
/// What was dropped just before the end is still given back, for that long.
const LAST: Duration = Duration::from_secs(2);

/// One task a node and Redis; ends when its token is cancelled.
#[derive(Debug)]
pub struct Keeper {
    locks: Locks,
    redis: Redis,
    give_back: mpsc::UnboundedReceiver<Later>,
}

impl Keeper {
    pub(super) fn new(
        locks: Locks,
        redis: Redis,
        give_back: mpsc::UnboundedReceiver<Later>,
    ) -> Self {
        Self { locks, redis, give_back }
    }

    /// Works until `stop`. Locks that are still held then end with their lease.
    pub async fn run(self, stop: CancellationToken) {
        let Self { locks, redis, mut give_back } = self;
        tokio::join!(
            renew(&locks, &stop),
            listen(&locks, &redis, &stop),
            clean_up(&locks, &mut give_back, &stop),
        );
    }
}

/// The watchdog.
async fn renew(locks: &Locks, stop: &CancellationToken) {
    let every = locks.shared().timing.lease / 3;
    let mut pause = every;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => pause = every,
        }
        let held: Vec<Arc<Held>> = locks.watched().values().cloned().collect();
        for page in held.chunks(PAGE) {
            let renewed = tokio::select! {
                () = stop.cancelled() => return,
                renewed = locks.renew(page) => renewed,
            };
            if let Err(error) = renewed {
                tracing::warn!(%error, locks = held.len(), "locks could not be renewed");
                pause = RETRY.min(every);
                break;
            }
        }
    }
}

async fn listen(locks: &Locks, redis: &Redis, stop: &CancellationToken) {
    let shared = locks.shared();
    let listening = async {
        loop {
            match redis.subscribe(&shared.keys.lock_channel()).await {
                Ok(mut said) => {
                    shared.bells.set_listening(true);
                    while let Some(message) = said.next().await {
                        hear(locks, &message);
                    }
                    shared.bells.set_listening(false);
                }
                Err(error) => tracing::debug!(%error, "no subscription to locks"),
            }
            tokio::time::sleep(RETRY).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = listening => {}
    }
    shared.bells.set_listening(false);
}

fn hear(locks: &Locks, message: &str) {
    if let Some(name) = message.strip_prefix('+') {
        // Another deployment's name that we would not take is nobody's here.
        if let Ok(name) = LockName::new(name) {
            locks.shared().bells.ring(&name);
        }
    } else if let Some(owner) = message.strip_prefix('-') {
        let mut watched = locks.watched();
        let taken = watched.keys().find(|it| it.as_str() == owner).cloned();
        if let Some(held) = taken.and_then(|owner| watched.remove(&owner)) {
            held.mark_lost();
        }
    }
}

async fn clean_up(
    locks: &Locks,
    give_back: &mut mpsc::UnboundedReceiver<Later>,
    stop: &CancellationToken,
) {
    let mut page = Vec::new();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            _ = give_back.recv_many(&mut page, PAGE) => {}
        }
        join_all(page.drain(..).map(|later| locks.clean_up(later))).await;
    }
    while let Ok(later) = give_back.try_recv() {
        page.push(later);
    }
    let last = join_all(page.drain(..).map(|later| locks.clean_up(later)));
    if tokio::time::timeout(LAST, last).await.is_err() {
        tracing::warn!("locks that were dropped last end with their lease");
    }
}
