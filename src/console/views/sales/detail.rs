//! One sale in detail: phase, outcome of its requests, and stock over time.

use ratatui::{prelude::*, widgets::Paragraph};
use seckill_engine::{
    SaleLine,
    telemetry::{snapshot::SaleOrders, stock::StockCurve},
};
use seckill_model::{Label, OrderCounts, OrderStatus, UserId, text};

use strum::IntoEnumIterator as _;

use super::{phase, window};
use crate::{
    text::{self, figures},
    theme::glyphs,
    views::{SIDES, Scene, below, orders, overview::draw_funnel},
    widgets::{Curve, curve, fit, left, right, width},
};

/// Rows of the figures: a rule, the name, the funnel, order states, six lines.
const FIGURES: u16 = 10;
/// Below this width funnel and figures are packed; the width of each.
const NARROW: u16 = 72;
const FUNNEL: u16 = 32;
const FACT: u16 = 11;
/// Users with several orders, if there is room.
const REPEAT: u16 = 1;
/// Rows of the curve with heading and times: the minimum, and the maximum that is useful.
const CURVE: (u16, u16) = (5, 10);
/// Rows of the list above: heading, blank, column headings; and the sales it keeps before the curve gets space.
const LIST: u16 = 3;
const SALES: u16 = 4;

/// Rows of the detail in a view of `height` beside this many sales; `None` if it does not fit.
pub(super) fn rows(height: u16, sales: usize) -> Option<u16> {
    let sales = (sales.min(usize::from(SALES)) as u16).max(1);
    let spare = height.checked_sub(FIGURES + LIST + 1)?.saturating_sub(sales - 1);
    let repeat = spare.min(REPEAT);
    let spare = spare - repeat;
    // Surplus rows are shared.
    let curve = spare.checked_sub(CURVE.0).map_or(0, |more| (CURVE.0 + more / 2).min(CURVE.1));
    Some(FIGURES + repeat + curve)
}

pub(super) fn draw(area: Rect, buffer: &mut Buffer, scene: &Scene<'_>, sale: &SaleLine) {
    let theme = scene.theme;
    let cells = area.width.saturating_sub(2);
    let has_repeat = u16::from(area.height >= FIGURES + REPEAT);
    let dashes = glyphs::RULE.repeat(usize::from(area.width));
    Line::styled(dashes, theme.soft).render(area, buffer);
    let age = Line::styled(counted(scene, sale), theme.soft).right_aligned();
    age.render(area.inner(Margin::new(2, 0)), buffer);

    let name = text::sale_name(sale.voucher_id, &sale.title);
    let name = Span::styled(fit(&name, area.width.saturating_sub(14).into()), theme.strong);
    let (word, style) = phase(theme, sale.phase);
    let key = text!("sale-press-for-its-orders");
    let mut lines = vec![
        Line::from(vec![name, Span::raw("  "), Span::styled(word, style)]),
        conversion(scene, sale, cells),
        with_key(scene, order_states(scene, sale), &key, cells),
    ];
    lines.extend((has_repeat > 0).then(|| repeat_buyers(scene, sale, cells)));
    Paragraph::new(lines).render(below(area, 1).inner(SIDES), buffer);

    let (half, gap) = match area.width {
        ..NARROW => (FUNNEL, 2),
        NARROW..100 => (38, 3),
        100.. => (52, 3),
    };
    let [funnel, beside] = Layout::horizontal([Constraint::Length(half), Constraint::Fill(1)])
        .spacing(gap)
        .areas(below(area, FIGURES - 6 + has_repeat));
    draw_funnel(funnel, buffer, scene, &sale.funnel);
    Paragraph::new(facts(scene, sale, beside.width)).render(beside, buffer);
    if area.height >= FIGURES + REPEAT + CURVE.0 {
        stock(below(area, FIGURES + REPEAT).inner(SIDES), buffer, scene, sale);
    }
}

