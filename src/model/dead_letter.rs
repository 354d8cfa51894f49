//! Dead letters: verdict, recommended action, and the history kept across replays.
//!
//! Rules without I/O, applied to evidence that the caller has just collected.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray, VariantNames};

use crate::{Backing, Message, Millis, control_chars::shortened, text};

/// Longest reason, in characters.
pub const MAX_REASON: usize = 300;
/// Longest data of a reason, in bytes.
pub const MAX_DATA: usize = 600;
/// Failures kept in a history; the newest ones are kept.
const MAX_BURIALS: usize = 16;
/// Longest history as text, in bytes.
const MAX_HISTORY: usize = 4_096;

/// Evidence about one dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LetterEvidence {
    /// Its fields form an order.
    pub fields_good: bool,
    /// What SQL has under its order ID.
    pub row: Row,
    /// What Redis knows of its buyer.
    pub backing: Backing,
    /// Its sale in SQL.
    pub sale: Sale,
    /// Number of earlier replays.
    pub replays: u64,
    /// SQL rejected it because of another live order of the buyer, which is still live.
    pub superseded: bool,
}

/// What SQL has under the order ID of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// Nothing.
    None,
    /// This order, live or closed.
    This,
    /// An order of another buyer, place or voucher.
    Other,
}

/// The sale of a dead letter, by SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sale {
    /// It is, or should be, in Redis.
    Open,
    /// It is over, and its ledger was closed when it left Redis.
    Archived,
    /// It does not exist.
    Missing,
}

/// Verdict on one dead letter, in display order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::Display, IntoStaticStr, VariantArray, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum LetterVerdict {
    /// Its buyer waits, and there is no order.
    Awaited,
    /// Its buyer waits, but it reached the replay limit and failed each time.
    CameBack,
    /// Unknown whether a buyer waits, because the sale is not in Redis.
    NotLoaded,
    /// Its buyer waits, but the ID belongs to another order.
    IdTaken,
    /// Its buyer holds another live order in SQL, in the same place.
    HoldsAnother,
    /// Its order is in SQL.
    Written,
    /// Its buyer holds no order, or another one.
    NotAwaited,
    /// Its buyer waits, and the sale is in Redis but not in SQL.
    SaleLost,
    /// There is no such sale.
    NoSale,
    /// It contains no valid order.
    Malformed,
}

/// Recommended action for one dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::Display, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum LetterAction {
    /// Replay it into the order stream.
    Replay,
    /// Discard it.
    Discard,
    /// Leave the decision to the operator.
    Decide,
}

/// The verdict supported by the evidence. After `max_replays` the operator decides.
pub fn judge(evidence: &LetterEvidence, max_replays: u64) -> LetterVerdict {
    if !evidence.fields_good {
        return LetterVerdict::Malformed;
    }
    match (evidence.row, evidence.sale, evidence.backing) {
        (Row::This, ..) => LetterVerdict::Written,
        (_, Sale::Missing, Backing::Promised) => LetterVerdict::SaleLost,
        (_, Sale::Missing, _) => LetterVerdict::NoSale,
        (_, Sale::Open, Backing::Unknown) => LetterVerdict::NotLoaded,
        (Row::Other, _, Backing::Promised) => LetterVerdict::IdTaken,
        (Row::None, _, Backing::Promised) if evidence.superseded => LetterVerdict::HoldsAnother,
        (Row::None, _, Backing::Promised) if evidence.replays >= max_replays => {
            LetterVerdict::CameBack
        }
        (Row::None, _, Backing::Promised) => LetterVerdict::Awaited,
        (_, _, Backing::Other(_) | Backing::Nothing | Backing::Unknown) => {
            LetterVerdict::NotAwaited
        }
    }
}

impl LetterVerdict {
    /// All of them.
    pub const ALL: &'static [Self] = <Self as VariantArray>::VARIANTS;

    /// The recommended action.
    pub fn action(self) -> LetterAction {
        match self {
            Self::Awaited => LetterAction::Replay,
            Self::Written | Self::NotAwaited | Self::NoSale | Self::Malformed => {
                LetterAction::Discard
            }
            Self::CameBack
            | Self::NotLoaded
            | Self::IdTaken
            | Self::HoldsAnother
            | Self::SaleLost => LetterAction::Decide,
        }
    }

    /// Whether a buyer may be waiting for it and would otherwise get no result.
    pub fn is_awaited(self) -> bool {
        self.action() != LetterAction::Discard
    }

