//! The views, one file each, and the frame around them.
//!
//! A view draws a snapshot and the user's position in it. It sends nothing.

pub(crate) mod activity;
mod detail;
mod jobs;
mod layout;
pub(crate) mod ledger;
pub(crate) mod letters;
mod locks;
pub(crate) mod orders;
mod overview;
mod paged;
pub(crate) mod pending;
mod presenter;
mod sales;
pub(crate) mod stream;
mod table;
mod tabs;
mod user_masking;

use std::ops::Range;

use jiff::tz::TimeZone;
use ratatui::{
    Frame,
    buffer::Buffer,
    layout::{Constraint, Position},
    text::{Line, Span},
    widgets::{Paragraph, Widget},
};

pub(crate) use locks::Leases;
pub(crate) use orders::OrdersState;
pub(crate) use overview::{OverviewState, marks, until};
pub(crate) use sales::SalesState;
use seckill_engine::telemetry::{Snapshot, snapshot::Health};
use seckill_model::{
    Millis, VoucherId,
    ledger::Balance,
    locale::language,
    message::{Label, text},
};
pub(crate) use stream::{Pane, StreamState};
use strum::VariantArray as _;
pub(crate) use table::{Extent, Marked, Order, Page, Row, Sheet, TableState, TableView, Turn};
pub(crate) use user_masking::Users;

use super::{
    app::{App, Display},
    dialogs::Dialog,
    keymap::Action,
    lag_trend::LagTrend,
    presenter::by_title,
    text::{self},
    theme::Theme,
    widgets::{self, Canvas},
};

/// Which view is on the screen, with its message in the catalog.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray,
)]
#[strum(serialize_all = "kebab-case", prefix = "view-")]
pub(crate) enum View {
    #[default]
    Overview,
    Sales,
    Stream,
    Pending,
    Letters,
    Locks,
    Orders,
    Jobs,
    Ledger,
    Activity,
}

impl View {
    fn message(self) -> Label {
        Label(self.into())
    }

    /// Its name as a heading.
    pub(crate) fn title(self) -> &'static str {
        self.message().read()
    }

    /// Its name on the tab line.
    pub(crate) fn tab(self) -> &'static str {
        self.message().attribute("tab").unwrap_or_else(|| self.title())
    }

    /// Its name in files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Letters => "dead",
            other => Action::Go(other).setting(),
        }
    }

    pub(crate) fn beside(self, forward: bool) -> Self {
        let all = Self::VARIANTS;
        let by = if forward { 1 } else { all.len() - 1 };
        all[(self as usize + by) % all.len()]
    }
}

/// A movement of the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    By(isize),
    Screens(isize),
    First,
    Last,
}

impl Step {
    pub(crate) fn is_forward(self) -> bool {
        matches!(self, Self::Last | Self::By(1..) | Self::Screens(1..))
    }

    /// The row that it leads to from `row`, among `total` of which `visible` are shown.
    fn from(self, row: usize, total: usize, visible: usize) -> usize {
        let screen = visible.saturating_sub(1).max(1) as isize;
        let row = match self {
            Self::By(by) => row.saturating_add_signed(by),
            Self::Screens(by) => row.saturating_add_signed(by * screen),
            Self::First => 0,
            Self::Last => total,
        };
        row.min(total.saturating_sub(1))
    }
}

/// Age in milliseconds from which figures are marked as outdated.
const STALE_MS: u64 = 2_000;

/// Age from which a page is marked as outdated; pages are read once a second.
const STALE_PAGE_MS: u64 = 4_000;

/// Whether data of a server is outdated.
pub(crate) fn is_stale(health: &Health, now: Millis) -> bool {
    !health.up || health.last_ok.is_none_or(|at| now.since(at) > STALE_MS)
}

/// The origin of a panel's figures.
#[derive(Clone, Copy)]
enum Source {
    Redis,
    Sql,
}

/// The audit state without flicker: while orders arrive it is in flight, even in a snapshot that happens to find no
/// such order.
fn steady_audit(snapshot: &Snapshot) -> Balance {
    let comes = snapshot.funnel.admitted.per_second > 0.0 || snapshot.written.per_second > 0.0;
    match &snapshot.audit {
        Balance::Balanced { .. } if comes => Balance::InFlight { orders: 0 },
        balance => balance.clone(),
    }
}

/// Everything that a view can access.
pub(crate) struct Scene<'a> {
    snapshot: &'a Snapshot,
    theme: Theme,
    now: Millis,
    zone: &'a TimeZone,
    compact: bool,
    /// The chosen sale.
    chosen: Option<VoucherId>,
    lag: &'a LagTrend,
    leases: &'a Leases,
    users: Users,
}

