//! The presenter layout: one sale in large figures and few words, for an audience.
//!
//! It contains no IDs and no users. It takes the whole screen, and draws its own parts of the frame.

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Flex, HorizontalAlignment, Layout, Margin, Rect},
    style::Style,
    text::{Line, Span},
    widgets::{Clear, Paragraph, Widget},
};
use seckill_engine::telemetry::snapshot::{SaleLine, Urgency};
use seckill_model::{
    Millis, Phase,
    ledger::Balance,
    message::{Label, text},
};

use super::{COMPLETE, Source, is_stale, layout, layout::SIDES, steady_audit};
use crate::{
    app::App,
    launch::LaunchSummary,
    text::{self, figures, presenter as wording},
    theme::Theme,
    widgets::{BigText, Pixel, SIGN_ROWS, bar, big_width, fit, right, width},
};

/// Scales of the main figure, the largest first.
const LARGE: [Pixel; 4] = [(8, 4), (6, 3), (4, 2), (2, 1)];
/// Scales of the figures below it; if neither fits they are bold text.
const SMALL: [Pixel; 2] = [(2, 1), (1, 1)];
/// A typical rate in a load test.
const USUAL_RATE: u64 = 10_000;
/// A typical number of in-flight orders.
const USUAL_FLIGHT: u64 = 10_000;
/// Cells of the text beside the bar.
const SHARE: u16 = 13;
/// Rows reserved for messages, so that nothing moves when one appears.
const ANSWER: u16 = 3;
/// Cells at each side.
const MARGIN: u16 = 2;

/// How figures are drawn.
#[derive(Clone, Copy)]
enum Scale {
    /// Above their labels.
    Digits(Pixel),
    Text,
    /// With their labels in the same row.
    Row,
    Nothing,
}

impl Scale {
    /// Including the row of labels.
    fn rows(self) -> u16 {
        match self {
            Self::Digits(pixel) => SIGN_ROWS * pixel.1 + 1,
            Self::Text => 2,
            Self::Row => 1,
            Self::Nothing => 0,
        }
    }
}

/// A figure with its label.
struct Figure {
    signs: String,
    /// The widest expected value: its place is reserved, so that nothing moves while a figure counts.
    widest: String,
    style: Style,
    label: String,
    /// The label in a narrow column.
    brief: Option<Label>,
    /// Its age, if it is outdated.
    age: Option<String>,
}

impl Figure {
    fn new(signs: String, style: Style, label: impl Into<String>) -> Self {
        Self { widest: signs.clone(), signs, style, label: label.into(), brief: None, age: None }
    }

    fn in_brief(self, brief: Label) -> Self {
        Self { brief: Some(brief), ..self }
    }

    /// Reserves space for a value of this size.
    fn up_to(self, most: u64) -> Self {
        self.reserving(figures::thousands(most))
    }

    fn reserving(self, widest: impl Into<String>) -> Self {
        Self { widest: widest.into(), ..self }
    }

    /// Cells in large digits.
    fn cells(&self, pixel: Pixel) -> u16 {
        big_width(&self.signs, pixel).max(big_width(&self.widest, pixel))
    }

