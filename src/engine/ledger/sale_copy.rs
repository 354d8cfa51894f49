//! The copy of a sale in Redis: reads it, and updates it to what SQL committed.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use redis::cmd;
use seckill_model::{Millis, Sale, SaleShard, SaleState, ShardId, Spread};
use seckill_redis::{Connection, Layout, RedisError, lossy_utf8::Text, scripts};
use seckill_store::{SharedStore, StoreError};

use crate::{EngineError, Result, servers::Servers};

/// How long a fence with an unknown outcome is repeated: meanwhile pieces are out of sale, or a sale is closed.
const FENCE_WITHIN: Duration = Duration::from_secs(1);
/// Pause between the attempts.
const FENCE_PAUSE: Duration = Duration::from_millis(10);

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

/// Reads a shard of a sale from Redis, with the pieces of a reduction in progress; `None` if a field is missing or invalid,
/// or names another sale.
pub(crate) async fn read(servers: &mut Servers, shard: ShardId) -> Result<Option<SaleShard>> {
    let fields: Result<HashMap<String, String>, RedisError> =
        servers.conn.query(cmd("HGETALL").arg(servers.keys.sale(shard))).await;
    let fields = match fields {
        Err(RedisError::Rejected(_) | RedisError::Reply(_)) => return Ok(None),
        fields => fields?,
    };
    let number = |name: &str| fields.get(name)?.parse::<u64>().ok();
    let time = |name: &str| Some(Millis(fields.get(name)?.parse().ok()?));
    let read = || {
        let initial = number("initial")?.saturating_add(number("cut").unwrap_or(0));
        let spread: Option<Spread> = match fields.get("shard").map(String::as_str) {
            None | Some("") => None,
            Some(spread) => Some(spread.parse().ok()?),
        };
        let is_named = match spread {
            None => shard.number == 0,
            Some(spread) => spread.sale == shard.sale && (1..=spread.count).contains(&shard.number),
        };
        if !is_named {
            return None;
        }
        let sale = Sale {
            voucher_id: shard.voucher(),
            title: fields.get("title")?.clone(),
            initial,
            stock: initial,
            begin: time("begin").filter(|it| it.0 > 0),
            end: time("end").filter(|it| it.0 > 0),
            state: fields.get("state")?.parse().ok()?,
            limit: number("limit")?.try_into().ok()?,
            changed: time("created")?,
            version: number("version")?,
            delivered: number("version")?,
            created: time("created")?,
            spread,
        };
        Some(SaleShard { id: shard, sale })
    };
    Ok(read())
}

/// The field that names the sale of a shard and its number of shards; empty for a sale that is not spread.
pub(crate) fn spread(sale: &Sale) -> String {
    sale.spread.map_or_else(String::new, |spread| spread.to_string())
}

/// The fields in which the copy in Redis differs from SQL although it has the same version: another program changed them.
/// `None` if there are none.
pub(crate) async fn changed_fields(
    servers: &mut Servers,
    sale: &SaleShard,
) -> Result<Option<String>> {
    let wanted = Expected::from(sale).fields();
    let names = ["state", "begin", "end", "limit"];
    let mut read = cmd("HMGET");
    read.arg(servers.keys.sale(sale.id)).arg("version").arg(&names);
    let found: Vec<Option<Text>> = match servers.conn.query(&read).await {
        Err(RedisError::Rejected(_) | RedisError::Foreign(_)) => return Ok(None),
        found => found?,
    };
    let found: Vec<String> =
        found.into_iter().map(|it| it.map_or_else(String::new, |Text(it)| it)).collect();
    let mut pairs = found.iter().zip(wanted.split(':'));
    if pairs.next().is_none_or(|(version, wanted)| version != wanted) {
        return Ok(None);
    }
    let differ = names.iter().zip(pairs).filter(|(_, (found, wanted))| found != wanted);
    let differ: Vec<String> =
        differ.map(|(name, (found, wanted))| format!("{name} {found} (SQL: {wanted})")).collect();
    Ok((!differ.is_empty()).then(|| differ.join(", ")))
}

/// A shard as SQL has it, to compare its keys in Redis with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) shard: ShardId,
    /// A different time means a different sale: SQL was rolled back, and the ID was assigned again.
    pub(crate) created: Millis,
    pub(crate) version: u64,
    pub(crate) state: SaleState,
    pub(crate) begin: Millis,
    pub(crate) end: Millis,
    pub(crate) limit: u8,
}

impl From<&SaleShard> for Expected {
    fn from(sale: &SaleShard) -> Self {
        Self {
            shard: sale.id,
            created: sale.created,
            version: sale.version,
            state: sale.state,
            begin: sale.begin.unwrap_or_default(),
            end: sale.end.unwrap_or_default(),
            limit: sale.limit,
        }
    }
}

impl Expected {
    /// What its version determines, as `check_partition.lua` expects it.
    pub(crate) fn fields(&self) -> String {
        let Self { version, state, begin, end, limit, .. } = self;
        format!("{version}:{}:{}:{}:{limit}", <&str>::from(*state), begin.0, end.0)
    }
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
            let fenced = fence(&servers.store, sale.id, Some(sale.version)).await?;
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
    seen: Option<u64>,
) -> Result<SaleShard, StoreError> {
    let until = Instant::now() + FENCE_WITHIN;
    loop {
        match store.fence_sale(shard, seen).await {
            Err(StoreError::Unknown(_)) if Instant::now() < until => {
                tokio::time::sleep(FENCE_PAUSE).await;
            }
            fenced => return fenced,
        }
    }
}

/// As [`sync`], but writes nothing to SQL.
pub(crate) async fn try_sync(servers: &mut Servers, sale: &SaleShard, how: &str) -> Result<Synced> {
    let shard = sale.id;
    let run = servers.conn.run_id(&servers.keys.sale(shard)).await?;
    let mut call = scripts::SYNC_SALE.prepare_invoke();
    call.key(&servers.keys.sale_keys(shard)).key(servers.keys.partition_of(shard).watermark());
    call.arg(sale.version).arg(&sale.title);
    call.arg(sale.begin.unwrap_or_default().0).arg(sale.end.unwrap_or_default().0);
    call.arg(<&str>::from(sale.state)).arg(sale.initial).arg(sale.limit);
    call.arg(sale.created.0).arg(sale.voucher_id.0).arg(how).arg(run).arg(spread(sale));
    let answer: String = servers.conn.invoke(&call).await?;
    match answer.as_str() {
        "taken" => Ok(Synced::Taken),
        "known" => Ok(Synced::Known),
        "cutting" => Ok(Synced::Cutting),
        "expired" => Ok(Synced::Expired),
        "damaged" => Ok(Synced::Damaged),
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

/// As [`reject_behind`], before a change that is written to SQL first. If Redis does not tell its version, the delivery of
/// the change does.
pub(crate) async fn check_not_behind(servers: &mut Servers, shard: ShardId) -> Result<()> {
    let mut read = cmd("HGET");
    read.arg(servers.keys.sale(shard)).arg("version");
    match servers.conn.query::<Option<u64>>(&read).await {
        Ok(Some(in_redis)) => reject_behind(servers, shard, in_redis).await,
        Ok(None) | Err(_) => Ok(()),
    }
}
