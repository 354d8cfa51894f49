//! The user's position in a table: cursor and marks by the identity of rows, filter, order, page.

use std::{collections::BTreeSet, fmt};

use seckill_engine::telemetry::Snapshot;
use seckill_model::message::Label;
use tui_input::Input;

use super::{Extent, Row, Sheet};
use crate::views::{Scene, Step};

/// The requested order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// Heading of the column.
    pub(crate) title: Label,
    pub(crate) is_descending: bool,
}

/// What a user can set in any table, and what was visible last.
#[derive(Debug, Default)]
pub(crate) struct Controls {
    pub(crate) filter: Input,
    /// The detail of the chosen row is open.
    pub(crate) detail: bool,
    pub(crate) order: Option<Order>,
    /// Headings of the visible columns that rows can be sorted by.
    pub(super) sortable: Vec<Label>,
    pub(super) offset: usize,
    pub(super) visible: usize,
    /// The number of rows, and the row under the cursor.
    pub(crate) total: usize,
    pub(crate) cursor: Option<usize>,
    /// Screen line of the first row; `None` if no row is on the screen.
    pub(crate) top: Option<u16>,
}

impl Controls {
    /// The number of rows that fit.
    pub(crate) fn visible(&self) -> usize {
        self.visible
    }

    /// The row at a screen line.
    pub(crate) fn row_at(&self, line: u16) -> Option<usize> {
        let row = usize::from(line.checked_sub(self.top?)?);
        (row < self.visible).then_some(self.offset + row).filter(|row| *row < self.total)
    }

    /// Scrolls just far enough to show `cursor`, and not beyond the end.
    pub(crate) fn follow(&mut self, cursor: Option<usize>, total: usize, visible: usize) {
        self.visible = visible;
        (self.total, self.cursor) = (total, cursor);
        if let Some(cursor) = cursor {
            self.offset = self.offset.min(cursor).max((cursor + 1).saturating_sub(visible));
        }
        self.offset = self.offset.min(total.saturating_sub(visible));
    }

    /// Sorts by the next visible column; after the last one, rows are in their natural order.
    pub(crate) fn next_order(&mut self) {
        let column = |title| self.sortable.iter().position(|it| *it == title);
        let next = match self.order {
            None => Some(0),
            Some(order) => column(order.title).map(|now| now + 1),
        };
        let title = next.and_then(|next| self.sortable.get(next));
        self.order = title.map(|title| Order { title: *title, is_descending: false });
    }
}

/// Words that a row must contain, or after a `!` must not.
struct Filter(Vec<(bool, String)>);

impl Filter {
    fn new(text: &str) -> Self {
        let words = text.split_whitespace().map(|word| match word.strip_prefix('!') {
            Some(word) => (false, word.to_lowercase()),
            None => (true, word.to_lowercase()),
        });
        Self(words.filter(|(_, word)| !word.is_empty()).collect())
    }

    /// Whether a row for which `holds` finds words passes the filter.
    fn passes(&self, holds: impl Fn(&str) -> bool) -> bool {
        self.0.iter().all(|(wanted, word)| holds(word) == *wanted)
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

/// Cursor, marks and controls of a table. The cursor follows the identity, not the row.
pub(crate) struct TableState<R: Row> {
    pub(crate) cursor: Option<R::Id>,
    /// Row of the cursor, in case it vanishes.
    row: usize,
    pub(crate) marks: BTreeSet<R::Id>,
    /// The whole list is marked, including other pages.
    pub(crate) all_marked: bool,
    pub(crate) controls: Controls,
}

impl<R: Row> Default for TableState<R> {
    fn default() -> Self {
        let titles = R::COLUMNS.iter().filter(|it| it.is_sortable()).map(|it| it.title);
        Self {
            cursor: None,
            row: 0,
            marks: BTreeSet::new(),
            all_marked: false,
            controls: Controls { sortable: titles.collect(), ..Controls::default() },
        }
    }
}

impl<R: Row> fmt::Debug for TableState<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableState").field("controls", &self.controls).finish_non_exhaustive()
    }
}