    /// The label in the given width. The age of an outdated figure matters more.
    fn label(&self, theme: Theme, cells: usize) -> Span<'static> {
        let brief = self.brief.filter(|_| width(&self.label) >= cells);
        let label = brief.map_or(self.label.as_str(), |brief| brief.read());
        let Some(age) = &self.age else {
            return Span::raw(fit(label, cells, theme.glyphs.ellipsis));
        };
        let both = format!("{label}  {age}");
        let shown = if width(&both) > cells { age } else { &both };
        Span::styled(fit(shown, cells, theme.glyphs.ellipsis), theme.warn)
    }

    /// The figure as text, in a constant width.
    fn text(&self, theme: Theme) -> Span<'static> {
        let cells = width(&self.widest).max(width(&self.signs));
        Span::styled(right(&self.signs, cells, ""), self.style.patch(theme.strong))
    }

    /// Digits are right-aligned in a constant width, so that nothing moves whatever their number.
    fn draw(
        &self,
        area: Rect,
        buffer: &mut Buffer,
        theme: Theme,
        scale: Scale,
        aligned: HorizontalAlignment,
    ) {
        let text = self.text(theme);
        let cells = match scale {
            Scale::Nothing => return,
            Scale::Row => {
                let room = usize::from(area.width).saturating_sub(text.width() + 1);
                let line = Line::from(vec![text, Span::raw(" "), self.label(theme, room)]);
                return line.centered().render(area, buffer);
            }
            Scale::Digits(pixel) => self.cells(pixel),
            Scale::Text => text.width() as u16,
        };
        let label = self.label(theme, usize::from(area.width));
        let area = area.centered_horizontally(Constraint::Max(cells.max(label.width() as u16)));
        let [above, below] =
            Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(area);
        match scale {
            Scale::Digits(pixel) if big_width(&self.signs, pixel) <= area.width => {
                let digits = Constraint::Length(big_width(&self.signs, pixel));
                let [place] = Layout::horizontal([digits]).flex(Flex::End).areas(above);
                BigText { text: &self.signs, pixel, theme, style: self.style }
                    .render(place, buffer);
            }
            _ => {
                let [row] = Layout::vertical([Constraint::Length(1)]).flex(Flex::End).areas(above);
                text.into_right_aligned_line().render(row, buffer);
            }
        }
        Line::from(label).alignment(aligned).render(below, buffer);
    }
}

/// The whole page: a title, the main figure, a bar, and the secondary figures.
struct Page {
    title: String,
    phase: Option<(String, Style)>,
    large: Figure,
    /// The share that is left, as an emptying bar.
    left: Option<(f64, String)>,
    small: [Figure; 4],
}

/// Draws the page.
pub(super) fn draw(app: &mut App, area: Rect, buffer: &mut Buffer) {
    app.terminal.tabs.clear();
    let theme = app.display.theme;
    let roomy = area.height >= COMPLETE.1;
    let alarm = alarm(app, area.width);
    // A small window has no separate row for the alarm. Beside a guide rows are scarce, and a message may cover its
    // end.
    let kept = match (app.story.is_blank(), roomy) {
        (true, _) => ANSWER,
        (false, true) => ANSWER - 1,
        (false, false) => 1,
    };
    let shared = !roomy && kept == ANSWER;
    // Its row is reserved, so that nothing moves when an alarm appears.
    let alarm_rows = u16::from(roomy || (alarm.is_some() && !shared));
    let story_rows = layout::story_lines(app, area.width).len() as u16;
    let [head, body, alarm_row, story, kept, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(alarm_rows),
        Constraint::Length(story_rows),
        Constraint::Length(kept),
        Constraint::Length(1),
    ])
    .areas(area);
    let badges = layout::badges(app);
    let room = usize::from(area.width).saturating_sub(badges.width() + 4);
    let program = || Line::styled(text::PROGRAM, theme.soft);
    layout::armed(app, room, false).unwrap_or_else(program).render(head.inner(SIDES), buffer);
    badges.right_aligned().render(head.inner(SIDES), buffer);
    layout::keys(app, foot.inner(SIDES), buffer);
    layout::draw_story(app, story, buffer);
    let most = ANSWER - u16::from(shared && alarm.is_some());
    alarm.unwrap_or_default().render(if shared { kept } else { alarm_row }.inner(SIDES), buffer);
    let mut lines = layout::answer_lines(app, area.width);
    lines.retain(|line| line.width() > 0);
    lines.truncate(usize::from(most));
    // A longer message covers the guide while it is shown.
    let rows = Constraint::Length(lines.len() as u16);
    let [messages] = Layout::vertical([rows]).flex(Flex::End).areas(body.union(kept));
    Clear.render(messages, buffer);
    Paragraph::new(lines).render(messages.inner(SIDES), buffer);
    let body = body.inner(Margin::new(MARGIN, 0));
    if let Some(page) = page(app) {
        draw_page(body, buffer, theme, &page);
    } else {
        let text =
            if app.display.shown.seq == 0 { text::NO_DATA.to_owned() } else { wording::no_sale() };
        let middle = body.centered_vertically(Constraint::Length(1));
        Line::styled(text, theme.strong).centered().render(middle, buffer);
    }
}