    /// Why this action is recommended.
    pub fn why(self) -> String {
        text!("letters-why", verdict = self)
    }
}

/// Number of dead letters per verdict; in a document, every verdict is a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterCounts(BTreeMap<LetterVerdict, u64>);

impl Default for LetterCounts {
    fn default() -> Self {
        Self(LetterVerdict::ALL.iter().map(|verdict| (*verdict, 0)).collect())
    }
}

impl LetterCounts {
    /// Counts one more.
    pub fn add(&mut self, verdict: LetterVerdict) {
        *self.0.entry(verdict).or_default() += 1;
    }

    /// Number with this verdict.
    pub fn of(&self, verdict: LetterVerdict) -> u64 {
        self.0.get(&verdict).copied().unwrap_or(0)
    }

    /// Number whose buyer waits for an order.
    pub fn waiting(&self) -> u64 {
        use LetterVerdict::{Awaited, CameBack, NotLoaded, SaleLost};
        [Awaited, CameBack, NotLoaded, SaleLost].iter().map(|verdict| self.of(*verdict)).sum()
    }

    /// Total.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

/// One failure of an entry, after which it became a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Burial {
    /// When.
    pub at: Millis,
    /// Former holder; empty if it had none.
    pub consumer: String,
    /// Number of deliveries by then.
    pub deliveries: u64,
    /// Why.
    pub reason: Message,
}

/// A line of a history: a [`Burial`] as a JSON array, with the sentence of its reason and the data.
type Line = (Millis, String, u64, String, Option<String>);

/// Parses a history, oldest first. Invalid lines are skipped.
pub fn read_history(text: &str) -> Vec<Burial> {
    let burial = |line: &str| {
        let (at, consumer, deliveries, reason, data): Line = serde_json::from_str(line).ok()?;
        let reason = shown(&reason, MAX_REASON);
        let reason = match data {
            Some(data) => Message::with_data(reason, &data),
            None => reason.into(),
        };
        Some(Burial { at, consumer: shown(&consumer, 100), deliveries, reason })
    };
    text.lines().filter_map(burial).collect()
}

/// Formats a history as text, newest last; the oldest failures are dropped if it is too long.
pub fn write_history(burials: &[Burial]) -> String {
    let (mut lines, mut bytes) = (Vec::new(), 0);
    for Burial { at, consumer, deliveries, reason } in burials.iter().rev().take(MAX_BURIALS) {
        let (consumer, data) = (shown(consumer, 100), reason.data_json(MAX_DATA));
        let line: Line = (*at, consumer, *deliveries, shown(reason, MAX_REASON), data);
        let Ok(line) = serde_json::to_string(&line) else { continue };
        bytes += line.len() + 1;
        if bytes > MAX_HISTORY {
            break;
        }
        lines.push(line);
    }
    lines.reverse();
    lines.join("\n")
}

