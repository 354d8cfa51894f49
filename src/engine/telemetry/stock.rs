//! What was left of each sale over its time, in a curve of few points.
//!
//! A curve holds only moments at which the stock changed. One that grows too long keeps every other of them, so it
//! tells of a sale of a second and of one of a month in the same memory.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use seckill_model::{Millis, Sale, VoucherId};
use seckill_redis::stream_stats::SaleFacts;

/// Points of a curve at most.
const MOST: usize = 512;
/// Milliseconds between two points at first.
const STEP_MS: u64 = 1_000;

/// Pieces left of one sale over time.
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
    /// Since when so many were left, oldest first; each holds until the next. `None` is an outage.
    pub fn points(&self) -> &[(Millis, Option<i64>)] {
        &self.points
    }

    /// Takes what is left at `at`, where that tells something new.
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

/// The curves of all sales; a copy of it costs a pointer a sale.
#[derive(Clone, Debug, Default)]
pub struct Stocks(HashMap<VoucherId, Arc<StockCurve>>);

impl Stocks {
    /// The curve of a sale, from when this node saw it first.
    pub fn of(&self, voucher: VoucherId) -> Option<&StockCurve> {
        self.0.get(&voucher).map(Arc::as_ref)
    }

    /// One more point of a sale.
    pub fn note(&mut self, voucher: VoucherId, at: Millis, left: Option<i64>) {
        let curve = self.0.entry(voucher).or_default();
        // Pictures hold the old one: it is copied only where there is something new.
        if curve.wants(at, left) {
            Arc::make_mut(curve).note(at, left);
        }
    }

    /// One look at all sales that there are; `up` tells whether Redis answered it.
    pub(super) fn look(
        &mut self,
        sales: &[Sale],
        facts: &HashMap<VoucherId, SaleFacts>,
        at: Millis,
        up: bool,
    ) {
        for sale in sales {
            let left = facts.get(&sale.voucher_id).filter(|_| up).and_then(|it| it.stock);
            self.note(sale.voucher_id, at, left);
        }
        // Each sale has its curve by now; the others are of sales that are gone.
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
    fn only_what_is_new_is_kept() {
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
    fn a_long_sale_stays_within_its_bound_and_keeps_its_begin() {
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
    fn a_picture_keeps_its_curve() {
        let mut stocks = Stocks::default();
        stocks.note(VoucherId(7), Millis(0), Some(10));
        let before = stocks.clone();
        stocks.note(VoucherId(7), Millis(5_000), Some(4));
        assert_eq!(before.of(VoucherId(7)).unwrap().points().len(), 1);
        assert_eq!(stocks.of(VoucherId(7)).unwrap().points().len(), 2);
    }
}
