//! Recovery plans: every pending entry with its verdict and action, and a forecast of the ledger.
//!
//! A plan is data in a file, one line per entry, so that a million entries need little memory. It is created here,
//! stored and read back by [`file`], and executed by `apply`. Creating a plan changes nothing.

pub mod file;
mod make;

use serde::{Deserialize, Serialize};

use seckill_model::{
    EntryId, Message, Millis, OrderId, RecoveryAction, UserId, Verdict, VoucherId, in_english,
};
use seckill_redis::stream::Body;

pub use file::Plan;
pub use make::{PLAN, make, of_entries};

use crate::commands::pending::Classified;

/// Scope of a plan; the first line of its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Version of the format.
    pub seckill_plan: u32,
    /// Name of its deployment, as stored in the database.
    pub deployment: String,
    /// When it was created, by the clock of Redis.
    pub made: Millis,
    /// Filter of its entries; empty for all.
    pub filter: String,
    /// Last entry that it covers.
    pub up_to: EntryId,
}

/// One entry of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The entry.
    pub entry: EntryId,
    /// Its verdict.
    pub verdict: Verdict,
    /// Planned action.
    pub action: RecoveryAction,
    /// Its consumer.
    pub consumer: String,
    /// Milliseconds since it was last delivered.
    pub idle_ms: u64,
    /// Number of deliveries.
    pub deliveries: u64,
    /// The requested order; `None` if its fields are invalid.
    pub order_id: Option<OrderId>,
    /// The buyer.
    pub user_id: Option<UserId>,
    /// The voucher.
    pub voucher_id: Option<VoucherId>,
    /// The fault of its fields.
    pub fault: Option<Message>,
}

impl From<&Classified> for Line {
    fn from(entry: &Classified) -> Self {
        let order = entry.row.delivered.order();
        Self {
            entry: entry.row.delivered.entry,
            verdict: entry.verdict,
            action: entry.verdict.action(),
            consumer: entry.row.consumer.clone(),
            idle_ms: entry.row.idle_ms,
            deliveries: entry.row.deliveries,
            order_id: order.map(|order| order.order),
            user_id: order.map(|order| order.user),
            voucher_id: order.map(|order| order.voucher),
            fault: entry.fault.as_ref().map(Message::of),
        }
    }
}

/// Totals of a plan; the last line of its file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Number of entries.
    pub entries: u64,
    /// By verdict, in display order; empty verdicts are omitted.
    pub verdicts: Vec<VerdictTotal>,
    /// Current and expected contents of Redis and SQL.
    pub forecast: Forecast,
    /// The same for each sale that gains an order.
    pub sales: Vec<SaleForecast>,
}

/// Entries of one verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictTotal {
    /// The verdict.
    pub verdict: Verdict,
    /// Planned action.
    pub action: RecoveryAction,
    /// Number of entries.
    pub entries: u64,
    /// Reason for that action, for display.
    pub why: String,
}

/// A figure now, and after the plan if nothing else happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Current value.
    pub now: u64,
    /// Expected value.
    pub after: u64,
}

/// Forecast of the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forecast {
    /// Entries delivered and not acknowledged.
    pub pending: Change,
    /// Dead letters.
    pub dead: Change,
    /// Live orders in SQL.
    pub persisted: Change,
    /// Admitted orders that only the buyer sets hold, to be enqueued again.
    pub rebuilt: u64,
}

/// Forecast of one sale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaleForecast {
    /// The sale.
    pub voucher_id: VoucherId,
    /// Live orders in SQL.
    pub persisted: Change,
    /// Pieces left in SQL.
    pub db_stock: Change,
}

impl Totals {
    /// Returns the number of entries with this verdict.
    pub fn of(&self, verdict: Verdict) -> u64 {
        self.verdicts.iter().find(|it| it.verdict == verdict).map_or(0, |it| it.entries)
    }

    /// Returns the number of entries that need an action.
    pub fn to_do(&self) -> u64 {
        self.entries - self.of(Verdict::InHand)
    }

    /// Counts an entry.
    pub fn add(&mut self, line: &Line) {
        self.entries += 1;
        if let Some(total) = self.verdicts.iter_mut().find(|it| it.verdict == line.verdict) {
            total.entries += 1;
            return;
        }
        let (verdict, action) = (line.verdict, line.action);
        let why = in_english(|| verdict.why());
        self.verdicts.push(VerdictTotal { verdict, action, entries: 1, why });
        self.verdicts.sort_by_key(|it| it.verdict);
    }
}

/// Returns whether an entry still has the body described by a line.
pub(crate) fn same_order(line: &Line, entry: &Classified) -> bool {
    match &entry.row.delivered.body {
        Body::Good(order) => line.order_id == Some(order.order),
        // The bodies are gone and cannot be compared.
        Body::Gone => true,
        Body::Malformed(_) => line.order_id.is_none(),
    }
}
