//! Text 000, section 10.5: one lock over independent servers, taken on all of them or on none, in rounds for n × 1.5 s. It
//! is the engine's `MultiLock`.
//!
//! It survives the loss of the key on any of the servers. The fault that is left is that of every lock with a lease: a
//! process that is stopped renews none of its leases, and does not know that they have ended.

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "multilock",
    question: Question::Locks,
    source: Source { text: "000", section: "10.5" },
    faults: &[
        Fault::during(Incident::HolderPauses, Promise::OneOrder),
    ],
    mended_by: Some("fencing-token"),
    why: Label("lab-why-multilock"),
    not_on: &[],
    schema: &[],
    serve: |lane| buy(lane).boxed(),
    consumer: None,
};

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    if lane.read(STOCK, &[VOUCHER]).await? < 1 {
        return Ok(Reply::SoldOut);
    }
    // redissonClient.getMultiLock(lock1, lock2, lock3).tryLock(…)
    let Some(lock) = lane.lock_on_all_servers().await? else { return Ok(Reply::Locked) };
    let reply = create_voucher_order(lane).await;
    lane.unlock_on_all_servers(lock).await?;
    reply
}
