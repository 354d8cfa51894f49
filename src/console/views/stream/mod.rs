//! Stream: the consumer group, its consumers, and entries as they arrive.

mod commands;
mod entry_holder;
mod state;
pub(crate) mod wording;

use std::cmp::Ordering;

use ratatui::{
    style::Style,
    text::{Line, Span},
};
use seckill_engine::{
    orders::decode,
    telemetry::{
        Snapshot, StreamView,
        snapshot::{EntryLine, GroupConsumer, NodeState, StreamPage, StreamStats},
    },
};
use seckill_model::{
    EntryId,
    message::{Label, text},
};

pub(crate) use self::state::{Pane, StreamState};
use self::{entry_holder::EntryHolder, state::total, wording as words};
use super::{
    Scene, Source, detail_line, is_stale,
    overview::stream_panel,
    table::{self, Column, Page, Paging, REST, Row, TableState, Value},
};
use crate::{
    keymap::{Action, key_of},
    text::{self, figures},
    views::View,
    widgets::{self, Canvas, wrap},
};

/// Rows of the detail: a rule and seven lines.
const DETAIL: u16 = 8;
/// Rows of the figures if all of them fit.
const FIGURES: u16 = 4;

pub(super) fn draw(
    canvas: &mut Canvas<'_>,
    scene: &Scene<'_>,
    state: &mut StreamState,
    frozen: bool,
) {
    let (w, h) = (canvas.width(), canvas.height());
    let page = &scene.snapshot.entries;
    head(canvas, scene, state, frozen);
    let Some(whole) = total(&page.partitions, state.partition()) else {
        let read = page.taken.is_some() || scene.snapshot.redis.up;
        let said = if read { text::READING } else { Label("stream-redis-is-unreachable-stream") };
        canvas.text(1, 2, &scene.fit(&said, w.saturating_sub(2)), scene.theme.soft());
        return;
    };
    let open = state.entries.controls.detail && state.pane == Pane::Entries;
    let chosen = state.entries.chosen(scene.snapshot).filter(|_| open);
    if let Some(line) = chosen.filter(|_| h < DETAIL + 4) {
        state.entries.controls.top = None;
        return detail(&mut canvas.below(1), scene, line);
    }
    // In a small window the detail replaces what is above it.
    let brief = scene.compact || (open && h < 28);
    let mut y = if brief { 1 } else { 2 };
    if brief {
        let line = brief_line(scene, state, &whole);
        canvas.line(1, y, &line);
        y += 1;
    } else {
        figures(&mut canvas.part(0, y, w, FIGURES), scene, state, &whole);
        y += FIGURES + 1;
    }
    if state.pane == Pane::Consumers || !brief {
        let whole_rest = brief || h < 14;
        let rest = h.saturating_sub(y);
        let wanted = page.consumers.len().max(1) as u16 + 1;
        let rows = match state.pane {
            Pane::Consumers if whole_rest => rest,
            Pane::Consumers => wanted.min(rest * 2 / 3),
            Pane::Entries => wanted.min(if h >= 26 { 6 } else { 4 }),
        };
        consumers(&mut canvas.part(0, y, w, rows), scene, state);
        y += rows + 1;
    }
    if y + 2 > h {
        return;
    }
    // The table keeps its headings and a few rows.
    let below = if open { DETAIL.min(h.saturating_sub(y + 4)) } else { 0 };
    entries(&mut canvas.part(0, y, w, h.saturating_sub(y + below)), scene, state);
    if let Some(line) = chosen {
        detail(&mut canvas.part(0, h - below, w, below), scene, line);
    }
}

