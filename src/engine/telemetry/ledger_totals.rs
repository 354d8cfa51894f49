//! The ledger by totals alone, cheap enough for every snapshot.

use seckill_model::{
    SaleShard, ShardId,
    ledger::{Balance, Finding, SaleFinding, SaleKey},
};
use seckill_redis::stream_stats::{SaleStats, StreamStats};

use super::ledger_hysteresis::Proof;

/// Figures that identify the state of the ledger in a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub(super) admitted: u64,
    pub(super) persisted: u64,
    pub(super) dead: u64,
    pub(super) outstanding: Option<u64>,
    pub(super) sales: Vec<SaleFigures>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SaleFigures {
    pub(super) shard: ShardId,
    /// Initial and current stock in Redis; `None` if the sale is not loaded.
    pub(super) redis: Option<(u64, i64)>,
    /// The inconsistent key of the sale.
    pub(super) damaged: Option<SaleKey>,
    pub(super) buyers: u64,
    pub(super) sql_initial: u64,
}

impl Figures {
    /// Makes them from the sales in SQL with their facts in Redis, the order stream, and the number of closed orders
    /// that Redis has not confirmed.
    pub(crate) fn of<'a>(
        sales: impl Iterator<Item = (&'a SaleShard, SaleStats)>,
        stream: Option<&StreamStats>,
        returning: u64,
    ) -> Self {
        let outstanding =
            stream.and_then(|stream| Some(stream.lag? + stream.pending + stream.gone + returning));
        let dead = stream.map_or(0, |stream| stream.dead);
        let mut figures = Self { dead, outstanding, ..Self::default() };
        for (sale, facts) in sales {
            figures.admitted += facts.buyers;
            figures.persisted += sale.live_orders();
            figures.sales.push(SaleFigures {
                shard: sale.id,
                redis: facts.initial.zip(facts.stock),
                damaged: facts.damaged,
                buyers: facts.buyers,
                sql_initial: sale.initial,
            });
        }
        figures
    }

    /// Returns the balance by totals, refined by the findings of an audit of the same figures. SQL is read before
    /// Redis, so a difference counts only when two consecutive snapshots show the same one (`settled`).
    pub(crate) fn balance(&self, audit: Option<&[SaleFinding]>, settled: bool) -> Balance {
        let mut findings = self.of_sales();
        findings.extend(self.of_totals().map(|what| SaleFinding { sale: None, shard: None, what }));
        findings.extend(audit.into_iter().flatten().cloned());
        match self.outstanding {
            _ if settled && !findings.is_empty() => Balance::Off { findings },
            Some(0) if findings.is_empty() => Balance::Balanced { by_id: audit.is_some() },
            Some(orders @ 1..) => Balance::InFlight { orders },
            None if findings.is_empty() => Balance::Unknown,
            _ => Balance::InFlight { orders: self.admitted.abs_diff(self.persisted) },
        }
    }

    /// Checks the totals of all sales. More orders can be in flight than were admitted, since a pending entry may be
    /// written already; fewer cannot.
    fn of_totals(&self) -> Option<Finding> {
        let outstanding = self.outstanding?;
        let known = self.persisted + self.dead + outstanding;
        if self.admitted > known {
            Some(Finding::Lost(self.admitted - known))
        } else if outstanding == 0 && self.persisted > self.admitted {
            Some(Finding::Unknown(self.persisted - self.admitted))
        } else if outstanding == 0 && self.persisted < self.admitted {
            Some(Finding::Stranded(self.admitted - self.persisted))
        } else {
            None
        }
    }

    /// Returns whether each order is in one place: none is both pending and written, and no dead letter without a buyer
    /// masks a lost order.
    fn is_consistent(&self) -> bool {
        let known = self.outstanding.map(|in_flight| self.persisted + self.dead + in_flight);
        known == Some(self.admitted)
    }

    /// Returns what these figures prove about an earlier finding.
    pub(super) fn proof(&self, now: &Balance, settled: bool) -> Proof {
        match now {
            Balance::Balanced { by_id: true } if settled => Proof::Ids,
            Balance::Balanced { .. } if settled => Proof::Rest,
            Balance::Unknown | Balance::Off { .. } => Proof::Nothing,
            Balance::InFlight { .. } if settled && self.is_consistent() => Proof::InFlight,
            _ if self.of_sales().is_empty() => Proof::Sales,
            _ => Proof::Nothing,
        }
    }

    /// Returns whether nothing is in flight.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.outstanding == Some(0)
    }

    /// Returns the proof that resolves a finding in these totals: orders in flight may explain it later.
    pub(super) fn totals_need(&self) -> Proof {
        if self.is_at_rest() { Proof::Rest } else { Proof::InFlight }
    }

    /// Checks each sale separately, regardless of entries in flight.
    fn of_sales(&self) -> Vec<SaleFinding> {
        let mut findings = Vec::new();
        for &SaleFigures { shard, redis, damaged, buyers, sql_initial } in &self.sales {
            let mut find = |what| findings.push(SaleFinding::of(shard, what));
            if let Some(key) = damaged {
                find(Finding::Damaged(key));
                continue;
            }
            let Some((initial, stock)) = redis else {
                find(Finding::NotLoaded);
                continue;
            };
            if stock < 0 || initial as i64 != stock.saturating_add(buyers as i64) {
                find(Finding::RedisStock { initial, stock, admitted: buyers });
            }
            if initial != sql_initial {
                find(Finding::Initial { redis: initial, sql: sql_initial });
            }
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(admitted: u64, persisted: u64, outstanding: Option<u64>) -> Figures {
        Figures { admitted, persisted, outstanding, ..Figures::default() }
    }

    #[test]
    fn a_missing_order_is_lost_even_with_others_in_flight() {
        let lost = figures(1_000, 490, Some(509));
        let findings = vec![SaleFinding { sale: None, shard: None, what: Finding::Lost(1) }];
        assert_eq!(lost.balance(None, true), Balance::Off { findings });
        assert_eq!(lost.totals_need(), Proof::InFlight);
        let moving = lost.balance(None, false);
        assert_eq!(moving, Balance::InFlight { orders: 509 }, "SQL was read before Redis");
        assert_eq!(lost.proof(&moving, false), Proof::Sales);
    }

    #[test]
    fn orders_in_flight_may_be_written_already() {
        for (persisted, outstanding, proof) in
            [(491, 509, Proof::InFlight), (991, 509, Proof::Sales), (1_000, 1, Proof::Sales)]
        {
            let sample = figures(1_000, persisted, Some(outstanding));
            let balance = sample.balance(None, true);
            assert_eq!(balance, Balance::InFlight { orders: outstanding });
            assert_eq!(sample.proof(&balance, true), proof);
        }
        assert_eq!(figures(1_000, 490, None).balance(None, true), Balance::Unknown);
    }

    #[test]
    fn at_rest_all_orders_are_written() {
        let unknown = figures(10, 11, Some(0));
        let findings = vec![SaleFinding { sale: None, shard: None, what: Finding::Unknown(1) }];
        assert_eq!(unknown.balance(None, true), Balance::Off { findings });
        assert_eq!(unknown.totals_need(), Proof::Rest);
        let right = figures(10, 10, Some(0));
        assert_eq!(right.balance(None, true), Balance::Balanced { by_id: false });
        assert_eq!(right.balance(Some(&[]), true), Balance::Balanced { by_id: true });
    }
}
