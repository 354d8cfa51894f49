//! Text 000, section 6, "extension": count in the memory of the process (`AtomicLong`, `LongAdder`) to avoid spinning.
//!
//! The fault: each process has a counter of its own, which starts at the whole stock. One instance sells exactly the
//! stock, two instances sell up to twice as much.

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "counter-in-memory",
    question: Question::Overselling,
    source: Source { text: "000", section: "6" },
    faults: &[Fault::of_several_instances(Promise::NoOverselling)],
    mended_by: Some("stock-guard"),
    why: Label("lab-why-counter-in-memory"),
    not_on: &[],
    schema: &[],
    serve: |lane| buy(lane).boxed(),
    consumer: None,
};

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    // The counter was set to the stock when the process started.
    if lane.fetch_add(&lane.process().counter, "counter", -1) < 1 {
        return Ok(Reply::SoldOut);
    }
    lane.think().await;
    // The counter has decided: the update needs no guard.
    lane.write(TAKE, &[VOUCHER]).await?;
    lane.order().await
}
