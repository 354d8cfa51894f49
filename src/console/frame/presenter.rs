//! The presenter layout: one sale in large figures and few words, for an audience.
//!
//! It shows no IDs and no users, except in questions and messages about commands.

use ratatui::{
    layout::{
        Constraint::{Fill, Length},
        Flex,
    },
    prelude::*,
    widgets::Paragraph,
};
use seckill_engine::SaleLine;
use seckill_model::{Balance, Label, Phase, text};

use super::{audit_state, steady_audit};
use crate::{
    app::App,
    presenter::stranded,
    text::{self, figures},
    theme::{Theme, glyphs},
    views::{SIDES, Scene, Source, is_stale, phase},
    widgets::{BigText, Pixel, SIGN_ROWS, bar, big_width, fit, width},
};

/// Large digits, or bold text.
type Scale = Option<Pixel>;

/// Scales of the main figure and of the figures below it, the largest first.
const SCALES: [(Scale, Scale); 5] = [
    (Some((8, 4)), Some((2, 1))),
    (Some((6, 3)), Some((1, 1))),
    (Some((4, 2)), Some((1, 1))),
    (Some((4, 2)), None),
    (Some((2, 1)), None),
];
/// A typical rate of a load test, and a typical number of orders in flight.
const USUAL: u64 = 10_000;
/// Cells of the text beside the bar.
const SHARE: u16 = 13;
/// Cells at each side.
const MARGIN: u16 = 2;

/// Cells and rows of a figure.
fn size(signs: &str, scale: Scale) -> (u16, u16) {
    match scale {
        Some(pixel) => (big_width(signs, pixel), SIGN_ROWS * pixel.1),
        None => (width(signs) as u16, 1),
    }
}

/// A figure with its label.
struct Figure {
    signs: String,
    /// The widest expected value: its place is reserved, so that nothing moves while a figure counts.
    widest: String,
    style: Style,
    label: String,
    /// Its age, if it is outdated.
    age: Option<String>,
}

impl Figure {
    fn new(signs: impl Into<String>, style: Style, label: impl Into<String>) -> Self {
        let signs = signs.into();
        Self { widest: signs.clone(), signs, style, label: label.into(), age: None }
    }

    /// A number that is usually at most `most`; `None` if it is unknown.
    fn number(
        number: Option<impl ToString + Copy>,
        most: u64,
        style: Style,
        label: impl Into<String>,
    ) -> Self {
        let signs = number.map_or_else(|| "?".to_owned(), figures::thousands);
        Self { widest: figures::thousands(most), ..Self::new(signs, style, label) }
    }

    /// Outdated figures are faint and labelled.
    fn aged(self, scene: &Scene, source: Source) -> Self {
        let health = scene.health(source);
        if !is_stale(health, scene.seen()) {
            return self;
        }
        let age = health.last_ok.map(|at| text::old(scene.seen().since(at)));
        let age = age.unwrap_or_else(|| text::UNKNOWN.to_owned());
        Self { style: scene.theme.soft, age: Some(age), ..self }
    }

    /// The label in the given width. The age of an outdated figure matters more.
    fn label(&self, theme: Theme, cells: u16) -> Span<'static> {
        let cells = usize::from(cells);
        let Some(age) = &self.age else {
            return Span::raw(fit(&self.label, cells));
        };
        let both = format!("{}  {age}", self.label);
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
        // A figure that is larger than usual does not shrink the others.
        let scale = scale.filter(|pixel| big_width(&self.signs, *pixel) <= area.width);
        let (cells, rows) = size(&self.signs, scale);
        let label = self.label(theme, area.width);
        let widest = size(&self.widest, scale).0.max(cells).max(label.width() as u16);
        let area = area.centered_horizontally(Length(widest));
        let [above, below] = Layout::vertical([Fill(1), Length(1)]).areas(area);
        let [above] = Layout::vertical([Length(rows)]).flex(Flex::End).areas(above);
        let [place] = Layout::horizontal([Length(cells)]).flex(Flex::End).areas(above);
        match scale {
            Some(pixel) => {
                BigText { text: &self.signs, pixel, style: self.style }.render(place, buffer);
            }
            None => Span::styled(&self.signs, self.style.patch(theme.strong)).render(place, buffer),
        }
        Line::from(label).alignment(aligned).render(below, buffer);
    }
}