impl Scene<'_> {
    fn health(&self, source: Source) -> &Health {
        match source {
            Source::Redis => &self.snapshot.redis,
            Source::Sql => &self.snapshot.sql,
        }
    }

    /// The heading of a panel, with the age of its figures if they are outdated.
    fn heading(&self, title: &str, sources: &[Source]) -> Line<'static> {
        let mut spans = vec![Span::styled(title.to_owned(), self.theme.heading)];
        for source in sources.iter().filter(|it| is_stale(self.health(**it), self.now)) {
            spans.push(Span::styled(format!("  {}", self.age(*source)), self.theme.warn));
        }
        Line::from(spans)
    }

    /// As [`Self::heading`], with the age of a page that was not read again for a while.
    fn page_heading(
        &self,
        title: &str,
        sources: &[Source],
        taken: Option<Millis>,
    ) -> Line<'static> {
        let mut heading = self.heading(title, sources);
        let is_up = sources.iter().all(|it| !is_stale(self.health(*it), self.now));
        let age = taken.map(|taken| self.now.since(taken)).filter(|_| is_up);
        if let Some(age) = age.filter(|age| *age > STALE_PAGE_MS) {
            heading.push_span(Span::styled(format!("  {}", text::old(age)), self.theme.warn));
        }
        heading
    }

    /// The age of the last figures of a server.
    fn age(&self, source: Source) -> String {
        let age = self.health(source).last_ok.map(|at| text::old(self.now.since(at)));
        let age = age.unwrap_or_else(|| text::UNKNOWN.to_owned());
        let name = if matches!(source, Source::Redis) { text::REDIS } else { text::SQL };
        format!("{name} {age}")
    }

    /// Whether the data of Redis is currently unknown.
    fn is_blind(&self) -> bool {
        is_stale(&self.snapshot.redis, self.now)
    }

    fn fit(&self, text: &str, cells: u16) -> String {
        widgets::fit(text, usize::from(cells), self.theme.glyphs.ellipsis)
    }

    /// A name, truncated so that the state after it is not.
    fn fit_before(&self, name: &str, state: &str, cells: u16) -> Line<'static> {
        if state.is_empty() {
            return name.to_owned().into();
        }
        let room = cells.saturating_sub(widgets::width(state) as u16 + 1);
        format!("{} {state}", self.fit(name, room)).into()
    }

    /// The number and title of a sale, as far as it is known.
    fn sale_name(&self, sale: VoucherId) -> String {
        match self.snapshot.sale(sale) {
            Some(line) => text::sale_name(sale, &line.title),
            None => format!("#{sale}"),
        }
    }

    /// A filter, and how many rows of a list match it.
    fn filtered(filter: &str, shown: usize, of: usize) -> String {
        format!("/{filter}   {}", text!("console-shown-of", shown, of))
    }

    /// A summary in at most half of the heading.
    fn summary(&self, canvas: &Canvas<'_>, text: &str) -> Line<'static> {
        Line::styled(self.fit(text, canvas.width() / 2), self.theme.soft)
    }

    /// The line of a view at which its table begins.
    fn table_top(&self) -> u16 {
        if self.compact { 1 } else { 2 }
    }

    /// A time to the second, in at most eight cells: only the date if it is another day.
    fn at_second(&self, at: Millis) -> String {
        self.on_day(at, 11..19, 5..10)
    }

    /// A time in the user's time zone; with a date only if it is another day.
    fn at(&self, at: Millis) -> String {
        self.on_day(at, 11..16, 5..16)
    }

    /// A part of a time with its date, depending on whether it is today.
    fn on_day(&self, at: Millis, today: Range<usize>, other_day: Range<usize>) -> String {
        let full = at.date_time(self.zone);
        let part = if self.is_today(at) { today } else { other_day };
        full.get(part).unwrap_or(&full).to_owned()
    }

    fn is_today(&self, at: Millis) -> bool {
        let [day, today] = [at, self.now].map(|at| at.date_time(self.zone));
        day.get(..10) == today.get(..10)
    }
}

/// Smallest window of the full console, and of the reduced one.
const COMPLETE: (u16, u16) = (80, 24);
const COMPACT: (u16, u16) = (60, 15);

/// Whether a window is too small for more than a message.
pub(crate) fn is_too_small(width: u16, height: u16) -> bool {
    width < COMPACT.0 || height < COMPACT.1
}

/// Draws everything.
pub(crate) fn draw(app: &mut App, frame: &mut Frame<'_>) {
    let area = frame.area();
    app.terminal.size = (area.width, area.height);
    if let Some(at) = paint(app, frame.buffer_mut()) {
        frame.set_cursor_position(at);
    }
}

