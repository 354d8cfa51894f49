//! Text 000, sections 9.5 and 9.6 of `SimpleRedisLock`: a script compares the owner and deletes the lock in one step.
//!
//! It deletes only its own lock. The fault that is left is "锁不住", in the words of section 9.7: a holder that takes longer
//! than the lease writes without the lock.

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "setnx-lua-release",
    question: Question::Locks,
    source: Source { text: "000", section: "9.6" },
    faults: &[
        Fault::during(Incident::HolderStalls, Promise::OneOrder),
        Fault::during(Incident::HolderPauses, Promise::OneOrder),
        Fault::during(Incident::Failover, Promise::OneOrder),
    ],
    mended_by: Some("watchdog"),
    why: Label("lab-why-setnx-lua-release"),
    not_on: &[],
    schema: &[],
    serve: |lane| buy(lane).boxed(),
    consumer: None,
};

use redis::cmd;

const UNLOCK: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    if lane.read(STOCK, &[VOUCHER]).await? < 1 {
        return Ok(Reply::SoldOut);
    }
    let (key, owner, lease) = (lane.lock_key(), lane.owner(), lane.lease_ms());
    if !lane.acquire(cmd("SET").arg(&key).arg(&owner).arg("NX").arg("PX").arg(lease)).await? {
        return Ok(Reply::Locked);
    }
    let reply = create_voucher_order(lane).await;
    // finally: stringRedisTemplate.execute(UNLOCK_SCRIPT, key, owner)
    lane.release(cmd("EVAL").arg(UNLOCK).arg(1).arg(&key).arg(&owner)).await?;
    reply
}
