//! What Redis had forgotten and was given back: told by the node that healed it, in the audit log, so that every node
//! knows.

use crate::{model::Millis, store::Recorded};

/// The act's name in the audit log.
pub const HEALED: &str = "redis healed";
/// So long it is told: a person looks up now and then.
const TOLD_MS: u64 = 600_000;

/// What Redis had lost lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgot {
    /// When it was put back, last.
    pub at: Millis,
    /// Buyers who were put back.
    pub buyers: u64,
    /// Promises that can't be kept.
    pub refused: u64,
}

impl Forgot {
    /// As the audit log says it: `promised` of the buyers were not in SQL yet.
    pub fn words(buyers: u64, promised: usize, refused: usize) -> String {
        format!(
            "Redis had lost {buyers} buyers, {promised} of them not in SQL yet; all put back; {refused} promises can't be kept"
        )
    }

    /// Sums up what the log tells of the last minutes; `None` where nothing was lost.
    pub fn lately(log: &[Recorded], now: Millis) -> Option<Self> {
        let lines = log.iter().map(|line| &line.act);
        let lines = lines.filter(|act| act.act == HEALED && now.since(act.at) < TOLD_MS);
        lines.fold(None, |sum: Option<Self>, act| {
            let sum = sum.unwrap_or_default();
            let (buyers, refused) = read(&act.result);
            Some(Self {
                at: sum.at.max(act.at),
                buyers: sum.buyers + buyers,
                refused: sum.refused + refused,
            })
        })
    }
}

/// The first and the last number of what [`Forgot::words`] says.
fn read(words: &str) -> (u64, u64) {
    let numbers: Vec<u64> = words.split(' ').filter_map(|word| word.parse().ok()).collect();
    (numbers.first().copied().unwrap_or(0), numbers.last().copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Act;

    #[test]
    fn what_the_log_tells_of_the_last_minutes_is_summed_up() {
        let line = |id, at, buyers, refused| Recorded {
            id,
            act: Act {
                at: Millis(at),
                act: HEALED.to_owned(),
                result: Forgot::words(buyers, 1, refused),
                ..Act::default()
            },
        };
        let other = Recorded { id: 9, act: Act { act: "sale end".into(), ..Act::default() } };
        let log = [line(3, 900_000, 5, 0), other, line(2, 899_000, 7, 1), line(1, 1, 99, 9)];
        let told = Forgot::lately(&log, Millis(901_000));
        assert_eq!(told, Some(Forgot { at: Millis(900_000), buyers: 12, refused: 1 }));
        assert_eq!(Forgot::lately(&log[1..2], Millis(1)), None);
    }
}
