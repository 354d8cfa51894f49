//! Text 000, section 9.3 of `SimpleRedisLock` (and text 001, section 3.3, version 2): the lock stores its owner, who deletes
//! it only if it is still their own. Section 9.4 says why that is not enough.
//!
//! The fault: the check and the deletion are two commands. If the lease ends in between, the lock of another request is
//! deleted. And a holder that takes longer than the lease still writes without the lock.

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "setnx-owner-check-then-delete",
    question: Question::Locks,
    source: Source { text: "000", section: "9.3" },
    faults: &[
        Fault::during(Incident::HolderStalls, Promise::OneOrder),
        Fault::during(Incident::HolderStalls, Promise::OwnLock),
        Fault::during(Incident::HolderPauses, Promise::OneOrder),
        Fault::during(Incident::HolderPauses, Promise::OwnLock),
        Fault::during(Incident::Failover, Promise::OneOrder),
        Fault::during(Incident::Failover, Promise::OwnLock),
    ],
    mended_by: Some("setnx-lua-release"),
    why: Label("lab-why-setnx-owner-check-then-delete"),
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
    let (key, owner, lease) = (lane.lock_key(), lane.owner(), lane.lease_ms());
    if !lane.acquire(cmd("SET").arg(&key).arg(&owner).arg("NX").arg("PX").arg(lease)).await? {
        return Ok(Reply::Locked);
    }
    let reply = create_voucher_order(lane).await;
    // finally: lock.unlock(). Is the lock still ours?
    let found: Option<String> = lane.redis(cmd("GET").arg(&key)).await?;
    if found.as_ref() == Some(&owner) {
        lane.think_before_release().await;
        lane.release(cmd("DEL").arg(&key)).await?;
    }
    reply
}
