//! The sales panel of the Overview: the stock of each sale as a figure and an emptying bar.
//!
//! The width of a figure depends on the initial stock, so that nothing moves while the sale runs; the title takes the
//! rest. Figures are abbreviated if necessary, never truncated.

use ratatui::{
    style::Style,
    text::{Line, Span},
};
use seckill_engine::telemetry::snapshot::SaleLine;
use seckill_model::{
    Phase,
    message::{Label, text},
};

use crate::{
    keymap::{Action, key_of},
    text::{self, figures},
    views::{Scene, Source, View},
    widgets::{Canvas, bar, fit, width, wrap},
};

/// Widths from which a figure includes the total, and all digits of it.
const WIDE: u16 = 44;
const SPACIOUS: u16 = 70;
/// Cells of an abbreviated stock figure.
const SHORT: usize = 9;

/// Sales with what is left of each; returns the row after the last.
pub(super) fn draw(canvas: &mut Canvas<'_>, scene: &Scene<'_>, rows: u16) -> u16 {
    canvas.line(0, 0, &scene.heading(&text::STOCK, &[Source::Redis]));
    // What the bars below show.
    canvas.line_right(0, &Line::styled(Label("overview-left"), scene.theme.soft));
    let sales = &scene.snapshot.sales;
    if sales.is_empty() {
        let lines = wrap(&text::no_sales(), usize::from(canvas.width().saturating_sub(2)));
        for (row, line) in lines.iter().enumerate() {
            canvas.text(2, row as u16 + 1, line, scene.theme.soft);
        }
        return lines.len() as u16 + 1;
    }
    let room = usize::from(rows.saturating_sub(1));
    let shown = if sales.len() > room { room.saturating_sub(1).max(1) } else { sales.len() };
    let mut kept: Vec<&SaleLine> = sales.iter().take(shown).collect();
    // The chosen sale is always visible.
    if let Some(chosen) = scene.chosen.and_then(|chosen| scene.snapshot.sale(chosen))
        && !kept.iter().any(|sale| sale.voucher_id == chosen.voucher_id)
    {
        kept.pop();
        kept.push(chosen);
    }
    let mut y = 1;
    for sale in kept {
        stock_line(canvas, scene, y, sale);
        y += 1;
    }
    if shown < sales.len() {
        let key = key_of(Action::Go(View::Sales));
        let count = figures::thousands((sales.len() - shown) as u64);
        let more = text!("console-and-more-press-for-all", count, key);
        canvas.text(2, y, &scene.fit(&more, canvas.width()), scene.theme.soft);
        y += 1;
    }
    y
}

fn stock_line(canvas: &mut Canvas<'_>, scene: &Scene<'_>, y: u16, sale: &SaleLine) {
    let theme = scene.theme;
    let width_of = canvas.width();
    let (most, cells): (u16, u16) = match width_of {
        ..WIDE => (12, 4),
        WIDE..SPACIOUS => (16, width_of / 5),
        SPACIOUS.. => (23, (width_of / 5).min(24)),
    };
    let wide = width_of >= WIDE;
    let figure = field(scene, sale, most, wide);
    let figure_end = width_of.saturating_sub(cells + 2);
    let over = sale.phase.is_over();
    if scene.chosen == Some(sale.voucher_id) {
        canvas.text(0, y, theme.glyphs.pointer, theme.key);
    }
    let (strong, soft) = (Style::new(), theme.soft);
    let left = sale.stock;
    let fits = |text: &String| width(text) <= usize::from(most);
    let (text, style, full) = match (sale.phase, left) {
        (Phase::Archived, _) => (text::phase(Phase::Archived), soft, soft),
        (_, None) => (text::left_in_redis(sale), theme.warn, soft),
        (Phase::Ended, Some(left @ 1..)) if wide => {
            let left = left.unsigned_abs();
            let full =
                Some(text!("console-ended-left", left = figures::thousands(left))).filter(fits);
            let text = full.unwrap_or_else(|| {
                text!("console-ended-left", left = figures::compact(left as f64))
            });
            (text, soft, soft)
        }
        (Phase::Ended, _) => (text::phase(Phase::Ended), soft, soft),
        (Phase::SoldOut, _) => (text::phase(Phase::SoldOut), theme.strong, soft),
        (Phase::Paused, _) => (text::phase(Phase::Paused), theme.warn, soft),
        (Phase::Planned, _) => {
            let at = sale.begin.map_or_else(String::new, |at| scene.at(at));
            (
                Some(text!("console-starts", time = at))
                    .filter(|it| wide && fits(it))
                    .unwrap_or(at),
                theme.accent,
                soft,
            )
        }
        (Phase::Running, Some(left)) => {
            let full = if wide {
                text::left_of(&figures::signed(left), &figures::thousands(sale.initial))
            } else {
                figures::signed(left)
            };
            let whole = width(&whole(sale.initial, wide)) <= usize::from(most);
            let text = if whole && fits(&full) { full } else { short(left, sale.initial, wide) };
            (text, strong, theme.accent)
        }
    };
    let text = fit(&text, usize::from(most), theme.glyphs.ellipsis);
    let from = figure_end.saturating_sub(width(&text) as u16);
    let name = text::sale_name(sale.voucher_id, &sale.title);
    let name = scene.fit(
        &name,
        figure_end.saturating_sub(figure).min(from).saturating_sub(if wide { 4 } else { 3 }),
    );
    canvas.text(2, y, &name, if over { soft } else { strong });
    let x = canvas.text(from, y, &text, style) + 2;
    let line = match (sale.phase, left) {
        (Phase::Planned, _) => {
            vec![Span::styled(theme.glyphs.waiting.repeat(usize::from(cells)), soft)]
        }
        (_, left) => {
            let share = left.unwrap_or(0).max(0) as f64 / sale.initial.max(1) as f64;
            bar(theme, share, cells, full, Some(theme.glyphs.empty))
        }
    };
    canvas.line(x, y, &Line::from(line));
}

/// The figure of an unsold sale, with all digits.
fn whole(initial: u64, wide: bool) -> String {
    let initial = figures::thousands(initial);
    if wide { text::left_of(&initial, &initial) } else { initial }
}

/// Cells of a sale's figure during and after the sale, out of `most`.
fn field(scene: &Scene<'_>, sale: &SaleLine, most: u16, wide: bool) -> u16 {
    let cells = |text: &str| width(text) as u16;
    let full = cells(&whole(sale.initial, wide));
    let figure = if full <= most {
        full
    } else if wide {
        SHORT as u16 + cells(&text::left_of("", &figures::compact(sale.initial as f64)))
    } else {
        most
    };
    let phases = [Phase::SoldOut, Phase::Paused, Phase::Ended];
    let words = phases.into_iter().map(|phase| cells(&text::phase(phase)));
    let begins = sale.begin.map_or(0, |at| cells(&text!("console-starts", time = scene.at(at))));
    let begins = if wide && begins <= most { begins } else { 0 };
    words.chain([figure, begins]).max().unwrap_or(most).min(most)
}

/// The stock of a sale too large for all digits: those of the total are abbreviated first.
fn short(left: i64, initial: u64, wide: bool) -> String {
    let count = left.unsigned_abs();
    let sign = if left < 0 { "-" } else { "" };
    let left =
        format!("{sign}{}", figures::within(count, if wide { SHORT } else { 11 } - sign.len()));
    if wide { text::left_of(&left, &figures::compact(initial as f64)) } else { left }
}
