//! One sale in detail: phase, outcome of its requests, and stock over time.

use ratatui::{
    style::Style,
    text::{Line, Span},
};
use seckill_engine::telemetry::{
    snapshot::{SaleLine, SaleOrders},
    stock::StockCurve,
};
use seckill_model::{
    Millis, OrderCounts, OrderStatus, UserId,
    message::{Label, text},
};

use super::window;
use crate::{
    keymap::{Action, key_of},
    text::{self, figures},
    views::{Scene, layout, orders::wording, overview::draw_funnel},
    widgets::{Canvas, Curve, curve, right, width},
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

pub(super) fn draw(canvas: &mut Canvas<'_>, scene: &Scene<'_>, sale: &SaleLine) {
    let theme = scene.theme;
    let w = canvas.width();
    canvas.rule(0, theme.glyphs.rule, theme.soft);
    counted(canvas, scene, sale);
    let name = text::sale_name(sale.voucher_id, &sale.title);
    let x = canvas.text(1, 1, &scene.fit(&name, w.saturating_sub(14)), theme.strong);
    let (word, style) = layout::phase(theme, sale.phase);
    canvas.text(x + 2, 1, &word, style);
    draw_conversion(&mut canvas.part(1, 2, w.saturating_sub(2), 1), scene, sale);
    let key = text!("sale-press-for-its-orders", key = key_of(Action::Open));
    let states = order_states(scene, sale);
    draw_with_key(&mut canvas.part(1, 3, w.saturating_sub(2), 1), scene, &states, &key);
    let half = match w {
        ..NARROW => FUNNEL,
        NARROW..100 => 38,
        100.. => 52,
    };
    let (h, mut top) = (canvas.height(), 3);
    if h >= FIGURES + REPEAT {
        draw_repeat_buyers(&mut canvas.part(1, 4, w.saturating_sub(2), 1), scene, sale);
        top += REPEAT;
    }
    let mut left = canvas.part(0, top, half, FIGURES);
    draw_funnel(left.below(1).area(), left.buffer(), scene, &sale.funnel);
    let under_way = sale.admitted.unwrap_or(0).saturating_sub(sale.persisted);
    let facts = [
        (Label("tables-on-sale"), figures::thousands(sale.initial)),
        (Label("tables-left-in-redis"), text::left_in_redis(sale)),
        (Label("tables-left-in-sql"), figures::thousands(sale.db_stock)),
        (Label("field-persisted"), figures::thousands(sale.persisted)),
        (Label("tables-under-way"), figures::thousands(under_way)),
        (Label("field-window"), window(scene, sale)),
    ];
    let left_of = half + if w < NARROW { 1 } else { 2 };
    let mut beside = canvas.part(left_of, top, w.saturating_sub(left_of), FIGURES);
    let at = beside.width().saturating_sub(FACT + 1).min(16);
    let room = beside.width().saturating_sub(at);
    for (row, (label, fact)) in facts.iter().enumerate() {
        beside.text(1, row as u16 + 1, label, theme.soft);
        // Below the figures if it is no wider than they are.
        let cells = usize::from(FACT);
        let fact =
            if width(fact) <= cells { right(fact, cells, "") } else { scene.fit(fact, room) };
        beside.text(at, row as u16 + 1, &fact, Style::new());
    }
    let under = FIGURES + REPEAT;
    if h > under {
        stock(&mut canvas.part(1, under, w.saturating_sub(2), h - under), scene, sale);
    }
}

/// From the request to the row in SQL, each step with its share of the previous one, if all fit.
fn draw_conversion(canvas: &mut Canvas<'_>, scene: &Scene<'_>, sale: &SaleLine) {
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
            spans.push(Span::styled(format!("{arrow}{} ", label.read()), theme.soft));
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
    let fits = whole.width() <= usize::from(canvas.width());
    canvas.line(0, 0, &if fits { whole } else { line(false) });
}

/// A line with the key that leads on, if both fit.
fn draw_with_key(canvas: &mut Canvas<'_>, scene: &Scene<'_>, line: &Line<'_>, key: &str) {
    canvas.line(0, 0, line);
    if line.width() + 2 + width(key) <= usize::from(canvas.width()) {
        canvas.line_right(0, &Line::styled(key, scene.theme.soft));
    }
}

/// Order states in SQL, counted for this sale only.
fn order_states(scene: &Scene<'_>, sale: &SaleLine) -> Line<'static> {
    let theme = scene.theme;
    let mut spans = vec![Span::styled(Label("common-orders").read(), theme.soft)];
    match orders(scene, sale).map(|known| known.counts) {
        Some(Some(counts)) => {
            for (label, figure) in states(&counts) {
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
    let all = counts.unpaid + counts.paid + counts.used + counts.cancelled + counts.closed;
    let parts = [
        (OrderStatus::Unpaid, counts.unpaid),
        (OrderStatus::Paid, counts.paid),
        (OrderStatus::Used, counts.used),
        (OrderStatus::Cancelled, counts.cancelled),
        (OrderStatus::Closed, counts.closed),
    ];
    parts.into_iter().filter_map(move |(status, count)| {
        let figure = figures::thousands(count);
        let figure = match status {
            OrderStatus::Paid if all > 0 => format!("{figure} {}", figures::share(count, all)),
            OrderStatus::Paid => figure,
            _ if count > 0 => figure,
            _ => return None,
        };
        Some((wording::status(status), figure))
    })
}

/// The age of the counts, which differs from the rest of the figures. Always shown, as it would flicker otherwise; on
/// the rule it covers no text.
fn counted(canvas: &mut Canvas<'_>, scene: &Scene<'_>, sale: &SaleLine) {
    let known = orders(scene, sale).filter(|known| known.counts.is_some());
    if let Some(known) = known {
        // Tenths would change constantly.
        let age_ms = scene.now.since(known.taken).div_ceil(1_000).max(1) * 1_000;
        let age = figures::steady_span(age_ms);
        let text = format!(" {} ", text!("sale-orders-counted-ago", age));
        let x = canvas.width().saturating_sub(width(&text) as u16 + 2);
        canvas.text(x, 0, &text, scene.theme.soft);
    }
}

/// The SQL counts of that sale, if they were read.
fn orders<'a>(scene: &Scene<'a>, sale: &SaleLine) -> Option<&'a SaleOrders> {
    scene.snapshot.sale_orders.as_ref().filter(|it| it.voucher == sale.voucher_id)
}

/// Users with more than one order.
fn draw_repeat_buyers(canvas: &mut Canvas<'_>, scene: &Scene<'_>, sale: &SaleLine) {
    let label = Label("sale-buyers-with-several-orders").read();
    let known = orders(scene, sale).and_then(|known| known.repeat_buyers.as_deref());
    let buyer = |(user, orders): &(UserId, u64)| {
        format!("{} ×{}", scene.users.number(*user), figures::thousands(*orders))
    };
    let text = match known {
        None => text::UNKNOWN.to_owned(),
        Some([]) => text!("common-none"),
        Some(known) => known.iter().map(buyer).collect::<Vec<_>>().join("  "),
    };
    let text = scene.fit(&text, canvas.width().saturating_sub(width(label) as u16 + 2));
    let head = Span::styled(label, scene.theme.soft);
    let line = Line::from(vec![head, Span::raw(format!("  {text}"))]);
    match known {
        Some([_, ..]) => {
            let key = text!("sale-press-to-show-or-mask", key = key_of(Action::Users));
            draw_with_key(canvas, scene, &line, &key);
        }
        _ => {
            canvas.line(0, 0, &line);
        }
    }
}

/// The stock since this node first saw the sale, up to the snapshot.
fn stock(canvas: &mut Canvas<'_>, scene: &Scene<'_>, sale: &SaleLine) {
    let theme = scene.theme;
    let (w, h) = (canvas.width(), canvas.height());
    canvas.text(0, 1, &Label("sale-stock-over-time"), theme.heading);
    let known = scene.snapshot.stocks.of(sale.voucher_id).filter(|it| !it.points().is_empty());
    let Some(points) = known.map(StockCurve::points) else {
        canvas.text(0, 2, &Label("sale-no-data-from-redis"), theme.soft);
        return;
    };
    let until = scene.snapshot.taken;
    let first = points.first().map_or(until, |(at, _)| *at);
    // A curve without duration would be a solid block.
    let from = first.min(until.plus(-LEAST_MS));
    canvas.line_right(
        1,
        &Line::styled(text!("sale-last", span = figures::span(until.since(from))), theme.soft),
    );
    let scale = figures::compact(sale.initial as f64);
    let margin = 6;
    let rows = h.saturating_sub(3);
    for row in 0..rows {
        let (label, edge) = match row {
            0 => (scale.as_str(), theme.glyphs.tick),
            _ => ("", theme.glyphs.axis),
        };
        canvas.text(0, 2 + row, &right(label, 4, ""), theme.soft);
        canvas.text(5, 2 + row, edge, theme.soft);
    }
    let shown = Curve { points, span: (from, until), top: sale.initial };
    curve(&mut canvas.part(margin, 2, w.saturating_sub(margin), rows), theme, &shown);
    let at = |at: Millis| at.time_of_day(scene.zone);
    let [first, last] = [at(from), at(until)];
    canvas.text(0, 2 + rows, &right("0", 4, ""), theme.soft);
    let x = canvas.text(5, 2 + rows, theme.glyphs.corner, theme.soft);
    let x = canvas.text(x + 1, 2 + rows, &first, theme.soft) + 1;
    let end = w.saturating_sub(width(&last) as u16);
    let rule = theme.glyphs.rule.repeat(usize::from(end.saturating_sub(x + 1)));
    canvas.text(x, 2 + rows, &rule, theme.soft);
    canvas.text(end, 2 + rows, &last, theme.soft);
}

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
