//! What is bought: buyers, stock, repeated requests, concurrency, instances, think time and incidents, all from a seed.

use std::{collections::BTreeSet, time::Duration};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::SliceRandom as _};
use seckill_model::{Label, Reason, reason, text};
use serde::{Deserialize, Serialize};
use strum::{EnumIter, EnumString, IntoEnumIterator as _, IntoStaticStr, VariantNames};

use crate::{LabError, Question, Result};

/// Most buyers: each request leaves a trace of its steps in memory.
const MAX_BUYERS: u32 = 10_000;
/// Most concurrent requests: each has a connection.
const MAX_CONCURRENCY: u32 = 512;
/// Most instances: each is a process.
const MAX_INSTANCES: u32 = 16;
/// Longest think time.
const MAX_THINK_MS: u32 = 1_000;
/// Longest duration of a run.
const LONGEST: Duration = Duration::from_mins(2);

/// The voucher on sale; the tutorials use this number.
pub(crate) const VOUCHER: i64 = 7;

/// The work that every design gets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Users who buy.
    pub buyers: u32,
    /// Pieces to sell.
    pub stock: u32,
    /// Share of users whose request is sent twice, as by a double click.
    pub repeat: f64,
    /// Requests at the same time, over all instances; each has a connection.
    pub concurrency: u32,
    /// Processes that serve requests in turn.
    pub instances: u32,
    /// Mean pause between a check and the write that depends on it, in milliseconds. It widens races. Besides, a design
    /// sleeps only while it waits for a lock in Redis, and when its holder stalls.
    pub think_ms: u32,
    /// What happens while locks are held and orders are handed over to SQL.
    pub incidents: BTreeSet<Incident>,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            buyers: 2_000,
            stock: 200,
            repeat: 0.5,
            concurrency: 40,
            instances: 2,
            think_ms: 5,
            incidents: Incident::iter().collect(),
        }
    }
}

/// What happens to a shop while it sells.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    EnumIter,
    EnumString,
    IntoStaticStr,
    VariantNames,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Incident {
    /// The holder of a lock takes longer than the lease; its process runs on.
    HolderStalls,
    /// The process of the holder is stopped for longer than the lease, as by a garbage collection or a suspended
    /// machine.
    HolderPauses,
    /// The process of the holder is killed.
    HolderDies,
    /// A replica of Redis is promoted that has not received the lock.
    Failover,
    /// The consumer is killed while it has an entry, and started again.
    ConsumerDies,
    /// The consumer starts after the first orders.
    NoSubscriber,
    /// Each instance is killed after its last reply, and started again.
    Restart,
    /// An entry that is not an order gets into the queue.
    Poison,
}

impl Incident {
    /// The names on the command line.
    pub const NAMES: &[&str] = <Self as VariantNames>::VARIANTS;

    /// What happens.
    pub fn title(self) -> Label {
        match self {
            Self::HolderStalls => Label("lab-incident-holder-stalls"),
            Self::HolderPauses => Label("lab-incident-holder-pauses"),
            Self::HolderDies => Label("lab-incident-holder-dies"),
            Self::Failover => Label("lab-incident-failover"),
            Self::ConsumerDies => Label("lab-incident-consumer-dies"),
            Self::NoSubscriber => Label("lab-incident-no-subscriber"),
            Self::Restart => Label("lab-incident-restart"),
            Self::Poison => Label("lab-incident-poison"),
        }
    }

    /// The question whose designs it happens to.
    pub fn question(self) -> Question {
        match self {
            Self::HolderStalls | Self::HolderPauses | Self::HolderDies | Self::Failover => {
                Question::Locks
            }
            Self::ConsumerDies | Self::NoSubscriber | Self::Restart | Self::Poison => {
                Question::HandOver
            }
        }
    }
}

/// One request of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Position in the order of arrival, from 0. Identifies the lane.
    pub(crate) number: u32,
    pub(crate) user: i64,
}

