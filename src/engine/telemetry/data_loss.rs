//! What Redis had forgotten and was given back: told by the node that healed it, in the audit log, so that every node
//! knows.

use std::fmt;

use redis::{cmd, pipe};
use seckill_model::{Millis, Said, message::text};
use seckill_redis::{BrokerError, Link, keys::Partition};
use seckill_store::{Act, Recorded};
use serde::{Deserialize, Serialize};

use crate::{
    messages::{CLAUSES, ITEMS},
    outbox::Outbox,
};

/// The act's name in the audit log.
pub const HEALED: &str = "redis healed";
/// So long it is told: a person looks up now and then.
const TOLD_MS: u64 = 600_000;
/// Events that a node shows while the database takes none, the newest.
const UNWRITTEN: usize = 50;

/// What Redis had lost lately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forgot {
    /// When it was put back, last.
    pub at: Millis,
    /// Keys that were lost, replaced or set back, each once.
    pub keys: Vec<String>,
    /// Buyers who were put back.
    pub buyers: u64,
    /// Orders that SQL did not have, put into the stream again.
    pub promised: u64,
    /// Promises that can't be kept.
    pub refused: u64,
    /// Buyers that only the stock in Redis counted: no record names them.
    pub unknown: u64,
}

/// Keys that are named; how many more there are is told.
const NAMED: usize = 4;

/// Whether dead letters are among these keys: those that name no order cannot be put back.
pub fn loses_letters(keys: &[String]) -> bool {
    keys.iter().any(|key| key.split(' ').next().is_some_and(|key| key.ends_with(":dead")))
}

/// Keys as they are named, each once with what it held where that was another type, and how many are left out.
pub fn named(keys: &[String]) -> (Vec<(&str, Option<&str>)>, usize) {
    let told = keys.iter().map(|key| match key.split_once(' ') {
        Some((key, held)) => (key, Some(held)),
        None => (key.as_str(), None),
    });
    let twice = |key: &str| keys.iter().filter_map(|it| it.split_once(' ')).any(|it| it.0 == key);
    let mut named: Vec<_> = told.filter(|(key, held)| held.is_some() || !twice(key)).collect();
    let more = named.len().saturating_sub(NAMED);
    named.truncate(NAMED);
    (named, more)
}

/// The same as text.
pub fn named_in_words(keys: &[String]) -> String {
    let (named, more) = named(keys);
    let named = named.into_iter().map(|(key, was)| match was {
        Some(held) => text!("loss-was-a", key, held),
        None => key.to_owned(),
    });
    let named = named.collect::<Vec<_>>().join(&ITEMS);
    if more > 0 { text!("loss-and-more", named, more) } else { named }
}

/// What a node gave back, and when.
pub type HealedAt = (Millis, Healed);

/// What a line of the log tells of that; a line without figures tells at least that something was lost.
fn healed(act: &Act) -> Option<HealedAt> {
    (act.act == HEALED).then(|| (act.at, act.result.part("/healed").unwrap_or_default()))
}

/// Buyers that may have been admitted in a loss without any record, by the result of its event.
pub fn unknown_buyers(result: &Said) -> u64 {
    result.part("/healed/unknown").unwrap_or(0)
}

/// Shows in Redis what a node has put back and the database has no event of yet; `shown` says whether the last call has
/// shown something.
///
/// # Errors
/// Redis is away.
pub(crate) async fn show_unwritten(
    link: &mut Link,
    of: &Partition,
    node: &str,
    outbox: &Outbox,
    shown: &mut bool,
) -> Result<(), BrokerError> {
    let waiting: Vec<HealedAt> = outbox.waiting().iter().filter_map(healed).collect();
    let newest = &waiting[waiting.len().saturating_sub(UNWRITTEN)..];
    match serde_json::to_string(newest) {
        Ok(json) if !newest.is_empty() => {
            let mut show = pipe();
            show.cmd("HSET").arg(of.unwritten()).arg(node).arg(json).ignore();
            show.cmd("PEXPIRE").arg(of.unwritten()).arg(TOLD_MS).ignore();
            link.pipe::<()>(&show).await?;
            *shown = true;
        }
        _ if *shown => {
            link.query::<u64>(cmd("HDEL").arg(of.unwritten()).arg(node)).await?;
            *shown = false;
        }
        _ => {}
    }
    Ok(())
}

