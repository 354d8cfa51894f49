//! Where the person is in a list that is read in pages: page, cursor and marks, all by id.

use std::{collections::BTreeSet, marker::PhantomData};

use tui_input::Input;

use super::{
    Step,
    facets::{Facet, Rank, Wanted, any_holds, sort},
};
use crate::{
    console::{
        text::{self, columns, figures},
        widgets::Scroll,
    },
    model::{EntryId, OrderId},
    telemetry::{
        Snapshot,
        snapshot::{LetterLine, PendingLine, PendingPage},
    },
};

/// A line of such a list.
pub(crate) trait PagedRow: Sized {
    /// What makes it the same line in the next picture.
    fn id(&self) -> EntryId;

    /// Its columns, for filter, order and copies.
    fn facets() -> Vec<Facet<Self>> {
        Vec::new()
    }

    /// Whether a word of a filter, in small letters, stands in it.
    fn holds(&self, wanted: &str) -> bool {
        any_holds(&Self::facets(), self, wanted)
    }

    /// The page of this list that a picture holds.
    fn page(snapshot: &Snapshot) -> Page<'_, Self>;
}

/// One page of a list.
pub(crate) struct Page<'a, R> {
    /// Where it starts: lines with this id or later.
    pub(crate) from: EntryId,
    pub(crate) lines: &'a [R],
    /// Lines of the whole list.
    pub(crate) total: u64,
    /// Lines before this page; `None` if nobody counted.
    pub(crate) before: Option<u64>,
    /// Others stand behind it.
    more: bool,
    /// It was read just now, so that what is not in it is gone.
    fresh: bool,
}

impl<R: PagedRow> Page<'_, R> {
    /// Ids that the page speaks for.
    fn span(&self) -> (EntryId, EntryId) {
        match self.lines.last() {
            Some(last) if self.more => (self.from, last.id()),
            _ => (self.from, EntryId::MAX),
        }
    }
}

impl<R> Page<'_, R> {
    /// It is the whole list, so that it can stand in any order.
    pub(crate) fn is_whole(&self) -> bool {
        self.from == EntryId::MIN && !self.more
    }
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Ids stand by time, then number, then partition.
fn id_rank(id: EntryId) -> Rank {
    // No clock comes near 48 bits of milliseconds; more than that would not fit.
    let millis = i128::from(id.millis.min((1 << 48) - 1));
    Rank::Number((millis << 70) + (i128::from(id.number) << 6) + i128::from(id.partition))
}

impl PagedRow for PendingLine {
    fn id(&self) -> EntryId {
        self.entry
    }

    fn facets() -> Vec<Facet<Self>> {
        vec![
            Facet::new(columns::ENTRY, |line| line.entry.to_string(), |line| id_rank(line.entry)),
            Facet::new(
                columns::AGE,
                |line| figures::span(line.age_ms),
                |line| Rank::number(Some(line.age_ms)),
            ),
            Facet::new(
                columns::IDLE,
                |line| figures::span(line.idle_ms),
                |line| Rank::number(Some(line.idle_ms)),
            ),
            Facet::new(
                columns::TRIES,
                |line| figures::thousands(line.deliveries),
                |line| Rank::number(Some(line.deliveries)),
            ),
            Facet::new(
                columns::ORDER,
                |line| optional(line.order),
                |line| Rank::number(line.order.map(OrderId::as_i64)),
            ),
            Facet::new(
                columns::USER,
                |line| optional(line.user),
                |line| Rank::number(line.user.map(|user| user.0)),
            ),
            Facet::new(
                columns::VOUCHER,
                |line| line.voucher.map_or_else(String::new, |id| format!("#{id}")),
                |line| Rank::number(line.voucher.map(|voucher| voucher.0)),
            ),
            Facet::new(
                columns::HOLDER,
                |line| {
                    let dead = if line.holder_alive { "" } else { text::DEAD_HOLDER.read() };
                    format!("{} {dead}", line.consumer).trim_end().to_owned()
                },
                |line| Rank::text(&line.consumer),
            ),
            Facet::new(
                columns::VERDICT,
                |line| {
                    let word = line.verdict.map(|it| text::verdict_word(it).to_string());
                    [word, line.fault.clone()].into_iter().flatten().collect::<Vec<_>>().join(" ")
                },
                |line| line.verdict.map_or(Rank::Unknown, |it| Rank::text(text::verdict_word(it))),
            ),
        ]
    }

