//! Rates over time as a braille picture: an area for what was written, a line for what was
//! admitted. Where nothing could be read there is a gap.

use super::{Pen, right};
use crate::{
    console::{text::figures, theme::Theme},
    model::Millis,
    telemetry::{Point, Series},
};

/// What a chart shows.
pub(crate) struct Chart<'a> {
    pub(crate) series: &'a Series,
    /// The right edge.
    pub(crate) until: Millis,
    /// Milliseconds from edge to edge.
    pub(crate) window: u64,
}

/// Cells of the scale: four for a figure, one blank, one for the axis.
const SCALE: u16 = 6;
/// Ticks farther apart than this are not joined: somebody was not looking.
const LONGEST_TICK_MS: u64 = 3_000;

/// One column of dots.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Dot {
    /// No tick fell in here.
    Nothing,
    /// A tick fell in here, and it could not be read.
    Outage,
    Value(f64),
}

/// Draws scale, axis and both rates.
pub(crate) fn chart(pen: &mut Pen<'_>, theme: Theme, shown: &Chart<'_>) {
    let (width, height) = (pen.width().saturating_sub(SCALE), pen.height().saturating_sub(1));
    if width < 4 || height < 2 {
        return;
    }
    // A cell holds two by four dots of braille; in ASCII it is one dot itself.
    let (across, down) = if theme.glyphs.ascii { (1, 1) } else { (2, 4) };
    let (columns, rows) = (usize::from(width * across), usize::from(height * down));
    let admitted = dots(shown, columns, |point| point.admitted);
    let persisted = dots(shown, columns, |point| point.persisted);
    let top = scale(admitted.iter().chain(&persisted));
    let level = |value: f64| {
        let share = (value / top).clamp(0.0, 1.0);
        ((share * rows as f64).round() as usize).min(rows)
    };

    let mut area = Grid::new(columns, rows);
    join(&persisted, columns_of(shown, columns), |x, value| {
        (0..level(value)).for_each(|y| area.set(x, y));
    });
    let mut line = Grid::new(columns, rows);
    let mut last: Option<(usize, usize)> = None;
    join(&admitted, columns_of(shown, columns), |x, value| {
        let y = level(value).saturating_sub(1);
        // A steep rise is one stroke and not two lonely dots.
        let from = last.filter(|(before, _)| before + 1 == x).map_or(y, |(_, level)| level);
        (from.min(y)..=from.max(y)).for_each(|y| line.set(x, y));
        last = Some((x, y));
    });

    let glyphs = theme.glyphs;
    for row in 0..height {
        let label = match row {
            0 => figures::compact(top),
            _ if row == height / 2 && height >= 5 => figures::compact(top / 2.0),
            _ => String::new(),
        };
        let axis = if label.is_empty() { glyphs.axis } else { glyphs.tick };
        pen.text(0, row, &right(&label, 4, glyphs.ellipsis), theme.soft());
        pen.text(5, row, axis, theme.soft());
        for column in 0..width {
            let above = line.cell(column, height - 1 - row, across, down);
            let below = area.cell(column, height - 1 - row, across, down);
            let style = if above > 0 { theme.chart_1() } else { theme.chart_2() };
            let glyph = match (above, below) {
                (0, 0) => continue,
                (0, _) if glyphs.ascii => '.',
                _ if glyphs.ascii => '*',
                // The line stays alone in its cell: mixed with the area it would be a smear.
                (0, dots) | (dots, _) => char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' '),
            };
            pen.text(SCALE + column, row, glyph.encode_utf8(&mut [0; 4]), style);
        }
    }
    pen.text(0, height, &right("0", 4, glyphs.ellipsis), theme.soft());
    pen.text(5, height, glyphs.corner, theme.soft());
    pen.text(SCALE, height, &glyphs.rule.repeat(usize::from(width)), theme.soft());
}

fn columns_of(shown: &Chart<'_>, columns: usize) -> u64 {
    (shown.window / columns.max(1) as u64).max(1)
}

