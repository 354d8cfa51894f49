//! Generates order IDs from ranges leased in Redis, so that an ID costs no round trip.
//!
//! Knows nothing of sales or of the rows of orders.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use redis::cmd;
use seckill_model::{Millis, OrderId, order_id::utc_day, reason::reason};
use seckill_redis::{Connection, keys::Partition, scripts};
use seckill_store::{SharedStore, StoreError};

use crate::{EngineError, Result, deployment::servers::Servers};
use jiff::civil::Date;
use tokio_util::sync::CancellationToken;

/// IDs leased with one INCRBY. A node that stops loses the rest of its lease: 2^32 a day are plenty.
const LEASE: u64 = 4_096;
/// A day's counter outlives its day: a failover may lead to a server whose clock is behind.
const KEEP_SEQUENCE: Duration = Duration::from_hours(3 * 24);
/// Maximum number of IDs to skip if it is unknown how many were leased that day: far more than are issued in a second.
/// With the maximum number of partitions, which share the 2^32 IDs of a day, all of them skip at most a quarter.
const JUMP: u64 = 1 << 24;

/// Seconds by which this process dates its IDs ahead of the clock: 0, except in drills.
static STEPPED: AtomicI64 = AtomicI64::new(0);

/// Steps the clock by which this process dates its order IDs, as an administrator, NTP or a failover does to that of Redis.
pub fn step_clock(seconds: i64) {
    STEPPED.fetch_add(seconds, Ordering::Relaxed);
}

/// A second in SQL further ahead than this was reserved by a clock that was corrected since. The clocks of the servers of one
/// Redis may differ by almost this much.
const AHEAD: i64 = 3_600;
/// How far ahead of the clock a node reserves the seconds of its IDs.
const RESERVE: i64 = 60;
/// It reserves more when fewer are left.
const RESERVE_AGAIN: i64 = 30;
/// How often that is checked. A clock that was stepped forward dates IDs in the last reserved second until then.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of attempts when nodes that start together conflict.
const TRIES: u32 = 16;

/// The seconds in which IDs of one generation are dated.
///
/// A Redis that was restarted, failed over or emptied may have lost the newest increments of its counters, and issues
/// their numbers again. The IDs differ if no second is used before and after that, whatever its clock is then: a node
/// uses only seconds that SQL has reserved for the generation, and a new generation begins after all that were reserved. It goes
/// on over a restart if it was closed before it, since then no number was leased: IDs are not dated ahead of the clock
/// then. If SQL is unreachable, the last reserved second is used: its numbers still differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dates {
    first: i64,
    until: i64,
    /// As `id_generation.lua` names it; empty for a worker that need not know.
    generation: String,
    /// How often nodes have reserved seconds to lease numbers: see `close_ids.lua`.
    opened: u64,
}

impl Default for Dates {
    /// Every second.
    fn default() -> Self {
        Self { first: i64::MIN, until: i64::MAX, generation: String::new(), opened: 0 }
    }
}

impl Dates {
    /// The seconds of the present generation on a run of the server: reserves them if it is new. None is before
    /// `not_before`, the last one that the caller has used. Numbers may be leased then.
    pub(crate) async fn of_run(
        servers: &mut Servers,
        of: &Partition,
        run: &str,
        not_before: i64,
    ) -> Result<Self> {
        let Servers { store, conn, .. } = servers;
        let [generation, before, closed] = Self::named(conn, of, run, "").await?;
        for _ in 0..TRIES {
            let (text, stored) = Self::stored(store, of).await?;
            let now = second(conn.now_at(&of.reconciled()).await?);
            let opened = stored.as_ref().map_or(0, |it| it.opened);
            // No number was leased since it was closed: neither was Redis set back, nor has it lost any.
            let goes_on = closed == opened.to_string();
            let dates = match stored {
                Some(stored)
                    if stored.generation == generation
                        && closed.is_empty()
                        && !stored.is_short(now) =>
                {
                    return Ok(stored);
                }
                Some(Self { first, until, generation: known, .. })
                    if known == generation || (goes_on && known == before) =>
                {
                    (first, until.max(now + RESERVE))
                }
                stored => {
                    let until = stored.map(|it| it.until).filter(|until| *until <= now + AHEAD);
                    let used = until.unwrap_or(i64::MIN).max(not_before);
                    let first = now.max(used.saturating_add(1));
                    (first, first.max(now + RESERVE))
                }
            };
            let (first, until) = dates;
            let dates = Self { first, until, generation: generation.clone(), opened: opened + 1 };
            if dates.store(store, of, text).await? {
                if !closed.is_empty() {
                    Self::named(conn, of, run, &closed).await?;
                }
                return Ok(dates);
            }
        }
        Err(StoreError::Away(reason!("store-reason-contention")).into())
    }

