//! The views, one folder each, and the frame around them. A new view is a folder with a [`Component`], a field of
//! [`Views`], and a variant of [`View`].

pub(crate) mod activity;
mod detail;
mod jobs;
mod layout;
pub(crate) mod ledger;
pub(crate) mod letters;
mod locks;
pub(crate) mod orders;
mod overview;
pub(crate) mod pending;
mod presenter;
mod sales;
mod scene;
pub(crate) mod stream;
mod table;
mod table_view;
mod tabs;
mod user_masking;

use ratatui::{
    Frame,
    buffer::Buffer,
    layout::{Constraint, Position, Rect},
    text::Line,
    widgets::{Paragraph, Widget},
};
use seckill_engine::{
    commands::{Command, Focus},
    telemetry::{
        Snapshot,
        log::Recorded,
        snapshot::{Holder, JobLine, LetterLine, PendingLine},
    },
};
use seckill_model::{
    Millis,
    ledger::{Balance, SaleAudit},
    locale::language,
    message::{Label, text},
};
use strum::VariantArray as _;
use tui_input::Input;

use self::layout::SIDES;
pub(crate) use self::{
    locks::Leases,
    orders::OrdersState,
    overview::OverviewState,
    sales::SalesState,
    scene::{Scene, Source, is_stale},
    stream::{Pane, StreamState},
    table::{Extent, Marked, Order, Row, Sheet, Table, TableState, Turn},
    user_masking::Users,
};
use super::{
    app::App,
    dialogs::Dialog,
    keymap::Action,
    presenter::by_title,
    text::{self, commands::Question},
    widgets,
};

/// Which view is on the screen, with its message in the catalog.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Hash,
    strum::IntoStaticStr,
    strum::VariantArray,
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

/// A view: its state, and what it draws and needs.
///
/// It sees the console through a [`Scene`], and neither the application nor another view.
pub(crate) trait Component {
    /// Draws the view into the area that the frame leaves.
    fn draw(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene<'_>);

    /// The table that has the focus; the Overview has none.
    fn table(&self) -> Option<&dyn Table> {
        None
    }

    fn table_mut(&mut self) -> Option<&mut dyn Table> {
        None
    }

    /// The input that filters the view.
    fn filter(&mut self) -> Option<&mut Input> {
        self.table_mut().map(|table| &mut table.controls_mut().filter)
    }

    /// Applies the typed filter; `false` if it is invalid.
    fn submit_filter(&mut self) -> bool {
        true
    }

    /// Moves the cursor.
    fn step(&mut self, snapshot: &Snapshot, step: Step, is_frozen: bool) -> Turn {
        self.table_mut().map_or(Turn::Waiting, |table| table.step(snapshot, step, is_frozen))
    }

    /// Carries out an action; `None` if it is none of this view.
    fn run(&mut self, _action: Action, _scene: &Scene<'_>) -> Option<Effect> {
        None
    }

    /// The command that the view needs without a key; it is sent once.
    fn wants(&mut self) -> Option<Command> {
        None
    }

    /// Follows a new snapshot: selections and marks stay on their objects.
    fn settle(&mut self, _snapshot: &Snapshot) -> Settled {
        Settled::default()
    }

    /// The view comes to the screen.
    fn enter(&mut self, snapshot: &Snapshot) {
        if let Some(table) = self.table_mut() {
            table.settle_cursor(snapshot);
        }
    }

    /// Whether a snapshot has the data of the view; some is read only while a view shows it.
    fn is_read(&self, _snapshot: &Snapshot) -> bool {
        true
    }

    /// Requests the data that only this view shows.
    fn focus(&self, _focus: &mut Focus) {}
}

/// What an action leads to.
pub(crate) enum Effect {
    Done,
    Note(String),
    /// The command is sent once the user confirms it.
    Confirm(Question, Command),
    Send(Command),
}

impl Effect {
    pub(crate) fn note(text: impl Into<String>) -> Self {
        Self::Note(text.into())
    }
}

/// The effect of a new snapshot on a view.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Another page has to be read.
    pub(crate) turned: bool,
    pub(crate) note: Option<String>,
    /// Which marks were removed.
    pub(crate) unmarked: Option<String>,
}

