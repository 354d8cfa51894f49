//! Limits of sales and vouchers, and the errors of invalid ones.

use serde::{Deserialize, Serialize};

use super::{
    Millis,
    message::{Label, text},
};

/// Largest stock of a sale.
pub const MAX_STOCK: u64 = 10_000_000;
/// Maximum number of orders per buyer; admission checks each of these places.
pub const MAX_LIMIT: u8 = 20;
/// Longest title, in visible characters.
pub const MAX_TITLE: usize = 60;
/// Longest title in bytes, since one visible character may be many code points.
pub(super) const MAX_TITLE_BYTES: usize = 1_000;
/// Longest terms of use, in visible characters.
pub const MAX_RULES: usize = 1_000;
/// Longest terms of use in bytes, since one visible character may be many code points.
pub const MAX_RULES_BYTES: usize = 16_000;

/// Why a sale or voucher is invalid.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SaleError {
    /// The title is empty or blank.
    #[error("{}", text!("faults-title-empty", most = MAX_TITLE))]
    NoTitle,
    /// The title is too long.
    #[error("{}", text!("faults-title-long", length = .0, most = MAX_TITLE))]
    LongTitle(usize),
    /// Few visible characters but too many bytes.
    #[error("{}", text!("faults-title-heavy", bytes = .0, most = MAX_TITLE_BYTES))]
    HeavyTitle(usize),
    /// The title holds line breaks or control characters.
    #[error("{}", Label("faults-title-control"))]
    ControlInTitle,
    /// A limit of 0 or above [`MAX_LIMIT`].
    #[error("{}", text!("faults-limit", limit = .0, most = MAX_LIMIT))]
    Limit(u64),
    /// An invalid buyer place.
    #[error("{}", text!("faults-place", place = .0))]
    Place(String),
    /// Stock of 0 or beyond the limit.
    #[error("{}", text!("faults-stock", stock = .0, most = MAX_STOCK))]
    Stock(u64),
    /// A restock by 0 or beyond the limit.
    #[error("{}", text!("faults-restock", by = .0, most = MAX_STOCK))]
    Restock(i64),
    /// The window closes before it opens.
    #[error("{}", text!("faults-window", begin = .begin, end = .end))]
    Window {
        /// Requested begin.
        begin: Millis,
        /// Requested end.
        end: Millis,
    },
    /// The window is over already.
    #[error("{}", text!("faults-over", end = .0))]
    Over(Millis),
    /// An invalid voucher ID.
    #[error("{}", text!("faults-voucher-id", text = .0))]
    VoucherId(String),
    /// A subtitle that is too long or contains control characters.
    #[error("{}", text!("faults-sub-title", most = MAX_TITLE))]
    SubTitle,
    /// Rules that are too long or contain control characters.
    #[error("{}", text!("faults-rules", most = MAX_RULES))]
    Rules,
    /// Unknown voucher status.
    #[error("{}", text!("faults-voucher-status", text = .0))]
    VoucherStatus(String),
    /// Unknown sale state.
    #[error("{}", text!("faults-sale-state", text = .0))]
    State(String),
}
