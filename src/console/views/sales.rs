//! Sales: a table of all sales, and the detail of the chosen one.

use ratatui::{style::Style, text::Line};
use seckill_engine::telemetry::snapshot::SaleLine;

use seckill_model::message::Label;

use super::{SalesState, Scene, Source, View, alone, layout, sale_detail};
use crate::{
    text::{self, columns, figures},
    widgets::{self, Canvas, Cell, Column, Value, bar, table, wrap},
};

pub(super) fn draw(canvas: &mut Canvas<'_>, scene: &Scene<'_>, state: &mut SalesState) {
    let theme = scene.theme;
    let (w, h) = (canvas.width(), canvas.height());
    let rows = state.rows(scene.snapshot);
    let filter = state.filter.value();
    canvas.line(
        1,
        0,
        &scene.heading(View::Sales.title().to_uppercase().as_str(), &[Source::Redis, Source::Sql]),
    );
    let all = scene.snapshot.sales.len();
    let count = if filter.is_empty() {
        figures::counted(all as u64, &text::SALE, &text::SALES)
    } else {
        format!("/{filter}   {}", text::sales_filtered(rows.len(), all))
    };
    let mut head = canvas.part(0, 0, w.saturating_sub(2), 1);
    head.line_right(0, &Line::styled(scene.fit(&count, w / 2), theme.soft()));
    if rows.is_empty() && !canvas.is_noting() {
        let said = if all == 0 { text::no_sales() } else { text::no_match(filter) };
        for (row, line) in wrap(&said, usize::from(w.saturating_sub(2))).iter().enumerate() {
            canvas.text(1, 2 + row as u16, line, theme.soft());
        }
        return;
    }
    let cursor = state.cursor(&rows);
    // Also a sale that was chosen on the Overview and that the filter hides.
    let pointed = state.pointed().filter(|_| state.detail);
    let chosen = pointed.and_then(|voucher| scene.snapshot.sale(voucher));
    let beside = sale_detail::rows(h, rows.len());
    if let (Some(sale), None) = (chosen, beside) {
        return sale_detail::draw(&mut alone(canvas, &mut state.scroll), scene, sale);
    }
    let below = beside.filter(|_| chosen.is_some()).unwrap_or(0);
    let top = u16::from(!scene.compact) + 1;
    let mut layout = layout(w, &rows);
    if canvas.is_noting() {
        // The bar has no text: its figures are beside it.
        layout.retain(|column| column.title != columns::STOCK);
    }
    table(
        &mut canvas.part(0, top, w, h.saturating_sub(top + below)),
        theme,
        &layout,
        (rows.len(), cursor),
        &mut state.scroll,
        |row, columns| cells(scene, rows[row], columns),
    );
    if let Some(sale) = chosen {
        sale_detail::draw(&mut canvas.part(0, h - below, w, below), scene, sale);
    }
}

/// Columns for a width; the title takes the rest.
fn layout(width: u16, rows: &[&SaleLine]) -> Vec<Column> {
    let column = |title, width, numeric| Column { title, width, numeric };
    let widest = rows.iter().map(|sale| sale.voucher_id.0).max().unwrap_or(0);
    let id = (widest.to_string().len() as u16 + 1).max(3);
    let mut all = vec![
        column(columns::ID, id, true),
        column(columns::TITLE, 0, false),
        column(columns::PHASE, 8, false),
    ];
    if width >= 100 {
        all.push(column(columns::STOCK, 12, false));
    }
    // As wide as the largest sale needs, so that it stays constant.
    let most = rows.iter().map(|sale| sale.initial).max().unwrap_or(0);
    let figure =
        |title: Label| (figures::thousands(most).len().max(widgets::width(&title)) as u16).max(7);
    let unknown = rows.iter().filter(|sale| sale.stock.is_none());
    let left = unknown.map(|sale| widgets::width(&text::left_in_redis(sale)) as u16).max();
    let left = figure(columns::LEFT).max(left.unwrap_or(0));
    all.push(column(columns::LEFT, left, true));
    all.push(column(columns::OF, figure(columns::OF), true));
    if width >= 72 {
        all.push(column(columns::ADMITTED, figure(columns::ADMITTED), true));
        all.push(column(columns::PERSISTED, figure(columns::PERSISTED), true));
    }
    if width >= 140 {
        all.push(column(columns::WINDOW, 28, false));
    }
    all
}

fn cells(scene: &Scene<'_>, sale: &SaleLine, layout: &[Column]) -> Vec<Cell> {
    let theme = scene.theme;
    let cell = |column: &Column| match column.title {
        columns::ID => Cell::new(format!("#{}", sale.voucher_id), theme.soft()),
        columns::TITLE => Cell::plain(sale.title.clone()),
        columns::PHASE => Cell::new(text::phase(sale.phase), layout::phase(theme, sale.phase).1)
            .exactly(Value::word(&sale.phase)),
        columns::STOCK => {
            let share = sale.stock.unwrap_or(0).max(0) as f64 / sale.initial.max(1) as f64;
            let spans = bar(theme, share, column.width, Style::new(), Some(theme.glyphs.empty));
            Cell::new(Line::from(spans).to_string(), theme.accent())
        }
        columns::LEFT => {
            let style =
                if sale.stock.is_some_and(|left| left >= 0) { Style::new() } else { theme.warn() };
            Cell::new(text::left_in_redis(sale), style)
                .exactly(sale.stock.map_or(Value::Nothing, Value::Number))
        }
        columns::OF => Cell::new(figures::thousands(sale.initial), theme.soft()),
        columns::ADMITTED => {
            Cell::plain(sale.admitted.map_or_else(|| "-".to_owned(), figures::thousands))
        }
        columns::PERSISTED => Cell::plain(figures::thousands(sale.persisted)),
        columns::WINDOW => Cell::new(window(scene, sale), theme.soft()).exactly(interval(sale)),
        _ => Cell::plain(""),
    };
    layout.iter().map(cell).collect()
}

/// The same in ISO 8601; two dots for an open end.
fn interval(sale: &SaleLine) -> Value {
    if (sale.begin, sale.end) == (None, None) {
        return Value::Nothing;
    }
    let [begin, end] =
        [sale.begin, sale.end].map(|at| at.map_or_else(|| "..".to_owned(), |at| at.to_string()));
    Value::Text(format!("{begin}/{end}"))
}

pub(super) fn window(scene: &Scene<'_>, sale: &SaleLine) -> String {
    let begin = sale.begin.map(|at| scene.at(at));
    let end = sale.end.map(|at| scene.at(at));
    text::window(begin.as_deref(), end.as_deref())
}
