//! Whose lock a release deleted: the holder is the request whose acquisition was the last one before it.

use std::collections::BTreeMap;

use crate::{Step, parent::Served, trace::Action};

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
    let steps = served.iter().flat_map(|it| &it.steps);
    for step in steps.filter(|it| it.took_lock() || it.released_lock()) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parent::Reply, trace::Instant};

    fn step(lane: u32, begun: i64, action: Action, saw: &[i64]) -> Step {
        let (begun, ended, saw) = (Instant(begun), Instant(begun + 1), saw.to_vec().into());
        let what = "lock".into();
        Step { lane, user: 1, instance: 1, action, what, values: Vec::new(), saw, begun, ended }
    }

    /// The lanes whose locks a release of lane 1 deletes. Its lease ends, and lane 2 acquires the lock.
    fn owners(replies: &[i64]) -> Vec<u32> {
        let taken = vec![1; replies.len()];
        let first =
            vec![step(1, 0, Action::Acquire, &taken), step(1, 20, Action::Release, replies)];
        let second =
            vec![step(2, 10, Action::Acquire, &taken), step(2, 30, Action::Release, &taken)];
        let served = [first, second].map(|steps| {
            let (begun, ended) = (steps[0].begun, steps[1].ended);
            Served { user: 1, reply: Reply::Bought(1), begun, ended, steps }
        });
        deletions(&served).iter().map(|it| it.owner).collect()
    }

    #[test]
    fn a_release_that_succeeds_after_another_acquisition_deletes_a_foreign_lock() {
        assert_eq!(owners(&[1]), [2]);
        assert!(owners(&[0]).is_empty(), "it did not hold the lock");
        assert_eq!(owners(&[0, 1, 0]), [2], "on one of the servers");
    }
}