/// The most urgent alarm, without names.
fn alarm(app: &App, cells: u16) -> Option<Line<'static>> {
    let (theme, alarms) = (app.display.theme, &app.display.shown.alarms);
    let first = alarms.first()?;
    let style = match first.urgency {
        Urgency::Critical => theme.bad,
        Urgency::Warning => theme.warn,
        Urgency::Notice => theme.good,
    };
    let more = match alarms.len() - 1 {
        0 => String::new(),
        more => format!("  {}", text!("presenter-value", count = more)),
    };
    let room = usize::from(cells).saturating_sub(width(&more) + 4);
    let text = wording::alarm(&first.kind);
    let text = text.figure.map_or(text.text.clone(), |it| format!("{it}  {}", text.text));
    let text = fit(&text, room, theme.glyphs.ellipsis);
    Some(Line::from(vec![Span::styled(format!("! {text}"), style), Span::styled(more, theme.soft)]))
}

fn page(app: &App) -> Option<Page> {
    let (theme, now) = (app.display.theme, app.display.seen());
    // The countdown is live, also while the display is paused.
    match app.director.summary(app.display.now) {
        Some(LaunchSummary::Counting(launch, left)) => {
            let pieces = figures::thousands(launch.pieces);
            let buyers = figures::thousands(launch.buyers);
            return Some(Page {
                title: launch.title.clone(),
                phase: None,
                large: Figure::new(figures::clock(left), theme.key, wording::OPENS),
                left: None,
                small: [
                    Figure::new(pieces, Style::new(), wording::PIECES),
                    Figure::new(buyers, Style::new(), Label("presenter-buyers-wait")),
                    flight(theme, &steady_audit(&app.display.shown)),
                    audit(theme, &steady_audit(&app.display.shown)),
                ],
            });
        }
        Some(LaunchSummary::Opening(_)) | None => {}
    }
    let sale = app.display.shown.sale(app.presented()?)?;
    let large = match sale.phase {
        Phase::Planned => before(app, sale, now),
        Phase::Running | Phase::Paused => left(app, sale),
        Phase::SoldOut | Phase::Ended | Phase::Archived => sold(app, sale),
    };
    let share_left = sale.stock.filter(|_| sale.phase != Phase::Planned).map(|stock| {
        let left = stock.max(0).unsigned_abs();
        (
            left as f64 / sale.initial.max(1) as f64,
            text!("presenter-left", share = figures::share(left, sale.initial)),
        )
    });
    Some(Page {
        title: sale.title.clone(),
        phase: Some(layout::phase(theme, sale.phase)),
        large,
        left: share_left,
        small: [
            second(app, sale),
            written(app, sale),
            flight(theme, &steady_audit(&app.display.shown)),
            audit(theme, &steady_audit(&app.display.shown)),
        ],
    })
}

fn before(app: &App, sale: &SaleLine, now: Millis) -> Figure {
    let theme = app.display.theme;
    let Some(begin) = sale.begin else { return left(app, sale) };
    let left = begin.since(now);
    // Days are not drawn as large digits.
    if left / 3_600_000 >= 48 {
        let time = text!("presenter-opens", time = begin.date_time(&app.display.zone));
        return aged(app, Source::Redis, Figure::new(stock(sale), Style::new(), time));
    }
    Figure::new(figures::clock(left), theme.key, wording::OPENS)
}

/// The stock in Redis, in large digits.
fn stock(sale: &SaleLine) -> String {
    sale.stock.map_or_else(|| "?".to_owned(), figures::signed)
}

