//! The user's position in a table: cursor and marks by the identity of rows, filter, order, page.

use std::collections::BTreeSet;

use seckill_model::in_english;
use serde_json::Value as Json;
use tui_input::Input;

use super::{
    Sheet,
    paging::{PageKey as _, Toward},
};
use crate::views::prelude::*;

/// The requested order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// Heading of the column.
    pub(crate) title: Label,
    pub(crate) is_descending: bool,
}

impl Order {
    /// The summary of a sorted page.
    pub(crate) fn summary(self, rows: usize) -> String {
        text!("conventions-sorted-by-of-these", head = self.title.to_lowercase(), rows)
    }
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
    pub(crate) offset: usize,
    /// The number of rows that fit.
    pub(crate) visible: usize,
    /// The number of rows.
    pub(crate) total: usize,
    /// Another table of the view has the focus.
    pub(crate) is_passive: bool,
    /// Screen line of the first row; `None` if no row is on the screen.
    pub(crate) top: Option<u16>,
}

impl Controls {
    /// The row at a screen line.
    pub(crate) fn row_at(&self, line: u16) -> Option<usize> {
        let row = usize::from(line.checked_sub(self.top?)?);
        (row < self.visible).then_some(self.offset + row).filter(|row| *row < self.total)
    }

    /// Scrolls just far enough to show `cursor`, and not beyond the end.
    pub(crate) fn follow(&mut self, cursor: Option<usize>, total: usize, visible: usize) {
        (self.total, self.visible) = (total, visible);
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

/// Whether a row holds every word of a lowercase filter, and none of those after a `!`.
pub(crate) fn passes(filter: &str, holds: impl Fn(&str) -> bool) -> bool {
    filter.split_whitespace().all(|word| match word.strip_prefix('!') {
        Some(word) => word.is_empty() || !holds(word),
        None => holds(word),
    })
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

/// Cursor, marks, controls and page of a table. The cursor follows the identity, not the row.
pub(crate) struct TableState<R: Row> {
    /// `None` also while the list follows its newest row.
    pub(crate) cursor: Option<R::Id>,
    /// Row of the cursor, in case it vanishes.
    row: usize,
    pub(crate) marks: BTreeSet<R::Id>,
    /// The whole list is marked, including other pages.
    pub(crate) all_marked: bool,
    pub(crate) controls: Controls,
    /// Pages from the first one to this; none is the first page of the default list.
    path: Vec<R::Key>,
    /// The direction of a requested page that has not arrived.
    awaited: Option<Toward>,
}

/// The effect of a new snapshot.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) note: Option<String>,
    /// Marks that were removed because their rows are gone. A row that can no longer be marked says why.
    pub(crate) unmarked: usize,
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
            path: Vec::new(),
            awaited: None,
        }
    }
}

impl<R: Row> TableState<R> {
    /// The page to be read.
    pub(crate) fn key(&self) -> R::Key {
        self.path.last().copied().unwrap_or_default()
    }

    /// Whether a requested page has not arrived.
    pub(crate) fn is_waiting(&self) -> bool {
        self.awaited.is_some()
    }

    /// Whether this is the first page, to which new rows are added.
    pub(crate) fn is_first_page(&self) -> bool {
        self.key() == self.key().first()
    }

    /// Whether the cursor follows the newest row, at the end.
    pub(crate) fn follows(&self) -> bool {
        R::PAGING.is_newest_last() && self.cursor.is_none() && self.is_first_page()
    }

