//! The figures of the stream and its group.

use std::cmp::Ordering;

use ratatui::widgets::{Row, Table};
use seckill_engine::telemetry::snapshot::StreamStats;

use super::StreamState;
use crate::views::{overview::stream_panel, prelude::*};

impl StreamState {
    /// Two columns with as many rows as fit: the content of the stream, and the progress of its group.
    pub(super) fn draw_figures(
        &self,
        area: Rect,
        buffer: &mut Buffer,
        scene: &Scene,
        whole: &StreamStats,
    ) {
        let theme = scene.theme;
        let halves = Layout::horizontal([Fill(1), Fill(1)]).spacing(1);
        let [left_area, right_area] = halves.areas(area.inner(SIDES));
        let room = left_area.width.min(right_area.width).saturating_sub(NAMES);
        let with_note = |figure: Line<'static>, note: Option<String>| {
            let note = note.map(|note| Span::styled(format!("  {note}"), theme.soft));
            with_note(figure, note, room)
        };
        let now = scene.shown.entries.taken.unwrap_or(scene.seen());
        let age = |id: EntryId| now.since(id.added());
        let dated = |id: Option<EntryId>| match id {
            Some(id) => {
                let ago = text!("console-ago", span = figures::steady_span(age(id)));
                with_note(format!("{:<ID$}", id.to_string()).into(), Some(ago))
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
        let flow = self.partition().map_or(&scene.lag, |_| &self.flow);
        let has_group = whole.group || whole.length == 0;
        let lag = Line::from_iter(stream_panel::lag(theme, flow, has_group, whole.lag));
        let lag = with_note(lag, reported(whole.reported_lag, whole.lag));
        let trend = match flow.trend() {
            Some(Ordering::Greater) => {
                flow.growth().map(|rate| text!("stream-grows-by", rate = figures::rate(rate)))
            }
            _ => flow.drains_in().map(text::drains_in),
        };
        let bytes = whole.bytes.map(|bytes| format!("{}B", figures::compact(bytes as f64)));
        let oldest_pending = whole.oldest_pending.map(|id| text::oldest(age(id)));
        let pending = left(&figures::within(whole.pending, FIGURE), FIGURE);
        let raw_read = reported(whole.read.map(u64::cast_signed), counted);
        let content = [
            (Label("stream-kept"), with_note(figures::thousands(whole.length).into(), bytes)),
            (Label("stream-oldest"), dated(whole.first)),
            (Label("stream-newest"), dated(whole.last)),
            (Label("stream-trimmed"), trimmed.into()),
        ];
        let progress = [
            (Label("common-lag"), with_note(lag, trend)),
            (Label("common-pending"), with_note(pending.into(), oldest_pending)),
            (Label("stream-delivered"), delivered),
            (Label("stream-read"), with_note(read.into(), raw_read)),
        ];
        for (area, rows) in [(left_area, content), (right_area, progress)] {
            let rows = rows.map(|(name, value)| Row::new([Line::styled(name, theme.soft), value]));
            let table = Table::new(rows, [Length(NAMES), Fill(1)]).column_spacing(0);
            Widget::render(table, area, buffer);
        }
    }
}

/// Appends a note if all of it fits: a cut number is a wrong one.
fn with_note(mut figure: Line<'static>, note: Option<Span<'static>>, room: u16) -> Line<'static> {
    let fits = |note: &Span<'_>| figure.width() + note.width() <= usize::from(room);
    figure.spans.extend(note.filter(fits));
    figure
}

/// Cells of a name.
const NAMES: u16 = 10;
/// Cells of a figure that others follow.
const FIGURE: usize = 9;
/// Cells of an entry's ID, so that nothing behind it moves.
const ID: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_shown_whole_or_not_at_all() {
        let shown = |room| {
            with_note(Line::from("1,620 ↑"), Some(Span::raw("  +1,570/s")), room).to_string()
        };
        assert_eq!((shown(17).as_str(), shown(16).as_str()), ("1,620 ↑  +1,570/s", "1,620 ↑"));
    }
}
