//! The curves of a benchmark as an SVG file. Its colours are readable on a white and on a dark background, and it uses the
//! fonts of the viewer.

use std::{
    error::Error,
    fs::File,
    io::{self, Write as _},
    ops::Range,
    path::PathBuf,
};

use clap::Args;
use plotters::{
    coord::{
        Shift,
        ranged1d::{AsRangedCoord, ValueFormatter},
    },
    prelude::*,
};
use seckill_bench::rush::Spread;
use seckill_model::Label;
use seckill_text::figures::thousands;

use crate::{CliError, Result};

const WIDTH: u32 = 860;
const HEIGHT: u32 = 360;
const LEGEND: u32 = 170;
const FONT: &str = "sans-serif";
/// Text and axes: a contrast of 4.5 to white and of 4.2 to the dark background of code hosts.
const TEXT: RGBColor = RGBColor(118, 118, 118);
/// Of the curves, in turn.
const COLOURS: [RGBColor; 5] = [
    RGBColor(59, 130, 196),
    RGBColor(217, 114, 15),
    RGBColor(46, 158, 91),
    RGBColor(155, 107, 211),
    RGBColor(214, 69, 69),
];

#[derive(Clone, Debug, Args)]
pub(super) struct SvgArgs {
    /// Also draw the curves into this file as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// An open file for the curves, if they are wanted.
pub(super) struct SvgFile(Option<(PathBuf, File)>);

/// One axis.
pub(super) struct Axis {
    name: String,
    logarithmic: bool,
}

/// A curve through points.
pub(super) struct Curve {
    name: String,
    points: Vec<(f64, f64)>,
}

/// Curves over the same axes.
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) curves: Vec<Curve>,
}

impl SvgArgs {
    /// Opens the file, before anything is measured.
    pub(super) fn open(&self) -> Result<SvgFile> {
        let Some(path) = self.svg.clone() else { return Ok(SvgFile(None)) };
        match File::create(&path) {
            Ok(file) => Ok(SvgFile(Some((path, file)))),
            Err(error) => Err(CliError::not_written(&path, &error)),
        }
    }
}

impl SvgFile {
    /// Draws the panels below one another.
    pub(super) fn write(self, panels: &[Panel]) -> Result<()> {
        let Some((path, mut file)) = self.0 else { return Ok(()) };
        let drawn = draw(panels).map_err(|error| io::Error::other(error.to_string()));
        let written = drawn.and_then(|svg| file.write_all(svg.as_bytes()));
        written.map_err(|error| CliError::not_written(&path, &error))
    }
}

impl Axis {
    pub(super) fn new(name: Label, logarithmic: bool) -> Self {
        Self { name: name.to_owned(), logarithmic }
    }
}

impl Curve {
    /// The medians of rows that have a figure, from left to right.
    pub(super) fn of<T>(
        name: String,
        rows: &[T],
        point: impl Fn(&T) -> Option<(f64, Spread)>,
    ) -> Self {
        let medians = rows.iter().filter_map(|row| point(row).map(|(x, of)| (x, of.median)));
        let mut points: Vec<_> = medians.collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        Self { name, points }
    }
}

fn draw(panels: &[Panel]) -> Result<String, Box<dyn Error>> {
    let mut svg = String::new();
    let size = (WIDTH, HEIGHT * panels.len() as u32);
    let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    for (panel, area) in panels.iter().zip(root.split_evenly((panels.len(), 1))) {
        let (area, legend) = area.split_horizontally(WIDTH - LEGEND);
        let (x, y) = (panel.range(|it| it.0, &panel.x), panel.range(|it| it.1, &panel.y));
        match (panel.x.logarithmic, panel.y.logarithmic) {
            (false, false) => panel.draw(&area, x, y)?,
            (false, true) => panel.draw(&area, x, y.log_scale())?,
            (true, false) => panel.draw(&area, x.log_scale(), y)?,
            (true, true) => panel.draw(&area, x.log_scale(), y.log_scale())?,
        }
        for (row, (curve, colour)) in (2..).zip(panel.curves.iter().zip(COLOURS.iter().cycle())) {
            let at = row * 24;
            legend.draw(&PathElement::new([(8, at), (32, at)], colour.stroke_width(2)))?;
            legend.draw_text(&curve.name, &text(13), (40, at - 5))?;
        }
    }
    root.present()?;
    drop(root);
    Ok(svg)
}

