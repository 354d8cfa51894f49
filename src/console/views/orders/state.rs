//! State of the Orders view: query, page, chosen order, and its trace.

use seckill_engine::{
    telemetry::{OrdersView, Snapshot},
    trace::Trace,
};
use seckill_model::{Order, OrderId, OrderQuery, QueryFault};
use tui_input::Input;

use crate::views::{
    Scene, Step,
    table::{Controls, Extent, Pager, Sheet, TableState, TableView, Toward, Turn},
};

#[derive(Debug, Default)]
pub(crate) struct OrdersState {
    pub(crate) table: TableState<Order>,
    /// The text being edited. SQL filters the orders, not the table.
    pub(crate) input: Input,
    /// The text of the submitted query.
    text: String,
    query: OrderQuery,
    pager: Pager<Option<OrderId>>,
    trace: Option<Trace>,
    /// The order whose trace was requested last.
    asked: Option<OrderId>,
    /// The order whose trace is unavailable.
    unanswered: Option<OrderId>,
}

impl OrdersState {
    /// The query for the engine.
    pub(crate) fn view(&self) -> OrdersView {
        OrdersView { query: self.query, before: self.pager.at() }
    }

    /// The query as the user typed it.
    pub(crate) fn asked_for(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.pager.is_waiting()
    }

    /// The list follows new orders.
    pub(crate) fn shows_newest(&self) -> bool {
        self.pager.is_first()
    }

    /// The error in the edited text.
    pub(crate) fn fault(&self) -> Option<QueryFault> {
        self.input.value().parse::<OrderQuery>().err()
    }

    /// Submits the text; `false` if it is not a valid query.
    pub(crate) fn ask(&mut self) -> bool {
        let Ok(query) = self.input.value().parse::<OrderQuery>() else { return false };
        self.input.value().trim().clone_into(&mut self.text);
        if query != self.query {
            self.query = query;
            self.pager.turn(Toward::First, None);
            self.table.controls.detail = false;
        }
        self.asked = None;
        true
    }

    /// The orders of the page, if it answers the query.
    pub(crate) fn rows<'a>(&self, snapshot: &'a Snapshot) -> Vec<&'a Order> {
        if snapshot.orders.view.query == self.query {
            self.table.rows(snapshot)
        } else {
            Vec::new()
        }
    }

    pub(crate) fn chosen<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a Order> {
        let rows = self.rows(snapshot);
        self.table.position(&rows).and_then(|row| rows.get(row).copied())
    }

    /// Revalidates the choice against a new snapshot; `true` if another page has to be read.
    pub(crate) fn settle(&mut self, snapshot: &Snapshot) -> bool {
        let page = &snapshot.orders;
        if page.taken.is_none() {
            return false;
        }
        let is_of_query = page.view.query == self.query;
        let arrived = if is_of_query { self.pager.arrived(page.view.before) } else { None };
        if let Some(toward) = arrived {
            let rows = self.rows(snapshot);
            let at_end = toward == Toward::Back && !self.shows_newest();
            let edge = if at_end { rows.last() } else { rows.first() };
            self.table.cursor = edge.map(|order| order.id);
        }
        let is_empty = page.lines.is_empty() && page.view == self.view();
        let turned = is_empty && !self.shows_newest() && !self.is_waiting();
        if turned {
            self.pager.turn(Toward::First, None);
        }
        self.settle_cursor(snapshot);
        turned
    }

    /// The next or previous page.
    pub(crate) fn beyond(&self, snapshot: &Snapshot, forward: bool) -> Turn {
        match forward {
            _ if self.is_waiting() => Turn::Waiting,
            true if snapshot.orders.more => Turn::Page(Toward::Further),
            false if !self.shows_newest() => Turn::Page(Toward::Back),
            _ => Turn::Edge { top: !forward },
        }
    }

    /// The order to trace now; each is requested once.
    pub(crate) fn wants_trace(&mut self) -> Option<OrderId> {
        let wanted = match self.query.id {
            Some(id) => id,
            None => self.table.cursor.filter(|_| self.table.controls.detail)?,
        };
        if self.asked == Some(wanted) {
            return None;
        }
        self.asked = Some(wanted);
        self.unanswered = None;
        Some(wanted)
    }

    /// Requests the trace again when the order is next shown.
    pub(crate) fn forget_trace(&mut self) {
        self.asked = None;
    }

    pub(crate) fn take_trace(&mut self, trace: Trace) {
        self.trace = Some(trace);
    }

    pub(crate) fn miss_trace(&mut self, id: OrderId) {
        self.unanswered = Some(id);
    }

    /// The trace was requested and is unavailable.
    pub(crate) fn is_unanswered(&self, id: OrderId) -> bool {
        self.unanswered == Some(id)
    }

    /// The trace of that order, once it is known.
    pub(crate) fn trace_of(&self, id: OrderId) -> Option<&Trace> {
        self.trace.as_ref().filter(|trace| trace.id == id)
    }
}

impl TableView for OrdersState {
    fn controls(&self) -> &Controls {
        &self.table.controls
    }

    fn controls_mut(&mut self) -> &mut Controls {
        &mut self.table.controls
    }

    fn input(&mut self) -> &mut Input {
        &mut self.input
    }

    fn chosen_name(&self, snapshot: &Snapshot) -> Option<String> {
        self.chosen(snapshot).map(|order| order.id.to_string())
    }

    fn settle_cursor(&mut self, snapshot: &Snapshot) {
        self.table.settle(&self.rows(snapshot));
    }

    fn step(&mut self, snapshot: &Snapshot, step: Step) -> Turn {
        if step == Step::First && !self.shows_newest() {
            return Turn::Page(Toward::First);
        }
        if self.is_waiting() {
            return Turn::Waiting;
        }
        if self.table.step(&self.rows(snapshot), step) {
            return if self.shows_newest() { Turn::Hold } else { Turn::Moved };
        }
        self.beyond(snapshot, step.is_forward())
    }

    fn turn(&mut self, snapshot: &Snapshot, toward: Toward) {
        let last =
            snapshot.orders.lines.last().filter(|_| snapshot.orders.view.query == self.query);
        self.pager.turn(toward, last.map(|order| Some(order.id)));
        if toward == Toward::First {
            self.settle(snapshot);
        }
    }

    /// New orders no longer move the page.
    fn hold(&mut self, snapshot: &Snapshot) {
        let is_of_query = snapshot.orders.view.query == self.query;
        let first = snapshot.orders.lines.first().filter(|_| is_of_query);
        let after = first.and_then(|order| OrderId::from_i64(order.id.as_i64().checked_add(1)?));
        if after.is_some() && self.query.id.is_none() {
            self.pager.hold(after);
        }
    }

    fn sheet(&self, scene: &Scene<'_>) -> Option<Sheet> {
        let rows = self.rows(scene.snapshot);
        let is_known = scene.snapshot.orders.taken.is_some() && !self.is_waiting();
        (is_known || !rows.is_empty())
            .then(|| Sheet::of(&self.table, scene, &rows, self.table.position(&rows)))
    }

    fn extent(&self, snapshot: &Snapshot) -> Extent {
        Extent::uncounted(snapshot.orders.more || !self.shows_newest())
    }
}
