//! Filtering and sorting of table rows.
//!
//! A row declares its columns once, as [`Facet`]s; filter and order follow from them.

use std::cmp::Ordering;

use crate::widgets::{Order, Scroll};

/// The sort key of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Rank {
    Number(i128),
    Text(String),
    /// Unknown: last in either direction.
    Unknown,
}

impl Rank {
    pub(crate) fn number(number: Option<impl Into<i128>>) -> Self {
        number.map_or(Self::Unknown, |number| Self::Number(number.into()))
    }

    pub(crate) fn text(text: &str) -> Self {
        Self::Text(text.to_lowercase())
    }

    fn compare(&self, other: &Self, falling: bool) -> Ordering {
        let turned = |order: Ordering| if falling { order.reverse() } else { order };
        match (self, other) {
            (Self::Number(one), Self::Number(two)) => turned(one.cmp(two)),
            (Self::Text(one), Self::Text(two)) => turned(one.cmp(two)),
            (Self::Unknown, Self::Unknown) => Ordering::Equal,
            (Self::Unknown, _) => Ordering::Greater,
            (_, Self::Unknown) => Ordering::Less,
            (Self::Number(_), Self::Text(_)) => turned(Ordering::Less),
            (Self::Text(_), Self::Number(_)) => turned(Ordering::Greater),
        }
    }
}

/// One column of a row: its heading, its text and its sort key.
pub(crate) struct Facet<R> {
    pub(crate) head: String,
    pub(crate) text: fn(&R) -> String,
    pub(crate) rank: fn(&R) -> Rank,
}

impl<R> Facet<R> {
    /// `head` is the heading of the table's column.
    pub(crate) fn new(
        head: impl Into<String>,
        text: fn(&R) -> String,
        rank: fn(&R) -> Rank,
    ) -> Self {
        Self { head: head.into(), text, rank }
    }
}

/// Whether a lowercase word occurs in any column.
pub(crate) fn any_holds<R>(facets: &[Facet<R>], row: &R, wanted: &str) -> bool {
    facets.iter().any(|facet| (facet.text)(row).to_lowercase().contains(wanted))
}

/// A filter: all of its words must match, except those after a `!`, which must not.
pub(crate) struct Wanted(Vec<(bool, String)>);

impl Wanted {
    pub(crate) fn new(filter: &str) -> Self {
        let words = filter.split_whitespace().map(|word| match word.strip_prefix('!') {
            Some(word) => (false, word.to_lowercase()),
            None => (true, word.to_lowercase()),
        });
        Self(words.filter(|(_, word)| !word.is_empty()).collect())
    }

    /// Whether a row for which `holds` finds words passes the filter.
    pub(crate) fn lets(&self, holds: impl Fn(&str) -> bool) -> bool {
        self.0.iter().all(|(wanted, word)| holds(word) == *wanted)
    }
}

/// Sorts rows as requested; the sort is stable.
pub(crate) fn sort<R>(rows: &mut [&R], facets: &[Facet<R>], order: Option<&Order>) {
    let Some(order) = order else { return };
    let Some(facet) = facets.iter().find(|facet| facet.head == order.head) else { return };
    rows.sort_by_cached_key(|row| Ranked((facet.rank)(row), order.falling));
}

#[derive(PartialEq)]
struct Ranked(Rank, bool);

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.compare(&other.0, self.1)
    }
}

/// Selects the next visible column; after the last one, the natural order.
pub(crate) fn next_order<R>(scroll: &mut Scroll, facets: &[Facet<R>]) {
    let seen: Vec<&str> = facets
        .iter()
        .map(|facet| facet.head.as_str())
        .filter(|head| scroll.heads.is_empty() || scroll.heads.iter().any(|seen| seen == head))
        .collect();
    let now = scroll.order.as_ref().and_then(|order| seen.iter().position(|it| *it == order.head));
    let next = now.map_or(0, |now| now + 1);
    let over = scroll.order.is_some() && now.is_none();
    scroll.order = seen
        .get(next)
        .filter(|_| !over)
        .map(|head| Order { head: (*head).to_owned(), falling: false });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lets(filter: &str, row: &str) -> bool {
        Wanted::new(filter).lets(|word| row.contains(word))
    }

    #[test]
    fn all_terms_must_match_and_negated_ones_must_not() {
        assert!(lets("", "hot pot") && lets("!", "hot pot") && lets(" POT hot ", "hot pot"));
        assert!(!lets("hot tea", "hot pot") && lets("hot !tea", "hot pot"));
        assert!(!lets("hot !po", "hot pot") && lets("!tea !soup", "hot pot"));
    }

    #[test]
    fn unknown_values_are_last_and_the_sort_is_stable() {
        let facets = [Facet::<(Option<i64>, u8)>::new(
            "N",
            |row| row.0.map_or_else(String::new, |n| n.to_string()),
            |row| Rank::number(row.0),
        )];
        let rows = [(Some(2), 0), (None, 1), (Some(10), 2), (Some(2), 3)];
        let sorted = |falling| {
            let mut refs: Vec<_> = rows.iter().collect();
            sort(&mut refs, &facets, Some(&Order { head: "N".into(), falling }));
            refs.into_iter().map(|row| row.1).collect::<Vec<_>>()
        };
        assert_eq!((sorted(false), sorted(true)), (vec![0, 3, 2, 1], vec![2, 0, 3, 1]));
    }

    #[test]
    fn the_sort_cycles_through_the_visible_columns() {
        let facet = |head: &str| Facet::<u8>::new(head, |_| String::new(), |_| Rank::Unknown);
        let facets = [facet("A"), facet("B"), facet("C")];
        let mut scroll = Scroll { heads: vec!["A".into(), "C".into()], ..Scroll::default() };
        let mut heads = Vec::new();
        for _ in 0..3 {
            next_order(&mut scroll, &facets);
            heads.push(scroll.order.as_ref().map(|order| order.head.clone()));
        }
        assert_eq!(heads, [Some("A".into()), Some("C".into()), None]);
    }
}
