//! The presenter layout: one sale in large figures and few words, for an audience.
//!
//! It contains no IDs and no users. It takes the whole screen, and draws its own parts of the frame.

use ratatui::{
    style::Style,
    text::{Line, Span},
};
use seckill_engine::telemetry::snapshot::{SaleLine, Urgency};
use seckill_model::{
    Millis, Phase,
    ledger::Balance,
    message::{Label, text},
};

use super::{COMPLETE, Source, big_figure::Figure, is_stale, layout, steady_audit};
use crate::{
    app::App,
    launch::LaunchSummary,
    text::{self, figures, presenter as words},
    theme::Theme,
    widgets::{Canvas, Pixel, SIGN_ROWS, bar, big, big_width, fit, right, width},
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

/// How the secondary figures are drawn.
#[derive(Clone, Copy)]
enum Small {
    Signs(Pixel),
    Words,
    /// With their labels in the same row.
    Row,
    Nothing,
}

impl Small {
    /// Including the row of labels.
    fn rows(self) -> u16 {
        match self {
            Self::Signs(pixel) => SIGN_ROWS * pixel.1 + 1,
            Self::Words => 2,
            Self::Row => 1,
            Self::Nothing => 0,
        }
    }
}

/// The whole page: a title, the main figure, a bar, and the secondary figures.
struct Page {
    title: String,
    phase: Option<(String, Style)>,
    large: Figure,
    /// The share that is left, as an emptying bar.
    left: Option<(f64, String)>,
    small: Vec<Figure>,
}

/// Draws the page.
pub(super) fn draw(app: &mut App, canvas: &mut Canvas<'_>) {
    app.tabs.clear();
    let (w, h) = (canvas.width(), canvas.height());
    let theme = app.theme;
    let badges = layout::badges(app);
    let room = w.saturating_sub(badges.width() as u16 + 3);
    if !layout::armed(app, &mut canvas.part(0, 0, room, 1), 1, false) {
        canvas.text(1, 0, text::PROGRAM, theme.soft());
    }
    canvas.part(0, 0, w.saturating_sub(1), 1).line_right(0, &badges);
    layout::keys(app, &mut canvas.part(0, h - 1, w, 1));
    let roomy = h >= COMPLETE.1;
    let text = alarm(app, w);
    // A small window has no separate row for the alarm. Beside a guide rows are scarce, and a message may cover its
    // end.
    let kept = match (app.story.is_blank(), roomy) {
        (true, _) => ANSWER,
        (false, true) => ANSWER - 1,
        (false, false) => 1,
    };
    let shared = !roomy && kept == ANSWER;
    let mut bottom = (h - 1).saturating_sub(kept);
    let lines = layout::story_lines(app, w);
    bottom = bottom.saturating_sub(lines.len() as u16);
    for (row, line) in (0_u16..).zip(&lines) {
        canvas.line(1, bottom + row, line);
    }
    if !app.story.is_blank() {
        let key = layout::story_key(app);
        canvas.part(0, bottom, w.saturating_sub(1), 1).line_right(0, &key);
    }
    // Its row is reserved, so that nothing moves when an alarm appears.
    if roomy || (text.is_some() && !shared) {
        bottom = bottom.saturating_sub(1);
    }
    let most = usize::from(ANSWER - u16::from(shared && text.is_some()));
    canvas.line(1, bottom, &text.unwrap_or_default());
    let mut lines = layout::answer_lines(app, w);
    lines.truncate(most);
    let from = (h - 1).saturating_sub(lines.len() as u16);
    for (row, line) in (0_u16..).zip(lines.iter().filter(|line| line.width() > 0)) {
        // A longer message covers the guide while it is shown.
        canvas.text(0, from + row, &" ".repeat(usize::from(w)), Style::new());
        canvas.line(1, from + row, line);
    }
    let mut area = canvas.part(MARGIN, 1, w.saturating_sub(2 * MARGIN), bottom.saturating_sub(1));
    if let Some(page) = page(app) {
        draw_page(&mut area, theme, &page);
    } else {
        let text = if app.shown.seq == 0 { text::NO_DATA.to_owned() } else { words::no_sale() };
        let y = area.height() / 2;
        centred(&mut area, y, &text, theme.strong());
    }
}

/// The most urgent alarm, without names.
fn alarm(app: &App, cells: u16) -> Option<Line<'static>> {
    let (theme, alarms) = (app.theme, &app.shown.alarms);
    let first = alarms.first()?;
    let style = match first.urgency {
        Urgency::Critical => theme.bad(),
        Urgency::Warning => theme.warn(),
        Urgency::Notice => theme.good(),
    };
    let more = match alarms.len() - 1 {
        0 => String::new(),
        more => format!("  {}", text!("presenter-value", count = more)),
    };
    let room = usize::from(cells).saturating_sub(width(&more) + 4);
    let text = words::alarm(&first.kind);
    let text = text.figure.map_or(text.words.clone(), |it| format!("{it}  {}", text.words));
    let text = fit(&text, room, theme.glyphs.ellipsis);
    Some(Line::from(vec![
        Span::styled(format!("! {text}"), style),
        Span::styled(more, theme.soft()),
    ]))
}

