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
        let (middle, names) = if area.width >= 100 { (area.width / 2, 11) } else { (41, 10) };
        let room = area.width - middle - 1 - names;
        let with_note = |figure: String, note: Option<String>| {
            let note = note.map(|note| Span::styled(format!("  {note}"), theme.soft));
            with_trend(vec![figure.into()], note, room)
        };
        let now = scene.shown.entries.taken.unwrap_or(scene.seen());
        let age = |id: EntryId| now.since(id.added());
        let dated = |id: Option<EntryId>| match id {
            Some(id) => {
                let ago = text!("console-ago", span = figures::steady_span(age(id)));
                with_note(format!("{:<ID$}", id.to_string()), Some(ago))
            }
            None => Line::styled("-", theme.soft),
        };
        // What XINFO GROUPS reports, beside a conclusion that differs from it.
        let reported = |raw: Option<i64>, concluded: Option<u64>| {
            let is_same = raw == concluded.map(u64::cast_signed);
            let raw = raw.map_or_else(|| "nil".to_owned(), |raw| raw.to_string());
            (whole.group && !is_same).then(|| format!("XINFO: {raw}"))
        };
        let trimmed = match whole.added.saturating_sub(whole.length) {
            0 => "0".to_owned(),
            gone => text!("stream-before-the-oldest", gone = figures::within(gone, 9)),
        };
        let delivered = match whole.delivered.filter(|_| whole.group) {
            // The group was created at the start and has read nothing.
            Some(at) if at.millis == 0 => Label("stream-nothing-yet").read().into(),
            at => dated(at),
        };
        // Redis stops counting at a gap in the stream, and resumes when the group reaches the end.
        let counted = whole.read.or_else(|| whole.lag.map(|lag| whole.added.saturating_sub(lag)));
        let added = figures::within(whole.added, 9);
        let read = match counted {
            Some(read) => text!("stream-of-added", read = figures::within(read, 9), added),
            None => text!("stream-not-counted-added", added),
        };
        let (mut lag, trend) = self.lag(scene, whole, FIELD);
        let raw_lag = reported(whole.reported_lag, whole.lag);
        lag.extend(raw_lag.map(|raw| Span::styled(format!("  {raw}"), theme.soft)));
        let bytes = whole.bytes.map(|bytes| format!("{}B", figures::compact(bytes as f64)));
        let oldest_pending = whole.oldest_pending.map(|id| text::oldest(age(id)));
        let left = [
            (Label("stream-kept"), with_note(figures::thousands(whole.length), bytes)),
            (Label("stream-oldest"), dated(whole.first)),
            (Label("stream-newest"), dated(whole.last)),
            (Label("stream-trimmed"), trimmed.into()),
        ];
        let right = [
            (Label("common-lag"), with_trend(lag, trend, room)),
            (Label("common-pending"), with_note(field(whole.pending, FIELD), oldest_pending)),
            (Label("stream-delivered"), delivered),
            (
                Label("stream-read"),
                with_note(read, reported(whole.read.map(u64::cast_signed), counted)),
            ),
        ];
        let [left_area, right_area] =
            Layout::horizontal([Length(middle - 2), Fill(1)]).spacing(1).areas(area.inner(SIDES));
        for (area, names, rows) in [(left_area, 9, left), (right_area, names, right)] {
            let rows = rows.map(|(name, value)| Row::new([Line::styled(name, theme.soft), value]));
            let table = Table::new(rows, [Length(names), Fill(1)]).column_spacing(0);
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
const ID: usize = 15;

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
