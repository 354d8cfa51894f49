//! Text 000, section 9.2.1: the lock of the database, `SELECT … FOR UPDATE` on a row of the user.
//!
//! Right: the lock is part of the transaction that writes, so it cannot end before it. It has no lease; the server
//! releases it when the connection of the holder ends. Each holder occupies a connection and a transaction.
//! SQLite has no row locks: it locks the whole file.

use super::prelude::*;

pub(super) const DESIGN: Design = Design {
    name: "mysql-row-lock",
    question: Question::Locks,
    source: Source { text: "000", section: "9.2" },
    faults: &[],
    mended_by: None,
    why: Label("lab-why-mysql-row-lock"),
    not_on: &[Database::Sqlite],
    schema: &["CREATE TABLE tb_lock (user_id BIGINT NOT NULL PRIMARY KEY)"],
    serve: |lane| buy(lane).boxed(),
    consumer: None,
};

const LOCK_ROW: &str = "SELECT user_id FROM tb_lock WHERE user_id = $1 FOR UPDATE";

async fn buy(lane: &mut Lane<'_>) -> Result<Reply> {
    if lane.read(STOCK, &[VOUCHER]).await? < 1 {
        return Ok(Reply::SoldOut);
    }
    // There must be a row to lock.
    lane.insert("INSERT INTO tb_lock (user_id) VALUES ($1)", &[lane.user()]).await?;
    lane.begin().await?;
    lane.read(LOCK_ROW, &[lane.user()]).await?;
    let reply = create_voucher_order(lane).await?;
    // The commit releases the row.
    lane.commit().await?;
    Ok(reply)
}
