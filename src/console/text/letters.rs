//! Words of dead letters: what is true of them, what an act would do to them, and what it did.

use std::fmt::Write as _;

use super::{
    acts::Question,
    figures::{counted, thousands},
};
use crate::{
    console::keymap::{Action, key_of},
    engine::command::{LettersCounted, LettersDiscarded, LettersReplayed},
    model::{LetterCounts, LetterVerdict},
};

pub(crate) const HEADING: &str = "DEAD LETTERS";
pub(crate) const NONE: &str =
    "There are no dead letters. What is given up stands here, with its reason.";
pub(crate) const UNREAD: &str = "They can't be read while Redis or the database is away.";
pub(crate) const NOTHING_DEAD: &str = "there are no dead letters";
pub(crate) const COUNTING: &str = "counting the dead letters";
pub(crate) const COUNTED: &str = "the dead letters are counted; close this and press the key again";
pub(crate) const ALL_GONE: &str = "none of them is there any more";

/// Labels of the detail pane.
pub(crate) mod labels {
    pub(crate) const LETTER: &str = "letter";
    pub(crate) const ORDER: &str = "order";
    pub(crate) const VERDICT: &str = "verdict";
    pub(crate) const REASON: &str = "reason";
    pub(crate) const FIELDS: &str = "fields";
    pub(crate) const HISTORY: &str = "given up";
}

/// What is done with dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settling {
    /// Back into the stream, those for which a buyer waits.
    Replay,
    /// Removed, those for which nobody waits.
    Discard,
    /// Removed; who waits gets nothing, and what he held is given back.
    Compensate,
}

/// What becomes of letters of one verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Back,
    Removed,
    GivenBack,
    Stays,
}

impl Settling {
    fn fate(self, verdict: LetterVerdict) -> Fate {
        match (self, verdict) {
            (Self::Replay, LetterVerdict::Awaited) => Fate::Back,
            (Self::Replay, _) | (_, LetterVerdict::IdTaken) => Fate::Stays,
            (Self::Discard, verdict) if verdict.is_awaited() => Fate::Stays,
            (Self::Compensate, verdict) if verdict.is_awaited() => Fate::GivenBack,
            _ => Fate::Removed,
        }
    }

    /// How many of them it changes.
    pub(crate) fn done(self, counts: &LetterCounts) -> u64 {
        counts.total() - self.count(counts, Fate::Stays)
    }

    /// How many of them have that fate.
    fn count(self, counts: &LetterCounts, fate: Fate) -> u64 {
        let verdicts = LetterVerdict::ALL.into_iter();
        verdicts.filter(|it| self.fate(*it) == fate).map(|it| counts.of(it)).sum()
    }
}

/// What is true of a letter, in a column.
pub(crate) fn word(verdict: LetterVerdict) -> &'static str {
    match verdict {
        LetterVerdict::Awaited => "buyer waits",
        LetterVerdict::CameBack => "came back",
        LetterVerdict::Written => "in SQL",
        LetterVerdict::NobodyWaits => "nobody waits",
        LetterVerdict::NoSale => "no such sale",
        LetterVerdict::NotLoaded => "not loaded",
        LetterVerdict::IdTaken => "id taken",
        LetterVerdict::Malformed => "no order",
    }
}

/// Why it is so and what follows, with the key that does it.
pub(crate) fn why(verdict: LetterVerdict) -> String {
    let (replay, discard, give_back) =
        (key_of(Action::ReplayLetters), key_of(Action::Discard), key_of(Action::Compensate));
    match verdict {
        LetterVerdict::Awaited => {
            format!("its buyer waits and there is no order: {replay} puts it back")
        }
        LetterVerdict::CameBack => format!(
            "it came back from each replay: mend what its reason names and put it back with 'seckill dead \
             replay --force', or {give_back} cancels its order and gives the piece back"
        ),
        LetterVerdict::Written => format!("its order is in SQL: {discard} removes it"),
        LetterVerdict::NobodyWaits => {
            format!("its buyer holds nothing or another order: {discard} removes it")
        }
        LetterVerdict::NoSale => {
            format!("there is no such sale, so nobody can wait for it: {discard} removes it")
        }
        LetterVerdict::NotLoaded => format!(
            "Redis does not hold the sale, so nobody can tell who waits: 'seckill audit --repair' loads it, \
             or {give_back} cancels the order"
        ),
        LetterVerdict::IdTaken => {
            "its buyer waits, but the order id is another buyer's: a person has to decide"
                .to_owned()
        }
        LetterVerdict::Malformed => format!("no order can be made of it: {discard} removes it"),
    }
}

