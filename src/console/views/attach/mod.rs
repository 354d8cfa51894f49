//! Attach: a service that another program runs, read pass by pass: alarms, sales, stream and locks.
//!
//! Its rows are not part of a snapshot: the view owns the figures of the last pass that succeeded. While there is no
//! newer one they stay on the screen, dimmed and with their age.

mod columns;
mod feed;
mod layout;

use seckill_attach::{Alarm, ConsumerReport, Cost, LockReport, MOST_LOCKS, Report, SaleReport};
use seckill_model::Urgency;
use strum::VariantArray as _;

use self::feed::Feed;
pub(crate) use self::feed::Pass;
use super::{
    detail::LABELS,
    draw_head,
    prelude::*,
    table::{ListState, draw_scrollbar},
};
use crate::Attached;

/// Milliseconds by which a pass may be late before the figures are outdated.
const LATE_MS: u64 = 3_000;
/// From this height on, panels are separated by blank lines.
const TALL: u16 = 28;
/// From this width on, there is room for the cost of a pass.
const WIDE: u16 = 100;
/// Most lines of an error.
const ERROR_LINES: usize = 3;
/// Cells of the sign before an alarm.
const SIGN: u16 = 2;

/// Part of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::VariantArray)]
enum Panel {
    Alarms,
    #[default]
    Sales,
    Stream,
    Locks,
}

/// What the last pass that succeeded has read, without its rows.
struct Read {
    report: Report,
    ended: Millis,
    /// It was not the first one, so that alarms are known.
    is_settled: bool,
    /// No alarm is more urgent than a notice.
    is_healthy: bool,
}

pub(crate) struct AttachState {
    feed: Option<Feed>,
    profile: String,
    /// Redis, without credentials.
    redis: String,
    /// Milliseconds between the last pass and the next one.
    pause_ms: u64,
    focus: Panel,
    read: Option<Read>,
    /// Why the newest pass failed, if it did.
    failure: Option<String>,
    alarms: ListState<Alarm>,
    sales: ListState<SaleReport>,
    consumers: ListState<ConsumerReport>,
    locks: ListState<LockReport>,
}

impl Default for AttachState {
    fn default() -> Self {
        Self {
            feed: None,
            profile: String::new(),
            redis: String::new(),
            pause_ms: 0,
            focus: Panel::default(),
            read: None,
            failure: None,
            // Counts and ages are part of the text: a changed alarm keeps its row.
            alarms: ListState::new(columns::ALARMS, Alarm::to_string),
            sales: ListState::new(columns::SALES, |it| it.voucher_id.to_string()),
            consumers: ListState::new(columns::CONSUMERS, |it| it.name.clone()),
            locks: ListState::new(columns::LOCKS, |it| it.key.clone()),
        }
    }
}

impl AttachState {
    /// Names the service on the screen.
    pub(crate) fn name(&mut self, profile: String, redis: String) {
        (self.profile, self.redis) = (profile, redis);
    }

    /// Starts the passes.
    pub(crate) fn follow(&mut self, attached: Attached) {
        self.name(attached.profile.clone(), attached.redis.clone());
        self.feed = Some(Feed::start(attached));
    }

    /// The next pass; `None` without a service.
    pub(crate) async fn next(&mut self) -> Option<Pass> {
        self.feed.as_mut()?.next().await
    }

    /// Shows what a pass has read, or why it failed.
    pub(crate) fn on_pass(&mut self, pass: Pass) {
        let Pass { ended, pause_ms, outcome } = pass;
        self.pause_ms = pause_ms;
        match outcome {
            Err(why) => self.failure = Some(why),
            Ok(mut report) => {
                self.failure = None;
                let is_healthy = report.is_healthy();
                self.alarms.replace(std::mem::take(&mut report.alarms));
                self.sales.replace(std::mem::take(&mut report.sales));
                let consumers = report.stream.as_mut().map(|it| std::mem::take(&mut it.consumers));
                self.consumers.replace(consumers.unwrap_or_default());
                let held = report.locks.as_mut().map(|it| std::mem::take(&mut it.held));
                self.locks.replace(held.unwrap_or_default());
                let is_settled = self.read.is_some();
                self.read = Some(Read { report: *report, ended, is_settled, is_healthy });
            }
        }
    }

    /// Age of the figures if they may have changed since: the newest pass failed, or is late.
    fn outdated(&self, now: Millis) -> Option<u64> {
        let read = self.read.as_ref()?;
        let age = now.since(read.ended);
        let limit = self.pause_ms + LATE_MS.max(2 * read.report.cost.took_ms);
        (self.failure.is_some() || age > limit).then_some(age)
    }

