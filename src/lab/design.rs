//! What a design declares about itself: its source, the promises it breaks, and what mends it.

use futures::future::BoxFuture;
use seckill_model::Label;
use serde::{Deserialize, Serialize};
use strum::{EnumIter, IntoEnumIterator as _, IntoStaticStr};

use crate::{
    Result,
    consumer::Consumer,
    lane::{Lane, Reply},
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
    /// The design that mends it, if it breaks a promise.
    pub mended_by: Option<&'static str>,
    /// Why it breaks or keeps its promises, in two sentences.
    pub why: Label,
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
    /// How to take an order to SQL without letting its buyer wait.
    HandOver,
}

impl Question {
    /// Its title.
    pub fn title(self) -> Label {
        match self {
            Self::Overselling => Label("lab-question-overselling"),
            Self::OneOrder => Label("lab-question-one-order"),
            Self::HandOver => Label("lab-question-hand-over"),
        }
    }

    /// Whether its designs are judged by a promise: to limit the orders of a user is a later question.
    pub fn asks_for(self, promise: Promise) -> bool {
        promise != Promise::OneOrder || self != Self::Overselling
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

    /// Loses orders in this incident.
    pub(crate) const fn loses(incident: Incident) -> Self {
        Self { promise: Promise::NoLoss, when: When::During(incident) }
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
            Self::During(incident) => work.incidents.contains(incident),
        }
    }
}
