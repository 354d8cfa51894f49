//! Replies to commands, and their outcomes as the audit log keeps them, as text in the current language.

use std::fmt;

use seckill_model::{
    JobOutcome, Message, Payment,
    message::{Label, text},
};
use serde::{Deserialize, Serialize};

use crate::{
    EngineError,
    commands::{ReplayReport, Reply, group::ClaimReport},
    lists::ITEMS,
    recovery::dead_letters::{LettersDiscarded, LettersReplayed},
    telemetry::event::Event,
};

/// Outcome of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, derive_more::Display)]
#[serde(rename_all = "snake_case")]
pub enum CommandOutcome {
    /// The command has started; another line has its end.
    #[display("{}", Label("outcome-started"))]
    Started,
    /// What it changed.
    Done(Reply),
    /// The job ran.
    #[display("{}", ran(*outcome, *took_ms, result.as_ref()))]
    Ran {
        /// How it ended.
        outcome: JobOutcome,
        /// How long it took, in milliseconds.
        took_ms: u64,
        /// Its result.
        result: Option<Event>,
    },
    /// Why it failed.
    #[display("{}", failed(_0))]
    Failed(EngineError),
    /// It succeeded, without further details.
    #[display("{}", Label("outcome-done"))]
    Finished,
}

/// A committed change has not failed.
fn failed(error: &EngineError) -> String {
    match error {
        EngineError::NotLoaded { .. } => error.to_string(),
        _ => text!("outcome-failed", error),
    }
}

impl CommandOutcome {
    /// The outcome of a command with this `reply`.
    pub fn of(reply: &Reply) -> Self {
        match reply {
            Reply::JobRun { end, .. } => {
                let result = end.detail.as_ref().and_then(Message::data);
                Self::Ran { outcome: end.outcome, took_ms: end.took_ms, result }
            }
            // The log file lists the changed entries; the audit log has no room for a thousand of them.
            Reply::Replayed(report) => {
                let report = ReplayReport { changes: Vec::new(), ..report.clone() };
                Self::Done(Reply::Replayed(report))
            }
            other => Self::Done(other.clone()),
        }
    }
}

/// How a job run ended.
fn ran(outcome: JobOutcome, took: u64, result: Option<&Event>) -> String {
    let outcome = text!("job-outcome", outcome);
    match result {
        Some(result) => text!("outcome-after-ms", outcome, took, result),
        None => text!("outcome-ran", outcome, took),
    }
}

impl Reply {
    /// Whether the command did all that was asked for.
    pub fn is_success(&self) -> bool {
        match self {
            Self::LoadTestStopped { tests, .. } => *tests > 0,
            Self::LoadTestDone(report) => report.settled && report.errors == 0 && report.dead == 0,
            Self::Replayed(report) => {
                report.dead + report.lost + report.changed == 0
                    && !report.is_overtaken()
                    && !report.cut_short
            }
            Self::LettersReplayed(report) => report.replayed > 0 && !report.cut_short,
            Self::LettersDiscarded(report) => report.discarded > 0 && !report.cut_short,
            Self::Claimed(report) => {
                report.claimed > 0 && report.gone + report.without_body == 0 && !report.cut_short
            }
            Self::Paid { payment, .. } => matches!(payment, Payment::Paid | Payment::PaidBefore),
            Self::JobRun { end, .. } => end.outcome == JobOutcome::Done,
            _ => true,
        }
    }
}

