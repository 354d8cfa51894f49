//! The summary of a list that commands are applied to: pending entries and dead letters.

use ratatui::text::{Line, Span};
use seckill_model::{EntryId, message::text};

use super::{
    Scene,
    table::{Row, TableState},
};
use crate::text::{self, figures};

/// Commands in progress, marks, filter, and the range of the page.
pub(super) fn summary<R: Row<Id = EntryId, Key = EntryId>>(
    scene: &Scene<'_>,
    state: &TableState<R>,
) -> Line<'static> {
    let (theme, snapshot) = (scene.theme, scene.snapshot);
    let page = R::page(snapshot);
    let (loaded, total) = (page.rows.len(), page.total.unwrap_or(0));
    let mut spans = Vec::new();
    for line in &snapshot.recoveries {
        let action = text::time::event_name(&line.act);
        let text = text!("recovery-of", action, done = line.done, planned = line.planned);
        spans.push(Span::styled(format!("{text}   "), theme.key));
    }
    let marked = state.marked(snapshot);
    if state.all_marked {
        let text = text!("console-all-marked", count = total);
        spans.push(Span::styled(format!("{text}   "), theme.key));
    } else if marked.count > 0 {
        spans.push(Span::styled(format!("{}   ", text::marked(marked)), theme.key));
    }
    let filter = state.controls.filter.value();
    if !filter.is_empty() {
        let shown = state.rows(snapshot).len();
        let part = text!("console-of-on-this-page", shown, of = loaded);
        spans.push(Span::raw(format!("/{}   {part}   ", scene.fit(filter, 20))));
    }
    if state.is_waiting() {
        spans.push(Span::styled(format!("{}   ", text::READING), theme.warn));
    }
    let whole = match loaded as u64 {
        last @ 1.. if page.key == EntryId::MIN => {
            text!("console-range-of", first = 1, last, total = total.max(last))
        }
        // Not read is not zero.
        _ if snapshot.stream.is_none() => String::new(),
        _ => figures::thousands(total),
    };
    spans.push(Span::styled(whole, theme.soft));
    Line::from(spans)
}
