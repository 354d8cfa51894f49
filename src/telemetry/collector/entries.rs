//! Reads the part of the order stream that somebody looks at; its group is in the survey already.

use std::sync::Arc;

use super::{Collector, PATIENCE};
use crate::{
    broker::{
        BrokerError,
        entries::{self, Holding, Seen},
        keys::is_replay,
        stream::Body,
        survey::{Marks, StreamFacts},
    },
    telemetry::{
        StreamView,
        snapshot::{EntryLine, GroupConsumer, PartitionLine, StreamPage},
    },
};

/// Entries in one picture.
const PAGE: usize = 200;

impl Collector {
    /// Reads that part, one round trip for each partition that is shown; `None` where it can't be read now.
    pub async fn stream_page(&mut self, view: StreamView) -> Option<StreamPage> {
        if !self.redis.up {
            return None;
        }
        let (link, keys) = (&mut self.link, &self.keys);
        let reading = async {
            let (mut seen, mut older, mut bytes) = (Vec::new(), false, Vec::new());
            let shown = |number: u16| view.partition.is_none_or(|only| only == number);
            for of in keys.partitions().filter(|of| shown(of.number())) {
                let window = entries::window(link, &of, view.before, PAGE).await?;
                older |= window.older;
                bytes.push((of.number(), window.bytes));
                seen.extend(window.entries);
            }
            seen.sort_by_key(|it| it.delivered.entry);
            let beyond = seen.len().saturating_sub(PAGE);
            seen.drain(..beyond);
            Ok::<_, BrokerError>((seen, older || beyond > 0, bytes))
        };
        let (seen, older, bytes) = match tokio::time::timeout(PATIENCE, reading).await {
            Ok(Ok(read)) => read,
            Ok(Err(error)) => {
                tracing::debug!(%error, "the order stream was not read");
                return None;
            }
            Err(_) => {
                tracing::debug!("the order stream took too long to read");
                self.link.forget();
                return None;
            }
        };
        let lines = seen.into_iter().map(|it| self.entry_line(it)).collect();
        let mut partitions = self.partition_lines();
        for line in &mut partitions {
            let read = bytes.iter().find(|(number, _)| *number == line.partition);
            line.bytes = read.and_then(|(_, bytes)| *bytes);
        }
        Some(StreamPage {
            view,
            taken: Some(self.now()),
            older,
            lines: Arc::new(lines),
            partitions,
            consumers: self.group_consumers(),
        })
    }

    fn entry_line(&self, seen: Seen) -> EntryLine {
        let (order, fault) = match seen.delivered.body {
            Body::Good(order) => (Some(order), None),
            Body::Malformed(fault) => (None, Some(fault.to_string())),
            Body::Gone => (None, None),
        };
        let holder_alive = match &seen.holding {
            Holding::Pending { consumer, .. } => self.is_alive(consumer),
            _ => true,
        };
        EntryLine {
            entry: seen.delivered.entry,
            order: order.map(|it| it.order),
            user: order.map(|it| it.user),
            voucher: order.map(|it| it.voucher),
            fault,
            holding: seen.holding,
            holder_alive,
        }
    }

    fn partition_lines(&self) -> Vec<PartitionLine> {
        let Some(survey) = &self.survey else { return Vec::new() };
        let line = |(marks, facts): (&Marks, &StreamFacts)| PartitionLine {
            partition: marks.partition,
            length: facts.length,
            added: marks.added,
            first: facts.first,
            last: marks.last,
            bytes: None,
            group: facts.group,
            delivered: marks.delivered,
            read: marks.read,
            lag: facts.lag,
            pending: facts.pending,
            oldest_pending: facts.oldest_pending,
        };
        survey.marks.iter().zip(&survey.parts).map(line).collect()
    }

    fn group_consumers(&self) -> Vec<GroupConsumer> {
        let Some(survey) = &self.survey else { return Vec::new() };
        let mut all: Vec<GroupConsumer> = survey
            .consumers
            .iter()
            .map(|it| GroupConsumer {
                name: it.name.clone(),
                alive: self.is_alive(&it.name),
                takes: self.is_alive(&it.name) && !is_replay(&it.name),
                pending: it.pending,
                idle_ms: it.idle_ms,
            })
            .collect();
        // By name: rows that change places with each batch are read by nobody.
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}
