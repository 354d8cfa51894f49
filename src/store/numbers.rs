//! Numbers as stored in SQL, which has 63 bits for them.

use seckill_model::{VoucherId, reason};

use crate::StoreError;

/// A voucher ID as stored in SQL; one out of range cannot exist.
pub(super) fn voucher_key(voucher: VoucherId) -> Result<i64, StoreError> {
    i64::try_from(voucher.0).map_err(|_| StoreError::NoSale(voucher))
}

/// A number as stored in SQL.
pub(super) fn number(number: u64) -> Result<i64, StoreError> {
    let too_large = || reason!("store-reason-too-large", number = number.to_string());
    i64::try_from(number).map_err(|_| StoreError::Rejected(too_large()))
}
