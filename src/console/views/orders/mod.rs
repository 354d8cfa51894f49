//! Orders: rows of SQL, page by page, and the trace of one order.

mod detail;

use seckill_engine::{
    orders::{decode, trace::Trace},
    telemetry::{OrdersView, snapshot::OrdersPage},
};
use seckill_model::{Order, OrderId, OrderQuery, OrderStatus, Reason};
use tui_input::Input;

use self::detail::buyer;
use super::{draw_head, prelude::*};

pub(crate) use self::detail::{query_of_sale, status};

impl Row for Order {
    type Id = OrderId;
    type Key = OrdersView;

    const VIEW: View = View::Orders;
    const SOURCES: &'static [Source] = &[Source::Sql];
    const FOCUS: fn(&mut Focus, Self::Key) = |focus, page| focus.orders = Some(page);
    const KEYS: &'static [ViewKey] = &[
        (Action::Pay, "P", true),
        FILTER,
        (Action::NextPage, "n", true),
        (Action::PreviousPage, "b", true),
        USERS,
    ];
    const ON_ROW: &'static [Action] = &[Action::Pay];
    const PAGING: Paging = Paging::NewestFirst;
    const COLUMNS: &'static [Column<Self>] = &[
        Column::figure(Label("tables-order"), (0, 19), |order: &Self| order.id.into()),
        Column::figure(Label("orders-admitted"), (0, 11), |order: &Self| {
            Value::Time(admitted(order))
        })
        .soft(),
        Column::figure(Label("common-user"), (0, 10), |order: &Self| order.user_id.into()),
        Column::figure(Label("tables-sale"), (72, 7), |order: &Self| order.voucher_id.into()),
        Column::figure(Label("orders-place"), (100, 6), |order: &Self| {
            order.place.map(u64::from).into()
        })
        .soft(),
        Column::text(Label("orders-status"), (0, 9), |order: &Self| {
            Value::name(status(order.status), &order.status)
        })
        .styled(|scene, order| match order.status {
            OrderStatus::Unpaid => scene.theme.accent,
            OrderStatus::Paid | OrderStatus::Used => scene.theme.good,
            OrderStatus::Cancelled | OrderStatus::Closed => scene.theme.soft,
        }),
        Column::figure(Label("orders-since"), (72, 11), |order: &Self| Value::Time(order.since()))
            .soft(),
    ];

    fn id(&self) -> OrderId {
        self.id
    }

    fn page(snapshot: &Snapshot) -> Page<'_, Self> {
        let OrdersPage { view, more, lines, .. } = &snapshot.orders;
        let before = |id: OrderId| OrdersView { before: Some(id), ..*view };
        let newest = lines.first().filter(|_| view.query.id.is_none());
        let after = newest.and_then(|order| OrderId::from_i64(order.id.as_i64().checked_add(1)?));
        Page {
            next: lines.last().filter(|_| *more).map(|order| before(order.id)),
            held: after.map(before),
            ..Page::of(&snapshot.orders)
        }
    }

    /// Whether the page follows new orders, and its range.
    fn extent(scene: &Scene, state: &TableState<Self>) -> Line<'static> {
        let theme = scene.theme;
        let rows = state.rows(&scene.shown);
        if state.is_waiting() {
            let is_late = scene.shown.late_orders == Some(state.key());
            let late = if is_late { Label("orders-sql-takes-long").read() } else { "" };
            return Line::styled(late, theme.warn);
        }
        let Some(first) = rows.first() else { return Line::default() };
        let is_newest = state.is_first_page();
        let held = if is_newest {
            Span::styled(Label("orders-newest-first").read(), theme.soft)
        } else {
            let at = scene.at_second(decode(first.id).issued);
            Span::styled(text!("orders-up-to-press-for-newest", at), theme.warn)
        };
        let count = rows.len();
        let range = match (state.controls.order, is_newest, scene.shown.orders.more) {
            (Some(order), ..) => Span::styled(order.summary(count), theme.key),
            // In a small window the heading needs the room.
            (None, false, _) if scene.compact => return held.into(),
            (None, _, true) => Span::styled(text!("orders-and-more", count), theme.soft),
            (None, true, false) => Span::styled(text!("orders-in-all", count), theme.soft),
            (None, false, false) => Span::styled(text!("orders-the-last", count), theme.soft),
        };
        Line::from(vec![held, Span::raw("   "), range])
    }

    fn empty(scene: &Scene, state: &TableState<Self>) -> Option<String> {
        let Snapshot { orders, late_orders, .. } = &*scene.shown;
        if *late_orders == Some(state.key()) {
            Some(text!("orders-sql-did-not-reply-within"))
        } else if orders.taken.is_none() || state.is_waiting() {
            None
        } else if state.key().query.is_empty() {
            Some(text!("orders-no-orders-in-sql-yet"))
        } else {
            Some(text!("orders-no-order-in-sql-matches"))
        }
    }
}

/// An ID may be dated ahead of the clock, but nothing is written before it is admitted.
fn admitted(order: &Order) -> Millis {
    decode(order.id).issued.min(order.create_time)
}

