//! Orders: rows of SQL, page by page, and the trace of one order.

use ratatui::{
    style::Style,
    text::{Line, Span},
};
use seckill_engine::{
    orders::{Location, decode},
    telemetry::snapshot::DeliveryState,
    trace::Trace,
};
use seckill_model::{Millis, Order, OrderId, OrderStatus, UserId, VoucherId, message::Label};

use super::{OrdersState, Scene, Source, alone, is_stale, orders_state::since};
use crate::{
    text::{
        self, conventions,
        orders::{self as words, columns, labels},
    },
    theme::Theme,
    widgets::{Canvas, Cell, Column, Value, table, wrap},
};

/// Rows reserved for the table beside an open detail, with and without space.
const TABLE: [u16; 2] = [6, 4];
/// Rows that a detail needs: a rule and the first fields.
const DETAIL: u16 = 5;
/// From this width on, times include the date.
const WIDE: u16 = 100;
/// A page is read once a second; an older one is outdated.
const STALE_MS: u64 = 4_000;

pub(super) fn draw(
    canvas: &mut Canvas<'_>,
    scene: &Scene<'_>,
    state: &mut OrdersState,
    typing: bool,
) {
    let theme = scene.theme;
    let (w, h) = (canvas.width(), canvas.height());
    head(canvas, scene, state);
    if typing {
        let (said, style) = match state.fault() {
            Some(fault) => (fault.to_string(), theme.warn()),
            None => (words::query_hint(), theme.soft()),
        };
        // Directly above the input.
        let lines = wrap(&said, usize::from(w.saturating_sub(2)));
        let top = h.saturating_sub(lines.len() as u16);
        for (row, line) in lines.iter().enumerate() {
            canvas.text(1, top + row as u16, line, style);
        }
        body(&mut canvas.part(0, 0, w, top.saturating_sub(1)), scene, state);
    } else {
        body(canvas, scene, state);
    }
}

fn body(canvas: &mut Canvas<'_>, scene: &Scene<'_>, state: &mut OrdersState) {
    let theme = scene.theme;
    let (w, h) = (canvas.width(), canvas.height());
    let top = u16::from(!scene.compact) + 1;
    let rows = state.rows(scene.snapshot);
    let known = scene.snapshot.orders.taken.is_some() && !state.is_waiting();
    if rows.is_empty() && !(known && canvas.is_noting()) {
        let shown = state.view().query.id.map(|id| detail_rows(scene, state, id, None, w));
        let shown = shown.filter(|_| scene.snapshot.orders.taken.is_some() && !state.is_waiting());
        if let Some(shown) = shown {
            // The order is not in SQL: its trace is the answer.
            lines(&mut canvas.part(0, top, w, h.saturating_sub(top)), theme, shown);
            return;
        }
        let said = nothing(scene, state);
        for (row, line) in wrap(&said, usize::from(w.saturating_sub(2))).iter().enumerate() {
            canvas.text(1, 2 + row as u16, line, theme.soft());
        }
        return;
    }
    let cursor = state.position(&rows);
    let kept = TABLE[usize::from(scene.compact)];
    let chosen = cursor.filter(|_| state.detail).and_then(|row| rows.get(row)).copied();
    let shown = match chosen.map(|order| detail_rows(scene, state, order.id, Some(order), w)) {
        Some(shown) if h < kept + DETAIL => {
            return detail(&mut alone(canvas, &mut state.scroll), theme, shown);
        }
        shown => shown,
    };
    let below =
        shown.as_ref().map_or(0, |shown| h.saturating_sub(kept).min(shown.len() as u16 + 1));
    let (cols, columns): (Vec<Col>, Vec<Column>) = layout(w).into_iter().unzip();
    let mut scroll = std::mem::take(&mut state.scroll);
    table(
        &mut canvas.part(0, top, w, h.saturating_sub(top + below)),
        theme,
        &columns,
        (rows.len(), cursor),
        &mut scroll,
        |row, _| {
            let Some(order) = rows.get(row) else { return Vec::new() };
            cols.iter().map(|col| cell(scene, order, w >= WIDE, *col)).collect()
        },
    );
    state.scroll = scroll;
    if let Some(shown) = shown {
        detail(&mut canvas.part(0, h - below, w, below), theme, shown);
    }
}

