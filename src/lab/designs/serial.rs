//! Text 002, "analysis": one waiter does it all. The request queries the voucher, checks the stock, locks the user, queries
//! the orders, takes a piece and creates the order, and its user waits for every step.
//!
//! Right: the lock is in Redis, and is released after the commit. But the user waits for each statement, and the requests
//! wait for each other's writes.

use super::{prelude::*, queue};
use crate::entry::VoucherOrder;

pub(super) const DESIGN: Design = Design {
    name: "serial",
    question: Question::HandOver,
    source: Source { text: "002", section: "analysis" },
    faults: &[],
    mended_by: None,
    why: Label("lab-why-serial"),
    not_on: &[],
    schema: &[],
    serve: |lane| buy(lane).boxed(),
    consumer: None,
};

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    // 1. Query the voucher. 2. Is there stock?
    if lane.read(STOCK, &[VOUCHER]).await? < 1 {
        return Ok(Reply::SoldOut);
    }
    // 3. Lock the user.
    let Some(lock) = queue::try_lock(lane, lane.user()).await? else {
        return Ok(Reply::Duplicate);
    };
    // 4. Query the orders. 5. Take a piece. 6. Create the order.
    let reply = create(lane).await;
    queue::unlock(lane, lock).await?;
    reply
}

async fn create(lane: &mut Lane<'_>) -> Result<Reply> {
    let id = lane.next_id().await?;
    let order = VoucherOrder { id, user_id: lane.user(), voucher_id: VOUCHER };
    queue::create_voucher_order(lane, order).await
}
