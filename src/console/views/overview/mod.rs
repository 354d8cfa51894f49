//! The Overview: stock, admission, rates, stream, and alarms.

mod latency_panel;
mod state;
mod stock_panel;
pub(super) mod stream_panel;
pub(super) mod throughput_chart;

use ratatui::widgets::{Row, Table};
use seckill_engine::telemetry::{
    log::Weight,
    snapshot::{Alarm, Count, Funnel, LoadTestLine, Urgency},
};

use self::throughput_chart::until;
use super::{prelude::*, sales};
use crate::widgets::{big_number, wrap_to};

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
        if scene.compact {
            self.settle(None);
            return self.draw_compact(area.inner(SIDES), buffer, scene);
        }
        // Every row depends on the window alone, so that nothing moves when a figure grows.
        let (margin, air, alarms) = match area.height {
            ..22 => (0, 0, 3),
            22..26 => (1, 0, 3),
            26..40 => (1, 1, 4),
            40.. => (1, 1, 6),
        };
        let rows = [Length(margin), Fill(1), Length(air), Length(alarms + 1)];
        let [head, main, _, below] = Layout::vertical(rows).areas(area.inner(SIDES));
        // The most urgent alarm is the first thing to read.
        if scene.shown.alarms.first().is_some_and(|it| it.urgency != Urgency::Notice) {
            Paragraph::new(alarm_rows(scene, head.width, 1).0).render(head, buffer);
        }
        let gap = if area.width >= 110 { 4 } else { 2 };
        let columns = [Length((area.width - 5) * 9 / 20), Length(gap), Fill(1), Length(1)];
        let [left, _, right, _] = Layout::horizontal(columns).areas(main);
        self.draw_left(left, buffer, scene, margin);
        self.draw_right(right, buffer, scene);
        let (mut rows, more) = alarm_rows(scene, below.width, alarms);
        let mut heading = Line::from(Span::styled(Label("console-attention"), scene.theme.heading));
        if more > 0 {
            let more = format!("   {}", text!("console-and-more", count = more));
            heading.push_span(Span::styled(more, scene.theme.warn));
        }
        rows.insert(0, heading);
        Paragraph::new(rows).render(below, buffer);
        if self.moment().is_some() {
            // These panels do not follow the selected moment.
            dim(left, buffer, scene);
            dim(below, buffer, scene);
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
                if !self.has_chart() =>
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

/// Shows that the figures of an area are outdated, or not of the selected moment.
fn dim(area: Rect, buffer: &mut Buffer, scene: &Scene) {
    buffer.set_style(area, Style::reset().patch(scene.theme.dimmed));
}

/// Rows of the funnel.
const FUNNEL: u16 = 6;

impl OverviewState {
    /// Stock, admission, load tests, and recent events and latencies if there is space left.
    fn draw_left(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene, margin: u16) {
        let for_stock = area.height.saturating_sub(FUNNEL + margin + 3).max(2);
        let stock = stock_panel::draw(area, buffer, scene, self, for_stock);
        let rows = [stock, 1, 1, FUNNEL, margin, 1].map(Length);
        let [_, _, head, funnel, _, rushes, below] =
            Layout::vertical(rows.into_iter().chain([Fill(1)])).areas(area);
        let latency = match below.height {
            ..11 => 0,
            11..16 => 6,
            16.. => 8,
        };
        let [events, latency] = Layout::vertical([Fill(1), Length(latency)]).areas(below);
        scene.heading(&text::ADMISSION, &[Source::Redis]).render(head, buffer);
        draw_funnel(funnel, buffer, scene, &scene.shown.funnel);
        rush(scene, rushes.width).render(rushes, buffer);
        draw_recent_events(events, buffer, scene);
        if !latency.is_empty() {
            latency_panel::draw(latency, buffer, scene);
        }
    }

    fn draw_right(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene) {
        let consumers = match area.height {
            ..20 => 0,
            20..30 => 3,
            30.. => 5,
        };
        let chart = throughput_chart::BESIDE;
        let rows = area.height.saturating_sub(chart + stream_panel::ROWS + consumers);
        let chart = chart + rows.min((area.height * 2 / 3).max(12));
        let [chart, stream] = Layout::vertical([Length(chart), Fill(1)]).areas(area);
        throughput_chart::draw(chart, buffer, scene, self);
        if let Some(number) = scene.countdown {
            big_number(chart, buffer, scene.theme, number);
        }
        stream_panel::draw(stream, buffer, scene, consumers);
        if self.moment().is_some() {
            dim(stream, buffer, scene);
        }
    }

    fn draw_compact(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene) {
        const ALARMS: u16 = 3;
        let room = area.height.saturating_sub(ALARMS + 4).clamp(2, 6);
        let stock = stock_panel::draw(area, buffer, scene, self, room);
        let rows = [Length(stock), Length(1), Length(1), Length(1), Fill(1), Length(ALARMS)];
        let [_, _, funnel, stream_row, _, alarms] = Layout::vertical(rows).areas(area);
        let counts = text::funnel(&scene.shown.funnel);
        let counts = counts.map(|(label, count)| (label, figures::within(count.total, 7)));
        throughput_chart::labelled(scene, area.width, counts).render(funnel, buffer);
        if let Some(stream) = &scene.shown.stream {
            stream_panel::in_a_row(scene, stream).render(stream_row, buffer);
            if scene.is_blind() {
                dim(stream_row, buffer, scene);
            }
        }
        let crowded = scene.shown.alarms.len() > usize::from(ALARMS);
        let (mut rows, more) = alarm_rows(scene, area.width, ALARMS - u16::from(crowded));
        if more > 0 {
            rows.push(Line::styled(text!("console-and-more", count = more), scene.theme.soft));
        }
        Paragraph::new(rows).render(alarms, buffer);
    }
}

/// An admission funnel: the tutorial's code of each outcome, total, rate, and share of all requests.
pub(super) fn draw_funnel(area: Rect, buffer: &mut Buffer, scene: &Scene, funnel: &Funnel) {
    let (theme, blind) = (scene.theme, scene.is_blind());
    let cells = area.width.saturating_sub(34).min(24);
    let row = |(row, (label, count)): (usize, (&'static str, Count))| {
        let lead = row == 1;
        let label_style = if lead { Style::new() } else { theme.soft };
        let code = row.checked_sub(1).map_or_else(|| " ".to_owned(), |code| code.to_string());
        let total = figures::within(count.total, 10);
        let total_style = match lead {
            _ if blind => theme.dimmed,
            true => theme.strong,
            false => Style::new(),
        };
        let (rate, rate_style) = match count.per_second {
            _ if blind => (text::UNKNOWN.to_owned(), theme.soft),
            rate if rate < 0.05 => (figures::rate_within(rate, 9), theme.soft),
            rate => (figures::rate_within(rate, 9), Style::new()),
        };
        // The first row is the total.
        let share = if row > 0 && cells > 3 {
            let share = count.total as f64 / funnel.attempts.total.max(1) as f64;
            let style = if lead && !blind { theme.accent } else { theme.soft };
            bar(theme, share, cells, style, None).into()
        } else {
            Line::default()
        };
        Row::new([
            Line::from(vec![
                Span::styled(format!("{code} "), theme.soft),
                Span::styled(label, label_style),
            ]),
            Line::styled(total, total_style).right_aligned(),
            Line::styled(rate, rate_style).right_aligned(),
            Line::default(),
            share,
        ])
    };
    let rows = text::funnel(funnel).into_iter().enumerate().map(row);
    let widths = [11, 11, 10, cells.min(2), cells].map(Length);
    Widget::render(Table::new(rows, widths).column_spacing(0), area, buffer);
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
    let digits = if cells >= 44 { 10 } else { 6 };
    let text = text::left_of(&figures::within(sent, digits), &figures::within(planned, digits));
    line.push_span(right(&text, 2 * digits + 3));
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
    let mut free = list.height.min(8);
    if free < 3 {
        return;
    }
    let mut rows = Vec::new();
    for line in scene.shown.activity.iter().filter(|line| Weight::of(line) > Weight::Notice) {
        let shown = text::time::event(&line.action, &text::audit_log::subject(&line.subject));
        let lines = wrap_to(&shown, list.width.saturating_sub(16).into(), 2);
        let height = lines.len() as u16;
        let Some(rest) = free.checked_sub(height) else { break };
        free = rest;
        let (glyph, style) = throughput_chart::sign(theme, Weight::of(line));
        let time = Line::styled(scene.at_second(line.at), theme.soft).right_aligned();
        let cells = [time.into(), Text::styled(glyph, style), lines.join("\n").into()];
        rows.push(Row::new(cells).height(height));
    }
    if !rows.is_empty() {
        Line::styled(Label("overview-recent-events"), theme.heading).render(head, buffer);
    }
    rows.reverse();
    let table = Table::new(rows, [Length(10), Length(1), Fill(1)]).column_spacing(2);
    Widget::render(table, list, buffer);
}

/// Formats alarms in at most `most` rows, and counts those that do not fit. Each gets one row before any gets two.
fn alarm_rows(scene: &Scene, cells: u16, most: u16) -> (Vec<Line<'static>>, usize) {
    let theme = scene.theme;
    let alarms = &scene.shown.alarms;
    if alarms.is_empty() {
        return (vec![Line::styled(Label("console-no-open-alarms"), theme.soft)], 0);
    }
    let text_of = |alarm: &Alarm| text::AlarmText::of(&alarm.kind, text::Reader::Overview);
    let texts: Vec<_> = alarms.iter().map(text_of).collect();
    let column = texts.iter().map(text::AlarmText::indent).max().unwrap_or(0);
    let room = |indent: usize| usize::from(cells).saturating_sub(3 + indent);
    let mut rows = Vec::new();
    let shown = alarms.len().min(usize::from(most));
    let mut spare = usize::from(most) - shown;
    for (alarm, line) in alarms.iter().zip(texts).take(shown) {
        let style = theme.urgency(alarm.urgency);
        // Text is aligned in one column, unless that would truncate it.
        // A single alarm may use all rows.
        let most = 1 + if shown == 1 { spare } else { spare.min(1) };
        let fits = wrap(&line.text, room(column)).len() <= most;
        let indent = if fits { column } else { line.indent() };
        let lines = wrap_to(&line.text, room(indent), most);
        spare = spare.saturating_sub(lines.len().saturating_sub(1));
        let figure = line.figure.map_or_else(|| " ".repeat(indent), |it| format!("{it}  "));
        let mut lead = vec![Span::styled("! ", style), Span::raw(figure)];
        for line in lines {
            lead.push(line.into());
            rows.push(Line::from(lead));
            lead = vec![" ".repeat(2 + indent).into()];
        }
    }
    (rows, alarms.len() - shown)
}