fn left(app: &App, sale: &SaleLine) -> Figure {
    let theme = app.display.theme;
    let label = match sale.stock {
        Some(_) => text!("presenter-pieces-left-of", initial = sale.initial),
        None => Label("presenter-pieces-left-unknown").to_owned(),
    };
    let style = if sale.phase == Phase::Paused { theme.warn } else { theme.key };
    aged(app, Source::Redis, Figure::new(stock(sale), style, label).up_to(sale.initial))
}

fn sold(app: &App, sale: &SaleLine) -> Figure {
    let Some(admitted) = sale.admitted else { return left(app, sale) };
    let label = wording::sold_of(sale.initial, app.presenter.took_ms(sale.voucher_id));
    let figure = Figure::new(figures::thousands(admitted), app.display.theme.key, label);
    aged(app, Source::Redis, figure.up_to(sale.initial))
}

/// The admission rate while the sale is active; afterwards the number of oversold pieces.
fn second(app: &App, sale: &SaleLine) -> Figure {
    let theme = app.display.theme;
    match sale.phase {
        Phase::Planned => {
            let pieces = figures::thousands(sale.initial);
            Figure::new(pieces, Style::new(), wording::PIECES)
        }
        Phase::SoldOut | Phase::Ended | Phase::Archived => {
            let below = sale.stock.map_or(0, |stock| stock.min(0).unsigned_abs());
            let over = sale.admitted.map(|admitted| {
                let most = admitted.max(sale.persisted);
                most.saturating_sub(sale.initial).max(below)
            });
            let style = if over == Some(0) { theme.good } else { theme.bad };
            let signs = over.map_or_else(|| "?".to_owned(), figures::thousands);
            aged(app, Source::Redis, Figure::new(signs, style, Label("presenter-oversold")))
        }
        Phase::Running | Phase::Paused => {
            let rate = sale.funnel.attempts.per_second.max(0.0).round() as u64;
            // An old rate is not a rate.
            let (signs, style) = if is_stale(&app.display.shown.redis, app.display.seen()) {
                ("?".to_owned(), theme.soft)
            } else {
                (figures::thousands(rate), Style::new())
            };
            Figure::new(signs, style, Label("presenter-buyers-a-second"))
                .up_to(USUAL_RATE)
                .in_brief(Label("presenter-buyers-s"))
        }
    }
}

fn written(app: &App, sale: &SaleLine) -> Figure {
    let orders = figures::thousands(sale.persisted);
    let figure = Figure::new(orders, Style::new(), Label("presenter-orders-written"))
        .up_to(sale.initial)
        .in_brief(Label("presenter-written"));
    aged(app, Source::Sql, figure)
}

/// Outdated figures are faint and labelled.
fn aged(app: &App, source: Source, mut figure: Figure) -> Figure {
    let health = match source {
        Source::Redis => &app.display.shown.redis,
        Source::Sql => &app.display.shown.sql,
    };
    if is_stale(health, app.display.seen()) {
        let age = wording::old(health.last_ok.map(|at| app.display.seen().since(at)));
        figure.style = app.display.theme.soft;
        figure.age = Some(age);
    }
    figure
}

/// Orders between Redis and SQL.
fn flight(theme: Theme, balance: &Balance) -> Figure {
    let (signs, style) = match balance {
        Balance::Balanced { .. } => (figures::thousands(0), Style::new()),
        Balance::InFlight { orders } => (figures::thousands(*orders), theme.accent),
        Balance::Off { .. } | Balance::Unknown => ("?".to_owned(), theme.soft),
    };
    Figure::new(signs, style, Label("common-in-flight"))
        .up_to(USUAL_FLIGHT)
        .in_brief(Label("presenter-moving"))
}

fn audit(theme: Theme, balance: &Balance) -> Figure {
    let (signs, style, label) = match balance {
        Balance::Balanced { .. } => ("✔", theme.good, wording::BALANCED),
        Balance::InFlight { .. } => ("≈", theme.accent, Label("presenter-audit-open")),
        Balance::Off { .. } => ("✖", theme.bad, Label("presenter-audit-failed")),
        Balance::Unknown => ("?", theme.warn, wording::UNKNOWN),
    };
    Figure::new(signs.to_owned(), style, label).in_brief(Label("presenter-audit")).reserving("✔")
}

