//! The pending list: judged entry by entry, and put right.
//!
//! An act follows the identity of an entry, and is not done when the entry changed hands since it
//! was judged.

use std::collections::{HashMap, HashSet, hash_map::Entry};

use tokio_util::sync::CancellationToken;

use super::{
    EngineError,
    command::{ReplayReport, ReplayScope},
    rebuild::rebuild,
    settings::Settings,
    writer::{Writer, by_partition},
};
use crate::{
    broker::{
        Layout, Redis,
        keys::node_of,
        nodes::Nodes,
        stream::{self, Body, Pending},
    },
    model::{
        Act, EntryId, OrderId, Verdict,
        verdict::{self, Evidence},
    },
    store::SharedStore,
};

const PAGE: usize = 500;

/// Judges pending entries and does what follows for each. One replay at a time is one task's.
#[derive(Debug)]
pub struct Replayer {
    consumer: String,
    writer: Writer,
    settings: Settings,
}

/// A pending entry with its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The entry.
    pub row: Pending,
    /// What is true of it.
    pub verdict: Verdict,
}

impl Replayer {
    /// A replayer that takes entries over as `NODE/replay`.
    pub fn new(
        node: &str,
        redis: &Redis,
        store: SharedStore,
        keys: Layout,
        settings: Settings,
    ) -> Self {
        let consumer = format!("{node}/replay");
        Self { consumer, writer: Writer::new(redis, store, keys), settings }
    }

    /// Judges one page of the pending list, from `first` up to and with `last`.
    pub async fn judge(
        &mut self,
        first: EntryId,
        last: EntryId,
    ) -> Result<Vec<Judged>, EngineError> {
        let Writer { link, keys, .. } = &mut self.writer;
        let page = stream::pending_of_all(link, keys, first, last, PAGE).await?;
        self.judge_rows(page).await
    }

    /// Replays the entries that `scope` names. An entry that is not pending any more counts as gone.
    pub async fn replay(
        &mut self,
        scope: &ReplayScope,
        stop: &CancellationToken,
    ) -> Result<ReplayReport, EngineError> {
        let mut report = ReplayReport::default();
        match scope {
            ReplayScope::Entries(entries) => {
                for entry in entries {
                    if stop.is_cancelled() {
                        report.cut_short = true;
                        break;
                    }
                    let judged = self.judge(*entry, *entry).await?;
                    if judged.is_empty() {
                        report.seen += 1;
                        report.gone += 1;
                    }
                    self.act(judged, &mut report, stop).await?;
                }
            }
            ReplayScope::UpTo(last) => {
                let mut first = EntryId::MIN;
                loop {
                    let judged = self.judge(first, *last).await?;
                    let Some(end) = judged.last() else { break };
                    if stop.is_cancelled() {
                        report.cut_short = true;
                        break;
                    }
                    first = end.row.delivered.entry.next_of_all();
                    self.act(judged, &mut report, stop).await?;
                }
            }
        }
        Ok(report)
    }

    async fn judge_rows(&mut self, page: Vec<Pending>) -> Result<Vec<Judged>, EngineError> {
        let orders: Vec<OrderId> =
            page.iter().filter_map(|row| row.delivered.order()).map(|order| order.order).collect();
        let written: HashSet<OrderId> =
            self.writer.store.existing(&orders).await?.into_iter().collect();
        let mut nodes: HashMap<u16, Nodes> = HashMap::new();
        for row in &page {
            if let Entry::Vacant(new) = nodes.entry(row.delivered.entry.partition) {
                let of = self.writer.keys.partition(*new.key());
                new.insert(Nodes::read(&mut self.writer.link, &of).await?);
            }
        }
        let dead_ms = self.settings.node_dead_ms;
        let limits = self.settings.limits();
        Ok(page
            .into_iter()
            .map(|row| {
                let order = row.delivered.order();
                let evidence = Evidence {
                    order_in_sql: order.is_some_and(|order| written.contains(&order.order)),
                    body: match row.delivered.body {
                        Body::Good(_) => verdict::Body::Good,
                        Body::Malformed(_) => verdict::Body::Malformed,
                        Body::Gone => verdict::Body::Gone,
                    },
                    holder_alive: nodes
                        .get(&row.delivered.entry.partition)
                        .is_some_and(|nodes| nodes.is_alive(node_of(&row.consumer), dead_ms)),
                    idle_ms: row.idle_ms,
                    deliveries: row.deliveries,
                };
                Judged { verdict: verdict::judge(&evidence, limits), row }
            })
            .collect())
    }

