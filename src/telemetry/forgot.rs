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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forgot {
    /// When it was put back, last.
    pub at: Millis,
    /// Keys that were lost, replaced or set back, each once.
    pub keys: Vec<String>,
    /// Buyers who were put back.
    pub buyers: u64,
    /// Promises that can't be kept.
    pub refused: u64,
}

/// What one node gave back to Redis, as its line of the log keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Healed {
    /// Keys that were lost, replaced or set back; none where the server as a whole lost its last writes.
    pub keys: Vec<String>,
    /// Buyers who were put back.
    pub buyers: u64,
    /// Buyers removed whose order was closed.
    pub removed: u64,
    /// Orders that SQL did not have, put into the stream again.
    pub promised: u64,
    /// Promises that can't be kept.
    pub refused: u64,
    /// The sale has more buyers than pieces, and stays closed.
    pub oversold: bool,
}

impl fmt::Display for Healed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { keys, buyers, removed, promised, refused, oversold } = self;
        if !keys.is_empty() {
            write!(f, "lost or set back: {}; ", keys.join(", "))?;
        }
        write!(
            f,
            "{} put back, {} put into the stream again, {} cannot be kept",
            counted(*buyers, "buyer", "buyers"),
            counted(*promised, "order", "orders"),
            counted(*refused, "promise", "promises")
        )?;
        if *removed > 0 {
            write!(f, ", {} with a closed order removed", counted(*removed, "buyer", "buyers"))?;
        }
        f.write_str(if *oversold { "; more buyers than pieces, the sale stays closed" } else { "" })
    }
}

impl Forgot {
    /// Sums up what the log tells of the last minutes; `None` where nothing was lost.
    pub fn lately(log: &[Recorded], now: Millis) -> Option<Self> {
        let lines = log.iter().map(|line| &line.act);
        let lines = lines.filter(|act| act.act == HEALED && now.since(act.at) < TOLD_MS);
        lines.fold(None, |sum: Option<Self>, act| {
            let mut sum = sum.unwrap_or_default();
            // A line without figures tells at least that something was lost.
            let healed: Healed = act.result.part("/healed").unwrap_or_default();
            sum.at = sum.at.max(act.at);
            sum.buyers += healed.buyers;
            sum.refused += healed.refused;
            for key in healed.keys {
                if !sum.keys.contains(&key) {
                    sum.keys.push(key);
                }
            }
            Some(sum)
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
                result: Said::of(&Line {
                    healed: Healed { buyers, promised: 1, refused, ..Healed::default() },
                }),
                ..Act::default()
            },
        };
        let other = Recorded { id: 9, act: Act { act: "sale end".into(), ..Act::default() } };
        let log = [line(3, 900_000, 5, 0), other, line(2, 899_000, 7, 1), line(1, 1, 99, 9)];
        let told = Forgot::lately(&log, Millis(901_000));
        assert_eq!(
            told,
            Some(Forgot { at: Millis(900_000), buyers: 12, refused: 1, ..Forgot::default() })
        );
        assert_eq!(Forgot::lately(&log[1..2], Millis(1)), None);
    }
}
