//! Changes of SQL beside the running nodes, by another program.

use std::time::Duration;

use seckill_engine::ledger;
use seckill_model::{ShardId, VoucherId, ledger::Finding};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

use super::{
    stage::{self, until},
    world::World,
};

/// MySQL changes no table with a copy of it while other tables refer to it.
const WITHOUT_FOREIGN_KEYS: &str = "SET foreign_key_checks = 0";

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

/// A column that each order must have is added, and dropped again after this time. SQLite refuses such a column: one that
/// orders have gets another name instead.
pub async fn add_column(world: &World, time: Duration) {
    let table = "ALTER TABLE tb_voucher_order";
    let (add, remove): (&[&str], &str) = if world.url.starts_with("sqlite:") {
        (&["RENAME COLUMN update_time TO changed"], "RENAME COLUMN changed TO update_time")
    } else if world.url.starts_with("mysql:") {
        (&["ADD COLUMN remark INT NOT NULL"], "DROP COLUMN remark")
    } else {
        (
            &["ADD COLUMN remark INT NOT NULL DEFAULT 0", "ALTER COLUMN remark DROP DEFAULT"],
            "DROP COLUMN remark",
        )
    };
    let add: Vec<String> = add.iter().map(|it| format!("{table} {it}")).collect();
    run(world, &add).await;
    tokio::time::sleep(time).await;
    run(world, &[format!("{table} {remove}")]).await;
}

/// A unique index that some of the coming orders violate, for this time. Earlier orders do not count.
pub async fn add_index(world: &World, time: Duration) {
    let mut sql = world.sql().await;
    let is_mysql = world.url.starts_with("mysql:");
    if is_mysql {
        sql.execute(WITHOUT_FOREIGN_KEYS).await.unwrap();
    }
    loop {
        let newest = sqlx::query_scalar("SELECT COALESCE(MAX(id), 0) FROM tb_voucher_order");
        let newest: i64 = newest.fetch_one(&mut sql).await.unwrap();
        let few = format!("(CASE WHEN id > {newest} THEN user_id % 97 END)");
        let add = if is_mysql {
            let column = format!("few BIGINT GENERATED ALWAYS AS {few} VIRTUAL");
            format!("ALTER TABLE tb_voucher_order ADD COLUMN {column}, ADD UNIQUE INDEX few (few)")
        } else {
            format!("CREATE UNIQUE INDEX few ON tb_voucher_order ({few})")
        };
        // Orders that came meanwhile may violate it; a lock may be held.
        match sql.execute(AssertSqlSafe(add)).await {
            Ok(_) => break,
            Err(error) => {
                let text = error.to_string().to_lowercase();
                let passes = ["lock", "unique", "duplicate"].iter().any(|it| text.contains(it));
                assert!(passes, "{error}");
            }
        }
    }
    // MySQL closes it first.
    let _ = sql.close().await;
    tokio::time::sleep(time).await;
    let remove: &[&str] = if is_mysql {
        &[WITHOUT_FOREIGN_KEYS, "ALTER TABLE tb_voucher_order DROP INDEX few, DROP COLUMN few"]
    } else {
        &["DROP INDEX few"]
    };
    run(world, &remove.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()).await;
}

/// Orders of another program, with negative IDs, lie in the places of these users for this time; how many there were.
pub async fn foreign_rows(world: &World, of: ShardId, users: &[u64], time: Duration) -> usize {
    let (voucher, shard) = (of.voucher(), of.number);
    let mut added = 0;
    for (number, user) in (1..).zip(users) {
        // Never overdue; not where the user has an order.
        let add = format!(
            "INSERT INTO tb_voucher_order (id, user_id, voucher_id, shard, buyer_place, create_time, update_time) \
             SELECT -{number}, {user}, {voucher}, {shard}, 1, 9999999999999, 1 FROM tb_seckill_voucher \
             WHERE voucher_id = {voucher} AND NOT EXISTS (SELECT 1 FROM tb_voucher_order \
             WHERE voucher_id = {voucher} AND user_id = {user})"
        );
        added += usize::from(try_run(world, &add).await);
    }
    tokio::time::sleep(time).await;
    run(world, &["DELETE FROM tb_voucher_order WHERE id < 0".to_owned()]).await;
    added
}

/// Runs a statement that may violate an index; whether it changed a row.
async fn try_run(world: &World, statement: &str) -> bool {
    let mut sql = world.sql().await;
    if world.url.starts_with("sqlite:") {
        sql.execute("PRAGMA busy_timeout = 60000").await.unwrap();
    }
    let done = loop {
        match sql.execute(AssertSqlSafe(statement.to_owned())).await {
            Ok(done) => break done.rows_affected() > 0,
            Err(error) => {
                let text = error.to_string().to_lowercase();
                if text.contains("unique") || text.contains("duplicate") {
                    break false;
                }
                assert!(text.contains("deadlock") || text.contains("lock"), "{error}");
            }
        }
    };
    // MySQL closes it first.
    let _ = sql.close().await;
    done
}

/// The stock of a sale in SQL is changed, as by a statement of an operator; later it is derived from the orders.
pub async fn change_stock(world: &World, of: ShardId, by: i64) -> Result<(), String> {
    let (voucher, shard) = (of.voucher(), of.number);
    let whole =
        format!("UPDATE tb_seckill_voucher SET stock = stock + {by} WHERE voucher_id = {voucher}");
    let part = format!(
        "UPDATE tb_shard_stock SET stock = stock + {by} WHERE voucher_id = {voucher} AND shard = {shard}"
    );
    let change = if of.numbered().is_some() { part } else { whole };
    try_run(world, &format!("{change} AND stock + {by} BETWEEN 0 AND initial_stock")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    until("the operator derives the stock", async || {
        let Ok(audit) = ledger::audit(&mut world.servers(), None).await else { return false };
        let wrong = |it: &Finding| matches!(it, Finding::SqlStock { .. } | Finding::Negative(..));
        if audit.findings().any(|it| wrong(&it.what)) {
            let _ = stage::repair(world).await;
            return false;
        }
        true
    })
    .await
}

/// Each insert of orders takes a while, within its transaction.
pub async fn slow(world: &World) {
    let on = "INSERT ON tb_voucher_order";
    let add = if world.url.starts_with("sqlite:") {
        vec![format!(
            "CREATE TRIGGER slows BEFORE {on} BEGIN SELECT length(hex(randomblob(200000))); END"
        )]
    } else if world.url.starts_with("mysql:") {
        vec![format!("CREATE TRIGGER slows AFTER {on} FOR EACH ROW DO SLEEP(0.002)")]
    } else {
        let function = "CREATE OR REPLACE FUNCTION slows() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                        PERFORM pg_sleep(0.1); RETURN NULL; END $$";
        let each =
            format!("CREATE TRIGGER slows AFTER {on} FOR EACH STATEMENT EXECUTE FUNCTION slows()");
        vec![function.to_owned(), each]
    };
    run(world, &add).await;
}

pub async fn slow_no_more(world: &World) {
    let of = if world.url.starts_with("postgres") { " ON tb_voucher_order" } else { "" };
    run(world, &[format!("DROP TRIGGER slows{of}")]).await;
}
