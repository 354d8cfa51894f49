//! Sales: a table of all sales, and the detail of the chosen one.

mod detail;
mod state;

use ratatui::style::Style;
use seckill_engine::telemetry::{Snapshot, snapshot::SaleLine};
use seckill_model::{
    VoucherId,
    message::{Label, text},
};

pub(crate) use self::state::SalesState;
use super::{
    Scene, Source, View,
    detail::draw_lines,
    draw_head, layout,
    table::{self, Column, REST, Row, Value},
};
use crate::{
    text::{self, figures},
    widgets::{Canvas, bar, width},
};

/// Widths of a figure; it is as wide as the largest sale needs, so that it stays constant.
const FIGURE: &[(u16, u16)] = &[(0, 7)];

impl Row for SaleLine {
    type Id = VoucherId;
    type Key = ();

    const FROM_REDIS: bool = false;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new(Label("tables-id"), &[(0, 3)], |sale: &Self| sale.voucher_id.into())
            .fit(|_, sale| sale.voucher_id.to_string().len() + 1)
            .soft()
            .right(),
        Column::new(Label("tables-title"), &[(0, REST)], |sale: &Self| sale.title.clone().into()),
        Column::new(Label("tables-phase"), &[(0, 8)], |sale: &Self| {
            Value::name(text::phase(sale.phase), &sale.phase)
        })
        .styled(|scene, sale| layout::phase_style(scene.theme, sale.phase)),
        Column::new(Label("tables-stock-left"), &[(100, 12)], |_: &Self| Value::Nothing)
            .by(|sale| sale.stock.map(|left| (share(left, sale) * 1e9) as i64).into())
            .shown(|scene, sale, cells| {
                let (theme, share) = (scene.theme, share(sale.stock.unwrap_or(0), sale));
                bar(theme, share, cells, theme.accent, Some(theme.glyphs.empty)).into()
            })
            .not_exported(),
        Column::new(Label("tables-left"), FIGURE, |sale: &Self| sale.stock.into())
            .searched(text::left_in_redis)
            .shown(|_, sale, _| text::left_in_redis(sale).into())
            .fit(|_, sale| {
                let unknown = sale.stock.is_none().then(|| width(&text::left_in_redis(sale)));
                figure_width(sale, &Label("tables-left")).max(unknown.unwrap_or(0))
            })
            .styled(|scene, sale| match sale.stock {
                Some(0..) => Style::new(),
                _ => scene.theme.warn,
            })
            .right(),
        Column::new(Label("tables-of"), FIGURE, |sale: &Self| sale.initial.into())
            .fit(|_, sale| figure_width(sale, &Label("tables-of")))
            .soft()
            .right(),
        Column::new(Label("tables-admitted"), &[(72, 7)], |sale: &Self| sale.admitted.into())
            .fit(|_, sale| figure_width(sale, &Label("tables-admitted")))
            .right(),
        Column::new(Label("tables-persisted"), &[(72, 7)], |sale: &Self| sale.persisted.into())
            .fit(|_, sale| figure_width(sale, &Label("tables-persisted")))
            .right(),
        Column::new(Label("tables-window"), &[(140, 28)], |sale: &Self| {
            Value::Period(sale.begin, sale.end)
        })
        .shown(|scene, sale, _| window(scene, sale).into())
        .soft()
        .unsorted(),
    ];

    fn id(&self) -> VoucherId {
        self.voucher_id
    }

    fn list(snapshot: &Snapshot) -> Vec<&Self> {
        snapshot.sales.iter().collect()
    }
}

fn figure_width(sale: &SaleLine, title: &str) -> usize {
    figures::thousands(sale.initial).len().max(width(title))
}

/// The share of the stock that is left.
fn share(left: i64, sale: &SaleLine) -> f64 {
    left.max(0) as f64 / sale.initial.max(1) as f64
}

pub(super) fn draw(canvas: &mut Canvas<'_>, scene: &Scene<'_>, state: &mut SalesState) {
    let (w, h) = (canvas.width(), canvas.height());
    let rows = state.table.rows(scene.snapshot);
    let filter = state.table.controls.filter.value();
    let all = scene.snapshot.sales.len();
    let count = match filter {
        "" => text!("console-sales-listed", count = all),
        filter => Scene::filtered(filter, rows.len(), all),
    };
    let title = View::Sales.title().to_uppercase();
    let heading = scene.heading(&title, &[Source::Redis, Source::Sql]);
    draw_head(canvas, &heading, &scene.summary(canvas, &count));
    if rows.is_empty() {
        let none = if all == 0 { text::no_sales() } else { text::no_match(filter) };
        return draw_lines(canvas, scene, 2, &none);
    }
    let cursor = state.table.position(&rows);
    let open = state.table.controls.detail;
    // Also a sale that was chosen on the Overview and that the filter hides.
    let chosen = state.table.chosen(scene.snapshot).filter(|_| open);
    let below = match (chosen, detail::rows(h, rows.len())) {
        (Some(sale), None) => {
            state.table.controls.top = None;
            return detail::draw(&mut canvas.below(1), scene, sale);
        }
        (Some(_), Some(below)) => below,
        (None, _) => 0,
    };
    let top = scene.table_top();
    let mut list = canvas.part(0, top, w, h.saturating_sub(top + below));
    table::draw(&mut list, scene, &mut state.table, &rows, cursor);
    if let Some(sale) = chosen {
        detail::draw(&mut canvas.below(h - below), scene, sale);
    }
}

fn window(scene: &Scene<'_>, sale: &SaleLine) -> String {
    let [begin, end] = [sale.begin, sale.end].map(|at| at.map(|at| scene.at(at)));
    match (begin, end) {
        (None, None) => text!("console-open-end"),
        (Some(begin), None) => text!("console-from", begin),
        (None, Some(end)) => text!("console-until", end),
        (Some(begin), Some(end)) => text!("console-to", begin, end),
    }
}
