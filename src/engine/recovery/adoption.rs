//! Adopts a sale from Redis into SQL, which was restored from a backup: it lacks the sale, or its last changes.
//!
//! Redis gets each version of a sale from SQL, so a Redis that is ahead of SQL shows that SQL was set back. A change that
//! builds on such a row would get the number of a version that Redis has with another content. It is therefore refused
//! before anything is written (`Vouchers`), except for one that stops the sale: an operator must be able to stop it at once,
//! so SQL first adopts the sale, and the change gets the version after that.
//!
//! A change that is made while Redis does not tell its version cannot be checked. If it gets the number of a version of
//! Redis, the delivery finds the two contents (`Synced::Split`): Redis sells as little as either, and SQL adopts that. An
//! adopted sale always has a version of its own, so what follows is delivered as usual.

use redis::cmd;
use seckill_model::{SaleId, SaleShard, SaleState, ShardId, VoucherId};
use seckill_redis::RedisError;
use seckill_store::StoreError;

use crate::{
    EngineError, Result,
    deployment::servers::Servers,
    ledger::sale_copy::{self, Synced, try_sync},
    recovery::former_names,
};

/// Adopts the sale of a shard that SQL lacks, or of which Redis has a newer version or the same one of another history. All
/// its shards together: a change of the sale may have reached only some of them. Nothing happens if SQL is not behind. Returns
/// whether this has paused the sale, because too little is left of it in Redis.
///
/// # Errors
/// [`EngineError::NotHeld`] if Redis has no such shard, [`EngineError::OtherSale`] if it has one of another sale. A server is
/// unreachable, also that of another shard, whose copy may be one that sells less: not for a sale that `stops`.
pub(crate) async fn adopt(servers: &mut Servers, shard: ShardId, stops: bool) -> Result<bool> {
    let known = match servers.store.shards_of(shard.sale).await {
        Err(StoreError::NoSale(_)) => Vec::new(),
        known => known?,
    };
    let known = |shard: ShardId| known.iter().find(|it| it.id == shard);
    let not_held = || EngineError::NotHeld(shard.voucher());
    let mut held = sale_copy::read(servers, shard).await?.ok_or_else(not_held)?;
    if let Some(known) = known(shard) {
        if held.is_of_other(known) {
            return Err(EngineError::OtherSale(shard.voucher()));
        }
        match held.version {
            Some(version) if version < known.version => return Ok(false),
            Some(version) if version == known.version => {
                match try_sync(servers, known, "").await? {
                    Synced::Split => {
                        held = sale_copy::read(servers, shard).await?.ok_or_else(not_held)?;
                    }
                    // Its values may be part of the damage.
                    Synced::Damaged if known.is_undelivered() => {}
                    _ => return Ok(false),
                }
            }
            _ => {}
        }
    }
    let sale = held.adopted(known(shard)).ok_or_else(not_held)?;
    // Without the others: a lost server delays only its own shards.
    if known(shard).is_some_and(|known| !sale.is_newer_than(known)) {
        return Ok(false);
    }
    let paused = sale.state == SaleState::Paused && !held.is_whole();
    let mut all = Vec::new();
    for other in sale.spread.iter().flat_map(|spread| spread.all()).filter(|it| *it != shard) {
        let held = match sale_copy::read(servers, other).await {
            Err(error) if stops && error.is_away() => continue,
            held => held?,
        };
        if held.as_ref().zip(known(other)).is_some_and(|(held, known)| held.is_of_other(known)) {
            return Err(EngineError::OtherSale(shard.voucher()));
        }
        all.extend(held.and_then(|held| held.adopted(known(other))));
    }
    all.push(sale);
    let mut former = Vec::new();
    for shard in &all {
        former_names::learn(servers, shard.id).await?;
        former.extend(servers.keys.former_of(&servers.keys.partition_of(shard.id)));
    }
    if !servers.store.adopt_sale(&all, &former).await? {
        return Ok(false);
    }
    tracing::warn!(%shard, paused, "SQL lacked changes of a sale, or all of it, and has adopted it from Redis");
    Ok(paused)
}

