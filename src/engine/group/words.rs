//! Acts on the group as the audit log tells them.

use seckill_model::counted;

use super::{ClaimPlan, ClaimReport, RemoveReport, Rewind, RewindReport, claim};
use crate::told::{ClaimPart, RewindPart, Subject};

/// What a rewind is about.
pub(crate) fn rewind(plan: &[Rewind]) -> Subject {
    let one = |it: &Rewind| {
        let Rewind { partition, from, again, last_delivered: was, .. } = *it;
        RewindPart { partition, was, from, again }
    };
    Subject::Rewind(plan.iter().map(one).collect())
}

/// What a claim is about.
pub(crate) fn claim(plan: &ClaimPlan) -> Subject {
    let one = |it: &claim::ClaimPart| ClaimPart {
        partition: it.partition,
        from: it.from.clone(),
        to: it.to.clone(),
        count: it.count,
    };
    Subject::Claim(plan.parts.iter().map(one).collect(), plan.force)
}

/// What came of a rewind.
pub(crate) fn rewound(report: &RewindReport) -> String {
    let made = report.groups.iter().filter(|group| group.made).count();
    let moved = report.groups.len() - made;
    let moved = counted(moved as u64, "group", "groups");
    let again = counted(report.again, "entry", "entries");
    format!("{moved} moved back, {made} made; {again} again")
}

/// What came of a claim.
pub(crate) fn claimed(report: &ClaimReport) -> String {
    format!(
        "{}{} given, {} not there any more, {} without a body left",
        if report.cut_short { "cut short: " } else { "" },
        report.claimed,
        report.gone,
        report.hollow
    )
}

/// What came of removing a consumer.
pub(crate) fn removed(report: &RemoveReport) -> String {
    let numbers: Vec<String> = report.partitions.iter().map(ToString::to_string).collect();
    format!("removed from partition {}", numbers.join(", "))
}
