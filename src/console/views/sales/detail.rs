//! One sale in detail: phase, outcome of its requests, and stock over time.

use ratatui::{
    layout::Flex,
    widgets::{Block, Borders, Row, Table},
};
use seckill_engine::{
    SaleLine,
    telemetry::snapshot::{SaleOrders, SqlCopy},
};
use seckill_model::{OrderCounts, OrderStatus};
use strum::IntoEnumIterator as _;

use super::{phase, window};
use crate::{
    text::figures::{compact, share, span, steady_span, thousands},
    views::{detail::LABELS, funnel::draw_funnel, orders, prelude::*},
    widgets::{held, strip},
};

/// Cells of the name of a figure beside the funnel, and of the figure unless it is longer.
const FACT: (usize, usize) = (13, 11);
/// Rows of funnel and figures, and of the repeat buyers above them if there is room.
const FIGURES: u16 = 6;
const REPEAT: u16 = 1;
/// Rows of the curve with heading and times: the minimum, and the maximum that is useful.
const CURVE: (u16, u16) = (5, 10);

pub(super) fn of<'a>(scene: &'a Scene, sale: &'a SaleLine, cells: u16) -> Detail<'a> {
    let theme = scene.theme;
    let mut detail = Detail::new(scene, cells);
    let (word, style) = phase(theme, sale);
    let room = usize::from(cells).saturating_sub(width(&word) + 4);
    let name = fit(&text::sale_name(sale.voucher_id, &sale.title), room);
    let name = Span::styled(name, theme.strong);
    let mut heading = Line::from(vec![name, Span::styled(format!("  {word}"), style)]);
    let key = format!("   {}", text!("sale-press-for-its-orders"));
    if heading.width() + width(&key) + 2 <= usize::from(cells) {
        heading.push_span(Span::styled(key, theme.soft));
    }
    detail.heading(heading);
    let of = |count: u64, whole: u64| if whole > 0 { share(count, whole) } else { "-".to_owned() };
    let converted = |admitted| {
        let persisted = of(sale.persisted, admitted);
        let admitted = of(admitted, sale.funnel.attempts.total);
        text!("sale-converted", admitted, persisted)
    };
    let converted = sale.admitted.map_or_else(|| text::UNKNOWN.to_owned(), converted);
    detail.text(Label("sale-conversion"), converted);
    let orders = orders(scene, sale);
    match orders.map(|known| known.counts.as_ref()) {
        Some(Some(counts)) => {
            let states: Vec<String> = states(counts).collect();
            detail.line(Label("common-orders"), vec![states.join("  ").into()]);
            // Tenths would change constantly.
            let age = orders.map_or(0, |known| scene.seen().since(known.taken));
            let age = steady_span(age.div_ceil(1_000).max(1) * 1_000);
            detail.note = format!(" {} ", text!("sale-orders-counted-ago", age));
        }
        None if scene.shown.sql.up => {
            detail.field(Label("common-orders"), text::READING, theme.soft);
        }
        _ => detail.field(Label("common-orders"), text::UNKNOWN, theme.warn),
    }
    let set_back = match sale.sql {
        SqlCopy::Current => None,
        SqlCopy::Behind => Some(text!("sale-set-back-behind")),
        SqlCopy::Lost => Some(text!("sale-set-back-lost")),
    };
    if let Some(what) = set_back {
        detail.field(Label("sale-set-back"), what, theme.warn);
    }
    if !sale.shards.is_empty() {
        detail.text(Label("sale-shards"), left_in_shards(&sale.shards, detail.room));
    }
    detail.least = Some(detail.height() + FIGURES);
    let report = report_rows(scene, sale);
    detail.below(REPEAT + FIGURES + report + CURVE.1, move |area, buffer| {
        figures(area, buffer, scene, sale);
    });
    detail
}

/// What is left in each shard; of more than two lines, only the range.
fn left_in_shards(shards: &[SaleLine], room: usize) -> String {
    let name = |shard: &SaleLine| format!("#{} {}", shard.shard_id(), text::left_in_redis(shard));
    let left: Vec<String> = shards.iter().map(name).collect();
    let of_each = text!("sale-left-in-shards", shards = left.len(), left = left.join("  "));
    let [first, .., last] = shards else { return of_each };
    if wrap(&of_each, room).len() <= 2 {
        return of_each;
    }
    let known = || shards.iter().filter_map(|shard| shard.stock);
    let Some((least, most)) = known().min().zip(known().max()) else {
        return text::UNKNOWN.to_owned();
    };
    text!(
        "sale-left-in-many",
        shards = shards.len(),
        first = first.shard_id(),
        last = last.shard_id(),
        least,
        most,
        dry = known().filter(|left| *left == 0).count(),
        unknown = shards.len() - known().count()
    )
}