impl ReplayReport {
    /// Every entry was gone or changed when its turn came.
    fn is_overtaken(&self) -> bool {
        self.seen > 0 && self.gone + self.changed == self.seen
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self {
            Self::VoucherCreated(voucher) => text!("reply-voucher-created", voucher),
            Self::VoucherBought(order) => text!("reply-voucher-bought", order),
            Self::SaleCreated(voucher) => text!("reply-sale-created", voucher),
            Self::SaleChanged { voucher, state } => {
                text!("reply-sale-changed", voucher, state = <&str>::from(state))
            }
            Self::Restocked { voucher, initial } => text!("reply-restocked", voucher, initial),
            Self::LoadTestDone(report) => text!(
                "reply-rush-done",
                attempts = report.attempts,
                admitted = report.admitted,
                sold_out = report.sold_out,
                duplicate = report.duplicate,
                rate = report.per_second.round() as u64,
                p99 = format!("{:.1}", report.latency_us.p99 as f64 / 1e3),
                settled = report.settled,
                seconds = format!("{:.1}", report.settled_seconds),
                persisted = report.persisted,
                rejected = report.rejected,
                errors = report.errors,
                dead = report.dead,
                interrupted = report.cut_short
            ),
            Self::LoadTestStopped { voucher, tests } => {
                text!("reply-rush-stopped", voucher, tests)
            }
            Self::Repaired(done) => {
                let (buyers, orders, pieces) = (done.put_back, done.enqueued, done.given_back);
                text!("reply-repaired", buyers, orders, pieces, stocks = done.derived)
            }
            Self::Planned(plan) => text!("common-entries", count = plan.totals.entries),
            Self::Cancelled(running) => text!("reply-cancelling", running),
            Self::Replayed(report) => text!(
                "reply-replayed",
                overtaken = report.is_overtaken(),
                seen = report.seen,
                persisted = report.persisted,
                acknowledged = report.acknowledged,
                dead = report.dead,
                left = report.left,
                rebuilt = report.rebuilt,
                without_body = report.without_body,
                lost = report.lost,
                gone = report.gone,
                changed = report.changed,
                interrupted = report.cut_short
            ),
            Self::LettersCounted(found) => {
                text!("subject-letters", count = found.counts.total())
            }
            // They answer a question and have their own display.
            Self::Previewed(_) | Self::Traced(_) => String::new(),
            Self::LettersReplayed(report) => {
                let LettersReplayed { replayed: count, gone, cut_short: interrupted, .. } = report;
                let kept = report.refused.total();
                text!("reply-dead-letters-replayed", count, kept, gone, interrupted)
            }
            Self::LettersDiscarded(report) => {
                let LettersDiscarded { discarded: count, gone, cut_short: interrupted, .. } =
                    report;
                let (orders, pieces, kept) =
                    (report.compensated, report.given_back, report.refused.total());
                text!(
                    "reply-dead-letters-discarded",
                    count,
                    compensated = orders + pieces,
                    orders,
                    pieces,
                    kept,
                    gone,
                    interrupted
                )
            }
            Self::Paid { order, payment } => {
                text!("reply-paid", order, payment = <&str>::from(payment))
            }
            Self::Rewound(report) => {
                let created = report.groups.iter().filter(|group| group.made).count();
                text!("reply-rewound", again = report.again, created)
            }
            Self::Claimed(report) => {
                let ClaimReport { claimed, gone, without_body, cut_short: interrupted } = report;
                text!("reply-claimed", claimed, gone, without_body, interrupted)
            }
            Self::ConsumerRemoved(report) => {
                let partitions: Vec<_> = report.partitions.iter().map(u16::to_string).collect();
                let (consumer, partitions) = (&report.consumer, partitions.join(&ITEMS));
                text!("reply-consumer-removed", consumer, partitions)
            }
            Self::LockReleased { name, .. } => text!("reply-lock-released", name),
            Self::JobRun { job, end } => {
                let outcome = text!("job-outcome", outcome = end.outcome);
                let took = end.took_ms;
                let mut text = text!("reply-job-ran", job, outcome, took);
                if let Some(detail) = &end.detail {
                    text += &text!("reply-job-result", result = detail.localized::<Event>());
                }
                text
            }
            Self::JobSwitched { job, paused, changed, skipped } => {
                let (changed, skipped) = (*changed, skipped.is_some());
                text!("reply-job-switched", job, paused, changed, skipped)
            }
        })
    }
}
