//! The copy of a sale in Redis: reads it, and updates it to what SQL committed.

use std::{collections::HashMap, time::Duration};

use redis::cmd;
use seckill_model::{Millis, Sale, VoucherId};
use seckill_redis::{Connection, Layout, RedisError, scripts};

use crate::{EngineError, Result, servers::Servers};

/// Interval between checks of a stock reduction in progress: most take a few milliseconds.
const CUT_POLL: Duration = Duration::from_millis(20);

/// Removes a sale from Redis; returns whether any of its keys existed.
pub(crate) async fn drop_keys(
    conn: &mut Connection,
    keys: &Layout,
    voucher: VoucherId,
) -> Result<bool> {
    let mut unlink = cmd("UNLINK");
    unlink.arg(&keys.sale_keys(voucher)).arg(keys.tally(voucher));
    Ok(conn.query::<u64>(&unlink).await? > 0)
}

/// Reads a sale from Redis; `None` if a field is missing or invalid.
pub(crate) async fn read(servers: &mut Servers, voucher: VoucherId) -> Result<Option<Sale>> {
    let fields: Result<HashMap<String, String>, RedisError> =
        servers.conn.query(cmd("HGETALL").arg(servers.keys.sale(voucher))).await;
    let fields = match fields {
        Err(RedisError::Rejected(_) | RedisError::Reply(_)) => return Ok(None),
        fields => fields?,
    };
    let number = |name: &str| fields.get(name)?.parse::<u64>().ok();
    let time = |name: &str| Some(Millis(fields.get(name)?.parse().ok()?));
    let read = || {
        Some(Sale {
            voucher_id: voucher,
            title: fields.get("title")?.clone(),
            initial: number("initial")?,
            stock: number("initial")?,
            begin: time("begin").filter(|it| it.0 > 0),
            end: time("end").filter(|it| it.0 > 0),
            state: fields.get("state")?.parse().ok()?,
            limit: number("limit")?.try_into().ok()?,
            changed: time("created")?,
            version: number("version")?,
            delivered: number("version")?,
            created: time("created")?,
            shard: fields.get("shard").and_then(|shard| shard.parse().ok()),
        })
    };
    Ok(read())
}

/// The field that names the shard of a sale; empty for one that is not spread.
pub(crate) fn shard(sale: &Sale) -> String {
    sale.shard.map_or_else(String::new, |shard| shard.to_string())
}

/// Result of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synced {
    /// Redis has applied this version.
    Taken,
    /// Redis had this version or a newer one.
    Known,
    /// Its keys are inconsistent or missing: it has to be reconciled with its buyers.
    Damaged,
}

/// Updates the copy in Redis to what SQL committed. Safe to repeat; an older copy never wins. `how` is an argument of
/// `sync_sale.lua`: `new` for a sale that was just created.
///
/// # Errors
/// Redis is unreachable, or has another sale with that ID.
pub async fn sync(servers: &mut Servers, sale: &Sale, how: &str) -> Result<Synced> {
    let mut how = how;
    loop {
        match try_sync(servers, sale, how).await? {
            // Its stock is being reduced, so it is not new; if that process has died, its lease ends.
            None => {
                how = "";
                tokio::time::sleep(CUT_POLL).await;
            }
            Some(synced) => return Ok(synced),
        }
    }
}

/// As [`sync`], but `None` if another process is reducing the stock of the same version.
pub(crate) async fn try_sync(
    servers: &mut Servers,
    sale: &Sale,
    how: &str,
) -> Result<Option<Synced>> {
    let voucher = sale.voucher_id;
    let run = servers.conn.run_id(&servers.keys.sale(voucher)).await?;
    let mut call = scripts::SYNC_SALE.prepare_invoke();
    call.key(&servers.keys.sale_keys(voucher)).key(servers.keys.partition_of(voucher).watermark());
    call.arg(sale.version).arg(&sale.title);
    call.arg(sale.begin.unwrap_or_default().0).arg(sale.end.unwrap_or_default().0);
    call.arg(<&str>::from(sale.state)).arg(sale.initial).arg(sale.limit);
    call.arg(sale.created.0).arg(voucher.0).arg(how).arg(run).arg(shard(sale));
    let answer: String = servers.conn.invoke(&call).await?;
    match answer.as_str() {
        "taken" => Ok(Some(Synced::Taken)),
        "known" => Ok(Some(Synced::Known)),
        "damaged" => Ok(Some(Synced::Damaged)),
        "cutting" => Ok(None),
        "other" => Err(EngineError::OtherSale(sale.sale_id())),
        _ => Err(RedisError::reply("sync_sale.lua").into()),
    }
}
