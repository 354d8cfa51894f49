//! A plan as data. The keys are a contract of `attach recover --json`.

use seckill_model::{
    ForeignKey, Millis, OrderError, OrderId, RecoveryAction, UserId, Verdict, VoucherId,
};
use serde::Serialize;

use super::{newest::Newest, rows::Order};
use crate::stream::Position;

/// What a recovery would do.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// Redis' clock; names the plan in the log.
    pub taken: Millis,
    /// The stream.
    pub stream: String,
    /// Its group.
    pub group: String,
    /// The group to create; `None` if it exists.
    pub create_group: Option<NewGroup>,
    /// Stuck entries with their verdicts, in the order in which they are processed.
    pub entries: Vec<EntryPlan>,
    /// Entries of buyers without an order that the group has passed, and why they cannot become an order: left alone.
    pub unwritable: Vec<EntryPlan>,
    /// Entries in flight of users who are no buyers in Redis: the service has given their pieces back, or Redis has lost
    /// the buyers. Which of the two cannot be seen, so they are left alone.
    pub not_promised: Vec<EntryPlan>,
    /// Entries in flight that a live consumer may be processing, or that are not old enough: left alone.
    pub left: u64,
    /// Entries in flight whose sale has moved to an engine: left alone.
    pub moved: u64,
    /// There are more entries in flight than one plan reads.
    pub more_entries: bool,
    /// Sales with something to do or to know.
    pub sales: Vec<SalePlan>,
    /// Keys of a stock or of buyers that hold another value: their sales are not rebuilt.
    pub unreadable: Vec<ForeignKey>,
    /// Sales without a stock whose mark Redis does not have, and may have lost: whether they have moved to an engine is
    /// unknown, so no stock is loaded and no order written.
    pub maybe_moved: Vec<VoucherId>,
    /// Whether the buyers of all sales were compared with the orders: there may be more than one pass reads.
    pub buyers_compared: bool,
    /// Whether the stock in Redis was compared: not while users buy, and only if all entries were read.
    pub stock_compared: bool,
    /// Whether the database is a replica, whose rows may be those of a moment ago; `None` if its user may not know.
    pub is_replica: Option<bool>,
    /// How long a difference of stocks must last before a stock is raised or a buyer removed, in milliseconds.
    pub wait_ms: u64,
    /// How far the stream had come before anything was read.
    #[serde(skip)]
    pub(super) position: Position,
    /// The newest entries of the users of these entries.
    #[serde(skip)]
    pub(super) newest: Newest,
}

/// A group to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewGroup {
    /// It begins after this entry: all entries up to it have an order.
    pub start: String,
    /// Entries after that which have an order. Consumers of the service receive them again.
    pub again: u64,
}

/// One entry: stuck, or left alone for a reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EntryPlan {
    /// Its ID.
    pub entry: String,
    /// The consumer that holds it; `None` if it was never delivered and no consumer is alive.
    pub consumer: Option<String>,
    /// Milliseconds since it was delivered, or added.
    pub idle_ms: u64,
    /// Number of deliveries.
    pub deliveries: u64,
    /// Its order.
    pub order_id: Option<OrderId>,
    /// Its user.
    pub user_id: Option<UserId>,
    /// Its sale.
    pub voucher_id: Option<VoucherId>,
    /// The verdict.
    pub verdict: Verdict,
    /// What is done.
    pub action: RecoveryAction,
    /// Why it yields no order.
    pub fault: Option<OrderError>,
    /// The group has passed it, and it is not pending: it was acknowledged without an order, or the group began after it.
    pub passed: bool,
    /// The dead letter of its order, which an earlier recovery has made.
    pub letter: Option<String>,
    /// Undelivered entries before it whose sale has moved, or whose user is no buyer: they are delivered with it, and
    /// left alone.
    #[serde(skip)]
    pub(super) behind: Vec<String>,
    /// What Redis has of its user.
    #[serde(skip)]
    pub(super) buyer: Buyer,
}

/// What Redis has of the user of an entry. An order is written only for a piece that no other user can buy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Buyer {
    /// The user is among the buyers.
    Member,
    /// Redis has no stock of the sale, which has not moved (`--not-moved`): it sells nothing, and whether the user is
    /// still among the buyers does not matter.
    LostSale,
    /// The sale has no stock, and may have moved to an engine.
    MaybeMoved,
    /// The user is no buyer of a sale that has a stock, or the buyers cannot be read.
    #[default]
    Unknown,
}

impl EntryPlan {
    /// The order that it asks for.
    pub(super) fn asked(&self) -> Option<Order> {
        let (id, user, voucher) = (self.order_id?, self.user_id?, self.voucher_id?);
        Some(Order { id, user, voucher })
    }

    /// The order that it is planned to become.
    pub(super) fn order(&self) -> Option<Order> {
        self.asked().filter(|_| self.action == RecoveryAction::Process)
    }