    /// The number of alarms, for the top line of the screen.
    pub(crate) fn state(&self, scene: &Scene) -> Line<'static> {
        let (theme, count) = (scene.theme, self.alarms.rows.len());
        let Some(read) = &self.read else {
            let unknown = if self.failure.is_some() { text::UNKNOWN } else { text::READING };
            return Line::styled(unknown.read(), theme.warn);
        };
        let number = text!("attach-screen-alarms", count);
        match self.outdated(scene.seen()) {
            Some(age) => {
                let old = text!("common-old", age = figures::span(age));
                Line::styled(format!("{number}, {old}"), theme.warn)
            }
            None if !read.is_settled => {
                Line::styled(Label("attach-screen-second-pass").read(), theme.soft)
            }
            // What was not compared raises no alarm.
            None if count == 0 && !read.report.not_compared.is_empty() => {
                let partly = Label("attach-screen-partly");
                Line::styled(format!("{number}, {partly}"), theme.warn)
            }
            None if count == 0 => Line::styled(format!("{} {number}", glyphs::CHECK), theme.good),
            None if read.is_healthy => Line::styled(number, theme.soft),
            None => Line::styled(format!("{} {number}", glyphs::CROSS), theme.bad),
        }
    }

    /// When the last pass ended, how long it took, and what it has read.
    fn pass_line(&self, scene: &Scene, cells: u16) -> Line<'static> {
        let Some(read) = &self.read else { return Line::default() };
        let age = scene.seen().since(read.ended);
        if self.outdated(scene.seen()).is_some() {
            return Span::styled(text::old(age), scene.theme.warn).into();
        }
        let Cost { commands, rows, took_ms } = read.report.cost;
        let (span, took) = (figures::span(age), figures::latency(took_ms * 1_000));
        let mut line = text!("attach-screen-pass", span, took);
        if cells >= WIDE {
            line = text!("attach-screen-cost", line, commands, rows);
        }
        Span::styled(line, scene.theme.soft).into()
    }

    fn heading(&self, scene: &Scene, cells: usize) -> Line<'static> {
        let database = self.read.as_ref().map_or("", |it| it.report.database.as_str());
        let profile = fit(&self.profile, cells / 2);
        let servers = format!("  {}  {database}", self.redis);
        let servers = fit(&servers, cells.saturating_sub(width(&profile)));
        let servers = Span::styled(servers, scene.theme.soft);
        Line::from(vec![Span::styled(profile, scene.theme.heading), servers])
    }

    fn list(&self) -> &dyn Table {
        match self.focus {
            Panel::Alarms => &self.alarms,
            Panel::Sales => &self.sales,
            Panel::Stream => &self.consumers,
            Panel::Locks => &self.locks,
        }
    }

    fn list_mut(&mut self) -> &mut dyn Table {
        match self.focus {
            Panel::Alarms => &mut self.alarms,
            Panel::Sales => &mut self.sales,
            Panel::Stream => &mut self.consumers,
            Panel::Locks => &mut self.locks,
        }
    }

    fn turn(&mut self, is_forward: bool) {
        let by = if is_forward { 1 } else { layout::PANELS - 1 };
        self.list_mut().controls_mut().detail = false;
        self.focus = Panel::VARIANTS[(self.focus as usize + by) % layout::PANELS];
    }

    /// All columns of the chosen row, in full.
    fn detail<'a>(&self, scene: &'a Scene, area: Rect) -> Option<Detail<'a>> {
        if !self.list().controls().detail {
            return None;
        }
        let fields = match self.focus {
            Panel::Alarms => self.alarms.fields(scene, self.alarms.chosen()?),
            Panel::Sales => self.sales.fields(scene, self.sales.chosen()?),
            Panel::Stream => self.consumers.fields(scene, self.consumers.chosen()?),
            Panel::Locks => self.locks.fields(scene, self.locks.chosen()?),
        };
        let mut detail = Detail::new(scene, area.width);
        detail.most = usize::MAX;
        // In a low window the figures behind the name and the title of a sale are in pairs.
        let is_low = fields.len() >= usize::from(area.height);
        let (whole, pairs) = fields.split_at(if is_low { 2 } else { fields.len() });
        for (label, line) in whole {
            detail.field(*label, line.to_string(), line.style);
        }
        let cells = usize::from(area.width / 2).saturating_sub(LABELS + 1);
        let span = |line: &Line<'_>| Span::styled(left(&line.to_string(), cells), line.style);
        for pair in pairs.chunks(2) {
            let mut spans: Vec<_> = pair.first().map(|(_, line)| span(line)).into_iter().collect();
            if let Some((label, line)) = pair.get(1) {
                spans.push(Span::styled(left(label, LABELS), scene.theme.soft));
                spans.push(span(line));
            }
            detail.line(pair[0].0, spans);
        }
        Some(detail)
    }

    /// What is beside the name of a panel, the most important first; parts without room are omitted.
    fn parts(&self, panel: Panel, scene: &Scene) -> Vec<Span<'static>> {
        let (theme, Some(read)) = (scene.theme, &self.read) else { return Vec::new() };
        let soft = |text: String| Span::styled(text, theme.soft);
        let count = |count: usize| Span::styled(figures::thousands(count), theme.strong);
        let report = &read.report;
        let mut parts = match (panel, &report.stream, &report.locks) {
            (Panel::Alarms, ..) if !read.is_settled => {
                vec![soft(Label("attach-screen-second-pass").to_owned())]
            }
            (Panel::Alarms, ..) => {
                let mut parts = vec![count(self.alarms.rows.len())];
                if !report.not_compared.is_empty() {
                    parts.push(Span::styled(Label("attach-screen-partly").read(), theme.warn));
                }
                parts
            }
            (Panel::Sales, ..) => {
                let shown = self.sales.rows.len();
                let more = report.more_sales.then(|| text!("attach-status-more-sales", shown));
                std::iter::once(count(shown)).chain(more.map(soft)).collect()
            }
            (Panel::Stream, None, _) if report.has_stream => {
                let unread = Label("attach-status-foreign-stream").read();
                vec![Span::styled(unread, theme.warn)]
            }
            (Panel::Stream, None, _) => vec![soft(Label("attach-status-no-stream").to_owned())],
            (Panel::Stream, Some(stream), _) => {
                let named = |name: Label, number: Option<u64>| {
                    let number = match number {
                        _ if !stream.exists => "-".to_owned(),
                        None => text::UNKNOWN.to_owned(),
                        Some(number) => figures::thousands(number),
                    };
                    format!("{name} {number}")
                };
                let group = &stream.group;
                let group = if !stream.exists {
                    Span::styled(text!("attach-stream-gone", key = &stream.key), theme.bad)
                } else if stream.has_group {
                    soft(text!("attach-group", group))
                } else {
                    Span::styled(text!("attach-group-missing", group), theme.bad)
                };
                let consumers = text!("attach-screen-consumers", count = self.consumers.rows.len());
                let rate = stream.added_per_second.map(|it| format!("+{}", figures::rate(it)));
                let lag = Span::raw(named(Label("common-lag"), stream.lag));
                let pending = named(Label("common-pending"), Some(stream.pending));
                let length = named(Label("attach-screen-length"), Some(stream.length));
                let mut parts = vec![lag, pending.into(), length.into()];
                // What is missing comes first, as nothing is delivered.
                parts.insert(if stream.has_group { parts.len() } else { 0 }, group);
                if stream.exists {
                    parts.push(soft(consumers));
                    parts.extend(rate.map(soft));
                    parts.push(soft(stream.key.clone()));
                }
                parts
            }
            (Panel::Locks, _, None) => vec![soft(Label("attach-no-lock-key").to_owned())],
            (Panel::Locks, _, Some(locks)) => {
                let held = self.locks.rows.len();
                let note = if held >= MOST_LOCKS {
                    Some(text!("attach-screen-first-locks", held))
                } else {
                    (!locks.complete).then(|| Label("attach-screen-scan").to_owned())
                };
                std::iter::once(count(held)).chain(note.map(soft)).collect()
            }
        };
        let (filter, shown, of) = match panel {
            Panel::Alarms => filtered(&self.alarms),
            Panel::Sales => filtered(&self.sales),
            Panel::Stream => filtered(&self.consumers),
            Panel::Locks => filtered(&self.locks),
        };
        if !filter.is_empty() {
            // It has the number of rows.
            if !matches!(panel, Panel::Stream) {
                parts.remove(0);
            }
            let part = text!("console-shown-of", shown, of);
            parts.insert(0, Span::raw(format!("/{}   {part}", fit(&filter, 20))));
        }
        parts
    }

    fn draw_title(&self, panel: Panel, area: Rect, buffer: &mut Buffer, scene: &Scene, rows: u16) {
        let theme = scene.theme;
        let name = match panel {
            Panel::Alarms => Label("console-attention").to_owned(),
            Panel::Sales => View::Sales.title().to_uppercase(),
            Panel::Stream => View::Stream.title().to_uppercase(),
            Panel::Locks => View::Locks.title().to_uppercase(),
        };
        let (sign, style) = if panel == self.focus {
            (glyphs::POINTER, theme.strong)
        } else {
            (" ", theme.heading)
        };
        let mut line = Line::from(vec![Span::styled(sign, theme.key), Span::styled(name, style)]);
        let room = usize::from(area.width.saturating_sub(1));
        for part in self.parts(panel, scene) {
            if line.width() + 2 + width(&part.content) <= room {
                line.push_span("  ");
                line.push_span(Span { content: plain(&part.content).into_owned().into(), ..part });
            }
        }
        // The most urgent alarm, if there is no room for any below.
        let first = self.alarms.rows.first().filter(|_| panel == Panel::Alarms && rows == 0);
        if let Some(first) = first {
            let text = fit(&first.to_string(), room.saturating_sub(line.width() + 2));
            line.push_span("  ");
            line.push_span(Span::styled(text, sign_of(first, theme).1));
        }
        line.render(area, buffer);
    }

    /// What raises no alarm because it was not compared.
    fn not_compared(&self, cells: u16) -> Vec<String> {
        let reasons = self.read.iter().flat_map(|it| &it.report.not_compared);
        reasons
            .flat_map(|why| wrap(&why.to_string(), usize::from(cells.saturating_sub(SIGN + 3))))
            .collect()
    }

    /// Draws each alarm in full, with what to do.
    fn draw_alarms(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene) {
        let theme = scene.theme;
        let shown = self.alarms.shown();
        let cursor = self.alarms.position(&shown).filter(|_| self.focus == Panel::Alarms);
        let (mut lines, mut chosen, visible) = (Vec::new(), 0..0, usize::from(area.height));
        for (at, alarm) in shown.iter().enumerate() {
            let (sign, style) = sign_of(alarm, theme);
            let from = lines.len();
            let texts = alarm_lines(alarm, area.width);
            let rows = texts.len();
            for (row, mut text) in texts.into_iter().enumerate() {
                let sign = if row == 0 { sign } else { " " };
                // The rest of it is below the panel.
                if self.focus != Panel::Alarms && lines.len() + 1 == visible && row + 1 < rows {
                    text.push('…');
                }
                lines.push(Line::from(vec![Span::styled(format!("{sign} "), style), text.into()]));
            }
            if cursor == Some(at) {
                chosen = from..lines.len();
            }
        }
        for text in self.not_compared(area.width) {
            lines.push(Line::styled(format!("- {text}"), theme.soft));
        }
        let (total, count) = (lines.len(), shown.len());
        let is_focused = self.focus == Panel::Alarms;
        let controls = &mut self.alarms.controls;
        if !is_focused {
            // The most urgent ones are seen.
            controls.offset = 0;
        }
        let offset = controls.offset.min(chosen.start).max(chosen.end.saturating_sub(visible));
        controls.offset = offset.min(total.saturating_sub(visible));
        (controls.total, controls.visible, controls.top) = (count, (visible / 2).max(1), None);
        let offset = controls.offset;
        let body = Rect { width: area.width.saturating_sub(1), ..area };
        Paragraph::new(lines).scroll((offset as u16, 0)).render(body.inner(SIDES), buffer);
        if self.outdated(scene.seen()).is_some() {
            dim(body, buffer, scene);
        }
        for line in chosen.filter(|it| (offset..offset + visible).contains(it)) {
            let row = Rect { y: area.y + (line - offset) as u16, height: 1, ..body };
            buffer.set_style(row, Style::reset().patch(theme.selected));
        }
        draw_scrollbar(area, buffer, theme, offset, total);
        if count == 0 && !self.alarms.rows.is_empty() {
            let text = text::echo(self.alarms.controls.filter.value());
            draw_text(area, buffer, scene, 0, &text!("console-no-row-contains-press", text));
        }
    }

    fn draw_panels(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene) {
        let gap = u16::from(area.height >= TALL);
        let titles = layout::PANELS as u16;
        let room = area.height.saturating_sub(titles + gap * (titles - 1));
        // With its headings; a panel without rows has its title only.
        let table = |rows: usize| if rows == 0 { 0 } else { rows.saturating_add(1) };
        let alarms = self.alarms.shown();
        let alarm_rows = alarms.iter().map(|it| alarm_lines(it, area.width).len()).sum::<usize>();
        let wanted = [
            alarm_rows.max(usize::from(!self.alarms.rows.is_empty()))
                + self.not_compared(area.width).len(),
            table(self.sales.rows.len()),
            table(self.consumers.rows.len()),
            table(self.locks.rows.len()),
        ];
        let wanted = wanted.map(|rows| u16::try_from(rows).unwrap_or(u16::MAX / 8));
        let rows = layout::rows(wanted, self.focus as usize, room, scene.compact);
        let is_outdated = self.outdated(scene.seen()).is_some();
        let mut top = area.y;
        for (panel, height) in Panel::VARIANTS.iter().copied().zip(rows) {
            let title = Rect { y: top, height: 1.min(area.bottom().saturating_sub(top)), ..area };
            self.draw_title(panel, title, buffer, scene, height);
            if is_outdated {
                dim(title, buffer, scene);
            }
            let body = Rect { y: top + 1, height, ..area };
            top += 1 + height + gap;
            let is_passive = panel != self.focus;
            let controls = match panel {
                Panel::Alarms => &mut self.alarms.controls,
                Panel::Sales => &mut self.sales.controls,
                Panel::Stream => &mut self.consumers.controls,
                Panel::Locks => &mut self.locks.controls,
            };
            (controls.is_passive, controls.top) = (is_passive, None);
            match panel {
                _ if height == 0 => {}
                Panel::Alarms => self.draw_alarms(body, buffer, scene),
                Panel::Sales => self.sales.draw(body, buffer, scene, is_outdated),
                Panel::Stream => self.consumers.draw(body, buffer, scene, is_outdated),
                Panel::Locks => self.locks.draw(body, buffer, scene, is_outdated),
            }
        }
    }
}

