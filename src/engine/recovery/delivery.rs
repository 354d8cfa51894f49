//! Delivers changes of sales to Redis. A change is committed in SQL first; any node delivers it until Redis confirms
//! its version.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use redis::cmd;
use seckill_model::{Message, SaleId, SaleShard, SaleState, ShardId, locale::in_english};
use seckill_redis::{RedisError, keys::CacheKeys};
use seckill_store::StoreError;
use tokio_util::sync::CancellationToken;

use crate::{
    EngineError, Result,
    deployment::servers::Servers,
    ledger::sale_copy::{self, Synced, drop_keys, reject_behind, sync},
    node::context::NodeContext,
    recovery::{
        adoption::{adopt, is_held, pause_set_back},
        reconcile::{Reconciler, Scope, new_token},
        sale_versions::SaleVersions,
    },
    telemetry::{
        data_loss::{Closed, REDIS_RECONCILED, Reconciled},
        event::Event,
    },
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
/// [`EngineError::NotLoaded`] if Redis has not confirmed the change, which is delivered later; [`EngineError::SqlBehind`] if it
/// has a newer version than SQL; those of SQL, of another sale in Redis with that ID, and of a sale whose keys are lost
/// repeatedly.
pub(crate) async fn deliver(servers: &mut Servers, sale: &SaleShard, how: &str) -> Result<()> {
    let shard = sale.id;
    let confirmed = async {
        let version = if sale.state == SaleState::Archived {
            drop_keys(&mut servers.conn, &servers.keys, shard).await?;
            sale.version
        } else {
            confirm(servers, sale, how).await?
        };
        // Of the whole sale, also for a shard; without the lock of a loader, which has read the sale before this change.
        let CacheKeys { entry, loading } = servers.keys.voucher_cache(sale.voucher_id);
        match servers.conn.query::<u64>(cmd("DEL").arg(entry).arg(loading)).await {
            // In a cluster, the page may lie on a lost server, whose own shards are delivered once it is back.
            Err(why) if sale.spread.is_some() && why.is_away() => Ok(version),
            dropped => Ok(dropped.map(|_| version)?),
        }
    };
    let version = confirmed.await.map_err(|error| match error {
        EngineError::Redis(why) if sale.is_undelivered() => lacks(sale, why),
        other => other,
    })?;
    if sale.delivered < version {
        servers.store.note_delivered(shard, version).await?;
    }
    Ok(())
}

/// Returns the version once Redis has this one of a sale or a later one of SQL. Only the script that updates the sale
/// confirms that: a reconciliation may have begun with an older version.
async fn confirm(servers: &mut Servers, sale: &SaleShard, how: &str) -> Result<u64> {
    let (shard, until) = (sale.id, Instant::now() + CONFIRM_WITHIN);
    let mut sale = sale.clone();
    loop {
        let mut synced = sync(servers, &sale, how).await?;
        if Instant::now() > until {
            return Err(EngineError::Reconciling(servers.keys.sale(shard)));
        }
        if synced == Synced::Damaged {
            let of = servers.keys.partition_of(shard);
            let mut reconciler = Reconciler::new(servers, &of, &new_token()).await?;
            let done = reconciler.sale(shard, &[], Scope::IfNeeded).await?;
            match done.closed {
                Some(Closed::OtherSale) => return Err(EngineError::OtherSale(sale.voucher_id)),
                // It stays closed, with the version that the reconciliation has read after this one.
                Some(Closed::Oversold) => match sale_copy::version(servers, shard).await {
                    Some(in_redis) if in_redis > sale.version => synced = Synced::Newer(in_redis),
                    _ => return Ok(sale.version),
                },
                None => continue,
            }
        }
        match synced {
            Synced::Split => {}
            Synced::Newer(in_redis) => match reject_behind(servers, shard, in_redis).await {
                // It was stopped while Redis did not reply: what is stopped stays so.
                Err(EngineError::SqlBehind(_)) if stops(&sale) => {}
                behind => return behind.map(|()| sale.version),
            },
            _ => return Ok(sale.version),
        }
        adopt(servers, shard, stops(&sale)).await?;
        sale = servers.store.shard(shard).await?;
    }
}

/// Whether this version is one with which an operator has stopped the sale, and which Redis has not confirmed.
fn stops(sale: &SaleShard) -> bool {
    sale.is_undelivered() && matches!(sale.state, SaleState::Paused | SaleState::Ended)
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
    context: NodeContext,
    stop: CancellationToken,
) {
    let versions = &context.versions;
    let (mut failed, mut lost) = (String::new(), BTreeMap::new());
    let round = async |servers: &mut Servers, lost: &mut BTreeMap<SaleId, ShardId>| {
        // Before SQL is read again.
        let seen = versions.all();
        let delivered = deliver_waiting(servers, versions).await;
        let present = servers.store.current_versions().await?;
        let paused = pause_each_set_back(servers, &context, &seen, &present).await;
        find_lost(servers, &context, &present, lost).await.and(paused).and(delivered)
    };
    while let Some(delivered) = stop.run_until_cancelled(round(&mut servers, &mut lost)).await {
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

/// Finds the sales that SQL has lost while Redis has them, so that this node admits no more of their buyers, and raises their
/// alarm; `lost` are those, each with one of its shards. Once SQL has one again, it is sold again.
async fn find_lost(
    servers: &mut Servers,
    context: &NodeContext,
    present: &BTreeMap<ShardId, u64>,
    lost: &mut BTreeMap<SaleId, ShardId>,
) -> Result<()> {
    let NodeContext { versions, meters, .. } = context;
    let sales: BTreeSet<SaleId> = present.keys().map(|shard| shard.sale).collect();
    let known = versions.current().into_iter().map(|it| (it.shard.sale, it.shard));
    let missing: BTreeMap<_, _> = known.filter(|(sale, _)| !sales.contains(sale)).collect();
    for (sale, shard) in missing {
        match servers.store.shards_of(sale).await {
            // It was archived.
            Ok(shards) => shards.iter().for_each(|shard| versions.note(shard)),
            Err(StoreError::NoSale(_)) => {
                versions.forget(sale);
                tracing::error!(%sale, "the database has lost a sale; run 'seckill audit --repair'");
                lost.insert(sale, shard);
            }
            Err(error) => return Err(error.into()),
        }
    }
    for (sale, shard) in lost.clone() {
        let is_lost = !sales.contains(&sale) && is_held(servers, sale).await?;
        let why = is_lost.then(|| Message::of(&EngineError::LostInSql(sale.into())));
        meters.note_refused(shard, why);
        if !is_lost {
            lost.remove(&sale);
        }
    }
    Ok(())
}

/// Pauses each sale of which SQL has an older version `present` than this node has `seen`, as [`pause_set_back`].
async fn pause_each_set_back(
    servers: &mut Servers,
    context: &NodeContext,
    seen: &[(ShardId, u64)],
    present: &BTreeMap<ShardId, u64>,
) -> Result<()> {
    let mut all = Ok(());
    for (shard, seen) in seen {
        if present.get(shard).is_none_or(|version| version >= seen) {
            continue;
        }
        match pause_set_back(servers, *shard).await {
            Ok(true) => {
                let lost = Event::DataLoss(Reconciled { paused: true, ..Reconciled::default() });
                let (subject, lost) = (format!("#{}", shard.sale).into(), Message::of(&lost));
                context.outbox.put_own(&context.node, REDIS_RECONCILED, subject, lost);
            }
            Ok(false) => {}
            // The others do not wait for it.
            Err(error) => all = all.and(Err(error)),
        }
    }
    all
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
