//! What one pass has read. The keys are a contract of `attach status --json`.

use seckill_model::{Millis, Phase, Reason, Urgency, VoucherId, ledger::sentences};
use serde::{Serialize, Serializer};

use crate::{Alarm, Limits};

/// The state of a service, read in one pass.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Redis' clock.
    pub taken: Millis,
    /// Redis, without credentials.
    pub redis: String,
    /// The kind of database.
    pub database: String,
    /// What a pass reads at most.
    pub limits: Limits,
    /// What this pass has read.
    pub cost: Cost,
    /// The profile has an order stream; otherwise orders wait in the memory of the service.
    pub has_stream: bool,
    /// The order stream; `None` if there is none, or its key holds another value.
    pub stream: Option<StreamReport>,
    /// The newest sales.
    pub sales: Vec<SaleReport>,
    /// There may be more sales than were read.
    pub more_sales: bool,
    /// Held locks; `None` if the profile has none.
    pub locks: Option<Locks>,
    /// What needs attention, the most urgent first.
    #[serde(serialize_with = "with_urgency")]
    pub alarms: Vec<Alarm>,
    /// What was not compared or not seen, so that it can raise no alarm, and why a difference may be none.
    #[serde(serialize_with = "sentences")]
    pub not_compared: Vec<Reason>,
}

impl Report {
    /// Whether no alarm is more urgent than a notice.
    pub fn is_healthy(&self) -> bool {
        self.alarms.iter().all(|it| it.urgency() == Urgency::Notice)
    }
}

fn with_urgency<S: Serializer>(alarms: &[Alarm], to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Line<'a> {
        urgency: Urgency,
        #[serde(flatten)]
        alarm: &'a Alarm,
    }
    to.collect_seq(alarms.iter().map(|alarm| Line { urgency: alarm.urgency(), alarm }))
}

/// What one pass has cost the servers of the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Redis commands. SCAN, SSCAN and XRANGE examine up to [`PAGE`](crate::PAGE) keys, members or entries
    /// each.
    pub commands: u64,
    /// Rows that SQL returned.
    pub rows: u64,
    /// Milliseconds from the first read to the last: a figure is at most so much older than the report.
    pub took_ms: u64,
}

/// The order stream and its group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StreamReport {
    /// Its key.
    pub key: String,
    /// The group of the profile.
    pub group: String,
    /// The stream exists; otherwise, its figures are 0.
    pub exists: bool,
    /// The group exists.
    pub has_group: bool,
    /// Entries in the stream.
    pub length: u64,
    /// Entries ever added; `None` if Redis does not report it.
    pub added: Option<u64>,
    /// Entries never delivered; `None` if unknown.
    pub lag: Option<u64>,
    /// Age of the oldest of them.
    pub oldest_undelivered_ms: Option<u64>,
    /// Entries delivered and not acknowledged.
    pub pending: u64,
    /// Entries added per second since the last pass.
    pub added_per_second: Option<f64>,
    /// Consumers, those with most pending entries first.
    pub consumers: Vec<ConsumerReport>,
}

/// One consumer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConsumerReport {
    /// Its name.
    pub name: String,
    /// Entries it holds.
    pub pending: u64,
    /// Milliseconds since it last asked for entries.
    pub idle_ms: u64,
}

/// One sale.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SaleReport {
    /// The voucher.
    pub voucher_id: VoucherId,
    /// Its title.
    pub title: String,
    /// By the dates of the sale and Redis' clock; `None` if a date is unreadable.
    pub phase: Option<Phase>,
    /// The key of its stock exists in Redis.
    pub loaded: bool,
    /// It moves to an engine, or has moved there.
    pub moved: bool,
    /// Pieces left in Redis; `None` if there is no such number.
    pub redis_stock: Option<i64>,
    /// Pieces left in SQL.
    pub sql_stock: i64,
    /// Stock before the first order, if the service has such a column.
    pub initial: Option<i64>,
    /// Users in the set of buyers; `None` if its key holds another value.
    pub buyers: Option<u64>,
    /// Orders in SQL, closed ones included; `None` if there are more orders than one pass reads.
    pub orders: Option<u64>,
    /// Orders that are not closed.
    pub live_orders: Option<u64>,
    /// Users with an entry that is not acknowledged and whose order is not in SQL; `None` if unknown.
    pub in_flight: Option<u64>,
    /// Entries that are not acknowledged, and those whose sale is unreadable; `None` if unknown.
    #[serde(skip)]
    pub entries_in_flight: Option<u64>,
    /// Buyers with neither an order nor an entry; `None` if not compared.
    pub buyers_without_order: Option<u64>,
    /// Buyers whose only orders are closed, without an entry: an order of theirs may be missing; `None` if not compared.
    pub buyers_with_closed_order: Option<u64>,
    /// Users with a live order who are not in the set of buyers; `None` if not compared.
    pub orders_without_buyer: Option<u64>,
    /// Users with several live orders.
    pub duplicate_buyers: u64,
    /// Buyers added per second since the last pass.
    pub admitted_per_second: Option<f64>,
    /// Orders written per second since the last pass.
    pub orders_per_second: Option<f64>,
}

/// Held locks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Locks {
    /// All keys of Redis were examined, in this and earlier passes.
    pub complete: bool,
    /// The locks that were found.
    pub held: Vec<LockReport>,
}

/// One lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LockReport {
    /// Its key.
    pub key: String,
    /// Its kind.
    pub kind: Kind,
    /// Its holder.
    pub owner: String,
    /// Reentrancy depth.
    pub depth: u64,
    /// Milliseconds left of the lease; `None` if it never expires.
    pub left_ms: Option<u64>,
}

/// Kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Kind {
    /// A hash of Redisson.
    Hash,
    /// A string.
    String,
}