fn filtered<R>(list: &ListState<R>) -> (String, usize, usize) {
    (list.controls.filter.value().to_owned(), list.shown().len(), list.rows.len())
}

pub(crate) fn alarm_lines(alarm: &Alarm, cells: u16) -> Vec<String> {
    wrap(&alarm.to_string(), usize::from(cells.saturating_sub(SIGN + 3)))
}

fn sign_of(alarm: &Alarm, theme: Theme) -> (&'static str, Style) {
    match alarm.urgency() {
        Urgency::Critical => (glyphs::CROSS, theme.bad),
        Urgency::Warning => ("!", theme.warn),
        Urgency::Notice => ("-", theme.soft),
    }
}

impl Component for AttachState {
    fn keys() -> Vec<ViewKey> {
        vec![FILTER]
    }

    fn draw(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene) {
        let theme = scene.theme;
        let pass = self.pass_line(scene, area.width);
        let room = usize::from(area.width).saturating_sub(pass.width() + 5);
        draw_head(area, buffer, &self.heading(scene, room), &pass);
        let failure = self.failure.as_ref().map(|why| {
            let seconds = self.pause_ms.div_ceil(1_000);
            let text = text!("attach-screen-failed", why, seconds);
            let text = format!("{} {text}", glyphs::CROSS);
            wrap_to(&text, usize::from(area.width.saturating_sub(2)), ERROR_LINES)
        });
        let failure = failure.unwrap_or_default();
        let rows = [1, failure.len() as u16, u16::from(!scene.compact)].map(Length);
        let [_, failure_area, _, body] =
            Layout::vertical(rows.into_iter().chain([Fill(1)])).areas(area);
        let failure = Text::styled(failure.join("\n"), theme.bad);
        Paragraph::new(failure).render(failure_area.inner(SIDES), buffer);
        if self.read.is_none() {
            if self.failure.is_none() {
                draw_text(body, buffer, scene, 0, &text::READING);
            }
            return;
        }
        if let Some(detail) = self.detail(scene, body) {
            self.list_mut().controls_mut().top = None;
            detail.draw(body, buffer);
            if self.outdated(scene.seen()).is_some() {
                dim(body, buffer, scene);
            }
        } else {
            self.draw_panels(body, buffer, scene);
        }
    }

    /// Nothing can be chosen before something was read.
    fn table(&self) -> Option<&dyn Table> {
        self.read.as_ref().map(|_| self.list())
    }

    fn table_mut(&mut self) -> Option<&mut dyn Table> {
        self.read.is_some().then(|| self.list_mut())
    }

    fn run(&mut self, action: Action, _: &Scene) -> Option<Effect> {
        match action {
            Action::NextView | Action::PreviousView => self.turn(action == Action::NextView),
            _ => return None,
        }
        Some(Effect::Done)
    }

    fn why_not(&self, action: Action, _: &Scene) -> Option<String> {
        let is_sort = matches!(action, Action::SortNext | Action::SortTurn);
        (is_sort && self.focus == Panel::Alarms).then(|| text!("attach-screen-order"))
    }
}
