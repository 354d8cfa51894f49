//! Shards of which an earlier version sold each as a voucher of its own: their keys in Redis are renamed, once.
//!
//! Entries and dead letters keep the ID that such a shard had; they are read as entries of the voucher that was sold.

use redis::{cmd, pipe};
use seckill_model::{SaleId, ShardId, Spread, VoucherId, sale::MAX_SHARDS};
use seckill_redis::{RedisError, keys::Partition, lossy_utf8::Text, scripts, stream_stats};

use crate::{Result, deployment::servers::Servers};

/// Shards whose keys are renamed in one call.
const PAGE: usize = 100;

/// Renames the keys of the shards of a partition that have the names of an earlier version. Nothing reads or rebuilds a
/// shard before: without its buyers, it would sell their pieces again.
pub async fn rename(servers: &mut Servers, of: &Partition) -> Result<(), RedisError> {
    let shards = servers.keys.former_of(of);
    rename_these(servers, of, &shards).await
}

async fn rename_these(
    servers: &mut Servers,
    of: &Partition,
    shards: &[(VoucherId, ShardId)],
) -> Result<(), RedisError> {
    let Servers { conn, keys, .. } = servers;
    for page in shards.chunks(PAGE) {
        let mut call = scripts::RENAME_SHARDS.prepare_invoke();
        for (former, shard) in page {
            call.key(&keys.former_keys(*shard, *former));
            call.key(&keys.sale_keys(*shard)).key(keys.tally(*shard));
            call.arg(shard.sale.0).arg(former.0);
        }
        let renamed: u64 = conn.invoke(&call).await?;
        if renamed > 0 {
            let partition = of.number();
            tracing::info!(partition, renamed, "keys of shards have been renamed");
        }
    }
    Ok(())
}

/// Renames the keys of shards of which the database has lost the sale, in each partition whose server replies: the
/// database does not know their earlier IDs, and Redis does. Scans all keys.
pub(crate) async fn rename_lost(servers: &mut Servers) -> Result<()> {
    for of in servers.conn.reachable(&servers.keys) {
        let mut lost = Vec::new();
        for held in stream_stats::shards_held(&mut servers.conn, &of).await? {
            if let Some(shard) = shard_with_keys_of(servers, held).await? {
                lost.push((held.voucher(), shard));
            }
        }
        rename_these(servers, &of, &lost).await?;
        // Not before: entries of a shard without keys would be those of an unknown sale.
        for (former, shard) in lost {
            servers.keys.learn_former(former, shard);
        }
    }
    Ok(())
}

/// The shard whose keys have the names of `held` in Redis, because that was its ID in an earlier version; `None` if a
/// voucher has the ID.
pub(crate) async fn shard_with_keys_of(
    servers: &mut Servers,
    held: ShardId,
) -> Result<Option<ShardId>> {
    if held.number > 0 {
        return Ok(None);
    }
    let former = held.voucher();
    let found = match named_by_sale(servers, former).await? {
        Some(shard) if servers.store.voucher(former).await?.is_none() => Some(shard),
        _ => None,
    };
    Ok(found)
}

/// The shard that had the ID of `held` in an earlier version, if the database has lost its sale and its keys are renamed.
/// From now on, this process reads entries with that ID as its entries.
pub(crate) async fn lost_shard(servers: &mut Servers, held: ShardId) -> Result<Option<ShardId>> {
    let former = held.voucher();
    if held.number > 0 || servers.store.voucher(former).await?.is_some() {
        return Ok(None);
    }
    let found = named_by_shard(servers, former).await?;
    if let Some(shard) = found {
        servers.keys.learn_former(former, shard);
    }
    Ok(found)
}

/// Learns from Redis which ID a shard had in an earlier version, if it had one.
pub(crate) async fn learn(servers: &mut Servers, shard: ShardId) -> Result<()> {
    let read = cmd("HGET").arg(servers.keys.sale(shard)).arg("former").take();
    let former: Option<u64> = servers.conn.query(&read).await?;
    if let Some(former) = former.map(VoucherId)
        && servers.store.voucher(former).await?.is_none()
    {
        servers.keys.learn_former(former, shard);
    }
    Ok(())
}

/// By the field of its sale under the earlier name: `1/8` in the sale of voucher 3 is its second shard.
async fn named_by_sale(
    servers: &mut Servers,
    former: VoucherId,
) -> Result<Option<ShardId>, RedisError> {
    let of_sale = servers.keys.sale(ShardId::only(former));
    let spread: Option<Text> = match servers.conn.query(cmd("HGET").arg(of_sale).arg("shard")).await
    {
        Err(RedisError::Rejected(_) | RedisError::Foreign(_) | RedisError::Reply(_)) => None,
        spread => spread?,
    };
    let spread: Option<Spread> = spread.and_then(|Text(spread)| spread.parse().ok());
    Ok(spread.and_then(|spread| {
        let number = u16::try_from(former.0.checked_sub(spread.sale.0)?).ok()?;
        (1..=spread.count).contains(&number).then_some(ShardId { sale: spread.sale, number })
    }))
}

/// By the field of its sale under the present name, once its keys are renamed.
async fn named_by_shard(
    servers: &mut Servers,
    former: VoucherId,
) -> Result<Option<ShardId>, RedisError> {
    // The ID of a shard followed that of its sale by the number of the shard, so they are all in one partition.
    let shards: Vec<ShardId> = (1..=MAX_SHARDS)
        .filter_map(|number| {
            let sale = former.0.checked_sub(number.into()).filter(|sale| *sale > 0)?;
            Some(ShardId { sale: SaleId(sale), number })
        })
        .collect();
    if shards.is_empty() {
        return Ok(None);
    }
    let mut read = pipe();
    for shard in &shards {
        read.cmd("HGET").arg(servers.keys.sale(*shard)).arg("former");
    }
    let found: Vec<Option<Text>> = servers.conn.pipe(&read).await?;
    let id = former.to_string();
    let mut found = shards.into_iter().zip(found);
    Ok(found.find(|(_, it)| it.as_ref().is_some_and(|Text(it)| *it == id)).map(|(shard, _)| shard))
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
