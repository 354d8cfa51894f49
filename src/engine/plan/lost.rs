//! Number of admitted orders that only the buyer sets hold: what a rebuild would enqueue.
//!
//! Each stream is read once for all of its sales. Read-only.

use seckill_model::{OrderId, Place, VoucherId};
use seckill_redis::Layout;

use crate::{EngineError, deployment::Deployment, ledger, operator::Operator};

/// Orders of a sale with their buyers.
type Missing = (VoucherId, Vec<(OrderId, Place)>);

/// Counts them.
///
/// # Errors
/// A server is unreachable.
pub(super) async fn count(operator: &Operator) -> Result<u64, EngineError> {
    let Deployment { store, redis, keys, .. } = &operator.deployment;
    let (sales, mut conn) = (store.sales().await?, redis.connection());
    let mut lost = 0;
    for of in keys.partitions() {
        // Buyers before SQL and the stream, in the direction in which orders move.
        let mut missing: Vec<Missing> = Vec::new();
        for sale in sales.iter().filter(|sale| is_of(keys, sale.voucher_id, of.number())) {
            let voucher = sale.voucher_id;
            let buyers = ledger::buyers(&mut conn, keys, voucher).await?;
            missing.push((voucher, ledger::not_in_sql(store, &buyers).await?));
        }
        // Twice: a letter replayed meanwhile was in neither place.
        for _ in 0..2 {
            missing.retain(|(_, orders)| !orders.is_empty());
            if missing.is_empty() {
                break;
            }
            let flows = ledger::flows(&mut conn, &of).await?;
            for (voucher, orders) in &mut missing {
                flows.found_of(*voucher, orders);
            }
        }
        for (_, orders) in &missing {
            lost += ledger::not_in_sql(store, orders).await?.len() as u64;
        }
    }
    Ok(lost)
}

fn is_of(keys: &Layout, voucher: VoucherId, number: u16) -> bool {
    keys.partition_of(voucher).number() == number
}
