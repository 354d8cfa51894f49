//! Text 000, section 9.3: the idea of a lock in Redis, `SETNX` to take it and `DEL` to release it.
//!
//! The fault: the key has no lifetime. If its holder dies, the lock is never free again, and the user never gets an
//! order. After a failover to a replica without the key, two requests hold the lock, and one deletes that of the other.

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "setnx-without-expiry",
    question: Question::Locks,
    source: Source { text: "000", section: "9.3" },
    faults: &[
        Fault::during(Incident::HolderDies, Promise::FreedAfterDeath),
        Fault::during(Incident::Failover, Promise::OneOrder),
        Fault::during(Incident::Failover, Promise::OwnLock),
    ],
    mended_by: Some("fencing-token"),
    why: Label("lab-why-setnx-without-expiry"),
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
    // Take the lock: SETNX, which is SET with NX.
    let (key, owner) = (lane.lock_key(), lane.owner());
    if !lane.acquire(cmd("SET").arg(&key).arg(owner).arg("NX")).await? {
        return Ok(Reply::Locked);
    }
    let reply = create_voucher_order(lane).await;
    // Release the lock.
    lane.release(cmd("DEL").arg(&key)).await?;
    reply
}
