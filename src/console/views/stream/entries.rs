//! The entries of the stream: their row and their detail.

use seckill_engine::{
    orders::decode,
    telemetry::{
        StreamView,
        snapshot::{DeliveryState, EntryLine, NodeState, StreamPage},
    },
};

use super::{node_state, total};
use crate::views::prelude::*;

impl Row for EntryLine {
    type Id = EntryId;
    type Key = StreamView;

    const VIEW: View = View::Stream;
    const SOURCES: &'static [Source] = &[Source::Redis];
    const FOCUS: fn(&mut Focus, Self::Key) = |focus, page| focus.stream = Some(page);
    const PAGING: Paging = Paging::NewestLast;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::text(Label("tables-entry"), (0, 15), |line: &Self| line.entry.into()).fit(),
        Column::text(Label("common-time"), (0, 12), |line: &Self| Value::Time(line.entry.added()))
            .shown(|scene, line, _| time(scene, line.entry).into())
            .soft(),
        Column::figure(Label("common-user"), (72, 8), |line: &Self| line.user.into()),
        Column::figure(Label("tables-sale"), (72, 6), |line: &Self| line.voucher.into()),
        Column::figure(Label("tables-order"), (100, 19), |line: &Self| line.order.into()),
        Column::text(Label("common-state"), (0, REST), |line: &Self| match state_words(line) {
            (state, "") => Value::Mentions(state, line.user),
            (state, node) => Value::Tagged(state, node),
        })
        // State and consumer are found even where the screen shows an error instead.
        .searched(|line| {
            let (state, node) = state_words(line);
            format!("{} {} {state} {node}", state_name(line), consumer(line))
        })
        .styled(state_style),
    ];

    fn id(&self) -> EntryId {
        self.entry
    }

    fn page(snapshot: &Snapshot) -> Page<'_, Self> {
        let StreamPage { view, taken, older, lines, partitions, .. } = &snapshot.entries;
        let before = |entry: EntryId| StreamView { before: Some(entry), ..*view };
        let whole = total(partitions, view.partition);
        Page {
            key: *view,
            next: lines.first().filter(|_| *older).map(|line| before(line.entry)),
            held: lines.last().and_then(|line| line.entry.next_of_all()).map(before),
            total: whole.map(|it| it.length),
            taken: *taken,
            is_read: taken.is_some() && whole.is_some(),
            ..Page::whole(lines.iter())
        }
    }

    /// Names the partition.
    fn heading(scene: &Scene, state: &TableState<Self>) -> Line<'static> {
        let StreamPage { taken, partitions, .. } = &scene.shown.entries;
        let mut heading = scene.page_heading(&text::STREAM, Self::SOURCES, *taken);
        let last = partitions.len().saturating_sub(1);
        if last > 0 {
            let text = match state.key().partition {
                Some(number) => text!("stream-partition-of-0-to", number, last),
                None => Label("stream-all-partitions").to_owned(),
            };
            heading.push_span(format!("  {text}"));
        }
        heading
    }

    /// Whether the list follows new entries.
    fn extent(scene: &Scene, state: &TableState<Self>) -> Line<'static> {
        let theme = scene.theme;
        if state.is_waiting() {
            Line::default()
        } else if !state.is_first_page() {
            let at = scene.shown.entries.lines.last().map(|line| time(scene, line.entry));
            let at = at.unwrap_or_else(|| text::UNKNOWN.to_owned());
            Line::styled(text!("stream-held-at-press-to-follow", at), theme.warn)
        } else if scene.frozen || scene.is_blind() {
            // No entries arrive; the badge or the heading shows why.
            Line::default()
        } else {
            let sign = Span::styled(format!("{} ", glyphs::FALLING), theme.good);
            Line::from(vec![sign, Span::styled(Label("stream-following"), theme.soft)])
        }
    }

    fn empty(scene: &Scene, state: &TableState<Self>) -> Option<String> {
        let is_read = Self::page(&scene.shown).is_read && !state.is_waiting();
        is_read.then(|| Label("stream-stream-is-empty-each-admitted").to_owned())
    }

    fn detail<'a>(scene: &'a Scene, line: &'a Self, cells: u16) -> Option<Detail<'a>> {
        let theme = scene.theme;
        let unknown = || text::UNKNOWN.to_owned();
        let added = line.entry.added();
        let ago = text!("console-ago", span = figures::span(scene.seen().since(added)));
        let order = line.order.map(|id| {
            let (issued, sequence) =
                (decode(id).issued.time_of_day(&scene.zone), decode(id).sequence);
            text!("stream-number-of-its-day-issued", id = id.to_string(), sequence, issued)
        });
        let sale = line.voucher.map(|id| text::sale_in(&scene.shown, id));
        let state = state_name(line);
        let state = match (line.dead, &line.holding) {
            (Some(true), _) => text!("stream-opens-them", text = state),
            (None, _) => text!("stream-too-many-dead-letters", text = state),
            (_, DeliveryState::Pending { consumer, idle_ms, deliveries }) => {
                let idle = figures::span(*idle_ms);
                text!("stream-pending-with-idle-delivered", consumer, idle, times = deliveries)
            }
            _ => state.to_owned(),
        };
        let mut detail = Detail::new(scene, cells);
        detail.field(Label("field-entry"), line.entry.to_string(), theme.strong);
        let added = format!("{}   {ago}", added.date_time(&scene.zone));
        detail.line(Label("stream-added"), vec![added.into()]);
        detail.text(Label("field-order"), order.unwrap_or_else(unknown));
        detail.user(scene, line.user);
        detail.text(Label("field-sale"), sale.unwrap_or_else(unknown));
        detail.field(Label("stream-state"), state, state_style(scene, line));
        detail.fault(scene, line.fault.as_ref(), line.user);
        Some(detail)
    }
}

