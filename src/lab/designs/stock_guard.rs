//! Text 000, section 6, second version as meant: `where voucher_id = ? and stock > 0`.
//!
//! Right: the database checks and takes in one statement, and its row lock puts the statements in a row.

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "stock-guard",
    question: Question::Overselling,
    source: Source { text: "000", section: "6" },
    faults: &[],
    mended_by: None,
    why: Label("lab-why-stock-guard"),
    not_on: &[],
    schema: &[],
    serve: |lane| buy(lane).boxed(),
    consumer: None,
};

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    if lane.read(STOCK, &[VOUCHER]).await? < 1 {
        return Ok(Reply::SoldOut);
    }
    lane.think().await;
    // Take a piece if there is one.
    if lane.write(TAKE_GUARDED, &[VOUCHER]).await? == 0 {
        return Ok(Reply::SoldOut);
    }
    lane.order().await
}
