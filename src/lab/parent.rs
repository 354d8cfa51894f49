//! What an instance and its parent say to each other, in lines: the parent writes an [`Assignment`] and [`GO`], the instance
//! [`Report`]s, each after a [`MARK`].

use std::{
    io::{self, Write as _},
    time::Duration,
};

use seckill_model::Reason;
use serde::{Deserialize, Serialize};

use crate::{
    LabError, Result,
    trace::{Instant, Step},
    work::Work,
};

/// The line that starts the requests.
pub(crate) const GO: &str = "go";
/// Marks the lines for the parent: a test harness writes lines of its own.
pub(crate) const MARK: &str = "seckill-lab ";
/// Timeout of one request.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// What an instance does.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Assignment {
    pub(crate) design: String,
    pub(crate) work: Work,
    pub(crate) seed: u64,
    /// From 0.
    pub(crate) instance: u32,
    pub(crate) database: String,
    pub(crate) redis: String,
    /// Independent Redis servers, for locks over several of them.
    pub(crate) more_redis: Vec<String>,
    pub(crate) role: Role,
}

/// The part that a process has in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// Serves its share of the requests. It reports [`Report::Selling`] once it has sold this many pieces; the first
    /// instance puts the poison entry into the queue then.
    Serve(Option<u32>),
    /// Serves the requests of the holders of locks. It reports [`Report::Holding`] once each of them stalls or is served.
    Hold,
    /// Is there again after a restart. All requests were served before.
    Resume,
    /// Consumes; it waits to be killed in the pause at this position.
    Consume(Option<u32>),
}

/// What an instance reports.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// It is connected, and waits for `go`.
    Ready,
    /// As a consumer, it listens.
    Listening,
    /// It has sold as many pieces as [`Role::Serve`] says.
    Selling,
    /// A step of a consumer.
    Step(Step),
    /// As a consumer, it waits to be killed.
    Stalled,
    /// The holders stall or are served: what each has done so far.
    Holding(Vec<Served>),
    /// It has served its requests.
    Done(Vec<Served>),
    /// It cannot work.
    Failed(Reason),
}

/// One served request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Served {
    pub(crate) user: i64,
    pub(crate) reply: Reply,
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
    pub(crate) steps: Vec<Step>,
}

impl Served {
    /// Its position in the order of arrival, if it did anything.
    pub(crate) fn lane(&self) -> Option<u32> {
        self.steps.first().map(|it| it.lane)
    }
}

/// The reply to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// Its order.
    Bought(i64),
    SoldOut,
    /// The user has an order already.
    Duplicate,
    /// The lock of the user was not free in time, or was lost.
    Locked,
    /// The request failed.
    Failed(Reason),
}

/// Writes a report to the parent.
pub(crate) fn report(report: &Report) -> Result<()> {
    let line = serde_json::to_string(report).map_err(|error| LabError::pipe(0, error))?;
    let mut out = io::stdout().lock();
    let written = writeln!(out, "\n{MARK}{line}").and_then(|()| out.flush());
    written.map_err(|error| LabError::pipe(0, error))
}