    /// For how many seconds yet a node may live that dates IDs on a server other than the one with this run; 0 if none does.
    pub(crate) async fn used_elsewhere(
        store: &SharedStore,
        of: &Partition,
        run: &str,
        now: Millis,
    ) -> Result<i64> {
        let Some(Self { until, generation, .. }) = Self::stored(store, of).await?.1 else {
            return Ok(0);
        };
        // A node that lives keeps at least this many seconds reserved.
        let left = until - second(now) - RESERVE_AGAIN;
        let is_here = generation.split(':').next() == Some(run);
        Ok(if is_here { 0 } else { left.clamp(0, RESERVE) })
    }

    /// The present generation, the one before it, and the opening of it after which it was closed.
    async fn named(
        conn: &mut Connection,
        of: &Partition,
        run: &str,
        over: &str,
    ) -> Result<[String; 3]> {
        let mut call = scripts::ID_GENERATION.prepare_invoke();
        call.key(of.reconciled()).arg(run).arg(uuid::Uuid::new_v4().simple().to_string()).arg(over);
        Ok(conn.invoke(&call).await?)
    }

    /// Closes the generation unless a node is alive: after the last one has left, or after a process without a node has issued
    /// an ID. Whatever leases numbers at the same time has done so before, or opens the generation again.
    pub(crate) async fn close(
        store: &SharedStore,
        conn: &mut Connection,
        of: &Partition,
        dead_ms: u64,
    ) -> Result<()> {
        let Some(Self { opened, .. }) = Self::stored(store, of).await?.1 else { return Ok(()) };
        // One that was killed counts as alive for a while.
        let read = cmd("HVALS").arg(of.instances()).take();
        let instances: Vec<String> = conn.query(&read).await?;
        let have_ended = instances.iter().all(|it| conn.has_ended(it));
        let dead_ms = if have_ended { 0 } else { dead_ms };
        let mut call = scripts::CLOSE_IDS.prepare_invoke();
        call.key(of.nodes()).key(of.reconciled()).arg(dead_ms).arg(opened);
        conn.invoke::<bool>(&call).await?;
        Ok(())
    }

    /// Reserves more seconds when few are left after `now`, as long as SQL knows no newer generation.
    async fn extended(&self, store: &SharedStore, of: &Partition, now: i64) -> Result<Option<i64>> {
        if self.generation.is_empty() || !self.is_short(now) {
            return Ok(None);
        }
        let (text, stored) = Self::stored(store, of).await?;
        let Some(stored) = stored.filter(|it| it.generation == self.generation) else {
            return Ok(None);
        };
        // Another node may have reserved them.
        if !stored.is_short(now) {
            return Ok(Some(stored.until));
        }
        let dates = Self { until: now + RESERVE, ..stored };
        Ok(dates.store(store, of, text).await?.then_some(dates.until))
    }

    fn is_short(&self, now: i64) -> bool {
        self.until < now + RESERVE_AGAIN
    }

