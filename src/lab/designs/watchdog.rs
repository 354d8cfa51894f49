//! Text 000, section 10.4: Redisson's lock without `leaseTime`, which a watchdog renews every third of the lease. It is the
//! engine's lock.
//!
//! A slow holder keeps the lock, and a dead one loses it, because its watchdog died with it. The fault: a process that
//! is stopped renews nothing, and a replica that is promoted may not have the key. In both cases the holder writes
//! without the lock.

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "watchdog",
    question: Question::Locks,
    source: Source { text: "000", section: "10.4" },
    faults: &[
        Fault::during(Incident::HolderPauses, Promise::OneOrder),
        Fault::during(Incident::Failover, Promise::OneOrder),
    ],
    mended_by: Some("multilock"),
    why: Label("lab-why-watchdog"),
    not_on: &[],
    schema: &[],
    serve: |lane| buy(lane).boxed(),
    consumer: None,
};

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    if lane.read(STOCK, &[VOUCHER]).await? < 1 {
        return Ok(Reply::SoldOut);
    }
    // lock.tryLock(waitTime, unit)
    let Some(lock) = lane.lock_with_watchdog().await? else { return Ok(Reply::Locked) };
    let reply = create_voucher_order(lane).await;
    lane.unlock_guard(lock).await?;
    reply
}