/// The figures of a sale; those that are short enough are aligned to the right.
fn facts(scene: &Scene<'_>, sale: &SaleLine, cells: u16) -> Vec<Line<'static>> {
    let under_way = sale.admitted.unwrap_or(0).saturating_sub(sale.persisted);
    let facts = [
        (Label("tables-on-sale"), figures::thousands(sale.initial)),
        (Label("tables-left-in-redis"), text::left_in_redis(sale)),
        (Label("tables-left-in-sql"), figures::thousands(sale.db_stock)),
        (Label("field-persisted"), figures::thousands(sale.persisted)),
        (Label("tables-under-way"), figures::thousands(under_way)),
        (Label("field-window"), window(scene, sale)),
    ];
    let at = cells.saturating_sub(FACT + 1).min(15);
    let line = |(label, fact): (Label, String)| {
        let label = Span::styled(left(&label, at.into()), scene.theme.soft);
        let is_short = width(&fact) <= usize::from(FACT);
        let fact =
            if is_short { right(&fact, FACT.into()) } else { fit(&fact, (cells - at).into()) };
        Line::from(vec![label, Span::raw(fact)])
    };
    facts.into_iter().map(line).collect()
}

/// From the request to the row in SQL, each step with its share of the previous one, if all fit.
fn conversion(scene: &Scene<'_>, sale: &SaleLine, cells: u16) -> Line<'static> {
    let theme = scene.theme;
    let attempts = sale.funnel.attempts.total;
    let steps = [
        (Label("common-attempts"), Some(attempts), None),
        (Label("common-admitted"), sale.admitted, Some(attempts)),
        (Label("common-persisted"), Some(sale.persisted), sale.admitted),
    ];
    let line = |shares: bool| {
        let mut spans = Vec::new();
        for (label, count, of) in steps {
            let arrow = if spans.is_empty() { "" } else { " → " };
            spans.push(Span::styled(format!("{arrow}{label} "), theme.soft));
            let figure = count.map_or_else(|| text::UNKNOWN.into(), figures::thousands);
            spans.push(Span::styled(figure, theme.strong));
            // No share of zero.
            if let (Some(count), Some(of @ 1..), true) = (count, of, shares) {
                spans.push(Span::styled(format!(" {}", figures::share(count, of)), theme.soft));
            }
        }
        Line::from(spans)
    };
    let whole = line(true);
    if whole.width() <= usize::from(cells) { whole } else { line(false) }
}

/// A line with the key that leads on, if both fit.
fn with_key(scene: &Scene<'_>, mut line: Line<'static>, key: &str, cells: u16) -> Line<'static> {
    let rest = usize::from(cells).saturating_sub(line.width() + width(key));
    if rest >= 2 {
        line.push_span(" ".repeat(rest));
        line.push_span(Span::styled(key.to_owned(), scene.theme.soft));
    }
    line
}

/// Order states in SQL, counted for this sale only.
fn order_states(scene: &Scene<'_>, sale: &SaleLine) -> Line<'static> {
    let theme = scene.theme;
    let mut spans = vec![Span::styled(Label("common-orders").read(), theme.soft)];
    match orders(scene, sale).map(|known| known.counts.as_ref()) {
        Some(Some(counts)) => {
            for (label, figure) in states(counts) {
                spans.push(Span::styled(format!("  {label} "), theme.soft));
                spans.push(Span::styled(figure, theme.strong));
            }
        }
        None if scene.snapshot.sql.up => {
            spans.push(Span::styled(format!("  {}", text::READING), theme.soft));
        }
        Some(None) | None => {
            spans.push(Span::styled(format!("  {}", text::UNKNOWN), theme.warn));
        }
    }
    spans.into()
}

/// Orders in SQL by status: paid orders always, others if there are any.
fn states(counts: &OrderCounts) -> impl Iterator<Item = (String, String)> {
    let all = counts.values().sum();
    OrderStatus::iter().filter_map(move |status| {
        let count = counts.get(&status).copied().unwrap_or(0);
        let figure = figures::thousands(count);
        let figure = match status {
            OrderStatus::Paid if all > 0 => format!("{figure} {}", figures::share(count, all)),
            OrderStatus::Paid => figure,
            _ if count > 0 => figure,
            _ => return None,
        };
        Some((orders::status(status), figure))
    })
}

/// The age of the counts, which differs from the rest of the figures. Always shown, as it would flicker otherwise; on
/// the rule it covers no text.
fn counted(scene: &Scene<'_>, sale: &SaleLine) -> String {
    let known = orders(scene, sale).filter(|known| known.counts.is_some());
    known.map_or_else(String::new, |known| {
        // Tenths would change constantly.
        let age_ms = scene.now.since(known.taken).div_ceil(1_000).max(1) * 1_000;
        format!(" {} ", text!("sale-orders-counted-ago", age = figures::steady_span(age_ms)))
    })
}

/// The SQL counts of that sale, if they were read.
fn orders<'a>(scene: &Scene<'a>, sale: &SaleLine) -> Option<&'a SaleOrders> {
    scene.snapshot.sale_orders.as_ref().filter(|it| it.voucher == sale.voucher_id)
}

