//! What a design declares about itself: its source, the promises it breaks, and what fixes it.

use std::collections::BTreeSet;

use futures::future::BoxFuture;
use seckill_model::Label;
use serde::{Deserialize, Serialize};
use strum::{EnumIter, IntoEnumIterator as _, IntoStaticStr};

use crate::{
    Database, Result,
    consumer::Consumer,
    lane::Lane,
    parent::Reply,
    work::{Incident, Work},
};

/// Serves one purchase.
pub(crate) type Serve = for<'l, 'a> fn(&'l mut Lane<'a>) -> BoxFuture<'l, Result<Reply>>;

/// A way to sell: one step of the tutorials.
#[derive(Clone, Copy, Debug)]
pub struct Design {
    /// Name on the command line.
    pub name: &'static str,
    /// The question that it answers.
    pub question: Question,
    /// Where the tutorials describe it.
    pub source: Source,
    /// The promises that it breaks; it keeps the others.
    pub faults: &'static [Fault],
    /// The design that fixes it, if it breaks a promise.
    pub mended_by: Option<&'static str>,
    /// Why it breaks or keeps its promises, in two sentences.
    pub why: Label,
    /// Databases that lack what it uses.
    pub not_on: &'static [Database],
    /// Statements that change the tables of the tutorials for it.
    pub(crate) schema: &'static [&'static str],
    pub(crate) serve: Serve,
    /// What takes the orders to SQL, if a request does not.
    pub(crate) consumer: Option<Consumer>,
}

impl Design {
    /// The promises that it breaks with this work.
    pub fn breaks(&self, work: &Work) -> impl Iterator<Item = Promise> + use<> {
        let mut broken: Vec<Promise> = Vec::new();
        for fault in self.faults.iter().filter(|fault| fault.when.applies(work)) {
            // Several conditions may break the same promise.
            if !broken.contains(&fault.promise) {
                broken.push(fault.promise);
            }
        }
        broken.into_iter()
    }

    /// Its name with what happens to the holders of its locks.
    pub fn label(&self, incident: Option<Incident>) -> String {
        match incident {
            Some(incident) => format!("{} ({})", self.name, incident.title()),
            None => self.name.to_owned(),
        }
    }

    /// Whether it keeps a promise with this work, whatever happens.
    pub fn keeps(&self, promise: Promise, work: &Work) -> bool {
        !self.breaks(work).any(|broken| broken == promise)
    }
}

/// The problem that a group of designs solves.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Question {
    /// How to sell no more than the stock.
    Overselling,
    /// How to give each user one order.
    OneOrder,
    /// How to give each user one order with a lock that all instances share.
    Locks,
    /// How to take an order to SQL without letting its buyer wait.
    HandOver,
}

impl Question {
    /// Its title.
    pub fn title(self) -> Label {
        match self {
            Self::Overselling => Label("lab-question-overselling"),
            Self::OneOrder => Label("lab-question-one-order"),
            Self::Locks => Label("lab-question-locks"),
            Self::HandOver => Label("lab-question-hand-over"),
        }
    }

    /// Whether its designs are judged by a promise: to limit the orders of a user is a later question.
    pub fn asks_for(self, promise: Promise) -> bool {
        match promise {
            Promise::OneOrder => self != Self::Overselling,
            Promise::FreedAfterDeath | Promise::OwnLock => self == Self::Locks,
            Promise::NoOverselling | Promise::NoLoss | Promise::SellsOut => true,
        }
    }

    /// The work of its designs, one after the other, each with the incidents that happen in it. Those to the holders of
    /// locks happen one at a time, because each would hide the others, and only after a run without any.
    pub fn works(self, work: &Work) -> Vec<Work> {
        let mine = work.incidents.iter().copied().filter(|it| it.question() == self);
        let with = |incidents| Work { incidents, ..work.clone() };
        match self {
            Self::Locks => {
                let one = mine.map(|it| with(BTreeSet::from([it])).with_few_requests());
                std::iter::once(with(BTreeSet::new())).chain(one).collect()
            }
            Self::Overselling | Self::OneOrder | Self::HandOver => vec![with(mine.collect())],
        }
    }

    /// How many independent Redis servers its designs get.
    pub(crate) fn servers(self) -> usize {
        if self == Self::Locks { 3 } else { 1 }
    }
}

/// A place in the tutorials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Number of the text.
    pub text: &'static str,
    /// Number of the section.
    pub section: &'static str,
}

/// What a sale promises.
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
    IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Promise {
    /// There are no more orders than stock.
    NoOverselling,
    /// Each user has at most one order.
    OneOrder,
    /// Each order in a reply exists in SQL.
    NoLoss,
    /// No user is turned away while there is stock.
    SellsOut,
    /// A lock becomes free when its holder has died.
    FreedAfterDeath,
    /// No request deletes the lock of another one.
    OwnLock,
}

impl Promise {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::iter()
    }

    /// What it says.
    pub fn title(self) -> Label {
        match self {
            Self::NoOverselling => Label("lab-promise-no-overselling"),
            Self::OneOrder => Label("lab-promise-one-order"),
            Self::NoLoss => Label("lab-promise-no-loss"),
            Self::SellsOut => Label("lab-promise-sells-out"),
            Self::FreedAfterDeath => Label("lab-promise-freed-after-death"),
            Self::OwnLock => Label("lab-promise-own-lock"),
        }
    }
}

/// A promise that a design breaks, and the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The promise.
    pub promise: Promise,
    /// The condition.
    pub when: When,
}

impl Fault {
    /// Breaks it when requests overlap.
    pub(crate) const fn always(promise: Promise) -> Self {
        Self { promise, when: When::RequestsOverlap }
    }

    /// Breaks it when there is more than one instance.
    pub(crate) const fn of_several_instances(promise: Promise) -> Self {
        Self { promise, when: When::SeveralInstances }
    }

    /// Breaks it in this incident.
    pub(crate) const fn during(incident: Incident, promise: Promise) -> Self {
        Self { promise, when: When::During(incident) }
    }

    /// Loses orders in this incident.
    pub(crate) const fn loses(incident: Incident) -> Self {
        Self::during(incident, Promise::NoLoss)
    }
}

/// When a design breaks a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// Two requests run at the same time.
    RequestsOverlap,
    /// Two instances serve requests.
    SeveralInstances,
    /// This incident happens.
    During(Incident),
}

impl When {
    fn applies(self, work: &Work) -> bool {
        match self {
            Self::RequestsOverlap => true,
            Self::SeveralInstances => work.instances > 1,
            Self::During(incident) => work.incidents.contains(&incident),
        }
    }
}
