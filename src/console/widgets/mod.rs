//! Drawing primitives of the views: text in cells, bars, the chart, large digits.
//!
//! They depend on neither snapshots nor keys.

mod ascii;
mod bar;
mod big_digits;
mod chart;
mod diff;
mod popup;
mod sparkline;

pub(crate) use ascii::to_ascii;
pub(crate) use bar::bar;
pub(crate) use big_digits::{BigText, Pixel, SIGN_ROWS, big_number, big_width};
pub(crate) use chart::{Axis, Chart, SCALE, chart, chart_signs, columns_of};
pub(crate) use diff::Halves;
pub(crate) use popup::popup;
pub(crate) use seckill_text::{
    cells::{fit, left, right, width, wrap, wrap_to},
    plain,
};
pub(crate) use sparkline::{held, sparkline, strip};
