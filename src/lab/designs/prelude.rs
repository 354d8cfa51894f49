//! What designs use, with the statements that several of them share.

pub(super) use crate::{
    Database, Incident, Result,
    design::{Design, Fault, Promise, Question, Source},
    lane::Lane,
    parent::Reply,
    work::VOUCHER,
};
pub(super) use futures::FutureExt as _;
pub(super) use seckill_model::Label;

/// The stock of a voucher.
pub(super) const STOCK: &str = "SELECT stock FROM tb_seckill_voucher WHERE voucher_id = $1";
/// Takes a piece of a voucher.
pub(super) const TAKE: &str =
    "UPDATE tb_seckill_voucher SET stock = stock - 1 WHERE voucher_id = $1";
/// Takes a piece of a voucher if there is one.
pub(super) const TAKE_GUARDED: &str =
    "UPDATE tb_seckill_voucher SET stock = stock - 1 WHERE voucher_id = $1 AND stock > 0";
/// Takes a piece of a voucher if its stock is still this one.
pub(super) const TAKE_IF_UNCHANGED: &str =
    "UPDATE tb_seckill_voucher SET stock = stock - 1 WHERE voucher_id = $1 AND stock = $2";
/// How many orders of a voucher a user has.
pub(super) const ORDERS_OF_USER: &str =
    "SELECT COUNT(*) FROM tb_voucher_order WHERE user_id = $1 AND voucher_id = $2";

/// `createVoucherOrder` of text 000, section 7, as `this.createVoucherOrder`: without a transaction.
pub(super) async fn create_voucher_order(lane: &mut Lane<'_>) -> Result<Reply> {
    // 5. One order a user.
    if lane.read(ORDERS_OF_USER, &[lane.user(), VOUCHER]).await? > 0 {
        return Ok(Reply::Duplicate);
    }
    lane.think().await;
    // 6. Take a piece. 7. Create the order.
    if lane.write(TAKE_GUARDED, &[VOUCHER]).await? == 0 {
        return Ok(Reply::SoldOut);
    }
    lane.order().await
}

/// `createVoucherOrder` with `@Transactional`. The transaction is open if the reply is an order: its proxy commits.
///
/// The count comes before the transaction, because SQLite rejects a write in a transaction that has read before another
/// one committed. The other databases let it pass.
pub(super) async fn create_voucher_order_in_transaction(lane: &mut Lane<'_>) -> Result<Reply> {
    if lane.read(ORDERS_OF_USER, &[lane.user(), VOUCHER]).await? > 0 {
        return Ok(Reply::Duplicate);
    }
    lane.think().await;
    lane.begin().await?;
    if lane.write(TAKE_GUARDED, &[VOUCHER]).await? == 0 {
        lane.rollback().await?;
        return Ok(Reply::SoldOut);
    }
    lane.order().await
}
