//! Histograms of all pending entries by age and deliveries, not only of one page.
//!
//! It does no I/O.

use seckill_model::{EntryId, Millis};

/// Pending entries by age and by deliveries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// When they were counted, by the clock of Redis.
    pub taken: Millis,
    /// Number of entries counted: all, or the oldest.
    pub counted: u64,
    /// Whether all entries were counted.
    pub whole: bool,
    /// Younger than each of [`Census::AGES_MS`], and the rest.
    pub ages: [u64; 5],
    /// Delivered once, two to four times, more often.
    pub tries: [u64; 3],
}

impl Census {
    /// Bounds of the age classes, in milliseconds.
    pub const AGES_MS: [u64; 4] = [1_000, 10_000, 60_000, 600_000];

    /// Counts the entries read of each partition, sorted by ID, with their deliveries and whether the list is complete.
    /// If it is not, only entries older than every unread one are counted.
    pub(super) fn of(taken: Millis, parts: &[(Vec<(EntryId, u64)>, bool)]) -> Self {
        let cut = parts.iter().filter(|(_, all)| !all);
        let until = cut.map(|(read, _)| read.last().map_or(0, |(last, _)| last.millis)).min();
        let mut census = Self { taken, whole: until.is_none(), ..Self::default() };
        let read = parts.iter().flat_map(|(read, _)| read);
        for (entry, times) in read.filter(|(it, _)| until.is_none_or(|until| it.millis <= until)) {
            census.counted += 1;
            let age = taken.since(entry.added());
            let class = Self::AGES_MS.partition_point(|border| *border <= age);
            census.ages[class] += 1;
            let [once, few, often] = &mut census.tries;
            *match times {
                0 | 1 => once,
                2..=4 => few,
                _ => often,
            } += 1;
        }
        census
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(ago_ms: u64) -> EntryId {
        EntryId { millis: 10_000_000 - ago_ms, number: 0, partition: 0 }
    }

    #[test]
    fn each_entry_is_in_one_class_of_each_kind() {
        let read = [(600_000, 9), (599_999, 5), (60_000, 4), (59_000, 2), (10_000, 1), (999, 1)];
        let read = read.map(|(ago, times)| (entry(ago), times)).to_vec();
        let census = Census::of(Millis(10_000_000), &[(read, true), (Vec::new(), true)]);
        assert!(census.whole && census.counted == 6);
        assert_eq!((census.ages, census.tries), ([1, 0, 2, 2, 1], [2, 2, 2]));
    }

    #[test]
    fn a_partial_list_counts_only_entries_older_than_the_rest() {
        let read = |ages: &[u64]| ages.iter().map(|ago| (entry(*ago), 1)).collect::<Vec<_>>();
        let parts = [(read(&[900_000, 5_000]), true), (read(&[700_000, 20_000]), false)];
        let census = Census::of(Millis(10_000_000), &parts);
        assert!(!census.whole && census.counted == 3, "{census:?}");
        assert_eq!(census.ages, [0, 0, 1, 0, 2]);
    }
}
