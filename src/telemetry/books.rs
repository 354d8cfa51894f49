//! The ledger's word by figures alone, cheap enough for every picture.

use super::standing::Proof;
use crate::model::{
    VoucherId,
    ledger::{Balance, Finding, SaleFinding},
};

/// The figures by which two pictures are told to show the same books.
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
    pub(super) voucher: VoucherId,
    /// Initial and stock by Redis; `None` where the sale is not loaded.
    pub(super) redis: Option<(u64, i64)>,
    pub(super) buyers: u64,
    pub(super) sql_initial: u64,
}

impl Figures {
    /// The ledger by figures, sharpened by what an audit of just these found. SQL was read before Redis, so a
    /// difference counts only when two pictures in a row show the very same one, `settled`.
    pub(super) fn balance(
        &self,
        returning: u64,
        audit: Option<&[SaleFinding]>,
        settled: bool,
    ) -> Balance {
        let mut findings = self.of_sales();
        match self.outstanding {
            Some(0) => {}
            Some(orders) if findings.is_empty() => return Balance::InFlight { orders },
            None if findings.is_empty() => return Balance::Unknown,
            _ => {}
        }
        if self.outstanding == Some(0) {
            let mut find = |what| findings.push(SaleFinding { sale: None, what });
            if self.admitted > self.persisted + self.dead + returning {
                let lost = self.admitted - self.persisted - self.dead - returning;
                find(Finding::Lost(lost));
            } else if self.persisted > self.admitted {
                find(Finding::Unknown(self.persisted - self.admitted));
            }
        }
        findings.extend(audit.into_iter().flatten().cloned());
        if findings.is_empty() {
            Balance::Balanced { by_id: audit.is_some() }
        } else if settled {
            Balance::Off { findings }
        } else {
            Balance::InFlight { orders: self.admitted.abs_diff(self.persisted) }
        }
    }

    /// What the same figures prove of books that were off before.
    pub(super) fn proof(&self, now: &Balance, settled: bool) -> Proof {
        match now {
            Balance::Balanced { by_id: true } if settled => Proof::Ids,
            Balance::Balanced { .. } if settled => Proof::Rest,
            Balance::Unknown | Balance::Off { .. } => Proof::Nothing,
            _ if self.of_sales().is_empty() => Proof::Sales,
            _ => Proof::Nothing,
        }
    }

    /// What is wrong with single sales, whatever is in flight.
    fn of_sales(&self) -> Vec<SaleFinding> {
        let mut findings = Vec::new();
        for &SaleFigures { voucher, redis, buyers, sql_initial } in &self.sales {
            let mut find = |what| findings.push(SaleFinding { sale: Some(voucher), what });
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
