//! Tables: typed columns, cursor, filter, order, marks, pages, scrolling and export, the same in every view.
//!
//! A view declares its columns ([`Row::COLUMNS`]) and draws what is around the table.

mod column;
mod draw;
mod paging;
mod sheet;
mod state;

pub(crate) use column::{Column, Page, REST, Row, Value};
pub(super) use draw::draw;
pub(crate) use paging::{PageKey, Paging, Turn};
pub(crate) use sheet::{Extent, Sheet};
pub(crate) use state::{Marked, Order, Settled, Table, TableState};

#[cfg(test)]
mod tests;
