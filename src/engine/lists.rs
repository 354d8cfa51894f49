//! How lists read in the current language.

use seckill_model::{VoucherId, message::Label};

/// Between the items of a list, as in "a, b".
pub(crate) const ITEMS: Label = Label("list-items");
/// Between clauses of a sentence, as in "2 orders closed, 1 piece returned".
pub(crate) const CLAUSES: Label = Label("list-clauses");
/// Between parts that may contain commas themselves.
pub(crate) const PARTS: Label = Label("list-parts");

/// Sale IDs as `#7 #8`.
pub(crate) fn sales(ids: &[VoucherId]) -> String {
    ids.iter().map(|id| format!("#{id}")).collect::<Vec<_>>().join(" ")
}
