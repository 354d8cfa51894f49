//! Texts of dead letters: their verdicts, the effects of a command, and its outcome.

use seckill_engine::dead_letters::LettersCounted;
use seckill_model::{
    LetterCounts, LetterVerdict,
    message::{Label, text},
};

use crate::{
    keymap::{Action, key_of},
    text::{
        commands::{FOR_GOOD, Question},
        figures::thousands,
    },
    views::Marked,
};

pub(crate) const NOTHING_DEAD: Label = Label("letters-there-are-no-dead-letters");

/// What a command does with dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        Selected::One(letter) => text!("letters-1-dead-letter", letter),
        Selected::All { shown: None } => text!("letters-all", count = total),
        Selected::All { shown: Some(shown) } => {
            text!("letters-all-not-only-filtered-ones", count = total, shown)
        }
        Selected::Marked(Marked { count, filtered, elsewhere }) => {
            let mut text = text!("letters-marked", count);
            if *filtered > 0 {
                text += &text!("letters-of-them-hidden-by-filter", hidden = filtered);
            }
            if *elsewhere > 0 {
                text += &text!("letters-on-other-pages", other = elsewhere);
            }
            text
        }
    }
}

/// The effect on letters of one verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Replayed,
    Removed,
    Cancelled,
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
            (Self::Replay, _) | (_, LetterVerdict::IdTaken) => Effect::Stays,
            (Self::Discard, verdict) if verdict.is_awaited() => Effect::Stays,
            (Self::Compensate, verdict) if verdict.is_awaited() => Effect::Cancelled,
            _ => Effect::Removed,
        }
    }

    /// How many of them it changes.
    pub(crate) fn done(self, counts: &LetterCounts) -> u64 {
        counts.total() - self.count(counts, Effect::Stays)
    }

    /// How many of them have that effect.
    fn count(self, counts: &LetterCounts, effect: Effect) -> u64 {
        let verdicts = LetterVerdict::ALL.iter().copied();
        verdicts.filter(|it| self.effect(*it) == effect).map(|it| counts.of(it)).sum()
    }
}

/// The verdict, in a column.
pub(crate) fn verdict_word(verdict: LetterVerdict) -> String {
    text!("letters-verdict", verdict)
}

/// The reason and the consequence, with the key for it.
pub(crate) fn why(verdict: LetterVerdict) -> String {
    let (replay, discard, give_back) =
        (key_of(Action::ReplayLetters), key_of(Action::Discard), key_of(Action::Compensate));
    match verdict {
        LetterVerdict::Awaited => text!("letters-buyer-is-waiting", replay),
        LetterVerdict::CameBack => text!("letters-every-replay-failed-fix-reason", give_back),
        LetterVerdict::Written => {
            text!("letters-order-is-in-sql-press", discard)
        }
        LetterVerdict::NotAwaited => text!("letters-buyer-has-no-order", discard),
        LetterVerdict::NoSale => text!("letters-sale-does-not-exist-so", discard),
        LetterVerdict::NotLoaded => text!("letters-sale-is-not-in-redis", give_back),
        LetterVerdict::IdTaken => text!("letters-buyer-is-waiting-but-order"),
        LetterVerdict::HoldsAnother => {
            text!("letters-buyer-has-another-live-order", give_back)
        }
        LetterVerdict::Malformed => {
            text!("letters-no-order-can-be-created", discard)
        }
    }
}

/// What the command would do, in exact counts; or why there is nothing to do.
pub(crate) fn question(
    command: LetterCommand,
    found: &LettersCounted,
    about: &Selected,
) -> Result<Question, String> {
    let LettersCounted { counts, gone, .. } = found;
    let stay = command.count(counts, Effect::Stays);
    let (total, done) = (counts.total(), counts.total() - stay);
    let given_back = command.count(counts, Effect::Cancelled);
    if total == 0 {
        let all = matches!(about, Selected::All { .. });
        return Err(if all { NOTHING_DEAD } else { Label("letters-these-letters-are-no-longer") }
            .to_string());
    }
    if done == 0 || (command == LetterCommand::Compensate && given_back == 0) {
        let only = LetterVerdict::ALL.iter().copied().find(|it| total == 1 && counts.of(*it) == 1);
        return Err(only.map_or_else(|| nothing_to_do(command, total), why));
    }
    let (title, yes) = match command {
        LetterCommand::Replay => (Label("letters-put-them-back"), Label("letters-replay")),
        LetterCommand::Discard => (Label("letters-discard-them"), Label("letters-discard")),
        LetterCommand::Compensate => {
            (Label("letters-cancel-orders-and-return-stock"), Label("letters-give-back"))
        }
    };
    let effect = match command {
        LetterCommand::Replay => text!("letters-into-the-order-stream", count = done),
        _ => text!("letters-will-be-deleted-permanently", count = done),
    };
    let stays = if stay == 0 { String::new() } else { text!("letters-some-stay", count = stay) };
    let about = scope(about, total);
    let mut lines = vec![text!("letters-fate", about, effect, stays)];
    for it in LetterVerdict::ALL.iter().copied().filter(|it| counts.of(*it) > 0) {
        let count = thousands(counts.of(it));
        let (verdict, effect) = (verdict_word(it), effect_text(command, it));
        lines.push(text!("letters-verdict-line", count = format!("{count:>9}"), verdict, effect));
    }
    if *gone > 0 {
        let gone = thousands(*gone);
        lines.push(text!("letters-marked-no-longer-present", gone = format!("{gone:>9}")));
    }
    lines.push(match command {
        LetterCommand::Replay => {
            text!("letters-engine-tries-to-write-their")
        }
        LetterCommand::Discard => FOR_GOOD.to_string(),
        LetterCommand::Compensate => {
            text!("letters-orders-are-cancelled-and-stock", orders = given_back)
        }
    });
    Ok(Question::new(title, lines, yes))
}

/// The effect on letters of this verdict.
fn effect_text(command: LetterCommand, verdict: LetterVerdict) -> &'static str {
    let text = match (command.effect(verdict), command, verdict) {
        (Effect::Replayed, ..) => Label("letters-action-replayed"),
        (Effect::Removed, ..) => Label("letters-removed"),
        (Effect::Cancelled, ..) => Label("letters-cancelled-given-back-removed"),
        (Effect::Stays, LetterCommand::Replay, LetterVerdict::CameBack) => {
            Label("letters-stay-dead-replay-force")
        }
        (Effect::Stays, ..) => Label("letters-action-kept"),
    };
    text.read()
}

fn nothing_to_do(command: LetterCommand, total: u64) -> String {
    let (discard, replay, give_back) =
        (key_of(Action::Discard), key_of(Action::ReplayLetters), key_of(Action::Compensate));
    let (count, open) = (total, key_of(Action::Open));
    match command {
        LetterCommand::Replay => text!("letters-none-can-be-replayed", count, open),
        LetterCommand::Discard => {
            text!("letters-dead-letters-may-have-waiting", count, replay, give_back)
        }
        LetterCommand::Compensate => text!("letters-no-buyer-is-waiting", count, discard),
    }
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
