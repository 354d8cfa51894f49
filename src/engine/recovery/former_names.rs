//! Shards of which an earlier version sold each as a voucher of its own: their keys in Redis are renamed, once.
//!
//! Entries and dead letters keep the ID that such a shard had; they are read as entries of the voucher that was sold.

use seckill_model::{ShardId, VoucherId};
use seckill_redis::{RedisError, keys::Partition, scripts};

use crate::servers::Servers;

/// Shards whose keys are renamed in one call.
const PAGE: usize = 100;

/// Renames the keys of the shards of a partition that have the names of an earlier version. Nothing reads or rebuilds a
/// shard before: without its buyers, it would sell their pieces again.
pub async fn rename(servers: &mut Servers, of: &Partition) -> Result<(), RedisError> {
    let Servers { conn, keys, .. } = servers;
    let shards: Vec<(VoucherId, ShardId)> = keys.former_of(of);
    for page in shards.chunks(PAGE) {
        let mut call = scripts::RENAME_SHARDS.prepare_invoke();
        for (former, shard) in page {
            call.key(&keys.former_keys(*shard, *former));
            call.key(&keys.sale_keys(*shard)).key(keys.tally(*shard));
            call.arg(shard.sale.0);
        }
        let renamed: u64 = conn.invoke(&call).await?;
        if renamed > 0 {
            let partition = of.number();
            tracing::info!(partition, renamed, "keys of shards have been renamed");
        }
    }
    Ok(())
}

/// The same in each partition whose server replies. The others follow before a node sells there.
pub async fn rename_all(servers: &mut Servers) -> Result<(), RedisError> {
    for of in servers.conn.reachable(&servers.keys) {
        match rename(servers, &of).await {
            Err(error) if !error.is_away() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
