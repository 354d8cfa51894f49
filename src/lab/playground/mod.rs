//! The playgrounds: a lock, streams and schedules, live, on temporary servers.
//!
//! Nothing is simulated: each event is a result of a call to the engine, a run of its scheduler, or what Redis reports.

pub mod lock;
pub mod schedule;
pub mod streams;
#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use crate::{Database, LabError, Result, shop::Shop};

/// Events of different sources are put in order if they arrive within this time of each other.
const REORDER: Duration = Duration::from_millis(25);
const TICK: Duration = Duration::from_millis(5);
/// Events that wait to be shown: a minute, which is the longest recording, has far fewer.
const WAITING: usize = 4_096;

/// A lane of the timeline.
#[derive(Clone, Debug, Serialize)]
pub struct Lane {
    /// A short name.
    pub name: &'static str,
    /// What is seen in it, in the current language.
    pub title: String,
}

/// What happened in a lane.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// When, in microseconds since the start.
    pub at_us: i64,
    /// Position of the lane.
    pub lane: usize,
    /// What happened, in the current language; a command to Redis as it was sent.
    pub text: String,
    /// Whether the lane holds the lock or runs the job from now on, if that changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy: Option<bool>,
}

/// What happened, in order.
#[derive(Clone, Debug, Serialize)]
pub struct Recording {
    /// The lanes, from the left.
    pub lanes: Vec<Lane>,
    /// The events in the order of their times.
    pub events: Vec<Event>,
}

impl Recording {
    /// The times during which a lane held the lock or ran the job, as begin and end; the last one may not have ended.
    pub fn busy(&self, lane: usize) -> Vec<(i64, Option<i64>)> {
        let mut spans: Vec<(i64, Option<i64>)> = Vec::new();
        for event in self.events.iter().filter(|it| it.lane == lane) {
            match (event.busy, spans.last_mut()) {
                (Some(true), _) => spans.push((event.at_us, None)),
                (Some(false), Some(last)) if last.1.is_none() => last.1 = Some(event.at_us),
                _ => {}
            }
        }
        spans
    }
}

fn now_us() -> i64 {
    Timestamp::now().as_microsecond()
}

/// Where the sources of a recording report what happens.
#[derive(Clone, Debug)]
struct Log {
    zero_us: i64,
    events: Sender<Event>,
}

impl Log {
    fn starting_at(zero_us: i64) -> (Self, Receiver<Event>) {
        let (events, received) = channel(WAITING);
        (Self { zero_us, events }, received)
    }

    fn say(&self, lane: usize, text: String, busy: Option<bool>) {
        self.say_at(now_us(), lane, text, busy);
    }

    fn say_at(&self, at_us: i64, lane: usize, text: String, busy: Option<bool>) {
        // A playground that was cancelled has no receiver.
        let _ = self.events.try_send(Event { at_us: at_us - self.zero_us, lane, text, busy });
    }
}

/// Shows the events in the order of their times until all sources have ended, and returns them.
async fn follow(
    zero_us: i64,
    mut received: Receiver<Event>,
    mut show: impl FnMut(&Event),
) -> Vec<Event> {
    let (mut shown, mut pending): (Vec<Event>, Vec<Event>) = Default::default();
    let mut is_open = true;
    while is_open || !pending.is_empty() {
        tokio::select! {
            event = received.recv(), if is_open => match event {
                Some(event) => pending.push(event),
                None => is_open = false,
            },
            () = sleep(TICK), if !pending.is_empty() => {}
        }
        pending.sort_by_key(|it| it.at_us);
        let settled = now_us() - zero_us - REORDER.as_micros() as i64;
        let count = pending.partition_point(|it| !is_open || it.at_us <= settled);
        for event in pending.drain(..count) {
            show(&event);
            shown.push(event);
        }
    }
    shown
}

/// Opens temporary servers, plays on them, and removes them.
async fn on_servers<T>(
    stop: &CancellationToken,
    play: impl AsyncFnOnce(&Shop) -> Result<T>,
) -> Result<T> {
    let shop = Shop::open(Database::Sqlite, stop).await?;
    let played = Box::pin(play(&shop)).await;
    shop.close().await?;
    if stop.is_cancelled() { Err(LabError::Cancelled) } else { played }
}

/// Plays until the end or until `stop`.
async fn or_cancelled<T>(
    stop: &CancellationToken,
    play: impl Future<Output = Result<T>>,
) -> Result<T> {
    stop.run_until_cancelled(play).await.unwrap_or(Err(LabError::Cancelled))
}
