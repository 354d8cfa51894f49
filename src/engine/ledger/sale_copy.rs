//! The copy of a sale in Redis: reads it, and updates it to what SQL committed.

use std::time::{Duration, Instant};

use redis::cmd;
use seckill_model::{Millis, Sale, SaleShard, SaleState, ShardId, Spread, sale::MAX_LIMIT};
use seckill_redis::{Connection, Layout, RedisError, lossy_utf8::Text, scripts};
use seckill_store::{SharedStore, StoreError};

use super::expected::{Expected, shards_of};
use crate::{EngineError, Result, deployment::servers::Servers};

/// How long a fence with an unknown outcome is repeated: meanwhile pieces are out of sale, or a sale is closed.
const FENCE_WITHIN: Duration = Duration::from_secs(1);
/// Pause between the attempts.
const FENCE_PAUSE: Duration = Duration::from_millis(10);
/// Longest value of a changed field that is shown, in characters. `sync_sale.lua` has the same limit, in bytes.
const MOST_SHOWN: usize = 200;

/// Removes a shard of a sale from Redis; returns whether any of its keys existed.
pub(crate) async fn drop_keys(
    conn: &mut Connection,
    keys: &Layout,
    shard: ShardId,
) -> Result<bool> {
    let mut unlink = cmd("UNLINK");
    unlink.arg(&keys.sale_keys(shard)).arg(keys.tally(shard));
    Ok(conn.query::<u64>(&unlink).await? > 0)
}

/// What Redis has of a shard of a sale; `None` is lost: missing, or no value of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) shard: ShardId,
    /// The newest version that it has had here.
    pub(crate) version: Option<u64>,
    title: Option<String>,
    /// 0 is at once.
    begin: Option<Millis>,
    /// 0 is never.
    end: Option<Millis>,
    state: Option<SaleState>,
    limit: Option<u8>,
    created: Option<Millis>,
    /// Over how many shards it is spread; 0 is not spread.
    shards: Option<u16>,
    /// Its keys name another sale.
    is_other: bool,
    /// Initial stock, with the pieces of a reduction in progress.
    initial: Option<u64>,
    /// Pieces that are left or held by buyers, with those of a reduction in progress: the initial stock, unless another
    /// program has changed that.
    sum: Option<u64>,
    buyers: u64,
}

/// Reads a shard of a sale from Redis; `None` if there is no such key.
pub(crate) async fn read(servers: &mut Servers, shard: ShardId) -> Result<Option<Held>> {
    let Servers { conn, keys, .. } = servers;
    let mut call = scripts::HELD.prepare_invoke();
    call.key(&keys.sale_keys(shard)).key(keys.tally(shard));
    let held: Vec<redis::Value> = conn.invoke(&call).await?;
    let text = |at: usize| {
        let value = held.get(at).filter(|it| **it != redis::Value::Nil)?;
        redis::from_redis_value_ref::<Text>(value).ok().map(|Text(it)| it)
    };
    let number = |at| text(at)?.parse::<u64>().ok();
    let time = |at| Some(Millis(text(at)?.parse().ok()?));
    let Some(buyers) = number(10) else { return Ok(None) };
    let spread = text(7).and_then(|text| match text.as_str() {
        "" => Some(Spread { sale: shard.sale, count: 0 }),
        spread => spread.parse().ok(),
    });
    let is_named = |spread: &Spread| {
        let first = u16::from(spread.count > 0);
        spread.sale == shard.sale && (first..=spread.count).contains(&shard.number)
    };
    let is_other = spread.is_some_and(|spread| !is_named(&spread));
    Ok(Some(Held {
        shard,
        version: number(0),
        title: text(1),
        begin: time(2),
        end: time(3),
        state: text(4).and_then(|it| it.parse().ok()),
        limit: number(5).filter(|it| (1..=u64::from(MAX_LIMIT)).contains(it)).map(|it| it as u8),
        created: time(6),
        shards: spread.filter(|_| !is_other).map(|spread| spread.count),
        is_other,
        initial: number(8),
        sum: number(9),
        buyers,
    }))
}

impl Held {
    /// Whether the keys are those of another sale, which had the same ID before SQL was restored.
    pub(crate) fn is_of_other(&self, known: &Sale) -> bool {
        self.created.is_some_and(|created| created != known.created)
    }

    /// Whether it has all that decides when and to whom the sale sells, and how many pieces.
    pub(crate) fn is_whole(&self) -> bool {
        let pieces = self.initial.or(self.sum);
        let fields = (self.begin, self.end, self.state, self.limit, pieces);
        matches!(fields, (Some(_), Some(_), Some(_), Some(_), Some(_)))
    }

