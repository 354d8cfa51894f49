//! What Redis had forgotten and was given back: told by the node that healed it, in the audit log, so that every node
//! knows.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    model::{Millis, counted},
    store::Recorded,
};

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

/// What one node gave back to Redis, as its line of the log keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Healed {
    /// Buyers who were put back.
    pub buyers: u64,
    /// Of them: not in SQL yet.
    pub promised: u64,
    /// Promises that can't be kept.
    pub refused: u64,
}

impl fmt::Display for Healed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { buyers, promised, refused } = self;
        let buyers = counted(*buyers, "buyer", "buyers");
        let refused = counted(*refused, "promise", "promises");
        write!(
            f,
            "Redis had lost {buyers}, {promised} of them not in SQL yet; all put back; {refused} can't be kept"
        )
    }
}

impl Forgot {
    /// Sums up what the log tells of the last minutes; `None` where nothing was lost.
    pub fn lately(log: &[Recorded], now: Millis) -> Option<Self> {
        let lines = log.iter().map(|line| &line.act);
        let lines = lines.filter(|act| act.act == HEALED && now.since(act.at) < TOLD_MS);
        lines.fold(None, |sum: Option<Self>, act| {
            let sum = sum.unwrap_or_default();
            // A line without figures tells at least that something was lost.
            let Healed { buyers, refused, .. } = act.result.part("/healed").unwrap_or_default();
            Some(Self {
                at: sum.at.max(act.at),
                buyers: sum.buyers + buyers,
                refused: sum.refused + refused,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::Said, store::Act};

    #[derive(Serialize)]
    struct Line {
        healed: Healed,
    }

    impl fmt::Display for Line {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.healed.fmt(f)
        }
    }

    #[test]
    fn what_the_log_tells_of_the_last_minutes_is_summed_up() {
        let line = |id, at, buyers, refused| Recorded {
            id,
            act: Act {
                at: Millis(at),
                act: HEALED.to_owned(),
                result: Said::of(&Line { healed: Healed { buyers, promised: 1, refused } }),
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
