//! Keeps a ledger finding until it is proved to be resolved.
//!
//! It sees only the result of each snapshot, and knows neither servers nor the source of the figures.

use seckill_model::ledger::{Balance, SaleFinding};

/// What a snapshot can prove, in ascending order of strength.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Proof {
    /// Nothing: a server is unreachable, or the figures are off.
    Nothing,
    /// Each sale is consistent, whatever is in flight.
    Sales,
    /// All totals are consistent, including the orders in flight.
    Flying,
    /// All totals are consistent, and nothing is in flight.
    Rest,
    /// Order IDs were compared, too.
    Ids,
}

/// The last finding that is not proved to be resolved.
#[derive(Debug, Default)]
pub(super) struct Standing(Option<Wrong>);

#[derive(Debug)]
struct Wrong {
    findings: Vec<SaleFinding>,
    needed: Proof,
}

impl Standing {
    /// Returns the balance to report, where totals that are off need the proof `totals_need`. Orders in flight do not
    /// explain a finding made at rest.
    pub(super) fn settle(&mut self, now: Balance, proof: Proof, totals_need: Proof) -> Balance {
        if let Balance::Off { findings } = &now {
            let audited = totals_need == Proof::Ids;
            let needed = if audited || findings.iter().any(|it| it.sale.is_none()) {
                totals_need
            } else {
                Proof::Sales
            };
            let before = self.0.as_ref().map_or(Proof::Sales, |wrong| wrong.needed);
            self.0 = Some(Wrong { findings: findings.clone(), needed: needed.max(before) });
        } else if self.0.as_ref().is_some_and(|wrong| proof >= wrong.needed) {
            self.0 = None;
        }
        match &self.0 {
            Some(wrong) => Balance::Off { findings: wrong.findings.clone() },
            None => now,
        }
    }

    /// Returns whether only an audit by order ID can resolve the finding.
    pub(super) fn needs_audit(&self) -> bool {
        self.0.as_ref().is_some_and(|wrong| wrong.needed == Proof::Ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seckill_model::{VoucherId, ledger::Finding};

    const FLYING: Balance = Balance::InFlight { orders: 175 };

    fn off(sale: Option<VoucherId>, what: Finding) -> Balance {
        Balance::Off { findings: vec![SaleFinding { sale, what }] }
    }

    #[test]
    fn books_that_are_off_stay_off_while_orders_are_in_flight() {
        let mut standing = Standing::default();
        let lost = off(None, Finding::Lost(2));
        assert_eq!(standing.settle(lost.clone(), Proof::Nothing, Proof::Rest), lost);
        assert_eq!(standing.settle(FLYING, Proof::Sales, Proof::Rest), lost);
        assert_eq!(standing.settle(Balance::Unknown, Proof::Nothing, Proof::Rest), lost);
        let balanced = Balance::Balanced { by_id: false };
        assert_eq!(
            standing.settle(balanced.clone(), Proof::Sales, Proof::Rest),
            lost,
            "not settled"
        );
        assert_eq!(standing.settle(balanced.clone(), Proof::Rest, Proof::Rest), balanced);
        assert_eq!(standing.settle(FLYING, Proof::Sales, Proof::Rest), FLYING);
    }

    #[test]
    fn what_was_found_in_flight_is_proved_in_flight() {
        let mut standing = Standing::default();
        let lost = off(None, Finding::Lost(1));
        assert_eq!(standing.settle(lost.clone(), Proof::Nothing, Proof::Flying), lost);
        assert_eq!(standing.settle(FLYING, Proof::Sales, Proof::Flying), lost, "not settled");
        assert_eq!(standing.settle(FLYING, Proof::Flying, Proof::Flying), FLYING);
        assert_eq!(standing.settle(lost.clone(), Proof::Nothing, Proof::Rest), lost);
        assert_eq!(standing.settle(FLYING, Proof::Flying, Proof::Flying), lost, "found at rest");
    }

    #[test]
    fn what_an_audit_found_needs_another_one() {
        let mut standing = Standing::default();
        let doubled = off(Some(VoucherId(7)), Finding::Doubled(1));
        assert_eq!(standing.settle(doubled.clone(), Proof::Nothing, Proof::Ids), doubled);
        assert!(standing.needs_audit());
        let balanced = |by_id| Balance::Balanced { by_id };
        assert_eq!(standing.settle(balanced(false), Proof::Rest, Proof::Rest), doubled);
        assert_eq!(standing.settle(balanced(true), Proof::Ids, Proof::Rest), balanced(true));
        assert!(!standing.needs_audit());
    }

    #[test]
    fn a_sale_that_agrees_with_itself_again_is_proved_in_flight() {
        let mut standing = Standing::default();
        let missing = off(Some(VoucherId(7)), Finding::NotLoaded);
        assert_eq!(standing.settle(missing.clone(), Proof::Nothing, Proof::Rest), missing);
        assert_eq!(standing.settle(FLYING, Proof::Nothing, Proof::Rest), missing);
        assert_eq!(standing.settle(FLYING, Proof::Sales, Proof::Rest), FLYING);
    }
}
