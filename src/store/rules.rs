//! Rules for a locked sale, the same for every dialect. This file accesses no database.

use std::collections::HashMap;

use seckill_model::{
    Millis, OrderId, OrderStatus, Payment, Sale, SaleState, VoucherId, VoucherStatus,
    message::text, sale_error::MAX_STOCK,
};
use serde::{Deserialize, Serialize};

use super::{Reason, StoreError, rows};

/// Why the state of a sale or voucher does not permit an operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SaleRule {
    /// Only an ended sale can be archived.
    #[error("{}", text!("store-sale-of-voucher", voucher = .0))]
    NotEnded(VoucherId),
    /// It would end before it begins.
    #[error("{}", text!("store-rule-window", voucher = .voucher, begin = .begin, end = .end))]
    Window {
        /// The sale.
        voucher: VoucherId,
        /// Requested begin.
        begin: Millis,
        /// Its end.
        end: Millis,
    },
    /// It already has the largest stock.
    #[error("{}", text!("store-rule-full", voucher = .voucher, initial = .initial))]
    Full {
        /// The sale.
        voucher: VoucherId,
        /// Its stock.
        initial: u64,
    },
    /// It would exceed the largest stock.
    #[error(
        "{}",
        text!("store-pieces-cannot-be-added", voucher = .voucher, by = .by, initial = .initial, room = .room)
    )]
    NoRoom {
        /// The sale.
        voucher: VoucherId,
        /// Requested pieces.
        by: u64,
        /// Its stock.
        initial: u64,
        /// How many more it can hold.
        room: u64,
    },
    /// There is no such voucher.
    #[error("{}", text!("store-there-is-no-voucher-seckill", voucher = .0))]
    NoVoucher(VoucherId),
    /// It is sold in a flash sale.
    #[error("{}", text!("store-rule-flash-sale", voucher = .0))]
    FlashSale(VoucherId),
    /// It was taken off the shelf.
    #[error("{}", text!("store-rule-off", voucher = .0))]
    Off(VoucherId),
    /// It has expired.
    #[error("{}", text!("store-rule-expired", voucher = .0))]
    Expired(VoucherId),
    /// Fewer pieces are unsold.
    #[error(
        "{}",
        text!("store-rule-sold", voucher = .voucher, by = .by, stock = .stock, initial = .initial)
    )]
    Sold {
        /// The sale.
        voucher: VoucherId,
        /// Pieces to remove.
        by: u64,
        /// Unsold pieces.
        stock: u64,
        /// Its stock.
        initial: u64,
    },
}

/// The state as stored, the begin, and whether the sale is archived: the columns set by `set_state`.
type NextState = (&'static str, Option<Millis>, bool);

/// The transition of a sale to `state`; `None` if there is no change.
pub(super) fn next_state(
    sale: &Sale,
    state: SaleState,
    begin: Option<Millis>,
) -> Result<Option<NextState>, StoreError> {
    let voucher = sale.voucher_id;
    match (sale.state, state) {
        (SaleState::Ended, SaleState::Ended) | (SaleState::Archived, SaleState::Archived) => {
            return Ok(None);
        }
        (SaleState::Ended, SaleState::Archived) => {}
        (SaleState::Ended | SaleState::Archived, _) => return Err(StoreError::Ended(voucher)),
        (_, SaleState::Archived) => {
            return Err(StoreError::Rule(SaleRule::NotEnded(voucher)));
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
        return Err(StoreError::Rule(SaleRule::Window { voucher, begin, end }));
    }
    let archived = state == SaleState::Archived;
    let stored = if archived { SaleState::Ended } else { state };
    Ok(Some((stored.as_str(), begin, archived)))
}

/// Rejects a restock or cut that is out of range or based on an older version of the sale.
pub(super) fn check_restock(sale: &Sale, by: i64, seen: Option<u64>) -> Result<(), StoreError> {
    let voucher = sale.voucher_id;
    if matches!(sale.state, SaleState::Ended | SaleState::Archived) {
        return Err(StoreError::Ended(voucher));
    }
    if seen.is_some_and(|seen| seen != sale.version) {
        return Err(StoreError::Changed(voucher));
    }
    let (initial, stock, more) = (sale.initial, sale.stock, by.unsigned_abs());
    let room = MAX_STOCK.saturating_sub(initial);
    match by {
        1.. if more <= room => Ok(()),
        1.. if room == 0 => Err(StoreError::Rule(SaleRule::Full { voucher, initial })),
        0.. => Err(StoreError::Rule(SaleRule::NoRoom { voucher, by: more, initial, room })),
        _ if more <= stock && more < initial => Ok(()),
        _ => Err(StoreError::Rule(SaleRule::Sold { voucher, by: more, stock, initial })),
    }
}

/// Why a purchase wrote no row, derived from type and status of the voucher. If those permit it, the ID belongs to
/// another order.
pub(super) fn why_unwritten(
    order: OrderId,
    voucher: VoucherId,
    offer: Option<(i64, VoucherStatus)>,
) -> StoreError {
    StoreError::Rule(match offer {
        None => SaleRule::NoVoucher(voucher),
        Some((rows::FLASH_SALE, _)) => SaleRule::FlashSale(voucher),
        Some((_, VoucherStatus::Off)) => SaleRule::Off(voucher),
        Some((_, VoucherStatus::Expired)) => SaleRule::Expired(voucher),
        Some((_, VoucherStatus::On)) => {
            return StoreError::Refused(Reason::IdTaken(order.as_i64()));
        }
    })
}

/// The results of paying `ids`, from the status that each existing order had.
pub(super) fn payments(ids: &[OrderId], found: Vec<(OrderId, OrderStatus)>) -> Vec<Payment> {
    let mut results: HashMap<OrderId, Payment> = HashMap::new();
    for (id, status) in found {
        let result = match status {
            OrderStatus::Unpaid => Payment::Paid,
            _ if status.is_live() => Payment::PaidBefore,
            _ => Payment::TooLate,
        };
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
