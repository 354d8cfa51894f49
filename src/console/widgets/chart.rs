//! Rates over time as a braille chart: an area for written orders, a line for admitted ones, and event symbols on the
//! time axis. Unreadable spans are gaps.
//!
//! ratatui's `Chart` has neither gaps nor areas, and draws its points by their coordinates, so that the shape of a
//! scrolling curve changes with every frame.

use std::collections::HashSet;

use jiff::tz::TimeZone;
use ratatui::{
    layout::{
        Constraint::{Fill, Length},
        Flex,
    },
    prelude::*,
    symbols::Marker,
    widgets::canvas::{Canvas, Context, Points},
};
use seckill_engine::telemetry::{Point, Series};
use seckill_model::Millis;

use crate::{
    text::figures,
    theme::{Theme, glyphs},
};

/// The data of a chart.
pub(crate) struct Chart<'a> {
    pub(crate) series: &'a Series,
    /// The right edge.
    pub(crate) until: Millis,
    /// Milliseconds from edge to edge.
    pub(crate) window: u64,
    /// Events on the time axis, with their symbols; the last one in a cell is visible.
    pub(crate) signs: Vec<(Millis, &'static str, Style)>,
    /// The selected moment.
    pub(crate) cursor: Option<Millis>,
    /// The time zone of the times below the axis, if there is room.
    pub(crate) zone: &'a TimeZone,
}

/// The time range of each cell of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    /// Milliseconds of a cell.
    pub(crate) cell: i64,
    first: i64,
    pub(crate) cells: u16,
}

impl Axis {
    /// The axis of a chart of that many cells. Cells are aligned to fixed times, so that a scrolling chart keeps its
    /// shape.
    pub(crate) fn new(until: Millis, window: u64, cells: u16, across: u16) -> Self {
        let columns = u64::from(cells * across).max(1);
        let cell = (window / columns).max(1) as i64 * i64::from(across);
        let first = until.0.div_euclid(cell) - i64::from(cells) + 1;
        Self { cell, first, cells }
    }

    /// The start of a cell.
    pub(crate) fn begin(&self, cell: u16) -> Millis {
        Millis((self.first + i64::from(cell)).saturating_mul(self.cell))
    }

    /// The cell of a time.
    pub(crate) fn of(&self, at: Millis) -> Option<u16> {
        let cell = u16::try_from(at.0.div_euclid(self.cell) - self.first).ok()?;
        (cell < self.cells).then_some(cell)
    }

    /// Start and end of the cell at a time, or of the nearest cell.
    pub(crate) fn around(&self, at: Millis) -> (Millis, Millis) {
        let cell = (at.0.div_euclid(self.cell) - self.first).clamp(0, i64::from(self.cells) - 1);
        let begin = self.begin(cell as u16);
        (begin, begin.plus(self.cell))
    }
}

/// Cells of the scale: seven for a figure or the name of a strip, one blank, one for the axis.
pub(crate) const SCALE: u16 = 9;
/// Ticks farther apart than this are not joined: the interval was not sampled.
const LONGEST_TICK_MS: u64 = 3_000;

/// From this height on, times are shown below the axis.
const ROOM_FOR_CLOCK: u16 = 12;

