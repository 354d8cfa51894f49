//! The types of the domain: vouchers, sales, orders, IDs, outcomes, verdicts.
//!
//! Plain types and pure rules, without Redis, SQL, terminal or clock: times are arguments.

/// Serializes a type with its `Display`, and deserializes it with its `FromStr`.
#[macro_export]
macro_rules! serde_as_text {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(from)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

pub mod clock;
mod control_chars;
pub mod dead_letter;
pub mod durability;
pub mod entry;
pub mod faults;
pub mod filter;
mod foreign_key;
pub mod job;
pub mod ledger;
pub mod locale;
pub mod message;
pub mod order;
pub mod order_error;
pub mod order_id;
pub mod order_query;
mod os_error;
pub mod outcome;
pub mod reason;
pub mod sale;
pub mod settings;
mod stored_message;
mod urgency;
pub mod user;
pub mod verdict;
pub mod voucher;

pub use clock::{Millis, When, local_zone};
pub use control_chars::{escape_json, is_display_control, one_line};
pub use dead_letter::{LetterAction, LetterCounts, LetterVerdict};
pub use entry::{Backing, EntryId, OrderEntry};
pub use filter::Filter;
pub use foreign_key::{ForeignKey, NO_NUMBER, REPLACED};
pub use job::{Cause, Fence, JobOutcome, JobRun, JobSwitch, NewRun, RunEnd};
pub use ledger::{Balance, Finding, SaleAudit, SaleFinding};
pub use locale::in_english;
pub use message::Label;
pub use order::{Order, OrderCounts, OrderFilter, OrderStatus, OrderTerms, Payment, SaleOrder};
pub use order_error::OrderError;
pub use order_id::OrderId;
pub use order_query::OrderQuery;
pub use os_error::OsError;
pub use outcome::Outcome;
pub use reason::Reason;
pub use sale::{
    NewSale, Phase, Place, Sale, SaleId, SaleShard, SaleState, ShardId, Spread, UserId, VoucherId,
};
pub use settings::NumericSetting;
pub use stored_message::Message;
pub use urgency::Urgency;
pub use user::User;
pub use verdict::{RecoveryAction, Verdict};
pub use voucher::{Voucher, VoucherDetails, VoucherKind, VoucherStatus};
