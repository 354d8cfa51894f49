//! The letters that a command applies to, and its outcome.

use seckill_model::{EntryId, LetterCounts, filter::Filter};
use serde::{Deserialize, Serialize};

/// Dead letters that a command applies to.
#[derive(Clone, Debug, PartialEq)]
pub enum LetterScope {
    /// These letters, by ID.
    Letters(Vec<EntryId>),
    /// Those that match, by the fields of `LETTER_FIELDS`.
    Matching {
        /// The filter.
        filter: Filter,
        /// The last letter; for a command, the last one that the preview counted.
        last: EntryId,
    },
}

/// Preview of a command on dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LettersCounted {
    /// Existing letters, by state.
    pub counts: LetterCounts,
    /// Named letters that no longer exist.
    pub gone: u64,
    /// The last matching letter that was read.
    pub last: EntryId,
}

impl LetterScope {
    /// The letters that were counted, without any added since.
    #[must_use]
    pub fn as_counted(self, found: &LettersCounted) -> Self {
        match self {
            Self::Letters(ids) => Self::Letters(ids),
            Self::Matching { filter, .. } => Self::Matching { filter, last: found.last },
        }
    }
}

/// Outcome of a replay of dead letters; the keys are a contract of `dead replay --json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LettersReplayed {
    /// Number of letters selected.
    pub seen: u64,
    /// Replayed into the order stream.
    pub replayed: u64,
    /// Kept, by state.
    pub refused: LetterCounts,
    /// No longer there.
    pub gone: u64,
    /// The command was stopped before the last letter.
    pub cut_short: bool,
}

/// Outcome of a discard of dead letters; the keys are a contract of `dead discard --json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LettersDiscarded {
    /// Number of letters selected.
    pub seen: u64,
    /// Removed.
    pub discarded: u64,
    /// Orders that this command recorded in SQL as cancelled.
    pub compensated: u64,
    /// Pieces and places that this command returned in Redis.
    pub given_back: u64,
    /// Kept, by state.
    pub refused: LetterCounts,
    /// No longer there.
    pub gone: u64,
    /// The command was stopped before the last letter.
    pub cut_short: bool,
}
