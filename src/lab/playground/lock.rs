//! Two contenders for one reentrant lock of the engine.
//!
//! The lanes of the contenders show the results of their calls. That of Redis shows the commands that the scripts of the
//! lock ran, as MONITOR reports them, and the end of a lease, as Redis announces it.

use std::time::Duration;

use futures::{Stream, StreamExt as _};
use redis::cmd;
use seckill_engine::{
    EngineError, LockName,
    locks::{Guard, LockError, Locks, Timing},
};
use seckill_model::{Label, reason, text};
use seckill_redis::{
    Connection, HOME, Layout, Redis, RedisError, lock_holders::node_and_task, scripts,
};
use serde::Serialize;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Event, Lane, Log, REORDER, Recording, TICK, follow, now_us, on_servers, or_cancelled};
use crate::{LabError, Result, shop::Shop};

/// The lanes: the first contender, the second one, Redis.
const LANES: [&str; 3] = ["A", "B", "Redis"];
const A: usize = 0;
const B: usize = 1;
const REDIS: usize = 2;
/// The longest that the second contender holds the lock.
const SHORT_HOLD: Duration = Duration::from_millis(300);
/// Timeout for the contenders to subscribe.
const PATIENCE: Duration = Duration::from_secs(10);
const NAME: &str = "lab";
const TASK: &str = "lock";
/// Redis announces the keys that expire on this channel.
const EXPIRED: &str = "__keyevent@0__:expired";
/// A command that marks the end of what MONITOR reports.
const END: &str = "lab-end";

/// What the contenders do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockPlay {
    /// How long the second one waits for the lock (`waitTime`).
    pub wait: Duration,
    /// The lease (`leaseTime`), which is not renewed; without one, the watchdog renews its own.
    pub lease: Option<Duration>,
    /// The lease that the watchdog renews.
    pub watchdog: Duration,
    /// How long the first one works under the lock.
    pub hold: Duration,
    /// How often the first one acquires the lock.
    pub depth: u32,
}

/// What happened.
#[derive(Clone, Debug, Serialize)]
pub struct LockRecording {
    /// The events.
    #[serde(flatten)]
    pub recording: Recording,
    /// How often the watchdogs renewed the lease.
    pub renewals: u32,
    /// How long the second contender waited until it acquired the lock, in milliseconds; `None` if it did not.
    pub waited_ms: Option<u64>,
}

impl LockPlay {
    /// The lanes, with what is seen in them.
    pub fn lanes(&self) -> Vec<Lane> {
        let millis = |time: Duration| time.as_millis() as u64;
        let (lease, hold) = (millis(self.lease.unwrap_or(self.watchdog)), millis(self.hold));
        let (depth, every) = (self.depth, self.lease.map_or(lease / 3, |_| 0));
        let titles = [
            text!("lab-lock-first", depth, hold, lease, every),
            text!("lab-lock-second", wait = millis(self.wait)),
            text!("lab-lock-redis", expired = EXPIRED),
        ];
        LANES.into_iter().zip(titles).map(|(name, title)| Lane { name, title }).collect()
    }

    /// Plays on a Redis of its own, and shows each event when it happens.
    ///
    /// # Errors
    /// Redis failed, the first contender did not acquire the lock, or `stop` was cancelled.
    pub async fn play(
        &self,
        show: impl FnMut(&Event),
        stop: &CancellationToken,
    ) -> Result<LockRecording> {
        on_servers(stop, async |shop| or_cancelled(stop, self.play_on(shop, show)).await).await
    }