/// The heading: partition, and whether the list follows.
fn head(canvas: &mut Canvas<'_>, scene: &Scene<'_>, state: &StreamState, frozen: bool) {
    let theme = scene.theme;
    let page = &scene.snapshot.entries;
    let mut heading = scene.page_heading(&Label("common-stream"), &[Source::Redis], page.taken);
    if page.partitions.len() > 1 {
        let text = match state.partition() {
            Some(number) => text!(
                "stream-partition-of-0-to",
                number,
                last = page.partitions.len().saturating_sub(1)
            ),
            None => Label("stream-all-partitions").read().to_owned(),
        };
        heading.push_span(Span::raw(format!("  {text}")));
    }
    canvas.line(1, 0, &heading);
    let mut spans = Vec::new();
    let filter = state.entries.controls.filter.value();
    if !filter.is_empty() {
        let shown = text!(
            "stream-of-on-this-page",
            shown = state.entries.rows(scene.snapshot).len(),
            of = page.lines.len()
        );
        spans.push(Span::raw(format!("/{}   {shown}   ", scene.fit(filter, 20))));
    }
    if state.entries.is_waiting() && !state.entries.is_first_page() {
        spans.push(Span::styled(text::READING.to_owned(), theme.warn()));
    } else if state.entries.is_first_page()
        && (frozen || is_stale(scene.health(Source::Redis), scene.now))
    {
        // No entries arrive; the badge or the heading shows why.
    } else if state.entries.is_first_page() {
        spans.push(Span::styled(format!("{} ", theme.glyphs.falling), theme.good()));
        spans.push(Span::styled(Label("stream-following").read(), theme.soft()));
    } else {
        let at = page.lines.last().map(|line| time(scene, line.entry));
        let at = at.unwrap_or_else(|| text::UNKNOWN.read().to_owned());
        spans.push(Span::styled(
            text!("stream-held-at-press-to-follow", at, key = key_of(Action::Last)),
            theme.warn(),
        ));
    }
    let width = canvas.width().saturating_sub(2);
    canvas.part(0, 0, width, 1).line_right(0, &Line::from(spans));
}

