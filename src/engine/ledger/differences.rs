//! Finds the orders that differ between the buyers in Redis and the live orders in SQL. Only these, and orders in flight,
//! are held in memory.
//!
//! One pass over both servers hashes each order into one of many buckets; a second pass, if any buckets differ, lists
//! the orders in those. Orders that may be moving from Redis to SQL are listed in any case.

use std::{
    collections::HashSet,
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash},
};

use seckill_model::{OrderId, SaleOrder, ShardId};
use seckill_store::SharedStore;

use super::{flows, for_each_buyer};
use crate::{Result, deployment::servers::Servers};

/// 10 million orders are 150 in each bucket.
const BUCKETS: usize = 1 << 16;
/// Orders in one read from SQL.
const PAGE: u32 = 10_000;
/// IDs of the last seconds are listed: they may be admitted during the passes.
const RECENT_SECONDS: i64 = 5;

/// What has to be looked at one by one.
#[derive(Debug, Default)]
pub(super) struct Differences {
    /// By ID, each once.
    pub(super) buyers: Vec<SaleOrder>,
    /// Live orders.
    pub(super) orders: Vec<SaleOrder>,
}

/// Compares every buyer of a shard with its live orders.
pub(super) async fn find(servers: &mut Servers, shard: ShardId) -> Result<Differences> {
    let of = servers.keys.partition_of(shard);
    let flows = flows(servers, &of).await?;
    let moving = [flows.undelivered, flows.pending, flows.dead].concat();
    let moving: HashSet<OrderId> = moving.iter().map(|entry| entry.order).collect();
    let now = servers.conn.now_at(&of.orders()).await?;
    let recent = now.0 / 1_000 - RECENT_SECONDS;
    let is_moving = |it: &SaleOrder| it.id.unix_seconds() >= recent || moving.contains(&it.id);
    let (mut in_redis, mut in_sql) = (Digest::default(), Digest::default());
    let Differences { mut buyers, mut orders } = Differences::default();
    let add = |order: SaleOrder, digest: &mut Digest, list: &mut Vec<_>| {
        if is_moving(&order) { list.push(order) } else { digest.add(&order) }
    };
    let buyer = |it| add(it, &mut in_redis, &mut buyers);
    read_both(servers, shard, buyer, |it| add(it, &mut in_sql, &mut orders)).await?;
    if in_redis != in_sql {
        let differs = |it: &SaleOrder| !is_moving(it) && in_redis.bucket(it) != in_sql.bucket(it);
        let buyer = |it| buyers.extend(differs(&it).then_some(it));
        let order = |it| orders.extend(differs(&it).then_some(it));
        read_both(servers, shard, buyer, order).await?;
    }
    // A hash that is resized during the scan returns some fields twice.
    buyers.sort_unstable();
    buyers.dedup();
    Ok(Differences { buyers, orders })
}

/// Reads the buyers and the live orders at the same time.
async fn read_both(
    servers: &mut Servers,
    shard: ShardId,
    buyer: impl FnMut(SaleOrder),
    mut order: impl FnMut(SaleOrder),
) -> Result<()> {
    let store = SharedStore::clone(&servers.store);
    let orders = async {
        let mut after = None;
        loop {
            let page = store.live_orders(shard, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.id);
            page.into_iter().for_each(&mut order);
        }
    };
    tokio::try_join!(for_each_buyer(servers, shard, buyer), orders).map(|_| ())
}

/// The number of orders in each bucket, and the sum of their hashes. Two different sets have equal digests with a
/// probability of about 2^-64.
#[derive(PartialEq, Eq)]
struct Digest(Vec<(u64, u64)>);

impl Default for Digest {
    fn default() -> Self {
        Self(vec![(0, 0); BUCKETS])
    }
}

impl Digest {
    fn add(&mut self, order: &SaleOrder) {
        let (count, sum) = &mut self.0[Self::bucket_index(order)];
        (*count, *sum) = (*count + 1, sum.wrapping_add(hash(order)));
    }

    fn bucket(&self, order: &SaleOrder) -> (u64, u64) {
        self.0[Self::bucket_index(order)]
    }

    /// By ID: two orders that have the same one are in the same bucket.
    fn bucket_index(order: &SaleOrder) -> usize {
        hash(&order.id) as usize % BUCKETS
    }
}

fn hash(value: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}

#[cfg(test)]
mod tests {
    use seckill_model::{UserId, VoucherId};

    use super::*;

    fn order(id: i64, user: u64, place: u8) -> SaleOrder {
        let id = OrderId::from_i64(id).unwrap();
        SaleOrder { id, user_id: UserId(user), voucher_id: VoucherId(7), shard: 0, place }
    }

    fn digest(orders: &[SaleOrder]) -> Digest {
        let mut digest = Digest::default();
        for order in orders {
            digest.add(order);
        }
        digest
    }

    #[test]
    fn a_digest_depends_on_each_part_of_each_order_and_on_no_sequence() {
        let orders = [order(1, 10, 1), order(2, 20, 1), order(3, 30, 2)];
        let [a, b, c] = orders;
        let whole = digest(&orders);
        assert!(whole == digest(&[c, a, b]));
        for other in [
            vec![a, b],
            vec![a, b, c, c],
            vec![order(1, 20, 1), order(2, 10, 1), c],
            vec![a, b, order(3, 30, 1)],
            vec![a, b, order(4, 30, 2)],
        ] {
            assert!(whole != digest(&other), "{other:?}");
        }
    }
}