    /// The sale that SQL has to adopt if it has `known` of the shard, or none; it has an older version of its own then, or
    /// the same one of another history. `None` if the keys name another sale that SQL
    /// does not have, or the number of its shards is unknown.
    ///
    /// What Redis has lost is what SQL has. If SQL is behind, that may be outdated: the sale is paused until an operator has
    /// looked at it. Where neither is known to be the newer one, each value is the one that sells less.
    pub(crate) fn adopted(&self, known: Option<&SaleShard>) -> Option<SaleShard> {
        let Self { shard, version, buyers, .. } = *self;
        let shards = self.shards.or(known.map(|it| it.spread.map_or(0, |spread| spread.count)));
        let count = shards.or((shard.number == 0 && !self.is_other).then_some(0))?;
        let spread = (count > 0).then_some(Spread { sale: shard.sale, count });
        let is_ahead = known.is_none_or(|known| version.is_some_and(|it| it > known.version));
        let least = known.map_or(u64::MAX, |known| known.initial.max(buyers));
        // While a version is delivered, its pieces are not yet among those in Redis.
        let is_counted =
            is_ahead || (version.is_none() && known.is_some_and(|it| !it.is_undelivered()));
        let sum = self.sum.filter(|_| is_counted);
        let pieces = self.initial.into_iter().chain(sum).min();
        let initial = match pieces {
            Some(pieces) if is_ahead => pieces,
            Some(pieces) => pieces.min(least),
            // Nothing more is sold.
            None if is_ahead => buyers.max(known.map_or(1, |known| known.live_orders().max(1))),
            None => least,
        };
        let usual = known.map(|known| &known.sale);
        let bound = |held: Option<Millis>, usual| held.or(usual).filter(|it| it.0 > 0);
        let title = self.title.clone().or(usual.map(|it| it.title.clone()));
        let mut sale = Sale {
            voucher_id: shard.voucher(),
            title: title.unwrap_or_else(|| shard.to_string()),
            initial,
            stock: initial,
            begin: bound(self.begin, usual.and_then(|it| it.begin)),
            end: bound(self.end, usual.and_then(|it| it.end)),
            state: self.state.or(usual.map(|it| it.state)).unwrap_or(SaleState::Paused),
            limit: self.limit.or(usual.map(|it| it.limit)).unwrap_or(1),
            changed: Millis(0),
            version: version.unwrap_or(0),
            delivered: 0,
            created: self.created.or(usual.map(|it| it.created)).unwrap_or_else(Millis::now),
            spread,
        };
        if is_ahead && !self.is_whole() {
            sale.state = sale.state.max(SaleState::Paused);
        } else if let Some(known) = known.filter(|_| !is_ahead) {
            sale.sell_least(known);
            if version.is_none() {
                let is_less = sale.initial != known.initial || sale.terms() != known.terms();
                sale.version = known.version + u64::from(is_less);
            }
        }
        (sale.changed, sale.delivered) = (sale.created, sale.version);
        Some(SaleShard { id: shard, sale })
    }
}

/// The field that names the sale of a shard and its number of shards; empty for a sale that is not spread.
pub(crate) fn spread(sale: &Sale) -> String {
    shards_of(sale.spread)
}

/// The fields in which the copy in Redis differs from SQL although it has the same version: another program changed them.
/// `None` if there are none. `sync_sale.lua` (`mend_fields`) names the same fields, without `initial`, and
/// `check_partition.lua` compares them in the order of [`Expected::fields`].
pub(crate) async fn changed_fields(
    servers: &mut Servers,
    sale: &SaleShard,
) -> Result<Option<String>> {
    let wanted = Expected::from(sale).fields();
    let names = ["state", "begin", "end", "limit", "initial", "shard", "title"];
    let mut read = cmd("HMGET");
    read.arg(servers.keys.sale(sale.id)).arg("version").arg(&names);
    let found: Vec<Option<Text>> = match servers.conn.query(&read).await {
        Err(RedisError::Rejected(_) | RedisError::Foreign(_)) => return Ok(None),
        found => found?,
    };
    let found: Vec<String> =
        found.into_iter().map(|it| it.map_or_else(String::new, |Text(it)| it)).collect();
    // Only the title, which is the last, may contain the separator.
    let mut pairs = found.iter().zip(wanted.splitn(found.len(), ':'));
    if pairs.next().is_none_or(|(version, wanted)| version != wanted) {
        return Ok(None);
    }
    // Other pieces are a finding of their own, unless they are being removed.
    let is_changed =
        |(name, (found, wanted)): &(&&str, (&String, &str))| **name != "initial" && found != wanted;
    let differ = names.iter().zip(pairs).filter(is_changed);
    let shown = |text: &str| match text {
        "" => "-".to_owned(),
        text => text.chars().take(MOST_SHOWN).collect(),
    };
    let differ: Vec<String> = differ
        .map(|(name, (found, wanted))| format!("{name} {} (SQL: {})", shown(found), shown(wanted)))
        .collect();
    Ok((!differ.is_empty()).then(|| differ.join(", ")))
}

