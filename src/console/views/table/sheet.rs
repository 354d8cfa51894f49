//! A table for an export: all of its loaded rows, with typed values in English.

use serde_json::Value as Json;

/// How much of a list a sheet contains: the engine reads most lists page by page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Rows of the sheet: the loaded ones that match the filter.
    pub(crate) rows: usize,
    /// Rows of the whole list, if known.
    pub(crate) total: Option<u64>,
    /// Some rows of the list are not loaded.
    pub(crate) more: bool,
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
