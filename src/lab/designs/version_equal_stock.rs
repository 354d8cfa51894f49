//! Text 000, section 6, first version: the stock is its own version, `where voucher_id = ? and stock = ?`.
//!
//! The fault: of a hundred requests that read the same stock, one wins. The others get the reply that the voucher is sold
//! out, while ninety-nine pieces are left.

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "version-equal-stock",
    question: Question::Overselling,
    source: Source { text: "000", section: "6" },
    faults: &[Fault::always(Promise::SellsOut)],
    mended_by: Some("stock-guard"),
    why: Label("lab-why-version-equal-stock"),
    not_on: &[],
    schema: &[],
    serve: |lane| buy(lane).boxed(),
    consumer: None,
};

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    let stock = lane.read(STOCK, &[VOUCHER]).await?;
    if stock < 1 {
        return Ok(Reply::SoldOut);
    }
    lane.think().await;
    // Take a piece if the stock has not changed since the query.
    if lane.write(TAKE_IF_UNCHANGED, &[VOUCHER, stock]).await? == 0 {
        return Ok(Reply::SoldOut);
    }
    lane.order().await
}