    /// The loaded rows that match the filter, in the requested order; none while the page is of another list.
    pub(crate) fn rows<'a>(&self, snapshot: &'a Snapshot) -> Vec<&'a R> {
        let mut rows = self.loaded(snapshot);
        let filter = self.controls.filter.value().to_lowercase();
        rows.retain(|row| passes(&filter, |word| row.holds(word)));
        if let Some(order) = self.controls.order {
            sort(&mut rows, R::COLUMNS, order);
        }
        rows
    }

    /// The loaded rows of the list.
    pub(crate) fn loaded<'a>(&self, snapshot: &'a Snapshot) -> Vec<&'a R> {
        let (page, key) = (R::page(snapshot), self.key());
        let mut rows = if key.includes(page.key) { page.rows } else { Vec::new() };
        rows.retain(|row| row.is_of(key));
        rows
    }

    pub(crate) fn position(&self, rows: &[&R]) -> Option<usize> {
        match &self.cursor {
            Some(cursor) => rows.iter().position(|row| row.id() == *cursor),
            None if !self.follows() => None,
            None if self.controls.order.is_none() => rows.len().checked_sub(1),
            None => (0..rows.len()).max_by_key(|row| rows[*row].id()),
        }
    }

    /// The row under the cursor, also in a newer snapshot, and even if the filter hides it.
    pub(crate) fn chosen<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a R> {
        let rows = if self.follows() { self.rows(snapshot) } else { self.loaded(snapshot) };
        self.position(&rows).map(|row| rows[row])
    }

    /// The chosen row, if its detail is open.
    pub(crate) fn opened<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a R> {
        self.chosen(snapshot).filter(|_| self.controls.detail)
    }

    /// Moves the cursor to this row.
    pub(crate) fn point_at(&mut self, rows: &[&R], row: usize) {
        self.row = row;
        self.cursor = rows.get(row).map(|row| row.id());
    }

    /// Opens another list at its first page.
    pub(crate) fn open(&mut self, list: R::Key) {
        self.path = vec![list.first()];
        // Every snapshot has the newest lines of the log.
        self.awaited = (R::PAGING != Paging::Log).then_some(Toward::First);
        if R::PAGING.is_newest_last() {
            self.cursor = None;
        }
    }

    /// Puts the cursor on a page that arrived, where its rows continue those of the page before.
    fn enter(&mut self, rows: &[&R], toward: Toward) {
        let newest_last = R::PAGING.is_newest_last();
        let at_start = toward == Toward::First || R::PAGING.is_held() && self.is_first_page();
        let from_below = (toward == Toward::Further) == newest_last;
        let row = match (at_start, from_below) {
            (true, _) if newest_last => None,
            (false, true) => rows.last(),
            _ => rows.first(),
        };
        self.cursor = row.map(|row| row.id());
    }

    /// Moves the cursor among `rows`, into the table if no row has it; `false` if it is at the edge.
    fn move_cursor(&mut self, rows: &[&R], step: Step) -> bool {
        let now = self.position(rows);
        let next = match now {
            Some(row) => step.from(row, rows.len(), self.controls.visible),
            None if matches!(step, Step::Row(_) | Step::Last) => step.from(0, rows.len(), 0),
            None => 0,
        };
        let has_moved = next < rows.len() && now != Some(next);
        if has_moved {
            self.point_at(rows, next);
        }
        has_moved
    }

    /// Moves the cursor on the first page of a log, which it follows again from its newest line on.
    fn move_in_log(&mut self, rows: &[&R], step: Step) -> bool {
        let followed = self.follows();
        self.cursor = self.position(rows).map(|row| rows[row].id());
        let has_moved = self.move_cursor(rows, step);
        let is_last = self.position(rows).is_some_and(|row| row + 1 == rows.len());
        if if has_moved { is_last && self.controls.order.is_none() } else { followed } {
            self.cursor = None;
        }
        has_moved
    }

    /// Requests the page beyond the rows of this one. While the display is paused, none can be read.
    pub(crate) fn beyond(&mut self, snapshot: &Snapshot, step: Step, is_frozen: bool) -> Turn {
        let next = R::page(snapshot).next.filter(|next| self.key().first() == next.first());
        let is_further = step.is_forward() != R::PAGING.is_newest_last();
        match next {
            _ if self.is_waiting() => return Turn::Moved,
            None if is_further => return Turn::edge(step),
            _ if !is_further && self.is_first_page() => return Turn::edge(step),
            _ if is_frozen => return Turn::Frozen,
            Some(next) if is_further => self.path.push(next),
            _ if step == Step::First => return self.open_first(snapshot, is_frozen),
            _ => _ = self.path.pop(),
        }
        self.awaited = Some(if is_further { Toward::Further } else { Toward::Back });
        Turn::Moved
    }

    /// Requests the first page of this list.
    fn open_first(&mut self, snapshot: &Snapshot, is_frozen: bool) -> Turn {
        if is_frozen {
            return Turn::Frozen;
        }
        self.open(self.key());
        Table::settle(self, snapshot);
        Turn::Moved
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
        let (count, loaded) = (self.marks.len(), marked(R::page(snapshot).rows));
        let filtered = loaded - marked(self.rows(snapshot));
        Marked { count, filtered, elsewhere: count - loaded }
    }

    /// These rows for an export, in English: the reader may not know the display language.
    pub(crate) fn sheet_of(&self, scene: &Scene, rows: &[&R], cursor: Option<usize>) -> Sheet {
        let columns: Vec<_> =
            R::COLUMNS.iter().filter(|column| column.is_exported(&scene.shown)).collect();
        let with_marks = rows.iter().any(|row| self.is_marked(row));
        let names = columns.iter().map(|column| column.file_name(scene.users));
        let values = |row: &&R| {
            let mark = if self.is_marked(row) { glyphs::MARK.into() } else { Json::Null };
            let cells = columns.iter().map(|it| it.exported(row, scene.users, scene.seen()));
            with_marks.then_some(mark).into_iter().chain(cells).collect()
        };
        Sheet {
            columns: with_marks.then(|| "mark".to_owned()).into_iter().chain(names).collect(),
            rows: in_english(|| rows.iter().map(values).collect()),
            extent: R::page(&scene.shown).extent(rows.len()),
            cursor,
        }
    }
}