    async fn stored(store: &SharedStore, of: &Partition) -> Result<(Option<String>, Option<Self>)> {
        let text = store.setting(&Self::name(of)).await?;
        let dates = text.as_ref().and_then(|text| {
            let mut parts = text.split(' ');
            let first = parts.next()?.parse().ok()?;
            // An older version of this program stored only the first one.
            let until = parts.next().map_or(Some(first), |until| until.parse().ok())?;
            let generation = parts.next().unwrap_or_default().to_owned();
            let opened = parts.next().and_then(|opened| opened.parse().ok()).unwrap_or(0);
            Some(Self { first, until, generation, opened })
        });
        Ok((text, dates))
    }

    async fn store(
        &self,
        store: &SharedStore,
        of: &Partition,
        old: Option<String>,
    ) -> Result<bool> {
        let Self { first, until, generation, opened } = self;
        let new = format!("{first} {until} {generation} {opened}");
        Ok(store.change_setting(&Self::name(of), old.as_deref(), &new).await?)
    }

    fn name(of: &Partition) -> String {
        format!("ids_from_{}", of.number())
    }
}

/// Reserves seconds ahead of `clock`, for the worker that shares it and `dates`.
pub(crate) async fn keep_reserved(
    store: SharedStore,
    of: Partition,
    dates: Arc<Mutex<Dates>>,
    clock: ServerClock,
    stop: CancellationToken,
) {
    while stop.run_until_cancelled(tokio::time::sleep(CHECK_EVERY)).await.is_some() {
        let Some(now) = clock.now() else { continue };
        let known = dates.lock().clone();
        match known.extended(&store, &of, second(now)).await {
            Ok(Some(until)) => {
                let mut dates = dates.lock();
                if dates.generation == known.generation {
                    dates.until = dates.until.max(until);
                }
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "order IDs cannot be dated later yet"),
        }
    }
}

/// The Unix second in which an ID is dated at this time.
pub(crate) fn second(now: Millis) -> i64 {
    now.0.div_euclid(1_000) + STEPPED.load(Ordering::Relaxed)
}

/// The clock of a server, as a task has last read it. Sales open and close by it, so IDs are dated by it as well: the time of an
/// order is that of its admission, whatever the clocks of the nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerClock(Arc<Mutex<Option<(Millis, Instant)>>>);

impl ServerClock {
    /// Records the time that the server has just replied with.
    pub(crate) fn set(&self, now: Millis) {
        *self.0.lock() = Some((now, Instant::now()));
    }

    /// A lower bound of the server's time: its last reply, and the time since by this host's monotonic clock. `None` before the
    /// first reply.
    pub(crate) fn now(&self) -> Option<Millis> {
        let (time, then) = (*self.0.lock())?;
        Some(time.plus(then.elapsed().as_millis() as i64))
    }
}

/// Issues order IDs that are unique and increasing.
///
/// An ID is a second and a number of that second's UTC day. The numbers of one day are leased from one counter per
/// partition, so two IDs differ regardless of clocks, as long as a number is only combined with seconds of its own day.
#[derive(Debug)]
pub struct IdWorker {
    partition: Partition,
    /// Minimum number of IDs leased with one INCRBY.
    least: u64,
    lease: Option<Lease>,
    /// No ID is issued for an earlier second: a clock that steps back must not make IDs decrease.
    last_second: i64,
    dates: Arc<Mutex<Dates>>,
}

#[derive(Debug)]
struct Lease {
    day: Date,
    next: u64,
    end: u64,
}

impl IdWorker {
    /// A generator without a lease; it leases with the first ID.
    pub fn new(partition: Partition) -> Self {
        Self::leasing(partition, LEASE)
    }

    /// The same with leases of `least` IDs, for a process that issues few: the rest of a lease is lost.
    pub(crate) fn leasing(partition: Partition, least: u64) -> Self {
        let dates = Arc::default();
        Self { partition, least, lease: None, last_second: i64::MIN, dates }
    }

