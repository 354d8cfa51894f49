//! Finds what Redis has and SQL lacks: sales, and changes of sales. SQL was restored from a backup then.
//!
//! Redis gets each version of a sale after SQL has committed it. A version that SQL still lacks when it is read after Redis
//! is one that it has lost.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};

use seckill_model::{
    Millis, SaleShard, ShardId, VoucherId,
    ledger::{Finding, SaleFinding},
};
use seckill_redis::stream_stats::{SaleStats, read_stats};

use super::{Collector, READ_TIMEOUT};
use crate::{
    Result,
    ledger::{self, Surplus, sale_copy},
    telemetry::snapshot::SaleLine,
};

/// Interval between searches while a dead consumer holds entries, which may be those of a lost sale.
const SEARCH_EVERY: Duration = Duration::from_secs(10);

/// The copies in Redis of what SQL lacks.
#[derive(Debug, Default)]
pub(super) struct SetBack {
    /// Shards of which SQL has an older version: that version.
    behind: HashMap<ShardId, (u64, SaleShard)>,
    /// Shards that SQL does not have, and their facts; `None` if their server did not reply.
    lost: BTreeMap<ShardId, (SaleShard, Option<SaleStats>)>,
    /// When all keys of Redis were last searched, and whether that failed.
    searched: Option<(Instant, bool)>,
}

impl SetBack {
    /// The shards that SQL does not have.
    pub(super) fn lost(&self) -> Vec<ShardId> {
        self.lost.keys().copied().collect()
    }

    /// Records the facts of a lost shard; one that Redis no longer has is forgotten. Returns whether it is one.
    pub(super) fn note(&mut self, shard: ShardId, facts: SaleStats) -> bool {
        let Some((_, known)) = self.lost.get_mut(&shard) else { return false };
        *known = Some(facts);
        if facts.version.is_none() && facts.stock.is_none() && facts.buyers == 0 {
            self.lost.remove(&shard);
        }
        true
    }

    /// Whether it is unknown which sales SQL has lost.
    pub(super) fn is_unknown(&self) -> bool {
        self.searched.is_some_and(|(_, failed)| failed)
    }

    /// The lines of the lost shards, newest sale first.
    pub(super) fn lost_lines(&self, now: Millis) -> impl Iterator<Item = SaleLine> {
        let lines = self.lost.values().rev();
        lines.map(move |(held, facts)| SaleLine::of_lost(held, now, facts.as_ref()))
    }

    /// The copy of a shard that SQL has in an older version.
    pub(super) fn newer(&self, shard: ShardId) -> Option<&SaleShard> {
        self.behind.get(&shard).map(|(_, held)| held)
    }
}

impl Collector {
    /// Searches all keys of Redis for sales that SQL has lost; returns whether there are others than in the last snapshot.
    ///
    /// # Errors
    /// A server is unreachable; it remains unknown then which sales those are.
    pub async fn find_lost(&mut self) -> Result<bool> {
        let known = self.set_back.lost.len();
        let found = self.search().await;
        self.set_back.searched = Some((Instant::now(), found.is_err()));
        self.add_lost(found?).await?;
        Ok(self.set_back.lost.len() > known)
    }

    async fn add_lost(&mut self, held: Vec<SaleShard>) -> Result<()> {
        if held.is_empty() {
            return Ok(());
        }
        let ids: Vec<ShardId> = held.iter().map(|shard| shard.id).collect();
        let stats = read_stats(&mut self.lookup.conn, &self.keys, &ids).await?;
        let held = held.into_iter().zip(stats.sales);
        self.set_back.lost.extend(held.map(|(shard, facts)| (shard.id, (shard, facts))));
        Ok(())
    }

    async fn search(&mut self) -> Result<Vec<SaleShard>> {
        let servers = &mut self.lookup;
        servers.conn.probe(&servers.keys).await;
        let listed = servers.store.readable_sales().await?;
        let surplus = ledger::surplus(servers, &listed).await?;
        let lost = surplus.into_iter().filter_map(|it| match it {
            Surplus::Lost(held) => Some(held),
            Surplus::InSql(_) | Surplus::Unreadable(_) => None,
        });
        Ok(lost.collect())
    }

