//! State of the Orders view: query, page and chosen order.

use seckill_engine::{
    orders::decode,
    telemetry::{OrdersView, Snapshot},
    trace::Trace,
};
use seckill_model::{Millis, Order, OrderId, OrderQuery, OrderStatus, QueryFault};
use tui_input::Input;

use super::{
    Step,
    columns::{Facet, Rank, sort},
};
use crate::{
    text::{self, orders::columns},
    widgets::Scroll,
};

/// The effect of a movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walked {
    Here,
    Waiting,
    Edge {
        top: bool,
    },
    /// Another page has to be read.
    Page(OrdersTurn),
    /// The page has to be held, as the user left its newest order.
    Hold,
}

/// Direction of paging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrdersTurn {
    Older,
    Newer,
    Newest,
}

#[derive(Debug, Default)]
pub(crate) struct OrdersState {
    /// The text being edited.
    pub(crate) input: Input,
    /// The text of the submitted query.
    text: String,
    /// The submitted query.
    view: OrdersView,
    /// Boundaries of the previous pages; the last is the nearest.
    newer: Vec<Option<OrderId>>,
    /// A requested page that has not arrived, and whether the cursor moves to its end.
    awaited: Option<(OrdersView, bool)>,
    cursor: Option<OrderId>,
    row: usize,
    pub(crate) scroll: Scroll,
    pub(crate) detail: bool,
    trace: Option<Trace>,
    /// The order whose trace was requested last.
    asked: Option<OrderId>,
    /// The order whose trace is unavailable.
    unanswered: Option<OrderId>,
}

/// Columns of an order, for filter and order.
pub(crate) fn facets() -> Vec<Facet<Order>> {
    let nothing = |_: &Order| String::new();
    let admitted =
        |order: &Order| Rank::number(Some(decode(order.id).issued.min(order.create_time).0));
    vec![
        Facet::new(
            columns::ORDER,
            |order| order.id.to_string(),
            |order| Rank::number(Some(order.id.as_i64())),
        ),
        Facet::new(columns::ADMITTED, nothing, admitted),
        Facet::new(columns::USER, nothing, |order| Rank::number(Some(order.user_id.0))),
        Facet::new(
            columns::SALE,
            |order| format!("#{}", order.voucher_id),
            |order| Rank::number(Some(order.voucher_id.0)),
        ),
        Facet::new(columns::PLACE, nothing, |order| Rank::number(order.place)),
        Facet::new(
            columns::STATUS,
            |order| text::orders::status(order.status).to_owned(),
            |order| Rank::text(text::orders::status(order.status)),
        ),
        Facet::new(columns::SINCE, nothing, |order| Rank::number(Some(since(order).0))),
    ]
}

/// When the order reached its state, as far as SQL has it.
pub(crate) fn since(order: &Order) -> Millis {
    let at = match order.status {
        OrderStatus::Unpaid => None,
        OrderStatus::Paid | OrderStatus::Used => order.pay_time,
        OrderStatus::Cancelled | OrderStatus::Closed => order.close_time,
    };
    at.unwrap_or(order.create_time)
}

impl OrdersState {
    /// The query for the engine.
    pub(crate) fn view(&self) -> OrdersView {
        self.view
    }

    /// The query as the user typed it.
    pub(crate) fn asked_for(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.awaited.is_some()
    }

    /// The list follows new orders.
    pub(crate) fn shows_newest(&self) -> bool {
        self.view.before.is_none()
    }

    /// The error in the edited text.
    pub(crate) fn fault(&self) -> Option<QueryFault> {
        self.input.value().parse::<OrderQuery>().err()
    }

    /// Submits the text; `false` if it is not a valid query.
    pub(crate) fn ask(&mut self) -> bool {
        let Ok(query) = self.input.value().parse::<OrderQuery>() else { return false };
        self.input.value().trim().clone_into(&mut self.text);
        if query != self.view.query {
            self.view.query = query;
            self.turn_to(None, false);
            self.newer.clear();
            self.detail = false;
        }
        self.asked = None;
        true
    }

