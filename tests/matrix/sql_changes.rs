//! Changes of SQL beside the running nodes, by another program.

use std::time::Duration;

use seckill_model::VoucherId;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

use super::world::World;

/// Runs statements, each again while the nodes hold its locks.
async fn run(world: &World, statements: &[String]) {
    let mut sql = world.sql().await;
    if world.url.starts_with("sqlite:") {
        sql.execute("PRAGMA busy_timeout = 60000").await.unwrap();
    }
    for statement in statements {
        while let Err(error) = sql.execute(AssertSqlSafe(statement.clone())).await {
            let text = error.to_string().to_lowercase();
            assert!(text.contains("deadlock") || text.contains("lock"), "{statement}: {error}");
        }
    }
    // MySQL closes it first.
    let _ = sql.close().await;
}

/// A trigger rejects the orders of a sale, or all, for this time.
pub async fn reject(world: &World, sale: Option<VoucherId>, time: Duration) {
    let which = sale.map_or("NEW.id > 0".to_owned(), |sale| format!("NEW.voucher_id = {sale}"));
    let on = "BEFORE INSERT ON tb_voucher_order";
    let (add, remove) = if world.url.starts_with("sqlite:") {
        let body = "BEGIN SELECT RAISE(ABORT, 'not now'); END";
        (vec![format!("CREATE TRIGGER rejects {on} WHEN {which} {body}")], "DROP TRIGGER rejects")
    } else if world.url.starts_with("mysql:") {
        let signal = "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not now'; END IF";
        let add = format!("CREATE TRIGGER rejects {on} FOR EACH ROW IF {which} THEN {signal}");
        (vec![add], "DROP TRIGGER rejects")
    } else {
        let function = format!(
            "CREATE OR REPLACE FUNCTION rejects() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF {which} THEN RAISE EXCEPTION 'not now'; END IF; RETURN NEW; END $$"
        );
        let trigger =
            format!("CREATE TRIGGER rejects {on} FOR EACH ROW EXECUTE FUNCTION rejects()");
        (vec![function, trigger], "DROP TRIGGER rejects ON tb_voucher_order")
    };
    run(world, &add).await;
    tokio::time::sleep(time).await;
    run(world, &[remove.to_owned()]).await;
}

/// A sale is deleted with its orders and its voucher, as if SQL were restored from a backup that is older than the sale.
pub async fn lose(world: &World, sale: VoucherId) {
    let of = |table: &str, column: &str| format!("DELETE FROM {table} WHERE {column} = {sale}");
    let all = [
        of("tb_give_back", "voucher_id"),
        of("tb_voucher_order", "voucher_id"),
        of("tb_shard_stock", "voucher_id"),
        of("tb_seckill_voucher", "voucher_id"),
        of("tb_voucher", "id"),
    ];
    // In one transaction: between two statements, the nodes would insert orders.
    let mut sql = world.sql().await;
    let begin = if world.url.starts_with("sqlite:") {
        sql.execute("PRAGMA busy_timeout = 60000").await.unwrap();
        "BEGIN IMMEDIATE"
    } else {
        "BEGIN"
    };
    // The locks of the stock come first, as with the writers of orders.
    let lock = |table: &str| format!("UPDATE {table} SET stock = stock WHERE voucher_id = {sale}");
    let locks = [lock("tb_shard_stock"), lock("tb_seckill_voucher")];
    loop {
        let done = async {
            sql.execute(begin).await?;
            for statement in locks.iter().chain(&all) {
                sql.execute(AssertSqlSafe(statement.clone())).await?;
            }
            sql.execute("COMMIT").await
        };
        let Err(error) = done.await else { break };
        let text = error.to_string().to_lowercase();
        assert!(text.contains("deadlock") || text.contains("lock"), "{error}");
        let _ = sql.execute("ROLLBACK").await;
    }
    // MySQL closes it first.
    let _ = sql.close().await;
}
