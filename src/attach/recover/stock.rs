//! When the stock of a sale in Redis may be set and its buyers removed, and to what.
//!
//! The rule is explored in `model`: figures of one moment, which several passes have seen, and a raise only at rest.

use std::{collections::HashSet, mem, time::Duration};

use seckill_model::{Millis, UserId, VoucherId};
use seckill_redis::{Connection, scripts};

use super::{Recovery, plan::SalePlan};
use crate::{Profile, Report, Result, SaleReport, marks::mark_of, watcher::SETTLE};

/// Passes that must see the same figures at the same moment, before a stock is set or a buyer is removed.
pub(super) const PASSES: u8 = 3;

/// One moment of a sale in Redis, as `lua/moment.lua` writes it. Nothing was added or returned between two equal ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Moment(pub(super) String);

/// The moments of these sales, read by one script.
pub(super) async fn moments(
    conn: &mut Connection,
    profile: &Profile,
    sales: &[VoucherId],
) -> Result<Vec<Moment>> {
    if sales.is_empty() {
        return Ok(Vec::new());
    }
    let mut read = scripts::ATTACH_MOMENT.prepare_invoke();
    read.key(&profile.stream.key);
    for sale in sales {
        read.key(profile.stock(*sale)).key(profile.buyers(*sale)).key(mark_of(profile, *sale));
    }
    read.arg(&profile.stream.group);
    let texts: Vec<String> = conn.invoke(&read).await?;
    Ok(texts.into_iter().map(Moment).collect())
}

/// What is compared of a sale. All of one moment; `None` if it is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Figures {
    /// The stock in Redis; `None` without the key.
    pub(super) redis_stock: Option<i64>,
    /// The stock in SQL.
    pub(super) sql_stock: i64,
    /// Entries of the sale that are not acknowledged, whatever will become of them, and those whose sale is unreadable.
    pub(super) in_flight: Option<u64>,
    /// Users with such an entry that has no order yet.
    pub(super) unwritten: Option<u64>,
    /// Buyers with neither an order nor an entry.
    pub(super) without_order: Option<u64>,
    /// Buyers whose only orders are closed: the service may return a piece yet, or owe them an order.
    pub(super) only_closed: Option<u64>,
}

impl Figures {
    /// The figures of the sale in this report.
    pub(super) fn of(sale: &SaleReport) -> Self {
        Self {
            redis_stock: sale.redis_stock,
            sql_stock: sale.sql_stock,
            in_flight: sale.entries_in_flight,
            unwritten: sale.in_flight.or(sale.entries_in_flight.filter(|it| *it == 0)),
            without_order: sale.buyers_without_order,
            only_closed: sale.buyers_with_closed_order,
        }
    }

    /// The stock that Redis should have; `None` if it may stay as it is, or if that is unknown.
    ///
    /// It is lowered to what SQL has left after all that is in flight. It is raised at rest only, to what is left after
    /// every buyer without a live order has got a piece: one of them may have been promised it.
    pub(super) fn target(&self) -> Option<i64> {
        let left = self.sql_stock.saturating_sub_unsigned(self.unwritten?).max(0);
        if self.redis_stock.is_some_and(|it| it > left) {
            return Some(left);
        }
        let promised = self.without_order?.saturating_add(self.only_closed?);
        let least = left.saturating_sub_unsigned(promised).max(0);
        let is_less = self.redis_stock.is_none_or(|it| it < least);
        (is_less && self.is_at_rest()).then_some(least)
    }

    /// Whether nothing is on its way. Only then is a stock raised, or a buyer removed.
    pub(super) fn is_at_rest(&self) -> bool {
        self.in_flight == Some(0)
    }
}

/// A sale whose figures passes have seen unchanged.
#[derive(Debug)]
pub(super) struct Compared<'p> {
    pub(super) plan: &'p SalePlan,
    pub(super) moment: Moment,
    pub(super) figures: Figures,
    /// Buyers with neither an order nor an entry whom the plan removes.
    pub(super) removed: Vec<String>,
}

impl Compared<'_> {
    /// The buyers who are removed.
    pub(super) fn removed_users(&self) -> impl Iterator<Item = (VoucherId, UserId)> {
        let users = self.removed.iter().filter_map(|it| it.parse().ok().map(UserId));
        users.map(|user| (self.plan.voucher_id, user))
    }

    /// The stock to set, if the plan has it.
    pub(super) fn target(&self) -> Option<i64> {
        let removed = self.removed.len() as u64;
        let without_order = self.figures.without_order.map(|it| it.saturating_sub(removed));
        let target = Figures { without_order, ..self.figures }.target()?;
        let planned = self.plan.redis_stock;
        // A stock that was changed since the plan has a reason that the plan does not contain. A planned lowering that has
        // become a raise would not have waited either.
        let is_planned = planned.now == self.figures.redis_stock && planned.after == Some(target);
        (planned.is_change() && is_planned).then_some(target)
    }
}

/// Sales whose figures are compared pass by pass.
#[derive(Debug)]
pub(super) struct Lasting<'p> {
    /// Those that nothing has changed since the first pass.
    pub(super) sales: Vec<Compared<'p>>,
    /// Those that have changed.
    pub(super) changed: Vec<&'p SalePlan>,
    passes: u8,
    /// The end of the first pass.
    since: Option<Millis>,
}

