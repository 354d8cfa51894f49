//! Sales in a Snapshot: the ones to read from Redis, since reading thousands of planned sales each time would take too
//! long, and their displayed figures.

use std::{collections::HashSet, time::Instant};

use seckill_model::{Millis, Phase, Sale, VoucherId};
use seckill_redis::{Layout, stream_stats::SaleStats};

use super::Collector;
use crate::telemetry::{
    snapshot::{Funnel, SaleLine},
    window::rate,
};

/// Idle sales read per snapshot: four keys each, about a millisecond of Redis.
const IDLE_BATCH: usize = 200;
/// A planned sale counts as open this long before its window opens.
const OPENS_SOON_MS: i64 = 5_000;

impl Collector {
    /// Selects the sales to read: each one that may have changed, and some idle ones in turn. Redis serves no other
    /// client while it reads them, so thousands of planned sales must not be read each time.
    pub(super) fn due(&mut self) -> Vec<VoucherId> {
        let now = self.now();
        let stats = self.stats.iter().flat_map(|stats| &stats.foreign);
        let foreign: HashSet<&str> = stats.map(|found| found.key.as_str()).collect();
        let keys = &self.keys;
        let is_foreign = |sale: &Sale| {
            let of = [Layout::sale, Layout::stock, Layout::buyers, Layout::tally];
            let mut names = of.iter().map(|name| name(keys, sale.voucher_id));
            !foreign.is_empty() && names.any(|name| foreign.contains(name.as_str()))
        };
        let is_idle_sale = |sale: &&Sale| self.is_idle(sale, now) && !is_foreign(sale);
        let (idle, mut due): (Vec<VoucherId>, Vec<VoucherId>) = {
            let (idle, due): (Vec<_>, Vec<_>) = self.sales.iter().partition(is_idle_sale);
            let id = |sale: &Sale| sale.voucher_id;
            (idle.into_iter().map(id).collect(), due.into_iter().map(id).collect())
        };
        let turn = if self.turn < idle.len() { self.turn } else { 0 };
        let again = idle.len().min(IDLE_BATCH);
        due.extend(idle.iter().cycle().skip(turn).take(again));
        self.turn = turn + again;
        due
    }

    /// Returns whether the sale is not for sale and the last facts match SQL.
    fn is_idle(&self, sale: &Sale, now: Millis) -> bool {
        let Some(facts) = self.facts.get(&sale.voucher_id) else { return false };
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
        self.sales
            .iter()
            .map(|sale| {
                let facts = self.facts.get(&sale.voucher_id);
                let mut line = SaleLine::of(sale, now, facts);
                if let Some(facts) = facts {
                    line.funnel = self.sale_funnel(at, sale.voucher_id, facts);
                }
                line
            })
            .collect()
    }

    fn sale_funnel(&self, at: Instant, voucher: VoucherId, now: &SaleStats) -> Funnel {
        let first = self.past.first(|sample| sample.facts.get(&voucher).copied());
        Funnel::of(now, |pick| match first.filter(|_| self.redis.up) {
            Some((since, then)) => rate(at, pick(now), since, pick(&then)),
            None => 0.0,
        })
    }
}
