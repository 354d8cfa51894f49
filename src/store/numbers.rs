//! Numbers as stored in SQL, which has 63 bits for them.

use seckill_model::VoucherId;

use super::{Reason, StoreError};

/// A voucher ID as stored in SQL; one out of range cannot exist.
pub(super) fn voucher_key(voucher: VoucherId) -> Result<i64, StoreError> {
    i64::try_from(voucher.0).map_err(|_| StoreError::NoSale(voucher))
}

/// A number as stored in SQL.
pub(super) fn number(number: u64) -> Result<i64, StoreError> {
    i64::try_from(number).map_err(|_| StoreError::Refused(Reason::TooLarge(number)))
}