/// The whole page: a title, the main figure, a bar, and the secondary figures.
struct Page {
    title: String,
    phase: Span<'static>,
    large: Figure,
    /// The share that is left, as an emptying bar.
    left: Option<(f64, String)>,
    small: [Figure; 4],
}

/// Draws the page, and below it the most urgent alarm.
pub(super) fn draw(app: &App, area: Rect, buffer: &mut Buffer, compact: bool) {
    let alarm = alarm(app, area.width);
    // If there is room, its row is reserved, so that nothing moves when an alarm appears.
    let alarm_rows = u16::from(!compact || alarm.width() > 0);
    let [body, alarm_row] = Layout::vertical([Fill(1), Length(alarm_rows)]).areas(area);
    alarm.render(alarm_row.inner(SIDES), buffer);
    let theme = app.display.theme;
    let Some(page) = page(app) else {
        let text = if app.display.shown.seq == 0 {
            text::NO_DATA.to_owned()
        } else {
            text!("presenter-no-sales-yet-press")
        };
        let middle = body.centered_vertically(Length(1));
        return Line::styled(text, theme.strong).centered().render(middle, buffer);
    };
    draw_page(body.inner(Margin::new(MARGIN, 0)), buffer, theme, page);
}

/// The most urgent alarm, without names.
fn alarm(app: &App, cells: u16) -> Line<'static> {
    let (theme, alarms) = (app.display.theme, &app.display.shown.alarms);
    let Some(first) = alarms.first() else { return Line::default() };
    let more = text!("presenter-value", count = alarms.len() - 1);
    let room = usize::from(cells).saturating_sub(width(&more) + 4);
    let alarm = text::AlarmText::of(&first.kind, text::Reader::Presenter);
    let figure = alarm.figure.map(|it| format!("{it}  ")).unwrap_or_default();
    let text = fit(&format!("{figure}{}", alarm.text), room);
    let text = Span::styled(format!("! {text}"), theme.urgency(first.urgency));
    Line::from(vec![text, Span::styled(more, theme.soft)])
}

