//! The throughput chart: orders per second over time, and the figures of the current or selected moment.

use ratatui::{
    style::Style,
    text::{Line, Span},
};
use seckill_engine::telemetry::{
    Point, Snapshot,
    log::{Recorded, Weight},
};
use seckill_model::{
    Millis,
    message::{Label, text},
};

use super::OverviewState;
use crate::{
    text::{self, figures, time},
    theme::{Glyphs, Theme},
    views::{Scene, Source, is_stale},
    widgets::{Canvas, Chart, Sign, chart, right, width},
};

/// Ticks farther apart than this are different moments.
const NEAR_MS: i64 = 3_000;

/// The right edge of the chart.
pub(crate) fn until(snapshot: &Snapshot) -> Millis {
    let last = snapshot.series.last();
    last.map_or(snapshot.taken, |point| point.at.max(snapshot.taken))
}

/// Events in the snapshot with their Redis time, which the chart uses.
pub(crate) fn marks(snapshot: &Snapshot) -> impl Iterator<Item = (Millis, &Recorded)> {
    snapshot.activity.iter().map(|line| (line.act.at, line))
}

/// The symbol of a log line.
pub(in crate::views) fn sign(theme: Theme, weight: Weight) -> (&'static str, Style) {
    let style = match weight {
        Weight::Trouble => theme.warn,
        Weight::Failed => theme.bad,
        Weight::Command => theme.key,
        Weight::Relief => theme.good,
        Weight::Notice => theme.soft,
    };
    (sign_glyph(theme.glyphs, weight), style)
}

pub(in crate::views) fn sign_glyph(glyphs: &Glyphs, weight: Weight) -> &'static str {
    match weight {
        Weight::Trouble => "!",
        Weight::Failed => glyphs.cross,
        Weight::Command => glyphs.mark,
        Weight::Relief => glyphs.up,
        Weight::Notice => glyphs.waiting,
    }
}

/// Heading, legend, chart, figures, and events at the selected moment; `rows` are those of the chart.
pub(super) fn draw(
    canvas: &mut Canvas<'_>,
    scene: &Scene<'_>,
    state: &mut OverviewState,
    rows: u16,
) {
    let theme = scene.theme;
    let until = until(scene.snapshot);
    // A truncated age would be misread.
    let sources: [&[Source]; 3] = [&[Source::Redis, Source::Sql], &[Source::Redis], &[]];
    let titles = sources.map(|sources| scene.heading(&Label("console-orders-per-second"), sources));
    let fits = |title: &Line<'_>| title.width() <= usize::from(canvas.width());
    let title = titles.into_iter().find(fits).unwrap_or_default();
    let heading = title.width();
    canvas.line(0, 0, &title);
    let text = match state.moment() {
        Some(at) => {
            let clock = at.time_of_day(scene.zone);
            Line::styled(text!("time-values-of-rest-is-current", clock), theme.key)
        }
        None => Line::styled(time::last(state.window()), theme.soft),
    };
    let fits = heading + 2 + text.width() <= usize::from(canvas.width());
    if !fits && state.moment().is_some() {
        // The selected moment matters more than the heading.
        let w = canvas.width();
        canvas.part(0, 0, w, 1).clear();
    }
    if fits || state.moment().is_some() {
        canvas.line_right(0, &text);
    }
    let w = canvas.width();
    let mut signs: Vec<(Weight, Sign)> = marks(scene.snapshot)
        .map(|(at, line)| {
            let weight = Weight::of(&line.act);
            let (glyph, style) = sign(theme, weight);
            (weight, Sign { at, glyph, style })
        })
        .collect();
    signs.sort_by_key(|(weight, _)| *weight);
    let shown = Chart {
        series: &scene.snapshot.series,
        until,
        window: state.window(),
        signs: signs.into_iter().map(|(_, sign)| sign).collect(),
        cursor: state.moment(),
        clock: &|at| at.time_of_day(scene.zone),
    };
    let axis = chart(&mut canvas.part(0, 2, w, rows), theme, &shown);
    state.settle(axis);
    let moment = axis.zip(state.moment()).map(|(axis, at)| axis.around(at));
    let point = match moment {
        Some(span) => at(scene.snapshot, span),
        None => now(scene),
    };
    legend(canvas, scene, point.as_ref());
    let margin = margin(w);
    let mut below = canvas.part(margin, 2 + rows, w.saturating_sub(margin), 2);
    match moment {
        Some(span) => {
            figures_of(&mut below, scene, point.as_ref());
            events(&mut below, scene, span);
        }
        None => latency(&mut below, scene),
    }
}

