//! Plans of recovery: every pending entry with its verdict and act, and what the books will say afterwards.
//!
//! A plan is data in a file, one line an entry, so that a million of them need no memory; it is made here, kept
//! and read back by [`file`], and done by `apply`. Making one changes nothing.

pub mod file;
mod lost;
mod make;

use serde::{Deserialize, Serialize};

use seckill_model::{
    Act, EntryId, Millis, OrderId, UserId, Verdict, VoucherId, locale::in_english,
};
use seckill_redis::stream::Body;

pub use file::Plan;
pub use make::{PLAN, make, of_entries};

use super::pending::Judged;

/// What a plan is about; the first line of its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Version of the format.
    pub seckill_plan: u32,
    /// Name of the deployment that it is for, as its database knows it.
    pub deployment: String,
    /// When it was made, by the clock of Redis.
    pub made: Millis,
    /// Which entries it was to hold; empty for all.
    pub filter: String,
    /// Entries beyond this one were not looked at.
    pub up_to: EntryId,
}

/// One entry of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The entry.
    pub entry: EntryId,
    /// What is true of it.
    pub verdict: Verdict,
    /// What is to be done.
    pub act: Act,
    /// Who holds it.
    pub consumer: String,
    /// Milliseconds since it was last delivered.
    pub idle_ms: u64,
    /// How often it was delivered.
    pub deliveries: u64,
    /// The order that it asks for; `None` where its fields are not good.
    pub order_id: Option<OrderId>,
    /// Who bought.
    pub user_id: Option<UserId>,
    /// What was bought.
    pub voucher_id: Option<VoucherId>,
    /// What is wrong with it.
    pub fault: Option<String>,
}

impl From<&Judged> for Line {
    fn from(judged: &Judged) -> Self {
        let order = judged.row.delivered.order();
        Self {
            entry: judged.row.delivered.entry,
            verdict: judged.verdict,
            act: judged.verdict.act(),
            consumer: judged.row.consumer.clone(),
            idle_ms: judged.row.idle_ms,
            deliveries: judged.row.deliveries,
            order_id: order.map(|order| order.order),
            user_id: order.map(|order| order.user),
            voucher_id: order.map(|order| order.voucher),
            fault: judged.fault().map(|fault| in_english(|| fault.to_string())),
        }
    }
}

/// What a plan comes to; the last line of its file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Entries in it.
    pub entries: u64,
    /// By verdict, in the order in which they are told; those of which there are none are left out.
    pub verdicts: Vec<VerdictTotal>,
    /// What Redis and SQL hold, and will hold.
    pub books: Forecast,
    /// The same for each sale of which an order will be written.
    pub sales: Vec<SaleForecast>,
}

/// Entries of one verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictTotal {
    /// What is true of them.
    pub verdict: Verdict,
    /// What is to be done.
    pub act: Act,
    /// How many.
    pub entries: u64,
    /// Why that act, for a person.
    pub why: String,
}

/// A figure now, and after the plan was done and nothing else happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// As it is.
    pub now: u64,
    /// As it will be.
    pub after: u64,
}

/// What the books will say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forecast {
    /// Entries delivered and not acknowledged.
    pub pending: Change,
    /// Dead letters.
    pub dead: Change,
    /// Live orders in SQL.
    pub persisted: Change,
    /// Admitted orders that are nowhere but among the buyers, and go into the stream again.
    pub rebuilt: u64,
}

/// What the books of one sale will say.
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
    /// Entries of a verdict.
    pub fn of(&self, verdict: Verdict) -> u64 {
        self.verdicts.iter().find(|it| it.verdict == verdict).map_or(0, |it| it.entries)
    }

    /// Entries with which something will be done.
    pub fn to_do(&self) -> u64 {
        self.entries - self.of(Verdict::InHand)
    }

    fn add(&mut self, line: &Line) {
        self.entries += 1;
        if let Some(total) = self.verdicts.iter_mut().find(|it| it.verdict == line.verdict) {
            total.entries += 1;
            return;
        }
        let (verdict, act) = (line.verdict, line.act);
        let why = verdict.why().to_owned();
        self.verdicts.push(VerdictTotal { verdict, act, entries: 1, why });
        let place = |it: &VerdictTotal| Verdict::ALL.iter().position(|v| *v == it.verdict);
        self.verdicts.sort_by_key(place);
    }
}

/// Whether a judged entry still has the body that a line speaks of.
pub(super) fn same_order(line: &Line, judged: &Judged) -> bool {
    match &judged.row.delivered.body {
        Body::Good(order) => line.order_id == Some(order.order),
        // Nobody can tell any more.
        Body::Gone => true,
        Body::Malformed(_) => line.order_id.is_none(),
    }
}

/// Plans that nobody made from a server, for tests of what is done with them.
#[cfg(any(test, feature = "test-support"))]
pub mod made_up {
    use super::{Change, EntryId, Head, Line, Millis, Plan, Totals, Verdict, file::Writer};

    /// A plan of entries with these verdicts; with a `filter`, of a part of all.
    ///
    /// # Panics
    /// Where there is no room for its file.
    #[allow(clippy::unwrap_used, reason = "a test that fails says where")]
    pub fn plan(entries: &[(EntryId, Verdict)], filter: &str) -> Plan {
        let head = Head {
            seckill_plan: 1,
            deployment: "d".into(),
            made: Millis(9),
            filter: filter.into(),
            up_to: EntryId::MAX,
        };
        let mut writer = Writer::new(head).unwrap();
        let mut totals = Totals::default();
        for (entry, verdict) in entries {
            let line = Line {
                entry: *entry,
                verdict: *verdict,
                act: verdict.act(),
                consumer: "node\n\"a\"/1".into(),
                idle_ms: 7,
                deliveries: 1,
                order_id: "99".parse().ok(),
                user_id: None,
                voucher_id: None,
                fault: Some("订单 }],".into()),
            };
            totals.add(&line);
            writer.line(&line).unwrap();
        }
        let (all, stuck) = (totals.entries, totals.of(Verdict::Stuck));
        totals.books.pending = Change { now: all, after: all - totals.to_do() };
        totals.books.persisted = Change { now: 1_000, after: 1_000 + stuck };
        writer.end(totals).unwrap()
    }
}