/// Draws scale, axis and both rates; returns the axis, if there was room.
pub(crate) fn chart(
    area: Rect,
    buffer: &mut Buffer,
    theme: Theme,
    shown: &Chart<'_>,
) -> Option<Axis> {
    let clock = u16::from(area.height >= ROOM_FOR_CLOCK);
    let [above, foot, clocks_row] =
        Layout::vertical([Fill(1), Length(1), Length(clock)]).areas(area);
    let [scale_area, plot] = Layout::horizontal([Length(SCALE), Fill(1)]).areas(above);
    let [corner, foot] = Layout::horizontal([Length(SCALE), Fill(1)]).areas(foot);
    let Rect { width, height, .. } = plot;
    if width < 4 || height < 2 {
        return None;
    }
    // A cell has two by four braille dots; in ASCII it is a single dot.
    let (across, down) = if theme.ascii { (1, 1) } else { (2, 4) };
    let axis = Axis::new(shown.until, shown.window, width, across);
    let (columns, rows) = (usize::from(width * across), usize::from(height * down));
    let admitted = columns_of(shown.series, axis, across, |point| point.admitted);
    let persisted = columns_of(shown.series, axis, across, |point| point.persisted);
    let top = scale(admitted.iter().chain(&persisted).flatten().copied().fold(0.0, f64::max));
    let level = |value: f64| {
        let share = (value / top).clamp(0.0, 1.0);
        ((share * rows as f64).round() as usize).min(rows)
    };
    let (mut line, mut area, mut levels) = (Vec::new(), Vec::new(), HashSet::new());
    let cell = |(x, y): (f64, f64)| (x as u16 / across, y as u16 / down);
    let mut last = None;
    for (x, (admitted, persisted)) in admitted.into_iter().zip(persisted).enumerate() {
        let dot = |y: usize| (x as f64, y as f64);
        let written = persisted.unwrap_or(0.0);
        // A small value is not drawn as zero.
        let least = usize::from(written > 0.0);
        area.extend((0..level(written).max(least)).map(dot));
        let before = last.take();
        let Some(value) = admitted else { continue };
        let y = level(value).saturating_sub(1);
        // A steep rise is drawn as one stroke.
        let from = before.unwrap_or(y);
        line.extend((from.min(y)..=from.max(y)).map(dot));
        if value > 0.0 {
            levels.insert(cell(dot(y)));
        }
        last = Some(y);
    }
    // The line hides the area in the cells of its level: mixed they would be unreadable. Elsewhere it is a stroke or
    // zero, and hides neither a short burst of writes nor the base of the area.
    let over: Vec<_> = line.iter().copied().filter(|dot| levels.contains(&cell(*dot))).collect();
    let paint = |context: &mut Context<'_>| {
        let [admitted, persisted] = [('*', theme.chart_1), ('.', theme.chart_2)];
        for (coords, (sign, style)) in [(&line, admitted), (&area, persisted), (&over, admitted)] {
            context.marker(if theme.ascii { Marker::Custom(sign) } else { Marker::Braille });
            context.draw(&Points { coords, color: style.fg.unwrap_or_default() });
        }
    };
    Canvas::default()
        .x_bounds([0.0, (columns - 1) as f64])
        .y_bounds([0.0, (rows - 1) as f64])
        .paint(paint)
        .render(plot, buffer);
    let cursor = shown.cursor.and_then(|at| axis.of(at));
    for position in plot.positions() {
        let cell = &mut buffer[position];
        if cursor == Some(position.x - plot.x) {
            if cell.symbol() == " " {
                cell.set_symbol(glyphs::AXIS);
            }
            cell.set_style(Style::reset()).set_style(theme.key);
        } else if cell.symbol() != " " && cell.fg == theme.chart_2.fg.unwrap_or_default() {
            // The canvas knows colours only, and faint text is a modifier.
            cell.set_style(theme.chart_2);
        }
    }
    for row in scale_area.rows() {
        let (label, edge) = match row.y - scale_area.y {
            0 => (figures::compact(top), glyphs::TICK),
            y if y == height / 2 && height >= 5 => (figures::compact(top / 2.0), glyphs::TICK),
            _ => (String::new(), glyphs::AXIS),
        };
        Span::styled(format!("{label:>7} {edge}"), theme.soft).render(row, buffer);
    }
    Span::styled(format!("{:>7} {}", 0, glyphs::CORNER), theme.soft).render(corner, buffer);
    Span::styled(glyphs::RULE.repeat(usize::from(width)), theme.soft).render(foot, buffer);
    let cursor = shown.cursor.map(|at| (at, glyphs::FOOT, theme.key));
    for (at, glyph, style) in cursor.into_iter().chain(shown.signs.iter().copied()) {
        if let Some(column) = axis.of(at) {
            buffer[(foot.x + column, foot.y)].set_symbol(glyph).set_style(style);
        }
    }
    if clock > 0 {
        clocks(Rect { x: foot.x, width, ..clocks_row }, buffer, theme, shown, axis);
    }
    Some(axis)
}

/// Times at the left, in the middle and at the right.
fn clocks(area: Rect, buffer: &mut Buffer, theme: Theme, shown: &Chart<'_>, axis: Axis) {
    let times = [axis.begin(0), axis.begin(area.width / 2), shown.until];
    let clocks = times.map(|at| Line::styled(at.time_of_day(shown.zone), theme.soft));
    let widths = clocks.each_ref().map(|clock| Length(clock.width() as u16));
    let places = Layout::horizontal(widths).flex(Flex::SpaceBetween).areas::<3>(area);
    for (clock, place) in clocks.into_iter().zip(places) {
        clock.render(place, buffer);
    }
}

