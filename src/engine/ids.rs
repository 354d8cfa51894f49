//! Generates order IDs from ranges leased in Redis, so that an ID costs no round trip.
//!
//! Independent of sales and orders.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use seckill_model::{OrderId, order_id::utc_day, reason::reason};
use seckill_redis::{Connection, keys::Partition, scripts};
use seckill_store::{SharedStore, StoreError};

use super::{EngineError, Result};
use jiff::{Timestamp, civil::Date};

/// IDs leased with one INCRBY. A node that stops loses the rest of its lease: 2^32 a day are plenty.
const LEASE: u64 = 4_096;
/// A day's key outlives its day, for nodes with a slow clock.
const KEEP_SEQUENCE: Duration = Duration::from_hours(3 * 24);
/// Maximum number of IDs to skip if it is unknown how many were leased that day: far more than are issued in a second.
/// With the maximum number of partitions, which share the 2^32 IDs of a day, all of them skip at most a quarter.
const JUMP: u64 = 1 << 24;

/// Seconds by which this process dates its IDs ahead of its clock: 0, except in drills.
static STEPPED: AtomicI64 = AtomicI64::new(0);

/// Steps the clock by which this process dates its order IDs, as an administrator or NTP does. It is the only local
/// clock that a node relies on: sales, closings and leases use the clock of Redis.
pub fn step_clock(seconds: i64) {
    STEPPED.fetch_add(seconds, Ordering::Relaxed);
}

/// A second in SQL further ahead than this came from a clock that was corrected since.
const AHEAD: i64 = 60;
/// Maximum number of attempts when nodes that start together conflict.
const TRIES: u32 = 16;

/// Returns the first second for IDs on a Redis that may have lost its newest increments: later than every second in
/// which other nodes may have used them. SQL stores it, so that it also increases if nodes start again within a second.
pub(super) async fn first_second(store: &SharedStore, of: &Partition) -> Result<i64> {
    let name = format!("ids_from_{}", of.number());
    for _ in 0..TRIES {
        let stored = store.setting(&name).await?;
        let now = now();
        let last = stored.as_ref().and_then(|stored| stored.parse().ok());
        let last = last.filter(|last| *last <= now + AHEAD).unwrap_or(now).max(now);
        let first = last + 1;
        if store.change_setting(&name, stored.as_deref(), &first.to_string()).await? {
            return Ok(first);
        }
    }
    Err(StoreError::Away(reason!("store-reason-contention")).into())
}

/// Unix seconds by the clock that dates IDs.
fn now() -> i64 {
    Timestamp::now().as_second() + STEPPED.load(Ordering::Relaxed)
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
    pub(super) fn leasing(partition: Partition, least: u64) -> Self {
        Self { partition, least, lease: None, last_second: i64::MIN }
    }

    /// Issues `count` increasing IDs.
    ///
    /// # Errors
    /// Redis is unreachable, the clock is out of range, or the day's numbers are exhausted. IDs never wrap.
    pub async fn issue(&mut self, conn: &mut Connection, count: usize) -> Result<Vec<OrderId>> {
        self.issue_at(conn, count, now()).await
    }

    /// As [`Self::issue`], with the clock at `unix_second`.
    pub async fn issue_at(
        &mut self,
        conn: &mut Connection,
        count: usize,
        unix_second: i64,
    ) -> Result<Vec<OrderId>> {
        let second = unix_second.max(self.last_second);
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

    /// Issues no ID for an earlier second than this one.
    pub(super) fn not_before(&mut self, unix_second: i64) {
        self.last_second = self.last_second.max(unix_second);
    }

    /// After a restart of Redis, which may have lost its newest increments: raises the day's counter to what this
    /// worker has leased, before another one leases again. The rest of the lease is dropped, because another node may
    /// have leased it before that.
    pub async fn reclaim(&mut self, conn: &mut Connection) -> Result<()> {
        let Some(Lease { day, end, .. }) = self.lease else { return Ok(()) };
        self.lease_numbers(conn, day, 0).await?;
        self.lease = Some(Lease { day, next: end, end });
        Ok(())
    }

    async fn renew(&mut self, conn: &mut Connection, day: Date, size: u64) -> Result<&mut Lease> {
        let end = self.lease_numbers(conn, day, size).await?;
        Ok(self.lease.insert(Lease { day, next: end - size, end }))
    }

    /// Leases `size` numbers after all that are known to be leased; returns their end. If Redis has lost the counter of
    /// the day, other workers may hold leases beyond those: then a random number of them is skipped.
    async fn lease_numbers(&self, conn: &mut Connection, day: Date, size: u64) -> Result<u64> {
        // Never what this worker has leased already, in case Redis has lost its newest increments.
        let leased = self.lease.as_ref().filter(|lease| lease.day == day).map_or(0, |it| it.end);
        let mut call = scripts::LEASE_IDS.prepare_invoke();
        call.key(self.partition.sequence(day)).key(self.partition.watermark());
        call.arg(day.to_string()).arg(size).arg(KEEP_SEQUENCE.as_secs()).arg(leased);
        call.arg(rand::random_range(0..JUMP));
        Ok(conn.invoke(&call).await?)
    }
}
