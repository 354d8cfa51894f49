//! Reads Redis: its contents, keys overwritten by other programs, and whether it accepts writes.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use seckill_model::{ForeignKey, Millis};
use seckill_redis::{
    Connection, HOME, RedisError,
    lock_holders::{foreign_locks, holders},
    stream_stats::{read_stats, takes_writes},
};

use super::{Collector, in_time};
use crate::telemetry::data_loss::damaged_keys;

/// Interval between write probes of Redis.
const WRITES_EVERY: Duration = Duration::from_secs(1);
/// Locks per snapshot.
const LOCKS: usize = 200;

impl Collector {
    pub(super) async fn read_redis(&mut self) {
        let (start, asked_at) = (Instant::now(), Millis::now());
        let vouchers = self.due();
        let (keys, lock_names, dead_ms) = (&self.keys, &self.lock_names, self.node_dead_ms);
        let due = self.asked_redis.is_none_or(|at| at.elapsed() >= WRITES_EVERY);
        let reading = async |conn: &mut Connection| {
            let stats = read_stats(conn, keys, &vouchers).await?;
            let alive = |node: &str| stats.nodes.life(node, dead_ms);
            let mut locks = holders(conn, keys, LOCKS, alive).await?;
            locks.foreign = foreign_locks(conn, keys, lock_names).await?;
            let writes = if due { Some(takes_writes(conn, keys).await) } else { None };
            Ok((stats, locks, writes))
        };
        let mut writes = None;
        let result = in_time(&mut self.conn, reading).await.map(|(stats, locks, asked)| {
            writes = asked;
            let facts = Arc::make_mut(&mut self.facts);
            facts.extend(vouchers.iter().copied().zip(stats.sales.iter().copied()));
            if facts.len() > self.sales.len() {
                let listed: HashSet<_> = self.sales.iter().map(|it| it.voucher_id).collect();
                facts.retain(|voucher, _| listed.contains(voucher));
            }
            self.ahead = stats.now.ahead(self.ahead, asked_at, Millis::now());
            self.stats = Some(stats);
            self.locks = locks;
        });
        if let Some(server) = self.conn.server(HOME) {
            self.redis.name = format!("redis {}", server.version);
        }
        let now = self.now();
        self.redis.note(now, start.elapsed(), result);
        if let Some(writes) = writes {
            self.asked_redis = Some(start);
            self.redis.note_writes(match writes {
                Err(error @ RedisError::Unwilling(_)) => Err(error.into()),
                // The next read detects a server that has become unreachable since.
                _ => Ok(()),
            });
        }
    }

    pub(super) fn foreign_keys(&self) -> Vec<ForeignKey> {
        let stats = self.stats.iter().flat_map(|stats| &stats.foreign);
        stats.chain(&self.locks.foreign).cloned().collect()
    }

    /// Inconsistent keys of the last stats.
    pub(super) fn damaged(&self) -> Vec<String> {
        let lost = self.stats.as_ref().map_or(&[][..], |stats| &stats.lost);
        let sales = self.sales.iter().map(|sale| sale.voucher_id);
        damaged_keys(&self.keys, lost, sales.map(|voucher| (voucher, self.facts(voucher).damaged)))
    }
}
