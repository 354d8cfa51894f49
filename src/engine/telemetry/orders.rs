//! Orders in the Snapshot: one page of them, as far as somebody looks at it.

use std::sync::Arc;

use seckill_model::{Millis, Order, OrderCounts, OrderId, OrderQuery, UserId, VoucherId};

/// Which orders somebody looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrdersView {
    /// What was asked for.
    pub query: OrderQuery,
    /// Only those with a smaller id; `None` for the newest.
    pub before: Option<OrderId>,
}

/// One page of orders.
#[derive(Clone, Debug, Default)]
pub struct OrdersPage {
    /// What it shows.
    pub view: OrdersView,
    /// When it was read; `None` while nobody looks, or until it could be read.
    pub taken: Option<Millis>,
    /// Older ones stand behind it.
    pub more: bool,
    /// What SQL could not find in time; the page stays that of before.
    pub late: Option<OrdersView>,
    /// The orders, newest first.
    pub lines: Arc<Vec<Order>>,
}

/// What became of the orders of the one sale that somebody looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaleOrders {
    /// Which sale.
    pub voucher: VoucherId,
    /// When they were counted: seldomer than pictures are taken.
    pub taken: Millis,
    /// How many of each status; `None` where SQL did not count them in time.
    pub counts: Option<OrderCounts>,
    /// Buyers with more than one order, each with their number, those with the most first; `None` where SQL did not
    /// tell them in time.
    pub repeat_buyers: Option<Vec<(UserId, u64)>>,
}
