//! A row of a table: its columns, its page, and the texts around its table, all declared by its view.

use std::ops::RangeInclusive;

use seckill_engine::telemetry::snapshot;
use serde_json::Value as Json;

use super::{Extent, PageKey};
use crate::{
    text::commands,
    views::{Users, prelude::*},
};

/// A row of a table.
pub(crate) trait Row: Sized + 'static {
    type Id: Clone + Ord;
    /// Identifies a page; `()` if snapshots have the whole list.
    type Key: PageKey;

    /// The view that shows the table.
    const VIEW: View;
    /// Where the rows come from; the first one has the list, and rows are outdated while it is unreachable.
    const SOURCES: &'static [Source];
    const COLUMNS: &'static [Column<Self>];
    const PAGING: Paging = Paging::Forward;
    /// Whether rows can be marked.
    const MARKS: bool = false;
    /// What the empty list says, if that is always the same.
    const EMPTY: Label = text::READING;
    /// Whether the palette offers its rows.
    const IS_OFFERED: bool = true;
    /// Why a row has no mark.
    const UNMARKABLE: Label = commands::NOTHING_MARKED;
    /// The keys that apply in the view only.
    const KEYS: &'static [ViewKey] = &[FILTER];
    /// Commands on the chosen row.
    const ON_ROW: &'static [Action] = &[];
    /// Requests a page, if it is read only while the view shows it.
    const FOCUS: fn(&mut Focus, Self::Key) = |_, _| {};

    /// The identity across snapshots.
    fn id(&self) -> Self::Id;

    /// The user-visible ID or name: by default the first column.
    fn name(&self) -> String {
        match Self::COLUMNS.first().map(|column| column.exported(self, Users::default(), Millis(0)))
        {
            Some(Json::String(name)) => name,
            _ => String::new(),
        }
    }

    /// The name in the palette, where rows of all views are beside each other.
    fn label(&self) -> String {
        self.name()
    }

    /// The loaded page.
    fn page(snapshot: &Snapshot) -> Page<'_, Self>;

    /// Whether it is in the list of that page.
    fn is_of(&self, _list: Self::Key) -> bool {
        true
    }

    /// Whether this row can be marked.
    fn is_markable(&self) -> bool {
        Self::MARKS
    }

    /// Whether a lowercase word of a filter occurs in the row.
    fn holds(&self, word: &str) -> bool {
        Self::COLUMNS.iter().any(|column| column.search_text(self).to_lowercase().contains(word))
    }

    fn heading(scene: &Scene, _state: &TableState<Self>) -> Line<'static> {
        let taken = Self::page(&scene.shown).taken;
        scene.page_heading(&Self::VIEW.title().to_uppercase(), Self::SOURCES, taken)
    }

    /// How much of the list is on the screen, at the end of the summary.
    fn extent(scene: &Scene, state: &TableState<Self>) -> Line<'static> {
        let page = Self::page(&scene.shown);
        let (last, total) = (page.rows.len() as u64, page.total.unwrap_or(0));
        let text = if page.is_whole() && !state.controls.filter.value().is_empty() {
            // The filter already shows the number of rows.
            String::new()
        } else if last > 0 && page.key == page.key.first() {
            text!("console-range-of", first = 1, last, total = total.max(last))
        } else if total == 0 || scene.shown.stream.is_none() {
            // The size of a list that was not read is unknown, and an empty list says so itself.
            String::new()
        } else {
            figures::thousands(total)
        };
        Line::styled(text, scene.theme.soft)
    }

    /// Lines between heading and table, at most `rows`.
    fn above(_scene: &Scene, _cells: u16, _rows: u16) -> Vec<Line<'static>> {
        Vec::new()
    }

    /// Why the list is empty while its servers are reachable; `None` while it is being read.
    fn empty(_scene: &Scene, _state: &TableState<Self>) -> Option<String> {
        Some(Self::EMPTY.to_owned())
    }

    /// All that is known of a row; `None` if its columns say all, or if the view itself draws it.
    fn detail<'a>(_scene: &'a Scene, _row: &'a Self, _cells: u16) -> Option<Detail<'a>> {
        None
    }

    /// Carries out an action of the view.
    fn run(_state: &mut TableState<Self>, _action: Action, _scene: &Scene) -> Option<Effect> {
        None
    }

    /// Why a command of the view would have no effect, apart from a missing row.
    fn why_not(_action: Action, _scene: &Scene) -> Option<String> {
        None
    }
}

/// One page of a list.
pub(crate) struct Page<'a, R: Row> {
    pub(crate) key: R::Key,
    pub(crate) rows: Vec<&'a R>,
    /// The following page, in the direction away from the first one.
    pub(crate) next: Option<R::Key>,
    /// The page that keeps these rows while new ones are added.
    pub(crate) held: Option<R::Key>,
    /// Rows of the whole list, if they are counted.
    pub(crate) total: Option<u64>,
    /// The IDs that rows of this page can have; `None` if any.
    pub(crate) ids: Option<RangeInclusive<R::Id>>,
    /// When it was read, if that is not when the snapshot was taken.
    pub(crate) taken: Option<Millis>,
    /// It was read for this snapshot, so missing rows are gone.
    pub(crate) is_read: bool,
}

impl<'a, R: Row> Page<'a, R> {
    /// A list that is not paged.
    pub(crate) fn whole(rows: impl IntoIterator<Item = &'a R>) -> Self {
        let rows: Vec<_> = rows.into_iter().collect();
        let total = Some(rows.len() as u64);
        Self {
            key: R::Key::default(),
            rows,
            next: None,
            held: None,
            total,
            ids: None,
            taken: None,
            is_read: true,
        }
    }

    /// A page as the engine read it.
    pub(crate) fn of(page: &'a snapshot::Page<R::Key, R>) -> Self {
        let (key, taken) = (page.view, page.taken);
        Self { key, total: None, taken, is_read: taken.is_some(), ..Self::whole(&*page.lines) }
    }

    /// A page of a list that is ordered by ID and has `total` rows.
    pub(crate) fn by_id(page: &'a snapshot::Page<EntryId, R>, total: u64) -> Self
    where
        R: Row<Id = EntryId, Key = EntryId>,
    {
        let last = page.lines.last().filter(|_| page.more).map(R::id);
        Self {
            next: last.and_then(EntryId::next_of_all),
            ids: Some(page.view..=last.unwrap_or(EntryId::MAX)),
            total: Some(total),
            ..Self::of(page)
        }
    }

    /// Whether it is the whole list.
    pub(crate) fn is_whole(&self) -> bool {
        self.key == self.key.first() && self.next.is_none()
    }

    /// The extent of a sheet with this many of its rows.
    pub(super) fn extent(&self, rows: usize) -> Extent {
        let loaded = self.rows.len() as u64;
        let more = self.total.map_or(!self.is_whole(), |total| loaded < total);
        Extent { rows, total: self.total.map(|total| total.max(loaded)), more }
    }
}