/// Adopts each shard of a sale, as far as Redis has it. Those of another sale are closed, and stay so.
///
/// # Errors
/// As [`adopt`]; a lost server is none for a sale that `stops`.
pub(crate) async fn adopt_each(
    servers: &mut Servers,
    shards: &[ShardId],
    stops: bool,
) -> Result<bool> {
    let mut any = false;
    for shard in shards {
        match adopt(servers, *shard, stops).await {
            Ok(paused) => any |= paused,
            Err(EngineError::NotHeld(_) | EngineError::OtherSale(_)) => {}
            Err(error) if stops && error.is_away() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(any)
}

/// Pauses a sale if SQL and Redis have lost a change of it that this process has seen in SQL: neither knows whether that
/// stopped the sale. Nothing happens if Redis still has the change. Returns whether the sale was running.
pub(crate) async fn pause_set_back(servers: &mut Servers, shard: ShardId) -> Result<bool> {
    // Before SQL is read, which may have a newer version by then.
    let Some(seen) = servers.seen.get(shard).map(|known| known.version) else { return Ok(false) };
    let known = servers.store.shard(shard).await?;
    let held = sale_copy::read(servers, shard).await?.filter(|held| !held.is_of_other(&known));
    if known.version >= seen || held.and_then(|held| held.version) >= Some(seen) {
        return Ok(false);
    }
    // What Redis has is newer than SQL, and the pause must not get the number of one of its versions.
    let shards = servers.store.shards_of(shard.sale).await?;
    let (mut paused, mut is_adopted) = (false, true);
    for shard in shards {
        match adopt(servers, shard.id, true).await {
            Ok(is_paused) => paused |= is_paused,
            Err(EngineError::NotHeld(_) | EngineError::OtherSale(_)) => {}
            // The pause does not wait for it. Redis may be ahead until then: this node sells none of its versions.
            Err(error) => {
                tracing::warn!(shard = %shard.id, %error, "SQL could not adopt a sale that it has in an older version");
                is_adopted = false;
            }
        }
    }
    let is_running = servers.store.sale(shard.sale).await?.state < SaleState::Paused;
    if is_running {
        servers.store.set_state(shard.sale, SaleState::Paused, None, &[]).await?;
        tracing::error!(%shard, "SQL and Redis have lost a change of a sale, which is paused; look at it, then resume it");
    }
    if is_adopted {
        servers.seen.forget(shard.sale);
        for shard in servers.store.shards_of(shard.sale).await? {
            servers.seen.note(&shard);
        }
    }
    Ok(paused || is_running)
}

/// Whether Redis has a sale, which SQL may lack: the first of its shards, or its only one.
pub(crate) async fn is_held(servers: &mut Servers, sale: SaleId) -> Result<bool, RedisError> {
    for number in [0, 1] {
        let read = cmd("EXISTS").arg(servers.keys.sale(ShardId { sale, number })).take();
        if servers.conn.query::<bool>(&read).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The error of a command about a sale that SQL does not have: Redis may still have it.
pub async fn no_sale(servers: &mut Servers, voucher: VoucherId) -> EngineError {
    match is_held(servers, voucher.into()).await {
        Ok(true) => EngineError::LostInSql(voucher),
        _ => StoreError::NoSale(voucher).into(),
    }
}

/// The shards of a sale that SQL has.
///
/// # Errors
/// [`EngineError::LostInSql`] if only Redis has it.
pub async fn shards_of(servers: &mut Servers, sale: SaleId) -> Result<Vec<SaleShard>> {
    match servers.store.shards_of(sale).await {
        Err(StoreError::NoSale(voucher)) => Err(no_sale(servers, voucher).await),
        shards => Ok(shards?),
    }
}
