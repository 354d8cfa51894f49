//! Vouchers and sales: SQL first, Redis after the commit.

use redis::cmd;

use super::{EngineError, reconcile};
use crate::{
    broker::{BrokerError, Layout, Link, scripts},
    model::{Millis, NewSale, Sale, SaleState, VoucherId, sale::check_stock},
    store::SharedStore,
};

/// Creates a sale: in SQL, then in Redis.
///
/// # Errors
/// [`EngineError::NotLoaded`] when SQL has it and Redis could not be told: the next node that
/// starts, or the next change of the sale, tells Redis.
pub async fn create(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
    sale: &NewSale,
) -> Result<Sale, EngineError> {
    let sale = store.create_sale(sale, Millis::now()).await?;
    publish(link, keys, &sale).await?;
    Ok(sale)
}

/// Opens a planned sale now, by the clock of Redis.
pub async fn start(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
    voucher: VoucherId,
) -> Result<Sale, EngineError> {
    let sale = store.sale(voucher).await?;
    if sale.state == SaleState::Paused {
        return Err(EngineError::Plan(format!("sale #{voucher} is paused; resume it instead")));
    }
    let now = link.now().await?;
    let open = sale.begin.is_none_or(|begin| begin <= now);
    if sale.state == SaleState::Running && open {
        return Err(EngineError::Plan(format!("sale #{voucher} has started already")));
    }
    change(store, link, keys, voucher, SaleState::Running, Some(now)).await
}

/// Sets what the operator decided about a sale.
pub async fn set_state(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
    voucher: VoucherId,
    state: SaleState,
) -> Result<Sale, EngineError> {
    change(store, link, keys, voucher, state, None).await
}

/// Puts more pieces on sale.
pub async fn restock(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
    voucher: VoucherId,
    by: u64,
) -> Result<Sale, EngineError> {
    let sale = store.restock(voucher, check_stock(by)? as i64, None).await?;
    tell(store, link, keys, &sale).await?;
    Ok(sale)
}

/// Brings Redis' copy of a sale up to what SQL committed. Safe to repeat; an older copy never wins.
pub async fn sync(link: &mut Link, keys: &Layout, sale: &Sale) -> Result<bool, BrokerError> {
    let voucher = sale.voucher_id;
    let mut call = scripts::SYNC_SALE.prepare_invoke();
    call.key(keys.sale(voucher)).key(keys.stock(voucher)).key(keys.buyers(voucher));
    call.arg(sale.version).arg(&sale.title);
    call.arg(sale.begin.unwrap_or_default().0).arg(sale.end.unwrap_or_default().0);
    call.arg(sale.state.as_str()).arg(sale.initial).arg(sale.limit);
    link.invoke(&call).await
}

async fn change(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
    voucher: VoucherId,
    state: SaleState,
    begin: Option<Millis>,
) -> Result<Sale, EngineError> {
    let sale = store.set_state(voucher, state, begin).await?;
    tell(store, link, keys, &sale).await?;
    Ok(sale)
}

/// Tells Redis of a change. One that has lost the sale gets it whole, with its buyers: what is sold
/// must not be sold again.
async fn tell(
    store: &SharedStore,
    link: &mut Link,
    keys: &Layout,
    sale: &Sale,
) -> Result<(), EngineError> {
    let there = link.query::<bool>(cmd("EXISTS").arg(keys.stock(sale.voucher_id))).await;
    if let Ok(false) = there {
        reconcile::restore_sale(store, link, keys, sale).await?;
        return Ok(());
    }
    publish(link, keys, sale).await
}

async fn publish(link: &mut Link, keys: &Layout, sale: &Sale) -> Result<(), EngineError> {
    match sync(link, keys, sale).await {
        Ok(_) => Ok(()),
        Err(why) => Err(EngineError::NotLoaded { voucher: sale.voucher_id, why }),
    }
}