    fn page(snapshot: &Snapshot) -> Page<'_, Self> {
        let PendingPage { from, lines, .. } = &snapshot.pending;
        let total = snapshot.stream.as_ref().map_or(0, |stream| stream.pending);
        let before = snapshot.pending.before.or((*from == EntryId::MIN).then_some(0));
        let more = match before {
            Some(before) => before + (lines.len() as u64) < total,
            None => !lines.is_empty(),
        };
        Page { from: *from, lines, total, before, more, fresh: snapshot.redis.up }
    }
}

impl PagedRow for LetterLine {
    fn id(&self) -> EntryId {
        self.letter
    }

    fn facets() -> Vec<Facet<Self>> {
        vec![
            Facet::new(
                columns::LETTER,
                |line| line.letter.to_string(),
                |line| id_rank(line.letter),
            ),
            Facet::new(
                columns::ENTRY,
                |line| optional(line.entry),
                |line| line.entry.map_or(Rank::Unknown, id_rank),
            ),
            Facet::new(
                columns::AGE,
                |line| figures::span(line.age_ms),
                |line| Rank::number(Some(line.age_ms)),
            ),
            Facet::new(
                columns::TRIES,
                |line| figures::thousands(line.deliveries),
                |line| Rank::number(Some(line.deliveries)),
            ),
            Facet::new(
                columns::REPLAYS,
                |line| figures::thousands(line.replays),
                |line| Rank::number(Some(line.replays)),
            ),
            Facet::new(
                columns::ORDER,
                |line| optional(line.order),
                |line| Rank::number(line.order.map(OrderId::as_i64)),
            ),
            Facet::new(
                columns::USER,
                |line| optional(line.user),
                |line| Rank::number(line.user.map(|user| user.0)),
            ),
            Facet::new(
                columns::VOUCHER,
                |line| line.voucher.map_or_else(String::new, |id| format!("#{id}")),
                |line| Rank::number(line.voucher.map(|voucher| voucher.0)),
            ),
            Facet::new(
                columns::HOLDER,
                |line| line.consumer.clone(),
                |line| Rank::text(&line.consumer),
            ),
            Facet::new(
                columns::VERDICT,
                |line| text::letters::verdict_word(line.verdict).to_string(),
                |line| Rank::text(text::letters::verdict_word(line.verdict)),
            ),
            Facet::new(
                columns::REASON,
                |line| line.reason.clone(),
                |line| Rank::text(&line.reason),
            ),
        ]
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

/// Where the person is in a list of such lines.
#[derive(Debug)]
pub(crate) struct PagedState<R> {
    pub(crate) cursor: Option<EntryId>,
    /// Row of the cursor, for when its line is gone.
    row: usize,
    pub(crate) marks: BTreeSet<EntryId>,
    pub(crate) filter: Input,
    pub(crate) scroll: Scroll,
    pub(crate) detail: bool,
    /// Start of the page that was asked for last.
    from: EntryId,
    /// Starts of the pages before it.
    starts: Vec<EntryId>,
    /// A page that was asked for and has not come.
    awaited: Option<(EntryId, bool)>,
    of: PhantomData<R>,
}

impl<R> Default for PagedState<R> {
    fn default() -> Self {
        Self {
            cursor: None,
            row: 0,
            marks: BTreeSet::new(),
            filter: Input::default(),
            scroll: Scroll::default(),
            detail: false,
            from: EntryId::MIN,
            starts: Vec::new(),
            awaited: None,
            of: PhantomData,
        }
    }
}

/// What a movement leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Moved,
    /// A page was asked for already.
    Waiting,
    /// There is nothing beyond.
    Edge {
        top: bool,
    },
    /// Another page has to be read.
    Page(PageTurn),
}

/// Which page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageTurn {
    Next(EntryId),
    Previous,
    First,
}

/// What a new picture did to the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) marks_gone: usize,
    /// The page is used up, so another one is to be read.
    pub(crate) turned: bool,
    /// The list grew beyond one page, so it stands in the order of its ids again.
    pub(crate) unordered: bool,
}

