//! An independent count of both sides after a migration. It reads servers only, and uses no plan.

use std::collections::{BTreeMap, HashMap, HashSet};

use redis::{cmd, pipe};
use seckill_model::{Order, OrderId, UserId};
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
}

impl Proof {
    /// No order is missing.
    pub fn is_complete(&self) -> bool {
        self.orders == self.matching
    }
}

impl Migration {
    /// Counts both sides; `back`: the sale came from the engine.
    pub async fn prove(&mut self, back: bool) -> Result<Proof> {
        let Service { keys, members, waiting, row, orders: rows, .. } = self.read().await?;
        let [mut closed, mut foreign]: [Found; 2] = Default::default();
        let mut of_service: BTreeMap<UserId, OrderId> = BTreeMap::new();
        for row in &rows {
            let live = self.status(row, &mut closed, &mut foreign);
            if let (Some(_), Some(id), Some(user)) =
                (live, OrderId::from_i64(row.id), user_id(&row.user))
            {
                of_service.insert(user, id);
            }
        }
        let mut proof = Proof::default();
        proof.service.orders = of_service.len() as u64;
        let in_set: HashSet<UserId> = members.iter().filter_map(|it| user_id(it)).collect();
        let at_engine = self.all_orders().await?;
        if back {
            let is_there = |it: &&Order| {
                of_service.get(&it.user_id) == Some(&it.id) && in_set.contains(&it.user_id)
            };
            let live = || at_engine.iter().filter(|it| it.status.is_live());
            proof.orders = live().count() as u64;
            proof.matching = live().filter(is_there).count() as u64;
        } else {
            for it in &waiting {
                // An entry of an order in SQL is not another order.
                if let (Some(user), Ok(id)) = (user_id(&it.user), it.order.parse())
                    && !of_service.contains_key(&user)
                {
                    of_service.insert(user, id);
                    proof.service.in_flight += 1;
                }
            }
            let in_sql: HashMap<(UserId, OrderId), bool> =
                at_engine.iter().map(|it| ((it.user_id, it.id), it.status.is_live())).collect();
            proof.orders = of_service.len() as u64;
            let wanted: Vec<_> = of_service.into_iter().collect();
            for page in wanted.chunks(PAGE) {
                let mut read = cmd("HMGET");
                read.arg(self.engine.keys.buyers(self.voucher));
                for (user, _) in page {
                    read.arg(user.to_string());
                }
                let held: Vec<Option<String>> = self.engine.conn.query(&read).await?;
                // An order that the engine has closed since has no buyer.
                let same = page.iter().zip(held).filter(|(order, held)| {
                    let is_live = in_sql.get(order);
                    is_live.is_some_and(|live| !live || *held == Some(order.1.to_string()))
                });
                proof.matching += same.count() as u64;
            }
        }
        proof.service.buyers = keys.buyers.unwrap_or(0);
        (proof.service.redis_stock, proof.service.sql_stock) = (keys.stock, row.stock);
        proof.engine = self.engine_figures().await?;
        Ok(proof)
    }

    async fn engine_figures(&mut self) -> Result<Figures> {
        let Engine { store, keys, conn, .. } = &mut self.engine;
        let ledger = store.ledger(self.voucher).await.map_err(AttachError::Store)?;
        let (stock, buyers) = (keys.stock(self.voucher), keys.buyers(self.voucher));
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
