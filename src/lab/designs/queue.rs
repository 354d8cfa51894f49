//! What the designs share that hand orders over: the admission script, the lock of a user, and `createVoucherOrder`.

use std::time::Duration;

use redis::{Cmd, cmd};
use seckill_model::{SaleId, ShardId};

use super::prelude::*;
use crate::{LabError, entry::VoucherOrder};

/// The stream of orders, and the group that reads it.
pub(super) const STREAM: &str = "stream.orders";
pub(super) const GROUP: &str = "g1";
/// The lease of the lock of a user, in milliseconds: Redisson's default.
const LEASE_MS: u32 = 30_000;

/// Text 000, section 11.2: 0 if the user may buy, 1 if it is sold out, 2 for a second order. Section 12.6 adds the last
/// step: the order goes into a stream. There, the script makes its keys itself; here they are declared.
const ADMIT: &str = "\
local stockKey = KEYS[1]
local orderKey = KEYS[2]
local voucherId = ARGV[1]
local userId = ARGV[2]
local orderId = ARGV[3]
if (tonumber(redis.call('get', stockKey)) <= 0) then
    return 1
end
if (redis.call('sismember', orderKey, userId) == 1) then
    return 2
end
redis.call('incrby', stockKey, -1)
redis.call('sadd', orderKey, userId)
if (KEYS[3]) then
    redis.call('xadd', KEYS[3], '*', 'userId', userId, 'voucherId', voucherId, 'id', orderId)
end
return 0";

const UNLOCK: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/// `seckillVoucher`, up to the hand-over: the order, or the reply to a user who gets none.
pub(super) async fn admit(lane: &mut Lane<'_>) -> Result<Result<VoucherOrder, Reply>> {
    run(lane, None).await
}

/// The same, where the script hands the order over.
pub(super) async fn admit_and_add(lane: &mut Lane<'_>) -> Result<Reply> {
    Ok(run(lane, Some(STREAM)).await?.map_or_else(|refused| refused, |it| Reply::Bought(it.id)))
}

async fn run(lane: &mut Lane<'_>, stream: Option<&str>) -> Result<Result<VoucherOrder, Reply>> {
    let id = lane.next_id().await?;
    let order = VoucherOrder { id, user_id: lane.user(), voucher_id: VOUCHER };
    let values = [order.voucher_id, order.user_id, order.id].map(|it| it.to_string());
    let [voucher, user, id] = &values;
    let layout = &lane.process().keys;
    let sale = ShardId::only(SaleId(VOUCHER as u64));
    let (stock, buyers) = (layout.stock(sale), layout.buyers(sale));
    let keys: Vec<&str> = [&*stock, &*buyers].into_iter().chain(stream).collect();
    Ok(match lane.script("seckill.lua", ADMIT, &keys, &[voucher, user, id]).await? {
        0 => Ok(order),
        1 => Err(Reply::SoldOut),
        _ => Err(Reply::Duplicate),
    })
}

/// `handleVoucherOrder`: creates the order under the lock of its user.
pub(super) async fn handle_voucher_order(lane: &mut Lane<'_>, order: VoucherOrder) -> Result<()> {
    let Some(lock) = try_lock(lane, order.user_id).await? else {
        // log.error("不允许重复下单"): the order is not written, and its entry is done with.
        return Ok(());
    };
    let created = create_voucher_order(lane, order).await;
    unlock(lane, lock).await?;
    created.map(drop)
}

/// `createVoucherOrder`. If the order is not new, or there is no piece left, it writes nothing.
pub(super) async fn create_voucher_order(
    lane: &mut Lane<'_>,
    order: VoucherOrder,
) -> Result<Reply> {
    // 5. One order a user.
    if lane.read(ORDERS_OF_USER, &[order.user_id, order.voucher_id]).await? > 0 {
        return Ok(Reply::Duplicate);
    }
    lane.think().await;
    // 6. Take a piece. 7. Create the order.
    lane.begin().await?;
    if lane.write(TAKE_GUARDED, &[order.voucher_id]).await? == 0 {
        lane.rollback().await?;
        return Ok(Reply::SoldOut);
    }
    if !lane.save(order.id, order.user_id).await? {
        lane.rollback().await?;
        return Ok(Reply::Duplicate);
    }
    lane.commit().await?;
    Ok(Reply::Bought(order.id))
}

/// The lock of a user in Redis, with the name of its owner.
pub(super) struct UserLock {
    key: String,
    owner: String,
}

/// `redissonClient.getLock("lock:order:" + userId).tryLock()`.
pub(super) async fn try_lock(lane: &mut Lane<'_>, user: i64) -> Result<Option<UserLock>> {
    let lock = UserLock {
        key: lane.process().keys.plain_lock(&format!("order:{user}")),
        owner: lane.owner(),
    };
    let mut set = cmd("SET");
    set.arg(&lock.key).arg(&lock.owner).arg("NX").arg("PX").arg(LEASE_MS);
    Ok(lane.redis::<Option<String>>(&set).await?.map(|_| lock))
}

pub(super) async fn unlock(lane: &mut Lane<'_>, lock: UserLock) -> Result<()> {
    lane.script("unlock.lua", UNLOCK, &[&lock.key], &[&lock.owner]).await.map(drop)
}

/// XGROUP CREATE, if there is no group.
pub(super) async fn create_group(lane: &mut Lane<'_>, from: &'static str) -> Result<()> {
    let mut create = cmd("XGROUP");
    create.arg("CREATE").arg(STREAM).arg(GROUP).arg(from).arg("MKSTREAM");
    match lane.redis::<String>(&create).await {
        Err(LabError::Redis(error)) if error.code() == Some("BUSYGROUP") => Ok(()),
        other => other.map(drop),
    }
}

/// XREADGROUP for one entry.
pub(super) fn read_group(consumer: &str, block: Option<Duration>, from: &str) -> Cmd {
    let mut read = cmd("XREADGROUP");
    read.arg("GROUP").arg(GROUP).arg(consumer).arg("COUNT").arg(1);
    if let Some(block) = block {
        read.arg("BLOCK").arg(block.as_millis() as u64);
    }
    read.arg("STREAMS").arg(STREAM).arg(from).take()
}

/// An entry without an order.
pub(super) fn poison() -> Cmd {
    cmd("XADD").arg(STREAM).arg("*").arg("userId").arg("poison").take()
}
