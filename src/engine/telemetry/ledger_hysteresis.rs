//! Keeps a ledger finding until it is proved to be resolved.
//!
//! It sees only the result of each snapshot, and knows neither servers nor the source of the figures.

use seckill_model::ledger::{Balance, SaleFinding};

/// What a snapshot can prove, in ascending order of strength.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Proof {
    /// Nothing: a server is unreachable, or the figures are inconsistent.
    Nothing,
    /// Each sale is consistent, whatever is in flight.
    Sales,
    /// All totals are consistent, including the orders in flight.
    InFlight,
    /// All totals are consistent, and nothing is in flight.
    Rest,
    /// Order IDs were compared, too.
    Ids,
}

/// The last finding that is not proved to be resolved.
#[derive(Debug, Default)]
pub(super) struct Hysteresis(Option<Open>);

#[derive(Debug)]
struct Open {
    findings: Vec<SaleFinding>,
    needed: Proof,
}

impl Hysteresis {
    /// Returns the balance to report; only the proof `totals_need` resolves inconsistent totals. Orders in flight do
    /// not explain a finding made at rest.
    pub(super) fn settle(&mut self, now: Balance, proof: Proof, totals_need: Proof) -> Balance {
        if let Balance::Off { findings } = &now {
            let audited = totals_need == Proof::Ids;
            let needed = if audited || findings.iter().any(|it| it.sale.is_none()) {
                totals_need
            } else {
                Proof::Sales
            };
            let before = self.0.as_ref().map_or(Proof::Sales, |open| open.needed);
            self.0 = Some(Open { findings: findings.clone(), needed: needed.max(before) });
        } else if self.0.as_ref().is_some_and(|open| proof >= open.needed) {
            self.0 = None;
        }
        match &self.0 {
            Some(open) => Balance::Off { findings: open.findings.clone() },
            None => now,
        }
    }

    /// Returns whether only an audit by order ID can resolve the finding.
    pub(super) fn needs_audit(&self) -> bool {
        self.0.as_ref().is_some_and(|open| open.needed == Proof::Ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seckill_model::{VoucherId, ledger::Finding};

    const IN_FLIGHT: Balance = Balance::InFlight { orders: 175 };

    fn off(sale: Option<VoucherId>, what: Finding) -> Balance {
        Balance::Off { findings: vec![SaleFinding { sale, shard: None, what }] }
    }

    #[test]
    fn a_finding_persists_while_orders_are_in_flight() {
        let mut hysteresis = Hysteresis::default();
        let lost = off(None, Finding::Lost(2));
        assert_eq!(hysteresis.settle(lost.clone(), Proof::Nothing, Proof::Rest), lost);
        assert_eq!(hysteresis.settle(IN_FLIGHT, Proof::Sales, Proof::Rest), lost);
        assert_eq!(hysteresis.settle(Balance::Unknown, Proof::Nothing, Proof::Rest), lost);
        let balanced = Balance::Balanced { by_id: false };
        assert_eq!(
            hysteresis.settle(balanced.clone(), Proof::Sales, Proof::Rest),
            lost,
            "not settled"
        );
        assert_eq!(hysteresis.settle(balanced.clone(), Proof::Rest, Proof::Rest), balanced);
        assert_eq!(hysteresis.settle(IN_FLIGHT, Proof::Sales, Proof::Rest), IN_FLIGHT);
    }

    #[test]
    fn a_finding_made_in_flight_is_resolved_in_flight() {
        let mut hysteresis = Hysteresis::default();
        let lost = off(None, Finding::Lost(1));
        assert_eq!(hysteresis.settle(lost.clone(), Proof::Nothing, Proof::InFlight), lost);
        assert_eq!(
            hysteresis.settle(IN_FLIGHT, Proof::Sales, Proof::InFlight),
            lost,
            "not settled"
        );
        assert_eq!(hysteresis.settle(IN_FLIGHT, Proof::InFlight, Proof::InFlight), IN_FLIGHT);
        assert_eq!(hysteresis.settle(lost.clone(), Proof::Nothing, Proof::Rest), lost);
        assert_eq!(
            hysteresis.settle(IN_FLIGHT, Proof::InFlight, Proof::InFlight),
            lost,
            "found at rest"
        );
    }

    #[test]
    fn an_audit_finding_is_resolved_by_another_audit() {
        let mut hysteresis = Hysteresis::default();
        let doubled = off(Some(VoucherId(7)), Finding::Doubled(1));
        assert_eq!(hysteresis.settle(doubled.clone(), Proof::Nothing, Proof::Ids), doubled);
        assert!(hysteresis.needs_audit());
        let balanced = |by_id| Balance::Balanced { by_id };
        assert_eq!(hysteresis.settle(balanced(false), Proof::Rest, Proof::Rest), doubled);
        assert_eq!(hysteresis.settle(balanced(true), Proof::Ids, Proof::Rest), balanced(true));
        assert!(!hysteresis.needs_audit());
    }

    #[test]
    fn a_consistent_sale_is_resolved_in_flight() {
        let mut hysteresis = Hysteresis::default();
        let missing = off(Some(VoucherId(7)), Finding::NotLoaded);
        assert_eq!(hysteresis.settle(missing.clone(), Proof::Nothing, Proof::Rest), missing);
        assert_eq!(hysteresis.settle(IN_FLIGHT, Proof::Nothing, Proof::Rest), missing);
        assert_eq!(hysteresis.settle(IN_FLIGHT, Proof::Sales, Proof::Rest), IN_FLIGHT);
    }
}
