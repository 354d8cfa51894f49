//! Text 000, section 7, third version without `intern()`: `synchronized (userId.toString())`.
//!
//! The fault in Java: `toString` returns a new object at each call, and `synchronized` locks that object, so no two
//! requests ever meet at a lock. A string of Rust has no lock; the same effect is a new `Mutex` for each request, which
//! is correct code and locks nothing that another request could wait for.

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "lock-per-string",
    question: Question::OneOrder,
    source: Source { text: "000", section: "7" },
    faults: &[Fault::always(Promise::OneOrder)],
    mended_by: Some("lock-per-interned-key"),
    why: Label("lab-why-lock-per-string"),
    not_on: &[],
    schema: &[],
    serve: |lane| buy(lane).boxed(),
    consumer: None,
};

use tokio::sync::Mutex;

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    if lane.read(STOCK, &[VOUCHER]).await? < 1 {
        return Ok(Reply::SoldOut);
    }
    // synchronized (userId.toString())
    let string = Mutex::new(());
    let held = lane.lock(&string, "userId.toString()").await;
    let reply = create_voucher_order(lane).await;
    lane.unlock(held);
    reply
}
