//! One page of a list in the Snapshot.

use std::sync::Arc;

use seckill_model::Millis;
use serde::Serialize;

/// One page of a list, read only while it is displayed.
#[derive(Clone, Debug, Serialize)]
pub struct Page<V, L> {
    /// Which list, and where the page starts.
    #[serde(rename = "from")]
    pub view: V,
    /// When it was read, by the clock of Redis; `None` if it is not displayed or not read yet.
    pub taken: Option<Millis>,
    /// Whether there are more lines beyond it.
    pub more: bool,
    /// The lines, in the order of the list.
    pub lines: Arc<Vec<L>>,
}

impl<V, L> Page<V, L> {
    /// Makes a page of at most `most` lines; one more was read if there are more.
    pub(crate) fn of(view: V, taken: Millis, mut lines: Vec<L>, most: usize) -> Self {
        let more = lines.len() > most;
        lines.truncate(most);
        Self { view, taken: Some(taken), more, lines: Arc::new(lines) }
    }
}

impl<V: Default, L> Default for Page<V, L> {
    fn default() -> Self {
        Self { view: V::default(), taken: None, more: false, lines: Arc::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_beyond_the_page_shows_that_there_are_more() {
        let page = Page::of((), Millis(1), vec![4, 3, 2, 1], 3);
        assert_eq!((page.lines.as_slice(), page.more), (&[4, 3, 2][..], true));
        assert!(!Page::of((), Millis(1), vec![3, 2, 1], 3).more);
    }
}
