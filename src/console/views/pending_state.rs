//! Where the person is in the pending list: page, cursor and marks, all by entry id.

use std::collections::BTreeSet;

use tui_input::Input;

use super::Step;
use crate::{
    console::widgets::Scroll,
    model::EntryId,
    telemetry::{
        Snapshot,
        snapshot::{PendingLine, PendingPage},
    },
};

#[derive(Debug, Default)]
pub(crate) struct PendingState {
    pub(crate) cursor: Option<EntryId>,
    /// Row of the cursor, for when its entry is gone.
    row: usize,
    pub(crate) marks: BTreeSet<EntryId>,
    pub(crate) filter: Input,
    pub(crate) scroll: Scroll,
    pub(crate) detail: bool,
    /// Start of the page that was asked for last.
    from: EntryId,
    /// Starts of the pages before it.
    starts: Vec<EntryId>,
    /// A page that was asked for and has not come.
    awaited: Option<(EntryId, bool)>,
}

/// What a movement leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Moved,
    /// A page was asked for already.
    Waiting,
    /// There is nothing beyond.
    Edge {
        top: bool,
    },
    /// Another page has to be read.
    Page(PageTurn),
}

/// Which page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageTurn {
    Next(EntryId),
    Previous,
    First,
}

/// What a new picture did to the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) marks_gone: usize,
    /// The page is used up: read from here instead.
    pub(crate) turn_to: Option<EntryId>,
}

impl PendingState {
    /// The entries of this page that the filter lets through.
    pub(crate) fn rows<'a>(&self, snapshot: &'a Snapshot) -> Vec<&'a PendingLine> {
        let wanted = self.filter.value().trim().to_lowercase();
        let holds = |text: &str| text.to_lowercase().contains(&wanted);
        let fits = |line: &&PendingLine| {
            wanted.is_empty()
                || holds(&line.entry.to_string())
                || holds(&line.consumer)
                || line.order.is_some_and(|order| holds(&order.to_string()))
                || line.user.is_some_and(|user| holds(&user.to_string()))
                || line.voucher.is_some_and(|voucher| holds(&format!("#{voucher}")))
                || line.fault.as_deref().is_some_and(holds)
        };
        snapshot.pending.lines.iter().filter(fits).collect()
    }

    pub(crate) fn position(&self, rows: &[&PendingLine]) -> Option<usize> {
        rows.iter().position(|line| Some(line.entry) == self.cursor)
    }

    pub(crate) fn chosen_line<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a PendingLine> {
        let rows = self.rows(snapshot);
        self.position(&rows).and_then(|row| rows.get(row).copied())
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.awaited.is_some()
    }

    /// Keeps cursor and marks true against a new picture.
    pub(crate) fn settle(&mut self, snapshot: &Snapshot) -> Settled {
        let page = &snapshot.pending;
        let mut settled = Settled::default();
        if !snapshot.redis.up {
            return settled;
        }
        if let Some((_, at_end)) = self.awaited.take_if(|(from, _)| *from == page.from) {
            let edge = if at_end { page.lines.last() } else { page.lines.first() };
            self.cursor = edge.map(|line| line.entry);
        }
        if page.lines.is_empty() && page.from != EntryId::MIN && self.awaited.is_none() {
            settled.turn_to = Some(self.turn(PageTurn::First));
        }
        // Only a page can tell that an entry is gone; marks on other pages stay as they are.
        let held = self.marks.len();
        let (first, last) = span(snapshot);
        let there: BTreeSet<EntryId> = page.lines.iter().map(|line| line.entry).collect();
        self.marks.retain(|mark| !(first..=last).contains(mark) || there.contains(mark));
        settled.marks_gone = held - self.marks.len();
        self.settle_cursor(snapshot);
        settled
    }

    /// The cursor stays on its entry, or goes to the one that took its row.
    pub(crate) fn settle_cursor(&mut self, snapshot: &Snapshot) {
        let rows = self.rows(snapshot);
        if let Some(row) = self.position(&rows) {
            self.row = row;
            return;
        }
        let row = self.row.min(rows.len().saturating_sub(1));
        self.row = row;
        self.cursor = rows.get(row).map(|line| line.entry);
    }

    /// Marks or unmarks the entry under the cursor; `false` where there is none.
    pub(crate) fn mark(&mut self, snapshot: &Snapshot) -> bool {
        let Some(entry) = self.chosen_line(snapshot).map(|line| line.entry) else { return false };
        if !self.marks.remove(&entry) {
            self.marks.insert(entry);
        }
        true
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
            self.cursor = rows.get(next).map(|line| line.entry);
            return Turn::Moved;
        }
        let page = &snapshot.pending;
        let forward = matches!(step, Step::Last | Step::By(1..) | Step::Screens(1..));
        match (forward, page.lines.last()) {
            (true, Some(last)) if more_after(snapshot) => {
                Turn::Page(PageTurn::Next(last.entry.next_of_all()))
            }
            (false, _) if page.from != EntryId::MIN => Turn::Page(match step {
                Step::First => PageTurn::First,
                _ => PageTurn::Previous,
            }),
            _ => Turn::Edge { top: !forward },
        }
    }

    /// Goes to another page; returns from which entry it is to be read.
    pub(crate) fn turn(&mut self, turn: PageTurn) -> EntryId {
        let from = match turn {
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
        self.from = from;
        self.awaited = Some((from, turn == PageTurn::Previous));
        from
    }
}

/// Ids that the page speaks for.
fn span(snapshot: &Snapshot) -> (EntryId, EntryId) {
    let page = &snapshot.pending;
    let last = match page.lines.last() {
        Some(last) if more_after(snapshot) => last.entry,
        _ => EntryId::MAX,
    };
    (page.from, last)
}

/// Whether entries stand behind this page.
fn more_after(snapshot: &Snapshot) -> bool {
    let total = snapshot.stream.as_ref().map_or(0, |stream| stream.pending);
    match first_row(&snapshot.pending) {
        Some(before) => before + (snapshot.pending.lines.len() as u64) < total,
        None => !snapshot.pending.lines.is_empty(),
    }
}

/// How many entries stand before this page, if that is known.
pub(super) fn first_row(page: &PendingPage) -> Option<u64> {
    page.before.or((page.from == EntryId::MIN).then_some(0))
}
