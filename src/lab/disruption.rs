//! What goes wrong while a lock is held, and which requests it happens to.

use std::time::Duration;

use parking_lot::Mutex;
use seckill_model::Label;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::{
    instance::{self, Report, Served},
    work::{Request, Work},
};

/// Users to whose requests it happens.
const VICTIMS: usize = 4;
/// Most buyers, and most requests at a time: no write waits so long for others that a lease ends meanwhile.
const CROWD: (u32, u32) = (50, 12);
/// A lease that a stall outlasts.
const SHORT_LEASE: Duration = Duration::from_millis(900);
/// A lease that ends soon after its holder has died, and that no live holder outlasts.
const LEASE_OF_THE_DEAD: Duration = Duration::from_millis(1_500);
/// A lease that ends in no run.
const LONG_LEASE: Duration = Duration::from_secs(10);
/// How long a holder stalls. A dead one stalls until it is ended.
const STALL: Duration = Duration::from_millis(1_400);

/// What happens to the holders of locks in a run.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Disruption {
    /// The request takes longer than the lease; its process runs on.
    Stall,
    /// The process is stopped for longer than the lease, as by a garbage collection or a suspended machine.
    Pause,
    /// The process is killed.
    Death,
    /// A replica of Redis is promoted that has not received the lock.
    Failover,
}

impl Disruption {
    /// What happens.
    pub fn title(self) -> Label {
        match self {
            Self::Stall => Label("lab-disruption-stall"),
            Self::Pause => Label("lab-disruption-pause"),
            Self::Death => Label("lab-disruption-death"),
            Self::Failover => Label("lab-disruption-failover"),
        }
    }

    /// What carries it out from outside, as the step of a trace.
    pub(crate) fn command(self) -> Option<&'static str> {
        match self {
            Self::Stall => None,
            Self::Pause => Some("SIGSTOP"),
            Self::Death => Some("SIGKILL"),
            Self::Failover => Some("REPLICAOF NO ONE"),
        }
    }
}

/// Where a request stalls: between a check and what depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// The orders of the user are counted, and none is inserted yet.
    BeforeWrite,
    /// The owner of the lock is checked, and the lock is not deleted yet.
    BeforeRelease,
}

impl Work {
    /// This work with a disruption, for a smaller crowd. There is stock for each request, because a stall outlasts the
    /// sale of a stock that is short.
    pub(crate) fn disrupted(self, disruption: Option<Disruption>) -> Self {
        if disruption.is_none() {
            return Self { disruption, ..self };
        }
        let (buyers, concurrency) = CROWD;
        let buyers = self.buyers.min(buyers);
        let concurrency = self.concurrency.min(concurrency.max(self.instances));
        Self { buyers, stock: self.stock.max(buyers * 2), concurrency, disruption, ..self }
    }

    /// The lease of a lock.
    pub(crate) fn lease(&self) -> Duration {
        match self.disruption {
            Some(Disruption::Stall | Disruption::Pause) => SHORT_LEASE,
            Some(Disruption::Death) => LEASE_OF_THE_DEAD,
            Some(Disruption::Failover) | None => LONG_LEASE,
        }
    }

    /// How long a holder stalls.
    pub(crate) fn stall(&self) -> Duration {
        match self.disruption {
            Some(Disruption::Death) => instance::REQUEST_TIMEOUT,
            _ => STALL,
        }
    }

    /// How long the second request of a victim stalls: it still holds the lock when the first one has continued.
    pub(crate) fn second_stall(&self) -> Duration {
        self.stall().mul_f64(1.5)
    }

    /// The first requests of the first users who send two: a process of their own serves them, before all others. The
    /// second requests of these users are served with the others.
    pub(crate) fn victims(&self, seed: u64) -> Vec<Request> {
        if self.disruption.is_none() {
            return Vec::new();
        }
        let requests = self.requests(seed);
        let twice = requests.windows(2).filter_map(|pair| match pair {
            [first, second] if first.user == second.user => Some(*first),
            _ => None,
        });
        twice.take(VICTIMS).collect()
    }

    /// Where a request stalls, if it does. Half of the victims stall before they write, half before they release. The
    /// second request of a victim stalls too if the first one goes on, so that each sees what the other one does.
    pub(crate) fn stall_of(&self, victims: &[Request], request: Request) -> Option<Point> {
        let position = victims.iter().position(|it| it.user == request.user)?;
        if self.disruption == Some(Disruption::Death) && !victims.contains(&request) {
            return None;
        }
        Some(if position % 2 == 0 { Point::BeforeWrite } else { Point::BeforeRelease })
    }
}

/// The holders of locks in their process. Once each of them stalls or is served, the parent is told.
#[derive(Debug)]
pub(crate) struct Holders {
    all: usize,
    until_now: Mutex<Vec<Served>>,
}

impl Holders {
    pub(crate) fn new(all: usize) -> Self {
        Self { all, until_now: Mutex::default() }
    }

    /// Adds what a request has done until now. Each is added once.
    pub(crate) fn add(&self, served: Served) {
        let mut until_now = self.until_now.lock();
        until_now.push(served);
        if until_now.len() == self.all
            && let Err(error) = instance::report(&Report::Holding(std::mem::take(&mut until_now)))
        {
            // The parent has ended, which ends this process.
            tracing::debug!(%error, "the parent was not told");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn victims_send_two_requests_and_follow_from_the_seed() {
        let work = Work::default().disrupted(Some(Disruption::Stall));
        let victims = work.victims(3);
        assert_eq!(victims.len(), VICTIMS);
        assert_eq!(victims, work.victims(3));
        assert_ne!(victims, work.victims(4));
        let all = work.requests(3);
        let of_victims: Vec<_> =
            all.iter().filter(|it| victims.iter().any(|victim| victim.user == it.user)).collect();
        assert_eq!(of_victims.len(), 2 * VICTIMS);
        let stalls = |work: &Work| {
            of_victims.iter().filter(|it| work.stall_of(&victims, ***it).is_some()).count()
        };
        assert_eq!(stalls(&work), 2 * VICTIMS);
        assert_eq!(stalls(&work.disrupted(Some(Disruption::Death))), VICTIMS);
        assert!(Work::default().victims(3).is_empty());
        // Each request is served by one process.
        let shares = (0..=work.instances).map(|it| work.requests_of(it, 3).len());
        assert_eq!(shares.sum::<usize>(), all.len());
        assert_eq!(work.requests_of(work.instances, 3), victims);
    }
}