/// Result of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Synced {
    /// Redis has applied this version.
    Taken,
    /// Redis had this version.
    Known,
    /// Redis has this newer version: of a later change, or SQL was set back.
    Newer(u64),
    /// Redis had this version, and its stock is being reduced.
    Cutting,
    /// The same, and the process that reduces it takes too long: a newer version puts the pieces back.
    Expired,
    /// Redis had this version, with other values in these fields: it has those of SQL now.
    Mended(String),
    /// Redis had this version of another history: SQL was restored from a backup, and changed since. Redis sells as little
    /// as either of them now, and SQL has to adopt it.
    Split,
    /// Its keys are inconsistent or missing: it has to be reconciled with its buyers.
    Damaged,
}

/// Updates the copy in Redis to what SQL committed. Safe to repeat; an older copy never wins. `how` is an argument of
/// `sync_sale.lua`: `new` for a sale that was just created. A reduction of its stock that takes too long is undone: first
/// SQL is fenced against its commit, then Redis puts the pieces back.
///
/// # Errors
/// Redis or SQL is unreachable, or Redis has another sale with that ID.
pub async fn sync(servers: &mut Servers, sale: &SaleShard, how: &str) -> Result<Synced> {
    match try_sync(servers, sale, how).await? {
        Synced::Expired => {
            let fenced = fence_at(&servers.store, sale.id, sale.version).await?;
            try_sync(servers, &fenced, "").await
        }
        synced => Ok(synced),
    }
}

/// Raises the version of a shard in SQL, as `Store::fence_sale`; again if the outcome is unknown, because a second raise does
/// no harm.
pub(crate) async fn fence(
    store: &SharedStore,
    shard: ShardId,
    is_seen: &(dyn Fn(&SaleShard) -> bool + Sync),
) -> Result<Option<SaleShard>, StoreError> {
    let until = Instant::now() + FENCE_WITHIN;
    loop {
        match store.fence_sale(shard, is_seen).await {
            Err(StoreError::Unknown(_)) if Instant::now() < until => {
                tokio::time::sleep(FENCE_PAUSE).await;
            }
            fenced => return fenced,
        }
    }
}

/// Raises the version of a shard in SQL if it is still this one; returns the shard.
pub(crate) async fn fence_at(
    store: &SharedStore,
    shard: ShardId,
    version: u64,
) -> Result<SaleShard, StoreError> {
    match fence(store, shard, &|now| now.version == version).await? {
        Some(fenced) => Ok(fenced),
        None => store.shard(shard).await,
    }
}

/// As [`sync`], but writes nothing to SQL.
pub(crate) async fn try_sync(servers: &mut Servers, sale: &SaleShard, how: &str) -> Result<Synced> {
    let shard = sale.id;
    let run = servers.conn.run_id(&servers.keys.sale(shard)).await?;
    let (keys, mut call) = (&servers.keys, scripts::SYNC_SALE.prepare_invoke());
    call.key(&keys.sale_keys(shard)).key(keys.partition_of(shard).watermark());
    call.key(keys.tally(shard));
    call.arg(sale.version).arg(&sale.title);
    call.arg(sale.begin.unwrap_or_default().0).arg(sale.end.unwrap_or_default().0);
    call.arg(<&str>::from(sale.state)).arg(sale.initial).arg(sale.limit);
    call.arg(sale.created.0).arg(sale.voucher_id.0).arg(how).arg(run).arg(spread(sale));
    call.arg(if sale.is_undelivered() { "" } else { "confirmed" });
    // What another program wrote into a field may be any bytes.
    let Text(answer) = servers.conn.invoke(&call).await?;
    match answer.as_str() {
        "taken" => Ok(Synced::Taken),
        "known" => Ok(Synced::Known),
        "cutting" => Ok(Synced::Cutting),
        "expired" => Ok(Synced::Expired),
        "damaged" => Ok(Synced::Damaged),
        "split" => Ok(Synced::Split),
        "other" => Err(EngineError::OtherSale(sale.voucher_id)),
        other => match other.split_once(' ') {
            Some(("mended", fields)) => Ok(Synced::Mended(fields.to_owned())),
            Some(("newer", version)) => {
                let version = version.parse().map_err(|_| RedisError::reply("sync_sale.lua"))?;
                Ok(Synced::Newer(version))
            }
            _ => Err(RedisError::reply("sync_sale.lua").into()),
        },
    }
}

/// Rejects a shard that Redis has in a newer version than SQL. The version in Redis was read before: that of a change that
/// was delivered since is in SQL by now.
///
/// # Errors
/// [`EngineError::SqlBehind`]; SQL is unreachable.
pub(crate) async fn reject_behind(
    servers: &mut Servers,
    shard: ShardId,
    in_redis: u64,
) -> Result<()> {
    let sale = servers.store.shard(shard).await?;
    if sale.version < in_redis {
        return Err(EngineError::SqlBehind(sale.voucher_id));
    }
    Ok(())
}

/// The newest version of a shard that Redis has had; `None` if Redis does not tell it.
pub(crate) async fn version(servers: &mut Servers, shard: ShardId) -> Option<u64> {
    read(servers, shard).await.ok().flatten()?.version
}
