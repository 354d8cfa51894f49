//! Text 000, section 7, second version: `public synchronized Result createVoucherOrder`; section 8 says why it fails.
//!
//! The fault: the lock is an object in the memory of one process. One instance is right, one request at a time; with two
//! instances, the two requests of a double click each take the lock of their own process.

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "process-mutex",
    question: Question::OneOrder,
    source: Source { text: "000", section: "7" },
    faults: &[Fault::of_several_instances(Promise::OneOrder)],
    mended_by: Some("unique-index"),
    why: Label("lab-why-process-mutex"),
    not_on: &[],
    schema: &[],
    serve: |lane| buy(lane).boxed(),
    consumer: None,
};

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    if lane.read(STOCK, &[VOUCHER]).await? < 1 {
        return Ok(Reply::SoldOut);
    }
    // synchronized
    let held = lane.lock(&lane.process().mutex, "createVoucherOrder").await;
    let reply = create_voucher_order(lane).await;
    lane.unlock(held);
    reply
}
