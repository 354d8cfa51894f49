//! The figures of the stream and its group.

use std::cmp::Ordering;

use ratatui::widgets::{Row, Table};
use seckill_engine::telemetry::snapshot::StreamStats;

use super::StreamState;
use crate::views::{overview::stream_panel, prelude::*};

impl StreamState {
    /// The most important figures in one line of `room` cells, at constant positions.
    pub(super) fn brief_figures(
        &self,
        scene: &Scene,
        whole: &StreamStats,
        room: u16,
    ) -> Line<'static> {
        let soft = scene.theme.soft;
        let mut spans = vec![Span::styled(format!("{} ", Label("common-lag").read()), soft)];
        let (lag, trend) = self.lag(scene, whole, BRIEF);
        spans.extend(lag);
        spans.push(Span::styled(format!("  {} ", Label("common-pending").read()), soft));
        spans.push(Span::raw(field(whole.pending, BRIEF)));
        spans.push(Span::styled(format!("  {} ", Label("stream-kept").read()), soft));
        spans.push(Span::raw(field(whole.length, BRIEF)));
        with_trend(spans, trend, room)
    }

    /// The lag with its trend and drain time.
    fn lag(
        &self,
        scene: &Scene,
        whole: &StreamStats,
        cells: usize,
    ) -> (Vec<Span<'static>>, Option<Span<'static>>) {
        let theme = scene.theme;
        let in_field = |word: &str, style| (vec![Span::styled(left(word, cells + 2), style)], None);
        if !whole.group && whole.length > 0 {
            return in_field(Label("stream-no-group").read(), theme.bad);
        }
        let Some(lag) = whole.lag else {
            return in_field(text::UNKNOWN.read(), theme.warn);
        };
        let flow = self.partition().map_or(&scene.lag, |_| &self.flow);
        let (glyph, style) = stream_panel::arrow(theme, flow, lag);
        let text = match flow.trend().filter(|_| lag > 0) {
            Some(Ordering::Greater) => {
                flow.growth().map(|rate| text!("stream-grows-by", rate = figures::rate(rate)))
            }
            _ => flow.drains_in().map(text::drains_in),
        };
        let spans = vec![Span::raw(field(lag, cells)), Span::styled(format!(" {glyph}"), style)];
        (spans, text.map(|text| Span::styled(format!("  {text}"), theme.soft)))
    }

    /// Two columns: the content of the stream, and the progress of its group.
    pub(super) fn draw_figures(
        &self,
        area: Rect,
        buffer: &mut Buffer,
        scene: &Scene,
        whole: &StreamStats,
    ) {
        let theme = scene.theme;
        let now = scene.shown.entries.taken.unwrap_or(scene.seen());
        let soft = |text: String| Span::styled(text, theme.soft);
        let dash = || Span::styled("-", theme.soft);
        let id = |id: Option<EntryId>| match id {
            Some(id) => {
                let ago = text!("console-ago", span = figures::steady_span(now.since(id.added())));
                let id = id.to_string();
                let cells = ID.max(width(&id));
                vec![Span::raw(left(&id, cells)), soft(format!(" {ago}"))]
            }
            None => vec![dash()],
        };
        let mut kept = vec![Span::raw(figures::thousands(whole.length))];
        kept.extend(
            whole.bytes.map(|bytes| soft(format!("  {}B", figures::compact(bytes as f64)))),
        );
        let gone = whole.added.saturating_sub(whole.length);
        let trimmed = match gone {
            0 => vec![Span::raw("0")],
            gone => {
                vec![Span::raw(text!("stream-before-the-oldest", gone = figures::within(gone, 9)))]
            }
        };
        let left = [
            (Label("stream-kept"), kept),
            (Label("stream-oldest"), id(whole.first)),
            (Label("stream-newest"), id(whole.last)),
            (Label("stream-trimmed"), trimmed),
        ];
        let mut pending = vec![Span::raw(field(whole.pending, FIELD))];
        let oldest = whole.oldest_pending.map(|id| text::oldest(now.since(id.added())));
        pending.extend(oldest.map(|shown| soft(format!("  {shown}"))));
        let delivered = match whole.delivered.filter(|_| whole.group) {
            // The group was created at the start and has read nothing.
            Some(at) if at.millis == 0 => vec![Span::raw(Label("stream-nothing-yet").read())],
            at => id(at),
        };
        // Redis stops counting at a gap in the stream, and resumes when the group reaches the end.
        let counted = whole.read.or_else(|| whole.lag.map(|lag| whole.added.saturating_sub(lag)));
        let read = match counted {
            Some(read) => text!(
                "stream-of-added",
                read = figures::within(read, 9),
                added = figures::within(whole.added, 9)
            ),
            None => text!("stream-not-counted-added", added = figures::within(whole.added, 9)),
        };
        let w = area.width;
        let (middle, label) = if w >= 100 { (w / 2, 11) } else { (41, 10) };
        let room = w - middle - 1 - label;
        // What XINFO GROUPS reports, beside a conclusion that differs from it.
        let reported = |raw: Option<i64>, concluded: Option<u64>| {
            let is_same = raw == concluded.map(u64::cast_signed);
            let raw = raw.map_or_else(|| "nil".to_owned(), |raw| raw.to_string());
            (whole.group && !is_same).then(|| soft(format!("  XINFO: {raw}")))
        };
        let (lag, trend) = self.lag(scene, whole, FIELD);
        let lag = with_trend(lag, reported(whole.reported_lag, whole.lag), room);
        let read = with_trend(
            vec![read.into()],
            reported(whole.read.map(u64::cast_signed), counted),
            room,
        );
        let right = [
            (Label("common-lag"), with_trend(lag.spans, trend, room)),
            (Label("common-pending"), pending.into()),
            (Label("stream-delivered"), delivered.into()),
            (Label("stream-read"), read),
        ];
        let left = left.map(|(name, value)| (name, Line::from(value)));
        let columns = [Length(middle - 2), Fill(1)];
        let columns: [Rect; 2] = Layout::horizontal(columns).spacing(1).areas(area.inner(SIDES));
        for (area, label, rows) in [(columns[0], 9, left), (columns[1], label, right)] {
            let rows = rows
                .into_iter()
                .map(|(name, value)| Row::new([Line::styled(name, theme.soft), value]));
            let table = Table::new(rows, [Length(label), Fill(1)]).column_spacing(0);
            Widget::render(table, area, buffer);
        }
    }
}

/// Appends a trend or another figure if all of it fits: a cut number is a wrong one.
fn with_trend(spans: Vec<Span<'static>>, trend: Option<Span<'static>>, room: u16) -> Line<'static> {
    let mut line = Line::from(spans);
    if let Some(trend) = trend
        && line.width() + trend.width() <= usize::from(room)
    {
        line.push_span(trend);
    }
    line
}

/// Cells of a figure that others follow, in the full and the one-line layout.
const FIELD: usize = 9;
const BRIEF: usize = 7;

fn field(count: u64, cells: usize) -> String {
    left(&figures::within(count, cells), cells)
}

/// Cells of an entry's ID, so that nothing behind it moves.
const ID: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trend_is_shown_whole_or_not_at_all() {
        let shown = |room| {
            with_trend(vec![Span::raw("1,620 ↑")], Some(Span::raw("  +1,570/s")), room).to_string()
        };
        assert_eq!((shown(17).as_str(), shown(16).as_str()), ("1,620 ↑  +1,570/s", "1,620 ↑"));
    }
}
