//! Remaining stock and admitted buyers of each sale over time, as curves of few points.
//!
//! A curve holds only changes of its count. One that becomes too long drops every other point, so it covers a sale of a
//! second or of a month in the same memory.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use seckill_model::{Millis, VoucherId};

use super::sale_line::SaleLine;

/// Maximum number of points of a curve.
const MOST: usize = 512;
/// Initial distance between two points in milliseconds.
const STEP_MS: u64 = 1_000;

/// A count over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    step: u64,
    points: Vec<(Millis, Option<i64>)>,
}

impl Default for Curve {
    fn default() -> Self {
        Self { step: STEP_MS, points: Vec::new() }
    }
}

impl Curve {
    /// Times with the count, oldest first; each holds until the next. `None` is an outage.
    pub fn points(&self) -> &[(Millis, Option<i64>)] {
        &self.points
    }

    /// Records the count at `at` if it changed.
    pub fn note(&mut self, at: Millis, count: Option<i64>) {
        if !self.wants(at, count) {
            return;
        }
        self.points.push((at, count));
        if self.points.len() > MOST {
            self.step *= 2;
            let mut place = 0;
            self.points.retain(|_| {
                place += 1;
                place % 2 == 1
            });
        }
    }

    fn wants(&self, at: Millis, count: Option<i64>) -> bool {
        self.points.last().is_none_or(|(then, was)| {
            *was != count && (was.is_some() != count.is_some() || at.since(*then) >= self.step)
        })
    }
}

/// The curves of one sale since this node first saw it.
#[derive(Clone, Debug, Default)]
pub struct SaleCurves {
    /// Remaining stock, which also changes when it is restocked or cut.
    pub stock: Curve,
    /// Buyers admitted so far.
    pub admitted: Curve,
}

/// The curves of all sales; cloning costs a pointer per sale.
#[derive(Clone, Debug, Default)]
pub struct Curves(HashMap<VoucherId, Arc<SaleCurves>>);

impl Curves {
    /// Returns the curves of a sale.
    pub fn of(&self, voucher: VoucherId) -> Option<&SaleCurves> {
        self.0.get(&voucher).map(Arc::as_ref)
    }

    /// Adds a point to the curves of a sale.
    pub fn note(
        &mut self,
        voucher: VoucherId,
        at: Millis,
        stock: Option<i64>,
        admitted: Option<i64>,
    ) {
        let curves = self.0.entry(voucher).or_default();
        // Snapshots share the old curves, so they are copied only when one changes.
        if curves.stock.wants(at, stock) || curves.admitted.wants(at, admitted) {
            let curves = Arc::make_mut(curves);
            curves.stock.note(at, stock);
            curves.admitted.note(at, admitted);
        }
    }

    /// Records all existing sales; `up` is whether Redis replied.
    pub(super) fn look(&mut self, sales: &[SaleLine], at: Millis, up: bool) {
        for sale in sales {
            let stock = sale.stock.filter(|_| up);
            let admitted = stock.and_then(|_| i64::try_from(sale.funnel.admitted.total).ok());
            self.note(sale.voucher_id, at, stock, admitted);
        }
        // All current sales have curves now; the others are of removed sales.
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
        let mut curve = Curve::default();
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
        let mut curve = Curve::default();
        for at in 0..1_000_000 {
            curve.note(Millis(at * 1_000), Some(1_000_000 - at));
        }
        assert!(curve.points().len() <= MOST && curve.points().len() > MOST / 4);
        assert_eq!(curve.points().first(), Some(&(Millis(0), Some(1_000_000))));
        let (at, _) = curve.points().last().unwrap();
        assert!(at.0 > 990_000_000, "{at}");
    }

    #[test]
    fn a_snapshot_keeps_its_curves() {
        let mut curves = Curves::default();
        curves.note(VoucherId(7), Millis(0), Some(10), Some(0));
        let before = curves.clone();
        curves.note(VoucherId(7), Millis(5_000), Some(4), Some(0));
        let points = |curves: &Curves| {
            let of_sale = curves.of(VoucherId(7)).unwrap();
            [of_sale.stock.points().len(), of_sale.admitted.points().len()]
        };
        assert_eq!([points(&before), points(&curves)], [[1, 1], [2, 1]]);
    }
}
