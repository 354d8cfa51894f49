//! The servers of a deployment, as one task uses them.

use std::{collections::HashSet, time::Duration};

use redis::cmd;
use seckill_model::{OrderId, Place, SaleShard, ShardId, UserId, VoucherId};
use seckill_redis::{
    Connection, Layout, Redis, RedisError,
    keys::Partition,
    stream_stats::{RedisStats, read_partition},
};
use seckill_store::SharedStore;
use tokio::time::sleep;

use crate::{EngineError, Result, recovery::sale_versions::SaleVersions};

/// How often a read follows keys that move, and the pause before each time.
const MOVES: u32 = 3;
const MOVE_PAUSE: Duration = Duration::from_millis(50);

/// Redis, SQL and the names of the keys. Each task has its own: its connection to Redis cannot be shared, so that a
/// blocking read never delays another task.
#[derive(Debug)]
pub struct Servers {
    /// SQL.
    pub store: SharedStore,
    /// The connection to Redis.
    pub conn: Connection,
    /// Names of keys.
    pub keys: Layout,
    /// The versions of sales that this process has seen in SQL; a command sees none.
    pub seen: SaleVersions,
}

impl Servers {
    /// The same servers over a separate connection, opened on first use.
    pub fn new(redis: &Redis, store: &SharedStore, keys: &Layout) -> Self {
        let (store, seen) = (SharedStore::clone(store), SaleVersions::default());
        Self { store, conn: redis.connection(), keys: keys.clone(), seen }
    }

    /// Reads, and reads again what failed because a key moved to another server of a cluster meanwhile.
    ///
    /// # Errors
    /// Those of `read`.
    pub async fn following<T>(&mut self, read: impl AsyncFn(&mut Self) -> Result<T>) -> Result<T> {
        for _ in 0..MOVES {
            match read(self).await {
                // Until the servers agree on a failover.
                Err(EngineError::Redis(RedisError::Moved { .. })) => sleep(MOVE_PAUSE).await,
                read => return read,
            }
        }
        read(self).await
    }

    /// Reads the state of one partition, without its sales.
    pub(crate) async fn partition_stats(&mut self, of: &Partition) -> Result<RedisStats> {
        Ok(read_partition(&mut self.conn, &self.keys, of, &[]).await?)
    }

    /// Shards of a partition that Redis has to hold; without those of sales that cannot be read in SQL.
    pub(crate) async fn sales_of(&self, of: &Partition) -> Result<Vec<SaleShard>> {
        let mut shards = self.store.readable_sales().await?.shards;
        shards.retain(|shard| self.keys.partition_of(shard.id) == *of);
        Ok(shards)
    }

    /// The shard of a sale that sells to this user.
    pub(crate) async fn shard_of(&self, sale: VoucherId, user: UserId) -> Result<ShardId> {
        let spread = self.store.sale(sale).await?.spread;
        Ok(spread.map_or(ShardId::only(sale), |spread| spread.of_user(user)))
    }

    /// The orders among these that exist in SQL, in any state.
    pub(crate) async fn written(
        &self,
        orders: impl IntoIterator<Item = OrderId>,
    ) -> Result<HashSet<OrderId>> {
        let orders: Vec<OrderId> = orders.into_iter().collect();
        Ok(self.store.existing(&orders).await?.into_iter().collect())
    }

    /// The order that each of these places of a shard holds in Redis, in their order; `None` without a valid one.
    pub(crate) async fn held(
        &mut self,
        shard: ShardId,
        places: impl IntoIterator<Item = Place>,
    ) -> Result<Vec<Option<OrderId>>> {
        let mut read = cmd("HMGET");
        read.arg(self.keys.buyers(shard));
        for place in places {
            read.arg(place.to_string());
        }
        let held: Vec<Option<String>> = self.conn.query(&read).await?;
        Ok(held.into_iter().map(|id| id?.parse().ok()).collect())
    }
}