fn detail(canvas: &mut Canvas<'_>, theme: Theme, rows: Vec<(&'static str, String, Style)>) {
    let (w, h) = (canvas.width(), canvas.height());
    canvas.rule(0, theme.glyphs.rule, theme.soft());
    lines(&mut canvas.part(0, 1, w, h.saturating_sub(1)), theme, rows);
}

/// The heading: query and range of the page.
fn head(canvas: &mut Canvas<'_>, scene: &Scene<'_>, state: &OrdersState) {
    let theme = scene.theme;
    let page = &scene.snapshot.orders;
    let mut heading = scene.heading(words::HEADING.read(), &[Source::Sql]);
    let age = page.taken.map(|taken| scene.now.since(taken)).filter(|age| *age > STALE_MS);
    if let Some(age) = age.filter(|_| !is_stale(scene.health(Source::Sql), scene.now)) {
        heading.push_span(Span::styled(format!("  {}", text::old(age)), theme.warn()));
    }
    let query = state.asked_for();
    if !query.is_empty() {
        let room = canvas.width() / 3;
        heading.push_span(Span::raw(format!("  {}", scene.fit(query, room))));
    }
    canvas.line(1, 0, &heading);
    let mut spans = Vec::new();
    let rows = state.rows(scene.snapshot);
    if state.is_waiting() {
        let late = page.late == Some(state.view());
        let said = if late { words::LATE.read() } else { words::READING.read() };
        spans.push(Span::styled(said, theme.warn()));
    } else if !rows.is_empty() {
        let text = match rows.first() {
            Some(first) if !state.shows_newest() => {
                words::held(&brief(scene, decode(first.id).issued))
            }
            _ => words::NEWEST.read().to_owned(),
        };
        let held = if state.shows_newest() { theme.soft() } else { theme.warn() };
        spans.push(Span::styled(text, held));
        if let Some(order) = &state.scroll.order {
            let sorted = conventions::sorted_page(&order.head, rows.len());
            spans.push(Span::styled(format!("   {sorted}"), theme.key()));
        } else
        // In a low window the heading needs the room.
        if state.shows_newest() || !scene.compact {
            let page = words::page(rows.len(), state.shows_newest(), page.more);
            spans.push(Span::styled(format!("   {page}"), theme.soft()));
        }
    }
    let width = canvas.width().saturating_sub(2);
    canvas.part(0, 0, width, 1).line_right(0, &Line::from(spans));
}

/// Why there is no row.
fn nothing(scene: &Scene<'_>, state: &OrdersState) -> String {
    let page = &scene.snapshot.orders;
    if !scene.snapshot.sql.up && (page.taken.is_none() || state.is_waiting()) {
        words::UNREAD.read().to_owned()
    } else if page.late == Some(state.view()) {
        words::UNANSWERED.read().to_owned()
    } else if page.taken.is_none() || state.is_waiting() {
        words::READING.read().to_owned()
    } else if state.view().query.is_empty() {
        words::NONE.read().to_owned()
    } else {
        words::no_match(state.asked_for())
    }
}

/// A cell of the table.
#[derive(Clone, Copy)]
enum Col {
    Order,
    Admitted,
    User,
    Sale,
    Place,
    Status,
    Since,
}

fn layout(width: u16) -> Vec<(Col, Column)> {
    let mut all = vec![(Col::Order, columns::ORDER, 19, true)];
    all.push((Col::Admitted, columns::ADMITTED, if width >= WIDE { 19 } else { 8 }, true));
    all.push((Col::User, columns::USER, if width >= 72 { 12 } else { 8 }, true));
    if width >= 72 {
        all.push((Col::Sale, columns::SALE, 7, true));
    }
    if width >= WIDE {
        all.push((Col::Place, columns::PLACE, 5, true));
    }
    all.push((Col::Status, columns::STATUS, 9, false));
    if width >= 72 {
        all.push((Col::Since, columns::SINCE, if width >= WIDE { 19 } else { 8 }, true));
    }
    all.into_iter()
        .map(|(col, title, width, numeric)| (col, Column { title, width, numeric }))
        .collect()
}

