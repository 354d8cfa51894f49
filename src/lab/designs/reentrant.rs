//! Text 000, section 10.3, and text 001, section 3.4 (version 3): a hash of owner and depth, with the engine's lock.
//!
//! The method that holds the lock calls another one that takes it too: with `SETNX` it would wait for itself. The lease
//! is fixed, so the fault is that of `setnx-lua-release`: a holder that takes longer writes without the lock.

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "reentrant",
    question: Question::Locks,
    source: Source { text: "000", section: "10.3" },
    faults: &[
        Fault::during(Incident::HolderStalls, Promise::OneOrder),
        Fault::during(Incident::HolderPauses, Promise::OneOrder),
        Fault::during(Incident::Failover, Promise::OneOrder),
    ],
    mended_by: Some("watchdog"),
    why: Label("lab-why-reentrant"),
    not_on: &[],
    schema: &[],
    serve: |lane| buy(lane).boxed(),
    consumer: None,
};

use seckill_engine::locks::Guard;

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    if lane.read(STOCK, &[VOUCHER]).await? < 1 {
        return Ok(Reply::SoldOut);
    }
    // lock.tryLock(waitTime, leaseTime, unit)
    let Some(lock) = lane.lock_with_lease().await? else { return Ok(Reply::Locked) };
    let reply = inner(lane, &lock).await;
    // Depth 0: the lock is free.
    lane.unlock_guard(lock).await?;
    reply
}

async fn inner(lane: &mut Lane<'_>, lock: &Guard) -> Result<Reply> {
    // The same owner takes it again: depth 2.
    let Some(again) = lane.lock_again(lock).await? else { return Ok(Reply::Locked) };
    let reply = create_voucher_order(lane).await;
    // Depth 1.
    lane.unlock_guard(again).await?;
    reply
}
