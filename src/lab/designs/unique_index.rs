//! Text 000, section 7, fixed: a unique index on user and voucher, which the tutorials do not use.
//!
//! Right on any number of instances: the database rejects the second order, and the transaction gives the piece back.

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "unique-index",
    question: Question::OneOrder,
    source: Source { text: "000", section: "7" },
    faults: &[],
    mended_by: None,
    why: Label("lab-why-unique-index"),
    not_on: &[],
    schema: &["CREATE UNIQUE INDEX uk_user_voucher ON tb_voucher_order (user_id, voucher_id)"],
    serve: |lane| buy(lane).boxed(),
    consumer: None,
};

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    if lane.read(STOCK, &[VOUCHER]).await? < 1 {
        return Ok(Reply::SoldOut);
    }
    // Spares a double click the transaction; it decides nothing.
    if lane.read(ORDERS_OF_USER, &[lane.user(), VOUCHER]).await? > 0 {
        return Ok(Reply::Duplicate);
    }
    lane.think().await;
    lane.begin().await?;
    if lane.write(TAKE_GUARDED, &[VOUCHER]).await? == 0 {
        lane.rollback().await?;
        return Ok(Reply::SoldOut);
    }
    let Some(order) = lane.create_order().await? else {
        // The unique index rejects the second order; the piece goes back.
        lane.rollback().await?;
        return Ok(Reply::Duplicate);
    };
    lane.commit().await?;
    Ok(Reply::Bought(order))
}
