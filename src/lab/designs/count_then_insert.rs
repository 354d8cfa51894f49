//! Text 000, section 7, first version: count the user's orders, then insert one.
//!
//! The fault: two requests of one user both count 0 before either has inserted. The stock has the guard of section 6,
//! which the printed code has lost again.

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "count-then-insert",
    question: Question::OneOrder,
    source: Source { text: "000", section: "7" },
    faults: &[Fault::always(Promise::OneOrder)],
    mended_by: Some("unique-index"),
    why: Label("lab-why-count-then-insert"),
    not_on: &[],
    schema: &[],
    serve: |lane| buy(lane).boxed(),
    consumer: None,
};

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    if lane.read(STOCK, &[VOUCHER]).await? < 1 {
        return Ok(Reply::SoldOut);
    }
    // 5.1. Query the orders of the user. 5.2. Is there one?
    if lane.read(ORDERS_OF_USER, &[lane.user(), VOUCHER]).await? > 0 {
        return Ok(Reply::Duplicate);
    }
    lane.think().await;
    // 6. Take a piece.
    if lane.write(TAKE_GUARDED, &[VOUCHER]).await? == 0 {
        return Ok(Reply::SoldOut);
    }
    // 7. Create the order.
    lane.order().await
}
