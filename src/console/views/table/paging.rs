//! Lists that the engine reads page by page, each page by its key: the list that it belongs to, and its boundary.

use std::fmt;

use seckill_engine::telemetry::{OrdersView, StreamView, log::LogView};
use seckill_model::{EntryId, text};

use crate::{text::conventions, views::Step};

/// What the engine needs to read a page. The default is the first page of the default list.
pub(crate) trait PageKey: Copy + Default + PartialEq + fmt::Debug {
    /// The first page of the same list.
    fn first(self) -> Self;

    /// Whether rows of that page belong to this list.
    fn includes(self, page: Self) -> bool {
        self.first() == page.first()
    }
}

/// A list that every snapshot contains as a whole.
impl PageKey for () {
    fn first(self) {}
}

impl PageKey for EntryId {
    fn first(self) -> Self {
        Self::MIN
    }
}

impl PageKey for StreamView {
    fn first(self) -> Self {
        Self { before: None, ..self }
    }
}

impl PageKey for OrdersView {
    fn first(self) -> Self {
        Self { before: None, ..self }
    }
}

impl PageKey for LogView {
    fn first(self) -> Self {
        Self { before: None, ..self }
    }

    /// Until a page of this level arrives, the lines of another one are filtered.
    fn includes(self, _page: Self) -> bool {
        true
    }
}

/// The order of a list, and what new rows do to its first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paging {
    /// New rows are added at the end.
    Forward,
    /// Newest first. The page is held once the cursor moves, so that new rows do not shift it.
    NewestFirst,
    /// Newest last, and held in the same way.
    NewestLast,
    /// Newest last, with so few new rows that the first page grows under the cursor.
    Log,
}

impl Paging {
    pub(super) fn is_held(self) -> bool {
        matches!(self, Self::NewestFirst | Self::NewestLast)
    }

    pub(super) fn is_newest_last(self) -> bool {
        matches!(self, Self::NewestLast | Self::Log)
    }
}

/// Direction in which a page was requested, away from the first page or back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Toward {
    Further,
    Back,
    First,
}

/// The effect of a movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The cursor moved, or does so once a page arrives.
    Moved,
    /// There is no further row or page.
    Edge { top: bool },
    /// The further page is not read while the display is paused.
    Frozen,
}

impl Turn {
    pub(crate) fn edge(step: Step) -> Self {
        Self::Edge { top: !step.is_forward() }
    }

    /// Why the cursor did not move.
    pub(crate) fn note(self) -> Option<String> {
        match self {
            Self::Moved => None,
            Self::Edge { top } => Some(text!("command-edge", top)),
            Self::Frozen => Some(conventions::frozen()),
        }
    }
}
