//! Rates over time: the admitted and the refused requests as stacked areas, the persisted orders as a line over them,
//! and event symbols on the time axis. Unreadable spans are gaps, and dotted on the axis.
//!
//! ratatui's `Chart` has neither gaps nor areas that stand on each other, and draws its points by their coordinates, so
//! that the shape of a scrolling curve changes with every frame.

use jiff::tz::TimeZone;
use ratatui::{
    layout::{
        Constraint::{Fill, Length},
        Flex,
    },
    prelude::*,
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
    pub(crate) fn new(until: Millis, window: u64, cells: u16) -> Self {
        let cell = (window / u64::from(cells).max(1)).max(1) as i64;
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

/// Refused requests are cut at this multiple of the orders, which they may far outnumber.
const MOST_REFUSED: f64 = 4.0;
/// The levels of an area within a cell.
const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
/// The levels of a line within a cell.
const QUARTERS: [&str; 4] = ["⣀", "⠤", "⠒", "⠉"];
/// A line that rises or falls across a cell.
const STROKE: &str = "⡇";

/// The signs of the admitted, the refused and the persisted in a legend.
pub(crate) fn chart_signs(theme: Theme) -> [Span<'static>; 3] {
    let line = if theme.ascii { "*" } else { QUARTERS[1] };
    [(EIGHTHS[8], theme.accent), (glyphs::EMPTY, theme.soft), (line, theme.strong)]
        .map(|(sign, style)| Span::styled(sign, style))
}

/// Draws scale, axis and rates; returns the axis, if there was room.
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
    let axis = Axis::new(shown.until, shown.window, width);
    let admitted = columns_of(shown.series, axis, |point| point.admitted);
    let persisted = columns_of(shown.series, axis, |point| point.persisted);
    let requests = columns_of(shown.series, axis, |point| Some(point.admitted? + point.refused?));
    let peak = |values: &[Option<f64>]| values.iter().flatten().copied().fold(0.0, f64::max);
    let (orders, all) = (peak(&admitted).max(peak(&persisted)), peak(&requests));
    let top = scale(if orders > 0.0 { all.clamp(orders, orders * MOST_REFUSED) } else { all });
    // In parts of a row; a small value is not drawn as zero.
    let level = |value: f64, parts: u16| {
        let most = height * parts;
        let share = (value / top * f64::from(most)).round().min(f64::from(most)) as u16;
        share.max(u16::from(value > 0.0))
    };
    let [admitted_sign, refused_sign, persisted_sign] = chart_signs(theme);
    let mut before: Option<u16> = None;
    for (x, (admitted, (requests, persisted))) in
        admitted.iter().zip(requests.iter().zip(&persisted)).enumerate()
    {
        let x = plot.x + x as u16;
        let at = |up: u16| (x, plot.bottom() - 1 - up);
        let sold = level(admitted.unwrap_or(0.0), EIGHTHS.len() as u16 - 1);
        let asked = requests.unwrap_or(0.0);
        for up in sold.div_ceil(8)..level(asked, 1) {
            buffer[at(up)].set_symbol(&refused_sign.content).set_style(refused_sign.style);
        }
        if asked > top {
            buffer[at(height - 1)].set_symbol(glyphs::RISING);
        }
        for up in 0..sold.div_ceil(8) {
            let eighths = usize::from(sold - up * 8).min(8);
            buffer[at(up)].set_symbol(EIGHTHS[eighths]).set_style(admitted_sign.style);
        }
        // Zero is the axis itself.
        let quarter = persisted.map(|rate| level(rate, QUARTERS.len() as u16));
        let row = quarter.map(|quarter| quarter.saturating_sub(1) / 4);
        if let Some((quarter, row)) = quarter.zip(row) {
            let from = before.unwrap_or(row);
            let stroke = (from.min(row)..=from.max(row)).filter(|up| *up != row);
            let glyph = (quarter > 0).then(|| (row, QUARTERS[usize::from((quarter + 3) % 4)]));
            for (up, glyph) in stroke.map(|up| (up, STROKE)).chain(glyph) {
                let cell = &mut buffer[at(up)];
                let behind = if cell.symbol() == EIGHTHS[8] { cell.fg } else { Color::Reset };
                let glyph = if theme.ascii { &persisted_sign.content } else { glyph };
                let style = Style::reset().bg(behind).patch(persisted_sign.style);
                cell.set_symbol(glyph).set_style(style);
            }
        }
        before = row;
        let known = admitted.is_some() && persisted.is_some();
        let rule = if known { glyphs::RULE } else { glyphs::UNKNOWN_RULE };
        buffer[(x, foot.y)].set_symbol(rule).set_style(theme.soft);
    }
    if let Some(column) = shown.cursor.and_then(|at| axis.of(at)) {
        for up in 0..height {
            let cell = &mut buffer[(plot.x + column, plot.y + up)];
            if cell.symbol() == " " {
                cell.set_symbol(glyphs::AXIS);
            }
            cell.set_style(Style::reset()).set_style(theme.key);
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
    let cursor = shown.cursor.map(|at| (at, glyphs::FOOT, theme.key));
    for (at, glyph, style) in cursor.into_iter().chain(shown.signs.iter().copied()) {
        if let Some(column) = axis.of(at) {
            buffer[(foot.x + column, foot.y)].set_symbol(glyph).set_style(style);
        }
    }
    clocks(Rect { x: foot.x, width, ..clocks_row }, buffer, theme, shown, axis);
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
    value: impl Fn(&Point) -> Option<f64>,
) -> Vec<Option<f64>> {
    let mut peaks = vec![(0.0_f64, 0_u32, 0_u32); usize::from(axis.cells)];
    for point in series.points() {
        let Some(column) = axis.of(point.at) else { continue };
        let (peak, count, missed) = &mut peaks[usize::from(column)];
        match value(point).filter(|rate| rate.is_finite() && *rate >= 0.0) {
            Some(rate) => (*peak, *count) = (peak.max(rate), *count + 1),
            None => *missed += 1,
        }
    }
    let longest = (LONGEST_TICK_MS / axis.cell as u64).max(1) as usize;
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

/// The next of 10, 20, 30, 40, 50, 60, 80, 100, 200 … above the maximum: it seldom changes, so the chart is stable.
fn scale(most: f64) -> f64 {
    let powers = (1..15).map(|power| 10_f64.powi(power));
    let mut steps =
        powers.flat_map(|power| [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0].map(|it| it * power));
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
        let axis = Axis::new(Millis(3_999), 4_000, 1);
        let whole = columns_of(&series, axis, |point| point.admitted);
        assert_eq!(whole, [None]);
    }

    #[test]
    fn times_and_cells_lead_to_each_other() {
        let axis = Axis::new(Millis(100_300), 60_000, 30);
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
            let axis = Axis::new(shown.until, shown.window, cells);
            columns_of(&series, axis, |point| point.admitted)
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

    fn filled(points: impl Iterator<Item = (i64, Option<[f64; 3]>)>) -> Series {
        let mut series = Series::default();
        for (at, rates) in points {
            let [admitted, refused, persisted] = rates.map_or([None; 3], |rates| rates.map(Some));
            let at = Millis(at);
            series.push(Point { at, admitted, refused, persisted, ..Point::default() });
        }
        series
    }

    /// The symbols of the column of a time, from the axis upwards.
    fn column(buffer: &Buffer, axis: Axis, at: i64) -> String {
        let x = SCALE + axis.of(Millis(at)).unwrap();
        let foot = buffer.area.height - 2;
        (0..=foot).rev().map(|y| buffer[(x, y)].symbol()).collect::<String>().trim().to_owned()
    }

    /// The middle third is unreadable; before and after it nothing sells, which is zero.
    #[test]
    fn an_outage_is_a_gap_in_the_axis_and_zero_is_not() {
        for window in [30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000] {
            let until = 1_800_000;
            let begin = until - window as i64;
            let third = window as i64 / 3;
            let series = filled((begin..=until).step_by(1_000).map(|at| {
                let away = (begin + third..begin + 2 * third).contains(&at);
                (at, (!away).then_some([0.0; 3]))
            }));
            for ascii in [false, true] {
                let theme = Theme::new(Depth::None, ascii);
                let (buffer, axis) = drawn(&series, (until, window), (66, 12), theme);
                let columns = [0.17, 0.5, 0.83]
                    .map(|part| column(&buffer, axis, begin + (window as f64 * part) as i64));
                let expected = [glyphs::RULE, glyphs::UNKNOWN_RULE, glyphs::RULE];
                assert_eq!(columns, expected, "{window} ascii: {ascii}");
            }
        }
    }

    #[test]
    fn the_refused_stand_on_the_admitted_and_the_persisted_are_a_line() {
        let rates =
            [[400.0, 400.0, 0.0], [400.0, 0.0, 200.0], [0.0, 800.0, 0.0], [100.0, 9e5, 1.0]];
        let series = filled((0..4).map(|at| (at * 1_000, Some(rates[at as usize]))));
        let theme = Theme::new(Depth::True, false);
        let (buffer, axis) = drawn(&series, (3_999, 4_000), (SCALE + 4, 12), theme);
        let columns = [0, 1, 2, 3].map(|second| column(&buffer, axis, second * 1_000));
        let expected = ["─██░░", "─⠉█", "─░░░░", "─⣀░░░░░░░░↑"];
        assert_eq!(columns, expected, "at most four times the orders");
        let line = &buffer[(SCALE + 1, 9)];
        assert_eq!((line.fg, Some(line.bg)), (Color::Reset, theme.accent.fg), "over the area");
    }

    /// 15,000 per second on a scale of 200k, while nothing is admitted any more.
    #[test]
    fn persisted_orders_are_visible_without_admissions() {
        let series = filled((0..60).map(|second| {
            let rates = if second < 20 { [150e3, 0.0, 15e3] } else { [0.0, 0.0, 900.0] };
            (second * 1_000, Some(rates))
        }));
        for (ascii, sign) in [(false, "─⣀"), (true, "─*")] {
            let theme = Theme::new(Depth::True, ascii);
            let (buffer, axis) = drawn(&series, (59_000, 60_000), (66, 12), theme);
            assert_eq!(column(&buffer, axis, 45_000), sign, "{ascii}");
        }
    }

    /// Everything is admitted and written within one tick.
    #[test]
    fn a_burst_is_seen_at_every_size() {
        let series = filled((0..120).map(|second| {
            let rates = if second == 60 { [900.0, 0.0, 880.0] } else { [0.0; 3] };
            (second * 1_000, Some(rates))
        }));
        for ascii in [false, true] {
            for window in [60_000, 120_000, 600_000] {
                for size in [(30, 5), (46, 8), (66, 12), (150, 20), (250, 40)] {
                    let theme = Theme::new(Depth::True, ascii);
                    let (buffer, _) = drawn(&series, (119_000, window), size, theme);
                    let cells = || buffer.content.iter();
                    let admitted =
                        cells().any(|it| [it.fg, it.bg].map(Some).contains(&theme.accent.fg));
                    let line = |it: &str| it == "*" || ("⠀".."⣿").contains(&it);
                    let persisted = cells().any(|it| line(it.symbol()));
                    assert_eq!([admitted, persisted], [true; 2], "{window} in {size:?} {ascii}");
                }
            }
        }
    }

    #[test]
    fn the_scale_is_a_round_number_above_all() {
        let top = |most| scale(most) as u64;
        assert_eq!([0.0, 10.1, 21_840.0, 50_000.0].map(top), [10, 20, 30_000, 50_000]);
    }
}