impl<R: PagedRow> PagedState<R> {
    /// The lines of this page that the filter lets through.
    pub(crate) fn rows<'a>(&self, snapshot: &'a Snapshot) -> Vec<&'a R> {
        let wanted = Wanted::new(self.filter.value());
        let page = R::page(snapshot);
        let fits = |line: &&R| wanted.lets(|word| line.holds(word));
        let mut rows: Vec<&R> = page.lines.iter().filter(fits).collect();
        // A page in another order would hide that the rest is not in it.
        sort(&mut rows, &R::facets(), self.scroll.order.as_ref().filter(|_| page.is_whole()));
        rows
    }

    pub(crate) fn position(&self, rows: &[&R]) -> Option<usize> {
        rows.iter().position(|line| Some(line.id()) == self.cursor)
    }

    pub(crate) fn chosen_line<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a R> {
        let rows = self.rows(snapshot);
        self.position(&rows).and_then(|row| rows.get(row).copied())
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.awaited.is_some()
    }

    /// Where the page starts that is to be read.
    pub(crate) fn from(&self) -> EntryId {
        self.from
    }

    /// Keeps cursor and marks true against a new picture.
    pub(crate) fn settle(&mut self, snapshot: &Snapshot) -> Settled {
        let page = R::page(snapshot);
        let mut settled = Settled::default();
        if !page.fresh {
            return settled;
        }
        if !page.is_whole() && self.scroll.order.take().is_some() {
            settled.unordered = true;
        }
        if let Some((_, at_end)) = self.awaited.take_if(|(from, _)| *from == page.from) {
            let edge = if at_end { page.lines.last() } else { page.lines.first() };
            self.cursor = edge.map(R::id);
        }
        if page.lines.is_empty() && page.from != EntryId::MIN && self.awaited.is_none() {
            self.turn(PageTurn::First);
            settled.turned = true;
        }
        // Only a page can tell that a line is gone; marks on other pages stay as they are.
        let held = self.marks.len();
        let (first, last) = page.span();
        let there: BTreeSet<EntryId> = page.lines.iter().map(R::id).collect();
        self.marks.retain(|mark| !(first..=last).contains(mark) || there.contains(mark));
        settled.marks_gone = held - self.marks.len();
        self.settle_cursor(snapshot);
        settled
    }

    /// The cursor stays on its line, or goes to the one that took its row.
    pub(crate) fn settle_cursor(&mut self, snapshot: &Snapshot) {
        let rows = self.rows(snapshot);
        if let Some(row) = self.position(&rows) {
            self.row = row;
            return;
        }
        let row = self.row.min(rows.len().saturating_sub(1));
        self.row = row;
        self.cursor = rows.get(row).map(|line| line.id());
    }

    /// Marks or unmarks the line under the cursor; `false` where there is none.
    pub(crate) fn mark(&mut self, snapshot: &Snapshot) -> bool {
        let Some(id) = self.chosen_line(snapshot).map(R::id) else { return false };
        if !self.marks.remove(&id) {
            self.marks.insert(id);
        }
        true
    }

    pub(crate) fn step(&mut self, snapshot: &Snapshot, step: Step) -> Turn {
        if self.is_waiting() {
            return Turn::Waiting;
        }
        let rows = self.rows(snapshot);
        let row = self.position(&rows).unwrap_or(0);
        let next = step.from(row, rows.len(), self.scroll.visible);
        if next != row {
            self.row = next;
            self.cursor = rows.get(next).map(|line| line.id());
            return Turn::Moved;
        }
        let page = R::page(snapshot);
        let forward = matches!(step, Step::Last | Step::By(1..) | Step::Screens(1..));
        match (forward, page.lines.last()) {
            (true, Some(last)) if page.more => Turn::Page(PageTurn::Next(last.id().next_of_all())),
            (false, _) if page.from != EntryId::MIN => Turn::Page(match step {
                Step::First => PageTurn::First,
                _ => PageTurn::Previous,
            }),
            _ => Turn::Edge { top: !forward },
        }
    }

    /// Goes to another page, which is to be read.
    pub(crate) fn turn(&mut self, turn: PageTurn) {
        self.from = match turn {
            PageTurn::Next(from) => {
                self.starts.push(self.from);
                from
            }
            PageTurn::Previous => self.starts.pop().unwrap_or(EntryId::MIN),
            PageTurn::First => {
                self.starts.clear();
                EntryId::MIN
            }
        };
        self.awaited = Some((self.from, turn == PageTurn::Previous));
    }
}
