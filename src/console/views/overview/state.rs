//! State of the Overview: the time span of the chart and the selected moment.

use ratatui::layout::{Position, Rect};
use seckill_engine::telemetry::{Point, Series};
use seckill_model::{Millis, VoucherId};

use crate::widgets::Axis;

/// Selectable spans in milliseconds.
const WINDOWS: [u64; 7] = [10_000, 30_000, 60_000, 120_000, 300_000, 600_000, Series::KEPT_MS];
/// The span before the first order.
const USUAL_MS: u64 = 120_000;
/// Orders farther apart than this belong to different bursts.
const SILENCE_MS: u64 = 60_000;

/// What the user can change in the Overview.
#[derive(Clone, Debug, Default)]
pub(crate) struct OverviewState {
    /// The selected span in milliseconds; `None` while it fits the data.
    pub(super) window: Option<u64>,
    /// The selected moment; `None` while the display is live.
    moment: Option<Millis>,
    /// The axis drawn last; `None` if the chart did not fit.
    pub(crate) axis: Option<Axis>,
    /// The rows of the stock panel that were drawn last.
    pub(super) stock_rows: Vec<(Rect, VoucherId)>,
}

impl OverviewState {
    /// Changes the span; `false` at the last one.
    pub(crate) fn zoom(&mut self, by: isize, series: &Series) -> bool {
        let window = self.window(series);
        let here = WINDOWS.iter().position(|it| *it >= window).unwrap_or(WINDOWS.len() - 1);
        let next = WINDOWS.get(here.saturating_add_signed(by)).copied().unwrap_or(window);
        self.window = Some(next);
        next != window
    }

    /// The sale whose row is at this position.
    pub(crate) fn sale_at(&self, at: Position) -> Option<VoucherId> {
        self.stock_rows.iter().find(|(row, _)| row.contains(at)).map(|(_, sale)| *sale)
    }

    /// The span in milliseconds: the selected one, or the shortest that shows the latest burst of orders and the
    /// selected moment.
    pub(super) fn window(&self, series: &Series) -> u64 {
        if let Some(window) = self.window {
            return window;
        }
        let (Some(last), Some(begin)) = (series.last(), latest_burst(series)) else {
            return USUAL_MS;
        };
        let begin = self.moment.map_or(begin, |moment| moment.min(begin));
        let needed = last.at.since(begin);
        WINDOWS.into_iter().find(|it| *it > needed).unwrap_or(Series::KEPT_MS)
    }

    pub(crate) fn moment(&self) -> Option<Millis> {
        self.moment
    }

    /// Clears the selected moment; returns whether there was one.
    pub(crate) fn let_go(&mut self) -> bool {
        self.moment.take().is_some()
    }

    /// Moves by one cell of the chart; `false` at its edge.
    pub(crate) fn step(&mut self, later: bool, until: Millis) -> bool {
        let Some(axis) = self.axis else { return false };
        let here = axis.around(self.moment.unwrap_or(until)).0;
        let next = axis.around(here.plus(if later { axis.cell } else { -axis.cell })).0;
        self.moment = Some(next);
        next != here
    }

    /// Moves to the next of these times within the chart; `false` if there is none.
    pub(crate) fn jump(&mut self, later: bool, until: Millis, times: &[Millis]) -> bool {
        let Some(axis) = self.axis else { return false };
        let here = self.moment.map_or(until.plus(axis.cell), |moment| axis.around(moment).0);
        let cells = times.iter().filter(|at| axis.of(**at).is_some()).map(|at| axis.around(*at).0);
        let next = if later {
            cells.filter(|at| *at > here).min()
        } else {
            cells.filter(|at| *at < here).max()
        };
        self.moment = next.or(self.moment);
        next.is_some()
    }

    /// Records the chart that was drawn; a moment that scrolled off moves to its edge.
    pub(super) fn settle(&mut self, axis: Option<Axis>) {
        self.axis = axis;
        if let (Some(axis), Some(moment)) = (axis, self.moment) {
            self.moment = Some(axis.around(moment).0);
        }
    }
}

/// The first order after the last silence.
fn latest_burst(series: &Series) -> Option<Millis> {
    let is_sold = |rate: Option<f64>| rate.is_some_and(|rate| rate > 0.0);
    let busy = |point: &&Point| is_sold(point.admitted) || is_sold(point.persisted);
    let mut begin: Option<Millis> = None;
    for point in series.points().rev().filter(busy) {
        if begin.is_some_and(|begin| begin.since(point.at) > SILENCE_MS) {
            break;
        }
        begin = Some(point.at);
    }
    begin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zoom_has_two_ends() {
        let (mut state, series) = (OverviewState::default(), Series::default());
        assert_eq!(state.window(&series), 120_000);
        for _ in 0..3 {
            assert!(state.zoom(-1, &series));
        }
        assert!(!state.zoom(-1, &series));
        assert_eq!(state.window(&series), 10_000);
        for _ in 0..6 {
            assert!(state.zoom(1, &series));
        }
        assert!(!state.zoom(1, &series));
        assert_eq!(state.window(&series), Series::KEPT_MS);
        state.window = None;
        assert_eq!(state.window(&series), 120_000);
    }

    #[test]
    fn the_span_fits_the_latest_burst_and_the_selected_moment() {
        let mut series = Series::default();
        let mut push = |second: i64, rate: f64| {
            series.push(Point {
                at: Millis(second * 1_000),
                admitted: Some(rate),
                ..Point::default()
            });
            series.clone()
        };
        let mut state = OverviewState::default();
        push(0, 0.0);
        assert_eq!(state.window(&push(5, 900.0)), 10_000, "it has just begun");
        assert_eq!(state.window(&push(14, 900.0)), 10_000);
        assert_eq!(state.window(&push(15, 900.0)), 30_000);
        assert_eq!(state.window(&push(200, 0.0)), 300_000, "it is over, and still shown");
        assert_eq!(state.window(&push(210, 1.0)), 10_000, "the next burst");
        state.moment = Some(Millis(20_000));
        assert_eq!(state.window(&push(211, 1.0)), 300_000);
        assert!(state.zoom(-1, &series) && state.window.is_some());
        assert_eq!(state.window(&series), 120_000);
    }

    #[test]
    fn a_moment_moves_by_cells_and_stays_on_the_chart() {
        let until = Millis(100_000);
        let mut state = OverviewState::default();
        assert!(!state.step(false, until), "there is no chart");
        state.settle(Some(Axis::new(until, 60_000, 30)));
        assert!(state.step(false, until));
        assert_eq!(state.moment(), Some(Millis(98_000)));
        assert!(state.step(true, until) && !state.step(true, until));
        for _ in 0..29 {
            assert!(state.step(false, until));
        }
        assert!(!state.step(false, until));
        assert_eq!(state.moment(), Some(Millis(42_000)));
        state.settle(Some(Axis::new(until, 30_000, 30)));
        assert_eq!(state.moment(), Some(Millis(71_000)));
        assert!(state.let_go() && !state.let_go());
    }

    #[test]
    fn jumps_go_from_mark_to_mark() {
        let until = Millis(100_000);
        let mut state = OverviewState::default();
        state.settle(Some(Axis::new(until, 60_000, 30)));
        let times = [1_000, 50_000, 50_900, 100_000].map(Millis);
        assert!(state.jump(false, until, &times));
        assert_eq!(state.moment(), Some(Millis(100_000)));
        assert!(state.jump(false, until, &times));
        assert_eq!(state.moment(), Some(Millis(50_000)));
        assert!(!state.jump(false, until, &times));
        assert!(state.jump(true, until, &times) && !state.jump(true, until, &times));
    }
}
