//! Ordinary vouchers: bought at any time and in any number, directly in SQL. No stock, no limit, no stream.

use seckill_model::{OrderId, UserId, VoucherId};
use seckill_store::StoreError;

use crate::{
    EngineError,
    ids::{IdWorker, first_second},
    recovery::reconcile::is_reconciled,
    servers::Servers,
};

/// Buys an ordinary voucher for a user; the order is unpaid.
///
/// # Errors
/// [`StoreError::Rule`] with the reason that the voucher cannot be bought; the database is unreachable, or Redis, which
/// provides the ID counters and the clock.
pub async fn buy(
    servers: &mut Servers,
    voucher: VoucherId,
    user: UserId,
) -> Result<OrderId, EngineError> {
    let of = servers.keys.partition_of(voucher);
    let mut ids = IdWorker::leasing(of.clone(), 1);
    // As in admission: a Redis that was not reconciled may have lost its newest increments.
    let reconciled = of.reconciled();
    let run = servers.conn.run_id(&reconciled).await?;
    if !is_reconciled(&mut servers.conn, &of, &run).await? {
        ids.not_before(first_second(&servers.store, &of).await?);
    }
    let now = servers.conn.now().await?;
    let issued = ids.issue(&mut servers.conn, 1).await?;
    let order = issued.first().copied().ok_or(EngineError::Stopping)?;
    match servers.store.buy(order, user, voucher, now).await {
        // The same order is written once, so it can be retried.
        Err(unknown @ StoreError::Unknown(_)) => {
            let again = servers.store.buy(order, user, voucher, now).await;
            again.map_err(|error| if error.is_away() { unknown } else { error })?;
        }
        bought => bought?,
    }
    Ok(order)
}
