//! A table for an export: all of its loaded rows, with typed values in English.

use seckill_model::in_english;
use serde_json::Value as Json;

use super::{Row, TableState};
use crate::{theme::glyphs, views::Scene};

/// How much of a list is loaded: the engine reads most lists page by page. Filters are not considered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Rows of the whole list, if known.
    pub(crate) total: Option<u64>,
    /// Some of them are not loaded.
    pub(crate) more: bool,
}

impl Extent {
    pub(crate) fn counted(loaded: usize, total: u64) -> Self {
        let loaded = loaded as u64;
        Self { total: Some(total.max(loaded)), more: loaded < total }
    }
}

/// A whole table, as far as it is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sheet {
    /// Names of the columns in a file.
    pub(crate) columns: Vec<String>,
    /// Numbers, texts and nulls.
    pub(crate) rows: Vec<Vec<Json>>,
    pub(crate) extent: Extent,
    /// The row under the cursor.
    pub(crate) cursor: Option<usize>,
}

impl Sheet {
    /// Exports are in English: their reader does not know the display language.
    pub(crate) fn of<R: Row>(
        state: &TableState<R>,
        scene: &Scene<'_>,
        rows: &[&R],
        cursor: Option<usize>,
    ) -> Self {
        let columns = || R::COLUMNS.iter().filter(|column| column.is_exported(scene.snapshot));
        let with_marks = rows.iter().any(|row| state.is_marked(row));
        let mark = with_marks.then(|| "mark".to_owned());
        let mark_of = |row: &R| {
            let mark = if state.is_marked(row) { glyphs::MARK.into() } else { Json::Null };
            with_marks.then_some(mark)
        };
        let values = |row: &&R| {
            let cells = columns().map(|it| it.exported(row, scene.users, scene.now));
            mark_of(row).into_iter().chain(cells).collect()
        };
        Self {
            columns: mark
                .into_iter()
                .chain(columns().map(super::column::Column::file_name))
                .collect(),
            rows: in_english(|| rows.iter().map(values).collect()),
            extent: R::page(scene.snapshot).extent(),
            cursor,
        }
    }
}
