//! Who was admitted in the last seconds, kept outside Redis.
//!
//! With `appendfsync everysec` a killed server may lose what it answered in its last two seconds:
//! it puts off its write while the disk syncs; one that comes back from an older copy loses more. Buyers were answered
//! "admitted" by then, so the node that answered them remembers for longer than an order needs to reach SQL.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::model::{OrderId, Place, VoucherId};

/// Redis puts a write off for at most two seconds; the rest is for a restart, and for an older copy of its files.
const REMEMBER: Duration = Duration::from_secs(30);
/// 40 bytes each, and a deque doubles: some 84 MB at the very most.
const MOST: usize = 1_500_000;

/// One buyer that was told "admitted".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// What was bought.
    pub voucher: VoucherId,
    /// Who bought, at which of his places.
    pub place: Place,
    /// The order that he was promised.
    pub order: OrderId,
}

/// Recent promises, oldest first.
#[derive(Debug, Default)]
pub struct Journal {
    promises: VecDeque<(Instant, Admitted)>,
}

impl Journal {
    /// Remembers a promise made at `now`, and forgets what is old.
    pub fn note(&mut self, now: Instant, promise: Admitted) {
        self.prune(now);
        if self.promises.len() >= MOST {
            self.promises.pop_front();
        }
        self.promises.push_back((now, promise));
    }

    /// Forgets what is old. Only while Redis answers: what it loses when it goes is as old as it is then.
    pub fn prune(&mut self, now: Instant) {
        while self.promises.front().is_some_and(|(at, _)| now.duration_since(*at) > REMEMBER) {
            self.promises.pop_front();
        }
    }

    /// Forgets promises that could not be kept: they have their result, a dead letter.
    pub fn forget(&mut self, refused: &[OrderId]) {
        if !refused.is_empty() {
            self.promises.retain(|(_, promise)| !refused.contains(&promise.order));
        }
    }

    /// Whether nothing was promised lately.
    pub fn is_empty(&self) -> bool {
        self.promises.is_empty()
    }

    /// All promises that are still remembered, oldest first. During an outage nothing is noted, so
    /// nothing is forgotten either.
    pub fn promises(&self) -> impl Iterator<Item = Admitted> {
        self.promises.iter().map(|(_, promise)| *promise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::UserId;

    #[test]
    fn forgets_what_is_old_when_something_new_comes() {
        let promise = |user| Admitted {
            voucher: VoucherId(1),
            place: Place { user: UserId(user), number: 1 },
            order: OrderId::from_i64(user as i64).unwrap(),
        };
        let start = Instant::now();
        let mut journal = Journal::default();
        journal.note(start, promise(1));
        journal.note(start + Duration::from_secs(29), promise(2));
        assert_eq!(journal.promises().count(), 2);
        journal.note(start + Duration::from_secs(31), promise(3));
        assert_eq!(journal.promises().map(|p| p.place.user.0).collect::<Vec<_>>(), [2, 3]);
    }
}
