//! Replies to commands as text in the current language, and whether they are a success.

use std::fmt;

use seckill_model::{JobOutcome, LetterCounts, Payment, SaleState, message::text};

use super::{
    command::{LettersDiscarded, LettersReplayed, LoadReport, ReplayReport, Reply},
    group::{ClaimReport, RewindReport},
    jobs::{JobResult, outcome_name},
    lists::ITEMS,
};

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
                report.claimed > 0 && report.gone + report.hollow == 0 && !report.cut_short
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
            Self::SaleChanged { voucher, state } => match state {
                SaleState::Running => text!("reply-sale-open", voucher),
                SaleState::Paused => text!("reply-sale-paused", voucher),
                SaleState::Ended => text!("reply-sale-ended", voucher),
                SaleState::Archived => text!("reply-sale-archived", voucher),
            },
            Self::Restocked { voucher, initial } => text!("reply-restocked", voucher, initial),
            Self::LoadTestDone(report) => load_test_done(report),
            Self::LoadTestStopped { voucher, tests: 0 } => text!("reply-no-rush", voucher),
            Self::LoadTestStopped { voucher, .. } => text!("reply-rush-stopped", voucher),
            Self::Repaired(done) => {
                let (buyers, orders, pieces) = (done.put_back, done.enqueued, done.given_back);
                text!("reply-repaired", buyers, orders, pieces)
            }
            Self::Planned(plan) => text!("common-entries", count = plan.totals.entries),
            Self::Cancelled(true) => text!("reply-cancelling"),
            Self::Cancelled(false) => text!("reply-no-command-is-running"),
            Self::Replayed(report) => replayed(report),
            Self::LettersCounted(found) => {
                text!("reply-dead-letters-found", count = found.counts.total())
            }
            // They answer a question and have their own display.
            Self::Previewed(_) | Self::Traced(_) => String::new(),
            Self::LettersReplayed(report) => letters_replayed(report),
            Self::LettersDiscarded(report) => letters_discarded(report),
            Self::Paid { order, payment } => match payment {
                Payment::Paid => text!("reply-paid", order),
                Payment::PaidBefore => text!("reply-paid-before", order),
                Payment::TooLate => text!("reply-closed", order),
                Payment::NotFound => text!("reply-no-order", order),
            },
            Self::Rewound(report) => rewound(report),
            Self::Claimed(report) => claimed(report),
            Self::ConsumerRemoved(report) => {
                let partitions: Vec<_> = report.partitions.iter().map(u16::to_string).collect();
                let (consumer, partitions) = (&report.consumer, partitions.join(&ITEMS));
                text!("reply-consumer-removed", consumer, partitions)
            }
            Self::LockReleased { name, .. } => text!("reply-lock-released", name),
            Self::JobRun { job, end } => {
                let (outcome, took) = (outcome_name(end.outcome), end.took_ms);
                let mut text = text!("reply-job-ran", job, outcome, took);
                if let Some(detail) = &end.detail {
                    text += &text!("reply-job-result", result = detail.localized::<JobResult>());
                }
                text
            }
            Self::JobSwitched { job, paused: true } => text!("reply-job-paused", job),
            Self::JobSwitched { job, paused: false } => text!("reply-job-resumed", job),
        })
    }
}

/// A part of a text, omitted for a count of 0.
fn counted(count: u64, text: impl FnOnce(u64) -> String) -> Option<String> {
    (count > 0).then(|| text(count))
}

fn interrupted(cut_short: bool) -> Option<String> {
    cut_short.then(|| text!("reply-interrupted"))
}

fn load_test_done(report: &LoadReport) -> String {
    let LoadReport { attempts, admitted, sold_out, duplicate, persisted, .. } = report;
    let rate = report.per_second.round() as u64;
    let p99 = format!("{:.1}", report.latency_us.p99 as f64 / 1e3);
    let mut text = text!("reply-rush-done", attempts, admitted, sold_out, duplicate, rate, p99);
    text += &if report.settled {
        let seconds = format!("{:.1}", report.settled_seconds);
        text!("reply-rush-settled", seconds, persisted)
    } else {
        text!("reply-rush-unsettled", persisted)
    };
    text.extend(counted(report.rejected, |count| text!("reply-rejected", count)));
    text.extend(counted(report.errors, |count| text!("reply-errors", count)));
    text.extend(counted(report.dead, |count| text!("reply-dead-letters", count)));
    text.extend(interrupted(report.cut_short));
    text
}

fn replayed(report: &ReplayReport) -> String {
    let ReplayReport { seen, persisted, acknowledged, dead, left, .. } = report;
    let mut text = if report.is_overtaken() {
        text!("reply-nothing-replayed", seen)
    } else {
        text!("reply-replayed", seen, persisted, acknowledged, dead, left)
    };
    text.extend(counted(report.rebuilt, |count| text!("reply-rebuilt", count)));
    text.extend(counted(report.hollow, |count| text!("reply-hollow-dropped", count)));
    text.extend(counted(report.lost, |count| text!("reply-hollow-left", count)));
    text.extend(counted(report.gone, |count| text!("reply-gone", count)));
    text.extend(counted(report.changed, |count| text!("reply-changed", count)));
    text.extend(interrupted(report.cut_short));
    text
}

fn letters_replayed(report: &LettersReplayed) -> String {
    let mut text = text!("reply-dead-letters-replayed", count = report.replayed);
    text += &letters_left(&report.refused, report.gone, report.cut_short);
    text
}

fn letters_discarded(report: &LettersDiscarded) -> String {
    let (orders, pieces) = (report.compensated, report.given_back);
    let mut text = text!("reply-dead-letters-discarded", count = report.discarded);
    if orders + pieces > 0 {
        text += &text!("reply-dead-letters-compensated", orders, pieces);
    }
    text += &letters_left(&report.refused, report.gone, report.cut_short);
    text
}

fn letters_left(refused: &LetterCounts, gone: u64, cut_short: bool) -> String {
    let left = counted(refused.total(), |count| text!("reply-dead-letters-kept", count));
    let gone = counted(gone, |count| text!("reply-gone", count));
    left.into_iter().chain(gone).chain(interrupted(cut_short)).collect()
}

fn rewound(report: &RewindReport) -> String {
    let created = report.groups.iter().filter(|group| group.made).count() as u64;
    let mut text = text!("reply-rewound", again = report.again);
    text.extend(counted(created, |count| text!("reply-groups-created", count)));
    text
}

fn claimed(report: &ClaimReport) -> String {
    let mut text = text!("reply-claimed", count = report.claimed);
    text.extend(counted(report.gone, |count| text!("reply-gone", count)));
    text.extend(counted(report.hollow, |count| text!("reply-hollow", count)));
    text.extend(interrupted(report.cut_short));
    text
}