impl<R: Row> TableState<R> {
    /// The loaded rows that match the filter, in the requested order.
    pub(crate) fn rows<'a>(&self, snapshot: &'a Snapshot) -> Vec<&'a R> {
        let filter = Filter::new(self.controls.filter.value());
        let mut rows = R::list(snapshot);
        rows.retain(|row| filter.passes(|word| row.holds(word)));
        if let Some(order) = self.controls.order {
            sort(&mut rows, order);
        }
        rows
    }

    pub(crate) fn position(&self, rows: &[&R]) -> Option<usize> {
        let cursor = self.cursor.as_ref()?;
        rows.iter().position(|row| row.id() == *cursor)
    }

    /// The row under the cursor, also in a newer snapshot.
    pub(crate) fn chosen<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a R> {
        let cursor = self.cursor.as_ref()?;
        R::list(snapshot).into_iter().find(|row| row.id() == *cursor)
    }

    /// Moves the cursor to this row.
    pub(crate) fn point_at(&mut self, rows: &[&R], row: usize) {
        self.row = row;
        self.cursor = rows.get(row).map(|row| row.id());
    }

    /// The cursor stays on its row, or moves to the one that took its place.
    pub(crate) fn settle(&mut self, rows: &[&R]) {
        let row = self.position(rows).unwrap_or(self.row.min(rows.len().saturating_sub(1)));
        self.point_at(rows, row);
    }

    /// As [`Self::settle`] for a list that is not paged; rows that are gone lose their marks.
    pub(crate) fn settle_list(&mut self, snapshot: &Snapshot) {
        self.settle(&self.rows(snapshot));
        if !self.marks.is_empty() {
            let list = R::list(snapshot);
            let there = |id: &R::Id| list.iter().any(|row| row.is_markable() && row.id() == *id);
            self.marks.retain(there);
        }
    }

    /// Moves the cursor, into the table if no row has it; `false` if it is at the edge.
    pub(crate) fn step(&mut self, rows: &[&R], step: Step) -> bool {
        let now = self.position(rows);
        let next = match now {
            Some(row) => step.from(row, rows.len(), self.controls.visible),
            None if step == Step::Last => rows.len().saturating_sub(1),
            None => 0,
        };
        let has_moved = next < rows.len() && now != Some(next);
        if has_moved {
            self.point_at(rows, next);
        }
        has_moved
    }

    /// Toggles the mark of the row under the cursor; `false` if it has none.
    pub(crate) fn mark(&mut self, snapshot: &Snapshot) -> bool {
        let Some(row) = self.chosen(snapshot).filter(|row| row.is_markable()) else { return false };
        let id = row.id();
        if !self.marks.remove(&id) {
            self.marks.insert(id);
        }
        true
    }

    pub(crate) fn unmark(&mut self) {
        self.marks.clear();
        self.all_marked = false;
    }

    /// Marks the whole list, or with a filter the rows that match; if they are already marked, unmarks them. `false` if
    /// there is no row.
    pub(crate) fn mark_all(&mut self, snapshot: &Snapshot) -> bool {
        let shown: BTreeSet<R::Id> = self.rows(snapshot).into_iter().map(R::id).collect();
        if std::mem::take(&mut self.all_marked) {
            return true;
        }
        if self.controls.filter.value().is_empty() {
            self.marks.clear();
            self.all_marked = !shown.is_empty();
        } else if shown.is_subset(&self.marks) {
            self.marks.retain(|mark| !shown.contains(mark));
        } else {
            self.marks.extend(shown.iter().cloned());
        }
        !shown.is_empty()
    }

    pub(super) fn is_marked(&self, row: &R) -> bool {
        self.all_marked || self.marks.contains(&row.id())
    }

    /// Counts marked rows, and those not visible.
    pub(crate) fn marked(&self, snapshot: &Snapshot) -> Marked {
        let marked = |rows: Vec<&R>| rows.iter().filter(|it| self.marks.contains(&it.id())).count();
        let (count, loaded) = (self.marks.len(), marked(R::list(snapshot)));
        let filtered = loaded - marked(self.rows(snapshot));
        Marked { count, filtered, elsewhere: count - loaded }
    }
}

/// Sorts rows; the sort is stable, and unknown values are last in either order.
fn sort<R: Row>(rows: &mut Vec<&R>, order: Order) {
    let Some(column) = R::COLUMNS.iter().find(|it| it.title == order.title) else { return };
    let mut keyed: Vec<_> = rows.drain(..).map(|row| (column.key(row), row)).collect();
    keyed.sort_by(|(one, _), (two, _)| match (one, two) {
        (Some(one), Some(two)) if order.is_descending => two.cmp(one),
        (Some(one), Some(two)) => one.cmp(two),
        _ => one.is_none().cmp(&two.is_none()),
    });
    rows.extend(keyed.into_iter().map(|(_, row)| row));
}

