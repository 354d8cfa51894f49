//! The pending list, classified entry by entry.
//!
//! It determines the state of each entry and the resulting action; it changes nothing.

use std::collections::{HashMap, hash_map::Entry};

use futures::{FutureExt as _, future::BoxFuture};
use seckill_model::{
    Backing, EntryId, OrderEntry, OrderError, RecoveryAction, Verdict,
    filter::{Fact, Field, Filter, Kind},
    locale::in_english,
    verdict::{self, Evidence, Row},
};
use seckill_redis::{
    keys::{is_replay, node_of},
    nodes::Nodes,
    stream::{self, Body, Pending},
};
use seckill_store::Written;

use crate::{
    EngineError, consumer::order_writer::by_partition, ledger::entry_check, servers::Servers,
    settings::Settings,
};

/// Entries per read: about 5 ms of Redis time, and a tenth of that in memory.
pub(crate) const PAGE: usize = 1_000;

/// Filter fields of pending entries.
pub const FIELDS: &[Field] = &[
    ("entry", Kind::Entry),
    ("verdict", Kind::Word(Verdict::NAMES)),
    ("action", Kind::Word(RecoveryAction::NAMES)),
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
    /// The state of its order in SQL.
    pub sql: Row,
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
    ) -> BoxFuture<'_, Result<Vec<Classified>, EngineError>> {
        async move {
            let Servers { conn, keys, .. } = &mut self.servers;
            let page = stream::pending_of_all(conn, keys, first, last, PAGE).await?;
            self.classify(page).await
        }
        .boxed()
    }

    /// The pending ones among these entries.
    pub async fn entries(&mut self, entries: &[EntryId]) -> Result<Vec<Classified>, EngineError> {
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
    pub fn classify(
        &mut self,
        rows: Vec<Pending>,
    ) -> BoxFuture<'_, Result<Vec<Classified>, EngineError>> {
        self.judge(rows).boxed()
    }

    async fn judge(&mut self, rows: Vec<Pending>) -> Result<Vec<Classified>, EngineError> {
        let orders: Vec<OrderEntry> = rows.iter().filter_map(|row| row.delivered.order()).collect();
        // Redis first: an order reaches SQL before its buyer leaves Redis.
        let backing = entry_check::backing(&mut self.servers, &orders).await?;
        let answers = self.servers.store.foresee(&orders).await?.into_iter().map(row_state);
        let mut answers = answers.zip(backing).map(|(row, backing)| match (row, backing) {
            (Row::Absent, Backing::Nothing) => Row::NotPromised,
            (Row::Absent, Backing::Other(holds)) => Row::Holds(holds),
            (row, _) => row,
        });
        let mut nodes: HashMap<u16, Nodes> = HashMap::new();
        let mut classified = Vec::with_capacity(rows.len());
        for row in rows {
            let entry = row.delivered.entry;
            if let Entry::Vacant(new) = nodes.entry(entry.partition) {
                let of = self.servers.keys.partition(entry.partition);
                new.insert(Nodes::read(&mut self.servers.conn, &of).await?);
            }
            let sql = match &row.delivered.body {
                Body::Good(_) => answers.next().unwrap_or(Row::Absent),
                Body::Malformed(_) | Body::Gone => Row::Absent,
            };
            let nodes = nodes.get(&entry.partition);
            let age_ms = nodes.map_or(0, |nodes| nodes.now.since(entry.added()));
            classified.push(self.verdict(row, sql, age_ms, nodes));
        }
        Ok(classified)
    }

    fn verdict(&self, row: Pending, sql: Row, age_ms: u64, nodes: Option<&Nodes>) -> Classified {
        let holder_alive = if is_replay(&row.consumer) {
            self.replay_alive
        } else {
            let dead_ms = self.settings.node_dead_ms;
            nodes.is_some_and(|nodes| nodes.is_alive(node_of(&row.consumer), dead_ms))
        };
        let evidence = Evidence {
            row: sql,
            body: match row.delivered.body {
                Body::Good(_) => verdict::Body::Good,
                Body::Malformed(_) => verdict::Body::Malformed,
                Body::Gone => verdict::Body::Gone,
            },
            holder_alive,
            idle_ms: row.idle_ms,
            deliveries: row.deliveries,
        };
        let verdict = verdict::judge(&evidence, self.settings.limits());
        Classified { row, sql, age_ms, verdict }
    }
}

fn row_state(written: Written) -> Row {
    match written {
        Written::New => Row::Absent,
        Written::Again => Row::Present,
        Written::Conflict { holds } => Row::Holds(holds),
        Written::IdTaken => Row::IdTaken,
        Written::NoSale => Row::NoSale,
    }
}

impl Classified {
    /// What is wrong with it, for the operator and the dead letter; `None` if valid.
    pub fn fault(&self) -> Option<OrderError> {
        Some(match (&self.row.delivered.body, self.sql, self.verdict) {
            (Body::Gone, ..) => OrderError::Gone,
            (Body::Malformed(fault), ..) => OrderError::Fields(fault.clone()),
            (Body::Good(order), Row::Holds(holds), _) => {
                OrderError::Holds { user: order.user, holds, voucher: order.voucher }
            }
            (Body::Good(order), Row::IdTaken, _) => OrderError::IdTaken(order.order),
            (Body::Good(order), Row::NoSale, _) => OrderError::NoSale(order.voucher),
            (Body::Good(_), Row::NotPromised, _) => OrderError::NotPromised,
            (_, _, Verdict::TooOften) => OrderError::TooOften(self.row.deliveries),
            _ => return None,
        })
    }

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
                self.fault().map(|fault| Fact::Text(in_english(|| fault.to_string()).into()))
            }
            _ => None,
        })
    }
}
