//! The latency panel of the Overview: how recent requests spread over latencies that double from bar to bar.

use ratatui::widgets::{Bar, BarChart};

use crate::views::prelude::*;

/// Cells of the narrowest bar, which its label needs, and of the widest.
const BAR: [u16; 2] = [4, 9];

/// Draws a bar for each bucket; the last one that fits also counts all slower requests.
pub(super) fn draw(area: Rect, buffer: &mut Buffer, scene: &Scene) {
    let theme = scene.theme;
    if area.height < 5 {
        return;
    }
    let [_, head, plot] = Layout::vertical([Length(1), Length(1), Fill(1)]).areas(area);
    Line::styled(Label("overview-latency"), theme.heading).render(head, buffer);
    let Some(latency) = &scene.shown.latency else {
        return Line::styled(Label("console-no-recent-requests-through"), theme.soft)
            .render(plot, buffer);
    };
    let samples = text!("overview-requests", count = latency.samples);
    Line::styled(samples, theme.soft).right_aligned().render(head, buffer);
    let plot = Rect { x: plot.x + 2, width: plot.width.saturating_sub(2), ..plot };
    let buckets = &scene.shown.latency_buckets;
    let count = usize::from(plot.width / (BAR[0] + 1)).max(1);
    let (shown, slower) = buckets.split_at(buckets.len().min(count));
    let slower: u64 = slower.iter().map(|(_, requests)| requests).sum();
    let bars = shown.iter().enumerate().map(|(place, (bound_us, requests))| {
        let is_last = place + 1 == count;
        let bar = Bar::default().value(requests + if is_last { slower } else { 0 });
        let bound = figures::milliseconds(*bound_us);
        bar.label(if is_last { format!("{bound}+") } else { bound }).text_value("")
    });
    BarChart::vertical(bars.collect::<Vec<_>>())
        .bar_width((plot.width / shown.len().max(1) as u16).saturating_sub(1).clamp(BAR[0], BAR[1]))
        .bar_style(theme.accent)
        .label_style(theme.soft)
        .render(plot, buffer);
}
