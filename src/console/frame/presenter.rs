//! The presenter layout: one sale in large figures and few words, for an audience.
//!
//! It shows no IDs and no users, except in questions and messages about commands. It takes the whole screen, and draws
//! its own parts of the frame.

use ratatui::{
    layout::{
        Constraint::{Fill, Length, Max, Percentage},
        Flex,
    },
    prelude::*,
    widgets::{Clear, Paragraph},
};
use seckill_engine::SaleLine;
use seckill_model::{Balance, Label, Phase, text};

use super::{answer_lines, armed, badges, draw_guide, guide_lines, keys, steady_audit};
use crate::{
    app::App,
    presenter::stranded,
    text::{self, figures},
    theme::{Theme, glyphs},
    views::{COMPLETE, SIDES, Scene, Source, is_stale, phase},
    widgets::{BigText, Pixel, SIGN_ROWS, bar, big_width, fit, right, width},
};

/// Scales of the main figure, the largest first.
const LARGE: [Pixel; 4] = [(8, 4), (6, 3), (4, 2), (2, 1)];
/// Scales of the figures below it; if neither fits they are bold text.
const SMALL: [Pixel; 2] = [(2, 1), (1, 1)];
/// A typical rate of a load test, and a typical number of orders in flight.
const USUAL: u64 = 10_000;
/// Cells of the text beside the bar.
const SHARE: u16 = 13;
/// Rows reserved for messages, so that nothing moves when one appears.
const ANSWER: u16 = 3;
/// Cells at each side.
const MARGIN: u16 = 2;

/// How figures are drawn above their labels.
#[derive(Clone, Copy)]
enum Scale {
    Digits(Pixel),
    Text,
}