/// The peak of each column, aligned to [`Axis`]; `None` unless more than half of its ticks have a reading. Values are
/// interpolated between ticks, but never across an outage.
pub(crate) fn columns_of(
    series: &Series,
    axis: Axis,
    across: u16,
    value: impl Fn(&Point) -> Option<f64>,
) -> Vec<Option<f64>> {
    let across = i64::from(across);
    let (wide, first) = (axis.cell / across, axis.first * across);
    let mut peaks = vec![(0.0_f64, 0_u32, 0_u32); usize::from(axis.cells) * across as usize];
    for point in series.points() {
        let Ok(column) = usize::try_from(point.at.0.div_euclid(wide) - first) else { continue };
        let Some((peak, count, missed)) = peaks.get_mut(column) else { continue };
        match value(point).filter(|rate| rate.is_finite() && *rate >= 0.0) {
            Some(rate) => (*peak, *count) = (peak.max(rate), *count + 1),
            None => *missed += 1,
        }
    }
    let longest = (LONGEST_TICK_MS / wide as u64).max(1) as usize;
    let mut columns = vec![None; peaks.len()];
    let mut before: Option<(usize, f64)> = None;
    for (x, (peak, count, missed)) in peaks.into_iter().enumerate() {
        if count <= missed {
            before = before.filter(|_| missed == 0);
            continue;
        }
        let (from, start) = before.filter(|(from, _)| x - from <= longest).unwrap_or((x, peak));
        for (steps, slot) in columns[from..=x].iter_mut().enumerate() {
            let share = steps as f64 / (x - from).max(1) as f64;
            *slot = Some(start + (peak - start) * share);
        }
        before = Some((x, peak));
    }
    columns
}

