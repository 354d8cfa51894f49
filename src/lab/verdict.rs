//! The verdict on one run, counted in SQL whatever the design replied.

use std::collections::{BTreeMap, BTreeSet};

use seckill_store::plain::PlainConnection;
use serde::Serialize;

use crate::{
    Design, Promise, Result, Step, ownership,
    parent::{Reply, Served},
    trace::Action,
    work::{VOUCHER, Work},
};

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Requests that were served.
    pub requests: u64,
    /// Orders in SQL.
    pub sold: u64,
    /// Orders beyond the stock.
    pub oversold: u64,
    /// Users with more than one order in SQL.
    pub users_with_two_orders: u64,
    /// Orders in replies that are not in SQL.
    pub lost: u64,
    /// Users without an order who waited in vain for a lock whose holder had died.
    pub locked_out: u64,
    /// Locks of other requests that were deleted.
    pub deleted_locks: u64,
    /// Pieces that were left while users were turned away; those of lost orders are not left.
    pub unsold: u64,
    /// The stock in SQL.
    pub stock_left: i64,
    /// Replies with an order.
    pub replied_bought: u64,
    /// Replies that the sale is sold out.
    pub replied_sold_out: u64,
    /// Replies that the user has an order.
    pub replied_duplicate: u64,
    /// Failed requests.
    pub failed: u64,
    /// The first failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Statements to the database.
    pub sql: u64,
    /// Commands to Redis; for the engine, all scripts of its nodes in that time.
    pub redis: u64,
    /// The IDs of all orders in SQL.
    #[serde(skip)]
    pub orders: BTreeSet<i64>,
    /// The promises that it broke, of those that its question asks for.
    pub broken: BTreeSet<Promise>,
}

impl Verdict {
    /// Counts orders and stock, and compares them with the replies.
    pub(crate) async fn count(
        sql: &mut PlainConnection,
        design: &Design,
        work: &Work,
        served: &[Served],
    ) -> Result<Self> {
        let query = "SELECT stock FROM tb_seckill_voucher WHERE voucher_id = $1";
        let stock_left = sql.rows::<1>(query, &[VOUCHER]).await?.first().map_or(0, |row| row[0]);
        let query = "SELECT id, user_id FROM tb_voucher_order WHERE voucher_id = $1";
        let orders = sql.rows::<2>(query, &[VOUCHER]).await?;
        let ids: BTreeSet<i64> = orders.iter().map(|[id, _]| *id).collect();
        let mut of_user: BTreeMap<i64, u64> = BTreeMap::new();
        for [_, user] in &orders {
            *of_user.entry(*user).or_default() += 1;
        }
        let (mut replied_bought, mut replied_sold_out, mut replied_duplicate) = (0, 0, 0);
        let (mut failed, mut failure, mut lost) = (0, None, 0);
        let (mut turned_away, mut locked_out) = (BTreeSet::new(), BTreeSet::new());
        for Served { user, reply, .. } in served {
            match reply {
                Reply::Bought(order) => {
                    replied_bought += 1;
                    lost += u64::from(!ids.contains(order));
                }
                Reply::SoldOut => {
                    replied_sold_out += 1;
                    turned_away.insert(*user);
                }
                Reply::Duplicate => replied_duplicate += 1,
                Reply::Locked => {
                    locked_out.insert(*user);
                }
                Reply::Failed(why) => {
                    failed += 1;
                    failure.get_or_insert_with(|| why.to_string());
                }
            }
        }
        turned_away.retain(|user| !of_user.contains_key(user));
        let steps = || served.iter().flat_map(|it| &it.steps);
        let died: BTreeSet<i64> =
            steps().filter(|it| it.action == Action::Killed).map(|it| it.user).collect();
        locked_out.retain(|user| died.contains(user) && !of_user.contains_key(user));
        let (stock, sold) = (u64::from(work.stock), orders.len() as u64);
        let mut verdict = Self {
            requests: served.len() as u64,
            sold,
            oversold: sold.saturating_sub(stock),
            users_with_two_orders: of_user.values().filter(|count| **count > 1).count() as u64,
            lost,
            locked_out: locked_out.len() as u64,
            deleted_locks: ownership::deletions(served).len() as u64,
            unsold: stock.saturating_sub(sold + lost).min(turned_away.len() as u64),
            stock_left,
            replied_bought,
            replied_sold_out,
            replied_duplicate,
            failed,
            failure,
            sql: steps().filter(|it| it.action.is_sql()).count() as u64,
            redis: steps().map(Step::redis_commands).sum::<usize>() as u64,
            orders: ids,
            broken: BTreeSet::new(),
        };
        let asked = Promise::all().filter(|promise| design.question.asks_for(*promise));
        verdict.broken = asked.filter(|promise| verdict.anomalies(*promise) > 0).collect();
        Ok(verdict)
    }

    /// How often it broke a promise.
    pub fn anomalies(&self, promise: Promise) -> u64 {
        match promise {
            Promise::NoOverselling => self.oversold,
            Promise::OneOrder => self.users_with_two_orders,
            Promise::NoLoss => self.lost,
            Promise::SellsOut => self.unsold,
            Promise::FreedAfterDeath => self.locked_out,
            Promise::OwnLock => self.deleted_locks,
        }
    }
}