/// Means per column. Columns stand on a grid of fixed times, so a picture that moves on does not
/// change its shape.
fn dots(shown: &Chart<'_>, columns: usize, value: impl Fn(&Point) -> Option<f64>) -> Vec<Dot> {
    let wide = columns_of(shown, columns) as i64;
    let last = shown.until.0.div_euclid(wide);
    let first = last - columns as i64 + 1;
    let mut sums = vec![(0.0, 0_u32, false); columns];
    for point in shown.series.points() {
        let Ok(column) = usize::try_from(point.at.0.div_euclid(wide) - first) else { continue };
        let Some(sum) = sums.get_mut(column) else { continue };
        match value(point).filter(|rate| rate.is_finite() && *rate >= 0.0) {
            Some(rate) => *sum = (sum.0 + rate, sum.1 + 1, sum.2),
            None => sum.2 = true,
        }
    }
    sums.into_iter()
        .map(|sum| match sum {
            (total, count, _) if count > 0 => Dot::Value(total / f64::from(count)),
            (_, _, true) => Dot::Outage,
            _ => Dot::Nothing,
        })
        .collect()
}

/// Hands out a value for each column, also between ticks, but never across an outage.
fn join(dots: &[Dot], column_ms: u64, mut draw: impl FnMut(usize, f64)) {
    let mut before: Option<(usize, f64)> = None;
    for (x, dot) in dots.iter().enumerate() {
        match *dot {
            Dot::Nothing => {}
            Dot::Outage => before = None,
            Dot::Value(value) => {
                if let Some((from, start)) = before
                    && (x - from) as u64 * column_ms <= LONGEST_TICK_MS.max(column_ms)
                {
                    for between in from + 1..x {
                        let share = (between - from) as f64 / (x - from) as f64;
                        draw(between, start + (value - start) * share);
                    }
                }
                draw(x, value);
                before = Some((x, value));
            }
        }
    }
}

/// The next of 1, 2, 5, 10, 20 … above everything shown: it seldom changes, so the picture rests.
fn scale<'a>(dots: impl Iterator<Item = &'a Dot>) -> f64 {
    let most = dots.fold(0.0_f64, |most, dot| match dot {
        Dot::Value(value) => most.max(*value),
        _ => most,
    });
    let mut step = 10.0;
    while step < 1e15 {
        for factor in [1.0, 2.0, 5.0] {
            if step * factor >= most {
                return step * factor;
            }
        }
        step *= 10.0;
    }
    most
}

/// Dots, counted from the lower left.
struct Grid {
    columns: usize,
    dots: Vec<bool>,
}

impl Grid {
    fn new(columns: usize, rows: usize) -> Self {
        Self { columns, dots: vec![false; columns * rows] }
    }

    fn set(&mut self, x: usize, y: usize) {
        if x < self.columns
            && let Some(dot) = self.dots.get_mut(y * self.columns + x)
        {
            *dot = true;
        }
    }

    /// The braille bits of one cell, or 1 for a single dot.
    fn cell(&self, column: u16, row: u16, across: u16, down: u16) -> u8 {
        /// Bits of a braille cell: left column from the bottom, then the right one.
        const BITS: [[u8; 4]; 2] = [[0x40, 0x04, 0x02, 0x01], [0x80, 0x20, 0x10, 0x08]];
        let mut bits = 0;
        for dx in 0..across {
            for dy in 0..down {
                let x = usize::from(column * across + dx);
                let y = usize::from(row * down + dy);
                if self.dots.get(y * self.columns + x) == Some(&true) {
                    bits |= BITS[usize::from(dx)][usize::from(dy)];
                }
            }
        }
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(rates: &[Option<f64>]) -> Series {
        let mut series = Series::default();
        for (tick, rate) in rates.iter().enumerate() {
            let at = Millis(tick as i64 * 1_000);
            series.push(Point { at, admitted: *rate, persisted: None });
        }
        series
    }

    #[test]
    fn an_outage_is_a_gap_and_a_pause_between_ticks_is_not() {
        let series = series(&[Some(10.0), Some(20.0), None, Some(40.0)]);
        let shown = Chart { series: &series, until: Millis(3_000), window: 4_000 };
        let coarse = dots(&shown, 4, |point| point.admitted);
        assert_eq!(coarse, [Dot::Value(10.0), Dot::Value(20.0), Dot::Outage, Dot::Value(40.0)]);
        let fine = dots(&shown, 8, |point| point.admitted);
        let mut drawn = Vec::new();
        join(&fine, 500, |x, value| drawn.push((x, value)));
        let values: Vec<f64> = drawn.iter().map(|(_, value)| *value).collect();
        assert_eq!(values, [10.0, 15.0, 20.0, 40.0]);
    }

    #[test]
    fn the_scale_is_a_round_number_above_all() {
        let most = |value| scale([Dot::Value(value), Dot::Outage].iter()) as u64;
        assert_eq!([0.0, 10.1, 21_840.0, 50_000.0].map(most), [10, 20, 50_000, 50_000]);
    }
}