/// Users with more than one order.
fn repeat_buyers(scene: &Scene<'_>, sale: &SaleLine, cells: u16) -> Line<'static> {
    let label = Label("sale-buyers-with-several-orders");
    let known = orders(scene, sale).and_then(|known| known.repeat_buyers.as_deref());
    let buyer = |(user, orders): &(UserId, u64)| {
        format!("{} ×{}", scene.users.number(*user), figures::thousands(*orders))
    };
    let text = match known {
        None => text::UNKNOWN.to_owned(),
        Some([]) => text!("common-none"),
        Some(known) => known.iter().map(buyer).collect::<Vec<_>>().join("  "),
    };
    let text = fit(&text, usize::from(cells).saturating_sub(width(&label) + 2));
    let head = Span::styled(label.read(), scene.theme.soft);
    let line = Line::from(vec![head, Span::raw(format!("  {text}"))]);
    if known.is_none_or(<[_]>::is_empty) {
        return line;
    }
    let key = text!("sale-press-to-show-or-mask");
    with_key(scene, line, &key, cells)
}

/// The stock since this node first saw the sale, up to the snapshot.
fn stock(area: Rect, buffer: &mut Buffer, scene: &Scene<'_>, sale: &SaleLine) {
    let theme = scene.theme;
    let [_, head, body, times] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    Line::styled(Label("sale-stock-over-time").read(), theme.heading).render(head, buffer);
    let known = scene.snapshot.stocks.of(sale.voucher_id).filter(|it| !it.points().is_empty());
    let Some(points) = known.map(StockCurve::points) else {
        return Line::styled(Label("sale-no-data-from-redis").read(), theme.soft)
            .render(body, buffer);
    };
    let until = scene.snapshot.taken;
    let first = points.first().map_or(until, |(at, _)| *at);
    // A curve without duration would be a solid block.
    let from = first.min(until.plus(-LEAST_MS));
    let span = text!("sale-last", span = figures::span(until.since(from)));
    let [_, span_area] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(width(&span) as u16)])
            .areas(head);
    Line::styled(span, theme.soft).render(span_area, buffer);
    let [edge, curve_area] =
        Layout::horizontal([Constraint::Length(EDGE), Constraint::Fill(1)]).areas(body);
    let scale = figures::compact(sale.initial as f64);
    let labels = (0..body.height).map(|row| match row {
        0 => format!("{} {}", right(&scale, 4), glyphs::TICK),
        _ => format!("     {}", glyphs::AXIS),
    });
    let labels: Vec<Line<'_>> = labels.map(Line::from).collect();
    Paragraph::new(labels).style(theme.soft).render(edge, buffer);
    let shown = Curve { points, span: (from, until), top: sale.initial };
    curve(curve_area, buffer, theme, &shown);
    let [first, last] = [from, until].map(|at| at.time_of_day(scene.zone));
    let used = EDGE + (width(&first) + width(&last)) as u16 + 3;
    let rule = glyphs::RULE.repeat(times.width.saturating_sub(used).into());
    let axis = format!("   0 {} {first} {rule} {last}", glyphs::CORNER);
    Line::styled(axis, theme.soft).render(times, buffer);
}

/// Cells of the scale beside a curve.
const EDGE: u16 = 6;

/// Minimum span of a curve in milliseconds.
const LEAST_MS: i64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_keeps_its_height() {
        assert_eq!(rows(13, 1), None);
        for height in 14..60 {
            for sales in [1, 2, 4, 100] {
                let rows = rows(height, sales).unwrap();
                let kept = (sales as u16).min(SALES).min(height - FIGURES - LIST);
                assert!(height - rows >= LIST + kept && rows >= FIGURES, "{height}: {rows}");
            }
        }
        let of = |sales| [18, 19, 22, 40].map(|height| rows(height, sales));
        assert_eq!(of(1), [Some(11), Some(11), Some(17), Some(21)]);
        assert_eq!(of(4), [Some(11), Some(11), Some(11), Some(21)]);
    }
}
