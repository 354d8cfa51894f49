//! Reads Redis: its contents, keys overwritten by other programs, and whether it accepts writes.
//!
//! Reading thousands of planned sales each time would take too long, so only some of them are read.

use std::{
    cmp::Reverse,
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use seckill_model::{ForeignKey, Message, Millis, Phase, SaleShard, ShardId};
use seckill_redis::{
    Connection, HOME, Layout, RedisError,
    lock_holders::holders,
    replicas,
    stream_stats::{SaleStats, read_stats, takes_writes},
};

use super::{Collector, Sample, in_time};
use crate::{
    EngineError,
    telemetry::{
        data_loss::damaged_keys,
        snapshot::{Funnel, SaleLine, Unconfirmed},
        window::rate,
    },
};

/// Interval between write probes of Redis.
const WRITES_EVERY: Duration = Duration::from_secs(1);
/// Locks per snapshot.
const LOCKS: usize = 200;
/// Idle sales read per snapshot: four keys each, about a millisecond of Redis.
const IDLE_BATCH: usize = 200;
/// A planned sale counts as open this long before its window opens.
const OPENS_SOON_MS: i64 = 5_000;

impl Collector {
    pub(super) async fn read_redis(&mut self) {
        let (start, asked_at) = (Instant::now(), Millis::now());
        let mut shards = self.due();
        shards.extend(self.set_back.lost());
        shards.retain(|shard| !self.is_lost(*shard));
        let (keys, lock_names, dead_ms) = (&self.keys, &self.lock_names, self.node_dead_ms);
        let due = self.asked_redis.is_none_or(|at| at.elapsed() >= WRITES_EVERY);
        let wanted = self.wait_replicas;
        let (mut writes, mut confirms, mut is_moved) = (None, None, false);
        let read = loop {
            let reading = async |conn: &mut Connection| {
                let stats = read_stats(conn, keys, &shards).await?;
                let alive = |node: &str| stats.nodes.life(node, dead_ms);
                let locks = match holders(conn, keys, LOCKS, lock_names, alive).await {
                    // Their server is lost, and the others hold the sales.
                    Err(error) if RedisError::is_away(&error) && !conn.lost().is_empty() => None,
                    locks => Some(locks?),
                };
                let writes = if due { Some(takes_writes(conn, keys).await) } else { None };
                let confirms = if due && wanted > 0 {
                    Some(replicas::confirming(conn, keys).await)
                } else {
                    None
                };
                Ok((stats, locks, (writes, confirms)))
            };
            let was_whole = self.conn.is_cluster() && self.conn.lost().is_empty();
            match in_time(&mut self.conn, reading).await {
                // The next read finds the key.
                Err(EngineError::Redis(RedisError::Moved { .. })) if !is_moved => {
                    is_moved = true;
                }
                // A server was lost since the probe; the others may reply.
                Err(_) if was_whole && !self.conn.probe(keys).await.is_empty() => {}
                read => break read,
            }
        };
        let result = read.map(|(stats, locks, asked)| {
            (writes, confirms) = asked;
            let facts = Arc::make_mut(&mut self.facts);
            let read = shards.iter().copied().zip(stats.sales.iter().copied());
            let read = read.filter_map(|(shard, facts)| Some((shard, facts?)));
            facts.extend(read.filter(|(shard, facts)| !self.set_back.note(*shard, *facts)));
            if facts.len() > self.sales.len() {
                let listed: HashSet<_> = self.sales.iter().map(|it| it.id).collect();
                facts.retain(|shard, _| listed.contains(shard));
            }
            self.ahead = stats.now.ahead(self.ahead, asked_at, Millis::now());
            self.stats = Some(stats);
            self.locks = locks;
        });
        if let Some(server) = self.conn.server(HOME) {
            self.redis.name.clone_from(&server.product);
        }
        let now = self.now();
        self.redis.note(now, start.elapsed(), result);
        if let Some(confirms) = confirms {
            self.note_confirms(confirms);
        }
        if let Some(writes) = writes {
            self.asked_redis = Some(start);
            self.redis.note_writes(match writes {
                Err(error @ (RedisError::Unwilling(_) | RedisError::ClusterDown(_))) => {
                    Err(error.into())
                }
                // The next read detects a server that has become unreachable since.
                _ => Ok(()),
            });
        }
    }

    fn note_confirms(&mut self, confirms: Result<u32, RedisError>) {
        let wanted = self.wait_replicas;
        self.unconfirmed = match confirms {
            Ok(replicas) if replicas >= wanted => None,
            Ok(replicas) => Some(Unconfirmed { replicas: Some(replicas), wanted, error: None }),
            // The next read detects a server that has become unreachable since.
            Err(error) if error.is_away() => None,
            Err(error) => {
                let error = Some(Message::of(&EngineError::Redis(error)));
                Some(Unconfirmed { replicas: None, wanted, error })
            }
        };
    }

    /// Returns whether the server of this shard does not reply while others do.
    fn is_lost(&self, shard: ShardId) -> bool {
        self.conn.is_lost(&self.keys.partition_of(shard))
    }

    pub(super) fn foreign_keys(&self) -> Vec<ForeignKey> {
        let stats = self.stats.iter().flat_map(|stats| &stats.foreign);
        stats.chain(self.locks.iter().flat_map(|locks| &locks.foreign)).cloned().collect()
    }

    /// The shards that no node reconciles until they have more pieces.
    pub(super) fn oversold(&self) -> Vec<ShardId> {
        let is_oversold = |sale: &&SaleShard| {
            let facts = self.facts(sale.id);
            facts.damaged.is_some()
                && facts.buyers > sale.initial
                && facts.initial.is_none_or(|initial| facts.buyers > initial)
        };
        self.sales.iter().filter(is_oversold).map(|sale| sale.id).collect()
    }

    /// Inconsistent keys of the last stats, of what a node reconciles.
    pub(super) fn damaged(&self) -> Vec<String> {
        let lost = self.stats.as_ref().map_or(&[][..], |stats| &stats.lost);
        let oversold = self.oversold();
        let shards = self.sales.iter().map(|shard| shard.id).filter(|it| !oversold.contains(it));
        damaged_keys(&self.keys, lost, shards.map(|shard| (shard, self.facts(shard).damaged)))
    }

    /// Selects the sales to read: each one that may have changed, and some idle ones in turn. Redis serves no other
    /// client while it reads them, so thousands of planned sales must not be read each time.
    fn due(&mut self) -> Vec<ShardId> {
        let now = self.now();
        let stats = self.stats.iter().flat_map(|stats| &stats.foreign);
        let foreign: HashSet<&str> = stats.map(|found| found.key.as_str()).collect();
        let keys = &self.keys;
        let is_foreign = |sale: &SaleShard| {
            let of = [Layout::sale, Layout::stock, Layout::buyers, Layout::tally];
            let mut names = of.iter().map(|name| name(keys, sale.id));
            !foreign.is_empty() && names.any(|name| foreign.contains(name.as_str()))
        };
        let is_idle_sale = |sale: &&SaleShard| self.is_idle(sale, now) && !is_foreign(sale);
        let (idle, mut due): (Vec<ShardId>, Vec<ShardId>) = {
            let (idle, due): (Vec<_>, Vec<_>) = self.sales.iter().partition(is_idle_sale);
            let id = |sale: &SaleShard| sale.id;
            (idle.into_iter().map(id).collect(), due.into_iter().map(id).collect())
        };
        let turn = if self.turn < idle.len() { self.turn } else { 0 };
        let again = idle.len().min(IDLE_BATCH);
        due.extend(idle.iter().cycle().skip(turn).take(again));
        self.turn = turn + again;
        due
    }

    /// Returns whether the sale is not for sale and the last facts match SQL.
    fn is_idle(&self, sale: &SaleShard, now: Millis) -> bool {
        let Some(facts) = self.facts.get(&sale.id) else { return false };
        let left = facts.stock.and_then(|left| u64::try_from(left).ok());
        let closed = |at| matches!(sale.phase(at, left), Phase::Planned | Phase::Ended);
        closed(now)
            && closed(now.plus(OPENS_SOON_MS))
            && !sale.is_undelivered()
            && facts.damaged.is_none()
            && facts.version == Some(sale.version)
            && facts.initial == Some(sale.initial)
            && facts.buyers == sale.live_orders()
            && left.is_some_and(|left| left + facts.buyers == sale.initial)
    }

    pub(super) fn sale_lines(&self, at: Instant) -> Vec<SaleLine> {
        let now = self.stats.as_ref().map_or_else(|| self.now(), |stats| stats.now);
        let lines = self.sales.iter().map(|sale| {
            let facts = self.facts.get(&sale.id);
            let is_known = !self.redis.up || !self.is_lost(sale.id);
            let mut line = SaleLine::of_shard(sale, now, facts.filter(|_| is_known));
            if let Some(facts) = facts {
                line.funnel = self.sale_funnel(at, sale.id, facts);
            }
            if let Some(held) = self.set_back.newer(sale.id) {
                line.held_in_redis(held, now);
            }
            line
        });
        let lost = self.set_back.lost_lines(now);
        let mut lines = SaleLine::of_vouchers(lines.chain(lost));
        lines.sort_by_key(|line| Reverse(line.voucher_id));
        lines
    }

    fn sale_funnel(&self, at: Instant, shard: ShardId, now: &SaleStats) -> Funnel {
        let facts = |sample: &Sample| sample.facts.get(&shard).copied();
        let first = self.past.since(facts, |facts| facts.admitted + facts.refused());
        Funnel::of(now, |pick| match first.filter(|_| self.redis.up) {
            Some((since, then)) => rate(at, pick(now), since, pick(&then)),
            None => 0.0,
        })
    }
}