/// The funnel beside the other figures; with more rows also the repeat buyers, the report of the last load test, and the
/// stock curve.
fn figures(area: Rect, buffer: &mut Buffer, scene: &Scene, sale: &SaleLine) {
    let half = (area.width / 2).clamp(33, 53);
    let left = area.height.saturating_sub(FIGURES + REPEAT);
    let report = Some(report_rows(scene, sale)).filter(|rows| *rows <= left).unwrap_or(0);
    let rows = [area.height.saturating_sub(FIGURES).min(REPEAT), FIGURES, report];
    let [repeat, above, report, curve] =
        Layout::vertical(rows.map(Length).into_iter().chain([Fill(1)])).areas(area);
    let repeat = repeat.inner(SIDES);
    repeat_buyers(scene, sale, repeat.width).render(repeat, buffer);
    let [funnel, beside] = Layout::horizontal([Length(half), Fill(1)]).spacing(2).areas(above);
    let [_, funnel] = Layout::horizontal([Length(1), Fill(1)]).areas(funnel);
    if sale.admitted.is_some() {
        draw_funnel(funnel, buffer, scene, &sale.funnel);
    } else {
        Line::styled(Label("sale-outcomes-unknown"), scene.theme.soft).render(funnel, buffer);
    }
    Paragraph::new(facts(scene, sale, beside.width)).render(beside, buffer);
    if !report.is_empty() {
        load_test(report.inner(SIDES), buffer, scene, sale);
    }
    if curve.height >= CURVE.0 {
        stock(curve.inner(SIDES), buffer, scene, sale);
    }
}

/// Rows of the report of the last load test, with the blank one and the headings above it.
fn report_rows(scene: &Scene, sale: &SaleLine) -> u16 {
    scene.load_reports.get(&sale.voucher_id).map_or(0, |lines| lines.len() as u16 + 3)
}

/// The aggregate report of the last load test; without room for all columns, those that others imply are omitted.
fn load_test(area: Rect, buffer: &mut Buffer, scene: &Scene, sale: &SaleLine) {
    /// Places of the columns that are omitted first: 90 %, 95 %, average, minimum.
    const OMITTED: [usize; 4] = [4, 5, 2, 7];
    let theme = scene.theme;
    let lines = scene.load_reports.get(&sale.voucher_id).map_or(&[][..], |lines| lines);
    let [_, heading, area] = Layout::vertical([Length(1), Length(1), Fill(1)]).areas(area);
    Line::styled(Label("sale-last-load-test"), theme.heading).render(heading, buffer);
    let mut columns = seckill_text::aggregate(lines).map(Some);
    let cells = |column: &Vec<String>| column.iter().map(|cell| width(cell)).max().unwrap_or(0);
    let mut omitted = OMITTED.into_iter();
    while columns.iter().flatten().map(|it| cells(it) + 2).sum::<usize>() > area.width.into()
        && let Some(place) = omitted.next()
    {
        columns[place] = None;
    }
    let columns: Vec<Vec<String>> = columns.into_iter().flatten().collect();
    let row = |row: usize| {
        let cells = columns.iter().enumerate().map(|(place, column)| {
            let cell = Line::raw(column[row].as_str());
            if place > 0 { cell.right_aligned() } else { cell }
        });
        Row::new(cells).style(if row == 0 { theme.soft } else { Style::new() })
    };
    let widths = columns.iter().map(|column| Length(cells(column) as u16));
    let table = Table::new((0..=lines.len()).map(row), widths).column_spacing(2);
    Widget::render(table, area, buffer);
}

