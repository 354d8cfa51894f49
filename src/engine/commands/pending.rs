//! The pending list, classified entry by entry.
//!
//! It determines the state of each entry and the resulting action; it changes nothing.

use std::collections::{HashMap, hash_map::Entry};

use futures::{FutureExt as _, future::BoxFuture};
use seckill_model::{
    Backing, EntryId, OrderEntry, OrderError, RecoveryAction, Verdict,
    filter::{Fact, Field, Filter, Kind},
    locale::in_english,
    verdict::{Evidence, judge},
};
use seckill_redis::{
    keys::{is_replay, node_of},
    nodes::Nodes,
    stream::{self, Body, Pending},
};
use seckill_store::Written;
use strum::VariantNames as _;

use crate::{
    Result,
    consumer::order_writer::by_partition,
    deployment::{servers::Servers, settings::Settings},
    ledger::entry_check,
};

/// Entries per read: about 5 ms of Redis time, and a tenth of that in memory.
pub(crate) const PAGE: usize = 1_000;

/// Filter fields of pending entries.
pub const FIELDS: &[Field] = &[
    ("entry", Kind::Entry),
    ("verdict", Kind::Word(Verdict::VARIANTS)),
    ("action", Kind::Word(RecoveryAction::VARIANTS)),
    ("holder", Kind::Text),
    ("idle", Kind::Span),
    ("age", Kind::Span),
    ("deliveries", Kind::Number),
    ("order", Kind::Number),
    ("user", Kind::Number),
    ("voucher", Kind::Number),
    ("fault", Kind::Text),
];

/// Classifies pending entries by the current data in Redis and SQL.
#[derive(Debug)]
pub struct Classifier {
    servers: Servers,
    settings: Settings,
    /// An operator's replay is running: entries claimed by a replay belong to it.
    replay_alive: bool,
}

/// A pending entry with its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Classified {
    /// The entry.
    pub row: Pending,
    /// Why it yields no order, for the operator and the dead letter.
    pub fault: Option<OrderError>,
    /// Milliseconds since it was added, by the clock of Redis.
    pub age_ms: u64,
    /// Its state.
    pub verdict: Verdict,
}

impl Classifier {
    /// A classifier with its own connection. `replay_alive` means that another process holds the operator lock.
    pub fn new(servers: Servers, settings: Settings, replay_alive: bool) -> Self {
        Self { servers, settings, replay_alive }
    }

    /// One page of the pending list, from `first` to `last` inclusive.
    pub fn page(
        &mut self,
        first: EntryId,
        last: EntryId,
    ) -> BoxFuture<'_, Result<Vec<Classified>>> {
        async move {
            let Servers { conn, keys, .. } = &mut self.servers;
            let page = stream::pending_of_all(conn, keys, first, last, PAGE).await?;
            self.classify(page).await
        }
        .boxed()
    }

    /// The pending ones among these entries.
    pub async fn entries(&mut self, entries: &[EntryId]) -> Result<Vec<Classified>> {
        let mut rows = Vec::with_capacity(entries.len());
        let Servers { conn, keys, .. } = &mut self.servers;
        for (of, entries) in by_partition(keys, entries.iter().copied(), |entry| *entry) {
            for page in entries.chunks(PAGE) {
                rows.extend(stream::pending_entries(conn, &of, page).await?);
            }
        }
        self.classify(rows).await
    }

    /// The verdicts on these entries, which were just read.
    pub fn classify(&mut self, rows: Vec<Pending>) -> BoxFuture<'_, Result<Vec<Classified>>> {
        self.judge(rows).boxed()
    }

    async fn judge(&mut self, rows: Vec<Pending>) -> Result<Vec<Classified>> {
        let orders: Vec<OrderEntry> = rows.iter().filter_map(|row| row.delivered.order()).collect();
        // Redis first: an order reaches SQL before its buyer leaves Redis.
        let backing = entry_check::backing(&mut self.servers, &orders).await?;
        let foreseen = self.servers.store.foresee(&orders).await?;
        let mut foreseen =
            orders.iter().zip(foreseen).zip(backing).map(|((order, row), backing)| {
                let sale_lost = (row, backing) == (Written::NoSale, Backing::Promised);
                let fault = match (row, backing) {
                    _ if sale_lost => None,
                    (Written::New, Backing::Nothing) => Some(OrderError::NotPromised),
                    (Written::New, Backing::Other(holds)) => {
                        Written::Conflict { holds }.fault(order)
                    }
                    _ => row.fault(order),
                };
                (row == Written::Again, sale_lost, fault)
            });
        let mut nodes: HashMap<u16, Nodes> = HashMap::new();
        let mut classified = Vec::with_capacity(rows.len());
        for row in rows {
            let entry = row.delivered.entry;
            let nodes = match nodes.entry(entry.partition) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let of = self.servers.keys.partition(entry.partition);
                    new.insert(Nodes::read(&mut self.servers.conn, &of).await?)
                }
            };
            let (is_written, sale_lost, fault) = match &row.delivered.body {
                Body::Good(_) => foreseen.next().unwrap_or_default(),
                Body::Malformed(fault) => (false, false, Some(OrderError::Fields(fault.clone()))),
                Body::Gone => (false, false, Some(OrderError::Gone)),
            };
            let holder_alive = if is_replay(&row.consumer) {
                self.replay_alive
            } else {
                let dead_ms = self.settings.node_dead_ms;
                nodes.is_alive(node_of(&row.consumer), dead_ms)
            };
            let Pending { idle_ms, deliveries, .. } = row;
            let evidence =
                Evidence { is_written, fault, sale_lost, holder_alive, idle_ms, deliveries };
            let verdict = judge(&evidence, self.settings.limits());
            let fault = match verdict {
                Verdict::TooOften => Some(OrderError::TooOften(deliveries)),
                _ => evidence.fault,
            };
            let age_ms = nodes.now.since(entry.added());
            classified.push(Classified { row, fault, age_ms, verdict });
        }
        Ok(classified)
    }
}

impl Classified {
    /// Whether it matches a filter.
    pub fn passes(&self, filter: &Filter) -> bool {
        let order = self.row.delivered.order();
        filter.passes(|field| match field {
            "entry" => Some(Fact::Entry(self.row.delivered.entry)),
            "verdict" => Some(Fact::Text(<&str>::from(self.verdict).into())),
            "action" => Some(Fact::Text(<&str>::from(self.verdict.action()).into())),
            "holder" => Some(Fact::Text(self.row.consumer.as_str().into())),
            "idle" => Some(Fact::Number(self.row.idle_ms)),
            "age" => Some(Fact::Number(self.age_ms)),
            "deliveries" => Some(Fact::Number(self.row.deliveries)),
            "order" => order.map(|order| Fact::Number(order.order.get())),
            "user" => order.map(|order| Fact::Number(order.user.0)),
            "voucher" => order.map(|order| Fact::Number(order.voucher.0)),
            "fault" => {
                let fault = self.fault.as_ref();
                fault.map(|fault| Fact::Text(in_english(|| fault.to_string()).into()))
            }
            _ => None,
        })
    }
}
