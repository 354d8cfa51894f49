//! Where the holders of locks stall in an incident, for how long, and what they report meanwhile.

use std::time::Duration;

use parking_lot::Mutex;

use crate::{
    Incident, Question,
    parent::{REQUEST_TIMEOUT, Report, Served, report},
    work::{Request, Work},
};

/// How many holders there are.
const HOLDERS: usize = 4;
/// Most buyers, and most requests at a time: no write waits so long for others that a lease ends meanwhile.
pub(crate) const MOST_WITH_INCIDENT: (u32, u32) = (50, 12);
/// A lease that ends in no run.
const LONG_LEASE: Duration = Duration::from_secs(10);

/// Where a request stalls: between a check and what depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// The orders of the user are counted, and none is inserted yet.
    BeforeWrite,
    /// The owner of the lock is checked, and the lock is not deleted yet.
    BeforeRelease,
}

/// Times of an incident.
pub(crate) struct Timing {
    lease: Duration,
    /// How long a holder stalls that keeps its lock; one that has lost it goes on once another request has it.
    pub(crate) stall: Duration,
    /// How long the second request of its user stalls, and until the first one has ended.
    second: Duration,
}

impl Timing {
    pub(crate) fn of(incident: Option<Incident>) -> Self {
        let millis = Duration::from_millis;
        match incident {
            // The stall outlasts the lease.
            Some(Incident::HolderStalls | Incident::HolderPauses) => {
                Self { lease: millis(900), stall: millis(1_400), second: millis(1_000) }
            }
            // The lease outlasts each request, except those that stall until their process is killed.
            Some(Incident::HolderDies) => {
                let lease = millis(1_500);
                Self { lease, stall: REQUEST_TIMEOUT, second: Duration::ZERO }
            }
            // The second request gets the lock from the new server.
            _ => Self { lease: LONG_LEASE, stall: millis(1_400), second: millis(1_800) },
        }
    }
}

impl Work {
    /// The same for fewer requests, and with stock for each: a stall outlasts the sale of a stock that is short.
    pub(crate) fn with_few_requests(self) -> Self {
        let (buyers, concurrency) = MOST_WITH_INCIDENT;
        let buyers = self.buyers.min(buyers);
        let concurrency = self.concurrency.min(concurrency.max(self.instances));
        Self { buyers, stock: self.stock.max(buyers * 2), concurrency, ..self }
    }

    /// What happens to the holders of locks.
    pub(crate) fn holder_incident(&self) -> Option<Incident> {
        self.incidents.iter().copied().find(|it| it.question() == Question::Locks)
    }

    /// The lease of a lock.
    pub(crate) fn lease(&self) -> Duration {
        Timing::of(self.holder_incident()).lease
    }

    /// How long this request stalls.
    pub(crate) fn stall(&self, holders: &[Request], request: Request) -> Duration {
        let timing = Timing::of(self.holder_incident());
        if holders.contains(&request) { timing.stall } else { timing.second }
    }

    /// The first requests of the first users who send two. The second requests of these users are served with all others.
    pub(crate) fn holders(&self, seed: u64) -> Vec<Request> {
        if self.holder_incident().is_none() {
            return Vec::new();
        }
        let requests = self.requests(seed);
        let twice = requests.windows(2).filter_map(|pair| match pair {
            [first, second] if first.user == second.user => Some(*first),
            _ => None,
        });
        twice.take(HOLDERS).collect()
    }

    /// Where a request stalls, if it does. Half of the holders stall before they write, half before they release. The
    /// second request of their user stalls too if the first one continues, so that each sees what the other one does.
    pub(crate) fn stall_of(&self, holders: &[Request], request: Request) -> Option<Point> {
        let position = holders.iter().position(|it| it.user == request.user)?;
        if self.stall(holders, request).is_zero() {
            return None;
        }
        Some(if position % 2 == 0 { Point::BeforeWrite } else { Point::BeforeRelease })
    }
}

/// What the holders have done so far, in their process. It is reported once each of them stalls or is served.
#[derive(Debug)]
pub(crate) struct HolderReport {
    all: usize,
    served: Mutex<Vec<Served>>,
}

impl HolderReport {
    pub(crate) fn new(all: usize) -> Self {
        Self { all, served: Mutex::default() }
    }

    /// Adds what a request has done so far. Each is added once.
    pub(crate) fn add(&self, so_far: Served) {
        let mut served = self.served.lock();
        served.push(so_far);
        if served.len() == self.all {
            // If the parent has ended, so does this process.
            let _ = report(&Report::Holding(std::mem::take(&mut served)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_send_two_requests_and_follow_from_the_seed() {
        let works = Question::Locks.works(&Work::default());
        let of = |incident| works.iter().find(|it| it.holder_incident() == incident).unwrap();
        let work = of(Some(Incident::HolderStalls));
        let holders = work.holders(3);
        assert_eq!(holders.len(), HOLDERS);
        assert_eq!(holders, work.holders(3));
        assert_ne!(holders, work.holders(4));
        let all = work.requests(3);
        let theirs: Vec<_> =
            all.iter().filter(|it| holders.iter().any(|holder| holder.user == it.user)).collect();
        assert_eq!(theirs.len(), 2 * HOLDERS);
        let stalls = |work: &Work| {
            theirs.iter().filter(|it| work.stall_of(&holders, ***it).is_some()).count()
        };
        assert_eq!(stalls(work), 2 * HOLDERS);
        assert_eq!(stalls(of(Some(Incident::HolderDies))), HOLDERS);
        assert!(of(None).holders(3).is_empty());
        // Each request is served by one process.
        let shares = (0..work.instances).map(|it| work.requests_of(it, 3).len());
        assert_eq!(shares.sum::<usize>() + holders.len(), all.len());
    }
}
