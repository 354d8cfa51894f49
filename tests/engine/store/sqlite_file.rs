//! Properties of SQLite files: two programs on one file, other schemas, other files.

use std::{collections::HashSet, path::Path};

use seckill_model::{OrderStatus, ShardId, UserId};
use seckill_store::{SharedStore, StoreError, Written};
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use super::{NOW, entry, id, sale_of, sqlite, sqlite_at};

/// Runs statements on the file behind the store's back.
async fn run(path: &Path, sql: &str) {
    let url = format!("sqlite:{}?mode=rwc", path.display());
    let mut conn = SqliteConnection::connect(&url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}

async fn refusal(path: &Path) -> StoreError {
    seckill_store::open(&format!("sqlite:{}", path.display()), &seckill_store::Settings::default())
        .await
        .unwrap_err()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_programs_never_oversell_and_never_double() {
    const STOCK: u64 = 600;
    let (dir, one) = sqlite().await;
    let two = sqlite_at(&dir).await;
    let voucher = sale_of(&one, STOCK).await.voucher_id;
    // Eight tasks submit the same 1,000 buyers with different IDs, in different orders.
    let tasks: Vec<_> = (0..8_u64)
        .map(|task| {
            let store: SharedStore = if task % 2 == 0 { one.clone() } else { two.clone() };
            tokio::spawn(async move {
                let mut new = 0;
                for from in (0..1_000).step_by(25) {
                    let batch: Vec<_> = (from..from + 25)
                        .map(|n| (n * 7 + task * 131) % 1_000)
                        .map(|user| entry(task * 10_000 + user, user, voucher))
                        .collect();
                    match store.write_orders(&batch, NOW).await {
                        Ok(written) => {
                            new += written.iter().filter(|it| **it == Written::New).count();
                        }
                        Err(StoreError::OutOfStock(_)) => {}
                        Err(fault) => panic!("{fault}"),
                    }
                }
                new as u64
            })
        })
        .collect();
    let mut new = 0;
    for task in tasks {
        new += task.await.unwrap();
    }
    let ledger = two.ledger(ShardId::only(voucher)).await.unwrap();
    assert_eq!((ledger.live, ledger.doubled), (new, 0));
    assert_eq!(ledger.stock, (STOCK - new) as i64);
    assert!(new <= STOCK && new > STOCK / 2, "{new}");
    let live = one.live_orders(ShardId::only(voucher), None, u32::MAX).await.unwrap();
    let buyers: HashSet<UserId> = live.iter().map(|it| it.user_id).collect();
    assert_eq!(buyers.len() as u64, new);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_may_create_the_file_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("a.db").display());
    let opening: Vec<_> = (0..8)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move {
                seckill_store::open(&url, &seckill_store::Settings::default()).await
            })
        })
        .collect();
    for store in opening {
        sale_of(&store.await.unwrap().unwrap(), 1).await;
    }
}

#[tokio::test]
async fn reopening_keeps_the_data() {
    let (dir, store) = sqlite().await;
    let sale = sale_of(&store, 5).await;
    store.write_orders(&[entry(1, 1, sale.voucher_id)], NOW).await.unwrap();
    let (ledger, sales) =
        (store.ledger(ShardId::only(sale.voucher_id)).await.unwrap(), store.sales().await.unwrap());
    store.close().await;
    let again = sqlite_at(&dir).await;
    assert_eq!(again.ledger(ShardId::only(sale.voucher_id)).await.unwrap(), ledger);
    assert_eq!(again.sales().await.unwrap(), sales);
    assert!(again.describe().starts_with("sqlite /"));
    let durability = again.durability().await.unwrap();
    for (name, value) in [("journal_mode", "wal"), ("synchronous", "full"), ("foreign_keys", "on")]
    {
        assert!(durability.iter().any(|it| it.0 == name && it.1 == value), "{durability:?}");
    }
}