    /// Orders of the page as SQL returned them, if it is the requested page.
    fn page<'a>(&self, snapshot: &'a Snapshot) -> &'a [Order] {
        let page = &snapshot.orders;
        if page.view.query == self.view.query { &page.lines } else { &[] }
    }

    /// The same in the requested order.
    pub(crate) fn rows<'a>(&self, snapshot: &'a Snapshot) -> Vec<&'a Order> {
        let mut rows: Vec<&Order> = self.page(snapshot).iter().collect();
        sort(&mut rows, &facets(), self.scroll.order.as_ref());
        rows
    }

    pub(crate) fn position(&self, rows: &[&Order]) -> Option<usize> {
        rows.iter().position(|order| Some(order.id) == self.cursor)
    }

    pub(crate) fn chosen<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a Order> {
        let rows = self.rows(snapshot);
        self.position(&rows).and_then(|row| rows.get(row).copied())
    }

    /// Revalidates the choice against a new snapshot; `true` if another page has to be read.
    pub(crate) fn settle(&mut self, snapshot: &Snapshot) -> bool {
        let page = &snapshot.orders;
        if page.taken.is_none() {
            return false;
        }
        if let Some((_, at_end)) = self.awaited.take_if(|(view, _)| *view == page.view) {
            let rows = self.rows(snapshot);
            let edge = if at_end { rows.last() } else { rows.first() };
            self.cursor = edge.map(|order| order.id);
        }
        let empty = page.lines.is_empty() && page.view == self.view;
        let turned = empty && !self.shows_newest() && self.awaited.is_none();
        if turned {
            self.turn(snapshot, OrdersTurn::Newest);
        }
        let rows = self.rows(snapshot);
        let row = self.position(&rows).unwrap_or(self.row.min(rows.len().saturating_sub(1)));
        self.row = row;
        self.cursor = rows.get(row).map(|order| order.id);
        turned
    }

    pub(crate) fn step(&mut self, snapshot: &Snapshot, step: Step) -> Walked {
        if step == Step::First && !self.shows_newest() {
            return Walked::Page(OrdersTurn::Newest);
        }
        if self.is_waiting() {
            return Walked::Waiting;
        }
        let rows = self.rows(snapshot);
        let row = self.position(&rows).unwrap_or(0);
        let next = step.from(row, rows.len(), self.scroll.visible);
        if next != row {
            self.row = next;
            self.cursor = rows.get(next).map(|order| order.id);
            return if self.shows_newest() { Walked::Hold } else { Walked::Here };
        }
        let forward = matches!(step, Step::Last | Step::By(1..) | Step::Screens(1..));
        self.beyond(snapshot, forward)
    }

    /// The next or previous page.
    pub(crate) fn beyond(&self, snapshot: &Snapshot, forward: bool) -> Walked {
        match forward {
            _ if self.is_waiting() => Walked::Waiting,
            true if snapshot.orders.more => Walked::Page(OrdersTurn::Older),
            false if !self.shows_newest() => Walked::Page(OrdersTurn::Newer),
            _ => Walked::Edge { top: !forward },
        }
    }

    /// Holds the visible page: new orders no longer move it.
    pub(crate) fn hold(&mut self, snapshot: &Snapshot) {
        let first = self.page(snapshot).first();
        let border = first.and_then(|order| OrderId::from_i64(order.id.as_i64().checked_add(1)?));
        if border.is_some() && self.view.query.id.is_none() {
            self.newer.push(None);
            self.view.before = border;
        }
    }

    pub(crate) fn turn(&mut self, snapshot: &Snapshot, turn: OrdersTurn) {
        match turn {
            OrdersTurn::Older => {
                let Some(last) = self.page(snapshot).last() else { return };
                self.newer.push(self.view.before);
                self.turn_to(Some(last.id), false);
            }
            OrdersTurn::Newer => {
                let before = self.newer.pop().flatten();
                self.turn_to(before, before.is_some());
            }
            OrdersTurn::Newest => {
                self.newer.clear();
                self.turn_to(None, false);
            }
        }
    }

    fn turn_to(&mut self, before: Option<OrderId>, at_end: bool) {
        self.view.before = before;
        self.awaited = Some((self.view, at_end));
    }

    /// The order to trace now; each is requested once.
    pub(crate) fn wants_trace(&mut self) -> Option<OrderId> {
        let wanted = match self.view.query.id {
            Some(id) => id,
            None => self.cursor.filter(|_| self.detail)?,
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
