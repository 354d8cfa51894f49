//! Orders in the Snapshot: one page, read only while it is displayed.

use std::sync::Arc;

use seckill_model::{Millis, Order, OrderCounts, OrderId, OrderQuery, UserId, VoucherId};

/// The displayed orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrdersView {
    /// The filter.
    pub query: OrderQuery,
    /// Only orders with a smaller ID; `None` for the newest.
    pub before: Option<OrderId>,
}

/// One page of orders.
#[derive(Clone, Debug, Default)]
pub struct OrdersPage {
    /// Filter and position.
    pub view: OrdersView,
    /// When it was read; `None` if it is not displayed or not read yet.
    pub taken: Option<Millis>,
    /// Whether there are older ones.
    pub more: bool,
    /// The query that timed out in SQL; the page keeps its previous contents.
    pub late: Option<OrdersView>,
    /// The orders, newest first.
    pub lines: Arc<Vec<Order>>,
}

/// Order statistics of the displayed sale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaleOrders {
    /// The sale.
    pub voucher: VoucherId,
    /// When they were counted, less often than snapshots are taken.
    pub taken: Millis,
    /// Orders by status; `None` if SQL timed out.
    pub counts: Option<OrderCounts>,
    /// Buyers with more than one order and their number of orders, most first; `None` if SQL timed out.
    pub repeat_buyers: Option<Vec<(UserId, u64)>>,
}