/// The next of 10, 20, 50, 100, 200 … above the maximum: it seldom changes, so the chart is stable.
fn scale(most: f64) -> f64 {
    let powers = (1..15).map(|power| 10_f64.powi(power));
    let mut steps = powers.flat_map(|power| [power, 2.0 * power, 5.0 * power]);
    steps.find(|step| *step >= most).unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::Depth;

    fn series(rates: &[Option<f64>]) -> Series {
        let mut series = Series::default();
        for (tick, rate) in rates.iter().enumerate() {
            let at = Millis(tick as i64 * 1_000);
            series.push(Point { at, admitted: *rate, ..Point::default() });
        }
        series
    }

    fn shown(series: &Series, window: u64) -> Chart<'_> {
        const UTC: &TimeZone = &TimeZone::UTC;
        let (signs, zone) = (Vec::new(), UTC);
        Chart { series, until: Millis(3_000), window, signs, cursor: None, zone }
    }

    #[test]
    fn a_column_that_was_hardly_read_is_an_outage() {
        let series = series(&[Some(10.0), None, None, Some(40.0)]);
        let axis = Axis::new(Millis(3_999), 4_000, 1, 1);
        let whole = columns_of(&series, axis, 1, |point| point.admitted);
        assert_eq!(whole, [None]);
    }

    #[test]
    fn times_and_cells_lead_to_each_other() {
        let axis = Axis::new(Millis(100_300), 60_000, 30, 2);
        assert_eq!(axis.cell, 2_000);
        assert_eq!([axis.of(Millis(100_300)), axis.of(Millis(102_000))], [Some(29), None]);
        assert_eq!([axis.of(Millis(42_000)), axis.of(Millis(41_999))], [Some(0), None]);
        assert_eq!(axis.around(Millis(43_500)), (Millis(42_000), Millis(44_000)));
        assert_eq!(axis.around(Millis(0)), (Millis(42_000), Millis(44_000)));
    }

    #[test]
    fn an_outage_is_a_gap_and_a_pause_between_ticks_is_not() {
        let series = series(&[Some(10.0), Some(20.0), None, Some(40.0)]);
        let shown = shown(&series, 4_000);
        let columns = |cells| {
            let axis = Axis::new(shown.until, shown.window, cells, 1);
            columns_of(&series, axis, 1, |point| point.admitted)
        };
        assert_eq!(columns(4), [Some(10.0), Some(20.0), None, Some(40.0)]);
        let [begin, end] = [&[10.0, 15.0, 20.0][..], &[40.0]];
        let known: Vec<_> = columns(8).into_iter().skip_while(Option::is_none).collect();
        let runs: Vec<Vec<f64>> = known
            .chunk_by(|one, other| one.is_some() == other.is_some())
            .map(|run| run.iter().flatten().copied().collect())
            .filter(|run: &Vec<f64>| !run.is_empty())
            .collect();
        assert_eq!(runs, [begin, end]);
    }

    /// A chart up to `until` on an empty screen, and its axis.
    fn drawn(
        series: &Series,
        (until, window): (i64, u64),
        (width, height): (u16, u16),
        theme: Theme,
    ) -> (Buffer, Axis) {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        let shown = Chart { until: Millis(until), ..shown(series, window) };
        let axis = chart(area, &mut buffer, theme, &shown).unwrap();
        (buffer, axis)
    }

    fn filled(points: impl Iterator<Item = (i64, Option<f64>, Option<f64>)>) -> Series {
        let mut series = Series::default();
        for (at, admitted, persisted) in points {
            series.push(Point { at: Millis(at), admitted, persisted, ..Point::default() });
        }
        series
    }

    /// The middle third is unreadable; before and after it nothing sells, which is zero.
    #[test]
    fn an_outage_is_a_gap_in_every_window_in_braille_and_in_ascii() {
        for window in [30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000] {
            let until = 1_800_000;
            let begin = until - window as i64;
            let third = window as i64 / 3;
            let series = filled((begin..=until).step_by(1_000).map(|at| {
                let away = (begin + third..begin + 2 * third).contains(&at);
                let rate = (!away).then_some(0.0);
                (at, rate, rate)
            }));
            for ascii in [false, true] {
                let theme = Theme::new(Depth::None, ascii);
                let (buffer, axis) = drawn(&series, (until, window), (66, 12), theme);
                // Directly above the axis, where zero is.
                let drawn = |at: i64| {
                    let column = SCALE + axis.of(Millis(at)).unwrap();
                    buffer[(column, 12 - 3)].symbol() != " "
                };
                let [early, gap, late] =
                    [0.17, 0.5, 0.83].map(|part| drawn(begin + (window as f64 * part) as i64));
                assert_eq!([early, gap, late], [true, false, true], "{window} ascii: {ascii}");
            }
        }
    }

    /// 15,000 per second on a scale of 200k, while nothing is admitted any more.
    #[test]
    fn persisted_orders_are_visible_without_admissions() {
        let series = filled((0..60).map(|second| {
            let (admitted, persisted) = if second < 20 { (150e3, 15e3) } else { (0.0, 900.0) };
            (second * 1_000, Some(admitted), Some(persisted))
        }));
        for (ascii, sign) in [(false, "⣀"), (true, ".")] {
            let theme = Theme::new(Depth::True, ascii);
            let (buffer, axis) = drawn(&series, (59_000, 60_000), (66, 12), theme);
            let column = SCALE + axis.of(Millis(45_000)).unwrap();
            let cell = &buffer[(column, 12 - 3)];
            assert_eq!((cell.symbol(), Some(cell.fg)), (sign, theme.chart_2.fg), "{ascii}");
        }
    }

    /// Everything is admitted and written within one tick.
    #[test]
    fn a_burst_is_seen_at_every_size() {
        let series = filled((0..120).map(|second| {
            let (admitted, persisted) = if second == 60 { (900.0, 880.0) } else { (0.0, 0.0) };
            (second * 1_000, Some(admitted), Some(persisted))
        }));
        for ascii in [false, true] {
            for window in [60_000, 120_000, 600_000] {
                for size in [(30, 5), (46, 8), (66, 12), (150, 20), (250, 40)] {
                    let theme = Theme::new(Depth::True, ascii);
                    let (buffer, _) = drawn(&series, (119_000, window), size, theme);
                    let drawn = |style: Style| {
                        let mut cells = buffer.content.iter();
                        cells.any(|cell| cell.symbol() != " " && Some(cell.fg) == style.fg)
                    };
                    let both = [theme.chart_1, theme.chart_2].map(drawn);
                    assert_eq!(both, [true; 2], "{window} in {size:?} ascii: {ascii}");
                }
            }
        }
    }

    #[test]
    fn the_scale_is_a_round_number_above_all() {
        let top = |most| scale(most) as u64;
        assert_eq!([0.0, 10.1, 21_840.0, 50_000.0].map(top), [10, 20, 50_000, 50_000]);
    }
}