fn page(app: &App) -> Option<Page> {
    let (theme, now) = (app.theme, app.seen());
    // The countdown is live, also while the display is paused.
    match app.director.standing(app.now) {
        Some(LaunchSummary::Counting(launch, left)) => {
            let pieces = figures::thousands(launch.pieces);
            let buyers = figures::thousands(launch.buyers);
            return Some(Page {
                title: launch.title.clone(),
                phase: None,
                large: Figure::new(figures::clock(left), theme.key(), words::OPENS),
                left: None,
                small: vec![
                    Figure::new(pieces, Style::new(), words::PIECES),
                    Figure::new(buyers, Style::new(), Label("presenter-buyers-wait")),
                    flight(theme, &steady_audit(&app.shown)),
                    audit(theme, &steady_audit(&app.shown)),
                ],
            });
        }
        Some(LaunchSummary::Opening(_)) | None => {}
    }
    let sale = app.shown.sale(app.presented()?)?;
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
        small: vec![
            second(app, sale),
            written(app, sale),
            flight(theme, &steady_audit(&app.shown)),
            audit(theme, &steady_audit(&app.shown)),
        ],
    })
}

fn before(app: &App, sale: &SaleLine, now: Millis) -> Figure {
    let theme = app.theme;
    let Some(begin) = sale.begin else { return left(app, sale) };
    let left = begin.since(now);
    // Days are not drawn as large digits.
    if left / 3_600_000 >= 48 {
        let time = text!("presenter-opens", time = begin.date_time(&app.zone));
        return aged(app, Source::Redis, Figure::new(stock(sale), Style::new(), time));
    }
    Figure::new(figures::clock(left), theme.key(), words::OPENS)
}

/// The stock in Redis, in large digits.
fn stock(sale: &SaleLine) -> String {
    sale.stock.map_or_else(|| "?".to_owned(), figures::signed)
}

fn left(app: &App, sale: &SaleLine) -> Figure {
    let theme = app.theme;
    let label = match sale.stock {
        Some(_) => text!("presenter-pieces-left-of", initial = sale.initial),
        None => Label("presenter-pieces-left-unknown").to_owned(),
    };
    let style = if sale.phase == Phase::Paused { theme.warn() } else { theme.key() };
    aged(app, Source::Redis, Figure::new(stock(sale), style, label).up_to(sale.initial))
}

fn sold(app: &App, sale: &SaleLine) -> Figure {
    let Some(admitted) = sale.admitted else { return left(app, sale) };
    let label = words::sold_of(sale.initial, app.presenter.took_ms(sale.voucher_id));
    let figure = Figure::new(figures::thousands(admitted), app.theme.key(), label);
    aged(app, Source::Redis, figure.up_to(sale.initial))
}

