//! Key actions of the Orders view: querying, paging, tracing an order, paying it.

use seckill_engine::{commands::Command, trace::Trace};
use seckill_model::{OrderStatus, VoucherId, message::Label};

use super::wording;
use crate::{
    app::App,
    text::{commands, conventions, sale_name},
    views::View,
};

impl App {
    /// Shows or masks users in every view.
    pub(crate) fn switch_users(&mut self) {
        self.display.users.shown = !self.display.users.shown;
        self.note(if self.display.users.shown {
            Label("stream-users-are-shown")
        } else {
            Label("stream-users-are-masked")
        });
    }

    /// The sale whose detail is open.
    pub(crate) fn looked_at_sale(&self) -> Option<VoucherId> {
        let open = self.view == View::Sales && self.tables.sales.table.controls.detail;
        self.pointed_sale().filter(|_| open).map(|sale| sale.voucher_id)
    }

    /// Opens the orders of the chosen sale.
    pub(crate) fn open_orders_of_sale(&mut self) {
        let Some(sale) = self.looked_at_sale() else {
            return self.note(commands::NOTHING_CHOSEN);
        };
        if self.display.frozen {
            return self.note(conventions::frozen());
        }
        self.tables.orders.input = wording::query_of_sale(sale).into();
        self.go(View::Orders);
        self.ask_orders();
    }

    /// No other query can be answered while the display is paused.
    pub(crate) fn keeps_query(&self) -> bool {
        self.display.frozen && self.view == View::Orders
    }

    /// Runs the typed query; `false` if it is invalid.
    pub(crate) fn ask_orders(&mut self) -> bool {
        let asked = self.tables.orders.ask();
        if asked {
            self.look();
        }
        asked
    }

    /// Requests the trace of the chosen order, one at a time.
    pub(crate) fn trace_order(&mut self) {
        if self.view != View::Orders || self.work.tracing.is_some() {
            return;
        }
        if let Some(id) = self.tables.orders.wants_trace() {
            if self.send(Command::Trace(id)) {
                self.work.tracing = Some(id);
            } else {
                self.tables.orders.miss_trace(id);
            }
        }
    }

    pub(crate) fn take_trace(&mut self, trace: Trace) {
        // A cancelled trace may still arrive.
        self.work.tracing.take_if(|id| *id == trace.id);
        self.status.key_pressed();
        self.tables.orders.take_trace(trace);
        // The user may have moved on to another order.
        self.trace_order();
    }

    /// Pays the chosen order, as the newest snapshot shows it.
    pub(crate) fn ask_pay(&mut self) {
        let Some(order) = self.tables.orders.table.chosen(&self.display.newest).cloned() else {
            return self.note(Label("command-order-is-no-longer"));
        };
        if order.status != OrderStatus::Unpaid {
            return self.note(wording::not_unpaid(&order));
        }
        let sale = match self.display.newest.sale(order.voucher_id) {
            Some(sale) => sale_name(order.voucher_id, &sale.title),
            None => format!("#{}", order.voucher_id),
        };
        let user = self.display.users.number(order.user_id);
        let buyer = wording::buyer(&user, order.place, &sale);
        let written = order.create_time.date_time(&self.display.zone);
        let question = wording::pay(&order, buyer, &written);
        self.confirm(question, Command::Pay(order.id));
    }
}
