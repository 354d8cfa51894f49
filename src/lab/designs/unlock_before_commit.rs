//! Text 000, section 7: `synchronized` inside of the method that is `@Transactional`.
//!
//! The fault: the lock is released at the end of the block, and the proxy commits after the method has returned. In
//! between, another request of the user takes the lock and does not see the order, which is not committed yet.

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "unlock-before-commit",
    question: Question::OneOrder,
    source: Source { text: "000", section: "7" },
    faults: &[Fault::always(Promise::OneOrder)],
    mended_by: Some("unlock-after-commit"),
    why: Label("lab-why-unlock-before-commit"),
    not_on: &[],
    schema: &[],
    serve: |lane| buy(lane).boxed(),
    consumer: None,
};

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    if lane.read(STOCK, &[VOUCHER]).await? < 1 {
        return Ok(Reply::SoldOut);
    }
    // @Transactional createVoucherOrder: synchronized (userId.toString().intern()) { … }
    let string = lane.process().intern(lane.user().to_string());
    let held = lane.lock(&string, "userId.toString().intern()").await;
    let reply = create_voucher_order_in_transaction(lane).await;
    lane.unlock(held);
    let reply = reply?;
    // The method has returned: its proxy commits.
    if matches!(reply, Reply::Bought(_)) {
        lane.commit().await?;
    }
    Ok(reply)
}