/// Where an entry is. A dead letter that refers to it is known only if all letters were read.
fn state_name(line: &EntryLine) -> Label {
    match (line.dead, &line.holding) {
        (Some(true), _) => Label("stream-in-dead-letters"),
        (None, _) => Label("stream-acknowledged-or-dead"),
        (_, DeliveryState::Acknowledged) => Label("stream-acknowledged"),
        (_, DeliveryState::Undelivered) => Label("stream-waiting"),
        (_, DeliveryState::Pending { .. }) => Label("common-pending"),
        (_, DeliveryState::Unknown) => text::UNKNOWN,
    }
}

/// Whether it was neither acknowledged nor given up.
fn is_open(line: &EntryLine) -> bool {
    line.dead == Some(false) && line.holding != DeliveryState::Acknowledged
}

/// The consumer that holds an entry.
fn consumer(line: &EntryLine) -> &str {
    match &line.holding {
        DeliveryState::Pending { consumer, .. } if is_open(line) => consumer,
        _ => "",
    }
}

/// The state of an entry with its consumer, and the state of the consumer's node; the error instead of these if an open
/// entry is invalid.
fn state_words(line: &EntryLine) -> (String, &'static str) {
    if let Some(fault) = line.fault.as_ref().filter(|_| is_open(line)) {
        return (text::order_error(fault), "");
    }
    let (state, consumer) = (state_name(line), consumer(line));
    let node = match line.holder {
        _ if consumer.is_empty() => return (state.to_owned(), ""),
        Some(NodeState::Alive) => "",
        Some(state) => node_state(state, true),
        None => text::UNKNOWN.read(),
    };
    (format!("{state} {consumer}"), node)
}

fn state_style(scene: &Scene, line: &EntryLine) -> Style {
    let theme = scene.theme;
    match (&line.holding, line.holder) {
        _ if line.dead != Some(false) => theme.warn,
        (DeliveryState::Acknowledged, _) => theme.soft,
        _ if line.fault.is_some() => theme.warn,
        (DeliveryState::Undelivered, _) => theme.accent,
        (DeliveryState::Pending { .. }, Some(NodeState::Alive)) => Style::new(),
        (DeliveryState::Pending { .. }, Some(NodeState::Dead)) => theme.broken,
        _ => theme.warn,
    }
}

/// The time of day at which an entry was added, to the millisecond.
pub(super) fn time(scene: &Scene, entry: EntryId) -> String {
    let full = entry.added().date_time(&scene.zone);
    let clock = full.get(11..19).unwrap_or(&full);
    format!("{clock}.{:03}", entry.millis % 1_000)
}
