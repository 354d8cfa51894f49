//! Text 000, section 9.1 of `SimpleRedisLock` (and text 001, section 3.2, version 1): a lock with a lifetime, and `DEL` to
//! release it.
//!
//! The fault: a holder that takes longer than the lifetime writes without the lock, and then deletes the lock of the
//! request that has it now.

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "setnx-blind-release",
    question: Question::Locks,
    source: Source { text: "000", section: "9.1" },
    faults: &[
        Fault::during(Incident::HolderStalls, Promise::OneOrder),
        Fault::during(Incident::HolderStalls, Promise::OwnLock),
        Fault::during(Incident::HolderPauses, Promise::OneOrder),
        Fault::during(Incident::HolderPauses, Promise::OwnLock),
        Fault::during(Incident::Failover, Promise::OneOrder),
        Fault::during(Incident::Failover, Promise::OwnLock),
    ],
    mended_by: Some("setnx-lua-release"),
    why: Label("lab-why-setnx-blind-release"),
    not_on: &[],
    schema: &[],
    serve: |lane| buy(lane).boxed(),
    consumer: None,
};

use redis::cmd;

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    if lane.read(STOCK, &[VOUCHER]).await? < 1 {
        return Ok(Reply::SoldOut);
    }
    // lock.tryLock(timeoutSec): setIfAbsent with a timeout.
    let (key, owner, lease) = (lane.lock_key(), lane.owner(), lane.lease_ms());
    if !lane.acquire(cmd("SET").arg(&key).arg(owner).arg("NX").arg("PX").arg(lease)).await? {
        return Ok(Reply::Locked);
    }
    let reply = create_voucher_order(lane).await;
    // finally: lock.unlock()
    lane.release(cmd("DEL").arg(&key)).await?;
    reply
}