/// Sorts rows; the sort is stable, and unknown values are last in either order.
pub(super) fn sort<R>(rows: &mut Vec<&R>, columns: &[Column<R>], order: Order) {
    let Some(column) = columns.iter().find(|it| it.title == order.title) else { return };
    let mut keyed: Vec<_> = rows.drain(..).map(|row| (column.key(row), row)).collect();
    keyed.sort_by(|(one, _), (two, _)| match (one, two) {
        (Some(one), Some(two)) if order.is_descending => two.cmp(one),
        (Some(one), Some(two)) => one.cmp(two),
        _ => one.is_none().cmp(&two.is_none()),
    });
    rows.extend(keyed.into_iter().map(|(_, row)| row));
}

/// The table of a view, whatever its rows.
pub(crate) trait Table {
    fn controls(&self) -> &Controls;

    fn controls_mut(&mut self) -> &mut Controls;

    /// The ID or name of the row under the cursor.
    fn chosen_name(&self, snapshot: &Snapshot) -> Option<String>;

    /// The loaded rows that the palette offers: the ID or name of each, and its name there.
    fn names(&self, snapshot: &Snapshot) -> Vec<(String, String)>;

    /// Moves the cursor to the row of this name; a filter that hides it is cleared.
    fn point_to(&mut self, snapshot: &Snapshot, name: &str);

    /// Revalidates the cursor: it stays on its row, or moves to the one that took its place.
    fn settle_cursor(&mut self, snapshot: &Snapshot);

    /// Revalidates page, cursor and marks against a new snapshot.
    fn settle(&mut self, snapshot: &Snapshot) -> Settled;

    /// Whether a snapshot has a page, of whatever age.
    fn is_read(&self, snapshot: &Snapshot) -> bool;

    /// Moves the cursor, onto another page if necessary.
    fn step(&mut self, snapshot: &Snapshot, step: Step, is_frozen: bool) -> Turn;

    /// All loaded rows that match the filter; `None` if nothing was read yet.
    fn sheet(&self, scene: &Scene) -> Option<Sheet>;

    /// Why the rows cannot be sorted: one sorted page would look like the whole list.
    fn fixed_order(&self, snapshot: &Snapshot) -> Option<String>;
}

impl<R: Row> Table for TableState<R> {
    fn controls(&self) -> &Controls {
        &self.controls
    }

    fn controls_mut(&mut self) -> &mut Controls {
        &mut self.controls
    }

    fn chosen_name(&self, snapshot: &Snapshot) -> Option<String> {
        self.chosen(snapshot).map(R::name)
    }

    fn names(&self, snapshot: &Snapshot) -> Vec<(String, String)> {
        let offered = self.loaded(snapshot).into_iter().filter(|_| R::IS_OFFERED);
        offered.map(|row| (row.name(), row.label())).collect()
    }

