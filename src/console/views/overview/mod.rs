//! The Overview: stock, admission, rates, stream, and alarms.

mod latency_panel;
mod state;
mod stock_panel;
pub(super) mod stream_panel;
pub(super) mod throughput_chart;

use ratatui::widgets::{Row, Table};
use seckill_engine::telemetry::{
    log::Weight,
    snapshot::{LoadTestLine, Urgency},
};

use self::throughput_chart::until;
use super::{funnel::draw_funnel, prelude::*, sales};
use crate::{text::alarms::FIGURE, widgets::big_number};

pub(crate) use self::state::OverviewState;

impl Component for OverviewState {
    fn keys() -> Vec<ViewKey> {
        let of_chart = [
            (Action::ZoomIn, "+", false),
            (Action::ZoomOut, "-", false),
            (Action::ZoomReset, "=", false),
            (Action::Earlier, "<", false),
            (Action::Later, ">", false),
            (Action::MarkBefore, "[", false),
            (Action::MarkAfter, "]", false),
        ];
        [&sales::COMMANDS[..], &of_chart].concat()
    }

    fn draw(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene) {
        // Every row depends on the window alone, so that nothing moves when a figure grows.
        let air = u16::from(area.height >= 26);
        let alarms = (area.height / 6).clamp(2, 4);
        let rows = [Length(air), Fill(1), Length(air), Length(1 + alarms)];
        let [head, main, _, below] = Layout::vertical(rows).areas(area.inner(SIDES));
        // The most urgent alarm is the first thing to read.
        if scene.shown.alarms.first().is_some_and(|it| it.urgency != Urgency::Notice) {
            draw_alarms(head, buffer, scene);
        }
        // Panels that do not follow the selected moment.
        let mut current = vec![below];
        if scene.compact {
            self.draw_compact(main, buffer, scene);
        } else {
            let [left, right] = Layout::horizontal([Fill(9), Fill(11)]).spacing(2).areas(main);
            self.draw_left(left, buffer, scene, air);
            current.extend([left, self.draw_right(right, buffer, scene)]);
        }
        let [heading, list] = Layout::vertical([Length(1), Fill(1)]).areas(below);
        let mut title = Line::styled(Label("console-attention"), scene.theme.heading);
        if let Some(more @ 1..) = scene.shown.alarms.len().checked_sub(alarms.into()) {
            let more = format!("   {}", text!("console-and-more", count = more));
            title.push_span(Span::styled(more, scene.theme.warn));
        }
        title.render(heading, buffer);
        draw_alarms(list, buffer, scene);
        if self.moment().is_some() {
            for area in current {
                dim(area, buffer, scene);
            }
        }
    }

    /// Changes the span of the chart, or moves along it.
    fn run(&mut self, action: Action, scene: &Scene) -> Option<Effect> {
        let later = matches!(action, Action::Later | Action::MarkAfter);
        let (snapshot, until) = (&scene.shown, until(&scene.shown));
        let note = match action {
            Action::ZoomReset => {
                self.window = None;
                None
            }
            Action::ZoomIn | Action::ZoomOut => {
                let by = if action == Action::ZoomIn { -1 } else { 1 };
                let is_last = !self.zoom(by, &snapshot.series);
                is_last.then(|| Label("command-no-other-time-range").to_owned())
            }
            Action::Earlier | Action::Later | Action::MarkBefore | Action::MarkAfter
                if self.axis.is_none() =>
            {
                Some(Label("time-window-is-too-small").to_owned())
            }
            Action::Earlier | Action::Later if self.step(later, until) => None,
            Action::Later => Some(text!("time-this-is-latest-moment")),
            Action::Earlier => Some(text!("time-start-of-chart-press")),
            Action::MarkBefore | Action::MarkAfter => {
                // Skips what is not worth stopping at.
                let marks = snapshot.activity.iter().filter(|it| Weight::of(it) > Weight::Notice);
                let times: Vec<_> = marks.map(|line| line.at).collect();
                (!self.jump(later, until, &times)).then(|| text!("time-no-mark", later))
            }
            _ => return None,
        };
        Some(note.map_or(Effect::Done, Effect::Note))
    }
}

/// Rows of the funnel.
const FUNNEL: u16 = 6;

impl OverviewState {
    /// Stock, admission, load tests, and recent events and latencies if there is space left.
    fn draw_left(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene, margin: u16) {
        let for_stock = area.height.saturating_sub(FUNNEL + margin + 3).max(2);
        let stock = stock_panel::draw(area, buffer, scene, self, for_stock);
        let [stock, margin] = [stock, margin].map(Length);
        let rows = [stock, Length(1), Length(1), Length(FUNNEL), margin, Length(1), Fill(1)];
        let [_, _, head, funnel, _, rushes, below] = Layout::vertical(rows).areas(area);
        let rows = [Length((below.height / 2).clamp(5, 12)), Fill(1)];
        let [latency, events] = Layout::vertical(rows).areas(below);
        scene.heading(&text::ADMISSION, &[Source::Redis]).render(head, buffer);
        draw_funnel(funnel, buffer, scene, &scene.shown.funnel);
        rush(scene, rushes.width).render(rushes, buffer);
        latency_panel::draw(latency, buffer, scene);
        draw_recent_events(events, buffer, scene);
    }

