//! State of the Overview: the time span of the chart and the selected moment.

use seckill_model::Millis;

use crate::widgets::Axis;

/// Selectable spans in milliseconds.
const WINDOWS: [u64; 6] = [30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000];
const USUAL_WINDOW: usize = 2;

/// What the user can change in the Overview.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OverviewState {
    window: usize,
    /// The selected moment; `None` while the display is live.
    moment: Option<Millis>,
    /// The axis drawn last; `None` if the chart did not fit.
    pub(super) axis: Option<Axis>,
}

impl Default for OverviewState {
    fn default() -> Self {
        Self { window: USUAL_WINDOW, moment: None, axis: None }
    }
}

impl OverviewState {
    /// Changes the span; `false` at the last one.
    pub(crate) fn zoom(&mut self, by: isize) -> bool {
        let next = self.window.saturating_add_signed(by).min(WINDOWS.len() - 1);
        std::mem::replace(&mut self.window, next) != next
    }

    pub(crate) fn reset(&mut self) {
        self.window = USUAL_WINDOW;
    }

    /// The span in milliseconds.
    pub(super) fn window(&self) -> u64 {
        WINDOWS.get(self.window).copied().unwrap_or(120_000)
    }

    pub(crate) fn moment(&self) -> Option<Millis> {
        self.moment
    }

    /// Whether there is a chart to select a moment on.
    pub(crate) fn has_chart(&self) -> bool {
        self.axis.is_some()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zoom_has_two_ends() {
        let mut state = OverviewState::default();
        assert_eq!(state.window(), 120_000);
        assert!(state.zoom(-1) && state.zoom(-1) && !state.zoom(-1));
        assert_eq!(state.window(), 30_000);
        for _ in 0..5 {
            assert!(state.zoom(1));
        }
        assert!(!state.zoom(1));
        assert_eq!(state.window(), 1_800_000);
        state.reset();
        assert_eq!(state.window(), 120_000);
    }

    #[test]
    fn a_moment_moves_by_cells_and_stays_on_the_chart() {
        let until = Millis(100_000);
        let mut state = OverviewState::default();
        assert!(!state.step(false, until), "there is no chart");
        state.settle(Some(Axis::new(until, 60_000, 30, 2)));
        assert!(state.step(false, until));
        assert_eq!(state.moment(), Some(Millis(98_000)));
        assert!(state.step(true, until) && !state.step(true, until));
        for _ in 0..29 {
            assert!(state.step(false, until));
        }
        assert!(!state.step(false, until));
        assert_eq!(state.moment(), Some(Millis(42_000)));
        state.settle(Some(Axis::new(until, 30_000, 30, 2)));
        assert_eq!(state.moment(), Some(Millis(71_000)));
        assert!(state.let_go() && !state.let_go());
    }

    #[test]
    fn jumps_go_from_mark_to_mark() {
        let until = Millis(100_000);
        let mut state = OverviewState::default();
        state.settle(Some(Axis::new(until, 60_000, 30, 2)));
        let times = [1_000, 50_000, 50_900, 100_000].map(Millis);
        assert!(state.jump(false, until, &times));
        assert_eq!(state.moment(), Some(Millis(100_000)));
        assert!(state.jump(false, until, &times));
        assert_eq!(state.moment(), Some(Millis(50_000)));
        assert!(!state.jump(false, until, &times));
        assert!(state.jump(true, until, &times) && !state.jump(true, until, &times));
    }
}