fn cell(scene: &Scene<'_>, order: &Order, wide: bool, col: Col) -> Cell {
    let theme = scene.theme;
    // Without room for both: the time if it is today, else the date.
    let moment = |at: Millis| if wide { at.date_time(scene.zone) } else { brief(scene, at) };
    match col {
        Col::Order => Cell::plain(order.id.to_string()),
        Col::Admitted => {
            let at = admitted(order);
            Cell::new(moment(at), theme.soft()).exactly(Value::time(Some(at)))
        }
        Col::User => Cell::plain(scene.users.number(order.user_id)),
        Col::Sale => Cell::plain(format!("#{}", order.voucher_id)),
        Col::Place => {
            let place = order.place.map_or_else(|| "-".to_owned(), |place| place.to_string());
            Cell::new(place, theme.soft())
        }
        Col::Status => Cell::new(words::status(order.status), status(theme, order.status))
            .exactly(Value::word(&order.status)),
        Col::Since => {
            Cell::new(moment(since(order)), theme.soft()).exactly(Value::time(Some(since(order))))
        }
    }
}

/// `14:30:00`, or `11-20` on another day.
fn brief(scene: &Scene<'_>, at: Millis) -> String {
    let (full, today) = (at.date_time(scene.zone), scene.now.date_time(scene.zone));
    let same_day = full.get(..10).is_some_and(|day| today.starts_with(day));
    let shown = if same_day { full.get(11..19) } else { full.get(5..10) };
    shown.unwrap_or(&full).to_owned()
}

fn status(theme: Theme, status: OrderStatus) -> Style {
    match status {
        OrderStatus::Unpaid => theme.accent(),
        OrderStatus::Paid | OrderStatus::Used => theme.good(),
        OrderStatus::Cancelled | OrderStatus::Closed => theme.soft(),
    }
}

/// An ID may be dated ahead of the clock, but nothing is written before it is admitted.
fn admitted(order: &Order) -> Millis {
    decode(order.id).issued.min(order.create_time)
}

/// To the millisecond, and the time since the previous step, if that is known.
fn exact(scene: &Scene<'_>, at: Millis, before: Option<Millis>) -> String {
    let time = format!("{}.{:03}", at.date_time(scene.zone), at.0.rem_euclid(1_000));
    match before {
        Some(before) => words::time_after(&time, at.0.saturating_sub(before.0)),
        None => time,
    }
}

type DetailRow = (Label, String, Style);

/// The detail of an order, one line each: user and trace.
fn detail_rows(
    scene: &Scene<'_>,
    state: &OrdersState,
    id: OrderId,
    row: Option<&Order>,
    width: u16,
) -> Vec<(&'static str, String, Style)> {
    let theme = scene.theme;
    let (plain, soft) = (Style::new(), theme.soft());
    let trace = state.trace_of(id);
    let decoded = decode(id);
    let at = |at: Millis| at.date_time(scene.zone);
    let partition = trace.and_then(|trace| trace.partition);
    let mut rows: Vec<DetailRow> = vec![
        (labels::ORDER, id.to_string(), theme.strong()),
        (labels::ID, words::id_says(&at(decoded.issued), &decoded, partition), plain),
    ];
    let bought = row.map(|order| (order.user_id, order.voucher_id, order.place));
    if let Some((user, voucher, place)) = bought.or_else(|| trace.and_then(bought_by)) {
        let sale = match scene.snapshot.sale(voucher) {
            Some(sale) => text::sale_name(voucher, &sale.title),
            None => format!("#{voucher}"),
        };
        rows.push((labels::BUYER, words::buyer(&scene.users.number(user), place, &sale), plain));
    }
    match trace {
        None if state.is_unanswered(id) => {
            rows.push((labels::STANDING, words::NO_ANSWER.read().to_owned(), theme.warn()));
        }
        None => rows.push((labels::STANDING, words::LOOKING.read().to_owned(), soft)),
        Some(trace) => way(scene, trace, row, &mut rows),
    }
    if let Some(order) = row {
        let written = order.create_time;
        let before = trace.and_then(|it| it.entry.as_ref()).map(|(entry, _)| entry.added());
        rows.push((labels::WRITTEN, exact(scene, written, before), plain));
        let paid = |paid: Millis| exact(scene, paid, Some(written));
        let ended = match (order.status, order.pay_time) {
            (OrderStatus::Used, Some(at)) => {
                (words::and(&paid(at), words::status(order.status)), theme.good())
            }
            (_, Some(at)) => (paid(at), theme.good()),
            (OrderStatus::Unpaid, None) => (words::NOT_YET.read().to_owned(), theme.accent()),
            (_, None) => (words::NEVER.read().to_owned(), soft),
        };
        rows.push((labels::PAID, ended.0, ended.1));
        if !order.status.is_live() {
            let closed = order.close_time.map_or_else(
                || text::UNKNOWN.read().to_owned(),
                |at| exact(scene, at, Some(written)),
            );
            let word = words::status(order.status);
            rows.push((labels::CLOSED, words::and(&closed, word), theme.warn()));
        }
    }
    let room = usize::from(width.saturating_sub(18));
    rows.into_iter()
        .flat_map(|(label, text, style)| {
            let parts = wrap(&text, room).into_iter().enumerate();
            parts.map(move |(row, part)| (if row == 0 { label.read() } else { "" }, part, style))
        })
        .collect()
}