    /// The chart above the stream panel; returns the area of the latter.
    fn draw_right(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene) -> Rect {
        let consumers = (area.height.saturating_sub(14) / 4).min(4);
        let rows = [Fill(1), Length(stream_panel::ROWS + consumers)];
        let [chart, stream] = Layout::vertical(rows).areas(area);
        throughput_chart::draw(chart, buffer, scene, self);
        if let Some(number) = scene.countdown {
            big_number(chart, buffer, scene.theme, number);
        }
        stream_panel::draw(stream, buffer, scene, consumers);
        stream
    }

    /// Without a chart: stock, and admission beside the stream.
    fn draw_compact(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene) {
        self.settle(None);
        let stock = stock_panel::draw(area, buffer, scene, self, area.height / 2);
        let [_, figures] = Layout::vertical([Length(stock), Fill(1)]).areas(area);
        let [funnel, stream] = Layout::horizontal([Length(32), Fill(1)]).spacing(1).areas(figures);
        draw_funnel(funnel, buffer, scene, &scene.shown.funnel);
        stream_panel::draw(stream, buffer, scene, 0);
    }
}

/// The progress of all load tests together; the row is always reserved.
fn rush(scene: &Scene, cells: u16) -> Line<'static> {
    let theme = scene.theme;
    let rushes = &scene.shown.load_tests;
    let mut line = Line::from(stream_panel::label(theme, &Label("console-rush")));
    if rushes.is_empty() {
        line.push_span(Span::styled(Label("overview-none-from-here"), theme.soft));
        return line;
    }
    let names: Vec<_> = scene.shown.rushed().iter().map(|it| format!("#{it}")).collect();
    line.push_span(left(&fit(&names.join(" "), 7), 8));
    let [sent, planned] = [|rush: &LoadTestLine| rush.sent, |rush: &LoadTestLine| rush.planned]
        .map(|of| rushes.iter().map(of).sum::<u64>());
    let text = text::left_of(&figures::within(sent, 6), &figures::within(planned, 6));
    line.push_span(right(&text, 15));
    line.push_span("  ");
    let share = sent as f64 / planned.max(1) as f64;
    let cells = cells.saturating_sub(line.width() as u16).min(24);
    line.extend(bar(theme, share, cells, theme.accent, Some(glyphs::EMPTY)));
    line
}

/// Recent commands and events, as many as fit, the newest last.
fn draw_recent_events(area: Rect, buffer: &mut Buffer, scene: &Scene) {
    let theme = scene.theme;
    let [_, head, list] = Layout::vertical([Length(1), Length(1), Fill(1)]).areas(area);
    if list.height < 2 {
        return;
    }
    let events = scene.shown.activity.iter().filter(|line| Weight::of(line) > Weight::Notice);
    let rows = events.take(list.height.into()).map(|line| {
        let (glyph, style) = throughput_chart::sign(line);
        let time = Line::styled(scene.at_second(line.at), theme.soft).right_aligned();
        let event =
            text::time::event(&line.action, &text::audit_log::localized_subject(&line.subject));
        let event = fit(&event, list.width.saturating_sub(16).into());
        Row::new([time, Line::styled(glyph, style(theme)), event.into()])
    });
    let mut rows: Vec<_> = rows.collect();
    rows.reverse();
    if !rows.is_empty() {
        Line::styled(Label("overview-recent-events"), theme.heading).render(head, buffer);
    }
    let table = Table::new(rows, [Length(11), Length(1), Fill(1)]).column_spacing(2);
    Widget::render(table, list, buffer);
}

/// As many alarms as fit, the most urgent first. Each gets one row before any gets two.
fn draw_alarms(area: Rect, buffer: &mut Buffer, scene: &Scene) {
    let theme = scene.theme;
    let alarms = &scene.shown.alarms;
    if alarms.is_empty() {
        return Line::styled(Label("console-no-open-alarms"), theme.soft).render(area, buffer);
    }
    let shown = alarms.len().min(area.height.into());
    let mut spare = usize::from(area.height) - shown;
    let room = usize::from(area.width).saturating_sub(1 + FIGURE + 4);
    let rows = alarms.iter().take(shown).map(|alarm| {
        let text::AlarmText { figure, text } =
            text::AlarmText::of(&alarm.kind, text::Reader::Overview);
        let lines = wrap_to(&text, room, 1 + spare);
        spare -= lines.len() - 1;
        let sign = Text::styled("!", theme.urgency(alarm.urgency));
        Row::new([sign, figure.unwrap_or_default().into(), lines.join("\n").into()])
            .height(lines.len() as u16)
    });
    let rows: Vec<_> = rows.collect();
    let table = Table::new(rows, [Length(1), Length(FIGURE as u16), Fill(1)]);
    Widget::render(table.column_spacing(2), area, buffer);
}
