//! Remaining stock of each sale over time, as a curve of few points.
//!
//! A curve holds only changes of the stock. One that becomes too long drops every other point, so it covers a sale of a
//! second or of a month in the same memory.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use seckill_model::{Millis, Sale, VoucherId};
use seckill_redis::stream_stats::SaleStats;

/// Maximum number of points of a curve.
const MOST: usize = 512;
/// Initial distance between two points in milliseconds.
const STEP_MS: u64 = 1_000;

/// Remaining stock of one sale over time.
#[derive(Clone, Debug, PartialEq)]
pub struct StockCurve {
    step: u64,
    points: Vec<(Millis, Option<i64>)>,
}

impl Default for StockCurve {
    fn default() -> Self {
        Self { step: STEP_MS, points: Vec::new() }
    }
}

impl StockCurve {
    /// Times with the remaining stock, oldest first; each holds until the next. `None` is an outage.
    pub fn points(&self) -> &[(Millis, Option<i64>)] {
        &self.points
    }

    /// Records the stock at `at` if it changed.
    pub fn note(&mut self, at: Millis, left: Option<i64>) {
        if !self.wants(at, left) {
            return;
        }
        self.points.push((at, left));
        if self.points.len() > MOST {
            self.step *= 2;
            let mut place = 0;
            self.points.retain(|_| {
                place += 1;
                place % 2 == 1
            });
        }
    }

    fn wants(&self, at: Millis, left: Option<i64>) -> bool {
        self.points.last().is_none_or(|(then, was)| {
            *was != left && (was.is_some() != left.is_some() || at.since(*then) >= self.step)
        })
    }
}

/// The curves of all sales; cloning costs a pointer per sale.
#[derive(Clone, Debug, Default)]
pub struct Stocks(HashMap<VoucherId, Arc<StockCurve>>);

impl Stocks {
    /// Returns the curve of a sale since this node first saw it.
    pub fn of(&self, voucher: VoucherId) -> Option<&StockCurve> {
        self.0.get(&voucher).map(Arc::as_ref)
    }

    /// Adds a point to a sale.
    pub fn note(&mut self, voucher: VoucherId, at: Millis, left: Option<i64>) {
        let curve = self.0.entry(voucher).or_default();
        // Snapshots share the old curve, so it is copied only when it changes.
        if curve.wants(at, left) {
            Arc::make_mut(curve).note(at, left);
        }
    }

    /// Records all existing sales; `up` is whether Redis replied.
    pub(super) fn look(
        &mut self,
        sales: &[Sale],
        facts: &HashMap<VoucherId, SaleStats>,
        at: Millis,
        up: bool,
    ) {
        for sale in sales {
            let left = facts.get(&sale.voucher_id).filter(|_| up).and_then(|it| it.stock);
            self.note(sale.voucher_id, at, left);
        }
        // All current sales have a curve now; the other curves are of removed sales.
        if self.0.len() > sales.len() {
            let listed: HashSet<_> = sales.iter().map(|sale| sale.voucher_id).collect();
            self.0.retain(|voucher, _| listed.contains(voucher));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_kept() {
        let mut curve = StockCurve::default();
        for at in 0..100 {
            curve.note(Millis(at * 1_000), Some(10));
        }
        curve.note(Millis(99_100), Some(9));
        curve.note(Millis(99_200), None);
        curve.note(Millis(99_300), Some(9));
        curve.note(Millis(99_400), Some(8));
        curve.note(Millis(101_000), Some(8));
        let left: Vec<_> = curve.points().iter().map(|(_, left)| *left).collect();
        assert_eq!(left, [Some(10), Some(9), None, Some(9), Some(8)]);
    }

    #[test]
    fn a_long_sale_is_bounded_and_keeps_its_start() {
        let mut curve = StockCurve::default();
        for at in 0..1_000_000 {
            curve.note(Millis(at * 1_000), Some(1_000_000 - at));
        }
        assert!(curve.points().len() <= MOST && curve.points().len() > MOST / 4);
        assert_eq!(curve.points().first(), Some(&(Millis(0), Some(1_000_000))));
        let (at, _) = curve.points().last().unwrap();
        assert!(at.0 > 990_000_000, "{at}");
    }

    #[test]
    fn a_snapshot_keeps_its_curve() {
        let mut stocks = Stocks::default();
        stocks.note(VoucherId(7), Millis(0), Some(10));
        let before = stocks.clone();
        stocks.note(VoucherId(7), Millis(5_000), Some(4));
        assert_eq!(before.of(VoucherId(7)).unwrap().points().len(), 1);
        assert_eq!(stocks.of(VoucherId(7)).unwrap().points().len(), 2);
    }
}
