//! Lists: grouped, and as text in the current language.

use std::collections::BTreeMap;

use seckill_model::{Reason, VoucherId, message::Label};

/// Between the items of a list, as in "a, b".
pub(crate) const ITEMS: Label = Label("list-items");
/// Between clauses of a sentence, as in "2 orders closed, 1 piece returned".
pub(crate) const CLAUSES: Label = Label("list-clauses");
/// Between parts that may contain commas themselves.
pub(crate) const PARTS: Label = Label("list-parts");

/// Sale IDs as `#7, #8`.
pub fn sales(ids: &[VoucherId]) -> String {
    ids.iter().map(|id| format!("#{id}")).collect::<Vec<_>>().join(&ITEMS)
}

/// Numbers of shards as `1, 2`.
pub(crate) fn numbers(numbers: &[u16]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(&ITEMS)
}

/// Numbers of partitions.
pub(crate) fn partition_numbers(numbers: &[u16]) -> Reason {
    Reason::list(numbers.iter().map(|number| number.to_string().into()), ITEMS)
}

/// Groups items by a key; each group keeps their order.
pub(crate) fn group_by<K: Ord, T>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> BTreeMap<K, Vec<T>> {
    let mut groups: BTreeMap<K, Vec<T>> = BTreeMap::new();
    for item in items {
        groups.entry(key(&item)).or_default().push(item);
    }
    groups
}
