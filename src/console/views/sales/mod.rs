//! Sales: a table of all sales, and the detail of the chosen one.

mod detail;

use seckill_engine::{SaleLine, telemetry::snapshot::SqlCopy};
use seckill_model::Phase;

use super::prelude::*;
use crate::widgets::{held, sparkline};

/// The width of a figure; more digits widen it.
const FIGURE: (u16, u16) = (0, 7);

impl Row for SaleLine {
    type Id = VoucherId;
    type Key = ();

    const VIEW: View = View::Sales;
    const SOURCES: &'static [Source] = &[Source::Sql, Source::Redis];
    const COLUMNS: &'static [Column<Self>] = &[
        Column::figure(Label("tables-id"), (0, 3), |sale: &Self| sale.voucher_id.into())
            .fit()
            .soft(),
        Column::text(Label("tables-title"), (0, REST), |sale: &Self| sale.title.clone().into()),
        Column::text(Label("tables-phase"), (0, 8), |sale: &Self| {
            Value::name(text::sale_phase(sale), &sale.phase)
        })
        .styled(|scene, sale| style(scene.theme, sale)),
        Column::text(Label("tables-stock-left"), (100, 12), |_: &Self| Value::Nothing)
            .by(|sale| sale.stock.map(|left| (share(left, sale) * 1e9) as i64).into())
            .shown(|scene, sale, cells| stock_bar(scene, sale, cells))
            .not_exported(),
        Column::figure(Label("tables-left"), FIGURE, |sale: &Self| sale.stock.into())
            .searched(text::left_in_redis)
            .shown(|_, sale, _| text::left_in_redis(sale).into())
            .fit()
            .styled(|scene, sale| match sale.stock {
                Some(0..) => Style::new(),
                _ => scene.theme.warn,
            }),
        Column::figure(Label("tables-of"), FIGURE, |sale: &Self| sale.initial.into()).fit().soft(),
        Column::figure(Label("tables-admitted"), (72, 8), |sale: &Self| sale.admitted.into()).fit(),
        Column::figure(Label("tables-persisted"), (72, 9), |sale: &Self| sale.persisted.into())
            .fit(),
        Column::text(Label("tables-last-minute"), (110, 12), |_: &Self| Value::Nothing)
            .by(|sale| ((sale.funnel.admitted.per_second * 1e3) as i64).into())
            .shown(|scene, sale, cells| Line::styled(rate(scene, sale, cells), scene.theme.accent))
            .not_exported(),
        Column::text(Label("tables-window"), (140, 28), |sale: &Self| {
            Value::Period(sale.begin, sale.end)
        })
        .shown(|scene, sale, _| window(scene, sale).into())
        .soft(),
    ];

    fn id(&self) -> VoucherId {
        self.voucher_id
    }

    fn label(&self) -> String {
        text::sale_name(self.voucher_id, &self.title)
    }

    fn page(snapshot: &Snapshot) -> Page<'_, Self> {
        Page::whole(&snapshot.sales)
    }

    fn empty(_: &Scene, _: &TableState<Self>) -> Option<String> {
        Some(text!("console-no-sales-yet-press"))
    }

    fn detail<'a>(scene: &'a Scene, sale: &'a Self, cells: u16) -> Option<Detail<'a>> {
        Some(detail::of(scene, sale, cells))
    }
}

/// Commands on a sale; the Overview has them as well.
pub(super) const COMMANDS: [ViewKey; 6] = [
    (Action::NewSale, "N", true),
    (Action::Rush, "R", true),
    (Action::Start, "S", true),
    (Action::Pause, "P", true),
    (Action::End, "E", true),
    (Action::Restock, "K", false),
];

/// Milliseconds of the sparkline of a sale.
const RATE_MS: i64 = 60_000;

/// The pieces sold over the last minute, as a sparkline.
fn rate(scene: &Scene, sale: &SaleLine, cells: u16) -> String {
    let until = scene.shown.taken;
    let Some(curves) = scene.shown.curves.of(sale.voucher_id) else { return String::new() };
    let admitted = held(curves.admitted.points(), (until.plus(-RATE_MS), until), cells + 1);
    let sold = |pair: &[Option<f64>]| Some((pair[1]? - pair[0]?).max(0.0));
    sparkline(&admitted.windows(2).map(sold).collect::<Vec<_>>())
}

/// The share of the stock that is left.
fn share(left: i64, sale: &SaleLine) -> f64 {
    left.max(0) as f64 / sale.initial.max(1) as f64
}

/// The share of the stock that is left; dots before the sale opens, and nothing while it is unknown.
pub(super) fn stock_bar(scene: &Scene, sale: &SaleLine, cells: u16) -> Line<'static> {
    let theme = scene.theme;
    if sale.phase == Phase::Planned {
        return Line::styled(glyphs::WAITING.repeat(cells.into()), theme.soft);
    }
    if sale.stock.is_none() && sale.admitted.is_none() {
        return Line::default();
    }
    let share = share(sale.stock.unwrap_or(0), sale);
    let style = if sale.phase == Phase::Running { theme.accent } else { theme.soft };
    bar(theme, share, cells, style, Some(glyphs::EMPTY)).into()
}

/// The phase of a sale in capitals, in the colour of its state.
pub(crate) fn phase(theme: Theme, sale: &SaleLine) -> (String, Style) {
    (text::sale_phase(sale).to_uppercase(), style(theme, sale))
}