impl<'p> Lasting<'p> {
    pub(super) fn new(plans: impl IntoIterator<Item = &'p SalePlan>) -> Self {
        let compared = |plan: &'p SalePlan| Compared {
            plan,
            moment: Moment::default(),
            figures: Figures::UNKNOWN,
            removed: Vec::new(),
        };
        let sales = plans.into_iter().map(compared).collect();
        Self { sales, changed: Vec::new(), passes: 0, since: None }
    }

    /// How long the figures must last: a service may have changed SQL, and Redis not yet.
    fn wanted_ms(&self, stuck_ms: u64) -> u64 {
        let waits = self.sales.iter().any(|it| it.plan.waits());
        if waits { stuck_ms } else { 0 }
    }

    /// The pause before the next pass; `None` if these were enough.
    pub(super) fn pause(&self, stuck_ms: u64, begun: Millis) -> Option<Duration> {
        let wanted = self.wanted_ms(stuck_ms);
        let lasted = self.since.map_or(0, |since| begun.since(since));
        if self.sales.is_empty() || (self.passes >= PASSES && lasted >= wanted) {
            return None;
        }
        let millis = wanted / (u64::from(PASSES) - 1);
        Some(SETTLE.max(Duration::from_millis(millis)))
    }

    /// Gives up the sales for which this holds.
    pub(super) fn give_up(&mut self, is_changed: impl Fn(&Compared<'p>) -> bool) {
        let sales = mem::take(&mut self.sales);
        let (changed, same) = sales.into_iter().partition(is_changed);
        let changed: Vec<Compared<'p>> = changed;
        self.changed.extend(changed.into_iter().map(|it| it.plan));
        self.sales = same;
    }

    /// One pass; returns when it began. A sale that has changed is given up.
    pub(super) async fn pass(&mut self, recovery: &mut Recovery) -> Result<Millis> {
        let vouchers: Vec<VoucherId> = self.sales.iter().map(|it| it.plan.voucher_id).collect();
        let Recovery { conn, profile, watcher, .. } = recovery;
        let begun = conn.now().await?;
        let before = moments(conn, profile, &vouchers).await?;
        let report = watcher.pass().await?;
        let after = moments(conn, profile, &vouchers).await?;
        let lacking = watcher.lacking.iter().map(|(sale, user)| (*sale, user.as_str()));
        let lacking: HashSet<(VoucherId, &str)> = lacking.collect();
        let is_first = self.passes == 0;
        let seen = before.into_iter().zip(after).zip(mem::take(&mut self.sales));
        for ((before, after), mut sale) in seen {
            let plan = sale.plan;
            let figures = figures_of(&report, plan.voucher_id);
            let users = plan.buyers_without_order.iter().filter(|_| plan.remove_buyers);
            let removed = users.filter(|user| lacking.contains(&(plan.voucher_id, user.as_str())));
            let removed: Vec<String> = removed.cloned().collect();
            if is_first {
                (sale.moment, sale.figures, sale.removed) = (before.clone(), figures, removed);
            } else if sale.removed != removed || sale.figures != figures {
                self.changed.push(plan);
                continue;
            }
            let moves = before != after || sale.moment != after;
            if moves || (plan.waits() && !figures.is_at_rest()) {
                self.changed.push(plan);
                continue;
            }
            self.sales.push(sale);
        }
        self.passes += 1;
        if is_first {
            self.since = Some(recovery.conn.now().await?);
        }
        Ok(begun)
    }
}

fn figures_of(report: &Report, voucher: VoucherId) -> Figures {
    let sale = report.sales.iter().find(|it| it.voucher_id == voucher);
    sale.filter(|it| !it.moved).map_or(Figures::UNKNOWN, Figures::of)
}

impl Figures {
    const UNKNOWN: Self = Self {
        redis_stock: None,
        sql_stock: 0,
        in_flight: None,
        unwritten: None,
        without_order: None,
        only_closed: None,
    };
}

#[cfg(test)]
mod tests {
    use super::super::plan::Change;
    use super::*;

    const REST: Figures = Figures {
        redis_stock: Some(0),
        sql_stock: 5,
        in_flight: Some(0),
        unwritten: Some(0),
        without_order: Some(0),
        only_closed: Some(0),
    };

    #[test]
    fn what_is_unknown_or_promised_is_not_sold_again() {
        assert_eq!(REST.target(), Some(5));
        let promised = Figures { without_order: Some(2), only_closed: Some(1), ..REST };
        assert_eq!(promised.target(), Some(2));
        for unknown in [
            Figures { in_flight: None, ..REST },
            Figures { in_flight: Some(1), ..REST },
            Figures { unwritten: None, ..REST },
            Figures { without_order: None, ..REST },
            Figures { only_closed: None, ..REST },
        ] {
            assert_eq!(unknown.target(), None, "{unknown:?}");
        }
        // It is lowered whatever is in flight.
        let above =
            Figures { redis_stock: Some(9), in_flight: Some(3), unwritten: Some(2), ..REST };
        assert_eq!(above.target(), Some(3));
        assert_eq!(Figures { without_order: None, ..above }.target(), Some(3));
    }

    #[test]
    fn a_stock_that_has_changed_since_the_plan_is_left() {
        let plan = SalePlan {
            voucher_id: VoucherId(10),
            orders: Change { now: Some(3), after: Some(3) },
            sql_stock: Change { now: 17, after: 17 },
            redis_stock: Change { now: Some(19), after: Some(17) },
            add_buyers: Vec::new(),
            buyers_without_order: Vec::new(),
            buyers_with_closed_order: Vec::new(),
            remove_buyers: false,
        };
        let target = |redis_stock| {
            let figures = Figures { redis_stock, sql_stock: 17, ..REST };
            let moment = Moment::default();
            Compared { plan: &plan, moment, figures, removed: Vec::new() }.target()
        };
        assert_eq!(target(Some(19)), Some(17));
        // Of a planned lowering it would make a raise, after no wait.
        for other in [Some(12), Some(18), Some(20), None] {
            assert_eq!(target(other), None, "{other:?}");
        }
    }
}