/// Every view.
#[derive(Debug, Default)]
pub(crate) struct Views {
    pub(crate) overview: OverviewState,
    pub(crate) sales: SalesState,
    pub(crate) pending: TableState<PendingLine>,
    pub(crate) letters: TableState<LetterLine>,
    pub(crate) stream: StreamState,
    pub(crate) orders: OrdersState,
    pub(crate) locks: TableState<Holder>,
    pub(crate) jobs: TableState<JobLine>,
    pub(crate) ledger: TableState<SaleAudit>,
    pub(crate) log: TableState<Recorded>,
    /// The filter of the current view has the focus.
    pub(crate) filtering: bool,
}

macro_rules! component {
    ($views:expr, $view:expr, $($borrow:tt)+) => {
        match $view {
            View::Overview => $($borrow)+ $views.overview,
            View::Sales => $($borrow)+ $views.sales,
            View::Stream => $($borrow)+ $views.stream,
            View::Pending => $($borrow)+ $views.pending,
            View::Letters => $($borrow)+ $views.letters,
            View::Locks => $($borrow)+ $views.locks,
            View::Orders => $($borrow)+ $views.orders,
            View::Jobs => $($borrow)+ $views.jobs,
            View::Ledger => $($borrow)+ $views.ledger,
            View::Activity => $($borrow)+ $views.log,
        }
    };
}

impl Views {
    pub(crate) fn get(&self, view: View) -> &dyn Component {
        component!(self, view, &)
    }

    pub(crate) fn get_mut(&mut self, view: View) -> &mut dyn Component {
        component!(self, view, &mut)
    }
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
    if app.display.theme.ascii {
        widgets::to_ascii(buffer, !language().is_ascii());
    }
    app.display.theme.settle(buffer);
    cursor
}

/// The table of the view with all loaded rows that match the filter; `None` if there is none or it was not read yet.
pub(crate) fn sheet(app: &App) -> Option<Sheet> {
    let table = app.table().filter(|_| has_data(&app.display.shown))?;
    let extent = table.extent(&app.display.shown);
    table.sheet(&Scene::of(&app.display)).map(|sheet| Sheet { extent, ..sheet })
}

/// The chosen row as exported, which names no user.
pub(crate) fn chosen_row(app: &App) -> Option<Sheet> {
    let scene = Scene { users: Users::MASKED, ..Scene::of(&app.display) };
    match app.view {
        // The Overview has no table, and the filter of Sales may hide the chosen sale.
        View::Overview | View::Sales => {
            let sale = [app.pointed_sale()?];
            Some(Sheet::of(&app.tables.sales.table, &scene, &sale, Some(0)))
        }
        _ => app.table()?.sheet(&scene),
    }
}

/// Whether a snapshot was taken.
fn has_data(snapshot: &Snapshot) -> bool {
    snapshot.seq > 0 || snapshot.taken != Millis(0)
}

/// Draws the view into the area that the frame leaves.
fn draw_body(app: &mut App, area: Rect, buffer: &mut Buffer, compact: bool) {
    let App { display, tables, story, view, .. } = app;
    let (chosen, typing) = (tables.sales.chosen, tables.filtering);
    let scene = Scene { compact, chosen, typing, ..Scene::of(display) };
    if !has_data(&display.shown) {
        return draw_text(area, buffer, &scene, 1, &text::NO_DATA);
    }
    tables.get_mut(*view).draw(area, buffer, &scene);
    if let Some(number) = story.countdown.filter(|_| *view == View::Overview) {
        widgets::big_number(area, buffer, display.theme, number);
    }
}

/// Draws the first line of a view.
fn draw_head(area: Rect, buffer: &mut Buffer, heading: &Line<'_>, summary: &Line<'_>) {
    let row = area.inner(SIDES);
    heading.render(row, buffer);
    // Aligned with the columns of a table, which leave room for a scrollbar.
    let room = row.width.saturating_sub(1);
    let cells = (summary.width() as u16).min(room);
    summary.render(Rect { x: row.x + room - cells, width: cells, ..row }, buffer);
}

/// Draws a text from line `top` of an area on.
fn draw_text(area: Rect, buffer: &mut Buffer, scene: &Scene<'_>, top: u16, text: &str) {
    let lines = widgets::wrap(text, usize::from(area.width.saturating_sub(2)));
    let lines = lines.into_iter().map(|line| Line::styled(line, scene.theme.soft));
    Paragraph::new(lines.collect::<Vec<_>>()).render(below(area, top).inner(SIDES), buffer);
}

/// The part of an area from line `top` on.
fn below(area: Rect, top: u16) -> Rect {
    let top = top.min(area.height);
    Rect { y: area.y + top, height: area.height - top, ..area }
}