#[tokio::test]
async fn a_closed_order_allows_its_buyer_another_order() {
    let (dir, store) = sqlite().await;
    let voucher = sale_of(&store, 5).await.voucher_id;
    store.write_orders(&[entry(1, 1, voucher), entry(2, 2, voucher)], NOW).await.unwrap();
    run(
        &dir.path().join("a.db"),
        &format!(
            "UPDATE tb_voucher_order SET status = 5, close_time = 9 WHERE id = {};
             UPDATE tb_seckill_voucher SET stock = stock + 1",
            id(1)
        ),
    )
    .await;
    let batch = [entry(1, 1, voucher), entry(3, 1, voucher), entry(4, 2, voucher)];
    assert_eq!(
        store.write_orders(&batch, NOW).await.unwrap(),
        [Written::Again, Written::New, Written::Conflict { holds: id(2) }]
    );
    let ledger = store.ledger(ShardId::only(voucher)).await.unwrap();
    assert_eq!((ledger.live, ledger.closed, ledger.stock), (2, 1, 3));
    assert_eq!(store.order(id(1)).await.unwrap().unwrap().status, OrderStatus::Closed);
    let live = store.live_orders(ShardId::only(voucher), None, 9).await.unwrap();
    let live: Vec<_> = live.iter().map(|it| (it.id, it.user_id)).collect();
    assert_eq!(live, [(id(2), UserId(2)), (id(3), UserId(1))]);
    assert_eq!(store.existing(&[id(1)]).await.unwrap(), [id(1)]);
}

#[tokio::test]
async fn doubled_buyers_are_counted_where_the_index_is_gone() {
    let (dir, store) = sqlite().await;
    let voucher = sale_of(&store, 5).await.voucher_id;
    store.write_orders(&[entry(1, 1, voucher)], NOW).await.unwrap();
    run(
        &dir.path().join("a.db"),
        &format!(
            "DROP INDEX uk_one_live_order;
             INSERT INTO tb_voucher_order (id, user_id, voucher_id, create_time, update_time)
             VALUES (77, 1, {voucher}, 1, 1)"
        ),
    )
    .await;
    let ledger = store.ledger(ShardId::only(voucher)).await.unwrap();
    assert_eq!((ledger.live, ledger.doubled, ledger.stock), (2, 1, 4));
}

#[tokio::test]
async fn another_schema_is_refused_with_an_error() {
    let spoil = [
        ("INSERT INTO _sqlx_migrations VALUES (99, 'x', 0, TRUE, x'00', 0)", "version 99"),
        (
            "UPDATE _sqlx_migrations SET checksum = x'00'",
            "schema version 1 of the database differs",
        ),
        ("UPDATE _sqlx_migrations SET success = FALSE", "was interrupted"),
    ];
    for (sql, words) in spoil {
        let (dir, store) = sqlite().await;
        store.close().await;
        let path = dir.path().join("a.db");
        run(&path, sql).await;
        let result = refusal(&path).await;
        assert!(matches!(result, StoreError::Schema(_)), "{result}");
        assert!(result.to_string().contains(words), "{result}");
        assert!(result.to_string().contains("--database"), "{result}");
    }
}

#[tokio::test]
async fn a_foreign_database_is_refused_and_left_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let alien = dir.path().join("alien.db");
    run(&alien, "CREATE TABLE diary (day, words)").await;
    let before = std::fs::read(&alien).unwrap();
    let result = refusal(&alien).await.to_string();
    assert!(result.contains("another program (diary)"), "{result}");
    assert_eq!(std::fs::read(&alien).unwrap(), before);

    let text = dir.path().join("text.db");
    std::fs::write(&text, "dear diary, ".repeat(1_000)).unwrap();
    let result = refusal(&text).await;
    assert!(matches!(result, StoreError::File(_)), "{result}");
    assert!(result.to_string().contains("not an SQLite database"), "{result}");
}

/// Tests may run as root, to whom permissions do not apply: these are paths where no user can
/// keep a database.
#[tokio::test]
async fn impossible_paths_are_refused_with_an_error() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let mut places = vec![
        (dir.path().to_owned(), "is not a file"),
        (dir.path().join("missing/a.db"), "does not exist"),
        (dir.path().join("file/a.db"), "is not a directory"),
    ];
    if cfg!(target_os = "linux") {
        places.push(("/proc/seckill.db".into(), "/proc"));
    }
    for (place, words) in places {
        let result = refusal(&place).await;
        assert!(matches!(result, StoreError::File(_)), "{result}");
        assert!(result.to_string().contains(words), "{result}");
        assert!(result.to_string().contains("--database"), "{result}");
    }
}

#[tokio::test]
async fn paths_may_contain_any_character() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("库 ?#&%41.db");
    let url = format!("sqlite:{}", dir.path().join("库 %3F#&%2541.db").display());
    sale_of(&seckill_store::open(&url, &seckill_store::Settings::default()).await.unwrap(), 1)
        .await;
    assert!(path.is_file());
}
