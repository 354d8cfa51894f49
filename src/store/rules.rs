//! Rules for a locked sale, the same for every dialect. This file accesses no database.

use std::collections::HashMap;

use seckill_model::{
    Millis, OrderId, OrderStatus, Payment, Sale, SaleState, VoucherId, VoucherStatus,
    message::text, sale_fault::MAX_STOCK,
};
use serde::{Deserialize, Serialize};

use super::{Reason, StoreError, rows};

/// Why the state of a sale or voucher does not permit an operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SaleRule {
    /// Only an ended sale can be archived.
    #[error("{}", text!("store-rule-not-ended", voucher = .0))]
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
        text!("store-rule-no-room", voucher = .voucher, by = .by, initial = .initial, room = .room)
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
    #[error("{}", text!("store-rule-no-voucher", voucher = .0))]
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

/// The word of the state, the begin, and whether the sale is archived: the columns set by `set_state`.
type NextState = (&'static str, Option<i64>, bool);

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
    let word = if archived { SaleState::Ended } else { state }.as_str();
    Ok(Some((word, begin.map(|it| it.0), archived)))
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

/// Why a purchase wrote no row, unless it already exists: derived from the voucher, and from buyer and voucher of the
/// order's row. If neither has a reason, the ID belongs to an order of a sale.
pub(super) fn unwritten(
    (order, user, voucher): rows::Purchase,
    found: Option<(i64, i64)>,
    offer: Option<(i64, i64)>,
) -> Result<(), StoreError> {
    let id = VoucherId(rows::count(voucher));
    if found == Some((user, voucher)) {
        return Ok(());
    }
    let rule = match offer {
        None => SaleRule::NoVoucher(id),
        Some((rows::FLASH_SALE, _)) => SaleRule::FlashSale(id),
        Some((_, status)) => match VoucherStatus::from_code(status) {
            Some(VoucherStatus::Off) => SaleRule::Off(id),
            Some(VoucherStatus::Expired) => SaleRule::Expired(id),
            Some(VoucherStatus::On) | None => {
                return Err(StoreError::Refused(Reason::IdTaken(order)));
            }
        },
    };
    Err(StoreError::Rule(rule))
}

/// The results of paying `ids`, of which `paid` were just paid, and the others have a status.
pub(super) fn payments(
    ids: &[OrderId],
    paid: impl IntoIterator<Item = i64>,
    others: impl IntoIterator<Item = (i64, i64)>,
) -> Vec<Payment> {
    let mut existing: HashMap<i64, Payment> =
        paid.into_iter().map(|id| (id, Payment::Paid)).collect();
    for (id, status) in others {
        let live = OrderStatus::from_code(status).is_some_and(OrderStatus::is_live);
        let before = if live { Payment::PaidBefore } else { Payment::TooLate };
        existing.entry(id).or_insert(before);
    }
    // A duplicate ID was paid by its first occurrence.
    ids.iter()
        .map(|id| match existing.get_mut(&id.as_i64()) {
            Some(slot @ Payment::Paid) => std::mem::replace(slot, Payment::PaidBefore),
            Some(other) => *other,
            None => Payment::NotFound,
        })
        .collect()
}