    async fn play_on(&self, shop: &Shop, show: impl FnMut(&Event)) -> Result<LockRecording> {
        let redis = Redis::from_url(&shop.redis_url())?;
        let mut conn = redis.connection();
        conn.set(HOME, "notify-keyspace-events", "Ex").await?;
        // A lease that is not renewed is one of a node without a watchdog.
        let first = Contender::new(&redis, A, self, self.lease.is_none());
        let second = Contender::new(&redis, B, self, true);
        let subscribers = 1 + u8::from(self.lease.is_none());
        timeout(PATIENCE, subscribed(&mut conn, subscribers)).await.map_err(|_| {
            LabError::Invalid(reason!("lab-lock-not-subscribed", seconds = PATIENCE.as_secs()))
        })??;

        let client = redis::Client::open(shop.redis_url()).map_err(|it| conn.broke(HOME, &it))?;
        let monitor = client.get_async_monitor().await.map_err(|it| conn.broke(HOME, &it))?;
        let expired = redis.subscribe(EXPIRED).await?;
        let zero = now_us();
        let (log, events) = Log::starting_at(zero);
        let observing = observe(monitor.into_on_message::<String>(), expired, log.clone());
        let contending = async move {
            let (acquired, go) = oneshot::channel();
            let (held, waited) =
                tokio::join!(first.hold(self, &log, acquired), second.wait(self, &log, go));
            held?;
            let () = conn.query(cmd("ECHO").arg(END)).await.map(|_: String| ())?;
            Ok::<_, LabError>(waited)
        };
        let (waited, renewals, events) =
            tokio::try_join!(contending, async { Ok(observing.await) }, async {
                Ok(follow(zero, events, show).await)
            })?;
        let recording = Recording { lanes: self.lanes(), events };
        let waited_ms = waited.map(|it| it.as_millis() as u64);
        Ok(LockRecording { recording, renewals, waited_ms })
    }
}

/// Waits until this many nodes listen for releases.
async fn subscribed(conn: &mut Connection, nodes: u8) -> Result<(), RedisError> {
    let count = cmd("PUBSUB").arg("NUMSUB").arg(Layout::default().lock_channel()).take();
    loop {
        let (_, listening): (String, u8) = conn.query(&count).await?;
        if listening >= nodes {
            return Ok(());
        }
        sleep(TICK).await;
    }
}

/// A node that wants the lock.
struct Contender {
    lane: usize,
    locks: Locks,
    /// Ends its watchdog.
    watchdog: Option<DropGuard>,
}

impl Contender {
    fn new(redis: &Redis, lane: usize, play: &LockPlay, has_watchdog: bool) -> Self {
        let lease = play.lease.unwrap_or(play.watchdog);
        let timing = Timing { lease, ..Timing::default() };
        let (locks, watchdog) = Locks::new(redis, Layout::default(), LANES[lane], timing);
        let watchdog = has_watchdog.then(|| {
            let stop = CancellationToken::new();
            tokio::spawn(watchdog.run(stop.clone()));
            stop.drop_guard()
        });
        Self { lane, locks, watchdog }
    }

    /// Acquires the lock, once and again, works, and releases it.
    async fn hold(&self, play: &LockPlay, log: &Log, acquired: oneshot::Sender<()>) -> Result<()> {
        let say = |text: String, busy| log.say(self.lane, text, busy);
        say(text!("lab-lock-tries", wait = 0_u64), None);
        let first = self.try_for(Duration::ZERO).await?;
        say(text!("lab-lock-acquired", token = first.token().to_string()), Some(true));
        let _ = acquired.send(());
        let mut guards = vec![];
        for depth in 2..=play.depth {
            guards.push(first.again().await.map_err(EngineError::from)?);
            say(text!("lab-lock-reentered", depth), None);
        }
        let hold = play.hold.as_millis() as u64;
        say(text!("lab-lock-works", hold), None);
        let end = Instant::now() + play.hold;
        if timeout_at(end, first.lost()).await.is_ok() {
            say(Label("lab-lock-lost").to_owned(), Some(false));
            sleep_until(end).await;
        }
        guards.insert(0, first);
        while let Some(guard) = guards.pop() {
            match guard.release().await {
                Ok(_) => self.released(log, guards.len()),
                Err(error) => {
                    say(text!("lab-lock-release-failed", error), Some(false));
                    break;
                }
            }
        }
        Ok(())
    }

    /// Waits for the lock once the other one has it, holds it for a moment, and returns how long it waited.
    async fn wait(
        mut self,
        play: &LockPlay,
        log: &Log,
        go: oneshot::Receiver<()>,
    ) -> Option<Duration> {
        // Without the lock, the other one has failed.
        go.await.ok()?;
        let say = |text: String, busy| log.say(B, text, busy);
        say(text!("lab-lock-tries", wait = play.wait.as_millis() as u64), None);
        let begun = Instant::now();
        let guard = match self.try_for(play.wait).await {
            Ok(guard) => guard,
            Err(error) => {
                let why = match error {
                    EngineError::Lock(LockError::Busy(_)) => Label("lab-lock-busy").to_owned(),
                    other => other.to_string(),
                };
                say(text!("lab-lock-gives-up", why), None);
                return None;
            }
        };
        let waited = begun.elapsed();
        say(text!("lab-lock-acquired", token = guard.token().to_string()), Some(true));
        if play.lease.is_some() {
            // It was needed to listen for the release.
            self.watchdog = None;
        }
        sleep(play.hold.min(SHORT_HOLD)).await;
        match guard.release().await {
            Ok(_) => self.released(log, 0),
            Err(error) => say(text!("lab-lock-release-failed", error), Some(false)),
        }
        Some(waited)
    }

