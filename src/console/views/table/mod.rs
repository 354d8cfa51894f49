//! Tables: typed columns, cursor, filter, order, marks, pages, scrolling and export, the same in every view.
//!
//! A view declares its rows ([`Row`]); placing and drawing them is the same for all.

mod column;
mod draw;
mod list;
mod paging;
mod row;
pub(crate) mod sheet;
mod state;

pub(crate) use column::{Column, REST, Value};
pub(crate) use draw::{GAP, draw_scrollbar, library_table};
pub(crate) use list::ListState;
pub(crate) use paging::{PageKey, Paging, Turn};
pub(crate) use row::{Page, Row};
pub(crate) use sheet::{Extent, Sheet};
pub(crate) use state::{Controls, Marked, Order, Settled, Table, TableState, passes};

#[cfg(test)]
mod tests;
