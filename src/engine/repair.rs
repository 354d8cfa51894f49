//! Putting the books right: from what the ledger found to what is done about it.
//!
//! SQL is the truth of orders that were written, and the buyers hash of those that were promised. What
//! neither can tell is left to a person.

use seckill_model::{
    SaleState, VoucherId,
    ledger::{Cure, Finding, cures, sentences},
};
use seckill_redis::{Layout, Link};
use seckill_store::SharedStore;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{
    EngineError,
    delivery::deliver,
    error::PartDone,
    ledger, payment,
    rebuild::enqueue_lost,
    reconcile::{Closed, Reconciler, new_token},
    retention, sale_copy,
};

/// What one sale's books lack, and what would be done about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SaleRepair {
    /// The sale.
    pub voucher_id: VoucherId,
    /// What is wrong.
    #[serde(serialize_with = "sentences")]
    pub findings: Vec<Finding>,
    /// What is done, in this order.
    pub cures: Vec<Cure>,
    /// Findings that need a person.
    #[serde(serialize_with = "sentences")]
    pub left: Vec<Finding>,
}

impl SaleRepair {
    /// What is done about these findings of a sale.
    pub fn of(voucher_id: VoucherId, findings: Vec<Finding>) -> Self {
        let left = findings.iter().filter(|it| it.cure().is_none()).cloned().collect();
        Self { voucher_id, cures: cures(&findings), left, findings }
    }
}

/// What a repair did to one sale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repaired {
    /// Buyers of orders in SQL that Redis knows again, each with his piece.
    pub put_back: u64,
    /// Orders that were promised, and are in the stream again.
    pub enqueued: u64,
    /// Closed orders whose piece went back.
    pub given_back: u64,
    /// Faults of partitions that were repaired.
    #[serde(default)]
    pub mended: u64,
}

/// Looks at every sale that is not archived, and says what each needs; sales in order are left out.
///
/// # Errors
/// A server is away.
pub async fn plan(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
) -> Result<Vec<SaleRepair>, EngineError> {
    let mut plan = Vec::new();
    for sale in ledger::all_sales(store, link, keys).await? {
        let findings = ledger::books(store, link, keys, &sale).await?.findings();
        if !findings.is_empty() {
            plan.push(SaleRepair::of(sale.voucher_id, findings));
        }
    }
    Ok(plan)
}

/// Does what `plan` says, sale by sale.
///
/// # Errors
/// A server is away, or `stop` came; which sales were put right by then is told.
pub async fn apply_all(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
    plan: &[SaleRepair],
    stop: &CancellationToken,
) -> Result<Repaired, EngineError> {
    let (mut done, mut sales) = (Repaired::default(), Vec::new());
    for sale in plan {
        let one = if stop.is_cancelled() {
            Err(EngineError::Stopping)
        } else {
            apply(store, link, keys, sale).await
        };
        match one {
            Ok(one) => {
                done.put_back += one.put_back;
                done.enqueued += one.enqueued;
                done.given_back += one.given_back;
                sales.push(sale.voucher_id);
            }
            Err(why) => {
                return Err(why.after(PartDone::Repaired { sales, planned: plan.len() as u64 }));
            }
        }
    }
    Ok(done)
}

/// Does what `plan` says for one sale. Safe to repeat, also while buyers are admitted and orders written.
///
/// # Errors
/// A server is away; what was done by then is done.
pub async fn apply(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
    plan: &SaleRepair,
) -> Result<Repaired, EngineError> {
    let (voucher, mut done) = (plan.voucher_id, Repaired::default());
    for cure in &plan.cures {
        match cure {
            Cure::Adopt => {
                let held = sale_copy::read(link, keys, voucher).await?;
                store.adopt_sale(&held.ok_or(EngineError::NotHeld(voucher))?).await?;
                // Orders that SQL lost with it are put into the stream again.
                done.enqueued += enqueue_lost(store, link, keys, voucher).await?.len() as u64;
            }
            Cure::Remove => _ = retention::drop_keys(link, keys, voucher).await?,
            Cure::Replace | Cure::Reconcile => {
                let run = link.run_id(&keys.sale(voucher)).await?;
                let mut reconciler =
                    Reconciler { store, link, keys, run: &run, token: &new_token() };
                let reconciled = match cure {
                    Cure::Replace => reconciler.replace_sale(voucher).await?,
                    _ => reconciler.whole_sale(voucher).await?,
                };
                if reconciled.closed == Some(Closed::OtherSale) {
                    return Err(EngineError::OtherSale(voucher));
                }
                done.put_back += reconciled.restored;
            }
            Cure::GiveBack => {
                let kept = ledger::kept_orders(store, link, keys, voucher).await?;
                done.given_back += payment::tell(link, keys, &kept).await?;
            }
            Cure::Enqueue => {
                done.enqueued += enqueue_lost(store, link, keys, voucher).await?.len() as u64;
            }
        }
    }
    let sale = store.sale(voucher).await?;
    if sale.state != SaleState::Archived {
        deliver(store, link, keys, &sale).await?;
    }
    Ok(done)
}