#[derive(Default)]
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

    /// The error in the edited text.
    pub(crate) fn fault(&self) -> Option<Reason> {
        self.input.value().parse::<OrderQuery>().err()
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

    /// The trace of that order, once it is known.
    pub(crate) fn trace_of(&self, id: OrderId) -> Option<&Trace> {
        self.trace.as_ref().filter(|trace| trace.id == id)
    }
    /// Pays the chosen order, as the newest snapshot shows it.
    fn pay(&self, scene: &Scene) -> Effect {
        let Some(order) = self.table.chosen(&scene.newest) else {
            return Effect::note(Label("command-order-is-no-longer"));
        };
        if order.status != OrderStatus::Unpaid {
            let (id, status) = (order.id, status(order.status));
            return Effect::Note(text!("orders-order-is-only-unpaid-orders", id, status));
        }
        let sale = text::sale_in(&scene.newest, order.voucher_id);
        let buyer = buyer(&scene.users.number(order.user_id), order.place, &sale);
        let written = order.create_time.date_time(&scene.zone);
        let question = question!("ask-pay-order", id = order.id, buyer = plain(&buyer), written);
        Effect::confirm(question, Command::Pay(order.id))
    }

    fn draw_list(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene) {
        let (width, top) = (area.width, scene.table_top());
        let is_known = scene.shown.orders.taken.is_some() && !self.table.is_waiting();
        let is_empty = self.table.rows(&scene.shown).is_empty();
        if let Some(id) = self.query().id.filter(|_| is_known && is_empty) {
            // The order is not in SQL: its trace is the answer.
            let detail = detail::of(scene, self, id, None, width);
            return detail.draw(below(area, 1), buffer);
        }
        let opened = self.table.opened(&scene.shown);
        let detail = opened.map(|order| detail::of(scene, self, order.id, Some(order), width));
        self.table.draw_table(area, buffer, scene, top, detail);
    }
}

impl Component for OrdersState {
    fn keys() -> Vec<ViewKey> {
        Order::KEYS.to_vec()
    }

    fn draw(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene) {
        let mut heading = Order::heading(scene, &self.table);
        if !self.text.is_empty() {
            let query = fit(&self.text, (area.width / 3).into());
            heading.push_span(Span::raw(format!("  {query}")));
        }
        draw_head(area, buffer, &heading, &self.table.summary(scene));
        if !scene.typing {
            return self.draw_list(area, buffer, scene);
        }
        let (hint, style) = if let Some(fault) = self.fault() {
            (fault.to_string(), scene.theme.warn)
        } else {
            (text!("orders-id-user-voucher-paid"), scene.theme.soft)
        };
        // Directly above the input.
        let lines = wrap(&hint, usize::from(area.width.saturating_sub(2)));
        let rows = Length(lines.len() as u16);
        let [list, hint] = Layout::vertical([Fill(1), rows]).spacing(1).areas(area);
        Text::styled(lines.join("\n"), style).render(hint.inner(SIDES), buffer);
        self.draw_list(list, buffer, scene);
    }

    fn table(&self) -> Option<&dyn Table> {
        Some(&self.table)
    }

    fn table_mut(&mut self) -> Option<&mut dyn Table> {
        Some(&mut self.table)
    }

    /// The loaded orders, and an entry for any other ID.
    fn names(&self, snapshot: &Snapshot) -> Vec<(String, String)> {
        let any = (String::new(), Label("orders-any-id").to_owned());
        Table::names(&self.table, snapshot).into_iter().chain([any]).collect()
    }

    fn point_to(&mut self, _: &Snapshot, name: &str) {
        self.input = name.into();
        self.submit_filter();
    }

    fn filter(&mut self) -> Option<&mut Input> {
        Some(&mut self.input)
    }

    fn submit_filter(&mut self) -> bool {
        let Ok(query) = self.input.value().parse::<OrderQuery>() else { return false };
        self.input.value().trim().clone_into(&mut self.text);
        if query != self.query() {
            self.table.open(OrdersView { query, before: None });
            self.table.controls.detail = false;
        }
        self.asked = None;
        true
    }

    fn run(&mut self, action: Action, scene: &Scene) -> Option<Effect> {
        let page = match action {
            Action::NextPage => Step::Screens(1),
            Action::PreviousPage => Step::Screens(-1),
            Action::Pay => return Some(self.pay(scene)),
            _ => return None,
        };
        let turn = self.table.beyond(&scene.shown, page, scene.frozen);
        Some(turn.note().map_or(Effect::Done, Effect::Note))
    }

    fn why_not(&self, action: Action, scene: &Scene) -> Option<String> {
        self.table.why_not(action, scene)
    }

    /// Requests the trace of the chosen order, one at a time and each once.
    fn wants(&mut self) -> Option<Command> {
        let wanted = match self.query().id {
            Some(id) => id,
            None => self.table.cursor.filter(|_| self.table.controls.detail)?,
        };
        if self.tracing.is_some() || self.asked == Some(wanted) {
            return None;
        }
        (self.asked, self.tracing, self.unanswered) = (Some(wanted), Some(wanted), None);
        Some(Command::Trace(wanted))
    }

    fn focus(&self, snapshot: &Snapshot, focus: &mut Focus) {
        self.table.focus(snapshot, focus);
    }
}
