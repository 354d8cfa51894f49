//! How much of a view's list is loaded: the engine reads most lists page by page.
//!
//! Filters are not considered; the view reports what passes them.

use seckill_engine::telemetry::{
    Snapshot,
    snapshot::{LetterLine, PartitionLine, PendingLine},
};

use super::{View, paged_rows::PagedRow, stream_state::Pane};
use crate::{app::App, widgets::Extent};

/// For the view on the screen.
pub(super) fn of(app: &App) -> Extent {
    let shown = &app.shown;
    match app.view {
        View::Overview => Extent::default(),
        View::Sales => whole(shown.sales.len()),
        View::Pending => paged::<PendingLine>(shown),
        View::Letters => paged::<LetterLine>(shown),
        View::Locks => counted(shown.locks.locks.len(), shown.locks.total),
        View::Jobs => whole(shown.jobs.len()),
        View::Ledger => whole(shown.ledger.lines.len()),
        View::Stream => {
            let page = &shown.entries;
            if app.stream.pane == Pane::Consumers {
                return whole(page.consumers.len());
            }
            let asked =
                |it: &&PartitionLine| page.view.partition.is_none_or(|it_is| it_is == it.partition);
            let total = page.partitions.iter().filter(asked).map(|it| it.length).sum();
            counted(page.lines.len(), total)
        }
        View::Orders => uncounted(shown.orders.more || !app.orders.shows_newest()),
        View::Activity => uncounted(shown.log.older || !app.log.is_newest()),
    }
}

fn counted(loaded: usize, total: u64) -> Extent {
    let loaded = loaded as u64;
    Extent { total: Some(total.max(loaded)), more: loaded < total }
}

fn whole(rows: usize) -> Extent {
    counted(rows, rows as u64)
}

/// These lists are not counted; a page only shows whether there are others.
fn uncounted(more: bool) -> Extent {
    Extent { total: None, more }
}

fn paged<R: PagedRow>(snapshot: &Snapshot) -> Extent {
    let page = R::page(snapshot);
    counted(page.lines.len(), page.total)
}