/// The most important figures in one line, at constant positions.
fn brief_line(scene: &Scene<'_>, state: &StreamState, whole: &StreamStats) -> Line<'static> {
    let soft = scene.theme.soft();
    let mut spans = vec![Span::styled(format!("{} ", Label("common-lag").read()), soft)];
    let (lag, text) = lag(scene, state, whole, BRIEF);
    spans.extend(lag);
    spans.push(Span::styled(format!("  {} ", Label("common-pending").read()), soft));
    spans.push(Span::raw(field(whole.pending, BRIEF)));
    spans.push(Span::styled(format!("  {} ", Label("stream-kept").read()), soft));
    spans.push(Span::raw(field(whole.length, BRIEF)));
    spans.extend(text);
    Line::from(spans)
}

/// Cells of a figure that others follow, in the full and the one-line layout.
const FIELD: usize = 9;
const BRIEF: usize = 7;

fn field(count: u64, cells: usize) -> String {
    widgets::left(&figures::within(count, cells), cells, "")
}

/// The lag with its trend and drain time.
fn lag(
    scene: &Scene<'_>,
    state: &StreamState,
    whole: &StreamStats,
    cells: usize,
) -> (Vec<Span<'static>>, Option<Span<'static>>) {
    let theme = scene.theme;
    let in_field =
        |word: &str, style| (vec![Span::styled(widgets::left(word, cells + 2, ""), style)], None);
    if !whole.group && whole.length > 0 {
        return in_field(Label("stream-no-group").read(), theme.bad());
    }
    let Some(lag) = whole.lag else {
        return in_field(text::UNKNOWN.read(), theme.warn());
    };
    let flow = state.flow().unwrap_or(scene.lag);
    let (glyph, style) = stream_panel::arrow(theme, flow, lag);
    let text = match flow.trend().filter(|_| lag > 0) {
        Some(Ordering::Greater) => {
            Some(text!("stream-grows-by", rate = figures::rate(flow.growth())))
        }
        _ => flow.drains_in().map(text::drains_in),
    };
    let spans = vec![Span::raw(field(lag, cells)), Span::styled(format!(" {glyph}"), style)];
    (spans, text.map(|text| Span::styled(format!("  {text}"), theme.soft())))
}

/// Cells of an entry's ID, so that nothing behind it moves.
const ID: usize = 16;

/// Two columns: the content of the stream, and the progress of its group.
fn figures(canvas: &mut Canvas<'_>, scene: &Scene<'_>, state: &StreamState, whole: &StreamStats) {
    let theme = scene.theme;
    let now = scene.snapshot.entries.taken.unwrap_or(scene.now);
    let soft = |text: String| Span::styled(text, theme.soft());
    let dash = || Span::styled("-", theme.soft());
    let id = |id: Option<EntryId>| match id {
        Some(id) => {
            let ago = text::ago(&figures::steady_span(now.since(id.added())));
            let id = id.to_string();
            let cells = ID.max(widgets::width(&id));
            vec![Span::raw(widgets::left(&id, cells, "")), soft(format!(" {ago}"))]
        }
        None => vec![dash()],
    };
    let mut kept = vec![Span::raw(figures::thousands(whole.length))];
    kept.extend(whole.bytes.map(|bytes| soft(format!("  {}", words::bytes(bytes)))));
    let gone = whole.added.saturating_sub(whole.length);
    let trimmed = match gone {
        0 => vec![Span::raw("0")],
        gone => vec![Span::raw(text!("stream-before-the-oldest", gone = figures::within(gone, 9)))],
    };
    let left = [
        (Label("stream-kept"), kept),
        (Label("stream-oldest"), id(whole.first)),
        (Label("stream-newest"), id(whole.last)),
        (Label("stream-trimmed"), trimmed),
    ];
    let mut pending = vec![Span::raw(field(whole.pending, FIELD))];
    let oldest = whole.oldest_pending.map(|id| text::oldest(now.since(id.added())));
    pending.extend(oldest.map(|shown| soft(format!("  {shown}"))));
    let delivered = match whole.delivered.filter(|_| whole.group) {
        // The group was created at the start and has read nothing.
        Some(at) if at.millis == 0 => vec![Span::raw(Label("stream-nothing-yet").read())],
        at => id(at),
    };
    // Redis stops counting at a gap in the stream, and resumes when the group reaches the end.
    let read = whole.read.or_else(|| whole.lag.map(|lag| whole.added.saturating_sub(lag)));
    let read = match read {
        Some(read) => text!(
            "stream-of-added",
            read = figures::within(read, 9),
            added = figures::within(whole.added, 9)
        ),
        None => text!("stream-not-counted-added", added = figures::within(whole.added, 9)),
    };
    let (lag, shown) = lag(scene, state, whole, FIELD);
    let right = [
        (Label("common-lag"), lag.into_iter().chain(shown).collect()),
        (Label("common-pending"), pending),
        (Label("stream-delivered"), delivered),
        (Label("stream-read"), vec![Span::raw(read)]),
    ];
    let w = canvas.width();
    let middle = if w >= 100 { w / 2 } else { 41 };
    for (x, room, label, rows) in
        [(1, middle - 2, 9, left), (middle, w - middle - 1, if w >= 100 { 11 } else { 10 }, right)]
    {
        for (y, (name, value)) in rows.into_iter().enumerate() {
            let mut line = canvas.part(x, y as u16, room, 1);
            line.text(0, 0, name.read(), theme.soft());
            line.line(label, 0, &Line::from(value));
        }
    }
}

impl Row for GroupConsumer {
    /// Names are unique within a partition only.
    type Id = (u16, String);
    type Key = ();

    const COLUMNS: &'static [Column<Self>] = &[
        Column::new(Label("stream-consumer"), &[(0, REST)], |it: &Self| it.name.clone().into()),
        Column::new(Label("stream-partition"), &[(0, 9)], |it: &Self| {
            u64::from(it.partition).into()
        })
        .when(|snapshot| snapshot.entries.partitions.len() > 1)
        .soft()
        .right(),
        Column::new(Label("common-node"), &[(0, 8)], |it: &Self| {
            Value::Text(words::state(it.state, it.pending > 0).to_owned())
        })
        .styled(|scene, it| match (it.state, it.pending) {
            (NodeState::Alive, _) => scene.theme.good(),
            (_, 0) => scene.theme.soft(),
            (NodeState::Stopped, _) => scene.theme.warn(),
            (NodeState::Dead, _) => scene.theme.broken(),
        }),
        Column::new(text::PENDING, &[(0, 9)], |it: &Self| it.pending.into())
            .styled(|scene, it| match it.state {
                NodeState::Stopped | NodeState::Dead if it.pending > 0 => scene.theme.warn(),
                _ => Style::new(),
            })
            .right(),
        Column::new(Label("tables-idle"), &[(0, 8)], |it: &Self| Value::Span(it.idle_ms))
            .soft()
            .in_ms()
            .right(),
    ];

    fn id(&self) -> Self::Id {
        (self.partition, self.name.clone())
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn list(snapshot: &Snapshot) -> Vec<&Self> {
        snapshot.entries.consumers.iter().collect()
    }

    fn page(snapshot: &Snapshot) -> Page<'_, Self> {
        let is_read = snapshot.entries.taken.is_some();
        Page { is_read, ..Page::whole(Self::list(snapshot)) }
    }
}

