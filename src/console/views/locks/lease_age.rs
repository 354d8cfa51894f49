//! The remaining share of each lease, interpolated between snapshots: full after a renewal, empty at expiry.
//!
//! A snapshot contains only the remaining time; the full lease is inferred from earlier ones.

use std::collections::HashMap;

use seckill_engine::{Snapshot, locks::Timing, telemetry::snapshot::Holder};
use seckill_model::Millis;

use crate::views::{is_stale, table::Row as _};

/// Expiry times that differ by less are equal within measurement error.
const JITTER_MS: u64 = 300;

/// One lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    ends: Millis,
    /// Milliseconds of a full lease, as far as known.
    full_ms: u64,
    /// A renewal was seen.
    pub(crate) renewed: bool,
}

impl Lease {
    /// The initial estimate for a new lease.
    fn first(lock: &Holder, ends: Millis, left_ms: u64) -> Self {
        let usual = u64::try_from(Timing::default().lease.as_millis()).unwrap_or(u64::MAX);
        // A lease that was never renewed lasts from its start to its expiry.
        let whole = lock.since.map_or(usual, |since| ends.since(since));
        let full_ms = whole.min(usual).max(left_ms);
        Self { ends, full_ms, renewed: false }
    }

    pub(crate) fn left_ms(&self, now: Millis) -> u64 {
        self.ends.since(now)
    }

    /// The remaining share, from 0 to 1.
    pub(crate) fn share(&self, now: Millis) -> f64 {
        self.left_ms(now) as f64 / self.full_ms.max(1) as f64
    }

    /// Renewals happen after a third: at half, one was missed or there are none.
    pub(crate) fn runs_out(&self, now: Millis) -> bool {
        self.share(now) < 0.5
    }
}

/// The leases of the last snapshot.
#[derive(Debug, Default)]
pub(crate) struct Leases(HashMap<(String, String), Lease>);

impl Leases {
    pub(crate) fn look(&mut self, snapshot: &Snapshot) {
        let Some(read) = snapshot.redis.last_ok else { return self.0.clear() };
        let lease = |lock: &Holder| {
            let (left_ms, id) = (lock.left_ms?, lock.id());
            let ends = read.plus(i64::try_from(left_ms).ok()?);
            let lease = match self.0.get(&id) {
                Some(before) if ends.since(before.ends) > JITTER_MS => Lease {
                    ends,
                    full_ms: if before.renewed { before.full_ms.max(left_ms) } else { left_ms },
                    renewed: true,
                },
                Some(before) => Lease { ends, ..*before },
                None => Lease::first(lock, ends, left_ms),
            };
            Some((id, lease))
        };
        self.0 = snapshot.locks.locks.iter().filter_map(lease).collect();
    }

    /// The lease of a lock; `None` without an expiry.
    pub(crate) fn of(&self, lock: &Holder) -> Option<&Lease> {
        self.0.get(&lock.id())
    }

    /// Whether any lease is running.
    pub(crate) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// The reference time of a lease: renewals are unknown while Redis is unreachable.
    pub(crate) fn at(snapshot: &Snapshot, now: Millis) -> Millis {
        snapshot.redis.last_ok.filter(|_| is_stale(&snapshot.redis, now)).unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seckill_engine::telemetry::snapshot::{Health, Holders, Kind};

    const START: Millis = Millis(1_000_000);

    fn seen(leases: &mut Leases, at: Millis, left_ms: u64, held_ms: i64) -> (Holder, Lease) {
        let lock = Holder {
            name: "x".to_owned(),
            kind: Kind::Reentrant,
            owner: "a/t#1".to_owned(),
            node: "a".to_owned(),
            task: "t".to_owned(),
            depth: 1,
            left_ms: Some(left_ms),
            since: Some(at.plus(-held_ms)),
            token: None,
            waiting: 0,
            orphan: false,
            known: true,
        };
        let snapshot = Snapshot {
            redis: Health { up: true, last_ok: Some(at), ..Health::default() },
            locks: Holders { total: 1, locks: vec![lock.clone()], foreign: Vec::new() },
            ..Snapshot::default()
        };
        leases.look(&snapshot);
        let lease = *leases.of(&lock).unwrap();
        (lock, lease)
    }

    #[test]
    fn a_lease_runs_down_between_snapshots_and_is_full_when_renewed() {
        let mut leases = Leases::default();
        let (_, lease) = seen(&mut leases, START, 24_000, 600_000);
        assert!((lease.share(START) - 0.8).abs() < 1e-9 && !lease.renewed);
        assert!((lease.share(START.plus(4_500)) - 0.65).abs() < 1e-9);
        let (_, lease) = seen(&mut leases, START.plus(1_000), 23_020, 601_000);
        assert!(!lease.renewed && lease.left_ms(START.plus(1_020)) == 23_000);
        let (_, lease) = seen(&mut leases, START.plus(5_000), 29_800, 605_000);
        assert!(lease.renewed && (lease.share(START.plus(5_000)) - 1.0).abs() < 1e-9);
        assert!(!lease.runs_out(START.plus(15_500)) && lease.runs_out(START.plus(20_500)));
        assert_eq!(lease.left_ms(START.plus(99_000)), 0);
    }

    #[test]
    fn a_lease_without_renewal_has_its_full_length() {
        let (_, lease) = seen(&mut Leases::default(), START, 4_000, 1_000);
        assert!((lease.share(START) - 0.8).abs() < 1e-9);
        let (_, long) = seen(&mut Leases::default(), START, 90_000, 1_000);
        assert!((long.share(START) - 1.0).abs() < 1e-9, "longer than most, for all that is known");
    }
}
