//! State of a paged list: page, cursor and marks, all by ID.

use std::{collections::BTreeSet, marker::PhantomData};

use seckill_engine::telemetry::Snapshot;
use seckill_model::EntryId;
use tui_input::Input;

use super::{
    Step,
    columns::{Wanted, sort},
    paged_rows::PagedRow,
};
use crate::widgets::Scroll;

/// The user's position in a paged list.
#[derive(Debug)]
pub(crate) struct PagedState<R> {
    pub(crate) cursor: Option<EntryId>,
    /// Row of the cursor, in case its line vanishes.
    row: usize,
    pub(crate) marks: BTreeSet<EntryId>,
    /// The whole list is marked, including other pages.
    pub(crate) all: bool,
    pub(crate) filter: Input,
    pub(crate) scroll: Scroll,
    pub(crate) detail: bool,
    /// Start of the page requested last.
    from: EntryId,
    /// Starts of the pages before it.
    starts: Vec<EntryId>,
    /// A requested page that has not arrived.
    awaited: Option<(EntryId, bool)>,
    of: PhantomData<R>,
}

impl<R> Default for PagedState<R> {
    fn default() -> Self {
        Self {
            cursor: None,
            row: 0,
            marks: BTreeSet::new(),
            all: false,
            filter: Input::default(),
            scroll: Scroll::default(),
            detail: false,
            from: EntryId::MIN,
            starts: Vec::new(),
            awaited: None,
            of: PhantomData,
        }
    }
}

/// Counts of marked rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marked {
    pub(crate) count: usize,
    /// Marked rows that the filter hides.
    pub(crate) filtered: usize,
    /// Marked rows on other pages.
    pub(crate) elsewhere: usize,
}

/// The effect of a movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Moved,
    /// A page is outstanding.
    Waiting,
    /// There is no further page.
    Edge {
        top: bool,
    },
    /// Another page has to be read.
    Page(PageTurn),
}

/// Direction of paging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageTurn {
    Next(EntryId),
    Previous,
    First,
}

/// The effect of a new snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) marks_gone: usize,
    /// The page is empty, so another one has to be read.
    pub(crate) turned: bool,
    /// The list grew beyond one page, and is in ID order again.
    pub(crate) unordered: bool,
}

