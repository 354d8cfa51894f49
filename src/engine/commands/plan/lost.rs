//! Number of admitted orders that only the buyer sets hold: what a rebuild would enqueue.
//!
//! Each stream is read once for all of its sales. Read-only.

use seckill_model::{OrderId, Place, VoucherId};

use crate::{EngineError, ledger, servers::Servers};

/// Orders of a sale with their buyers.
type Missing = (VoucherId, Vec<(OrderId, Place)>);

/// Counts them.
pub(crate) async fn count(servers: &mut Servers) -> Result<u64, EngineError> {
    let mut lost = 0;
    for of in servers.keys.partitions() {
        // Buyers before SQL and the stream, in the direction in which orders move.
        let mut missing: Vec<Missing> = Vec::new();
        for sale in servers.sales_of(&of).await? {
            let buyers = ledger::buyers(servers, sale.voucher_id).await?;
            missing.push((sale.voucher_id, ledger::not_in_sql(servers, &buyers).await?));
        }
        // Twice: a letter replayed in between was in neither place.
        for _ in 0..2 {
            missing.retain(|(_, orders)| !orders.is_empty());
            if missing.is_empty() {
                break;
            }
            let flows = ledger::flows(servers, &of).await?;
            for (voucher, orders) in &mut missing {
                flows.found_of(*voucher, orders);
            }
        }
        for (_, orders) in &missing {
            lost += ledger::not_in_sql(servers, orders).await?.len() as u64;
        }
    }
    Ok(lost)
}