/// Makes untrusted text safe for a terminal: of bounded length and without control or bidirectional characters.
pub fn shown(text: &str, most: usize) -> String {
    let mut shown = shortened(text, most);
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{OrderError, OrderId};

    const AWAITED: LetterEvidence = LetterEvidence {
        fields_good: true,
        row: Row::None,
        backing: Backing::Promised,
        sale: Sale::Open,
        replays: 0,
        superseded: false,
    };

    #[test]
    fn verdict_table() {
        use LetterVerdict::{
            Awaited, CameBack, HoldsAnother, IdTaken, Malformed, NoSale, NotAwaited, NotLoaded,
            SaleLost, Written,
        };
        let other = OrderId::from_i64(1).unwrap();
        let unknown = LetterEvidence { backing: Backing::Unknown, ..AWAITED };
        let table = [
            (AWAITED, Awaited),
            (LetterEvidence { replays: 2, ..AWAITED }, Awaited),
            (LetterEvidence { replays: 3, ..AWAITED }, CameBack),
            (LetterEvidence { fields_good: false, ..AWAITED }, Malformed),
            (LetterEvidence { row: Row::This, ..AWAITED }, Written),
            (LetterEvidence { row: Row::This, replays: 9, ..AWAITED }, Written),
            (LetterEvidence { row: Row::This, ..unknown }, Written),
            (LetterEvidence { row: Row::Other, ..AWAITED }, IdTaken),
            (LetterEvidence { superseded: true, ..AWAITED }, HoldsAnother),
            (LetterEvidence { row: Row::Other, backing: Backing::Nothing, ..AWAITED }, NotAwaited),
            (LetterEvidence { backing: Backing::Other(other), ..AWAITED }, NotAwaited),
            (LetterEvidence { backing: Backing::Nothing, replays: 9, ..AWAITED }, NotAwaited),
            (unknown, NotLoaded),
            (LetterEvidence { sale: Sale::Archived, ..unknown }, NotAwaited),
            (LetterEvidence { sale: Sale::Missing, ..unknown }, NoSale),
            (LetterEvidence { sale: Sale::Missing, ..AWAITED }, SaleLost),
        ];
        for (evidence, verdict) in table {
            assert_eq!(judge(&evidence, 3), verdict, "{evidence:?}");
        }
    }

    #[test]
    fn awaited_letters_are_never_discarded_by_rule() {
        for &verdict in LetterVerdict::ALL {
            assert!(LetterAction::VARIANTS.contains(&verdict.action().into()));
            assert_eq!(
                verdict.is_awaited(),
                verdict.action() != LetterAction::Discard,
                "{verdict}"
            );
            let json = serde_json::to_string(&verdict).unwrap();
            assert_eq!(json, format!("\"{verdict}\""));
        }
    }

    #[test]
    fn every_verdict_is_counted() {
        let mut counts = LetterCounts::default();
        for &verdict in LetterVerdict::ALL {
            counts.add(verdict);
            assert_eq!(counts.of(verdict), 1, "{verdict}");
        }
        assert_eq!(counts.total(), 10);
    }

    fn burial(at: i64, reason: &str) -> Burial {
        Burial { at: Millis(at), consumer: "n|1/1".into(), deliveries: 2, reason: reason.into() }
    }

    #[test]
    fn history_round_trips() {
        let text = write_history(&[burial(1, "first | why"), burial(2, "two\nlines \x1b[2J")]);
        let line = r#"[2,"n|1/1",2,"two·lines ·[2J",null]"#;
        assert_eq!(text, format!("[1,\"n|1/1\",2,\"first | why\",null]\n{line}"));
        let read = read_history(&text);
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].at, &*read[0].reason), (Millis(1), "first | why"));
        assert_eq!(
            read_history("nonsense\n[]\n[5,\"c\",1,\"x\",null]"),
            [Burial { at: Millis(5), consumer: "c".into(), deliveries: 1, reason: "x".into() }]
        );
    }

    #[test]
    fn history_keeps_the_data_of_its_reasons() {
        let burial_at =
            |n| Burial { reason: Message::of(&OrderError::TooOften(n)), ..burial(n as i64, "") };
        let all = [burial_at(6), burial(7, "of an older version"), burial_at(8)]
            .map(|it| Burial { consumer: "n/1".into(), ..it });
        assert_eq!(read_history(&write_history(&all)), all);
        let strange = r#"[5,"c",1,"x","{"]
            [6,"c",1,"y","5"]
            [7,"c",1,"z","{\"gone\":1}"]"#;
        let read = read_history(strange);
        assert_eq!(read.iter().map(|it| &*it.reason).collect::<Vec<_>>(), ["x", "y", "z"]);
        assert!(read.iter().all(|it| it.reason.data::<OrderError>().is_none()));
    }

    #[test]
    fn long_history_keeps_the_newest() {
        let many: Vec<Burial> = (0..100).map(|n| burial(n, "why")).collect();
        let read = read_history(&write_history(&many));
        assert_eq!((read.len(), read[15].at), (MAX_BURIALS, Millis(99)));
        let long: Vec<Burial> = (0..100).map(|n| burial(n, &"火".repeat(1_000))).collect();
        let text = write_history(&long);
        assert!(text.len() <= MAX_HISTORY && !text.is_empty(), "{}", text.len());
        assert_eq!(read_history(&text).last().map(|it| it.at), Some(Millis(99)));
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_break_a_history(reason: String, consumer: String, at: i64) {
            let burial = Burial { at: Millis(at), consumer, deliveries: 1, reason: reason.into() };
            let read = read_history(&write_history(std::slice::from_ref(&burial)));
            prop_assert_eq!(read.len(), 1);
            prop_assert!(read[0].reason.chars().count() <= MAX_REASON + 1);
            prop_assert!(!read[0].reason.chars().any(char::is_control));
        }
    }
}
