//! Words of what came of an act, and whether it went as one would wish.

use seckill_engine::command::{ReplayReport, Reply, RushReport};
use seckill_model::{
    JobOutcome, Payment, SaleState,
    message::{Label, text},
};

use super::{
    acts::NOTHING_UNDER_WAY,
    director,
    figures::{self, counted, thousands},
    letters,
    told::job_said,
};

/// What an act brought about, and whether it went as one would wish.
pub(crate) fn reply(reply: &Reply) -> (String, bool) {
    let well = |text: String| (text, true);
    match reply {
        Reply::VoucherCreated(voucher) => well(text!("replies-voucher-is-created", voucher)),
        Reply::VoucherBought(order) => well(text!("replies-order-is-written", order)),
        Reply::SaleCreated(voucher) => well(text!("replies-is-created-and-in-redis", voucher)),
        Reply::SaleChanged { voucher, state } => {
            let state = match state {
                SaleState::Running => Label("replies-open"),
                SaleState::Paused => Label("replies-paused"),
                SaleState::Ended => Label("replies-ended-for-good"),
                SaleState::Archived => Label("replies-archived"),
            };
            well(text!("replies-is", voucher, state))
        }
        Reply::Restocked { voucher, initial } => {
            let (pieces, initial) = (counted(*initial, "piece", "pieces"), thousands(*initial));
            well(text!("replies-has-in-all", voucher, pieces, initial))
        }
        Reply::RushDone(report) => rush_done(report),
        Reply::RushStopped { voucher, rushes } => director::rush_stopped(*voucher, *rushes),
        Reply::Repaired(done) => {
            let put_back = counted(done.put_back, "buyer", "buyers");
            let enqueued = counted(done.enqueued, "order", "orders");
            let given_back = counted(done.given_back, "piece", "pieces");
            let [buyers, orders, pieces] =
                [done.put_back, done.enqueued, done.given_back].map(thousands);
            well(text!(
                "replies-put-back-enqueued-given-back",
                put_back,
                enqueued,
                given_back,
                buyers,
                orders,
                pieces
            ))
        }
        Reply::Planned(plan) => well(text!("common-entries", count = plan.totals.entries)),
        Reply::Cancelled(true) => well(text!("replies-it-ends-after-the-step-in")),
        Reply::Cancelled(false) => well(NOTHING_UNDER_WAY.to_string()),
        Reply::Replayed(report) => replayed(report),
        Reply::LettersCounted(found) => {
            let count = thousands(found.counts.total());
            let letters = counted(found.counts.total(), "dead letter", "dead letters");
            well(text!("replies-value-2", letters, count))
        }
        // Asked on, not told.
        Reply::Previewed(_) | Reply::Traced(_) => well(String::new()),
        Reply::LettersReplayed(report) => letters::replayed(report),
        Reply::LettersDiscarded(report) => letters::discarded(report),
        Reply::Paid { order, payment } => match payment {
            Payment::Paid => well(text!("replies-order-is-paid", order)),
            Payment::PaidBefore => well(text!("replies-order-was-paid-before", order)),
            Payment::TooLate => {
                (text!("replies-order-was-closed-before-nothing-was", order), false)
            }
            Payment::NotFound => (text!("replies-order-is-not-in-sql", order), false),
        },
        Reply::Rewound(report) => {
            let count = thousands(report.again);
            let again = counted(report.again, "entry is", "entries are");
            well(text!("replies-the-group-was-moved-back-delivered", again, count))
        }
        Reply::Claimed(report) => {
            let count = thousands(report.claimed);
            let given = counted(report.claimed, "entry is", "entries are");
            let mut text = text!("replies-with-another-consumer-now", given, count);
            extras(
                &mut text,
                &[
                    (report.gone, Label("replies-no-longer-there")),
                    (report.hollow, Label("replies-without-a-body")),
                ],
            );
            if report.cut_short {
                text += &text!("replies-cut-short");
            }
            let whole = report.claimed > 0 && report.gone + report.hollow == 0;
            (text, whole && !report.cut_short)
        }
        Reply::ConsumerRemoved(report) => {
            let consumer = &report.consumer;
            well(text!("replies-was-removed", consumer))
        }
        Reply::LockReleased { name, .. } => well(text!("replies-was-taken-from-its-holder", name)),
        Reply::JobRun { job, end } => {
            let (outcome, took) = (super::outcome(end.outcome), figures::span(end.took_ms));
            let mut text = text!("replies-after", job, outcome, took);
            let said = job_said(end.outcome, end.detail.as_ref());
            if !said.is_empty() {
                text += &text!("replies-value-3", said);
            }
            (text, end.outcome == JobOutcome::Done)
        }
        Reply::JobSwitched { job, paused: true } => well(text!("replies-is-paused", job)),
        Reply::JobSwitched { job, paused: false } => well(text!("replies-goes-on", job)),
    }
}

/// Figures that are told only where there is something to tell.
fn extras(text: &mut String, extras: &[(u64, Label)]) {
    for (count, told) in extras.iter().filter(|(count, _)| *count > 0) {
        let count = thousands(*count);
        *text += &text!("replies-value-4", count, told);
    }
}

fn rush_done(report: &RushReport) -> (String, bool) {
    let [asked, admitted, sold_out, twice, written] =
        [report.attempts, report.admitted, report.sold_out, report.duplicate, report.persisted]
            .map(thousands);
    let (rate, p99) = (figures::rate(report.per_second), figures::latency(report.latency_us.p99));
    let mut text = text!(
        "replies-rush-over-asked-admitted-sold-out",
        asked,
        admitted,
        sold_out,
        twice,
        rate,
        p99
    );
    text += &if report.settled {
        let seconds = report.settled_seconds;
        text!("replies-all-settled-after-s-written", seconds = format!("{seconds:.1}"), written)
    } else {
        text!("replies-not-settled-yet-written-so-far", written)
    };
    extras(
        &mut text,
        &[
            (report.rejected, Label("replies-turned-away")),
            (report.errors, Label("replies-without-an-answer")),
            (report.dead, Label("common-dead-letters")),
        ],
    );
    (text, report.settled && report.errors == 0 && report.dead == 0)
}

fn replayed(report: &ReplayReport) -> (String, bool) {
    let [seen, written, acknowledged, dead, left] =
        [report.seen, report.persisted, report.acknowledged, report.dead, report.left]
            .map(thousands);
    let letters = counted(report.dead, "dead letter", "dead letters");
    let overtaken = report.seen > 0 && report.gone + report.changed == report.seen;
    let mut text = if overtaken {
        text!("replies-nothing-was-applied-to-the-in", seen)
    } else {
        text!(
            "replies-plan-applied-to-written-acknowledged",
            seen,
            written,
            acknowledged,
            letters,
            left,
            dead
        )
    };
    extras(
        &mut text,
        &[
            (report.rebuilt, Label("replies-rebuilt")),
            (report.hollow, Label("replies-without-a-body-dropped")),
            (report.lost, Label("replies-without-a-body-left")),
            (report.gone, Label("replies-no-longer-there-2")),
            (report.changed, Label("replies-changed-since-so-left-alone")),
        ],
    );
    if report.cut_short {
        text += &Label("replies-cut-short-2");
    }
    let well = report.dead + report.lost + report.changed == 0 && !overtaken;
    (text, well && !report.cut_short)
}
