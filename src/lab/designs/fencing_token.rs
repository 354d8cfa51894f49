//! Not in the tutorials: the lock of `watchdog` with a fencing token, a number that rises with each acquisition and that
//! SQL checks in the transaction that writes. The engine's lock gives the token out.
//!
//! Right, whatever happens to the lock: each holder raises the token of the user before it counts the orders, and its
//! write passes only if the token is still its own. A holder that has lost the lock is rejected by the database.

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "fencing-token",
    question: Question::Locks,
    source: Source { text: "000", section: "10.5" },
    faults: &[],
    mended_by: None,
    why: Label("lab-why-fencing-token"),
    not_on: &[],
    schema: &["CREATE TABLE tb_lock_fence (
        user_id BIGINT NOT NULL PRIMARY KEY,
        token BIGINT NOT NULL,
        writes BIGINT NOT NULL)"],
    serve: |lane| buy(lane).boxed(),
    consumer: None,
};

const FIRST: &str = "INSERT INTO tb_lock_fence (user_id, token, writes) VALUES ($1, $2, 0)";
const RAISE: &str = "UPDATE tb_lock_fence SET token = $2 WHERE user_id = $1 AND token < $2";
const PASS: &str =
    "UPDATE tb_lock_fence SET writes = writes + 1 WHERE user_id = $1 AND token = $2";

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    if lane.read(STOCK, &[VOUCHER]).await? < 1 {
        return Ok(Reply::SoldOut);
    }
    let Some(lock) = lane.lock_with_watchdog().await? else { return Ok(Reply::Locked) };
    let reply = write_under(lane, lock.token()).await;
    lane.unlock_guard(lock).await?;
    reply
}

async fn write_under(lane: &mut Lane<'_>, token: i64) -> Result<Reply> {
    let values = [lane.user(), token];
    // From here on, earlier holders are rejected.
    if !lane.insert(FIRST, &values).await? && lane.write(RAISE, &values).await? == 0 {
        return Ok(Reply::Locked);
    }
    if lane.read(ORDERS_OF_USER, &[lane.user(), VOUCHER]).await? > 0 {
        return Ok(Reply::Duplicate);
    }
    lane.think().await;
    lane.begin().await?;
    // A later holder has raised the token, or waits for this row until the commit.
    if lane.write(PASS, &values).await? == 0 {
        lane.rollback().await?;
        return Ok(Reply::Locked);
    }
    if lane.write(TAKE_GUARDED, &[VOUCHER]).await? == 0 {
        lane.rollback().await?;
        return Ok(Reply::SoldOut);
    }
    let reply = lane.order().await?;
    lane.commit().await?;
    Ok(reply)
}