    /// Issues `count` increasing IDs, dated by the clock of this host: for benchmarks and tests. The engine uses
    /// [`Self::issue_at`].
    ///
    /// # Errors
    /// As [`Self::issue_at`].
    pub async fn issue(&mut self, conn: &mut Connection, count: usize) -> Result<Vec<OrderId>> {
        self.issue_at(conn, count, second(Millis::now())).await
    }

    /// Issues `count` increasing IDs, with the clock at `unix_second`.
    ///
    /// # Errors
    /// Redis is unreachable, the clock is out of range, or the day's numbers are exhausted. IDs never wrap.
    pub async fn issue_at(
        &mut self,
        conn: &mut Connection,
        count: usize,
        unix_second: i64,
    ) -> Result<Vec<OrderId>> {
        let second = unix_second.min(self.dates.lock().until).max(self.last_second);
        let day = utc_day(second);
        let (turns, turn) = (u64::from(self.partition.of()), u64::from(self.partition.number()));
        let mut ids = Vec::with_capacity(count);
        while ids.len() < count {
            let missing = (count - ids.len()) as u64;
            let lease = match &mut self.lease {
                Some(lease) if lease.day == day && lease.next < lease.end => lease,
                _ => self.renew(conn, day, missing.max(self.least)).await?,
            };
            let until = lease.end.min(lease.next + missing);
            for number in lease.next..until {
                // Each partition has its own counter, so their numbers are interleaved.
                let id = OrderId::new(second, number * turns + turn);
                ids.push(id.map_err(EngineError::Failed)?);
            }
            lease.next = until;
        }
        self.last_second = second;
        Ok(ids)
    }

    /// The seconds that are reserved for its IDs, to be extended.
    pub(crate) fn dates(&self) -> Arc<Mutex<Dates>> {
        Arc::clone(&self.dates)
    }

    /// The last second that it has used.
    pub(crate) fn last_second(&self) -> i64 {
        self.last_second
    }

    /// Dates its IDs in these seconds only, and leases numbers only while their generation lasts.
    pub(crate) fn date_in(&mut self, dates: Dates) {
        self.last_second = self.last_second.max(dates.first);
        *self.dates.lock() = dates;
    }

    /// After a restart of Redis, which may have lost its newest increments: raises the day's counter to what this
    /// worker has leased, before another one leases again. The rest of the lease is dropped, because another node may
    /// have leased it before that.
    pub async fn reclaim(&mut self, conn: &mut Connection) -> Result<()> {
        let Some(Lease { day, end, .. }) = self.lease else { return Ok(()) };
        self.lease_numbers(conn, day, 0, "").await?;
        self.lease = Some(Lease { day, next: end, end });
        Ok(())
    }

    async fn renew(&mut self, conn: &mut Connection, day: Date, size: u64) -> Result<&mut Lease> {
        let generation = self.dates.lock().generation.clone();
        let end = self.lease_numbers(conn, day, size, &generation).await?;
        Ok(self.lease.insert(Lease { day, next: end - size, end }))
    }

    /// Leases `size` numbers after all that are known to be leased; returns their end. If Redis has lost the counter of
    /// the day, other workers may hold leases beyond those: then a random number of them is skipped.
    async fn lease_numbers(
        &self,
        conn: &mut Connection,
        day: Date,
        size: u64,
        generation: &str,
    ) -> Result<u64> {
        // Never what this worker has leased already, in case Redis has lost its newest increments.
        let leased = self.lease.as_ref().filter(|lease| lease.day == day).map_or(0, |it| it.end);
        let mut call = scripts::LEASE_IDS.prepare_invoke();
        call.key(self.partition.sequence(day)).key(self.partition.watermark());
        if !generation.is_empty() {
            call.key(self.partition.reconciled());
        }
        call.arg(day.to_string()).arg(size).arg(KEEP_SEQUENCE.as_secs()).arg(leased);
        call.arg(rand::random_range(0..JUMP)).arg(generation);
        let end: i64 = conn.invoke(&call).await?;
        u64::try_from(end).map_err(|_| EngineError::Reconciling(self.partition.sequence(day)))
    }
}
