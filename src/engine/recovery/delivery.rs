//! Delivers changes of sales to Redis. A change is committed in SQL first; any node delivers it until Redis confirms
//! its version.

use std::time::{Duration, Instant};

use redis::cmd;
use seckill_model::{SaleShard, SaleState, ShardId, locale::in_english};
use seckill_redis::{RedisError, keys::CacheKeys};
use tokio_util::sync::CancellationToken;

use crate::{
    EngineError, Result,
    ledger::sale_copy::{Synced, drop_keys, reject_behind, sync},
    recovery::{
        reconcile::{Reconciler, Scope, new_token},
        sale_versions::SaleVersions,
    },
    servers::Servers,
    telemetry::data_loss::Closed,
};

/// Maximum time until a change is confirmed by a Redis that loses keys of the sale again and again.
const CONFIRM_WITHIN: Duration = Duration::from_secs(30);
/// Maximum time for undoing one reduction of stock: others wait.
const UNDO_WITHIN: Duration = Duration::from_secs(1);
/// Interval between checks for unconfirmed changes.
const DELIVER_EVERY: Duration = Duration::from_millis(500);

/// Delivers a change of a shard to Redis and records that in SQL. A sale that Redis has lost is reconciled with its
/// buyers, so that nothing is sold twice. An archived sale is removed from Redis. `how` is `new` for a sale that was
/// just created.
///
/// # Errors
/// [`EngineError::NotLoaded`] if Redis has not confirmed the change, SQL is unreachable, or Redis has another sale with
/// that ID; the change is delivered later. [`EngineError::SqlBehind`] if Redis has a newer version than SQL.
pub(crate) async fn deliver(servers: &mut Servers, sale: &SaleShard, how: &str) -> Result<()> {
    let shard = sale.id;
    let confirmed = async {
        if sale.state == SaleState::Archived {
            drop_keys(&mut servers.conn, &servers.keys, shard).await?;
        } else {
            confirm(servers, sale, how).await?;
        }
        // Of the whole sale, also for a shard; without the lock of a loader, which has read the sale before this change.
        let CacheKeys { entry, loading } = servers.keys.voucher_cache(sale.voucher_id);
        match servers.conn.query::<u64>(cmd("DEL").arg(entry).arg(loading)).await {
            // In a cluster, the page may lie on a lost server, whose own shards are delivered once it is back.
            Err(why) if sale.spread.is_some() && why.is_away() => Ok(()),
            dropped => Ok(dropped.map(drop)?),
        }
    };
    confirmed.await.map_err(|error| match error {
        EngineError::Redis(why) if sale.is_undelivered() => lacks(sale, why),
        other => other,
    })?;
    if sale.is_undelivered() {
        servers.store.note_delivered(shard, sale.version).await?;
    }
    Ok(())
}

/// Returns once Redis has this version of a sale or a later one of SQL. Only the script that updates the sale confirms that:
/// a reconciliation may have begun with an older version.
async fn confirm(servers: &mut Servers, sale: &SaleShard, how: &str) -> Result<()> {
    let (shard, until) = (sale.id, Instant::now() + CONFIRM_WITHIN);
    loop {
        match sync(servers, sale, how).await? {
            Synced::Damaged => {}
            Synced::Newer(in_redis) => return reject_behind(servers, shard, in_redis).await,
            _ => return Ok(()),
        }
        if Instant::now() > until {
            return Err(EngineError::Reconciling(servers.keys.sale(shard)));
        }
        let of = servers.keys.partition_of(shard);
        let mut reconciler = Reconciler::new(servers, &of, &new_token()).await?;
        let done = reconciler.sale(shard, &[], Scope::IfNeeded).await?;
        match done.closed {
            Some(Closed::OtherSale) => return Err(EngineError::OtherSale(sale.voucher_id)),
            // It stays closed, with the version that the reconciliation has read after this one.
            Some(Closed::Oversold) => return Ok(()),
            None => {}
        }
    }
}

