//! Repairs the findings of the audit.
//!
//! SQL is authoritative for written orders, and the buyers hash for promised ones. Findings that neither can resolve
//! are left to the operator.

use seckill_model::{
    SaleState,
    ledger::{Cure, SaleAudit},
    reason::reason,
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::{
    EngineError, Result,
    deployment::servers::Servers,
    ledger::{self, sale_copy::drop_keys},
    lists::sales as sale_list,
    orders::payment,
    recovery::{
        adoption::adopt,
        delivery::deliver,
        former_names,
        reconcile::{Reconciler, Scope, new_token, stops_all},
    },
    telemetry::data_loss::Closed,
};

/// Result of the repair of one sale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repaired {
    /// Buyers of orders in SQL that were restored in Redis, each with a piece.
    pub put_back: u64,
    /// Promised orders that were enqueued again.
    pub enqueued: u64,
    /// Closed orders whose piece was returned.
    pub given_back: u64,
    /// Sales whose stock in SQL was derived from their live orders.
    #[serde(default)]
    pub derived: u64,
    /// Faults of partitions that were repaired.
    #[serde(default)]
    pub partition_faults: u64,
}

/// Audits every sale that is not archived; sales without findings are omitted. Keys that have names of an earlier version,
/// because the database has lost their sale, are renamed first.
pub async fn plan(servers: &mut Servers) -> Result<Vec<SaleAudit>> {
    former_names::rename_lost(servers).await?;
    let mut plan = ledger::audit(servers, None).await?.sales;
    plan.retain(|sale| !sale.findings.is_empty());
    Ok(plan)
}

/// Executes `plan`, sale by sale.
///
/// # Errors
/// A server is unreachable, `stop` was cancelled, or a sale could not be repaired: the first error, with the sales that
/// were repaired.
pub async fn apply_all(
    servers: &mut Servers,
    plan: &[SaleAudit],
    stop: &CancellationToken,
) -> Result<Repaired> {
    let (mut done, mut parts, mut sales) = (Repaired::default(), 0, Vec::new());
    let mut failed: Option<EngineError> = None;
    'sales: for sale in plan {
        for part in sale.parts().iter().filter(|part| !part.findings.is_empty()) {
            let one = if stop.is_cancelled() {
                Err(EngineError::Stopping)
            } else {
                apply(servers, part).await
            };
            let one = match one {
                Ok(one) => one,
                Err(why) => {
                    // A fault of one sale does not stop the others; an unreachable server does.
                    let of = servers.keys.partition_of(part.shard_id());
                    let stops = why == EngineError::Stopping || stops_all(servers, &of, &why).await;
                    tracing::warn!(sale = %part.voucher_id, %why, "a sale was not repaired");
                    failed.get_or_insert_with(|| match why {
                        why if stops || why.is_away() => why,
                        why => {
                            let (sale, why) = (part.voucher_id, why.to_string());
                            EngineError::Failed(reason!("job-left-out", sale, why))
                        }
                    });
                    if stops {
                        break 'sales;
                    }
                    continue;
                }
            };
            done.put_back += one.put_back;
            done.enqueued += one.enqueued;
            done.given_back += one.given_back;
            done.derived += one.derived;
            parts += 1;
            // A sale that was repaired in part is listed as well.
            if sales.last() != Some(&sale.voucher_id) {
                sales.push(sale.voucher_id);
            }
        }
    }
    failed.map_or(Ok(done), |why| {
        Err(why.after(parts, || {
            let (done, planned) = (sales.len(), plan.len());
            reason!("done-repaired", done, planned, sales = sale_list(&sales))
        }))
    })
}

/// Executes the repair of one sale that is not spread, or of one shard. Safe to repeat, also while buyers are admitted and
/// orders written. After an error, finished steps are kept.
pub async fn apply(servers: &mut Servers, audit: &SaleAudit) -> Result<Repaired> {
    let (shard, mut done) = (audit.shard_id(), Repaired::default());
    for cure in audit.cures() {
        match cure {
            Cure::Adopt => {
                adopt(servers, shard, false).await?;
                // Orders that SQL lost with it are enqueued again.
                done.enqueued += ledger::enqueue_lost(servers, shard).await?.len() as u64;
            }
            Cure::SqlStock => {
                let now = servers.conn.now().await?;
                done.derived += u64::from(servers.store.derive_stock(shard, now).await?);
            }
            // The delivery below does it.
            Cure::Update => {}
            Cure::Remove => {
                drop_keys(&mut servers.conn, &servers.keys, shard).await?;
            }
            Cure::Replace | Cure::Reconcile => {
                let scope = if cure == Cure::Replace { Scope::Replace } else { Scope::Always };
                let of = servers.keys.partition_of(shard);
                let mut reconciler = Reconciler::new(servers, &of, &new_token()).await?;
                let reconciled = reconciler.sale(shard, &[], scope).await?;
                if reconciled.closed == Some(Closed::OtherSale) {
                    return Err(EngineError::OtherSale(audit.voucher_id));
                }
                done.put_back += reconciled.restored;
            }
            Cure::GiveBack => {
                let kept = ledger::kept_orders(servers, shard).await?;
                done.given_back += payment::return_in_redis(servers, &kept).await?;
            }
            Cure::Enqueue => {
                done.enqueued += ledger::enqueue_lost(servers, shard).await?.len() as u64;
            }
        }
    }
    let sale = servers.store.shard(shard).await?;
    if sale.state != SaleState::Archived {
        deliver(servers, &sale, "").await?;
    }
    Ok(done)
}