/// The figures of a sale.
fn facts(scene: &Scene, sale: &SaleLine, cells: u16) -> Vec<Line<'static>> {
    let under_way = |admitted: u64| thousands(admitted.saturating_sub(sale.persisted));
    let under_way = sale.admitted.map_or_else(|| text::UNKNOWN.to_owned(), under_way);
    let facts = [
        (Label("tables-on-sale"), thousands(sale.initial)),
        (Label("tables-left-in-redis"), text::left_in_redis(sale)),
        (Label("tables-left-in-sql"), thousands(sale.db_stock)),
        (Label("field-persisted"), thousands(sale.persisted)),
        (Label("tables-under-way"), under_way),
        (Label("field-window"), window(scene, sale)),
    ];
    let line = |(name, fact): (Label, String)| {
        let room = usize::from(cells).saturating_sub(FACT.0);
        let fact = right(&fact, FACT.1.max(width(&fact)).min(room));
        Line::from(vec![Span::styled(left(&name, FACT.0), scene.theme.soft), fact.into()])
    };
    facts.into_iter().map(line).collect()
}

/// Orders in SQL by status: paid orders always, others if there are any.
fn states(counts: &OrderCounts) -> impl Iterator<Item = String> {
    let all = counts.values().sum();
    OrderStatus::iter().filter_map(move |status| {
        let count = counts.get(&status).copied().unwrap_or(0);
        let is_paid = status == OrderStatus::Paid;
        let share = if is_paid && all > 0 { share(count, all) } else { String::new() };
        let shown = format!("{} {} {share}", orders::status(status), thousands(count));
        (is_paid || count > 0).then(|| shown.trim_end().to_owned())
    })
}

/// The SQL counts of that sale, if they were read.
fn orders<'a>(scene: &'a Scene, sale: &SaleLine) -> Option<&'a SaleOrders> {
    scene.shown.sale_orders.as_ref().filter(|it| it.voucher == sale.voucher_id)
}

/// Users with more than one order.
fn repeat_buyers(scene: &Scene, sale: &SaleLine, cells: u16) -> Line<'static> {
    let buyer = |(user, orders): &(UserId, u64)| {
        format!("{} ×{}", scene.users.number(*user), thousands(*orders))
    };
    let known = match orders(scene, sale).and_then(|known| known.repeat_buyers.as_deref()) {
        None => text::UNKNOWN.to_owned(),
        Some([]) => text!("common-none"),
        Some(known) => known.iter().map(buyer).collect::<Vec<_>>().join("  "),
    };
    let known = fit(&known, usize::from(cells).saturating_sub(LABELS));
    let label = left(&Label("sale-repeat-buyers"), LABELS);
    Line::from(vec![Span::styled(label, scene.theme.soft), Span::raw(known)])
}

/// The stock since this node first saw the sale, up to the snapshot.
fn stock(area: Rect, buffer: &mut Buffer, scene: &Scene, sale: &SaleLine) {
    let theme = scene.theme;
    let rows = [Length(1), Length(1), Fill(1)];
    let [_, head, body] = Layout::vertical(rows).areas(area);
    Line::styled(Label("sale-stock-over-time").read(), theme.heading).render(head, buffer);
    let known = scene.shown.curves.of(sale.voucher_id).map(|curves| curves.stock.points());
    let Some(points) = known.filter(|points| !points.is_empty()) else {
        return Line::styled(Label("sale-no-data-from-redis").read(), theme.soft)
            .render(body, buffer);
    };
    let until = scene.shown.taken;
    let first = points.first().map_or(until, |(at, _)| *at);
    // A curve without duration would be a solid block.
    let from = first.min(until.plus(-LEAST_MS));
    let span = text!("sale-last", span = span(until.since(from)));
    Line::styled(span, theme.soft).right_aligned().render(head, buffer);
    let [scale, plot] = Layout::horizontal([Length(SCALE), Fill(1)]).spacing(1).areas(body);
    let [top, zero] = Layout::vertical([Length(1); 2]).flex(Flex::SpaceBetween).areas(scale);
    Line::styled(compact(sale.initial as f64), theme.soft).right_aligned().render(top, buffer);
    Line::styled("0", theme.soft).right_aligned().render(zero, buffer);
    let [first, last] = [from, until].map(|at| format!(" {} ", at.time_of_day(&scene.zone)));
    let axes = Block::new()
        .borders(Borders::LEFT | Borders::BOTTOM)
        .border_style(theme.soft)
        .title_bottom(Line::styled(first, theme.soft))
        .title_bottom(Line::styled(last, theme.soft).right_aligned());
    let inside = axes.inner(plot);
    let shown = held(points, (from, until), inside.width);
    strip(inside, buffer, theme.accent, sale.initial as f64, shown);
    axes.render(plot, buffer);
}

/// Cells of the scale beside a curve.
const SCALE: u16 = 4;

/// Minimum span of a curve in milliseconds.
const LEAST_MS: i64 = 10_000;
