//! The types of the domain: vouchers, sales, orders, IDs, outcomes, verdicts.
//!
//! Plain types and pure rules, without Redis, SQL, terminal or clock: times are arguments.

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
mod numeric_setting;
pub mod order;
pub mod order_error;
pub mod order_id;
pub mod order_query;
mod os_error;
pub mod outcome;
pub mod reason;
pub mod sale;
mod stored_message;
pub mod verdict;
pub mod voucher;

pub use clock::{Millis, When};
pub use control_chars::{escape_json, is_display_control};
pub use dead_letter::{LetterAction, LetterCounts, LetterVerdict};
pub use entry::{Backing, EntryId, OrderEntry};
pub use filter::Filter;
pub use foreign_key::{ForeignKey, NO_NUMBER, REPLACED};
pub use job::{Cause, Fence, JobOutcome, JobRun, JobSwitch, NewRun, RunEnd};
pub use ledger::{Balance, Finding, SaleAudit, SaleFinding};
pub use locale::in_english;
pub use message::Label;
pub use numeric_setting::NumericSetting;
pub use order::{Order, OrderCounts, OrderFilter, OrderStatus, OrderTerms, Payment, SaleOrder};
pub use order_error::OrderError;
pub use order_id::OrderId;
pub use order_query::OrderQuery;
pub use os_error::OsError;
pub use outcome::Outcome;
pub use reason::Reason;
pub use sale::{NewSale, Phase, Place, Sale, SaleState, UserId, VoucherId};
pub use stored_message::Message;
pub use verdict::{RecoveryAction, Verdict};
pub use voucher::{Voucher, VoucherDetails, VoucherKind, VoucherStatus};
