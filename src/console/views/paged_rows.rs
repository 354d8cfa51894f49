//! Rows of paged lists: their common columns, and the page that contains them.

use seckill_engine::telemetry::{
    Snapshot,
    snapshot::{LetterLine, PendingLine, PendingPage},
};
use seckill_model::{EntryId, OrderId, UserId, VoucherId, message::Label};

use super::{
    Scene,
    columns::{Facet, Rank, any_holds},
};
use crate::{
    text::{self, columns, figures},
    widgets::{Cell, Value},
};

/// Common fields of such rows.
#[derive(Clone, Copy)]
pub(crate) struct Alike {
    /// Milliseconds since the row was created.
    age_ms: u64,
    deliveries: u64,
    order: Option<OrderId>,
    user: Option<UserId>,
    voucher: Option<VoucherId>,
}

/// A row of a paged list.
pub(crate) trait PagedRow: Sized {
    /// The identity across snapshots.
    fn id(&self) -> EntryId;

    /// Its common fields.
    fn alike(&self) -> Alike;

    /// Its columns, for filter and order.
    fn facets() -> Vec<Facet<Self>>;

    /// Whether a lowercase word of a filter occurs in it.
    fn holds(&self, wanted: &str) -> bool {
        any_holds(&Self::facets(), self, wanted)
    }

    /// The page of this list in a snapshot.
    fn page(snapshot: &Snapshot) -> Page<'_, Self>;
}

/// One page of a list.
pub(crate) struct Page<'a, R> {
    /// Its start: rows with this ID or later.
    pub(crate) from: EntryId,
    pub(crate) lines: &'a [R],
    /// Rows of the whole list.
    pub(crate) total: u64,
    /// Rows before this page; `None` if unknown.
    pub(crate) before: Option<u64>,
    /// There are rows after it.
    pub(super) more: bool,
    /// It was read for this snapshot, so missing rows are gone.
    pub(super) fresh: bool,
}

impl<R: PagedRow> Page<'_, R> {
    /// The range of IDs that the page covers.
    pub(super) fn span(&self) -> (EntryId, EntryId) {
        match self.lines.last() {
            Some(last) if self.more => (self.from, last.id()),
            _ => (self.from, EntryId::MAX),
        }
    }
}

impl<R> Page<'_, R> {
    /// Whether it is the whole list, and can be sorted.
    pub(crate) fn is_whole(&self) -> bool {
        self.from == EntryId::MIN && !self.more
    }
}