impl Scale {
    /// Including the row of labels.
    fn rows(self) -> u16 {
        match self {
            Self::Digits(pixel) => SIGN_ROWS * pixel.1 + 1,
            Self::Text => 2,
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

    /// Cells in large digits.
    fn cells(&self, pixel: Pixel) -> u16 {
        big_width(&self.signs, pixel).max(big_width(&self.widest, pixel))
    }

    /// The label in the given width. The age of an outdated figure matters more.
    fn label(&self, theme: Theme, cells: usize) -> Span<'static> {
        let brief = self.brief.filter(|_| width(&self.label) >= cells);
        let label = brief.map_or(self.label.as_str(), |brief| brief.read());
        let Some(age) = &self.age else {
            return Span::raw(fit(label, cells));
        };
        let both = format!("{label}  {age}");
        let shown = if width(&both) > cells { age } else { &both };
        Span::styled(fit(shown, cells), theme.warn)
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
        let cells = width(&self.widest).max(width(&self.signs));
        let text = right(&self.signs, cells);
        let text = Span::styled(text, self.style.patch(theme.strong));
        let cells = match scale {
            Scale::Digits(pixel) => self.cells(pixel),
            Scale::Text => text.width() as u16,
        };
        let label = self.label(theme, usize::from(area.width));
        let area = area.centered_horizontally(Max(cells.max(label.width() as u16)));
        let [above, below] = Layout::vertical([Fill(1), Length(1)]).areas(area);
        match scale {
            Scale::Digits(pixel) if big_width(&self.signs, pixel) <= area.width => {
                let digits = Length(big_width(&self.signs, pixel));
                let [place] = Layout::horizontal([digits]).flex(Flex::End).areas(above);
                BigText { text: &self.signs, pixel, style: self.style }.render(place, buffer);
            }
            _ => {
                let [row] = Layout::vertical([Length(1)]).flex(Flex::End).areas(above);
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
    app.terminal.clickable.clear();
    let theme = app.display.theme;
    let roomy = area.height >= COMPLETE.1;
    let alarm = alarm(app, area.width);
    // In a small window and beside a guide rows are scarce, and a message may cover what is above it.
    let kept = if roomy { ANSWER - u16::from(!app.guide.is_blank()) } else { 1 };
    // Its row is reserved, so that nothing moves when an alarm appears.
    let alarm_rows = u16::from(roomy || alarm.is_some());
    let guide_rows = guide_lines(app, area.width).len() as u16;
    let [head, body, alarm_row, guide, kept, foot] = Layout::vertical([
        Length(1),
        Fill(1),
        Length(alarm_rows),
        Length(guide_rows),
        Length(kept),
        Length(1),
    ])
    .areas(area);
    let badges = badges(app);
    let room = usize::from(area.width).saturating_sub(badges.width() + 4);
    let program = || Line::styled(text::PROGRAM, theme.soft);
    armed(app, room, false).unwrap_or_else(program).render(head.inner(SIDES), buffer);
    badges.right_aligned().render(head.inner(SIDES), buffer);
    keys(app, foot.inner(SIDES), buffer);
    draw_guide(app, guide, buffer);
    alarm.unwrap_or_default().render(alarm_row.inner(SIDES), buffer);
    let mut lines = answer_lines(app, area.width);
    lines.retain(|line| line.width() > 0);
    let rows = Length(lines.len() as u16);
    let [messages] = Layout::vertical([rows]).flex(Flex::End).areas(body.union(kept));
    Clear.render(messages, buffer);
    Paragraph::new(lines).render(messages.inner(SIDES), buffer);
    let body = body.inner(Margin::new(MARGIN, 0));
    if let Some(page) = page(app) {
        draw_page(body, buffer, theme, &page);
    } else {
        let text = if app.display.shown.seq == 0 {
            text::NO_DATA.to_owned()
        } else {
            text!("presenter-no-sales-yet-press")
        };
        let middle = body.centered_vertically(Length(1));
        Line::styled(text, theme.strong).centered().render(middle, buffer);
    }
}

/// The most urgent alarm, without names.
fn alarm(app: &App, cells: u16) -> Option<Line<'static>> {
    let (theme, alarms) = (app.display.theme, &app.display.shown.alarms);
    let first = alarms.first()?;
    let more = text!("presenter-value", count = alarms.len() - 1);
    let room = usize::from(cells).saturating_sub(width(&more) + 4);
    let alarm = text::AlarmText::of(&first.kind, text::Reader::Presenter);
    let figure = alarm.figure.map(|it| format!("{it}  ")).unwrap_or_default();
    let text = fit(&format!("{figure}{}", alarm.text), room);
    let text = Span::styled(format!("! {text}"), theme.urgency(first.urgency));
    Some(Line::from(vec![text, Span::styled(more, theme.soft)]))
}

/// The page of the scheduled launch, else of the presented sale.
fn page(app: &App) -> Option<Page> {
    let scene = &app.display;
    let theme = scene.theme;
    let audited = steady_audit(&scene.shown);
    let (flight, audit) = (flight(theme, &audited), audit(theme, &audited));
    if let Some((launch, Some(at))) = app.director.scheduled() {
        // The countdown is live, also while the display is paused.
        let left = figures::clock(at.since(app.display.now));
        let [pieces, buyers] = [launch.pieces, launch.buyers].map(figures::thousands);
        let pieces = Figure::new(pieces, Style::new(), PIECES);
        let buyers = Figure::new(buyers, Style::new(), Label("presenter-buyers-wait"));
        return Some(Page {
            title: launch.title.clone(),
            phase: None,
            large: Figure::new(left, theme.key, OPENS),
            left: None,
            small: [pieces, buyers, flight, audit],
        });
    }
    let sale = scene.shown.sale(app.presented()?)?;
    let share_left = sale.stock.filter(|_| sale.phase != Phase::Planned).map(|stock| {
        let left = stock.max(0).unsigned_abs();
        let share = figures::share(left, sale.initial);
        (left as f64 / sale.initial.max(1) as f64, text!("presenter-left", share))
    });
    Some(Page {
        title: sale.title.clone(),
        phase: Some(phase(theme, sale.phase)),
        large: recovery(app, sale, &audited)
            .unwrap_or_else(|| large(scene, sale, app.presenter.took_ms(sale.voucher_id))),
        left: share_left,
        small: [second(scene, sale), written(scene, sale), flight, audit],
    })
}

const PIECES: Label = Label("presenter-pieces");
const OPENS: Label = Label("presenter-until-the-sale-opens");

/// Two days: from then on a countdown is not drawn as large digits.
const DAYS_MS: u64 = 48 * 3_600_000;

/// The entries that a dead node left behind, until they are recovered and the audit proves it.
fn recovery(app: &App, sale: &SaleLine, audit: &Balance) -> Option<Figure> {
    let (theme, most) = (app.display.theme, app.presenter.stranded);
    if most == 0 || sale.phase == Phase::Planned {
        return None;
    }
    let figure = match stranded(&app.display.shown) {
        0 if matches!(audit, Balance::Balanced { .. }) => {
            let label = text!("presenter-recovered", count = most);
            Figure::new("✔".to_owned(), theme.good, label)
        }
        left => {
            let style = if left == 0 { theme.good } else { theme.warn };
            let figure = Figure::new(figures::thousands(left), style, Label("presenter-stranded"));
            Figure { widest: figures::thousands(most), ..figure }
        }
    };
    Some(aged(&app.display, Source::Redis, figure))
}

/// The countdown to a sale, its stock in Redis, or how many pieces were sold.
fn large(scene: &Scene, sale: &SaleLine, took_ms: Option<u64>) -> Figure {
    let theme = scene.theme;
    let initial = sale.initial;
    let stock = sale.stock.map_or_else(|| "?".to_owned(), figures::thousands);
    let begins = sale.begin.filter(|_| sale.phase == Phase::Planned);
    let figure = match (begins, sale.admitted) {
        (Some(begin), _) if begin.since(scene.seen()) < DAYS_MS => {
            return Figure::new(figures::clock(begin.since(scene.seen())), theme.key, OPENS);
        }
        (Some(begin), _) => {
            let label = text!("presenter-opens", time = begin.date_time(&scene.zone));
            Figure::new(stock, Style::new(), label)
        }
        (None, Some(admitted)) if sale.phase.is_over() || sale.phase == Phase::SoldOut => {
            let seconds = took_ms.map(|ms| format!("{:.1}", ms as f64 / 1e3));
            let seconds = seconds.as_deref().unwrap_or("none");
            let label = text!("presenter-sold-of", initial, seconds);
            let widest = figures::thousands(initial);
            Figure { widest, ..Figure::new(figures::thousands(admitted), theme.key, label) }
        }
        (None, _) => {
            let label = match sale.stock {
                Some(_) => text!("presenter-pieces-left-of", initial),
                None => Label("presenter-pieces-left-unknown").to_owned(),
            };
            let style = if sale.phase == Phase::Paused { theme.warn } else { theme.key };
            Figure { widest: figures::thousands(initial), ..Figure::new(stock, style, label) }
        }
    };
    aged(scene, Source::Redis, figure)
}

/// The admission rate while the sale is active; afterwards the number of oversold pieces.
fn second(scene: &Scene, sale: &SaleLine) -> Figure {
    let theme = scene.theme;
    match sale.phase {
        Phase::Planned => Figure::new(figures::thousands(sale.initial), Style::new(), PIECES),
        Phase::SoldOut | Phase::Ended | Phase::Archived => {
            let below = sale.stock.map_or(0, |stock| stock.min(0).unsigned_abs());
            let over = sale.admitted.map(|admitted| {
                let most = admitted.max(sale.persisted);
                most.saturating_sub(sale.initial).max(below)
            });
            let style = if over == Some(0) { theme.good } else { theme.bad };
            let signs = over.map_or_else(|| "?".to_owned(), figures::thousands);
            aged(scene, Source::Redis, Figure::new(signs, style, Label("presenter-oversold")))
        }
        Phase::Running | Phase::Paused => {
            let rate = sale.funnel.attempts.per_second.max(0.0).round() as u64;
            // An outdated rate is meaningless.
            let (signs, style) = if scene.is_blind() {
                ("?".to_owned(), theme.soft)
            } else {
                (figures::thousands(rate), Style::new())
            };
            Figure {
                widest: figures::thousands(USUAL),
                brief: Some(Label("presenter-buyers-s")),
                ..Figure::new(signs, style, Label("presenter-buyers-a-second"))
            }
        }
    }
}

fn written(scene: &Scene, sale: &SaleLine) -> Figure {
    let orders = figures::thousands(sale.persisted);
    let figure = Figure {
        widest: figures::thousands(sale.initial),
        brief: Some(Label("presenter-written")),
        ..Figure::new(orders, Style::new(), Label("presenter-orders-written"))
    };
    aged(scene, Source::Sql, figure)
}

/// Outdated figures are faint and labelled.
fn aged(scene: &Scene, source: Source, figure: Figure) -> Figure {
    let health = scene.health(source);
    if !is_stale(health, scene.seen()) {
        return figure;
    }
    let age = health.last_ok.map(|at| text::old(scene.seen().since(at)));
    let age = age.unwrap_or_else(|| text::UNKNOWN.to_owned());
    Figure { style: scene.theme.soft, age: Some(age), ..figure }
}

/// Orders between Redis and SQL.
fn flight(theme: Theme, balance: &Balance) -> Figure {
    let (signs, style) = match balance {
        Balance::Balanced { .. } => ("0".to_owned(), Style::new()),
        Balance::InFlight { orders } => (figures::thousands(*orders), theme.accent),
        Balance::Off { .. } | Balance::Unknown => ("?".to_owned(), theme.soft),
    };
    Figure {
        widest: figures::thousands(USUAL),
        brief: Some(Label("presenter-moving")),
        ..Figure::new(signs, style, Label("common-in-flight"))
    }
}

fn audit(theme: Theme, balance: &Balance) -> Figure {
    let (signs, style, label) = match balance {
        Balance::Balanced { .. } => ("✔", theme.good, Label("presenter-audit-passed")),
        Balance::InFlight { .. } => ("≈", theme.accent, Label("presenter-audit-open")),
        Balance::Off { .. } => ("✖", theme.bad, Label("presenter-audit-failed")),
        Balance::Unknown => ("?", theme.warn, Label("presenter-audit-unknown")),
    };
    Figure {
        widest: "✔".to_owned(),
        brief: Some(Label("presenter-audit")),
        ..Figure::new(signs.to_owned(), style, label)
    }
}

/// Draws the page at the largest scale that fits, with blank rows if some are left.
fn draw_page(area: Rect, buffer: &mut Buffer, theme: Theme, page: &Page) {
    // Three wide columns and one for the audit.
    let audit = Percentage(if area.width < 64 { 17 } else { 20 });
    let columns = Layout::horizontal([Fill(1), Fill(1), Fill(1), audit]).spacing(2);
    // Based on usual sizes: one larger figure does not shrink the others.
    let widths = columns.areas::<4>(area).map(|column| column.width);
    let small = SMALL.into_iter().find(|pixel| {
        let mut figures = page.small.iter().zip(widths);
        figures.all(|(it, cells)| big_width(&it.widest, *pixel) <= cells)
    });
    let bars = u16::from(page.left.is_some());
    let rows = |large: Scale, small: Scale, bar: u16| 1 + large.rows() + bars * bar + small.rows();
    // Secondary large figures matter more than the largest main figure, and spacing more than both.
    let large = LARGE.into_iter().filter(|large| page.large.cells(*large) <= area.width);
    let with_digits = small.into_iter().flat_map(|small| {
        let large = large.clone().filter(|large| large.1 > 1);
        large.flat_map(move |large| [large.1, 1].map(|bar| (large, Scale::Digits(small), bar, 3)))
    });
    let with_text = [2, 0].into_iter().flat_map(|air| {
        let large = large.clone();
        large.map(move |large| (large, Scale::Text, 1, air))
    });
    let (large, small, bar_rows) = with_digits
        .chain(with_text)
        .map(|(large, small, bar, air)| (Scale::Digits(large), small, bar, air))
        .find(|(large, small, bar, air)| rows(*large, *small, *bar) + air <= area.height)
        .map_or((Scale::Text, Scale::Text, 1), |(large, small, bar, _)| (large, small, bar));
    // Spacing is distributed evenly, with at most two rows between the parts.
    let most = rows(large, small, bar_rows) + 8;
    let parts = [1, large.rows(), bars * bar_rows, small.rows()].map(Length);
    let [title_row, large_area, bar_area, small_area] =
        Layout::vertical(parts).flex(Flex::SpaceBetween).areas(area.centered_vertically(Max(most)));
    title(theme, page, title_row.width).centered().render(title_row, buffer);
    page.large.draw(large_area, buffer, theme, large, HorizontalAlignment::Center);
    if let Some((part, text)) = &page.left {
        let [bar_area, share] = Layout::horizontal([Fill(1), Length(SHARE)]).areas(bar_area);
        let line = bar(theme, *part, bar_area.width, theme.accent, Some(glyphs::EMPTY));
        let lines = vec![Line::from(line); usize::from(bar_rows)];
        Paragraph::new(lines).render(bar_area, buffer);
        let middle = share.centered_vertically(Length(1));
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
    let title = fit(&page.title, room);
    std::iter::once(Span::styled(title, theme.strong)).chain(phase).collect()
}