/// What nodes have put back and the database has no event of yet.
///
/// # Errors
/// Redis is away.
pub async fn unwritten(link: &mut Link, of: &Partition) -> Result<Vec<HealedAt>, BrokerError> {
    let shown: Vec<String> = link.query(cmd("HVALS").arg(of.unwritten())).await?;
    // Text of another program tells nothing.
    let read = shown.iter().filter_map(|json| serde_json::from_str::<Vec<HealedAt>>(json).ok());
    Ok(read.flatten().collect())
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
    /// Buyers that were admitted by the stock in Redis, and of whom nothing else is known.
    pub unknown: u64,
    /// Archived sales that Redis held still, and that were removed from it.
    pub archived: u64,
    /// The sale has more buyers than pieces, and stays closed.
    pub oversold: bool,
    /// Redis and SQL hold different sales under the number, and the sale stays closed.
    pub other_sale: bool,
}

impl fmt::Display for Healed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            keys,
            buyers,
            removed,
            promised,
            refused,
            unknown,
            archived,
            oversold,
            other_sale,
        } = self;
        let mut text = if keys.is_empty() {
            String::new()
        } else {
            text!("loss-keys", keys = named_in_words(keys))
        };
        let counted = |count: &u64, text: fn(u64) -> String| (*count > 0).then(|| text(*count));
        let parts = [
            counted(buyers, |count| text!("loss-buyers", count)),
            counted(promised, |count| text!("loss-promised", count)),
            counted(refused, |count| text!("loss-refused", count)),
            counted(removed, |count| text!("loss-removed", count)),
            counted(unknown, |count| text!("loss-unknown", count)),
            counted(archived, |count| text!("loss-archived", count)),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        text += &if parts.is_empty() { text!("loss-nothing") } else { parts.join(&CLAUSES) };
        text.extend(loses_letters(keys).then(|| text!("loss-letters")));
        text.extend(oversold.then(|| text!("loss-oversold")));
        text.extend(other_sale.then(|| text!("loss-other-sale")));
        f.write_str(&text)
    }
}

impl Forgot {
    /// Sums up what the log tells of the last minutes and what nodes could not write into it; `None` where nothing was
    /// lost.
    pub fn lately(log: &[Recorded], unwritten: &[HealedAt], now: Millis) -> Option<Self> {
        let written: Vec<HealedAt> = log.iter().filter_map(|line| healed(&line.act)).collect();
        // An event is written before the next heartbeat takes it out of Redis.
        let waiting = unwritten.iter().filter(|it| !written.contains(it)).cloned();
        let recent = waiting.chain(written.iter().cloned());
        let recent = recent.filter(|(at, _)| now.since(*at) < TOLD_MS);
        recent.fold(None, |sum: Option<Self>, (at, healed)| {
            if healed.archived > 0
                && healed == (Healed { archived: healed.archived, ..Healed::default() })
            {
                return sum;
            }
            let mut sum = sum.unwrap_or_default();
            sum.at = sum.at.max(at);
            sum.buyers += healed.buyers;
            sum.promised += healed.promised;
            sum.refused += healed.refused;
            sum.unknown += healed.unknown;
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
    fn a_key_is_named_once_and_four_at_most() {
        let keys = |keys: &[&str]| {
            named_in_words(&keys.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(keys(&["w list", "w"]), "w (was a list)");
        assert_eq!(keys(&["a", "b", "c", "d", "w", "w list"]), "a, b, c, d and 1 more");
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
        let told = Forgot::lately(&log, &[], Millis(901_000));
        assert_eq!(
            told,
            Some(Forgot {
                at: Millis(900_000),
                buyers: 12,
                promised: 2,
                refused: 1,
                ..Forgot::default()
            })
        );
        assert_eq!(Forgot::lately(&log[1..2], &[], Millis(1)), None);
        let waits = |at| (Millis(at), Healed { buyers: 5, promised: 1, ..Healed::default() });
        let buyers = |waiting: &[HealedAt]| {
            Forgot::lately(&log, waiting, Millis(901_000)).map(|lost| lost.buyers)
        };
        assert_eq!(buyers(&[waits(900_000)]), Some(12), "it is written by now");
        assert_eq!(buyers(&[waits(900_500)]), Some(17));
    }
}