fn consumers(canvas: &mut Canvas<'_>, scene: &Scene<'_>, state: &mut StreamState) {
    let theme = scene.theme;
    let mut all = GroupConsumer::list(scene.snapshot);
    if all.is_empty() {
        canvas.text(1, 0, Label("stream-consumer").read(), theme.heading());
        canvas.text(1, 1, Label("stream-no-consumer-reads-the-stream").read(), theme.soft());
        return;
    }
    if state.pane == Pane::Consumers {
        let cursor = state.consumers.position(&all);
        return table::draw(canvas, scene, &mut state.consumers, &all, cursor);
    }
    // Abbreviated here; shown in full once this list has the focus.
    let (w, h) = (canvas.width(), canvas.height());
    let room = usize::from(h.saturating_sub(1));
    let more = (all.len() > room && room > 1).then(|| all.len() + 1 - room);
    all.truncate(all.len() - more.unwrap_or(0));
    let height = if more.is_some() { h - 1 } else { h };
    let mut at_rest = TableState::default();
    table::draw(&mut canvas.part(0, 0, w, height), scene, &mut at_rest, &all, None);
    if let Some(more) = more {
        canvas.text(
            1,
            h - 1,
            &text!("stream-and-more-press-for-all", count = more, key = key_of(Action::Pane)),
            theme.soft(),
        );
    }
}

impl Row for EntryLine {
    type Id = EntryId;
    type Key = StreamView;

