//! Rules for a locked sale, the same for every dialect. This file accesses no database.

use std::collections::HashMap;

use seckill_model::{
    Millis, OrderId, OrderStatus, Payment, Sale, SaleShard, SaleState, ShardId, VoucherId,
    VoucherKind, VoucherStatus, reason, sale::MAX_STOCK,
};

use crate::{Result, StoreError};

/// The state as stored, the begin, and whether the sale is archived: the columns set by `set_state`.
type NextState = (SaleState, Option<Millis>, bool);

/// The transition of a sale to `state`; `None` if there is no change.
pub(super) fn next_state(
    sale: &Sale,
    state: SaleState,
    begin: Option<Millis>,
) -> Result<Option<NextState>> {
    let voucher = sale.voucher_id;
    match (sale.state, state) {
        (SaleState::Ended, SaleState::Ended) | (SaleState::Archived, SaleState::Archived) => {
            return Ok(None);
        }
        (SaleState::Ended, SaleState::Archived) => {}
        (SaleState::Ended | SaleState::Archived, _) => return Err(StoreError::Ended(voucher)),
        (_, SaleState::Archived) => {
            return Err(StoreError::Rule(reason!("store-sale-of-voucher", voucher)));
        }
        _ => {}
    }
    let begin = begin.or(sale.begin);
    if (state, begin) == (sale.state, sale.begin) {
        return Ok(None);
    }
    if let (Some(begin), Some(end)) = (begin, sale.end)
        && begin >= end
        && Some(begin) != sale.begin
    {
        return Err(StoreError::Rule(reason!("store-rule-window", voucher, begin, end)));
    }
    let archived = state == SaleState::Archived;
    let stored = if archived { SaleState::Ended } else { state };
    Ok(Some((stored, begin, archived)))
}

/// Rejects a change of a shard of which Redis holds a newer version, by the versions in `held`.
pub(super) fn check_not_behind(shard: &SaleShard, held: &[(ShardId, u64)]) -> Result<()> {
    let is_behind = held.iter().any(|(id, version)| *id == shard.id && shard.version < *version);
    if is_behind { Err(StoreError::Behind(shard.voucher_id)) } else { Ok(()) }
}

/// The sale that SQL adopts from shards of which Redis has newer versions: each value is the one that sells less. `None`
/// without such a shard. A sale that was paused or over in SQL stays so: an operator may have stopped it since SQL was
/// restored.
pub(super) fn adopted(newer: &[&SaleShard], known: Option<&Sale>) -> Option<Sale> {
    let (first, others) = newer.split_first()?;
    let mut sale = first.sale.clone();
    for other in others {
        sale.sell_least(other);
    }
    // As stored: the time of the archiving makes it archived.
    sale.state =
        known.map_or(sale.state, |known| sale.state.max(known.state)).min(SaleState::Ended);
    Some(sale)
}

/// Rejects a restock or cut that is out of range, based on an older version of the sale, or leaves fewer than `least`
/// pieces.
///
/// # Errors
/// [`StoreError::Rule`] with the limit, [`StoreError::Ended`], or [`StoreError::Changed`].
pub fn check_restock(sale: &Sale, by: i64, seen: Option<u64>, least: u64) -> Result<()> {
    let voucher = sale.voucher_id;
    if matches!(sale.state, SaleState::Ended | SaleState::Archived) {
        return Err(StoreError::Ended(voucher));
    }
    if seen.is_some_and(|seen| seen != sale.version) {
        return Err(StoreError::Changed(voucher));
    }
    let (initial, stock, more) = (sale.initial, sale.stock, by.unsigned_abs());
    let room = MAX_STOCK.saturating_sub(initial);
    Err(StoreError::Rule(match by {
        1.. if more <= room => return Ok(()),
        1.. if room == 0 => reason!("store-rule-full", voucher, initial),
        0.. => reason!("store-pieces-cannot-be-added", voucher, by = more, initial, room),
        _ if more <= stock && more + least <= initial => return Ok(()),
        _ => reason!("store-rule-sold", voucher, by = more, stock, initial),
    }))
}

/// Why a purchase wrote no row, derived from type and status of the voucher. If those permit it, the ID belongs to
/// another order.
pub(super) fn why_unwritten(
    order: OrderId,
    voucher: VoucherId,
    offer: Option<(VoucherKind, VoucherStatus)>,
) -> StoreError {
    StoreError::Rule(match offer {
        None => reason!("store-there-is-no-voucher-seckill", voucher),
        Some((VoucherKind::Sale, _)) => reason!("store-rule-flash-sale", voucher),
        Some((_, VoucherStatus::Off)) => reason!("store-rule-off", voucher),
        Some((_, VoucherStatus::Expired)) => reason!("store-rule-expired", voucher),
        Some((_, VoucherStatus::On)) => {
            let order = order.to_string();
            return StoreError::Rejected(reason!("store-reason-id-taken", order));
        }
    })
}

/// The result of paying an order with this status; `frozen`: its sale goes back to another service.
pub(super) fn payment(status: OrderStatus, frozen: bool) -> Payment {
    match status {
        OrderStatus::Unpaid if frozen => Payment::Returned,
        OrderStatus::Unpaid => Payment::Paid,
        _ if status.is_live() => Payment::PaidBefore,
        _ => Payment::TooLate,
    }
}

/// The results of paying `ids`, from that of each existing order.
pub(super) fn payments(ids: &[OrderId], found: Vec<(OrderId, Payment)>) -> Vec<Payment> {
    let mut results: HashMap<OrderId, Payment> = HashMap::new();
    for (id, result) in found {
        results.entry(id).or_insert(result);
    }
    // A duplicate ID was paid by its first occurrence.
    ids.iter()
        .map(|id| match results.get_mut(id) {
            Some(result @ Payment::Paid) => std::mem::replace(result, Payment::PaidBefore),
            Some(result) => *result,
            None => Payment::NotFound,
        })
        .collect()
}
/// A voucher ID as stored in SQL; one out of range cannot exist.
pub(super) fn voucher_key(voucher: VoucherId) -> Result<i64> {
    i64::try_from(voucher.0).map_err(|_| StoreError::NoSale(voucher))
}

/// A number as stored in SQL.
pub(super) fn number(number: u64) -> Result<i64> {
    let too_large = || reason!("store-reason-too-large", number = number.to_string());
    i64::try_from(number).map_err(|_| StoreError::Rejected(too_large()))
}
