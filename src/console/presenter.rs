//! State of the presenter layout: whether it is on, which sale it shows, how long that sale took to sell out, and how
//! many entries a dead node left behind.

use std::collections::HashMap;

use seckill_engine::{SaleLine, Snapshot};
use seckill_model::{Millis, VoucherId};

/// When the full stock of a sale was last seen, and when it was first seen sold out.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    whole: Option<Millis>,
    gone: Option<Millis>,
}

#[derive(Debug, Default)]
pub(crate) struct Presenter {
    pub(crate) on: bool,
    /// The sale chosen here or launched; independent of the choice in the views.
    pub(crate) sale: Option<VoucherId>,
    /// Set by a launch, not by a key.
    pub(super) launched: bool,
    /// The most entries that were stranded at once since buyers last came; 0 if none were.
    pub(super) stranded: u64,
    seen: HashMap<VoucherId, Seen>,
}

/// Entries held by dead nodes, or being recovered, except those that are certain to be in SQL already.
pub(crate) fn stranded(snapshot: &Snapshot) -> u64 {
    let consumers = snapshot.stream.iter().flat_map(|stream| &stream.consumers);
    let held: u64 = consumers.filter(|it| !it.takes()).map(|it| it.pending).sum();
    snapshot.unwritten().map_or(held, |orders| orders.min(held))
}

impl Presenter {
    /// Records what a snapshot shows of each sale.
    pub(super) fn look(&mut self, snapshot: &Snapshot) {
        if !snapshot.redis.up {
            return;
        }
        let stranded = stranded(snapshot);
        if stranded == 0 && snapshot.funnel.attempts.per_second > 0.0 {
            self.stranded = 0;
        }
        self.stranded = self.stranded.max(stranded);
        self.seen.retain(|id, _| snapshot.sale(*id).is_some());
        for sale in &snapshot.sales {
            let Some(left) = sale.stock.and_then(|left| u64::try_from(left).ok()) else { continue };
            let seen = self.seen.entry(sale.voucher_id).or_default();
            if left >= sale.initial {
                seen.whole = Some(snapshot.taken);
            }
            seen.gone = (left == 0).then(|| seen.gone.unwrap_or(snapshot.taken));
        }
    }

    /// Milliseconds from the first piece sold to the last; `None` unless this console saw both.
    pub(crate) fn took_ms(&self, voucher: VoucherId) -> Option<u64> {
        let seen = self.seen.get(&voucher)?;
        seen.gone.zip(seen.whole).map(|(gone, whole)| gone.since(whole))
    }
}

/// Whether nothing is left for buyers to come for.
pub(super) fn is_gone(sale: &SaleLine) -> bool {
    sale.phase.is_over() || sale.stock.is_some_and(|left| left <= 0)
}
