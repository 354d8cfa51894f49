//! An independent count of both sides after a migration. It reads servers only, and uses no plan.

use std::collections::{BTreeMap, HashMap, HashSet};

use redis::{cmd, pipe};
use seckill_model::{OrderId, OrderStatus, ShardId, UserId};
use serde::Serialize;

use super::{
    Engine, Migration, PAGE, Service,
    plan::{Found, user_id},
};
use crate::{AttachError, Result};

/// What one side has of a sale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Users among the buyers in Redis.
    pub buyers: u64,
    /// Live orders in SQL.
    pub orders: u64,
    /// Orders that only entries contain.
    pub in_flight: u64,
    /// Pieces left in Redis; `None` without a stock.
    pub redis_stock: Option<i64>,
    /// Pieces left in SQL.
    pub sql_stock: i64,
}

/// Both sides, and what they agree on. The keys are a contract of `attach migrate --json`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Proof {
    /// The service.
    pub service: Figures,
    /// The engine.
    pub engine: Figures,
    /// Orders of the side that the sale came from.
    pub orders: u64,
    /// Those of them that the other side has, for the same user and under the same ID, in Redis and in SQL.
    pub matching: u64,
    /// Those of them whose status on the other side does not follow from theirs, for example unpaid instead of paid.
    pub differing: u64,
    /// Pieces left and pieces sold are as many as on the side that the sale came from.
    pub stock_matches: bool,
    /// Those of `orders` that the other side has in SQL.
    #[serde(skip)]
    in_sql: u64,
}

impl Proof {
    /// No order, payment or piece is missing.
    pub fn is_complete(&self) -> bool {
        self.has_orders() && self.stock_matches
    }

    /// No order or payment is missing.
    pub fn has_orders(&self) -> bool {
        self.orders == self.matching && self.differing == 0
    }

    /// The same, in SQL alone.
    pub(super) fn has_rows(&self) -> bool {
        self.orders == self.in_sql && self.differing == 0
    }
}

/// Whether the status on the new side may follow from that on the old one.
fn follows(old: OrderStatus, new: OrderStatus) -> bool {
    use OrderStatus::{Paid, Unpaid, Used};
    old == new || old == Unpaid || (old, new) == (Paid, Used)
}

impl Migration {
    /// Counts both sides; `back`: the sale came from the engine.
    pub async fn prove(&mut self, back: bool) -> Result<Proof> {
        let Service { keys, members, waiting, replaced, row, orders: rows, .. } =
            self.read().await?;
        let [mut closed, mut foreign]: [Found; 2] = Default::default();
        let mut of_service: BTreeMap<UserId, (OrderId, OrderStatus)> = BTreeMap::new();
        for row in &rows {
            let live = self.status(row, &mut closed, &mut foreign);
            if let (Some(status), Some(id), Some(user)) =
                (live, OrderId::from_i64(row.id), user_id(&row.user))
            {
                of_service.insert(user, (id, status));
            }
        }
        let mut proof = Proof::default();
        proof.service.orders = of_service.len() as u64;
        proof.service.buyers = keys.buyers.unwrap_or(0);
        (proof.service.redis_stock, proof.service.sql_stock) = (keys.stock, row.stock);
        proof.engine = self.engine_figures().await?;
        let in_set: HashSet<UserId> = members.iter().filter_map(|it| user_id(it)).collect();
        let at_engine = self.all_orders().await?;
        if back {
            for order in &at_engine {
                if !order.status.is_live() {
                    let there = of_service.get(&order.user_id).filter(|it| it.0 == order.id);
                    proof.differing += u64::from(there.is_some());
                    continue;
                }
                proof.orders += 1;
                let Some((id, status)) = of_service.get(&order.user_id) else { continue };
                if *id != order.id {
                    continue;
                }
                proof.in_sql += 1;
                proof.matching += u64::from(in_set.contains(&order.user_id));
                proof.differing += u64::from(!follows(order.status, *status));
            }
            let Figures { buyers, redis_stock, .. } = proof.service;
            proof.stock_matches = units(buyers, redis_stock)
                == units(proof.engine.orders, Some(proof.engine.sql_stock));
        } else {
            for it in waiting.iter().filter(|it| !replaced.contains(&it.entry)) {
                // An entry of an order in SQL is not another order.
                if let (Some(user), Ok(id)) = (user_id(&it.user), it.order.parse())
                    && !of_service.contains_key(&user)
                {
                    of_service.insert(user, (id, self.first_status()));
                    proof.service.in_flight += 1;
                }
            }
            let in_sql: HashMap<(UserId, OrderId), OrderStatus> =
                at_engine.iter().map(|it| ((it.user_id, it.id), it.status)).collect();
            proof.orders = of_service.len() as u64;
            let wanted: Vec<_> = of_service.into_iter().collect();
            for page in wanted.chunks(PAGE) {
                let mut read = cmd("HMGET");
                read.arg(self.engine.keys.buyers(ShardId::only(self.voucher)));
                for (user, _) in page {
                    read.arg(user.to_string());
                }
                let held: Vec<Option<String>> = self.engine.conn.query(&read).await?;
                for ((user, (id, status)), held) in page.iter().zip(held) {
                    let Some(here) = in_sql.get(&(*user, *id)) else { continue };
                    proof.in_sql += 1;
                    // An order that the engine has closed since has no buyer.
                    let is_held = !here.is_live() || held == Some(id.to_string());
                    proof.matching += u64::from(is_held);
                    proof.differing += u64::from(!follows(*status, *here));
                }
            }
            let Figures { orders, sql_stock, .. } = proof.service;
            let Figures { buyers, redis_stock, .. } = proof.engine;
            let here = units(proof.engine.orders, Some(proof.engine.sql_stock));
            // Its pieces may have been changed in the engine since.
            let is_changed = self.engine_sale().await?.is_none_or(|sale| sale.version > 1);
            let is_same = here == units(orders, Some(sql_stock));
            proof.stock_matches = here == units(buyers, redis_stock) && (is_changed || is_same);
        }
        Ok(proof)
    }

    async fn engine_figures(&mut self) -> Result<Figures> {
        let (shard, Engine { store, keys, conn, .. }) =
            (ShardId::only(self.voucher), &mut self.engine);
        let ledger = store.ledger(shard).await.map_err(AttachError::Store)?;
        let (stock, buyers) = (keys.stock(shard), keys.buyers(shard));
        let mut read = pipe();
        read.cmd("GET").arg(stock).cmd("HLEN").arg(&buyers);
        read.cmd("HEXISTS").arg(&buyers).arg("seq");
        read.cmd("HEXISTS").arg(&buyers).arg("restoring");
        let (redis_stock, fields, seq, restoring): (Option<i64>, u64, u64, u64) =
            conn.pipe(&read).await?;
        Ok(Figures {
            buyers: fields.saturating_sub(seq + restoring),
            orders: ledger.live,
            in_flight: 0,
            redis_stock,
            sql_stock: ledger.stock,
        })
    }
}

/// Pieces sold and left; `None` if what is left is unknown.
fn units(sold: u64, left: Option<i64>) -> Option<i64> {
    left?.checked_add(i64::try_from(sold).ok()?)
}