/// One that SQL has lost, or has in an older version, needs the operator whatever its phase.
fn style(theme: Theme, sale: &SaleLine) -> Style {
    match sale.sql {
        SqlCopy::Current => phase_style(theme, sale.phase),
        SqlCopy::Behind | SqlCopy::Lost => theme.warn,
    }
}

pub(crate) fn phase_style(theme: Theme, phase: Phase) -> Style {
    match phase {
        Phase::Running => theme.good.add_modifier(Modifier::BOLD),
        Phase::Paused => theme.warn,
        Phase::Planned => theme.accent,
        Phase::SoldOut => theme.strong,
        Phase::Ended | Phase::Archived => theme.soft,
    }
}

#[derive(Default)]
pub(crate) struct SalesState {
    /// The chosen sale: header and Overview show it, and so does the presenter layout if no sale is active.
    pub(crate) chosen: Option<VoucherId>,
    /// Filters and vanished rows move its cursor as well, which chooses nothing.
    pub(crate) table: TableState<SaleLine>,
    /// A sale created just now that is not in a snapshot yet.
    awaited: Option<VoucherId>,
}

impl SalesState {
    /// Chooses a sale on behalf of the user.
    pub(crate) fn choose(&mut self, voucher: VoucherId) {
        (self.chosen, self.table.cursor) = (Some(voucher), Some(voucher));
    }

    /// Chooses the sale under the cursor.
    pub(crate) fn choose_pointed(&mut self) {
        self.chosen = self.table.cursor.or(self.chosen);
    }

    /// Clears the choice.
    pub(crate) fn let_go(&mut self) {
        (self.chosen, self.table.cursor) = (None, None);
    }

    /// Chooses this sale as soon as a snapshot contains it.
    pub(crate) fn await_sale(&mut self, voucher: VoucherId) {
        self.awaited = Some(voucher);
    }

    /// Revalidates choice and cursor; returns the sale that vanished from under either. A sale that the filter hides
    /// keeps both: the Overview shows it.
    pub(super) fn follow(&mut self, snapshot: &Snapshot) -> Option<VoucherId> {
        if let Some(awaited) = self.awaited.take_if(|id| snapshot.sale(*id).is_some()) {
            self.choose(awaited);
        }
        let is_gone = |id: &VoucherId| snapshot.sale(*id).is_none();
        let gone = self.chosen.take_if(|id| is_gone(id));
        let lost = self.table.cursor.filter(is_gone);
        let rows = self.table.rows(snapshot);
        if lost.is_some() || self.table.position(&rows).is_some() {
            self.table.settle_cursor(snapshot);
        }
        gone.or(lost)
    }

    /// Chooses the next sale, whatever the filter, as the Overview shows only the choice; the first step chooses the
    /// first sale. Returns whether the choice moved.
    pub(crate) fn step_choice(&mut self, snapshot: &Snapshot, step: Step) -> bool {
        let sales = &snapshot.sales;
        let now = sales.iter().position(|sale| Some(sale.voucher_id) == self.chosen);
        let next = match now {
            Some(row) => step.from(row, sales.len(), self.table.controls.visible),
            None if step == Step::Last => sales.len().saturating_sub(1),
            None => 0,
        };
        let Some(sale) = sales.get(next).filter(|_| now != Some(next)) else { return false };
        self.choose(sale.voucher_id);
        true
    }
}

impl Component for SalesState {
    fn keys() -> Vec<ViewKey> {
        [&COMMANDS[..], &[FILTER, (Action::Users, "u", false)]].concat()
    }

    fn draw(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene) {
        self.table.draw(area, buffer, scene);
    }

    fn table(&self) -> Option<&dyn Table> {
        Some(&self.table)
    }

    fn table_mut(&mut self) -> Option<&mut dyn Table> {
        Some(&mut self.table)
    }

    /// The sale under the cursor is chosen.
    fn step(&mut self, snapshot: &Snapshot, step: Step, is_frozen: bool) -> Turn {
        let turn = Table::step(&mut self.table, snapshot, step, is_frozen);
        if turn == Turn::Moved {
            self.chosen = self.table.cursor;
        }
        turn
    }

    fn settle(&mut self, snapshot: &Snapshot) -> Settled {
        let gone = self.follow(snapshot);
        let note = gone.map(|voucher| text!("console-is-no-longer-listed", voucher));
        Settled { note, ..Settled::default() }
    }

    /// Puts a cursor in the table, if it has rows.
    fn enter(&mut self, snapshot: &Snapshot) {
        self.follow(snapshot);
        if self.table.cursor.is_none() {
            self.table.point_at(&self.table.rows(snapshot), 0);
        }
    }

    /// The orders of the sale whose detail is open are counted.
    fn focus(&self, snapshot: &Snapshot, focus: &mut Focus) {
        focus.sale = self.table.opened(snapshot).map(|sale| sale.voucher_id);
    }
}

fn window(scene: &Scene, sale: &SaleLine) -> String {
    let [begin, end] = [sale.begin, sale.end].map(|at| at.map(|at| scene.at(at)));
    match (begin, end) {
        (None, None) => text!("console-open-end"),
        (Some(begin), None) => text!("console-from", begin),
        (None, Some(end)) => text!("console-until", end),
        (Some(begin), Some(end)) => text!("console-to", begin, end),
    }
}