    const PAGING: Paging = Paging::NewestLast;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new(Label("tables-entry"), &[(0, 17), (100, 19)], |line: &Self| {
            Value::Entry(line.entry)
        })
        .fit(|_, line| line.entry.to_string().len()),
        Column::new(Label("common-time"), &[(0, 8), (72, 12)], |line: &Self| {
            Value::Time(line.entry.added())
        })
        .shown(|scene, line, cells| {
            let full = time(scene, line.entry);
            full.get(..usize::from(cells)).unwrap_or(&full).to_owned().into()
        })
        .soft(),
        Column::new(Label("common-user"), &[(72, 8)], |line: &Self| line.user.into()).right(),
        Column::new(Label("common-sale-2"), &[(72, 6)], |line: &Self| line.voucher.into()).right(),
        Column::new(Label("common-order-2"), &[(100, 19)], |line: &Self| line.order.into()).right(),
        Column::new(Label("common-state"), &[(0, REST)], |line: &Self| {
            let (before, name, after) = holding(line);
            Value::Mentions(format!("{before} {name} {after}"), line.user)
        })
        // State and consumer are found even where the screen shows an error instead.
        .searched(|line| {
            let (before, _, after) = holding(line);
            let holder = EntryHolder::of(line);
            let consumer =
                if let EntryHolder::Held { consumer, .. } = holder { consumer } else { "" };
            format!("{} {before} {consumer} {after}", holder.word())
        })
        .shown(|scene, line, cells| {
            let (before, name, after) = holding(line);
            if name.is_empty() {
                return scene.users.within(&before, line.user).into();
            }
            let taken = widgets::width(&before) + 1;
            let room = cells.saturating_sub(taken as u16);
            let mut shown = scene.fit_before(name, after, room);
            shown.spans.insert(0, Span::raw(format!("{before} ")));
            shown
        })
        .styled(holding_style),
    ];

    fn id(&self) -> EntryId {
        self.entry
    }

    fn name(&self) -> String {
        self.entry.to_string()
    }

    fn list(snapshot: &Snapshot) -> Vec<&Self> {
        snapshot.entries.lines.iter().collect()
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
            is_read: taken.is_some() && whole.is_some(),
            ..Page::whole(Self::list(snapshot))
        }
    }
}

fn entries(canvas: &mut Canvas<'_>, scene: &Scene<'_>, state: &mut StreamState) {
    let rows = state.entries.rows(scene.snapshot);
    if rows.is_empty() {
        let text = nothing(&scene.snapshot.entries, state);
        let lines = wrap(&text, usize::from(canvas.width().saturating_sub(2)));
        for (y, line) in (0..).zip(&lines) {
            canvas.text(1, y, line, scene.theme.soft());
        }
        return;
    }
    let cursor = state.entries.position(&rows).filter(|_| state.pane == Pane::Entries);
    let at = cursor.or_else(|| rows.len().checked_sub(1).filter(|_| state.entries.is_first_page()));
    let visible = usize::from(canvas.height().saturating_sub(1));
    state.entries.controls.follow(at, rows.len(), visible);
    table::draw(canvas, scene, &mut state.entries, &rows, cursor);
}

/// Why there is no row.
fn nothing(page: &StreamPage, state: &StreamState) -> String {
    if page.view.partition != state.partition() || page.taken.is_none() {
        text::READING.to_owned()
    } else if page.lines.is_empty() {
        Label("stream-stream-is-empty-each-admitted").read().to_owned()
    } else {
        text!(
            "stream-no-entry-on-this-page",
            text = text::echo(state.entries.controls.filter.value()),
            key = key_of(Action::Back)
        )
    }
}

/// What holds the entry: a state, the name of a consumer and the state of its node; an error instead of these if the
/// entry is invalid.
fn holding(line: &EntryLine) -> (String, &str, &'static str) {
    let holder = EntryHolder::of(line);
    match (holder, &line.fault) {
        (EntryHolder::Waiting | EntryHolder::Held { .. } | EntryHolder::Unknown, Some(fault)) => {
            (text::order_error(fault), "", "")
        }
        (EntryHolder::Held { consumer, .. }, None) => {
            let state = match line.holder {
                Some(NodeState::Alive) => "",
                Some(state) => words::state(state, true),
                None => text::UNKNOWN.read(),
            };
            (holder.word().to_owned(), consumer, state)
        }
        _ => (holder.word().to_owned(), "", ""),
    }
}

fn holding_style(scene: &Scene<'_>, line: &EntryLine) -> Style {
    let theme = scene.theme;
    match (EntryHolder::of(line), line.holder) {
        (EntryHolder::Letters | EntryHolder::LettersOrNot, _) => theme.warn(),
        (EntryHolder::Done, _) => theme.soft(),
        _ if line.fault.is_some() => theme.warn(),
        (EntryHolder::Waiting, _) => theme.accent(),
        (EntryHolder::Held { .. }, Some(NodeState::Alive)) => Style::new(),
        (EntryHolder::Held { .. }, Some(NodeState::Dead)) => theme.broken(),
        (EntryHolder::Held { .. } | EntryHolder::Unknown, _) => theme.warn(),
    }
}