    /// Where it waits, for the script that takes it.
    pub(super) fn place(&self) -> &'static str {
        match self.consumer {
            _ if self.passed => "passed",
            None => "undelivered",
            Some(_) => "pending",
        }
    }
}

/// One sale.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SalePlan {
    /// The sale.
    pub voucher_id: VoucherId,
    /// Orders in SQL; `None` if there are more than one pass reads.
    pub orders: Change<Option<u64>>,
    /// Stock in SQL.
    pub sql_stock: Change<i64>,
    /// Stock in Redis; `None` without a number.
    pub redis_stock: Change<Option<i64>>,
    /// Users with a live order, or an entry that will become one, who are added to the buyers.
    pub add_buyers: Vec<String>,
    /// Buyers with neither an order nor an entry.
    pub buyers_without_order: Vec<String>,
    /// Buyers whose only orders are closed, without an entry: their pieces are not sold again, and they are not removed.
    pub buyers_with_closed_order: Vec<String>,
    /// Whether `buyers_without_order` are removed.
    pub remove_buyers: bool,
}

/// A figure now, and after the plan if nothing else happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Change<T> {
    /// Current value.
    pub now: T,
    /// Expected value.
    pub after: T,
}

impl<T: PartialEq> Change<T> {
    /// Whether anything changes.
    pub fn is_change(&self) -> bool {
        self.now != self.after
    }
}

impl SalePlan {
    /// Whether the stock is raised or set where there is none, or buyers are removed: only if nothing moves for a while.
    pub fn waits(&self) -> bool {
        let raises = self.redis_stock.is_change() && self.redis_stock.after > self.redis_stock.now;
        raises || self.remove_buyers
    }

    /// Whether buyers or stock in Redis change.
    pub fn rebuilds(&self) -> bool {
        let removes = self.remove_buyers && !self.buyers_without_order.is_empty();
        self.redis_stock.is_change() || !self.add_buyers.is_empty() || removes
    }
}

impl Plan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.create_group.is_none()
            && self.entries.is_empty()
            && !self.sales.iter().any(SalePlan::rebuilds)
    }

    /// Number of entries with this action.
    pub fn count(&self, action: RecoveryAction) -> u64 {
        self.entries.iter().filter(|it| it.action == action).count() as u64
    }
}

/// What a recovery has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// The group was created.
    pub created_group: bool,
    /// Orders written.
    pub replayed: u64,
    /// Entries acknowledged whose order was in SQL.
    pub acknowledged: u64,
    /// Entries moved to the dead letters.
    pub dead_letters: u64,
    /// Entries that their consumer has processed or received again since the plan, or whose sale moves.
    pub changed: u64,
    /// Entries left alone because the service has given their pieces back since the plan. Their users may have bought again.
    pub not_promised: u64,
    /// Entries left alone because the lock of their user is held: a consumer may be writing an order of this user.
    pub locked: u64,
    /// Planned entries that were not processed, because of the limit, a signal or an error.
    pub left: u64,
    /// Buyers added.
    pub added_buyers: u64,
    /// Buyers that were not added, because their orders were closed since the plan, or their sale is on sale again.
    pub skipped_buyers: u64,
    /// Buyers removed.
    pub removed_buyers: u64,
    /// Sales whose stock in Redis was set.
    pub stocks: u64,
    /// Sales whose stock was not set, because the sale has changed since the plan.
    pub stale: Vec<VoucherId>,
    /// A signal ended it early.
    pub cut_short: bool,
}

impl Applied {
    /// Whether the whole plan was applied.
    pub fn is_complete(&self) -> bool {
        self.left + self.locked + self.not_promised + self.skipped_buyers == 0
            && self.stale.is_empty()
            && !self.cut_short
    }
}

/// What is left, read again after a recovery. `None`: unknown, or more than one pass can count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Proof {
    /// Entries pending for too long; all undelivered ones, if the oldest has waited for too long.
    pub stuck: Option<u64>,
    /// Entries pending.
    pub pending: u64,
    /// Entries never delivered.
    pub undelivered: Option<u64>,
    /// Buyers with neither an order nor an entry.
    pub buyers_without_order: Option<u64>,
    /// Buyers whose only orders are closed.
    pub buyers_with_closed_order: Option<u64>,
    /// Users with a live order who are no buyers.
    pub orders_without_buyer: Option<u64>,
    /// Users with several live orders in one sale.
    pub duplicate_buyers: u64,
    /// Sales of which more was sold than there was.
    pub oversold: u64,
    /// Sales whose stock differs between Redis and SQL although no order is in flight.
    pub stock_mismatches: Option<u64>,
}

impl Proof {
    /// Whether nothing is left to recover.
    pub fn is_clean(&self) -> bool {
        let counted = [
            self.stuck,
            self.buyers_without_order,
            self.buyers_with_closed_order,
            self.orders_without_buyer,
            self.stock_mismatches,
        ];
        let rest = [self.duplicate_buyers, self.oversold];
        counted.iter().all(|it| *it == Some(0)) && rest.iter().all(|it| *it == 0)
    }
}