/// Draws everything into `buffer`, and returns the cursor position.
pub(crate) fn paint(app: &mut App, buffer: &mut Buffer) -> Option<Position> {
    let area = buffer.area;
    app.terminal.unseen = is_too_small(area.width, area.height);
    if app.terminal.unseen {
        let size =
            text!("console-window-too-small-x-minimum", width = area.width, height = area.height);
        let lines = widgets::wrap(&size, usize::from(area.width));
        let middle = area.centered_vertically(Constraint::Length(lines.len() as u16));
        let lines: Vec<Line<'_>> = lines.into_iter().map(Line::from).collect();
        Paragraph::new(lines).style(app.display.theme.strong).centered().render(middle, buffer);
        app.display.theme.settle(buffer);
        return None;
    }
    let mut cursor = layout::draw(app, area, buffer);
    match &mut app.dialog {
        Some(Dialog::Confirm(confirm)) if app.presenter.on => {
            let titles: Vec<&str> = confirm.launched().into_iter().collect();
            let word = |text: &str| by_title(&app.display.newest, &titles, text);
            cursor = confirm.draw(area, buffer, app.display.theme, word);
        }
        Some(dialog) => cursor = dialog.draw(area, buffer, app.display.theme),
        None => {}
    }
    if app.display.theme.glyphs.ascii {
        widgets::to_ascii(buffer, !language().is_ascii());
    }
    app.display.theme.settle(buffer);
    cursor
}

/// The table of the view with all loaded rows that match the filter; `None` if there is none or it was not read yet.
pub(crate) fn sheet(app: &App) -> Option<Sheet> {
    let table = app.table().filter(|_| has_data(&app.display.shown))?;
    let extent = table.extent(&app.display.shown);
    table.sheet(&app.display.scene(false, None)).map(|sheet| Sheet { extent, ..sheet })
}

/// The chosen row as exported, which names no user.
pub(crate) fn chosen_row(app: &App) -> Option<Sheet> {
    let scene = Scene { users: Users::MASKED, ..app.display.scene(false, None) };
    match app.view {
        // The Overview has no table, and the filter of Sales may hide the chosen sale.
        View::Overview | View::Sales => {
            let sale = [app.pointed_sale()?];
            Some(Sheet::of(&app.tables.sales.table, &scene, &sale, Some(0)))
        }
        _ => app.table()?.sheet(&scene),
    }
}

impl Display {
    /// What a view sees of it; `chosen` is the chosen sale.
    fn scene(&self, compact: bool, chosen: Option<VoucherId>) -> Scene<'_> {
        Scene {
            snapshot: &self.shown,
            theme: self.theme,
            now: self.seen(),
            zone: &self.zone,
            compact,
            chosen,
            lag: &self.lag,
            leases: &self.leases,
            users: self.users,
        }
    }
}

/// Whether a snapshot was taken.
fn has_data(snapshot: &Snapshot) -> bool {
    snapshot.seq > 0 || snapshot.taken != Millis(0)
}

/// Draws the view into the area that the frame leaves.
fn draw_body(app: &mut App, canvas: &mut Canvas<'_>, compact: bool) {
    let App { display, tables, story, .. } = app;
    let scene = display.scene(compact, tables.sales.chosen);
    if !has_data(&display.shown) {
        canvas.text(1, 1, &text::NO_DATA, display.theme.soft);
        return;
    }
    match app.view {
        View::Overview => {
            overview::draw(canvas, &scene, &mut tables.overview);
            if let Some(number) = story.countdown {
                widgets::big_number(canvas, display.theme, number);
            }
        }
        View::Sales => sales::draw(canvas, &scene, &mut tables.sales),
        View::Pending => pending::draw(canvas, &scene, &mut tables.pending),
        View::Letters => letters::draw(canvas, &scene, &mut tables.letters),
        View::Stream => stream::draw(canvas, &scene, &mut tables.stream, display.frozen),
        View::Orders => orders::draw(canvas, &scene, &mut tables.orders, tables.filtering),
        View::Locks => locks::draw(canvas, &scene, &mut tables.locks),
        View::Jobs => jobs::draw(canvas, &scene, &mut tables.jobs),
        View::Ledger => ledger::draw(canvas, &scene, &mut tables.ledger),
        View::Activity => activity::draw(canvas, &scene, &mut tables.log),
    }
}

/// Draws the first line of a view.
fn draw_head(canvas: &mut Canvas<'_>, heading: &Line<'_>, summary: &Line<'_>) {
    canvas.line(1, 0, heading);
    let width = canvas.width().saturating_sub(2);
    canvas.part(0, 0, width, 1).line_right(0, summary);
}
