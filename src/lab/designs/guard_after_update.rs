//! Text 000, section 6, second version as printed: `.eq("voucher_id", id).update().gt("stock", 0)`.
//!
//! The fault: the guard follows `.update()`, which has already sent the statement without it. In Java the line does not
//! even compile, because `.update()` returns a boolean; here the guard is a question that comes after the update and
//! changes nothing.

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "guard-after-update",
    question: Question::Overselling,
    source: Source { text: "000", section: "6" },
    faults: &[Fault::always(Promise::NoOverselling)],
    mended_by: Some("stock-guard"),
    why: Label("lab-why-guard-after-update"),
    not_on: &[],
    schema: &[],
    serve: |lane| buy(lane).boxed(),
    consumer: None,
};

const GUARD: &str =
    "SELECT COUNT(*) FROM tb_seckill_voucher WHERE voucher_id = $1 AND stock > 0";

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    if lane.read(STOCK, &[VOUCHER]).await? < 1 {
        return Ok(Reply::SoldOut);
    }
    lane.think().await;
    // .update()
    if lane.write(TAKE, &[VOUCHER]).await? == 0 {
        return Ok(Reply::SoldOut);
    }
    // .gt("stock", 0): the piece is taken, whatever the answer is.
    lane.read(GUARD, &[VOUCHER]).await?;
    lane.order().await
}