impl<R: PagedRow> PagedState<R> {
    /// The rows of this page that match the filter.
    pub(crate) fn rows<'a>(&self, snapshot: &'a Snapshot) -> Vec<&'a R> {
        let wanted = Wanted::new(self.filter.value());
        let page = R::page(snapshot);
        let fits = |line: &&R| wanted.lets(|word| line.holds(word));
        let mut rows: Vec<&R> = page.lines.iter().filter(fits).collect();
        // Sorting one page would hide that the list is longer.
        sort(&mut rows, &R::facets(), self.scroll.order.as_ref().filter(|_| page.is_whole()));
        rows
    }

    pub(crate) fn position(&self, rows: &[&R]) -> Option<usize> {
        rows.iter().position(|line| Some(line.id()) == self.cursor)
    }

    pub(crate) fn chosen_line<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a R> {
        let rows = self.rows(snapshot);
        self.position(&rows).and_then(|row| rows.get(row).copied())
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.awaited.is_some()
    }

    /// Start of the page to be read.
    pub(crate) fn from(&self) -> EntryId {
        self.from
    }

    /// Revalidates cursor and marks against a new snapshot.
    pub(crate) fn settle(&mut self, snapshot: &Snapshot) -> Settled {
        let page = R::page(snapshot);
        let mut settled = Settled::default();
        if !page.fresh {
            return settled;
        }
        if !page.is_whole() && self.scroll.order.take().is_some() {
            settled.unordered = true;
        }
        if let Some((_, at_end)) = self.awaited.take_if(|(from, _)| *from == page.from) {
            let edge = if at_end { page.lines.last() } else { page.lines.first() };
            self.cursor = edge.map(R::id);
        }
        if page.lines.is_empty() && page.from != EntryId::MIN && self.awaited.is_none() {
            self.turn(PageTurn::First);
            settled.turned = true;
        }
        // Only a page shows that a row is gone; marks on other pages are kept.
        let held = self.marks.len();
        let (first, last) = page.span();
        let there: BTreeSet<EntryId> = page.lines.iter().map(R::id).collect();
        self.marks.retain(|mark| !(first..=last).contains(mark) || there.contains(mark));
        settled.marks_gone = held - self.marks.len();
        self.all &= page.total > 0;
        self.settle_cursor(snapshot);
        settled
    }

    /// The cursor stays on its row, or moves to the one that took its place.
    pub(crate) fn settle_cursor(&mut self, snapshot: &Snapshot) {
        let rows = self.rows(snapshot);
        if let Some(row) = self.position(&rows) {
            self.row = row;
            return;
        }
        let row = self.row.min(rows.len().saturating_sub(1));
        self.row = row;
        self.cursor = rows.get(row).map(|line| line.id());
    }

    /// Toggles the mark of the row under the cursor; `false` if there is none.
    pub(crate) fn mark(&mut self, snapshot: &Snapshot) -> bool {
        let Some(id) = self.chosen_line(snapshot).map(R::id) else { return false };
        if !self.marks.remove(&id) {
            self.marks.insert(id);
        }
        true
    }

    pub(crate) fn unmark(&mut self) {
        self.marks.clear();
        self.all = false;
    }

    /// StreamPositions the whole list, or with a filter the rows that match; if they are already marked, unmarks them. `false` if
    /// there is no row.
    pub(crate) fn mark_all(&mut self, snapshot: &Snapshot) -> bool {
        let shown: Vec<EntryId> = self.rows(snapshot).into_iter().map(R::id).collect();
        if std::mem::take(&mut self.all) {
            return true;
        }
        if self.filter.value().is_empty() {
            self.marks.clear();
            self.all = !shown.is_empty();
        } else if shown.iter().all(|id| self.marks.contains(id)) {
            self.marks.retain(|mark| !shown.contains(mark));
        } else {
            self.marks.extend(&shown);
        }
        !shown.is_empty()
    }

    /// Counts marked rows, and those not visible.
    pub(crate) fn hidden(&self, snapshot: &Snapshot) -> Marked {
        let shown: BTreeSet<EntryId> = self.rows(snapshot).into_iter().map(R::id).collect();
        let page: BTreeSet<EntryId> = R::page(snapshot).lines.iter().map(R::id).collect();
        let elsewhere = self.marks.difference(&page).count();
        let filtered = self.marks.intersection(&page).filter(|mark| !shown.contains(mark)).count();
        Marked { count: self.marks.len(), filtered, elsewhere }
    }

    pub(crate) fn step(&mut self, snapshot: &Snapshot, step: Step) -> Turn {
        if self.is_waiting() {
            return Turn::Waiting;
        }
        let rows = self.rows(snapshot);
        let row = self.position(&rows).unwrap_or(0);
        let next = step.from(row, rows.len(), self.scroll.visible);
        if next != row {
            self.row = next;
            self.cursor = rows.get(next).map(|line| line.id());
            return Turn::Moved;
        }
        let page = R::page(snapshot);
        let forward = matches!(step, Step::Last | Step::By(1..) | Step::Screens(1..));
        let next = page.lines.last().filter(|_| page.more);
        match (forward, next.and_then(|last| last.id().next_of_all())) {
            (true, Some(next)) => Turn::Page(PageTurn::Next(next)),
            (false, _) if page.from != EntryId::MIN => Turn::Page(match step {
                Step::First => PageTurn::First,
                _ => PageTurn::Previous,
            }),
            _ => Turn::Edge { top: !forward },
        }
    }

    /// Moves to another page, which has to be read.
    pub(crate) fn turn(&mut self, turn: PageTurn) {
        self.from = match turn {
            PageTurn::Next(from) => {
                self.starts.push(self.from);
                from
            }
            PageTurn::Previous => self.starts.pop().unwrap_or(EntryId::MIN),
            PageTurn::First => {
                self.starts.clear();
                EntryId::MIN
            }
        };
        self.awaited = Some((self.from, turn == PageTurn::Previous));
    }
}
