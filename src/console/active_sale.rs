//! Which sale sells now, so that the stage, and the header while no sale is chosen, speak of that one, whichever process
//! its buyers come to.
//!
//! It holds on to what it named: rates waver, and no one can tell them while Redis is away. It draws nothing.

use seckill_engine::telemetry::{Snapshot, snapshot::SaleLine};
use seckill_model::{Millis, Phase, VoucherId};

use super::app::App;

/// Between two orders of a slow sale nothing sells, by the rates: for so long no other one takes its place.
const HOLD_MS: u64 = 5_000;
/// Where no other one sells, it is spoken of for so long.
const LAST_MS: u64 = 60_000;

/// The sale that sells, and when it was last seen to.
#[derive(Debug, Default)]
pub(crate) struct Selling(Option<(VoucherId, Millis)>);

impl Selling {
    pub(crate) fn sale(&self) -> Option<VoucherId> {
        self.0.map(|(sale, _)| sale)
    }

    /// Takes what a picture tells; of several that sell, `chosen` comes first, then the one that was named before, then
    /// the newest. Says whether it is another one now.
    pub(crate) fn look(&mut self, picture: &Snapshot, chosen: Option<VoucherId>) -> bool {
        if !picture.redis.up {
            // What it did in the meantime is not held against it.
            self.0 = self.0.map(|(sale, _)| (sale, picture.taken));
            return false;
        }
        let before = self.sale();
        let sells = |id: &VoucherId| picture.sale(*id).is_some_and(is_selling);
        let since = self
            .0
            .filter(|(sale, _)| is_open(picture, *sale))
            .map(|(_, seen)| picture.taken.since(seen));
        let newest = || picture.sales.iter().find(|sale| is_selling(sale));
        if let Some(sale) = chosen.filter(sells).or(before.filter(sells)) {
            self.0 = Some((sale, picture.taken));
        } else if since.is_none_or(|since| since >= HOLD_MS) {
            match newest() {
                Some(sale) => self.0 = Some((sale.voucher_id, picture.taken)),
                None if since.is_none_or(|since| since >= LAST_MS) => self.0 = None,
                None => {}
            }
        }
        self.0.is_some() && self.sale() != before
    }
}

impl App {
    /// What the stage speaks of, and the header while no sale is chosen: the sale that is rushed from here, else the one that sells, else the chosen one. An
    /// old sale is not among those that a picture lists.
    pub(crate) fn at_sale(&self) -> Option<&SaleLine> {
        let rushed = self.shown.rushed();
        let only = if let [only] = rushed.as_slice() { Some(*only) } else { None };
        let mut told = only.into_iter().chain(self.selling.sale()).chain(self.sales.chosen);
        told.find_map(|voucher| self.shown.sale(voucher))
    }
}

fn is_selling(sale: &SaleLine) -> bool {
    sale.phase == Phase::Running && sale.funnel.admitted.per_second > 0.0
}

/// One that is over has nothing to hold on to.
fn is_open(picture: &Snapshot, sale: VoucherId) -> bool {
    picture.sale(sale).is_some_and(|sale| sale.phase == Phase::Running)
}
