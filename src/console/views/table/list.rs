//! A table of rows that its view owns; those of the other tables are part of a snapshot.

use seckill_model::in_english;

use super::{
    draw::List,
    state::{Controls, passes, sort},
};
use crate::views::{
    prelude::*,
    table::{Extent, Sheet},
};

/// Rows with cursor, filter and order. The cursor follows the identity, not the row.
pub(crate) struct ListState<R: 'static> {
    pub(crate) rows: Vec<R>,
    pub(crate) controls: Controls,
    columns: &'static [Column<R>],
    id: fn(&R) -> String,
    cursor: Option<String>,
    /// Row of the cursor, in case it vanishes.
    row: usize,
}

impl<R> ListState<R> {
    pub(crate) fn new(columns: &'static [Column<R>], id: fn(&R) -> String) -> Self {
        let titles = columns.iter().filter(|it| it.is_sortable()).map(|it| it.title);
        let controls = Controls { sortable: titles.collect(), ..Controls::default() };
        Self { rows: Vec::new(), controls, columns, id, cursor: None, row: 0 }
    }

    /// Replaces the rows. The cursor stays on its row, or moves to the one that took its place.
    pub(crate) fn replace(&mut self, rows: Vec<R>) {
        self.rows = rows;
        self.keep_cursor();
        self.controls.detail &= !self.rows.is_empty();
    }

    /// The rows that match the filter, in the requested order.
    pub(crate) fn shown(&self) -> Vec<&R> {
        shown(&self.rows, self.columns, &self.controls)
    }

    pub(crate) fn position(&self, rows: &[&R]) -> Option<usize> {
        let cursor = self.cursor.as_ref()?;
        rows.iter().position(|row| (self.id)(row) == *cursor)
    }

    /// The row under the cursor.
    pub(crate) fn chosen(&self) -> Option<&R> {
        let rows = self.shown();
        self.position(&rows).map(|row| rows[row])
    }

    /// The heading and the content of each column, for the detail of a row.
    pub(crate) fn fields(&self, scene: &Scene, row: &R) -> Vec<(Label, Line<'static>)> {
        self.columns.iter().map(|it| (it.title, it.line(scene, row, u16::MAX))).collect()
    }

    pub(crate) fn draw(
        &mut self,
        area: Rect,
        buffer: &mut Buffer,
        scene: &Scene,
        is_outdated: bool,
    ) {
        let rows = shown(&self.rows, self.columns, &self.controls);
        let cursor = self.position(&rows);
        let list = List { columns: self.columns, rows, cursor, marked: None, is_outdated };
        list.draw(&mut self.controls, area, buffer, scene);
        if list.rows.is_empty() {
            let text = text::echo(self.controls.filter.value());
            draw_text(area, buffer, scene, 1, &text!("console-no-row-contains-press", text));
        }
    }

    fn point_at(&mut self, row: usize) {
        self.row = row;
        self.cursor = self.shown().get(row).map(|row| (self.id)(row));
    }

    fn keep_cursor(&mut self) {
        let rows = self.shown();
        let row = self.position(&rows).unwrap_or(self.row.min(rows.len().saturating_sub(1)));
        self.point_at(row);
    }
}

fn shown<'a, R>(rows: &'a [R], columns: &[Column<R>], controls: &Controls) -> Vec<&'a R> {
    let filter = controls.filter.value().to_lowercase();
    let holds = |row: &R, word: &str| {
        columns.iter().any(|it| it.search_text(row).to_lowercase().contains(word))
    };
    let mut rows: Vec<&R> =
        rows.iter().filter(|row| passes(&filter, |word| holds(row, word))).collect();
    if let Some(order) = controls.order {
        sort(&mut rows, columns, order);
    }
    rows
}

impl<R> Table for ListState<R> {
    fn controls(&self) -> &Controls {
        &self.controls
    }

    fn controls_mut(&mut self) -> &mut Controls {
        &mut self.controls
    }

    fn chosen_name(&self, _: &Snapshot) -> Option<String> {
        self.chosen().map(self.id)
    }

    /// The palette offers the rows of snapshots only.
    fn names(&self, _: &Snapshot) -> Vec<(String, String)> {
        Vec::new()
    }

    fn point_to(&mut self, _: &Snapshot, _: &str) {}

    fn settle_cursor(&mut self, _: &Snapshot) {
        self.keep_cursor();
    }

    fn settle(&mut self, _: &Snapshot) -> Settled {
        Settled::default()
    }

    fn is_read(&self, _: &Snapshot) -> bool {
        true
    }

    fn step(&mut self, _: &Snapshot, step: Step, _: bool) -> Turn {
        let rows = self.shown();
        let (total, now) = (rows.len(), self.position(&rows));
        let next = step.from(now.unwrap_or(0), total, self.controls.visible);
        let has_moved = next < total && now != Some(next);
        if has_moved {
            self.point_at(next);
        }
        if has_moved || matches!(step, Step::Row(_)) { Turn::Moved } else { Turn::edge(step) }
    }

    fn sheet(&self, scene: &Scene) -> Option<Sheet> {
        let columns: Vec<_> =
            self.columns.iter().filter(|it| it.is_exported(&scene.shown)).collect();
        let cells = |row: &&R| {
            columns.iter().map(|it| it.exported(row, scene.users, scene.seen())).collect()
        };
        let rows = self.shown();
        let total = Some(self.rows.len() as u64);
        Some(Sheet {
            columns: columns.iter().map(|it| it.file_name(scene.users)).collect(),
            extent: Extent { rows: rows.len(), total, more: false },
            cursor: self.position(&rows),
            rows: in_english(|| rows.iter().map(cells).collect()),
        })
    }

    fn fixed_order(&self, _: &Snapshot) -> Option<String> {
        None
    }
}