    fn point_to(&mut self, snapshot: &Snapshot, name: &str) {
        let is_meant = |row: &&R| row.name() == name;
        if !self.rows(snapshot).iter().any(is_meant) {
            self.controls.filter.reset();
        }
        let rows = self.rows(snapshot);
        if let Some(row) = rows.iter().position(is_meant) {
            self.point_at(&rows, row);
        }
    }

    fn settle_cursor(&mut self, snapshot: &Snapshot) {
        let page = R::page(snapshot);
        // Rows that were read before an outage remain on the screen.
        if !self.follows() && (page.is_read || !page.rows.is_empty()) {
            let rows = self.rows(snapshot);
            let row = self.position(&rows).unwrap_or(self.row.min(rows.len().saturating_sub(1)));
            self.point_at(&rows, row);
        }
    }

    fn settle(&mut self, snapshot: &Snapshot) -> Settled {
        let (page, mut settled) = (R::page(snapshot), Settled::default());
        if !page.is_read {
            return settled;
        }
        let is_fixed = self.fixed_order(snapshot).is_some();
        if is_fixed && self.controls.order.take().is_some() {
            settled.note = Some(Label("conventions-more-than-one-page").to_owned());
        }
        let key = self.key();
        if let Some(toward) = self.awaited.take_if(|_| page.key == key) {
            self.enter(&self.rows(snapshot), toward);
        }
        let is_empty = page.rows.is_empty() && page.key == self.key();
        if is_empty && !self.is_first_page() && !self.is_waiting() {
            self.open(self.key());
        }
        // Only a page shows that a row is gone; marks on other pages are kept.
        let is_on_page = |id: &R::Id| page.ids.as_ref().is_none_or(|ids| ids.contains(id));
        self.marks.retain(|mark| {
            let row = page.rows.iter().find(|row| row.id() == *mark);
            let is_gone = row.is_none() && is_on_page(mark);
            settled.unmarked += usize::from(is_gone);
            !is_gone && row.is_none_or(|row| row.is_markable())
        });
        self.all_marked &= page.total != Some(0);
        self.settle_cursor(snapshot);
        settled
    }

    fn is_read(&self, snapshot: &Snapshot) -> bool {
        let page = R::page(snapshot);
        page.is_read || page.taken.is_some()
    }

    fn step(&mut self, snapshot: &Snapshot, step: Step, is_frozen: bool) -> Turn {
        let (paging, is_first) = (R::PAGING, self.is_first_page());
        let newest = if paging.is_newest_last() { Step::Last } else { Step::First };
        if step == newest && paging != Paging::Forward && !is_first {
            // Also if another page does not arrive.
            return self.open_first(snapshot, is_frozen);
        }
        if step == Step::Last && paging.is_newest_last() && self.controls.order.is_none() {
            return if self.cursor.take().is_some() { Turn::Moved } else { Turn::edge(step) };
        }
        if self.is_waiting() {
            return Turn::Moved;
        }
        let rows = self.rows(snapshot);
        let is_log = paging == Paging::Log && is_first;
        let has_moved =
            if is_log { self.move_in_log(&rows, step) } else { self.move_cursor(&rows, step) };
        match step {
            // The row has the cursor already.
            Step::Row(_) if !has_moved => return Turn::Moved,
            _ if !has_moved => return self.beyond(snapshot, step, is_frozen),
            _ => {}
        }
        let page = R::page(snapshot);
        let held = page.held.filter(|_| is_first && paging.is_held());
        // New rows no longer move the visible page.
        self.path.extend(held.filter(|_| self.key().includes(page.key)));
        Turn::Moved
    }

    fn sheet(&self, scene: &Scene) -> Option<Sheet> {
        let rows = self.rows(&scene.shown);
        let is_read = R::page(&scene.shown).is_read && !self.is_waiting();
        (is_read || !rows.is_empty()).then(|| self.sheet_of(scene, &rows, self.position(&rows)))
    }

    fn fixed_order(&self, snapshot: &Snapshot) -> Option<String> {
        let page = R::page(snapshot);
        match R::PAGING {
            Paging::Forward if !page.is_whole() => {
                page.total.map(|total| text!("conventions-are-loaded-in-pages", total))
            }
            Paging::NewestLast => {
                Some(Label("conventions-stream-is-always-in-delivery").to_owned())
            }
            _ => None,
        }
    }
}
