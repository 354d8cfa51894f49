//! Lists of stream entries that are read page by page, by ID: pending entries and dead letters.

use ratatui::text::{Line, Span};
use seckill_engine::telemetry::Snapshot;
use seckill_model::{EntryId, message::text};

use super::{
    Scene, Step,
    table::{Controls, Extent, Row, Sheet, TableState, TableView, Toward, Turn},
};
use crate::{
    text::{self, figures},
    views::table::Pager,
};

/// A row of a paged list.
pub(crate) trait PagedRow: Row<Id = EntryId> {
    /// The page of this list in a snapshot.
    fn page(snapshot: &Snapshot) -> Page<'_, Self>;

    /// Whether the page in the snapshot is known, also if it is empty.
    fn is_known(scene: &Scene<'_>) -> bool;
}

/// One page of a list.
pub(crate) struct Page<'a, R> {
    /// Its start: rows with this ID or later.
    pub(crate) from: EntryId,
    pub(crate) lines: &'a [R],
    /// Rows of the whole list.
    pub(crate) total: u64,
    /// There are rows after it.
    pub(super) more: bool,
    /// It was read for this snapshot, so missing rows are gone.
    pub(super) is_fresh: bool,
}

impl<R: PagedRow> Page<'_, R> {
    /// Whether it is the whole list, and can be sorted.
    pub(crate) fn is_whole(&self) -> bool {
        self.from == EntryId::MIN && !self.more
    }

    pub(super) fn extent(&self) -> Extent {
        Extent::counted(self.lines.len(), self.total)
    }

    /// The last ID that the page covers.
    fn end(&self) -> EntryId {
        self.lines.last().filter(|_| self.more).map_or(EntryId::MAX, R::id)
    }
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

/// The user's position in a paged list.
#[derive(Debug)]
pub(crate) struct PagedState<R: PagedRow> {
    pub(crate) table: TableState<R>,
    pager: Pager<EntryId>,
}

impl<R: PagedRow> Default for PagedState<R> {
    fn default() -> Self {
        Self { table: TableState::default(), pager: Pager::default() }
    }
}

impl<R: PagedRow> PagedState<R> {
    pub(crate) fn is_waiting(&self) -> bool {
        self.pager.is_waiting()
    }

    /// Start of the page to be read.
    pub(crate) fn from(&self) -> EntryId {
        self.pager.at()
    }

    /// Revalidates cursor and marks against a new snapshot.
    pub(crate) fn settle(&mut self, snapshot: &Snapshot) -> Settled {
        let page = R::page(snapshot);
        let mut settled = Settled::default();
        if !page.is_fresh {
            return settled;
        }
        // Sorting one page would hide that the list is longer.
        settled.unordered = !page.is_whole() && self.table.controls.order.take().is_some();
        if let Some(toward) = self.pager.arrived(page.from) {
            let back = toward == Toward::Back;
            let edge = if back { page.lines.last() } else { page.lines.first() };
            self.table.cursor = edge.map(R::id);
        }
        if page.lines.is_empty() && page.from != EntryId::MIN && !self.is_waiting() {
            self.pager.turn(Toward::First, None);
            settled.turned = true;
        }
        // Only a page shows that a row is gone; marks on other pages are kept.
        let marks = &mut self.table.marks;
        let (held, covered) = (marks.len(), page.from..=page.end());
        let is_there = |id: &EntryId| page.lines.iter().any(|line| line.id() == *id);
        marks.retain(|mark| !covered.contains(mark) || is_there(mark));
        settled.marks_gone = held - marks.len();
        self.table.all_marked &= page.total > 0;
        self.settle_cursor(snapshot);
        settled
    }

    /// Commands in progress, marks, filter, and the range of the page.
    pub(super) fn summary(&self, scene: &Scene<'_>, shown: usize) -> Line<'static> {
        let (theme, snapshot) = (scene.theme, scene.snapshot);
        let page = R::page(snapshot);
        let loaded = page.lines.len();
        let mut spans = Vec::new();
        for line in &snapshot.recoveries {
            let act = text::time::act_word(&line.act);
            let text = text!("recovery-of", act, done = line.done, planned = line.planned);
            spans.push(Span::styled(format!("{text}   "), theme.key()));
        }
        let marked = self.table.marked(snapshot);
        if self.table.all_marked {
            let text = text!("console-all-marked", count = page.total);
            spans.push(Span::styled(format!("{text}   "), theme.key()));
        } else if marked.count > 0 {
            spans.push(Span::styled(format!("{}   ", text::marked(marked)), theme.key()));
        }
        let filter = self.table.controls.filter.value();
        if !filter.is_empty() {
            let part = text!("console-of-on-this-page", shown, of = loaded);
            spans.push(Span::raw(format!("/{}   {part}   ", scene.fit(filter, 20))));
        }
        if self.is_waiting() {
            spans.push(Span::styled(format!("{}   ", text::READING), theme.warn()));
        }
        let whole = match loaded as u64 {
            last @ 1.. if page.from == EntryId::MIN => {
                text!("console-of", first = 1, last, total = page.total.max(last))
            }
            // Not read is not zero.
            _ if snapshot.stream.is_none() => String::new(),
            _ => figures::thousands(page.total),
        };
        spans.push(Span::styled(whole, theme.soft()));
        Line::from(spans)
    }
}

impl<R: PagedRow> TableView for PagedState<R> {
    fn controls(&self) -> &Controls {
        &self.table.controls
    }

    fn controls_mut(&mut self) -> &mut Controls {
        &mut self.table.controls
    }

    fn chosen_name(&self, snapshot: &Snapshot) -> Option<String> {
        self.table.chosen_name(snapshot)
    }

    fn settle_cursor(&mut self, snapshot: &Snapshot) {
        self.table.settle_cursor(snapshot);
    }

    fn step(&mut self, snapshot: &Snapshot, step: Step) -> Turn {
        if self.is_waiting() {
            return Turn::Waiting;
        }
        if self.table.step(&self.table.rows(snapshot), step) {
            return Turn::Moved;
        }
        let page = R::page(snapshot);
        match step.is_forward() {
            true if page.more => Turn::Page(Toward::Further),
            false if page.from != EntryId::MIN && step == Step::First => Turn::Page(Toward::First),
            false if page.from != EntryId::MIN => Turn::Page(Toward::Back),
            _ => Turn::edge(step),
        }
    }

    fn turn(&mut self, snapshot: &Snapshot, toward: Toward) {
        let last = R::page(snapshot).lines.last();
        self.pager.turn(toward, last.and_then(|last| last.id().next_of_all()));
    }

    fn sheet(&self, scene: &Scene<'_>) -> Option<Sheet> {
        let sheet = self.table.sheet(scene)?;
        let is_known = R::is_known(scene) && !self.is_waiting();
        (is_known || !sheet.rows.is_empty()).then_some(sheet)
    }

    fn extent(&self, snapshot: &Snapshot) -> Extent {
        R::page(snapshot).extent()
    }
}
