//! The progress of a run, and the throughput of each design as its runs end.

use ratatui::widgets::{Bar, BarChart, LineGauge};
use seckill_lab::Progress;

use super::{LabState, Outcome, run::LabRun};
use crate::views::prelude::*;

/// Cells of a throughput.
const FIGURE: usize = 9;
/// Most cells of the text beside the gauge.
const LABEL: usize = 52;

/// Draws how many runs are done, and which design runs.
pub(super) fn draw_progress(area: Rect, buffer: &mut Buffer, scene: &Scene, running: &LabRun) {
    let theme = scene.theme;
    let (text, share) = match running.progress {
        _ if running.is_cancelled => (text!("lab-view-cancelling"), 0.0),
        None => (text!("lab-view-starting"), 0.0),
        Some(Progress { design, incident, seed, done, runs, .. }) => {
            let (design, seed) = (design.label(incident), seed.to_string());
            let text = text!("lab-view-run", design, seed, done, runs);
            (text, done as f64 / runs.max(1) as f64)
        }
    };
    // Of a constant width, so that the gauge does not move with each name.
    let cells = usize::from(area.width * 2 / 3).min(LABEL);
    LineGauge::default()
        .label(left(&text, cells))
        .ratio(share)
        .filled_symbol(glyphs::FULL)
        .unfilled_symbol(glyphs::EMPTY)
        .filled_style(theme.accent)
        .unfilled_style(theme.soft)
        .render(area, buffer);
}

impl LabState {
    /// The outcomes on the chosen database, in the order of the table.
    fn measured(&self) -> Vec<Outcome<'_>> {
        seckill_lab::all().iter().filter_map(|it| self.outcome(it)).collect()
    }

    pub(super) fn has_bars(&self) -> bool {
        self.running.is_some() || !self.measured().is_empty()
    }

    /// Rows of all bars, with a blank one and their heading.
    pub(super) fn bar_rows(&self) -> u16 {
        self.measured().len().max(1) as u16 + 2
    }

    /// Draws one bar per design, below one another. Of more than fit, those around the cursor are shown.
    pub(super) fn draw_bars(&self, area: Rect, buffer: &mut Buffer, scene: &Scene) {
        let theme = scene.theme;
        let [_, head, body] =
            Layout::vertical([Length(1), Length(1), Fill(1)]).areas(area.inner(SIDES));
        Line::styled(Label("lab-view-throughput").read(), theme.heading).render(head, buffer);
        let all = self.measured();
        if all.is_empty() {
            return Line::styled(Label("lab-view-no-result").read(), theme.soft)
                .render(body, buffer);
        }
        let most = all.iter().map(|it| it.first.latency.throughput as u64).max().unwrap_or(0);
        let rows = usize::from(body.height);
        let progress = self.running.as_ref().and_then(|it| it.progress);
        let watched = progress.map(|it| it.design).or_else(|| self.chosen());
        let order = |name: &str| seckill_lab::all().iter().position(|it| it.name == name);
        let before = watched.and_then(|it| order(it.name)).unwrap_or(0);
        let at = all.iter().filter(|it| order(it.first.name) < Some(before)).count();
        let from = at.saturating_sub(rows / 2).min(all.len().saturating_sub(rows));
        let names = all.iter().map(|it| width(it.first.name)).max().unwrap_or(0);
        let names = names.min(usize::from(body.width / 2));
        let bar = |it: &Outcome<'_>| {
            let value = it.first.latency.throughput as u64;
            let (sign, style) = it.sign(theme);
            let label = Line::from(vec![
                Span::styled(format!("{sign} "), style),
                Span::raw(left(it.first.name, names)),
                Span::styled(right(&figures::thousands(value), FIGURE), theme.strong),
            ]);
            Bar::with_label(label, value).text_value("").style(style)
        };
        let bars: Vec<_> = all.iter().skip(from).take(rows).map(bar).collect();
        BarChart::horizontal(bars).bar_width(1).bar_gap(0).max(most.max(1)).render(body, buffer);
    }
}
