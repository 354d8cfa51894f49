//! The admission funnel of a node or a sale.

use ratatui::widgets::{Row, Table};
use seckill_engine::telemetry::snapshot::{Count, Funnel};

use super::prelude::*;

/// An admission funnel: the tutorial's code of each outcome, total, rate, and share of all requests.
pub(super) fn draw_funnel(area: Rect, buffer: &mut Buffer, scene: &Scene, funnel: &Funnel) {
    let (theme, blind) = (scene.theme, scene.is_blind());
    let cells = area.width.saturating_sub(34).min(24);
    let row = |(row, (label, count)): (usize, (&'static str, Count))| {
        let lead = row == 1;
        // The first row is the total.
        let code = row.checked_sub(1).map_or_else(|| " ".to_owned(), |code| code.to_string());
        let code = Span::styled(format!("{code} "), theme.soft);
        let label = Span::styled(label, if lead { Style::new() } else { theme.soft });
        let total = figures::within(count.total, 10);
        let total = Line::styled(total, if lead { theme.strong } else { Style::new() });
        let rate = figures::rate_within(count.per_second, 9);
        let rate = if blind { text::UNKNOWN.to_owned() } else { rate };
        let idle = blind || count.per_second < 0.05;
        let rate = Line::styled(rate, if idle { theme.soft } else { Style::new() });
        let share = if row > 0 && cells > 3 {
            let share = count.total as f64 / funnel.attempts.total.max(1) as f64;
            let style = if lead { theme.accent } else { theme.soft };
            bar(theme, share, cells, style, None).into()
        } else {
            Line::default()
        };
        let label = Line::from(vec![code, label]);
        Row::new([label, total.right_aligned(), rate.right_aligned(), Line::default(), share])
    };
    let rows = text::funnel(funnel).into_iter().enumerate().map(row);
    let widths = [11, 11, 10, cells.min(2), cells].map(Length);
    Widget::render(Table::new(rows, widths).column_spacing(0), area, buffer);
    if blind {
        dim(area, buffer, scene);
    }
}
