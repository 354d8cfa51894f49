//! Text 000, section 7, third version: `synchronized (userId.toString().intern())`.
//!
//! Right on one instance, with a lock for each user: `intern()` returns the one string of the process with these
//! characters. In Rust, a map from key to `Mutex` does the same. The fault is that of `process-mutex`: each instance has
//! strings of its own.

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "lock-per-interned-key",
    question: Question::OneOrder,
    source: Source { text: "000", section: "7" },
    faults: &[Fault::of_several_instances(Promise::OneOrder)],
    mended_by: Some("unique-index"),
    why: Label("lab-why-lock-per-interned-key"),
    not_on: &[],
    schema: &[],
    serve: |lane| buy(lane).boxed(),
    consumer: None,
};

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    if lane.read(STOCK, &[VOUCHER]).await? < 1 {
        return Ok(Reply::SoldOut);
    }
    // synchronized (userId.toString().intern())
    let string = lane.process().intern(lane.user().to_string());
    let held = lane.lock(&string, "userId.toString().intern()").await;
    let reply = create_voucher_order(lane).await;
    lane.unlock(held);
    reply
}