/// Its buyer record in Redis, its stream entry, and the holder of that.
fn way(scene: &Scene<'_>, trace: &Trace, row: Option<&Order>, rows: &mut Vec<DetailRow>) {
    let theme = scene.theme;
    let (plain, soft) = (Style::new(), theme.soft());
    // The row is newer than the trace.
    if let Some(said) = words::standing(&trace.standing).filter(|_| row.is_none()) {
        let said = scene.users.within(&said, bought_by(trace).map(|(user, ..)| user));
        let lost = matches!(trace.standing, Location::Lost { .. } | Location::Dead { .. });
        rows.push((labels::STANDING, said, if lost { theme.bad() } else { theme.warn() }));
    }
    // The admission script adds the entry: both have the time in its ID.
    let at = trace.entry.as_ref().map(|(entry, _)| entry.added());
    if let Some(held) = trace.held {
        let word = if held { words::HELD } else { words::NOT_HELD };
        let at = at.map(|at| exact(scene, at, None));
        rows.push((labels::ADMITTED, words::admitted(at.as_deref(), word), plain));
    }
    match &trace.entry {
        Some((entry, holding)) => {
            rows.push((labels::STREAM, words::in_stream(&entry.to_string()), plain));
            let (said, style) = match holding {
                DeliveryState::Acknowledged => (words::ACKNOWLEDGED.read().to_owned(), plain),
                DeliveryState::Undelivered => {
                    (words::UNDELIVERED.read().to_owned(), theme.accent())
                }
                DeliveryState::Unknown => (text::UNKNOWN.read().to_owned(), theme.warn()),
                DeliveryState::Pending { consumer, deliveries, .. } => {
                    let last = trace.delivered.map(|last| exact(scene, last, at));
                    let last = last.unwrap_or_else(|| text::UNKNOWN.read().to_owned());
                    (words::pending_with(&last, consumer, *deliveries), theme.warn())
                }
            };
            rows.push((labels::DELIVERED, said, style));
        }
        None if matches!(&trace.standing, Location::Persisted { order } if order.place.is_some()) =>
        {
            let said = if trace.more { words::MORE_ENTRIES } else { words::NO_ENTRY };
            rows.push((labels::STREAM, said.read().to_owned(), soft));
        }
        None => {}
    }
}

/// User, voucher and slot of the order; `None` for an ordinary voucher.
fn bought_by(trace: &Trace) -> Option<(UserId, VoucherId, Option<u8>)> {
    match &trace.standing {
        Location::Persisted { order } => Some((order.user_id, order.voucher_id, order.place)),
        // Only SQL has the slot; otherwise the first one is assumed.
        Location::Undelivered { user_id, voucher_id, .. }
        | Location::Pending { user_id, voucher_id, .. }
        | Location::Dead { user_id, voucher_id, .. }
        | Location::Lost { user_id, voucher_id } => Some((*user_id, *voucher_id, Some(1))),
        Location::Unknown => None,
    }
}

fn lines(canvas: &mut Canvas<'_>, theme: Theme, rows: Vec<(&'static str, String, Style)>) {
    for (row, (label, value, style)) in rows.into_iter().enumerate() {
        canvas.text(1, row as u16, label, theme.soft());
        canvas.line(16, row as u16, &Line::styled(value, style));
    }
}
