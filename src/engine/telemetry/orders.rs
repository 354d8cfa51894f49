//! Orders in the Snapshot: the displayed ones, and the statistics of a sale.

use seckill_model::{Millis, OrderCounts, OrderId, OrderQuery, UserId, VoucherId};

/// The displayed orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrdersView {
    /// The filter.
    pub query: OrderQuery,
    /// Only orders with a smaller ID; `None` for the newest.
    pub before: Option<OrderId>,
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