    async fn act(
        &mut self,
        judged: Vec<Judged>,
        report: &mut ReplayReport,
        stop: &CancellationToken,
    ) -> Result<(), EngineError> {
        report.seen += judged.len() as u64;
        let (mut written, mut gone, mut grave) = (Vec::new(), Vec::new(), Vec::new());
        let mut stuck: Vec<Pending> = Vec::new();
        for Judged { row, verdict } in judged {
            let entry = row.delivered.entry;
            match verdict.act() {
                Act::Acknowledge => written.push(entry),
                Act::Process => stuck.push(row),
                Act::Leave => report.left += 1,
                Act::Rebuild => gone.push(entry),
                Act::DeadLetter => {
                    let why = match &row.delivered.body {
                        Body::Malformed(fault) => fault.to_string(),
                        _ => format!("delivered {} times without an order", row.deliveries),
                    };
                    grave.push((entry, why));
                }
            }
        }
        let asked = grave.len() as u64;
        let buried = self.writer.bury_all(grave).await?;
        report.dead += buried;
        report.gone += asked - buried;
        let asked = written.len() as u64;
        let acknowledged = self.writer.acknowledge(written).await?;
        report.acknowledged += acknowledged;
        report.gone += asked - acknowledged;
        self.take_over(stuck, report, stop).await?;
        if !gone.is_empty() {
            self.rebuild(&gone, report).await?;
        }
        Ok(())
    }

    /// Claims entries and writes their orders. Somebody who was given one since it was judged has made
    /// it young again: the claim passes it by.
    async fn take_over(
        &mut self,
        stuck: Vec<Pending>,
        report: &mut ReplayReport,
        stop: &CancellationToken,
    ) -> Result<(), EngineError> {
        let Some(youngest) = stuck.iter().map(|row| row.idle_ms).min() else { return Ok(()) };
        let mut claimed = Vec::with_capacity(stuck.len());
        let entries = stuck.iter().map(|row| row.delivered.entry);
        for (of, entries) in by_partition(&self.writer.keys, entries) {
            let link = &mut self.writer.link;
            claimed.extend(stream::claim(link, &of, &self.consumer, youngest, &entries).await?);
        }
        report.gone += (stuck.len() - claimed.len()) as u64;
        let settled = self.writer.settle(claimed, stop).await?;
        report.persisted += settled.persisted;
        report.acknowledged += settled.again;
        report.dead += settled.dead;
        report.gone += settled.gone;
        Ok(())
    }

    /// Bodies are gone, so nobody can tell whose orders they were. The buyers hash can: whoever was
    /// admitted and has no result anywhere is put into the stream again.
    async fn rebuild(
        &mut self,
        gone: &[EntryId],
        report: &mut ReplayReport,
    ) -> Result<(), EngineError> {
        for (of, gone) in by_partition(&self.writer.keys, gone.iter().copied()) {
            let Writer { link, store, keys, .. } = &mut self.writer;
            let rebuilt = rebuild(store, link, keys, &of).await?;
            report.rebuilt += rebuilt.orders;
            if rebuilt.complete {
                let done = stream::acknowledge(link, &of, gone).await?;
                report.acknowledged += done.saturating_sub(rebuilt.orders);
            } else {
                report.lost += gone.len() as u64;
            }
        }
        Ok(())
    }
}
