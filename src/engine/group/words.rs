//! Commands on the group as the audit log describes them.

use super::{ClaimPlan, Rewind, claim};
use crate::event::{ClaimPart, RewindPart, Subject};

/// Subject of a rewind.
pub(crate) fn rewind(plan: &[Rewind]) -> Subject {
    let one = |it: &Rewind| {
        let Rewind { partition, from, again, last_delivered: was, .. } = *it;
        RewindPart { partition, was, from, again }
    };
    Subject::Rewind(plan.iter().map(one).collect())
}

/// Subject of a transfer.
pub(crate) fn claim(plan: &ClaimPlan) -> Subject {
    let one = |it: &claim::ClaimPart| ClaimPart {
        partition: it.partition,
        from: it.from.clone(),
        to: it.to.clone(),
        count: it.count,
    };
    Subject::Claim(plan.parts.iter().map(one).collect(), plan.force)
}