fn text(size: u32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&TEXT)
}

impl Panel {
    /// The values of an axis: from zero, or whole powers of ten.
    fn range(&self, of: fn(&(f64, f64)) -> f64, axis: &Axis) -> Range<f64> {
        let values = self.curves.iter().flat_map(|curve| &curve.points).map(of);
        let (low, high) = values.fold((f64::MAX, 0.0), |(low, high): (f64, f64), value| {
            (low.min(value), high.max(value))
        });
        if !axis.logarithmic {
            return 0.0..(high * 1.05).max(1.0);
        }
        let power = |value: f64| value.max(1.0).log10();
        let (low, high) = (power(low.min(high)).floor(), power(high).ceil());
        // A little more, so that both ends are labelled.
        10_f64.powf(low - 1e-3)..10_f64.powf(high.max(low + 1.0) + 1e-3)
    }

    fn draw<B, X, Y>(&self, area: &DrawingArea<B, Shift>, x: X, y: Y) -> Result<(), Box<dyn Error>>
    where
        B: DrawingBackend,
        B::ErrorType: 'static,
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .caption(&self.title, text(17))
            .x_label_area_size(44)
            .y_label_area_size(84)
            .build_cartesian_2d(x, y)?;
        let label = |value: &f64| match (value - value.round()).abs() {
            // Powers of ten are not exact.
            ..0.01 => thousands(value.round() as u64),
            _ => format!("{value:.1}"),
        };
        chart
            .configure_mesh()
            .axis_style(TEXT)
            .bold_line_style(TEXT.mix(0.3))
            .light_line_style(TRANSPARENT)
            .label_style(text(12))
            .axis_desc_style(text(13))
            .x_labels(6)
            .y_labels(6)
            .x_label_formatter(&label)
            .y_label_formatter(&label)
            .x_desc(&self.x.name)
            .y_desc(&self.y.name)
            .draw()?;
        for (curve, colour) in self.curves.iter().zip(COLOURS.iter().cycle()) {
            let line = PathElement::new(curve.points.clone(), colour.stroke_width(2));
            chart.draw_series([line])?;
            let dots = curve.points.iter().map(|point| Circle::new(*point, 3, colour.filled()));
            chart.draw_series(dots)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(logarithmic: bool, points: Vec<(f64, f64)>) -> Panel {
        Panel {
            title: "a & b".to_owned(),
            x: Axis { name: "rows".to_owned(), logarithmic },
            y: Axis { name: "orders/s".to_owned(), logarithmic },
            curves: vec![Curve { name: "seckill".to_owned(), points }],
        }
    }

    #[test]
    fn curves_and_labels_are_drawn_without_a_background() {
        let points = vec![(1_000.0, 20.0), (100_000.0, 3_000.0)];
        let svg = draw(&[panel(true, points.clone()), panel(false, points)]).unwrap();
        for text in ["a &amp; b", "orders/s", "seckill", "100,000", "10,000"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        let small = draw(&[panel(false, vec![(1.0, 1.9)])]).unwrap();
        for text in ["\n0.5\n", "\n1\n", "\n1.5\n"] {
            assert!(small.contains(text), "{text}: {small}");
        }
        assert_eq!(svg.matches("<circle").count(), 4, "{svg}");
        let colours = svg.split("fill=\"#").skip(1).chain(svg.split("stroke=\"#").skip(1));
        let readable = ["767676", "3B82C4", "000000"];
        let strange = colours.filter(|it| !readable.contains(&&it[..6])).count();
        assert_eq!(strange, 0, "{svg}");
    }

    #[test]
    fn an_axis_without_values_is_drawn() {
        for logarithmic in [true, false] {
            draw(&[panel(logarithmic, Vec::new()), panel(logarithmic, vec![(0.0, 0.0)])]).unwrap();
        }
    }
}