/// The admission rate while the sale is active; afterwards the number of oversold pieces.
fn second(app: &App, sale: &SaleLine) -> Figure {
    let theme = app.theme;
    match sale.phase {
        Phase::Planned => {
            let pieces = figures::thousands(sale.initial);
            Figure::new(pieces, Style::new(), words::PIECES)
        }
        Phase::SoldOut | Phase::Ended | Phase::Archived => {
            let below = sale.stock.map_or(0, |stock| stock.min(0).unsigned_abs());
            let over = sale.admitted.map(|admitted| {
                let most = admitted.max(sale.persisted);
                most.saturating_sub(sale.initial).max(below)
            });
            let style = if over == Some(0) { theme.good() } else { theme.bad() };
            let signs = over.map_or_else(|| "?".to_owned(), figures::thousands);
            aged(app, Source::Redis, Figure::new(signs, style, Label("presenter-oversold")))
        }
        Phase::Running | Phase::Paused => {
            let rate = sale.funnel.attempts.per_second.max(0.0).round() as u64;
            // An old rate is not a rate.
            let (signs, style) = if is_stale(&app.shown.redis, app.seen()) {
                ("?".to_owned(), theme.soft())
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
        Source::Redis => &app.shown.redis,
        Source::Sql => &app.shown.sql,
    };
    if is_stale(health, app.seen()) {
        let age = words::old(health.last_ok.map(|at| app.seen().since(at)));
        figure.style = app.theme.soft();
        figure.age = Some(age);
    }
    figure
}

/// Orders between Redis and SQL.
fn flight(theme: Theme, balance: &Balance) -> Figure {
    let (signs, style) = match balance {
        Balance::Balanced { .. } => (figures::thousands(0), Style::new()),
        Balance::InFlight { orders } => (figures::thousands(*orders), theme.accent()),
        Balance::Off { .. } | Balance::Unknown => ("?".to_owned(), theme.soft()),
    };
    Figure::new(signs, style, Label("common-in-flight"))
        .up_to(USUAL_FLIGHT)
        .in_brief(Label("presenter-moving"))
}

fn audit(theme: Theme, balance: &Balance) -> Figure {
    let (signs, style, label) = match balance {
        Balance::Balanced { .. } => ("✔", theme.good(), words::BALANCED),
        Balance::InFlight { .. } => ("≈", theme.accent(), words::OPEN),
        Balance::Off { .. } => ("✖", theme.bad(), words::OFF),
        Balance::Unknown => ("?", theme.warn(), words::UNKNOWN),
    };
    let labels = [words::BALANCED, words::OPEN, words::OFF, words::UNKNOWN];
    let room = labels.iter().map(|label| width(label)).max().unwrap_or(0) as u16;
    let figure = Figure::new(signs.to_owned(), style, label).in_brief(Label("presenter-audit"));
    Figure { widest: "✔".to_owned(), room, ..figure }
}

/// The largest scale that fits, with blank rows if some are left.
fn draw_page(canvas: &mut Canvas<'_>, theme: Theme, page: &Page) {
    let (w, h) = (canvas.width(), canvas.height());
    let columns = columns(w);
    // Based on usual sizes: one larger figure does not shrink the others.
    let small = SMALL.into_iter().find(|pixel| {
        let mut figures = page.small.iter().zip(columns);
        figures.all(|(it, (_, cells))| big_width(&it.widest, *pixel) + 2 <= cells)
    });
    let bars = u16::from(page.left.is_some());
    let rows =
        |large: Pixel, small: Small, bar: u16| 2 + SIGN_ROWS * large.1 + bars * bar + small.rows();
    let fits = |large: Pixel, small: Small, bar: u16, air: u16| {
        page.large.cells(large) <= w && rows(large, small, bar) + air <= h
    };
    // Secondary large figures matter more than the largest main figure, and spacing more than both.
    let signs = LARGE.into_iter().filter(|large| large.1 > 1);
    let signs = signs.filter_map(|large| Some((large, Small::Signs(small?))));
    let choice = signs
        .flat_map(|(large, small)| [(large, small, large.1, 3), (large, small, 1, 3)])
        .chain(LARGE.map(|large| (large, Small::Words, 1, 2)))
        .chain(LARGE.map(|large| (large, Small::Words, 1, 0)))
        .chain(LARGE.map(|large| (large, Small::Row, 1, 0)))
        .chain(LARGE.map(|large| (large, Small::Nothing, 1, 0)))
        .find(|(large, small, bar, air)| fits(*large, *small, *bar, *air));
    let Some((large, small, bar_rows, _)) = choice else { return draw_plain(canvas, theme, page) };
    let mut spare = h.saturating_sub(rows(large, small, bar_rows));
    let mut air = |most: u16| {
        let rows = spare.min(most);
        spare -= rows;
        rows
    };
    // Scarce spacing goes around the bar first.
    let [around, below, title_gap, label_gap, more, most] =
        [air(1), air(1), air(1), air(1), air(1), air(1)];
    let mut y = spare / 2;
    title(canvas, theme, y, page);
    y += 1 + title_gap + more;
    let x = w.saturating_sub(big_width(&page.large.signs, large)) / 2;
    big(canvas, theme, (x, y), &page.large.signs, large, page.large.style);
    y += SIGN_ROWS * large.1 + label_gap;
    label(canvas, theme, (0, w), y, &page.large);
    y += 1 + around;
    if let Some((part, text)) = &page.left {
        let cells = w.saturating_sub(SHARE);
        let line = Line::from(bar(theme, *part, cells, theme.accent(), Some(theme.glyphs.empty)));
        for row in 0..bar_rows {
            canvas.line(0, y + row, &line);
        }
        let text = right(text, usize::from(SHARE), theme.glyphs.ellipsis);
        canvas.text(cells, y + bar_rows / 2, &text, theme.strong());
        y += bar_rows + below;
    }
    y += most;
    for (figure, (from, cells)) in page.small.iter().zip(columns) {
        let mut y = y;
        match small {
            Small::Nothing => return,
            Small::Signs(pixel) => {
                let end = figure.end(big_width(&figure.widest, pixel), cells);
                let signs = big_width(&figure.signs, pixel);
                y += SIGN_ROWS * pixel.1;
                if signs + 2 <= cells {
                    let x = from + end.saturating_sub(signs);
                    let at = (x, y - SIGN_ROWS * pixel.1);
                    big(canvas, theme, at, &figure.signs, pixel, figure.style);
                } else {
                    plain(canvas, theme, (from, end), y - 1, figure);
                }
                below_it(canvas, theme, (from, cells), (y, end), figure);
            }
            Small::Words => {
                let end = figure.end(width(&figure.widest) as u16, cells);
                plain(canvas, theme, (from, end), y, figure);
                below_it(canvas, theme, (from, cells), (y + 1, end), figure);
            }
            Small::Row => {
                in_brief(&mut canvas.part(from, y, cells, 1), theme, figure);
            }
        }
    }
}

/// Three wide columns and one for the audit.
fn columns(w: u16) -> [(u16, u16); 4] {
    let last = if w < 64 { w / 6 } else { w / 5 };
    let each = (w - last) / 3;
    [(0, each), (each, each), (2 * each, each), (3 * each, last)]
}

/// For a window too small for large digits.
fn draw_plain(canvas: &mut Canvas<'_>, theme: Theme, page: &Page) {
    title(canvas, theme, 0, page);
    let w = canvas.width();
    for (row, figure) in (0_u16..).zip(std::iter::once(&page.large).chain(&page.small)) {
        let text = format!("{}  {}", figure.in_a_row(theme), figure.label);
        centred(&mut canvas.part(0, 2 + row, w, 1), 0, &text, theme.strong());
    }
}

fn title(canvas: &mut Canvas<'_>, theme: Theme, y: u16, page: &Page) {
    let phase = page.phase.clone().unwrap_or_default();
    let room = usize::from(canvas.width()).saturating_sub(width(&phase.0) + 2);
    let title = fit(&page.title, room, theme.glyphs.ellipsis);
    let mut line = vec![Span::styled(title, theme.strong())];
    if !phase.0.is_empty() {
        line.push(Span::styled(format!("  {}", phase.0), phase.1));
    }
    let line = Line::from(line);
    let x = canvas.width().saturating_sub(line.width() as u16) / 2;
    canvas.line(x, y, &line);
}

/// The label in the given width, with the age of outdated figures.
fn named(theme: Theme, figure: &Figure, label: &str, cells: u16) -> (String, Style) {
    let cells = usize::from(cells);
    let (text, style) = match &figure.age {
        None => (label.to_owned(), Style::new()),
        Some(age) => {
            let both = format!("{label}  {age}");
            // The age matters more than the label, and keeps its position.
            (if width(&both) > cells { age.clone() } else { both }, theme.warn())
        }
    };
    (fit(&text, cells, theme.glyphs.ellipsis), style)
}

fn label(
    canvas: &mut Canvas<'_>,
    theme: Theme,
    (from, cells): (u16, u16),
    y: u16,
    figure: &Figure,
) {
    let (text, style) = named(theme, figure, &figure.label, cells);
    centred(&mut canvas.part(from, y, cells, 1), 0, &text, style);
}

/// The label, right-aligned below its figure.
fn below_it(
    canvas: &mut Canvas<'_>,
    theme: Theme,
    (from, cells): (u16, u16),
    (y, end): (u16, u16),
    figure: &Figure,
) {
    let (text, style) = named(theme, figure, figure.called(cells).0, cells);
    canvas.text(from + end.saturating_sub(width(&text) as u16), y, &text, style);
}

/// A figure and its short label in one row.
fn in_brief(canvas: &mut Canvas<'_>, theme: Theme, figure: &Figure) {
    let signs = figure.in_a_row(theme);
    let (label, style) = match (&figure.age, figure.brief) {
        (Some(age), _) => (age.as_str(), theme.warn()),
        (None, Some(brief)) => (brief.read(), Style::new()),
        (None, None) => (figure.label.as_str(), Style::new()),
    };
    let room = usize::from(canvas.width()).saturating_sub(width(&signs) + 1);
    let label = fit(label, room, theme.glyphs.ellipsis);
    let x = usize::from(canvas.width()).saturating_sub(width(&signs) + 1 + width(&label)) / 2;
    let x = canvas.text(x as u16, 0, &signs, figure.style.patch(theme.strong()));
    canvas.text(x + 1, 0, &label, style);
}

/// A right-aligned figure in one row, if large digits do not fit.
fn plain(canvas: &mut Canvas<'_>, theme: Theme, (from, end): (u16, u16), y: u16, figure: &Figure) {
    let signs = figure.in_a_row(theme);
    let x = from + end.saturating_sub(width(&signs) as u16);
    canvas.text(x, y, &signs, figure.style.patch(theme.strong()));
}

fn centred(canvas: &mut Canvas<'_>, y: u16, text: &str, style: Style) {
    let x = usize::from(canvas.width()).saturating_sub(width(text)) / 2;
    canvas.text(x as u16, y, text, style);
}