/// Current rates, averaged alike in every view, as a single tick is noise. Unreadable values stay unknown.
fn now(scene: &Scene<'_>) -> Option<Point> {
    let Snapshot { series, funnel, written, sql, .. } = scene.snapshot;
    let last = *series.last()?;
    let admitted = last.admitted.filter(|_| !scene.is_blind());
    let persisted = last.persisted.filter(|_| !is_stale(sql, scene.now));
    Some(Point {
        admitted: admitted.map(|_| funnel.admitted.per_second),
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

/// Beside the scale if there is room, else under the heading.
fn margin(width: u16) -> u16 {
    if width >= 54 { 6 } else { 0 }
}

fn legend(canvas: &mut Canvas<'_>, scene: &Scene<'_>, point: Option<&Point>) {
    let theme = scene.theme;
    let legend = [
        (Label("common-admitted"), point.and_then(|point| point.admitted), theme.chart_1, '⠤'),
        (Label("common-persisted"), point.and_then(|point| point.persisted), theme.chart_2, '⣿'),
    ];
    let mut spans = Vec::new();
    let margin = margin(canvas.width());
    let roomy = margin > 0;
    for (label, rate, style, unicode) in legend {
        let sign = match (theme.glyphs.ascii, unicode) {
            (false, sign) => sign.to_string(),
            (true, '⠤') => "*".to_owned(),
            (true, _) => ".".to_owned(),
        };
        let rate = rate.map(|rate| figures::rate_within(rate, 9));
        let rate = rate.unwrap_or_else(|| text::UNKNOWN.to_owned());
        let sign = if roomy { sign.repeat(2) } else { sign };
        spans.push(Span::styled(format!("{sign} "), style));
        spans.push(Span::raw(label));
        spans.push(Span::raw(right(&rate, 10, theme.glyphs.ellipsis)));
        spans.push(Span::raw(if roomy { "   " } else { " " }));
    }
    canvas.line(margin, 1, &Line::from(spans));
}

fn latency(canvas: &mut Canvas<'_>, scene: &Scene<'_>) {
    match &scene.snapshot.latency {
        Some(seen) => {
            let max = Label("console-max").read();
            let figures = [("p50", seen.p50), ("p99", seen.p99), (max, seen.max)];
            let mut text =
                figures.map(|(label, micros)| (label, figures::latency(micros))).to_vec();
            text.push(("n", figures::within(seen.samples, 6)));
            labelled(canvas, scene, &text);
        }
        None => {
            canvas.text(0, 0, &Label("console-no-recent-requests-through"), scene.theme.soft);
        }
    }
}

fn figures_of(canvas: &mut Canvas<'_>, scene: &Scene<'_>, point: Option<&Point>) {
    let Some(point) = point else {
        canvas.text(0, 0, &Label("time-no-data-for-that-moment"), scene.theme.warn);
        return;
    };
    let unknown = || text::UNKNOWN.to_owned();
    let figure = |value: Option<u64>| value.map_or_else(unknown, |it| figures::within(it, 6));
    // Nothing was measured without requests.
    let p99 = point.p99_us.map_or_else(|| "-".to_owned(), figures::latency);
    labelled(
        canvas,
        scene,
        &[
            ("p99", p99),
            (Label("common-lag").read(), figure(point.lag)),
            (Label("common-pending").read(), figure(point.pending)),
        ],
    );
}

/// Cells of a figure with its unit, such as `1.8 ms` and ` 19 ms`.
const FIGURE: usize = 6;

/// Labels and figures at constant positions.
fn labelled(canvas: &mut Canvas<'_>, scene: &Scene<'_>, text: &[(&str, String)]) {
    let mut x = 0;
    let gap = if canvas.width() >= 50 { 3 } else { 1 };
    for (label, figure) in text {
        // A truncated figure would be misread.
        if usize::from(x) + width(label) + 1 + width(figure) > usize::from(canvas.width()) {
            break;
        }
        x = canvas.text(x, 0, label, scene.theme.soft) + 1;
        x = canvas.text(x, 0, &right(figure, FIGURE.max(width(figure)), ""), Style::new()) + gap;
    }
}

/// Events within a cell of the chart, by importance, and the number of further ones.
fn events(canvas: &mut Canvas<'_>, scene: &Scene<'_>, (from, to): (Millis, Millis)) {
    let within = marks(scene.snapshot).filter(|(at, _)| (from..to).contains(at));
    let mut lines: Vec<&Recorded> = within.map(|(_, line)| line).collect();
    lines.sort_by_key(|line| std::cmp::Reverse(Weight::of(&line.act)));
    let Some((first, more)) = lines.split_first() else { return };
    let (glyph, style) = sign(scene.theme, Weight::of(&first.act));
    let x = canvas.text(0, 1, glyph, style) + 1;
    let text = time::event(&first.act.act, &text::audit_log::subject(&first.act.subject));
    let more =
        if more.is_empty() { String::new() } else { text!("time-and-more", more = more.len()) };
    // A truncated count would be misread.
    let room = canvas.width().saturating_sub(x + width(&more) as u16);
    let x = canvas.text(x, 1, &scene.fit(&text, room), Style::new());
    canvas.text(x, 1, &more, Style::new());
}
