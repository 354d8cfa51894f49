//! Text 000, section 4: compare and swap with a loop, `do { … } while (!compareAndSwap(…))`.
//!
//! Right, but each success makes all other requests in flight repeat their query and update: the work grows with the
//! square of the concurrency (the "spinning" of section 6).

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "compare-and-swap-loop",
    question: Question::Overselling,
    source: Source { text: "000", section: "4" },
    faults: &[],
    mended_by: None,
    why: Label("lab-why-compare-and-swap-loop"),
    not_on: &[],
    schema: &[],
    serve: |lane| buy(lane).boxed(),
    consumer: None,
};

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    // Each round that fails is one in which another request took a piece, so the stock ends the loop.
    loop {
        let stock = lane.read(STOCK, &[VOUCHER]).await?;
        if stock < 1 {
            return Ok(Reply::SoldOut);
        }
        lane.think().await;
        if lane.write(TAKE_IF_UNCHANGED, &[VOUCHER, stock]).await? == 1 {
            return lane.order().await;
        }
    }
}