/// A cell of a common column; `None` for others.
pub(super) fn cell<R: PagedRow>(scene: &Scene<'_>, line: &R, title: Label) -> Option<Cell> {
    let Alike { age_ms, order, user, voucher, .. } = line.alike();
    let shown = |value: Option<String>| Cell::plain(value.unwrap_or_else(|| "-".to_owned()));
    Some(match title {
        columns::AGE => Cell::plain(figures::span(age_ms)).exactly(Value::count(Some(age_ms))),
        columns::ORDER => shown(order.map(|order| order.to_string())),
        columns::USER => shown(user.map(|user| scene.users.number(user))),
        columns::VOUCHER => shown(voucher.map(|id| format!("#{id}"))),
        _ => return None,
    })
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// IDs are ordered by time, number, then partition.
fn id_rank(id: EntryId) -> Rank {
    // Milliseconds never reach 48 bits; larger values would not fit.
    let millis = i128::from(id.millis.min((1 << 48) - 1));
    Rank::Number((millis << 70) + (i128::from(id.number) << 6) + i128::from(id.partition))
}

/// The row's ID, under the list's heading, and its age.
fn who<R: PagedRow>(head: impl Into<String>) -> [Facet<R>; 2] {
    [
        Facet::new(head, |line: &R| line.id().to_string(), |line| id_rank(line.id())),
        Facet::new(
            columns::AGE,
            |line: &R| figures::span(line.alike().age_ms),
            |line| Rank::number(Some(line.alike().age_ms)),
        ),
    ]
}

fn tries<R: PagedRow>() -> Facet<R> {
    Facet::new(
        columns::TRIES,
        |line: &R| figures::thousands(line.alike().deliveries),
        |line| Rank::number(Some(line.alike().deliveries)),
    )
}

/// The order of the entry.
fn asked<R: PagedRow>() -> [Facet<R>; 3] {
    [
        Facet::new(
            columns::ORDER,
            |line: &R| optional(line.alike().order),
            |line| Rank::number(line.alike().order.map(OrderId::as_i64)),
        ),
        Facet::new(
            columns::USER,
            |line: &R| optional(line.alike().user),
            |line| Rank::number(line.alike().user.map(|user| user.0)),
        ),
        Facet::new(
            columns::VOUCHER,
            |line: &R| line.alike().voucher.map_or_else(String::new, |id| format!("#{id}")),
            |line| Rank::number(line.alike().voucher.map(|voucher| voucher.0)),
        ),
    ]
}

/// The number of pending entries: of the whole list if it was read for this snapshot, shortly after the count.
pub(super) fn pending_in(snapshot: &Snapshot) -> u64 {
    let page = &snapshot.pending;
    if page.is_whole() && page.taken == Some(snapshot.taken) {
        return page.lines.len() as u64;
    }
    snapshot.stream.as_ref().map_or(0, |stream| stream.pending)
}

impl PagedRow for PendingLine {
    fn id(&self) -> EntryId {
        self.entry
    }

    fn alike(&self) -> Alike {
        let Self { age_ms, deliveries, order, user, voucher, .. } = *self;
        Alike { age_ms, deliveries, order, user, voucher }
    }

    fn facets() -> Vec<Facet<Self>> {
        let mut all = Vec::from(who(columns::ENTRY));
        all.push(Facet::new(
            columns::IDLE,
            |line: &Self| figures::span(line.idle_ms),
            |line| Rank::number(Some(line.idle_ms)),
        ));
        all.push(tries());
        all.extend(asked());
        all.push(Facet::new(
            columns::HOLDER,
            |line: &Self| {
                let state = text::holder(line.holder_alive, line.holder_known);
                let state = if line.holder_alive { "" } else { state.read() };
                format!("{} {state}", line.consumer).trim_end().to_owned()
            },
            |line| Rank::text(&line.consumer),
        ));
        all.push(Facet::new(
            columns::VERDICT,
            |line: &Self| {
                let word = line.verdict.map(|it| text::verdict_word(it).to_string());
                [word, line.fault.as_ref().map(text::order_fault)]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
                    .join(" ")
            },
            |line| line.verdict.map_or(Rank::Unknown, |it| Rank::text(text::verdict_word(it))),
        ));
        all
    }

    fn page(snapshot: &Snapshot) -> Page<'_, Self> {
        let PendingPage { from, taken, more, lines } = &snapshot.pending;
        let before = (*from == EntryId::MIN).then_some(0);
        let total = pending_in(snapshot);
        let more = *more;
        let fresh = snapshot.redis.up && taken.is_some();
        Page { from: *from, lines, total, before, more, fresh }
    }
}

impl PagedRow for LetterLine {
    fn id(&self) -> EntryId {
        self.letter
    }

    fn alike(&self) -> Alike {
        let Self { age_ms, deliveries, order, user, voucher, .. } = *self;
        Alike { age_ms, deliveries, order, user, voucher }
    }

    fn facets() -> Vec<Facet<Self>> {
        let mut all = Vec::from(who(columns::LETTER));
        all.push(Facet::new(
            columns::ENTRY,
            |line: &Self| optional(line.entry),
            |line| line.entry.map_or(Rank::Unknown, id_rank),
        ));
        all.push(tries());
        all.push(Facet::new(
            columns::REPLAYS,
            |line: &Self| figures::thousands(line.replays),
            |line| Rank::number(Some(line.replays)),
        ));
        all.extend(asked());
        all.push(Facet::new(
            columns::HOLDER,
            |line: &Self| line.consumer.clone(),
            |line| Rank::text(&line.consumer),
        ));
        all.push(Facet::new(
            columns::VERDICT,
            |line: &Self| text::letters::verdict_word(line.verdict).to_string(),
            |line| Rank::text(text::letters::verdict_word(line.verdict)),
        ));
        all.push(Facet::new(
            columns::REASON,
            |line: &Self| text::order_fault(&line.reason),
            |line| Rank::text(&text::order_fault(&line.reason)),
        ));
        all
    }

    fn page(snapshot: &Snapshot) -> Page<'_, Self> {
        let page = &snapshot.letters;
        let lines: &[Self] = &page.lines;
        let total = snapshot.stream.as_ref().map_or(0, |stream| stream.dead);
        let before = (page.from == EntryId::MIN).then_some(0);
        let fresh = snapshot.redis.up && page.taken.is_some();
        Page { from: page.from, lines, total, before, more: page.more, fresh }
    }
}