    /// Reads the copies in Redis of what SQL lacks, as far as snapshots, nodes and audits show it. Nothing is read while
    /// nothing has changed.
    pub(super) async fn read_set_back(&mut self) {
        if !self.redis.up || !self.sql.up {
            return;
        }
        let listed: HashMap<ShardId, u64> =
            self.sales.iter().map(|sale| (sale.id, sale.version)).collect();
        self.set_back.lost.retain(|shard, _| !listed.contains_key(shard));
        let reading = async {
            self.read_behind(&listed).await?;
            self.read_lost(&listed).await
        };
        match tokio::time::timeout(READ_TIMEOUT, reading).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "copies of sales in Redis were not read"),
            Err(_) => self.lookup.conn.forget(),
        }
        let dead = |(at, _): (Instant, bool)| at.elapsed() >= SEARCH_EVERY;
        if self.set_back.searched.is_none_or(dead) && self.has_dead_entries() {
            match tokio::time::timeout(READ_TIMEOUT, self.find_lost()).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::debug!(%error, "lost sales were not searched"),
                Err(_) => {
                    self.lookup.conn.forget();
                    self.set_back.searched = Some((Instant::now(), true));
                }
            }
        }
    }

    fn has_dead_entries(&self) -> bool {
        let consumers = self.stats.iter().flat_map(|stats| &stats.consumers);
        consumers.into_iter().any(|it| it.pending > 0 && !self.is_alive(&it.name))
    }

    /// Reads the copies of shards that Redis has in a newer version than SQL.
    async fn read_behind(&mut self, listed: &HashMap<ShardId, u64>) -> Result<()> {
        let facts = &self.facts;
        let is_ahead = |shard: ShardId, version: u64| {
            facts.get(&shard).is_some_and(|facts| facts.version > Some(version))
        };
        let behind = &mut self.set_back.behind;
        behind.retain(|shard, (version, held)| {
            let in_redis = facts.get(shard).and_then(|facts| facts.version);
            listed.get(shard) == Some(version) && in_redis == Some(held.version)
        });
        let ahead: HashSet<ShardId> = listed
            .iter()
            .filter(|(shard, version)| is_ahead(**shard, **version) && !behind.contains_key(shard))
            .map(|(shard, _)| *shard)
            .collect();
        if ahead.is_empty() {
            return Ok(());
        }
        // What was changed between the two reads is in SQL by now.
        let again = self.store.readable_sales().await?.shards;
        for sale in again.iter().filter(|sale| ahead.contains(&sale.id)) {
            if !is_ahead(sale.id, sale.version) {
                continue;
            }
            let held = sale_copy::read(&mut self.lookup, sale.id).await?;
            let held = held.and_then(|held| held.adopted(Some(sale)));
            if let Some(held) = held.filter(|held| held.created == sale.created) {
                behind.insert(sale.id, (sale.version, held));
            }
        }
        Ok(())
    }

    /// Reads the copies of sales that SQL has lost, as nodes and audits report.
    async fn read_lost(&mut self, listed: &HashMap<ShardId, u64>) -> Result<()> {
        let found = self.audit.iter().flat_map(|audit| &audit.findings);
        let is_lost = |it: &&SaleFinding| it.what == Finding::NotInSql;
        let found = found.filter(is_lost).filter_map(|it| {
            Some(ShardId { sale: it.sale?.into(), number: it.shard.unwrap_or(0) })
        });
        let mut shards: Vec<ShardId> = found.collect();
        let sales: HashSet<VoucherId> = self.sales.iter().map(|sale| sale.voucher_id).collect();
        for (voucher, _) in self.refused_sales(self.stats.as_ref()) {
            let is_known = |shard: &ShardId| shard.voucher() == voucher;
            if !sales.contains(&voucher) && !self.set_back.lost.keys().any(is_known) {
                // A sale that is spread has no shard 0.
                shards.extend([0, 1].map(|number| ShardId { sale: voucher.into(), number }));
            }
        }
        let mut lost: BTreeMap<ShardId, SaleShard> = BTreeMap::new();
        while let Some(shard) = shards.pop() {
            let is_known = self.set_back.lost.contains_key(&shard) || lost.contains_key(&shard);
            if is_known || listed.contains_key(&shard) {
                continue;
            }
            let held = sale_copy::read(&mut self.lookup, shard).await?;
            if let Some(held) = held.and_then(|held| held.adopted(None)) {
                shards.extend(held.spread.iter().flat_map(|spread| spread.all()));
                lost.insert(shard, held);
            }
        }
        self.add_lost(lost.into_values().collect()).await
    }
}
