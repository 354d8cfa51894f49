//! The sales panel of the Overview: the stock of each sale as a figure and an emptying bar.
//!
//! The width of the figures depends on the initial stocks, so that nothing moves while a sale runs; the titles take the
//! rest. Figures are abbreviated if necessary, never truncated.

use ratatui::widgets::{Row, Table};
use seckill_engine::SaleLine;
use seckill_model::Phase;

use super::OverviewState;
use crate::views::{prelude::*, sales::stock_bar};

/// Sales with what is left of each; returns the number of rows.
pub(super) fn draw(
    area: Rect,
    buffer: &mut Buffer,
    scene: &Scene,
    state: &mut OverviewState,
    rows: u16,
) -> u16 {
    let theme = scene.theme;
    let [head, list] = Layout::vertical([Length(1), Fill(1)]).areas(area);
    let heading = scene.heading(&text::STOCK, &[Source::Redis]);
    // What the bars below show.
    let left = Span::styled(Label("overview-left"), theme.soft);
    if heading.width() + left.width() < head.width.into() {
        left.into_right_aligned_line().render(head, buffer);
    }
    heading.render(head, buffer);
    let sales = &scene.shown.sales;
    if sales.is_empty() {
        draw_text(area, buffer, scene, 1, &text!("console-no-sales-yet-press"));
        // In a narrow window it takes two rows.
        return 3;
    }
    let room = usize::from(rows.saturating_sub(1));
    let shown = if sales.len() > room { room.saturating_sub(1).max(1) } else { sales.len() };
    let mut kept: Vec<&SaleLine> = sales.iter().take(shown).collect();
    // The chosen sale is always visible.
    if let Some(chosen) = scene.chosen.and_then(|chosen| scene.shown.sale(chosen))
        && !kept.iter().any(|sale| sale.voucher_id == chosen.voucher_id)
    {
        kept.pop();
        kept.push(chosen);
    }
    let (most, bar, gap) =
        if area.width < WIDE { (12, 4, 1) } else { (16, (area.width / 5).min(24), 2) };
    let widest = kept.iter().map(|sale| {
        let unsold = left_of(sale.initial.cast_signed(), sale.initial, most);
        stock(scene, sale, most).width().max(width(&unsold))
    });
    let phases = [Phase::SoldOut, Phase::Paused, Phase::Ended].map(|it| width(&text::phase(it)));
    let figure = widest.chain(phases).max().unwrap_or_default().min(most) as u16;
    let name = area.width.saturating_sub(figure + bar + 2 * gap);
    let lines = kept.iter().map(|sale| {
        let is_chosen = scene.chosen == Some(sale.voucher_id);
        let pointer = if is_chosen { glyphs::POINTER } else { " " };
        let title = text::sale_name(sale.voucher_id, &sale.title);
        let style = if sale.phase.is_over() { theme.soft } else { Style::new() };
        let title = Span::styled(fit(&title, name.saturating_sub(2).into()), style);
        let name = Line::from(vec![Span::styled(format!("{pointer} "), theme.key), title]);
        Row::new([name, stock(scene, sale, most), stock_bar(scene, sale, bar)])
    });
    let hidden = (sales.len() - shown) as u64;
    let more = (hidden > 0).then(|| {
        let count = figures::thousands(hidden);
        let more = format!("  {}", text!("console-and-more-press-for-all", count));
        Paragraph::new(more).style(theme.soft)
    });
    let taken = 1 + kept.len() as u16 + u16::from(more.is_some());
    let [table, below] = Layout::vertical([Length(kept.len() as u16), Length(1)]).areas(list);
    state.stock_rows = table.rows().zip(kept.iter().map(|sale| sale.voucher_id)).collect();
    let lines = Table::new(lines, [name, figure, bar].map(Length)).column_spacing(gap);
    Widget::render(lines, table, buffer);
    more.render(below, buffer);
    taken
}

/// The width from which a figure includes the total.
const WIDE: u16 = 44;

/// The stock of a sale in `cells`, or its phase if that says more.
fn stock(scene: &Scene, sale: &SaleLine, cells: usize) -> Line<'static> {
    let theme = scene.theme;
    let is_wide = cells >= 16;
    let (text, style) = match (sale.phase, sale.stock) {
        (Phase::Archived, _) => (text::phase(Phase::Archived), theme.soft),
        (_, None) => (text::left_in_redis(sale), theme.warn),
        (Phase::Ended, Some(left @ 1..)) if is_wide => {
            let left = figures::within(left.unsigned_abs(), 5);
            (text!("console-ended-left", left), theme.soft)
        }
        (Phase::Ended, _) => (text::phase(Phase::Ended), theme.soft),
        (Phase::SoldOut, _) => (text::phase(Phase::SoldOut), theme.strong),
        (Phase::Paused, _) => (text::phase(Phase::Paused), theme.warn),
        (Phase::Planned, _) => {
            let at = sale.begin.map(|at| scene.at(at)).unwrap_or_default();
            let full = text!("console-starts", time = &at);
            (if is_wide && width(&full) <= cells { full } else { at }, theme.accent)
        }
        (Phase::Running, Some(left)) => (left_of(left, sale.initial, cells), Style::new()),
    };
    Line::styled(fit(&text, cells), style).right_aligned()
}

/// The stock beside the initial stock, if there is room; with all digits if even an unsold sale has room for them.
fn left_of(left: i64, initial: u64, cells: usize) -> String {
    let whole = figures::thousands(initial);
    let sign = if left < 0 { "-" } else { "" };
    let abbreviated = format!("{sign}{}", figures::within(left.unsigned_abs(), 9 - sign.len()));
    match cells {
        ..16 => abbreviated,
        _ if 2 * whole.len() + 3 <= cells => text::left_of(&figures::thousands(left), &whole),
        _ => text::left_of(&abbreviated, &figures::compact(initial as f64)),
    }
}