/// Direction of paging, away from the first page or back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toward {
    Further,
    Back,
    First,
}

/// The effect of a movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Moved,
    /// A page is outstanding.
    Waiting,
    /// There is no further row or page.
    Edge {
        top: bool,
    },
    /// Another page has to be read.
    Page(Toward),
    /// The page has to be held, as the user left the end to which rows are added.
    Hold,
}

impl Turn {
    pub(crate) fn edge(step: Step) -> Self {
        Self::Edge { top: !step.is_forward() }
    }
}

/// Pages of a list that is read page by page, each by its boundary; the default is the first one.
#[derive(Debug, Default)]
pub(crate) struct Pager<P> {
    at: P,
    /// Boundaries of the pages between the first one and this; the last is the nearest.
    nearer: Vec<P>,
    /// The direction of a requested page that has not arrived.
    awaited: Option<Toward>,
}

impl<P: Copy + Default + PartialEq> Pager<P> {
    /// The page to be read.
    pub(crate) fn at(&self) -> P {
        self.at
    }

    pub(crate) fn is_first(&self) -> bool {
        self.at == P::default()
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.awaited.is_some()
    }

    /// The direction in which the awaited page was requested, if `shown` is that page.
    pub(crate) fn arrived(&mut self, shown: P) -> Option<Toward> {
        self.awaited.take_if(|_| shown == self.at)
    }

    /// Moves to another page; `further` is the one after this.
    pub(crate) fn turn(&mut self, toward: Toward, further: Option<P>) {
        match (toward, further) {
            (Toward::Further, Some(further)) => {
                self.nearer.push(std::mem::replace(&mut self.at, further));
            }
            (Toward::Further, None) => return,
            (Toward::Back, _) => self.at = self.nearer.pop().unwrap_or_default(),
            (Toward::First, _) => {
                self.nearer.clear();
                self.at = P::default();
            }
        }
        self.awaited = Some(toward);
    }

    /// Fixes the first page at a boundary, so that new rows do not move it.
    pub(crate) fn hold(&mut self, boundary: P) {
        self.nearer.push(std::mem::replace(&mut self.at, boundary));
    }

    /// Gives up on a page that does not arrive.
    pub(crate) fn stop_waiting(&mut self) {
        self.awaited = None;
    }
}

/// The table of a view, whatever its rows.
pub(crate) trait TableView {
    fn controls(&self) -> &Controls;

    fn controls_mut(&mut self) -> &mut Controls;

    /// The text that the filter key edits.
    fn input(&mut self) -> &mut Input {
        &mut self.controls_mut().filter
    }

    /// The ID or name of the row under the cursor.
    fn chosen_name(&self, snapshot: &Snapshot) -> Option<String>;

    /// Revalidates the cursor after a change of the filter.
    fn settle_cursor(&mut self, snapshot: &Snapshot);

    fn step(&mut self, snapshot: &Snapshot, step: Step) -> Turn;

    /// Moves to another page, which has to be read.
    fn turn(&mut self, _snapshot: &Snapshot, _toward: Toward) {}

    /// Holds the visible page.
    fn hold(&mut self, _snapshot: &Snapshot) {}

    /// All loaded rows that match the filter; `None` if nothing was read yet.
    fn sheet(&self, scene: &Scene<'_>) -> Option<Sheet>;

    /// How much of the list is loaded.
    fn extent(&self, snapshot: &Snapshot) -> Extent;
}

impl<R: Row> TableView for TableState<R> {
    fn controls(&self) -> &Controls {
        &self.controls
    }

    fn controls_mut(&mut self) -> &mut Controls {
        &mut self.controls
    }

    fn chosen_name(&self, snapshot: &Snapshot) -> Option<String> {
        self.chosen(snapshot).map(R::name)
    }

    fn settle_cursor(&mut self, snapshot: &Snapshot) {
        self.settle(&self.rows(snapshot));
    }

    fn step(&mut self, snapshot: &Snapshot, step: Step) -> Turn {
        let rows = self.rows(snapshot);
        if Self::step(self, &rows, step) { Turn::Moved } else { Turn::edge(step) }
    }

    fn sheet(&self, scene: &Scene<'_>) -> Option<Sheet> {
        let rows = self.rows(scene.snapshot);
        Some(Sheet::of(self, scene, &rows, self.position(&rows)))
    }

    fn extent(&self, snapshot: &Snapshot) -> Extent {
        R::extent(snapshot)
    }
}
