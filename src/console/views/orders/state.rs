//! State of the Orders view: query, page, chosen order, and its trace.

use seckill_engine::{commands::Command, telemetry::OrdersView, trace::Trace};
use seckill_model::{Order, OrderId, OrderQuery, Reason};
use tui_input::Input;

use crate::views::table::TableState;

#[derive(Debug, Default)]
pub(crate) struct OrdersState {
    pub(crate) table: TableState<Order>,
    /// The text being edited. SQL filters the orders, not the table.
    pub(crate) input: Input,
    /// The text of the submitted query.
    text: String,
    trace: Option<Trace>,
    /// The order whose trace was requested last.
    asked: Option<OrderId>,
    /// The order whose trace is outstanding.
    tracing: Option<OrderId>,
    /// The order whose trace is unavailable.
    unanswered: Option<OrderId>,
}

impl OrdersState {
    /// The submitted query.
    pub(crate) fn query(&self) -> OrderQuery {
        self.table.key().query
    }

    /// The query as the user typed it.
    pub(crate) fn asked_for(&self) -> &str {
        &self.text
    }

    /// The error in the edited text.
    pub(crate) fn fault(&self) -> Option<Reason> {
        self.input.value().parse::<OrderQuery>().err()
    }

    /// Submits the text; `false` if it is not a valid query.
    pub(crate) fn ask(&mut self) -> bool {
        let Ok(query) = self.input.value().parse::<OrderQuery>() else { return false };
        self.input.value().trim().clone_into(&mut self.text);
        if query != self.query() {
            self.table.open(OrdersView { query, before: None });
            self.table.controls.detail = false;
        }
        self.asked = None;
        true
    }

    /// Requests the trace of the chosen order, one at a time and each once.
    pub(super) fn wants_trace(&mut self) -> Option<OrderId> {
        let wanted = match self.query().id {
            Some(id) => id,
            None => self.table.cursor.filter(|_| self.table.controls.detail)?,
        };
        if self.tracing.is_some() || self.asked == Some(wanted) {
            return None;
        }
        (self.asked, self.tracing, self.unanswered) = (Some(wanted), Some(wanted), None);
        Some(wanted)
    }

    /// Requests the trace again when the order is next shown.
    pub(crate) fn forget_trace(&mut self) {
        self.asked = None;
    }

    /// Waits no longer; the trace may still arrive.
    pub(crate) fn cancel_trace(&mut self) {
        self.tracing = None;
    }

    pub(crate) fn take_trace(&mut self, trace: &Trace) {
        self.tracing.take_if(|id| *id == trace.id);
        self.trace = Some(trace.clone());
    }

    /// A command failed; it may be the one that requested a trace.
    pub(crate) fn miss_trace(&mut self, failed: &Command) {
        if let Command::Trace(id) = failed {
            self.tracing.take_if(|awaited| awaited == id);
            self.unanswered = Some(*id);
        }
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