    async fn try_for(&self, wait: Duration) -> Result<Guard, EngineError> {
        Ok(self.locks.try_for(&LockName::new(NAME)?, TASK, wait).await?)
    }

    fn released(&self, log: &Log, depth: usize) {
        let text = match depth {
            0 => Label("lab-lock-released").to_owned(),
            depth => text!("lab-lock-released-once", depth),
        };
        log.say(self.lane, text, (depth == 0).then_some(false));
    }
}

/// Reports what the scripts of the lock do in Redis, and each end of a lease, until [`END`]; returns how often the
/// watchdogs renewed the lease.
async fn observe(
    monitor: impl Stream<Item = String>,
    mut expired: impl Stream<Item = String> + Unpin,
    log: Log,
) -> u32 {
    let keys = Layout::default();
    let (lock, waiting) = (keys.lock(NAME), keys.lock_waiting(NAME));
    let (mut is_renewal, mut renewals, mut lease_end) = (false, 0, 0);
    let mut holder = None;
    tokio::pin!(monitor);
    loop {
        let line = tokio::select! {
            Some(key) = expired.next() => {
                if key == lock {
                    // The key is gone for all clients from the end of the lease on; Redis may announce it later.
                    let at = now_us() - REORDER.as_micros() as i64;
                    log.say_at(at.max(lease_end), REDIS, text!("lab-lock-expired", lock), None);
                }
                continue;
            }
            line = monitor.next() => line,
        };
        let Some((at, source, words)) = line.as_deref().and_then(parse) else {
            if line.is_none() {
                return renewals;
            }
            continue;
        };
        let is_lua = source.ends_with(" lua");
        match *words.as_slice() {
            ["ECHO", END] => return renewals,
            ["EVALSHA", sha, ..] => is_renewal = sha == scripts::LOCK_RENEW.get_hash(),
            ["HSET", key, owner, depth, ..] if is_lua && key == lock => {
                holder = LANES.iter().position(|it| *it == node(owner));
                let rest = if words.len() > 4 { " …" } else { "" };
                let text = format!("HSET {lock} {} {depth}{rest}", node(owner));
                log.say_at(at, REDIS, text, None);
            }
            ["PEXPIRE", key, lease] if is_lua && key == lock => {
                lease_end = at + lease.parse::<i64>().unwrap_or_default() * 1_000;
                if let Some(lane) = holder.filter(|_| is_renewal) {
                    renewals += 1;
                    log.say_at(at, lane, Label("lab-lock-renewed").to_owned(), None);
                }
                log.say_at(at, REDIS, words.join(" "), None);
            }
            ["ZADD", key, _, owner] if is_lua && key == waiting => {
                log.say_at(at, REDIS, format!("ZADD {waiting} … {}", node(owner)), None);
            }
            ["DEL", key] if is_lua && key == lock => log.say_at(at, REDIS, words.join(" "), None),
            ["PUBLISH", ..] if is_lua => log.say_at(at, REDIS, words.join(" "), None),
            _ => {}
        }
    }
}

/// The time in microseconds, the source and the words of a line of MONITOR. The words of the lock have no quotes and no
/// spaces.
fn parse(line: &str) -> Option<(i64, &str, Vec<&str>)> {
    let (at, rest) = line.split_once(" [")?;
    let (source, command) = rest.split_once("] ")?;
    let (seconds, micros) = at.split_once('.')?;
    let at = seconds.parse::<i64>().ok()? * 1_000_000 + micros.parse::<i64>().ok()?;
    Some((at, source, command.trim_matches('"').split("\" \"").collect()))
}

/// The node of an owner.
fn node(owner: &str) -> &str {
    node_and_task(owner).0
}