/// The time of day at which an entry was added, to the millisecond.
fn time(scene: &Scene<'_>, entry: EntryId) -> String {
    let full = entry.added().date_time(scene.zone);
    let clock = full.get(11..19).unwrap_or(&full);
    format!("{clock}.{:03}", entry.millis % 1_000)
}

fn detail(canvas: &mut Canvas<'_>, scene: &Scene<'_>, line: &EntryLine) {
    let theme = scene.theme;
    let room = canvas.width().saturating_sub(18);
    canvas.rule(0, theme.glyphs.rule, theme.soft());
    let unknown = || text::UNKNOWN.read().to_owned();
    let added = line.entry.added();
    let added = format!(
        "{}   {}",
        added.date_time(scene.zone),
        text::ago(&figures::span(scene.now.since(added)))
    );
    let order = line.order.map(|id| {
        let decoded = decode(id);
        let issued = decoded.issued.date_time(scene.zone);
        text!(
            "stream-number-of-its-day-issued",
            id = id.to_string(),
            sequence = decoded.sequence,
            issued = issued.get(11..).unwrap_or(&issued)
        )
    });
    let user = line.user.map(|user| words::user(&scene.users.number(user)));
    let sale = line.voucher.map(|id| match scene.snapshot.sale(id) {
        Some(sale) => text::sale_name(id, &sale.title),
        None => format!("#{id}"),
    });
    let hands = EntryHolder::of(line);
    let word = || hands.word().to_owned();
    let (held, style) = match hands {
        EntryHolder::Letters => (
            text!(
                "stream-opens-them",
                text = EntryHolder::Letters.word(),
                key = key_of(Action::Go(View::Letters))
            ),
            theme.warn(),
        ),
        EntryHolder::LettersOrNot => (
            text!(
                "stream-too-many-dead-letters",
                text = EntryHolder::LettersOrNot.word(),
                key = key_of(Action::Go(View::Letters))
            ),
            theme.warn(),
        ),
        EntryHolder::Done => (word(), theme.good()),
        EntryHolder::Waiting => (word(), theme.accent()),
        EntryHolder::Unknown => (word(), theme.warn()),
        EntryHolder::Held { consumer, idle_ms, deliveries } => {
            let style = match line.holder {
                Some(NodeState::Alive) => Style::new(),
                Some(NodeState::Stopped) | None => theme.warn(),
                Some(NodeState::Dead) => theme.bad(),
            };
            (words::pending_with(consumer, idle_ms, deliveries), style)
        }
    };
    let fault = line.fault.as_ref().map(text::order_error).map_or_else(
        || Label("tables-none-its-fields-are-valid").read().to_owned(),
        |fault| scene.users.within(&fault, line.user),
    );
    let faulty = if line.fault.is_some() { theme.warn() } else { theme.soft() };
    let rows = [
        (Label("tables-entry-2"), line.entry.to_string(), theme.strong()),
        (Label("stream-added"), added, Style::new()),
        (Label("common-order"), order.unwrap_or_else(unknown), Style::new()),
        (Label("tables-user"), user.unwrap_or_else(unknown), Style::new()),
        (Label("common-sale"), sale.unwrap_or_else(unknown), Style::new()),
        (Label("stream-state"), held, style),
        (Label("tables-fault"), fault, faulty),
    ];
    // In a small window the table shows the first ones.
    let top = rows.len().saturating_sub(usize::from(canvas.height().saturating_sub(1))).min(2);
    for (row, (label, value, style)) in rows.into_iter().skip(top).enumerate() {
        let value = Line::styled(scene.fit(&value, room), style);
        detail_line(canvas, theme, row as u16 + 1, label.read(), &value);
    }
}
