//! The endpoints of orders: ask for a piece, ask for the result, pay.

use axum::extract::State;
use seckill_engine::orders::{self, Progress, payment};
use seckill_model::{Label, Order, OrderId, OrderStatus, Outcome, Payment, UserId, VoucherId};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Shared,
    answer::{Answer, Envelope, Refusal, Result},
    path::PathId,
    sessions::Buyer,
    vouchers,
};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(buy))
        .routes(routes!(show_order))
        .routes(routes!(vouchers::buy_voucher))
        .routes(routes!(pay))
}

/// State of an order, as its buyer sees it. An order that was used counts as paid, one that was cancelled as closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum OrderState {
    /// Admitted, and not in SQL yet.
    Queued,
    /// In SQL, unpaid.
    Persisted,
    Paid,
    Closed,
    /// It waits for the operator.
    DeadLetter,
}

/// An order with its state and times.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct OrderView {
    #[schema(value_type = String)]
    order_id: OrderId,
    state: OrderState,
    admitted_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    voucher_id: Option<VoucherId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    create_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pay_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    close_time: Option<String>,
}

impl OrderView {
    fn new(order_id: OrderId, state: OrderState) -> Self {
        let admitted_time = orders::decode(order_id).issued.to_string();
        let (voucher_id, create_time, pay_time, close_time) = (None, None, None, None);
        Self { order_id, state, admitted_time, voucher_id, create_time, pay_time, close_time }
    }

    fn of(order: &Order) -> Self {
        let state = match order.status {
            OrderStatus::Unpaid => OrderState::Persisted,
            OrderStatus::Paid | OrderStatus::Used => OrderState::Paid,
            OrderStatus::Cancelled | OrderStatus::Closed => OrderState::Closed,
        };
        Self {
            voucher_id: Some(order.voucher_id),
            create_time: Some(order.create_time.to_string()),
            pay_time: order.pay_time.map(|at| at.to_string()),
            close_time: order.close_time.map(|at| at.to_string()),
            ..Self::new(order.id, state)
        }
    }
}

/// Asks for a piece of a sale. A repeated request is refused with the ID of the order that the buyer holds.
#[utoipa::path(
    post, path = "/voucher-order/seckill/{id}", tag = "orders",
    params(("id" = i64, Path, minimum = 1)),
    security(("token" = [])),
    responses((status = 200, description = "success", body = Envelope<String>))
)]
async fn buy(
    State(shared): State<Shared>,
    Buyer(user): Buyer,
    PathId(voucher): PathId<VoucherId>,
) -> Result<OrderId> {
    let deciding = {
        let shared = Shared::clone(&shared);
        async move {
            let outcome = shared.admission.request(voucher, user).answer().await.outcome;
            // Redis has decided, whether or not the client still waits for the answer.
            shared.metrics.note_admission(&outcome);
            outcome
        }
    };
    match shared.complete(deciding).await?? {
        Outcome::Admitted { order } => Ok(Answer(order)),
        refused => Err(Refusal::Outcome(refused)),
    }
}

/// The result of an order, from the moment of its admission on.
#[utoipa::path(
    get, path = "/voucher-order/{id}", tag = "orders",
    params(("id" = String, Path, pattern = "^[0-9]{1,19}$")),
    security(("token" = [])),
    responses((status = 200, description = "success", body = Envelope<OrderView>))
)]
async fn show_order(
    State(shared): State<Shared>,
    Buyer(user): Buyer,
    PathId(order): PathId<OrderId>,
) -> Result<OrderView> {
    find(&shared, order, user).await.map(Answer)
}

async fn find(
    shared: &Shared,
    id: OrderId,
    user: UserId,
) -> std::result::Result<OrderView, Refusal> {
    let mut servers = shared.servers().await?;
    let lost = shared.snapshots.borrow().lost_shards().collect();
    match orders::progress(&mut servers, id, user, lost).await? {
        Progress::Persisted(order) => Ok(OrderView::of(&order)),
        Progress::Queued => Ok(OrderView::new(id, OrderState::Queued)),
        Progress::Dead => Ok(OrderView::new(id, OrderState::DeadLetter)),
        Progress::Unknown => Err(Refusal::NoOrder(id)),
    }
}

/// Pays an order. Repeating it has no effect.
#[utoipa::path(
    post, path = "/voucher-order/{id}/pay", tag = "orders",
    params(("id" = String, Path, pattern = "^[0-9]{1,19}$")),
    security(("token" = [])),
    responses((status = 200, description = "success", body = Envelope<OrderView>))
)]
async fn pay(
    State(shared): State<Shared>,
    Buyer(user): Buyer,
    PathId(id): PathId<OrderId>,
) -> Result<OrderView> {
    let found = find(&shared, id, user).await?;
    if matches!(found.state, OrderState::Persisted) {
        let mut servers = shared.servers().await?;
        let paying = async move { payment::pay(&mut servers, id).await };
        match shared.complete(paying).await?? {
            Payment::Paid | Payment::PaidBefore => {
                return find(&shared, id, user).await.map(Answer);
            }
            Payment::Returned => return Err(refused(Label("http-pay-returned"), &found)),
            Payment::TooLate | Payment::NotFound => {}
        }
    }
    match found.state {
        OrderState::Paid => Ok(Answer(found)),
        OrderState::Queued => Err(refused(Label("http-pay-queued"), &found)),
        OrderState::DeadLetter => Err(refused(Label("http-pay-dead"), &found)),
        // Closed since it was found, too.
        OrderState::Closed | OrderState::Persisted => {
            let found = find(&shared, id, user).await?;
            Err(refused(Label("http-pay-closed"), &found))
        }
    }
}

fn refused(message: Label, order: &OrderView) -> Refusal {
    Refusal::Conflict(message.into(), serde_json::to_value(order).unwrap_or_default())
}
