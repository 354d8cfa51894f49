//! Text 000, section 7, last version: `synchronized` around the call of the proxy, which commits within the lock.
//!
//! Right on one instance: the next holder of the lock sees the order. A call by `this` would bypass the proxy and run
//! without a transaction (the text calls it through `AopContext.currentProxy()`). The fault is that of `process-mutex`.

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "unlock-after-commit",
    question: Question::OneOrder,
    source: Source { text: "000", section: "7" },
    faults: &[Fault::of_several_instances(Promise::OneOrder)],
    mended_by: Some("unique-index"),
    why: Label("lab-why-unlock-after-commit"),
    not_on: &[],
    schema: &[],
    serve: |lane| buy(lane).boxed(),
    consumer: None,
};

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    if lane.read(STOCK, &[VOUCHER]).await? < 1 {
        return Ok(Reply::SoldOut);
    }
    // synchronized (userId.toString().intern()) { return proxy.createVoucherOrder(voucherId); }
    let string = lane.process().intern(lane.user().to_string());
    let held = lane.lock(&string, "userId.toString().intern()").await;
    let reply = proxy(lane).await;
    lane.unlock(held);
    reply
}

async fn proxy(lane: &mut Lane<'_>) -> Result<Reply> {
    let reply = create_voucher_order_in_transaction(lane).await?;
    if matches!(reply, Reply::Bought(_)) {
        lane.commit().await?;
    }
    Ok(reply)
}
