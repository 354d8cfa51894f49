//! Texts of dead letters: their verdicts, the effects of a command, and its outcome.

use seckill_engine::{
    commands::Command,
    dead_letters::{LetterScope, LettersCounted},
};
use seckill_model::{
    LetterCounts, LetterVerdict,
    message::{Label, text},
};

use crate::{
    keymap::{Action, key_of},
    text::{
        commands::{Question, question},
        figures::thousands,
    },
    views::table::Marked,
};

pub(crate) const NOTHING_DEAD: Label = Label("letters-there-are-no-dead-letters");

/// What a command does with dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum LetterCommand {
    /// Puts letters with a waiting buyer back into the stream.
    Replay,
    /// Removes letters without a waiting buyer.
    Discard,
    /// Removes letters; waiting buyers get nothing, and their stock is returned.
    Compensate,
}

/// Which letters a command applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selected {
    /// The one under the cursor.
    One(String),
    Marked(Marked),
    /// All letters, of which a filter shows this many.
    All {
        shown: Option<usize>,
    },
}

/// Describes the scope, given the `total`.
fn scope(about: &Selected, total: u64) -> String {
    match about {
        Selected::One(letter) => text!("letters-one", letter),
        Selected::All { shown } => {
            let shown = shown.map_or_else(|| "none".to_owned(), |shown| thousands(shown as u64));
            text!("letters-scope-all", count = total, shown)
        }
        Selected::Marked(Marked { count, filtered, elsewhere }) => {
            text!("letters-marked", count, filtered, elsewhere)
        }
    }
}

/// The effect on letters of one verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
enum Effect {
    Replayed,
    Removed,
    Cancelled,
    /// Kept, as every replay failed; the command line can replay it.
    Exhausted,
    Stays,
}

impl LetterCommand {
    /// The action that triggers it.
    pub(crate) fn action(self) -> Action {
        match self {
            Self::Replay => Action::ReplayLetters,
            Self::Discard => Action::Discard,
            Self::Compensate => Action::Compensate,
        }
    }

    fn effect(self, verdict: LetterVerdict) -> Effect {
        match (self, verdict) {
            (Self::Replay, LetterVerdict::Awaited) => Effect::Replayed,
            (Self::Replay, LetterVerdict::CameBack) => Effect::Exhausted,
            (Self::Replay, _) | (_, LetterVerdict::IdTaken) => Effect::Stays,
            (Self::Discard, verdict) if verdict.is_awaited() => Effect::Stays,
            (Self::Compensate, verdict) if verdict.is_awaited() => Effect::Cancelled,
            _ => Effect::Removed,
        }
    }

    /// The command of the engine.
    pub(crate) fn command(self, scope: LetterScope) -> Command {
        match self {
            Self::Replay => Command::ReplayLetters { scope, force: false },
            Self::Discard => Command::DiscardLetters { scope, compensate: false },
            Self::Compensate => Command::DiscardLetters { scope, compensate: true },
        }
    }

    /// How many of them it changes.
    pub(crate) fn done(self, counts: &LetterCounts) -> u64 {
        counts.total() - self.count(counts, Effect::Stays) - self.count(counts, Effect::Exhausted)
    }

    /// How many of them have that effect.
    fn count(self, counts: &LetterCounts, effect: Effect) -> u64 {
        let verdicts = LetterVerdict::ALL.iter().copied();
        verdicts.filter(|it| self.effect(*it) == effect).map(|it| counts.of(it)).sum()
    }
}

/// The keys of the commands that a text may name: replay, discard, compensate.
fn keys() -> [String; 3] {
    [Action::ReplayLetters, Action::Discard, Action::Compensate].map(key_of)
}

/// The reason and the consequence, with the key for it.
pub(crate) fn why(verdict: LetterVerdict) -> String {
    let [replay, discard, give_back] = keys();
    text!("letters-advice", verdict, replay, discard, give_back)
}

/// What the command would do, in exact counts; or why there is nothing to do.
pub(crate) fn question(
    command: LetterCommand,
    found: &LettersCounted,
    about: &Selected,
) -> Result<Question, String> {
    let LettersCounted { counts, gone, .. } = found;
    let (total, done) = (counts.total(), command.done(counts));
    let stay = total - done;
    let orders = command.count(counts, Effect::Cancelled);
    if total == 0 {
        let all = matches!(about, Selected::All { .. });
        return Err(if all { NOTHING_DEAD } else { Label("letters-these-letters-are-no-longer") }
            .to_string());
    }
    let present = || LetterVerdict::ALL.iter().copied().filter(|it| counts.of(*it) > 0);
    if done == 0 || (command == LetterCommand::Compensate && orders == 0) {
        let [replay, discard, give_back] = keys();
        let (name, open) = (<&str>::from(command), key_of(Action::Open));
        return Err(match present().next().filter(|_| total == 1) {
            Some(only) => why(only),
            None => text!(
                "letters-nothing-to-do",
                command = name,
                count = total,
                open,
                replay,
                discard,
                give_back
            ),
        });
    }
    let about = scope(about, total);
    let figure = |count: u64| format!("{:>9}", thousands(count));
    let mut verdicts: Vec<String> = present()
        .map(|it| {
            let effect = text!("letters-effect", effect = <&str>::from(command.effect(it)));
            let (count, verdict) = (figure(counts.of(it)), text!("letters-verdict", verdict = it));
            text!("letters-verdict-line", count, verdict, effect)
        })
        .collect();
    if *gone > 0 {
        verdicts.push(text!("letters-marked-no-longer-present", gone = figure(*gone)));
    }
    let verdicts = verdicts.join("\n");
    Ok(match command {
        LetterCommand::Replay => question!("ask-replay-letters", about, done, stay, verdicts),
        LetterCommand::Discard => question!("ask-discard-letters", about, done, stay, verdicts),
        LetterCommand::Compensate => {
            question!("ask-compensate-letters", about, done, stay, verdicts, orders)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_letter_of_a_waiting_buyer_is_removed_without_compensation() {
        for &verdict in LetterVerdict::ALL {
            let discarded = LetterCommand::Discard.effect(verdict);
            assert_eq!(discarded == Effect::Stays, verdict.is_awaited(), "{verdict}");
            let given_back = LetterCommand::Compensate.effect(verdict);
            assert_eq!(given_back == Effect::Removed, !verdict.is_awaited(), "{verdict}");
            assert!(!why(verdict).contains("  "), "{verdict}");
        }
    }
}
