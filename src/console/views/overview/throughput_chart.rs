//! The throughput chart: orders per second over time, and the figures of the current or selected moment.

use seckill_engine::telemetry::{
    Point,
    log::{AuditEntry, Weight},
};

use super::OverviewState;
use crate::{
    text::time,
    views::prelude::*,
    widgets::{Axis, Chart, SCALE, chart, chart_signs, columns_of, held, strip},
};

/// Ticks farther apart than this are different moments.
const NEAR_MS: i64 = 3_000;

/// The right edge of the chart.
pub(crate) fn until(snapshot: &Snapshot) -> Millis {
    let last = snapshot.series.last();
    last.map_or(snapshot.taken, |point| point.at.max(snapshot.taken))
}

/// The symbol of a log line, and its style.
pub(in crate::views) fn sign(line: &AuditEntry) -> (&'static str, fn(Theme) -> Style) {
    match Weight::of(line) {
        Weight::Trouble => ("!", |theme| theme.warn),
        Weight::Failed => (glyphs::CROSS, |theme| theme.bad),
        Weight::Command => (glyphs::MARK, |theme| theme.key),
        Weight::Relief => (glyphs::UP, |theme| theme.good),
        Weight::Notice => (glyphs::WAITING, |theme| theme.soft),
    }
}

/// Heading, legend, chart, strips, figures, and events at the selected moment.
pub(super) fn draw(area: Rect, buffer: &mut Buffer, scene: &Scene, state: &mut OverviewState) {
    let theme = scene.theme;
    let strips = 2 * (area.height / 10).min(3);
    let rows = [Length(1), Length(1), Fill(1), Length(strips), Length(1), Length(1)];
    let [head, legend_row, plot, strips, below, events_row] = Layout::vertical(rows).areas(area);
    let window = state.window(&scene.shown.series);
    if let Some(at) = state.moment() {
        let clock = at.time_of_day(&scene.zone);
        let values = text!("time-values-of-rest-is-current", clock);
        Span::styled(values, theme.key).render(head, buffer);
    } else {
        Span::styled(Label("console-orders-per-second"), theme.heading).render(head, buffer);
        let style = if state.window.is_none() { theme.soft } else { theme.key };
        Line::styled(time::last(window), style).right_aligned().render(head, buffer);
    }
    let mut lines: Vec<&AuditEntry> = scene.shown.activity.iter().collect();
    lines.sort_by_key(|line| Weight::of(line));
    let signs = lines.into_iter().map(|line| {
        let (glyph, style) = sign(line);
        (line.at, glyph, style(theme))
    });
    let shown = Chart {
        series: &scene.shown.series,
        until: until(&scene.shown),
        window,
        signs: signs.collect(),
        cursor: state.moment(),
        zone: &scene.zone,
    };
    let axis = chart(plot, buffer, theme, &shown);
    state.settle(axis);
    if let Some(axis) = axis {
        draw_strips(strips, buffer, scene, axis);
    }
    let moment = axis.zip(state.moment()).map(|(axis, at)| axis.around(at));
    let point = match moment {
        Some(span) => at(&scene.shown, span),
        None => now(scene),
    };
    legend(scene, point.as_ref(), legend_row.width).render(legend_row, buffer);
    let figures = match moment {
        Some(span) => {
            events(scene, span, events_row.width).render(events_row, buffer);
            figures_of(scene, point.as_ref(), below.width)
        }
        None => latency(scene, below.width),
    };
    figures.render(below, buffer);
}

/// Draws strips in the columns of the chart, each at its own scale: the lag, and the stock of the selected sale, or
/// else of the first one.
fn draw_strips(area: Rect, buffer: &mut Buffer, scene: &Scene, axis: Axis) {
    let (theme, series) = (scene.theme, &scene.shown.series);
    let sale = scene.chosen.or(scene.shown.sales.first().map(|sale| sale.voucher_id));
    let stock = sale.and_then(|sale| scene.shown.curves.of(sale)).map(|curves| {
        held(curves.stock.points(), (axis.begin(0), axis.begin(axis.cells)), axis.cells)
    });
    let lag = columns_of(series, axis, |it| it.lag.map(|it| it as f64));
    let strips = [
        (Label("common-lag"), lag, theme.warn),
        (Label("overview-stock"), stock.unwrap_or_default(), theme.accent),
    ];
    let rows = Layout::vertical([Fill(1), Fill(1)]).areas::<2>(area);
    for ((label, values, style), row) in strips.into_iter().zip(rows) {
        let [names, plot] = Layout::horizontal([Length(SCALE), Fill(1)]).areas(row);
        for (at, line) in names.rows().enumerate() {
            let label = if at == 0 { &*label } else { "" };
            let name = format!("{} {}", right(label, usize::from(SCALE) - 2), glyphs::AXIS);
            Span::styled(name, theme.soft).render(line, buffer);
        }
        let top = values.iter().flatten().copied().fold(0.0, f64::max);
        strip(plot, buffer, style, top, values);
    }
}

