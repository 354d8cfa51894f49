//! Small things that views draw with: clipped text, bars, tables, the chart, large digits.
//!
//! Nothing in here knows a Snapshot or a key.

mod ascii;
mod bar;
mod big;
mod cells;
mod chart;
mod curve;
mod grid;
mod halves;
mod pen;
mod plain;
mod table;

pub(crate) use ascii::to_ascii;
pub(crate) use bar::bar;
pub(crate) use big::{Pixel, SIGN_ROWS, big, big_number, big_width};
pub(crate) use cells::{fit, left, right, width, wrap};
pub(crate) use chart::{Axis, Chart, Sign, chart};
pub(crate) use curve::{Curve, curve};
pub(crate) use halves::Halves;
pub(crate) use pen::Pen;
pub(crate) use plain::plain;
pub(crate) use table::{Cell, Column, Extent, Order, Scroll, Sheet, Value, table};
