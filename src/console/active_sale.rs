//! Determines the active sale: the one shown by the presenter layout, and by the header while no sale is chosen. Its
//! buyers may reach any process.
//!
//! The choice is sticky until the sale has ended or another one sells: rates fluctuate, and are unknown while Redis is
//! unreachable. A sale that is sold out also gives way to a later one that is open or sold out.

use seckill_engine::{SaleLine, Snapshot};
use seckill_model::{Millis, Phase, VoucherId};

/// How long a sale without a rate stays active before another one replaces it: a slow sale pauses between orders.
const HOLD_MS: u64 = 5_000;

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
        let open = self.0.filter(|(sale, _)| is_open(snapshot, *sale));
        let gives_way = open.is_none_or(|(_, seen)| snapshot.taken.since(seen) >= HOLD_MS);
        let newest = snapshot.sales.iter().find(|sale| gives_way && is_selling(sale));
        let now = chosen.filter(sells).or(before.filter(sells)).or(newest.map(|it| it.voucher_id));
        self.0 = now.map(|sale| (sale, snapshot.taken)).or(open);
        self.0.is_some() && self.sale() != before
    }
}

/// A short sale may be sold out before any snapshot shows it open.
fn is_selling(sale: &SaleLine) -> bool {
    is_on(sale) && sale.funnel.admitted.per_second > 0.0
}

/// Whether the active sale may stay. The result of a sold-out sale is shown until there is a later one.
fn is_open(snapshot: &Snapshot, sale: VoucherId) -> bool {
    let is_running = snapshot.sale(sale).is_some_and(|sale| sale.phase == Phase::Running);
    let on = snapshot.sales.iter().filter(|sale| is_on(sale));
    is_running || on.map(|sale| sale.voucher_id).max() == Some(sale)
}

/// Open or sold out: neither planned nor paused nor ended.
fn is_on(sale: &SaleLine) -> bool {
    matches!(sale.phase, Phase::Running | Phase::SoldOut)
}
