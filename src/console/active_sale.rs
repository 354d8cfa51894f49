//! Determines the active sale: the one shown by the presenter layout, and by the header while no sale is chosen. Its
//! buyers may reach any process.
//!
//! The choice is sticky: rates fluctuate, and are unknown while Redis is unreachable.

use seckill_engine::{SaleLine, Snapshot};
use seckill_model::{Millis, Phase, VoucherId};

/// How long a sale without a rate stays active before another one replaces it: a slow sale pauses between orders.
const HOLD_MS: u64 = 5_000;
/// How long a sale stays active while no other one sells.
const LAST_MS: u64 = 60_000;

/// The active sale, and when it last sold.
#[derive(Debug, Default)]
pub(crate) struct ActiveSale(Option<(VoucherId, Millis)>);

impl ActiveSale {
    pub(crate) fn sale(&self) -> Option<VoucherId> {
        self.0.map(|(sale, _)| sale)
    }

    /// Applies a snapshot. Among several selling sales, `chosen` comes first, then the active one, then the newest.
    /// Returns whether the active sale changed.
    pub(crate) fn look(&mut self, snapshot: &Snapshot, chosen: Option<VoucherId>) -> bool {
        if !snapshot.redis.up {
            // Time while Redis is unreachable does not count.
            self.0 = self.0.map(|(sale, _)| (sale, snapshot.taken));
            return false;
        }
        let before = self.sale();
        let sells = |id: &VoucherId| snapshot.sale(*id).is_some_and(is_selling);
        let since = self
            .0
            .filter(|(sale, _)| is_open(snapshot, *sale))
            .map(|(_, seen)| snapshot.taken.since(seen));
        let newest = || snapshot.sales.iter().find(|sale| is_selling(sale));
        if let Some(sale) = chosen.filter(sells).or(before.filter(sells)) {
            self.0 = Some((sale, snapshot.taken));
        } else if since.is_none_or(|since| since >= HOLD_MS) {
            match newest() {
                Some(sale) => self.0 = Some((sale.voucher_id, snapshot.taken)),
                None if since.is_none_or(|since| since >= LAST_MS) => self.0 = None,
                None => {}
            }
        }
        self.0.is_some() && self.sale() != before
    }
}

fn is_selling(sale: &SaleLine) -> bool {
    sale.phase == Phase::Running && sale.funnel.admitted.per_second > 0.0
}

/// A finished sale does not stay active.
fn is_open(snapshot: &Snapshot, sale: VoucherId) -> bool {
    snapshot.sale(sale).is_some_and(|sale| sale.phase == Phase::Running)
}
