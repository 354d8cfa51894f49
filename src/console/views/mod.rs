//! The views, one folder each. A new view is a folder with a [`Component`], a variant of [`View`], and a line of `views!`.

pub(crate) mod activity;
pub(crate) mod attach;
mod detail;
mod funnel;
mod http;
mod jobs;
pub(crate) mod lab;
pub(crate) mod ledger;
pub(crate) mod letters;
mod locks;
pub(crate) mod orders;
mod overview;
pub(crate) mod pending;
mod prelude;
mod sales;
pub(crate) mod scene;
pub(crate) mod stream;
pub(crate) mod table;
mod table_view;
mod user_masking;

use ratatui::prelude::*;
use seckill_engine::{
    Command, JobLine, LetterLine, Snapshot,
    commands::Focus,
    telemetry::{
        log::AuditEntry,
        snapshot::{Holder, HttpLine, PendingLine},
    },
};
use seckill_model::SaleAudit;
use tui_input::Input;

pub(crate) use self::{
    attach::AttachState,
    lab::LabState,
    orders::OrdersState,
    overview::OverviewState,
    pending::pending_in,
    sales::{SalesState, phase, phase_style},
    scene::{COMPLETE, Scene, Source, is_stale, is_too_small},
    stream::{Pane, StreamState},
    table::{Extent, Order, Settled, Sheet, Table, TableState, Turn},
    user_masking::Users,
};
use super::{
    dialogs::Effect,
    keymap::{Action, ViewKey},
    view::View,
    widgets,
};

/// A movement of the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    By(isize),
    Screens(isize),
    /// To the row with this number.
    Row(usize),
    First,
    Last,
}

impl Step {
    pub(crate) fn is_forward(self) -> bool {
        matches!(self, Self::Last | Self::By(1..) | Self::Screens(1..))
    }

    /// The row that it leads to from `row`, among `total` of which `visible` are shown.
    pub(crate) fn from(self, row: usize, total: usize, visible: usize) -> usize {
        let screen = visible.saturating_sub(1).max(1) as isize;
        let row = match self {
            Self::By(by) => row.saturating_add_signed(by),
            Self::Screens(by) => row.saturating_add_signed(by * screen),
            Self::Row(row) => row,
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
    /// The keys that apply in this view only.
    fn keys() -> Vec<ViewKey>
    where
        Self: Sized;

    /// Draws the view into the area that the frame leaves.
    fn draw(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene);

    /// The table that has the focus; the Overview has none.
    fn table(&self) -> Option<&dyn Table> {
        None
    }

    fn table_mut(&mut self) -> Option<&mut dyn Table> {
        None
    }

    /// Identity and label of each row that the palette offers.
    fn names(&self, snapshot: &Snapshot) -> Vec<(String, String)> {
        self.table().map(|table| table.names(snapshot)).unwrap_or_default()
    }

    /// Moves the cursor to the row of this identity.
    fn point_to(&mut self, snapshot: &Snapshot, name: &str) {
        if let Some(table) = self.table_mut() {
            table.point_to(snapshot, name);
        }
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
        self.table_mut().map_or(Turn::Moved, |table| table.step(snapshot, step, is_frozen))
    }

    /// Carries out an action; `None` if the action does not belong to this view.
    fn run(&mut self, _action: Action, _scene: &Scene) -> Option<Effect> {
        None
    }

    /// Why an action of this view would have no effect, for the palette and for its key.
    fn why_not(&self, _action: Action, _scene: &Scene) -> Option<String> {
        None
    }

    /// The command that the view needs without a key; it is sent once.
    fn wants(&mut self) -> Option<Command> {
        None
    }

    /// Follows a new snapshot: selections and marks stay on their objects.
    fn settle(&mut self, snapshot: &Snapshot) -> Settled {
        self.table_mut().map(|table| table.settle(snapshot)).unwrap_or_default()
    }

    /// Prepares the view when it comes to the screen.
    fn enter(&mut self, snapshot: &Snapshot) {
        if let Some(table) = self.table_mut() {
            table.settle_cursor(snapshot);
        }
    }

    /// Whether a snapshot has the data of the view; some is read only while a view shows it.
    fn is_read(&self, snapshot: &Snapshot) -> bool {
        self.table().is_none_or(|table| table.is_read(snapshot))
    }

    /// Requests the data that only this view shows.
    fn focus(&self, _snapshot: &Snapshot, _focus: &mut Focus) {}
}

/// Declares the field of each view in [`Views`] with its type.
macro_rules! views {
    ($($view:ident => $field:ident: $state:ty,)+) => {
        /// The keys that apply in one view only.
        pub(crate) fn keys_of(view: View) -> Vec<ViewKey> {
            match view {
                $(View::$view => <$state>::keys(),)+
            }
        }

        /// Every view.
        #[derive(Default)]
        pub(crate) struct Views {
            $(pub(crate) $field: $state,)+
            /// The filter of the current view has the focus.
            pub(crate) filtering: bool,
        }

        impl Views {
            pub(crate) fn get(&self, view: View) -> &dyn Component {
                match view {
                    $(View::$view => &self.$field,)+
                }
            }

            pub(crate) fn get_mut(&mut self, view: View) -> &mut dyn Component {
                match view {
                    $(View::$view => &mut self.$field,)+
                }
            }
        }
    };
}

views! {
    Overview => overview: OverviewState,
    Sales => sales: SalesState,
    Stream => stream: StreamState,
    Pending => pending: TableState<PendingLine>,
    Letters => letters: TableState<LetterLine>,
    Locks => locks: TableState<Holder>,
    Orders => orders: OrdersState,
    Jobs => jobs: TableState<JobLine>,
    Ledger => ledger: TableState<SaleAudit>,
    Activity => log: TableState<AuditEntry>,
    Http => http: TableState<HttpLine>,
    Lab => lab: LabState,
    Attach => attach: AttachState,
}

/// One cell at each side.
pub(crate) const SIDES: Margin = Margin::new(1, 0);

/// Draws the first line of a view.
fn draw_head(area: Rect, buffer: &mut Buffer, heading: &Line<'_>, summary: &Line<'_>) {
    let row = area.inner(SIDES);
    let taken = if summary.width() > 0 { summary.width() as u16 + 2 } else { 0 };
    heading.render(Rect { width: row.width.saturating_sub(taken), ..row }, buffer);
    // Aligned with the columns of a table, which leave room for a scrollbar.
    let [room, _] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(1)]).areas(row);
    summary.clone().right_aligned().render(room, buffer);
}

/// Draws a text from line `top` of an area on.
pub(crate) fn draw_text(area: Rect, buffer: &mut Buffer, scene: &Scene, top: u16, text: &str) {
    let lines = widgets::wrap(text, usize::from(area.width.saturating_sub(2)));
    let text = Text::styled(lines.join("\n"), scene.theme.soft);
    text.render(below(area, top).inner(SIDES), buffer);
}

/// The part of an area from line `top` on.
fn below(area: Rect, top: u16) -> Rect {
    let top = top.min(area.height);
    Rect { y: area.y + top, height: area.height - top, ..area }
}

/// Shows that the figures of an area are outdated, or not of the selected moment.
fn dim(area: Rect, buffer: &mut Buffer, scene: &Scene) {
    buffer.set_style(area, Style::reset().patch(scene.theme.dimmed));
}
