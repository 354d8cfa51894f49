//! Acts on the group as the audit log tells them.

use super::{ClaimPlan, ClaimReport, RemoveReport, Rewind, RewindReport, claim::ClaimPart};

/// What a rewind is about.
pub(crate) fn rewind(plan: &[Rewind]) -> String {
    let one = |it: &Rewind| {
        let was =
            it.last_delivered.map_or("no group".to_owned(), |at| format!("delivered up to {at}"));
        format!("partition {} ({was}) to {}: {} entries again", it.partition, it.from, it.again)
    };
    plan.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// What a claim is about.
pub(crate) fn claim(plan: &ClaimPlan) -> String {
    let one = |it: &ClaimPart| {
        format!(
            "{} entries of partition {} from '{}' to '{}'",
            it.count, it.partition, it.from, it.to
        )
    };
    let parts = plan.parts.iter().map(one).collect::<Vec<_>>().join("; ");
    if plan.force { format!("{parts}; by force") } else { parts }
}

/// What came of a rewind.
pub(crate) fn rewound(report: &RewindReport) -> String {
    let made = report.groups.iter().filter(|group| group.made).count();
    let moved = report.groups.len() - made;
    format!("{moved} groups moved back, {made} made; {} entries again", report.again)
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