impl Work {
    /// A sentence that lists these incidents, in the current language.
    pub fn incidents_text<'a>(incidents: impl IntoIterator<Item = &'a Incident>) -> String {
        let titles: Vec<&str> = incidents.into_iter().map(|it| it.title().read()).collect();
        let parts = Label("list-parts");
        let incidents = if titles.is_empty() { text!("common-none") } else { titles.join(&parts) };
        text!("lab-incidents", incidents)
    }

    /// Rejects work that cannot be done.
    pub fn check(&self) -> Result<()> {
        let fail = |why: Reason| Err(LabError::Invalid(why));
        for (name, value, most) in [
            ("buyers", self.buyers, MAX_BUYERS),
            ("stock", self.stock, MAX_BUYERS),
            ("concurrency", self.concurrency, MAX_CONCURRENCY),
            ("instances", self.instances, MAX_INSTANCES),
        ] {
            if !(1..=most).contains(&value) {
                return fail(reason!("lab-work-range", name, from = 1_u32, to = most, value));
            }
        }
        if self.think_ms > MAX_THINK_MS {
            let (from, to, value) = (0_u32, MAX_THINK_MS, self.think_ms);
            return fail(reason!("lab-work-range", name = "think", from, to, value));
        }
        if !(0.0..=1.0).contains(&self.repeat) {
            return fail(reason!("lab-work-repeat", value = self.repeat));
        }
        if self.instances > self.concurrency {
            let (instances, connections) = (self.instances, self.concurrency);
            return fail(reason!("lab-work-connections", instances, connections));
        }
        let longest = self.longest();
        if longest > LONGEST {
            let (seconds, most) = (longest.as_secs(), LONGEST.as_secs());
            return fail(reason!("lab-work-too-long", seconds, most));
        }
        Ok(())
    }

    /// Think time of all requests one after the other: the duration under a lock.
    fn longest(&self) -> Duration {
        Duration::from_millis(u64::from(self.buyers) * 2 * u64::from(self.think_ms))
    }

    /// All requests in the order of arrival: users in random order, with the second request of a double click right
    /// after the first.
    pub(crate) fn requests(&self, seed: u64) -> Vec<Request> {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut users: Vec<i64> = (1..=i64::from(self.buyers)).collect();
        users.shuffle(&mut rng);
        let mut order = Vec::with_capacity(users.len() * 2);
        for user in users {
            order.push(user);
            if rng.random_bool(self.repeat) {
                order.push(user);
            }
        }
        (0..).zip(order).map(|(number, user)| Request { number, user }).collect()
    }

    /// The requests that a load balancer sends to an instance, counted from 0: two in turn, so that both requests of a
    /// user meet in one process or in two. Those of the holders have a process of their own.
    pub(crate) fn requests_of(&self, instance: u32, seed: u64) -> Vec<Request> {
        let holders = self.holders(seed);
        let all = self.requests(seed).into_iter().filter(|it| !holders.contains(it));
        all.filter(|it| it.number / 2 % self.instances == instance).collect()
    }

    /// Connections of an instance, counted from 0.
    pub(crate) fn connections_of(&self, instance: u32) -> u32 {
        let rest = u32::from(instance < self.concurrency % self.instances);
        self.concurrency / self.instances + rest
    }

    /// Random numbers of one request: the same for each design.
    pub(crate) fn rng(seed: u64, request: u32) -> StdRng {
        StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(request.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_work_is_rejected() {
        assert!(Work::default().check().is_ok());
        for (wrong, message) in [
            (Work { stock: 0, ..Work::default() }, "stock must be between 1 and 10,000, not 0"),
            (
                Work { instances: 3, concurrency: 2, ..Work::default() },
                "3 instances need a connection each",
            ),
            (Work { repeat: 1.5, ..Work::default() }, "repeat must be between 0 and 1, not 1.5"),
            (Work { buyers: 10_000, think_ms: 1_000, ..Work::default() }, "at most 120 s"),
        ] {
            let error = wrong.check().unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn requests_follow_from_the_seed_and_are_shared_out() {
        let incidents = BTreeSet::new();
        let work = Work { instances: 3, concurrency: 7, incidents, ..Work::default() };
        let all = work.requests(7);
        assert_eq!(all, work.requests(7));
        assert_ne!(all, work.requests(8));
        assert!((2_900..3_100).contains(&all.len()), "{}", all.len());
        let shares: usize = (0..3).map(|it| work.requests_of(it, 7).len()).sum();
        assert_eq!(shares, all.len());
        assert_eq!([0, 1, 2].map(|it| work.connections_of(it)), [3, 2, 2]);
    }
}