fn lacks(sale: &SaleShard, why: RedisError) -> EngineError {
    let shards = sale.id.numbered().into_iter().collect();
    EngineError::NotLoaded { voucher: sale.voucher_id, shards, why }
}

/// Delivers the change of each of these shards, as [`deliver`]. An unreachable server affects only its own.
///
/// # Errors
/// [`EngineError::NotLoaded`] of the first sale whose change Redis has not confirmed, with all its shards that lack it;
/// otherwise the first error.
pub(crate) async fn deliver_each(
    servers: &mut Servers,
    parts: impl IntoIterator<Item = &SaleShard>,
    how: &str,
) -> Result<()> {
    let (mut failed, mut is_probed, mut none_replies) = (None, false, None);
    for part in parts {
        let delivered = match &none_replies {
            Some(why) => Err(lacks(part, RedisError::clone(why))),
            None => deliver(servers, part, how).await,
        };
        let Err(error) = delivered else { continue };
        if let EngineError::NotLoaded { why, .. } = &error
            && why.is_away()
            && !is_probed
        {
            is_probed = true;
            // Those of a lost server fail at once then, not after a timeout each.
            let Servers { conn, keys, .. } = &mut *servers;
            conn.probe(keys).await;
            let others_reply = conn.is_cluster() && conn.reachable(keys).next().is_some();
            let is_silent = matches!(why, RedisError::Away { .. } | RedisError::Silent { .. });
            none_replies = (is_silent && !others_reply).then(|| why.clone());
        }
        match (&mut failed, error) {
            (
                Some(EngineError::NotLoaded { voucher, shards, .. }),
                EngineError::NotLoaded { voucher: of, shards: more, .. },
            ) if *voucher == of => {
                shards.extend(more);
                shards.sort_unstable();
            }
            (Some(EngineError::NotLoaded { .. }), _) => {}
            (None, error) | (_, error @ EngineError::NotLoaded { .. }) => failed = Some(error),
            _ => {}
        }
    }
    servers.conn.forget_lost();
    failed.map_or(Ok(()), Err)
}

/// Delivers the changes of sales to Redis until `stop`; one task per node.
pub(crate) async fn deliver_all(
    mut servers: Servers,
    versions: SaleVersions,
    stop: CancellationToken,
) {
    let mut failed = String::new();
    while let Some(delivered) =
        stop.run_until_cancelled(deliver_waiting(&mut servers, &versions)).await
    {
        match delivered {
            Ok(()) => failed.clear(),
            Err(error) => {
                // An error that repeats every half second is logged once.
                let error = in_english(|| error.to_string());
                if error != failed {
                    tracing::warn!(error, "a change of a sale was not delivered to Redis yet");
                    failed = error;
                }
            }
        }
        stop.run_until_cancelled(tokio::time::sleep(DELIVER_EVERY)).await;
    }
}

async fn deliver_waiting(servers: &mut Servers, versions: &SaleVersions) -> Result<()> {
    let waiting = servers.store.undelivered().await?;
    // All of them: one failed delivery must not block the others.
    for sale in &waiting {
        versions.note(sale);
    }
    let delivered = deliver_each(servers, &waiting, "").await;
    for voucher in versions.take_cuts() {
        undo_cut(servers, voucher).await;
    }
    delivered
}

/// Undoes the reduction of the stock of a sale if it takes too long. If SQL is slow, the next check of the keys finds it
/// again.
async fn undo_cut(servers: &mut Servers, shard: ShardId) {
    let undoing = async {
        let sale = servers.store.shard(shard).await?;
        sync(servers, &sale, "").await
    };
    match tokio::time::timeout(UNDO_WITHIN, undoing).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            tracing::warn!(%shard, %error, "a removal of stock is not undone yet");
        }
        Err(_) => {
            tracing::warn!(%shard, "a removal of stock is not undone yet: the database is slow");
        }
    }
}