/// The page of the scheduled launch, else of the presented sale.
fn page(app: &App) -> Option<Page> {
    let scene = &app.display;
    let theme = scene.theme;
    let audited = steady_audit(&scene.shown);
    let (glyph, style, label) = audit_state(theme, &audited);
    let (flight, audit) = (flight(theme, &audited), Figure::new(glyph, style, label));
    if let Some((launch, Some(at))) = app.director.scheduled() {
        // The countdown is live, also while the display is paused.
        let left = figures::clock(at.since(app.display.now));
        let [pieces, buyers] =
            [(launch.pieces, PIECES), (launch.buyers, Label("presenter-buyers"))]
                .map(|(count, label)| Figure::new(figures::thousands(count), Style::new(), label));
        return Some(Page {
            title: launch.title.clone(),
            phase: Span::default(),
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
    let (word, style) = phase(theme, sale);
    Some(Page {
        title: sale.title.clone(),
        phase: Span::styled(format!("  {word}"), style),
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
            Figure::new(glyphs::CHECK, theme.good, text!("presenter-recovered", count = most))
        }
        left => {
            let style = if left == 0 { theme.good } else { theme.warn };
            Figure::number(Some(left), most, style, Label("presenter-stranded"))
        }
    };
    Some(figure.aged(&app.display, Source::Redis))
}

/// The countdown to a sale, its stock in Redis, or how many pieces were sold.
fn large(scene: &Scene, sale: &SaleLine, took_ms: Option<u64>) -> Figure {
    let theme = scene.theme;
    let initial = sale.initial;
    let begins = sale.begin.filter(|_| sale.phase == Phase::Planned);
    let figure = match (begins, sale.admitted) {
        (Some(begin), _) if begin.since(scene.seen()) < DAYS_MS => {
            return Figure::new(figures::clock(begin.since(scene.seen())), theme.key, OPENS);
        }
        (Some(begin), _) => {
            let label = text!("presenter-opens", time = begin.date_time(&scene.zone));
            Figure::number(sale.stock, initial, Style::new(), label)
        }
        (None, Some(admitted)) if sale.phase.is_over() || sale.phase == Phase::SoldOut => {
            let seconds = took_ms.map(|ms| format!("{:.1}", ms as f64 / 1e3));
            let seconds = seconds.as_deref().unwrap_or("none");
            let label = text!("presenter-sold-of", initial, seconds);
            Figure::number(Some(admitted), initial, theme.key, label)
        }
        (None, _) => {
            let label = match sale.stock {
                Some(_) => text!("presenter-pieces-left-of", initial),
                None => Label("presenter-pieces-left-unknown").to_owned(),
            };
            let style = if sale.phase == Phase::Paused { theme.warn } else { theme.key };
            Figure::number(sale.stock, initial, style, label)
        }
    };
    figure.aged(scene, Source::Redis)
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
            let figure = Figure::number(over, 0, style, Label("presenter-oversold"));
            figure.aged(scene, Source::Redis)
        }
        Phase::Running | Phase::Paused => {
            let rate = sale.funnel.attempts.per_second.max(0.0).round() as u64;
            // An outdated rate is meaningless.
            let (rate, style) =
                if scene.is_blind() { (None, theme.soft) } else { (Some(rate), Style::new()) };
            Figure::number(rate, USUAL, style, Label("presenter-buyers-s"))
        }
    }
}

fn written(scene: &Scene, sale: &SaleLine) -> Figure {
    let label = Label("presenter-written");
    let figure = Figure::number(Some(sale.persisted), sale.initial, Style::new(), label);
    figure.aged(scene, Source::Sql)
}

/// Orders between Redis and SQL.
fn flight(theme: Theme, balance: &Balance) -> Figure {
    let (orders, style) = match balance {
        Balance::Balanced { .. } => (Some(0), Style::new()),
        Balance::InFlight { orders } => (Some(*orders), theme.accent),
        Balance::Off { .. } | Balance::Unknown => (None, theme.soft),
    };
    Figure::number(orders, USUAL, style, Label("common-in-flight"))
}

/// Draws the page at the largest scale that fits.
fn draw_page(area: Rect, buffer: &mut Buffer, theme: Theme, page: Page) {
    let columns = Layout::horizontal([Fill(1); 4]).spacing(1);
    let column = columns.areas::<4>(area)[0].width;
    let rows = |(large, small): (Scale, Scale)| {
        let bar = page.left.as_ref().map_or(0, |_| large.map_or(1, |pixel| pixel.1));
        [1, size("", large).1 + 1, bar, size("", small).1 + 1]
    };
    let fits = |scales: &(Scale, Scale)| {
        let (large, small) = *scales;
        size(&page.large.widest, large).0 <= area.width
            && page.small.iter().all(|it| size(&it.widest, small).0 <= column)
            && rows(*scales).iter().sum::<u16>() <= area.height
    };
    let scales = SCALES.into_iter().find(fits).unwrap_or_default();
    let [title_row, large_area, bar_area, small_area] =
        Layout::vertical(rows(scales).map(Length)).flex(Flex::SpaceAround).areas(area);
    let room = usize::from(area.width).saturating_sub(page.phase.width());
    let title = Span::styled(fit(&page.title, room), theme.strong);
    Line::from(vec![title, page.phase]).centered().render(title_row, buffer);
    page.large.draw(large_area, buffer, theme, scales.0, HorizontalAlignment::Center);
    if let Some((part, text)) = page.left {
        let [bar_area, share] = Layout::horizontal([Fill(1), Length(SHARE)]).areas(bar_area);
        let line = bar(theme, part, bar_area.width, theme.accent, Some(glyphs::EMPTY));
        let lines = vec![Line::from(line); usize::from(bar_area.height)];
        Paragraph::new(lines).render(bar_area, buffer);
        let middle = share.centered_vertically(Length(1));
        Line::styled(text, theme.strong).right_aligned().render(middle, buffer);
    }
    for (figure, column) in page.small.iter().zip(columns.areas::<4>(small_area)) {
        figure.draw(column, buffer, theme, scales.1, HorizontalAlignment::Right);
    }
}