/// The largest scale that fits, with blank rows if some are left.
fn draw_page(area: Rect, buffer: &mut Buffer, theme: Theme, page: &Page) {
    // Three wide columns and one for the audit.
    let audit = Constraint::Percentage(if area.width < 64 { 17 } else { 20 });
    let [fill, ..] = [Constraint::Fill(1); 3];
    let columns = Layout::horizontal([fill, fill, fill, audit]).spacing(2);
    // Based on usual sizes: one larger figure does not shrink the others.
    let widths = columns.areas::<4>(area).map(|column| column.width);
    let small = SMALL.into_iter().find(|pixel| {
        let mut figures = page.small.iter().zip(widths);
        figures.all(|(it, cells)| big_width(&it.widest, *pixel) <= cells)
    });
    let bars = u16::from(page.left.is_some());
    // Secondary large figures matter more than the largest main figure, and spacing more than both.
    let large = LARGE.into_iter().filter(|large| page.large.cells(*large) <= area.width);
    let with_digits = large.clone().filter(|large| large.1 > 1).flat_map(|large| {
        let small = small.map(Scale::Digits);
        small.into_iter().flat_map(move |small| [(large, small, large.1, 3), (large, small, 1, 3)])
    });
    let plain = [(Scale::Text, 2), (Scale::Text, 0), (Scale::Row, 0), (Scale::Nothing, 0)];
    let with_text = plain
        .into_iter()
        .flat_map(|(small, air)| large.clone().map(move |large| (large, small, 1, air)));
    let rows = |large: Scale, small: Scale, bar: u16| 1 + large.rows() + bars * bar + small.rows();
    let (large, small, bar_rows) = with_digits
        .chain(with_text)
        .map(|(large, small, bar, air)| (Scale::Digits(large), small, bar, air))
        .find(|(large, small, bar, air)| rows(*large, *small, *bar) + air <= area.height)
        .map_or((Scale::Text, Scale::Row, 1), |(large, small, bar, _)| (large, small, bar));
    // Scarce spacing is shared, and not more than two rows between the parts.
    let most = rows(large, small, bar_rows) + 8;
    let [title_row, large_area, bar_area, small_area] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(large.rows()),
        Constraint::Length(bars * bar_rows),
        Constraint::Length(small.rows()),
    ])
    .flex(Flex::SpaceBetween)
    .areas(area.centered_vertically(Constraint::Max(most)));
    title(theme, page, title_row.width).centered().render(title_row, buffer);
    page.large.draw(large_area, buffer, theme, large, HorizontalAlignment::Center);
    if let Some((part, text)) = &page.left {
        let [bar_area, share] =
            Layout::horizontal([Constraint::Fill(1), Constraint::Length(SHARE)]).areas(bar_area);
        let line = bar(theme, *part, bar_area.width, theme.accent, Some(theme.glyphs.empty));
        let lines = vec![Line::from(line); usize::from(bar_rows)];
        Paragraph::new(lines).render(bar_area, buffer);
        let middle = share.centered_vertically(Constraint::Length(1));
        Line::styled(text, theme.strong).right_aligned().render(middle, buffer);
    }
    for (figure, column) in page.small.iter().zip(columns.areas::<4>(small_area)) {
        figure.draw(column, buffer, theme, small, HorizontalAlignment::Right);
    }
}

fn title(theme: Theme, page: &Page, cells: u16) -> Line<'static> {
    let phase = page.phase.as_ref();
    let phase = phase.map(|(word, style)| Span::styled(format!("  {word}"), *style));
    let room = usize::from(cells).saturating_sub(phase.as_ref().map_or(0, Span::width));
    let title = fit(&page.title, room, theme.glyphs.ellipsis);
    std::iter::once(Span::styled(title, theme.strong)).chain(phase).collect()
}
