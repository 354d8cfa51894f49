//! The consumer of the tutorials on a separate stream: one order at a time, each under a lock.
//!
//! As described there, with the bugs fixed: only written entries are acknowledged, in the stream they came from. It
//! uses neither the consumer nor the locks of the engine, and has its own SQL statements.

use std::time::{Duration, Instant};

use redis::pipe;
use seckill_engine::{EngineError, orders::ids::IdWorker};
use seckill_model::{
    EntryId, Millis, Reason, VoucherId,
    entry::{FIELD_ORDER, FIELD_USER, FIELD_VOUCHER},
    reason,
};
use seckill_redis::{
    Connection, Layout, Redis,
    stream::{self, ReadFrom},
};
use seckill_store::{Placed, Store};

use crate::{plain_lock::PlainLock, setup::PREFIX};

const CONSUMER: &str = "c1";
const BLOCK: Duration = Duration::from_secs(2);
/// Entries added per round trip; not measured.
const FILL: u64 = 1_000;

/// The key layout of the baseline.
pub(super) fn keys(redis: &Redis) -> Layout {
    Layout::new(1, redis.is_cluster()).prefixed(&format!("{PREFIX}:tutorial"))
}

/// The keys that it leaves.
pub(super) fn names(keys: &Layout) -> Vec<String> {
    vec![keys.home().orders(), keys.home().watermark()]
}

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

/// Runs until `orders` entries are acknowledged; returns the duration. With `pending`, they are delivered before, and read
/// from the pending list.
pub(super) async fn drain(
    redis: &Redis,
    keys: &Layout,
    store: &Store,
    orders: u64,
    pending: bool,
) -> Result<Duration, EngineError> {
    let (of, mut conn) = (keys.home(), redis.blocking_connection(BLOCK));
    let locks = PlainLock::connect(redis).await?;
    let mut from = ReadFrom::New(BLOCK);
    if pending {
        let all = orders as usize;
        stream::read_group(&mut conn, &of, CONSUMER, from, all).await?;
        from = ReadFrom::Own(EntryId::MIN);
    }
    // The first command opens the connection.
    conn.now().await?;
    let (begun, mut done) = (Instant::now(), 0);
    while done < orders {
        let read = stream::read_group(&mut conn, &of, CONSUMER, from, 1).await?;
        let delivered = read.into_iter().next();
        let delivered = delivered.ok_or_else(|| disturbed(reason!("bench-stream-empty")))?;
        let order = delivered.order().ok_or_else(|| disturbed(reason!("bench-entry-malformed")))?;
        let lock = locks.try_acquire(keys.plain_lock(&format!("order:{}", order.user))).await?;
        let lock = lock.ok_or_else(|| disturbed(reason!("bench-lock-held")))?;
        let placed = store.place_baseline(&order, Millis::now()).await;
        locks.release(lock).await?;
        match placed? {
            Placed::Written => {}
            Placed::Held => return Err(disturbed(reason!("bench-order-exists"))),
            Placed::SoldOut => return Err(disturbed(reason!("bench-sold-out"))),
        }
        done += stream::acknowledge(&mut conn, &of, [delivered.entry]).await?;
    }
    Ok(begun.elapsed())
}

/// Another program uses the same servers.
fn disturbed(what: Reason) -> EngineError {
    EngineError::Failed(reason!("bench-disturbed", what))
}