/// What the act would do, in exact counts; or why there is nothing to do.
pub(crate) fn question(
    act: Settling,
    counted: &LettersCounted,
    marked: bool,
    filtered: bool,
) -> Result<Question, String> {
    let LettersCounted { counts, gone } = counted;
    let stay = act.count(counts, Fate::Stays);
    let (total, done) = (counts.total(), counts.total() - stay);
    let given_back = act.count(counts, Fate::GivenBack);
    if total == 0 {
        return Err(if marked { ALL_GONE } else { NOTHING_DEAD }.to_owned());
    }
    if done == 0 || (act == Settling::Compensate && given_back == 0) {
        return Err(nothing_to_do(act, total));
    }
    let of = if marked { "marked dead letters" } else { "dead letters" };
    let stays = match stay {
        0 => String::new(),
        1 => " 1 stays.".to_owned(),
        stay => format!(" {} stay.", thousands(stay)),
    };
    let (title, fate, yes) = match act {
        Settling::Replay => ("Put them back?", "go back into the order stream", "Replay"),
        Settling::Discard => ("Discard them?", "will be removed for good", "Discard"),
        Settling::Compensate => {
            ("Cancel, give back and discard?", "will be removed for good", "Give back")
        }
    };
    let first = format!("{} of {} {of} {fate}.{stays}", thousands(done), thousands(total));
    let mut lines = vec![first];
    if filtered && !marked {
        lines.push("The filter of this view does not limit it.".to_owned());
    }
    for it in LetterVerdict::ALL.into_iter().filter(|it| counts.of(*it) > 0) {
        lines.push(format!("{:>9}  {}: {}", thousands(counts.of(it)), word(it), told(act, it)));
    }
    if *gone > 0 {
        lines.push(format!("{:>9}  of the marked ones are not there any more", thousands(*gone)));
    }
    lines.push(match act {
        Settling::Replay => "The engine tries to write their orders again.".to_owned(),
        Settling::Discard => "This can't be undone.".to_owned(),
        Settling::Compensate => {
            let orders = self::counted(given_back, "order is", "orders are");
            format!("{orders} cancelled, and what they held is given back. This can't be undone.")
        }
    });
    Ok(Question { title: title.to_owned(), lines, yes: yes.to_owned() })
}

/// What becomes of letters of this verdict.
fn told(act: Settling, verdict: LetterVerdict) -> &'static str {
    match (act.fate(verdict), act, verdict) {
        (Fate::Back, ..) => "go back",
        (Fate::Removed, ..) => "removed",
        (Fate::GivenBack, ..) => "cancelled, given back, removed",
        (Fate::Stays, Settling::Replay, LetterVerdict::CameBack) => "stay ('dead replay --force')",
        (Fate::Stays, ..) => "stay",
    }
}

fn nothing_to_do(act: Settling, total: u64) -> String {
    let (discard, replay, give_back) =
        (key_of(Action::Discard), key_of(Action::ReplayLetters), key_of(Action::Compensate));
    let none = counted(total, "dead letter", "dead letters");
    match act {
        Settling::Replay => format!("none of {none} can go back; Enter tells what is true of each"),
        Settling::Discard => format!(
            "buyers may wait for each of {none}; {replay} puts them back, {give_back} cancels their orders"
        ),
        Settling::Compensate => {
            format!("no buyer waits for any of {none}; {discard} removes them")
        }
    }
}

pub(crate) fn replayed(report: &LettersReplayed) -> (String, bool) {
    let back = counted(report.replayed, "dead letter is", "dead letters are");
    let text = format!("{back} back in the stream");
    (
        text + &rest(&report.refused, report.gone, report.cut_short),
        report.replayed > 0 && !report.cut_short,
    )
}

pub(crate) fn discarded(report: &LettersDiscarded) -> (String, bool) {
    let mut text = counted(report.discarded, "dead letter removed", "dead letters removed");
    if report.compensated + report.given_back > 0 {
        let _ = write!(
            text,
            ", {} cancelled, {} given back",
            counted(report.compensated, "order", "orders"),
            counted(report.given_back, "piece", "pieces")
        );
    }
    (
        text + &rest(&report.refused, report.gone, report.cut_short),
        report.discarded > 0 && !report.cut_short,
    )
}

fn rest(refused: &LetterCounts, gone: u64, cut_short: bool) -> String {
    let mut text = String::new();
    if refused.total() > 0 {
        let _ = write!(text, ", {}", counted(refused.total(), "stays", "stay"));
    }
    if gone > 0 {
        let _ = write!(text, ", {} settled before", thousands(gone));
    }
    if cut_short {
        text.push_str("; broken off, the rest is as it was");
    }
    text
}

pub(crate) fn marks_gone(count: usize) -> String {
    let gone = counted(count as u64, "marked letter is", "marked letters are");
    format!("{gone} no longer there; the mark is dropped")
}

/// The letter's id, and that of the entry that it was.
pub(crate) fn was(letter: &str, entry: Option<&str>) -> String {
    entry.map_or_else(|| letter.to_owned(), |entry| format!("{letter}, was entry {entry}"))
}

pub(crate) fn buyer(order: Option<String>, user: Option<String>, sale: Option<String>) -> String {
    match (order, user, sale) {
        (Some(order), Some(user), Some(sale)) => format!("{order}, user {user}, sale {sale}"),
        _ => "none".to_owned(),
    }
}

pub(crate) fn no_order(fault: &str) -> String {
    format!("none: {fault}")
}

pub(crate) fn field(name: &str, value: &str) -> String {
    format!("{name} = {value}")
}

pub(crate) fn more_fields(count: usize) -> String {
    counted(count as u64, "more field", "more fields")
}

pub(crate) fn more_lines(count: usize) -> String {
    format!("{}: 'seckill dead show'", counted(count as u64, "more line", "more lines"))
}

pub(crate) fn burial(at: &str, deliveries: u64, consumer: &str, reason: &str) -> String {
    let from = if consumer.is_empty() { String::new() } else { format!(", {consumer}") };
    let tries = counted(deliveries, "delivery", "deliveries");
    format!("{at}, {tries}{from}: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_letter_is_removed_whose_buyer_waits_unless_all_is_given_back() {
        for verdict in LetterVerdict::ALL {
            let discarded = Settling::Discard.fate(verdict);
            assert_eq!(discarded == Fate::Stays, verdict.is_awaited(), "{verdict}");
            let given_back = Settling::Compensate.fate(verdict);
            assert_eq!(given_back == Fate::Removed, !verdict.is_awaited(), "{verdict}");
            assert!(!why(verdict).contains("  "), "{verdict}");
        }
    }
}
