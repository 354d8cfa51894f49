//! Whose lock a release deleted: the holder is the request whose acquisition was the last one before it.

use std::collections::BTreeMap;

use crate::{Step, instance::Served, trace::Action};

/// A release that deleted the lock of another request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deletion<'a> {
    pub(crate) release: &'a Step,
    /// The lane whose lock it was.
    pub(crate) owner: u32,
}

/// All releases that deleted the lock of another request. Each user has one lock; only those count whose order is
/// certain: the acquisition had ended before the release began.
pub(crate) fn deletions(served: &[Served]) -> Vec<Deletion<'_>> {
    let mut of_user: BTreeMap<i64, Vec<&Step>> = BTreeMap::new();
    let has_released = |it: &Step| it.action == Action::Release && it.seen() == Some(1);
    let steps = served.iter().flat_map(|it| &it.steps);
    for step in steps.filter(|it| it.took_lock() || has_released(it)) {
        of_user.entry(step.user).or_default().push(step);
    }
    let mut deletions = Vec::new();
    for steps in of_user.values() {
        let (acquired, released): (Vec<&Step>, Vec<&Step>) =
            steps.iter().partition(|it| it.action == Action::Acquire);
        for release in released {
            let holder = acquired
                .iter()
                .filter(|it| it.precedes(release))
                .max_by_key(|it| it.ended)
                .filter(|it| it.lane != release.lane);
            deletions.extend(holder.map(|it| Deletion { release, owner: it.lane }));
        }
    }
    deletions
}
