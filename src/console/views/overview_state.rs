//! Where the person is in the time of the Overview: how much of it is shown, and which moment is looked at.

use seckill_model::Millis;

use crate::widgets::Axis;

/// Milliseconds that the chart may show.
const WINDOWS: [u64; 6] = [30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000];
const USUAL_WINDOW: usize = 2;

/// What of the Overview a person can change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OverviewState {
    window: usize,
    /// The moment that is looked at; none while the picture goes on.
    moment: Option<Millis>,
    /// What was drawn last; none where there was no room for a chart.
    pub(super) axis: Option<Axis>,
}

impl Default for OverviewState {
    fn default() -> Self {
        Self { window: USUAL_WINDOW, moment: None, axis: None }
    }
}

impl OverviewState {
    /// Another time window; `false` where there is none.
    pub(crate) fn zoom(&mut self, by: isize) -> bool {
        let next = self.window.saturating_add_signed(by).min(WINDOWS.len() - 1);
        std::mem::replace(&mut self.window, next) != next
    }

    pub(crate) fn reset(&mut self) {
        self.window = USUAL_WINDOW;
    }

    /// Milliseconds from edge to edge.
    pub(super) fn window(&self) -> u64 {
        WINDOWS.get(self.window).copied().unwrap_or(120_000)
    }

    pub(crate) fn moment(&self) -> Option<Millis> {
        self.moment
    }

    /// There is a chart on which a moment can be looked at.
    pub(crate) fn has_chart(&self) -> bool {
        self.axis.is_some()
    }

    /// Looks at no moment any more; says whether there was one.
    pub(crate) fn let_go(&mut self) -> bool {
        self.moment.take().is_some()
    }

    /// Goes one cell of the chart on; `false` at its edge.
    pub(crate) fn step(&mut self, later: bool, until: Millis) -> bool {
        let Some(axis) = self.axis else { return false };
        let here = axis.around(self.moment.unwrap_or(until)).0;
        let next = axis.around(here.plus(if later { axis.cell } else { -axis.cell })).0;
        self.moment = Some(next);
        next != here
    }

    /// Goes to the next of these times that the chart shows; `false` where none follows.
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

    /// The chart that was drawn; a moment that fell off it goes to its edge.
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
