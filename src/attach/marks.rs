//! Names of the keys that a move between a service and an engine leaves beside the stock of a sale.

use seckill_model::VoucherId;

use crate::Profile;

/// Names of the renamed stock, of the mark, and of the trace of a return, after that of the stock.
pub(crate) const MOVING: &str = ":moving";
pub(crate) const MOVED: &str = ":moved";
pub(crate) const RETURNING: &str = ":returning";

/// The mark of a sale that moves to an engine, or has moved.
pub(crate) fn mark_of(profile: &Profile, voucher: VoucherId) -> String {
    profile.stock(voucher) + MOVED
}
