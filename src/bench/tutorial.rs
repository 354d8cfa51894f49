//! The tutorial's consumer on a separate stream: one order at a time, each under a lock.
//!
//! As described there, with its bugs fixed: only written entries are acknowledged, in the stream they came from. It
//! uses neither the engine's consumer nor its locks nor its store.

use std::time::{Duration, Instant};

use redis::{Cmd, Script, pipe};
use seckill_engine::{EngineError, ids::IdWorker};
use seckill_model::{
    Millis, OrderEntry, VoucherId,
    entry::{FIELD_ORDER, FIELD_USER, FIELD_VOUCHER},
};
use seckill_redis::{
    Connection, Layout, Redis, RedisError,
    stream::{self, ReadFrom},
};
use seckill_store::{Placed, Store};
use uuid::Uuid;

use super::locks::{PLAIN_RELEASE, plain_options};

const CONSUMER: &str = "c1";
const BLOCK: Duration = Duration::from_secs(2);
/// Entries added per round trip; not measured.
const FILL: u64 = 1_000;

/// Adds `orders` entries to the stream, each with a different buyer.
pub(super) async fn fill(
    conn: &mut Connection,
    keys: &Layout,
    voucher: VoucherId,
    orders: u64,
) -> Result<(), EngineError> {
    let of = keys.home();
    stream::ensure_group(conn, &of).await?;
    let mut worker = IdWorker::new(of.clone());
    for first in (1..=orders).step_by(FILL as usize) {
        let users = first..=orders.min(first + FILL - 1);
        let ids = worker.issue(conn, users.clone().count()).await?;
        let mut add = pipe();
        for (user, id) in users.zip(ids) {
            add.cmd("XADD").arg(of.orders()).arg("*");
            add.arg(FIELD_USER).arg(user).arg(FIELD_VOUCHER).arg(voucher.0);
            add.arg(FIELD_ORDER).arg(id.get()).ignore();
        }
        conn.pipe::<()>(&add).await?;
    }
    Ok(())
}

/// Runs until `orders` entries are acknowledged; returns the duration.
pub(super) async fn drain(
    redis: &Redis,
    keys: &Layout,
    store: &Store,
    orders: u64,
) -> Result<Duration, EngineError> {
    let (of, mut conn) = (keys.home(), redis.blocking_connection(BLOCK));
    let release = Script::new(PLAIN_RELEASE);
    // The first command opens the connection.
    conn.now().await?;
    let (begun, mut done) = (Instant::now(), 0);
    while done < orders {
        let read = stream::read_group(&mut conn, &of, CONSUMER, ReadFrom::New(BLOCK), 1).await?;
        let Some(delivered) = read.into_iter().next() else {
            return Err(off("the stream ran dry before every order was written"));
        };
        let Some(order) = delivered.order() else {
            return Err(off("an entry of the plain stream makes no order"));
        };
        let lock = keys.plain_lock(&format!("order:{}", order.user));
        let owner = Uuid::new_v4().to_string();
        if !take(&mut conn, &lock, &owner).await? {
            return Err(off("another process holds the lock of a buyer"));
        }
        let placed = place(store, &order).await;
        let mut call = release.prepare_invoke();
        call.key(&lock).arg(&owner);
        conn.invoke::<u8>(&call).await?;
        placed?;
        done += stream::acknowledge(&mut conn, &of, [delivered.entry]).await?;
    }
    Ok(begun.elapsed())
}

async fn take(conn: &mut Connection, lock: &str, owner: &str) -> Result<bool, RedisError> {
    let set = Cmd::set_options(lock, owner, plain_options());
    let set: Option<String> = conn.query(&set).await?;
    Ok(set.is_some())
}

async fn place(store: &Store, order: &OrderEntry) -> Result<(), EngineError> {
    match store.place_baseline(order, Millis::now()).await? {
        Placed::Written => Ok(()),
        Placed::Held => Err(off("a buyer of the plain stream holds an order already")),
        Placed::SoldOut => Err(off("the sale of the plain stream has nothing left")),
    }
}

fn off(what: &str) -> EngineError {
    EngineError::AuditFailed(format!("{what}; run it again while these servers are idle"))
}
