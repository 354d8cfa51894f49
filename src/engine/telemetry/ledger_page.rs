//! The last audit of all sales, for the screen.

use std::sync::Arc;

use seckill_model::{Millis, VoucherId, ledger::SaleAudit};

use crate::recovery::partition_repair::PartitionFindings;

/// The last audit by order ID, and why there is no newer one.
#[derive(Clone, Debug, Default)]
pub struct LedgerPage {
    /// When it began, by the clock of Redis; `None` before the first one.
    pub taken: Option<Millis>,
    /// Why the screen has no newer one.
    pub limit: Option<AuditLimit>,
    /// Sales, those with differences first, then those with orders in flight, then the newest first.
    pub lines: Arc<Vec<SaleAudit>>,
    /// Sales that were not read completely, because a server of a cluster did not reply.
    pub unread: Arc<Vec<VoucherId>>,
    /// Faults of partitions of the order stream.
    pub partitions: Arc<Vec<PartitionFindings>>,
}

/// A limit that keeps an on-screen audit from loading the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditLimit {
    /// More orders were admitted than an on-screen audit covers.
    Orders(u64),
    /// The audit was stopped after this many seconds.
    Seconds(u64),
}

impl LedgerPage {
    /// Returns the results of an audit of all sales that began at `taken`.
    pub fn of(
        taken: Millis,
        mut lines: Vec<SaleAudit>,
        partitions: Vec<PartitionFindings>,
    ) -> Self {
        lines.sort_by_key(|line| (line.findings.is_empty(), line.in_flight() == 0));
        Self {
            taken: Some(taken),
            limit: None,
            lines: Arc::new(lines),
            unread: Arc::default(),
            partitions: Arc::new(partitions),
        }
    }

    /// The same while a server does not answer: what the audit found is past, and nothing proves it now.
    #[must_use]
    pub fn outdated(mut self) -> Self {
        for line in Arc::make_mut(&mut self.lines) {
            line.is_outdated = true;
            line.shards.iter_mut().for_each(|shard| shard.is_outdated = true);
        }
        self
    }
}