/// Current rates, averaged alike in every view, as a single tick is noise. Unreadable values stay unknown.
fn now(scene: &Scene) -> Option<Point> {
    let Snapshot { series, funnel, written, sql, .. } = &*scene.shown;
    let last = *series.last()?;
    let refused = funnel.attempts.per_second - funnel.admitted.per_second;
    let admitted = last.admitted.filter(|_| !scene.is_blind());
    let persisted = last.persisted.filter(|_| !is_stale(sql, scene.seen()));
    Some(Point {
        admitted: admitted.map(|_| funnel.admitted.per_second),
        refused: admitted.map(|_| refused.max(0.0)),
        persisted: persisted.map(|_| written.per_second),
        ..last
    })
}

/// The figures of a moment: those of its ticks, or of the last tick before it.
fn at(snapshot: &Snapshot, (from, to): (Millis, Millis)) -> Option<Point> {
    let series = &snapshot.series;
    let near = || series.points().rev().find(|point| point.at < from).copied();
    series.between(from, to).or_else(|| near().filter(|point| point.at >= from.plus(-NEAR_MS)))
}

/// The rates of a moment beside their signs in the chart, as many as fit.
fn legend(scene: &Scene, point: Option<&Point>, cells: u16) -> Line<'static> {
    let [admitted, refused, persisted] = chart_signs(scene.theme);
    let rates = [
        (admitted, Label("common-admitted"), point.and_then(|it| it.admitted)),
        (persisted, Label("common-persisted"), point.and_then(|it| it.persisted)),
        (refused, Label("overview-refused"), point.and_then(|it| it.refused)),
    ];
    let mut legend = Line::default();
    for (sign, label, rate) in rates {
        let rate = rate.map_or(text::UNKNOWN.into(), |rate| figures::rate_within(rate, 8));
        let text = format!(" {label}{} ", right(&rate, 9));
        if legend.width() + width(&text) <= cells.into() {
            legend.extend([sign, Span::raw(text)]);
        }
    }
    legend
}

fn latency(scene: &Scene, cells: u16) -> Line<'static> {
    let Some(seen) = &scene.shown.latency else {
        return Line::styled(Label("console-no-recent-requests-through"), scene.theme.soft);
    };
    let max = Label("console-max").read();
    let [p50, p99, most] = [seen.p50, seen.p99, seen.max].map(figures::latency);
    let samples = figures::within(seen.samples, 6);
    labelled(scene, cells, [("p50", p50), ("p99", p99), (max, most), ("n", samples)])
}

fn figures_of(scene: &Scene, point: Option<&Point>, cells: u16) -> Line<'static> {
    let Some(point) = point else {
        return Line::styled(Label("time-no-data-for-that-moment"), scene.theme.warn);
    };
    let unknown = || text::UNKNOWN.to_owned();
    let figure = |value: Option<u64>| value.map_or_else(unknown, |it| figures::within(it, 6));
    // Nothing was measured without requests.
    let p99 = point.p99_us.map_or_else(|| "-".to_owned(), figures::latency);
    let (lag, pending) = (figure(point.lag), figure(point.pending));
    let [lag_label, pending_label] =
        [Label("common-lag"), Label("common-pending")].map(Label::read);
    labelled(scene, cells, [("p99", p99), (lag_label, lag), (pending_label, pending)])
}

/// Labels and figures at constant positions.
pub(super) fn labelled<const N: usize>(
    scene: &Scene,
    cells: u16,
    figures: [(&'static str, String); N],
) -> Line<'static> {
    /// Cells of a figure with its unit, such as `1.8 ms` and ` 19 ms`.
    const FIGURE: usize = 6;
    let mut line = Line::default();
    for (label, figure) in figures {
        // A truncated figure would be misread.
        if line.width() + width(label) + 1 + width(&figure) > usize::from(cells) {
            break;
        }
        line.push_span(Span::styled(format!("{label} "), scene.theme.soft));
        let figure = right(&figure, FIGURE.max(width(&figure)));
        line.push_span(format!("{figure} "));
    }
    line
}

/// The most important event within a cell of the chart, and the number of further ones.
fn events(scene: &Scene, (from, to): (Millis, Millis), cells: u16) -> Line<'static> {
    let within = scene.shown.activity.iter().filter(|line| (from..to).contains(&line.at));
    let mut lines: Vec<&AuditEntry> = within.collect();
    lines.sort_by_key(|line| std::cmp::Reverse(Weight::of(line)));
    let Some((first, more)) = lines.split_first() else { return Line::default() };
    let (glyph, style) = sign(first);
    let text = time::event(&first.action, &text::audit_log::localized_subject(&first.subject));
    let more = text!("time-and-more", more = more.len());
    // A truncated count would be misread.
    let room = cells.saturating_sub((width(glyph) + 1 + width(&more)) as u16);
    let text = format!(" {}{more}", fit(&text, room.into()));
    Line::from(vec![Span::styled(glyph, style(scene.theme)), Span::raw(text)])
}
