//! Admissions of the last seconds and orders in progress, kept outside Redis.
//!
//! With `appendfsync everysec` a killed server may lose the replies of its last two seconds: it delays its write while
//! the disk syncs; one that is restored from an older copy loses more. Buyers had the reply "admitted" by then, so the
//! node that replied keeps them in memory for longer than an order needs to reach SQL.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use seckill_model::{OrderEntry, OrderId, SaleOrder};

/// Redis delays a write for at most two seconds; the rest is for a restart, and for an older copy of its files.
const REMEMBER: Duration = Duration::from_secs(30);
/// 40 bytes each, and a deque doubles: at most about 84 MB.
const MOST: usize = 1_500_000;

/// Recent promises: orders of buyers who got the reply "admitted", oldest first.
#[derive(Debug, Default)]
pub struct Journal {
    promises: VecDeque<(Instant, SaleOrder)>,
}

impl Journal {
    /// Adds a promise made at `now`, and removes expired ones.
    pub fn note(&mut self, now: Instant, promise: SaleOrder) {
        self.prune(now);
        if self.promises.len() >= MOST {
            self.promises.pop_front();
        }
        self.promises.push_back((now, promise));
    }

    /// Removes expired promises. Only while Redis answers: what it loses in an outage is as old as the outage.
    pub fn prune(&mut self, now: Instant) {
        while self.promises.front().is_some_and(|(at, _)| now.duration_since(*at) > REMEMBER) {
            self.promises.pop_front();
        }
    }

    /// Removes promises that could not be fulfilled: their result is a dead letter.
    pub fn forget(&mut self, refused: &[OrderId]) {
        if !refused.is_empty() {
            self.promises.retain(|(_, promise)| !refused.contains(&promise.id));
        }
    }

    /// Whether there are no recent promises.
    pub fn is_empty(&self) -> bool {
        self.promises.is_empty()
    }

    /// All recent promises, oldest first. During an outage none is added, so none expires either.
    pub fn promises(&self) -> impl Iterator<Item = SaleOrder> {
        self.promises.iter().map(|(_, promise)| *promise)
    }
}

/// Orders that the consumers of this process hold: read from the stream, checked and not settled yet. While they wait
/// for SQL Redis may lose them, and the node that promised them may be dead. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct InHand(Arc<Mutex<Vec<Weak<Vec<OrderEntry>>>>>);

impl InHand {
    /// Registers orders until the last clone of the returned guard is dropped.
    pub(crate) fn take(&self, orders: Vec<OrderEntry>) -> Arc<Vec<OrderEntry>> {
        let orders = Arc::new(orders);
        let mut batches = self.0.lock();
        batches.retain(|it| it.strong_count() > 0);
        batches.push(Arc::downgrade(&orders));
        orders
    }

    /// The promises behind them.
    pub(crate) fn promises(&self) -> Vec<SaleOrder> {
        let batches = self.0.lock();
        let orders = batches.iter().filter_map(Weak::upgrade);
        orders.flat_map(|batch| batch.iter().map(SaleOrder::from).collect::<Vec<_>>()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seckill_model::{UserId, VoucherId};

    #[test]
    fn old_promises_expire_on_insertion() {
        let promise = |user| SaleOrder {
            id: OrderId::from_i64(user as i64).unwrap(),
            user_id: UserId(user),
            voucher_id: VoucherId(1),
            shard: 0,
            place: 1,
        };
        let start = Instant::now();
        let mut journal = Journal::default();
        journal.note(start, promise(1));
        journal.note(start + Duration::from_secs(29), promise(2));
        assert_eq!(journal.promises().count(), 2);
        journal.note(start + Duration::from_secs(31), promise(3));
        assert_eq!(journal.promises().map(|p| p.user_id.0).collect::<Vec<_>>(), [2, 3]);
    }
}
