//! Text 000, section 3 (and its analysis in section 4): check the stock, then take a piece.
//!
//! The fault: between the check and the update, other requests pass the same check. All of them take a piece.

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "unguarded",
    question: Question::Overselling,
    source: Source { text: "000", section: "3" },
    faults: &[Fault::always(Promise::NoOverselling)],
    mended_by: Some("stock-guard"),
    why: Label("lab-why-unguarded"),
    not_on: &[],
    schema: &[],
    serve: |lane| buy(lane).boxed(),
    consumer: None,
};

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    // 1. Query the voucher. 4. Is there stock?
    if lane.read(STOCK, &[VOUCHER]).await? < 1 {
        return Ok(Reply::SoldOut);
    }
    lane.think().await;
    // 5. Take a piece.
    if lane.write(TAKE, &[VOUCHER]).await? == 0 {
        return Ok(Reply::SoldOut);
    }
    // 6. Create the order.
    lane.order().await
}
