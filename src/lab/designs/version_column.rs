//! Text 000, section 4: the optimistic lock with a version column, as the course uses it, without a retry.
//!
//! The fault is that of `version-equal-stock`: it never oversells, and turns away all but one of the requests that read
//! the same version.

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "version-column",
    question: Question::Overselling,
    source: Source { text: "000", section: "4" },
    faults: &[Fault::always(Promise::SellsOut)],
    mended_by: Some("compare-and-swap-loop"),
    why: Label("lab-why-version-column"),
    not_on: &[],
    schema: &["ALTER TABLE tb_seckill_voucher ADD COLUMN version BIGINT NOT NULL DEFAULT 1"],
    serve: |lane| buy(lane).boxed(),
    consumer: None,
};

const READ: &str = "SELECT stock, version FROM tb_seckill_voucher WHERE voucher_id = $1";
const TAKE_VERSION: &str = "UPDATE tb_seckill_voucher SET stock = stock - 1, version = version + 1 \
                            WHERE voucher_id = $1 AND version = $2";

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    let [stock, version] = lane.read_row(READ, &[VOUCHER]).await?;
    if stock < 1 {
        return Ok(Reply::SoldOut);
    }
    lane.think().await;
    if lane.write(TAKE_VERSION, &[VOUCHER, version]).await? == 0 {
        return Ok(Reply::SoldOut);
    }
    lane.order().await
}
