//! The store on database servers that are killed, frozen, read-only, foreign, or disconnected at the commit.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::support::{
    Cut, GUARDED, MariaDb, PATIENCE, PoolMode, Pooler, Postgres, Proxy, Server, is_mysql,
    wait_until,
};
use seckill_model::{
    Cause, Millis, NewRun, NewSale, OrderEntry, OrderId, ShardId, UserId, VoucherId,
};
use seckill_store::{
    ActivityFilter, AuditEntry, DEPLOYMENT, Expected, Opening, Settings, SharedStore, StoreError,
    Tls, Written,
};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection, PgConnection};

const NOW: Millis = Millis(1_795_000_000_000);

/// Short timeouts, so that errors appear quickly.
fn quick() -> Settings {
    Settings {
        pool: 4,
        acquire_ms: 500,
        statement_ms: 1_000,
        connect_ms: 1_000,
        ..Settings::default()
    }
}

/// Their limits do not apply to the creation of the tables, which takes seconds on MySQL.
async fn open(url: &str) -> SharedStore {
    seckill_store::open(url, &Settings::default()).await.unwrap().close().await;
    seckill_store::open(url, &quick()).await.unwrap()
}

async fn refusal(url: &str) -> StoreError {
    let error = seckill_store::open(url, &quick()).await.unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
    error
}

async fn sale_of(store: &SharedStore, stock: u64) -> VoucherId {
    let sale =
        NewSale { title: "hot pot".into(), stock, begin: None, end: None, limit: 1, shards: 1 };
    store.create_sale(&sale, NOW).await.unwrap().voucher_id
}

fn entry(number: u64, voucher: VoucherId) -> OrderEntry {
    let order = OrderId::new(1_795_000_000, number).unwrap();
    OrderEntry::new(order, UserId(number), voucher)
}

async fn a_killed_server_is_away_and_comes_back(mut server: impl Server) {
    let name = server.create().await;
    for url in [server.url(&name), server.tcp_url(&name)] {
        let store = open(&url).await;
        let voucher = sale_of(&store, 9).await;
        store.write_orders(&[entry(voucher.0 * 10, voucher)], NOW).await.unwrap();
        server.kill();
        let started = Instant::now();
        let error =
            store.write_orders(&[entry(voucher.0 * 10 + 1, voucher)], NOW).await.unwrap_err();
        assert!(matches!(error, StoreError::Away(_)), "{error}");
        let error = store.sales().await.unwrap_err();
        assert!(matches!(error, StoreError::Away(_)), "{error}");
        assert!(started.elapsed() < Duration::from_secs(10));
        assert!(refusal(&url).await.is_away());
        server.restart();
        // The same store reconnects, and committed data is present.
        wait_until(PATIENCE, "it answers again", async || store.ping().await.is_ok()).await;
        assert_eq!(store.ledger(ShardId::only(voucher)).await.unwrap().live, 1);
        let batch = [entry(voucher.0 * 10 + 1, voucher)];
        assert_eq!(store.write_orders(&batch, NOW).await.unwrap(), [Written::New]);
    }
}

async fn a_frozen_server_makes_nobody_wait_for_ever(server: impl Server) {
    let name = server.create().await;
    let store = open(&server.url(&name)).await;
    let voucher = sale_of(&store, 99).await;
    server.freeze();
    let started = Instant::now();
    let batch = [entry(2, voucher)];
    let (a, b, c) = tokio::join!(store.sales(), store.write_orders(&batch, NOW), store.ping());
    for error in [a.unwrap_err(), b.unwrap_err(), c.unwrap_err()] {
        assert!(matches!(error, StoreError::Away(_)), "{error}");
    }
    assert!(refusal(&server.url(&name)).await.is_away());
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    server.thaw();
    wait_until(PATIENCE, "it answers again", async || store.ping().await.is_ok()).await;
    let written = store.write_orders(&batch, NOW).await.unwrap();
    assert!(matches!(written[0], Written::New | Written::Again));
    assert_eq!(store.ledger(ShardId::only(voucher)).await.unwrap().live, 1);
}

/// Such as a process that is stopped while it holds the locks of its rows.
async fn a_client_that_stops_in_its_transaction_is_not_waited_for(server: impl Server) {
    let name = server.create().await;
    let proxy = Proxy::before(server.port()).await;
    let (other, url) = (open(&server.url(&name)).await, server.tcp_url(&name));
    let voucher = sale_of(&other, 9).await;
    let store = open(&proxy.url(&url, server.port())).await;
    proxy.cut_at_commit(Cut::Held);
    let (first, second) = ([entry(1, voucher)], [entry(2, voucher)]);
    let meanwhile = async {
        wait_until(PATIENCE, "it stops", async || proxy.to_come() == 0).await;
        other.write_orders(&second, NOW).await
    };
    let (stopped, meanwhile) = tokio::join!(store.write_orders(&first, NOW), meanwhile);
    assert!(matches!(stopped.unwrap_err(), StoreError::Unknown(_)));
    // Its rows are locked until the server ends the session, which it may have done on a machine that is busy.
    if let Err(error) = meanwhile {
        assert!(matches!(error, StoreError::Away(_)), "{error}");
    }
    wait_until(PATIENCE, "the server ends its session", async || {
        other.write_orders(&second, NOW).await.is_ok()
    })
    .await;
    assert_eq!(other.ledger(ShardId::only(voucher)).await.unwrap().live, 1);
}

async fn a_commit_that_nobody_heard_of_is_unknown(server: impl Server) {
    let name = server.create().await;
    let proxy = Proxy::before(server.port()).await;
    let url = proxy.url(&server.tcp_url(&name), server.port());
    let store = open(&url).await;
    let voucher = sale_of(&store, 9).await;
    for (number, cut, then) in [(1, Cut::Before, Written::New), (2, Cut::After, Written::Again)] {
        let batch = [entry(number, voucher)];
        proxy.cut_at_commit(cut);
        let error = store.write_orders(&batch, NOW).await.unwrap_err();
        assert!(matches!(error, StoreError::Unknown(_)) && error.is_away(), "{error}");
        assert_eq!(store.write_orders(&batch, NOW).await.unwrap(), [then], "asked again");
    }
    let ledger = store.ledger(ShardId::only(voucher)).await.unwrap();
    assert_eq!((ledger.live, ledger.stock), (2, 7));
}

async fn many_may_create_the_tables_at_once(server: impl Server) {
    let name = server.create().await;
    let opening: Vec<_> = (0..8)
        .map(|_| {
            let url = server.url(&name);
            tokio::spawn(async move { seckill_store::open(&url, &Settings::default()).await })
        })
        .collect();
    for store in opening {
        sale_of(&store.await.unwrap().unwrap(), 1).await;
    }
}

async fn several_programs_never_oversell_and_never_double(server: impl Server) {
    const STOCK: u64 = 600;
    let name = server.create().await;
    let settings = Settings { pool: 4, ..Settings::default() };
    let mut stores = Vec::new();
    for _ in 0..3 {
        stores.push(seckill_store::open(&server.url(&name), &settings).await.unwrap());
    }
    let (a, b) = (sale_of(&stores[0], STOCK).await, sale_of(&stores[0], 10_000).await);
    // Tasks submit the same buyers with different IDs for two sales, in different orders.
    let tasks: Vec<_> = (0..9_u64)
        .map(|task| {
            let store = Arc::clone(&stores[task as usize % 3]);
            tokio::spawn(async move {
                let mut new = 0;
                for from in (0..1_000).step_by(50) {
                    let user = |n: u64| (n * 7 + task * 131) % 1_000;
                    let at = |n: u64| if (n + task).is_multiple_of(3) { b } else { a };
                    let batch: Vec<_> = (from..from + 50)
                        .map(|n| OrderEntry {
                            user: UserId(user(n)),
                            ..entry(task * 10_000 + n, at(n))
                        })
                        .collect();
                    match store.write_orders(&batch, NOW).await {
                        Ok(result) => {
                            new += result.iter().filter(|it| **it == Written::New).count();
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
    let (one, two) = (
        stores[1].ledger(ShardId::only(a)).await.unwrap(),
        stores[2].ledger(ShardId::only(b)).await.unwrap(),
    );
    assert_eq!(one.live + two.live, new);
    assert_eq!((one.doubled, two.doubled), (0, 0));
    assert_eq!((one.stock, two.stock), ((STOCK - one.live) as i64, (10_000 - two.live) as i64));
    assert!(one.live <= STOCK && one.live > STOCK / 2, "{}", one.live);
}

async fn a_foreign_database_is_refused_and_left_unchanged(server: impl Server) {
    let name = server.create().await;
    server.run(&name, "CREATE TABLE diary (words VARCHAR(9))").await;
    let result = refusal(&server.url(&name)).await;
    assert!(matches!(result, StoreError::File(_)), "{result}");
    assert!(result.to_string().contains("another program (diary)"), "{result}");
    assert!(result.to_string().contains("--database"), "{result}");
    server.run(&name, "DROP TABLE diary").await;
    let store = open(&server.url(&name)).await;
    sale_of(&store, 1).await;
    // A reopened database is unchanged.
    assert_eq!(open(&server.url(&name)).await.sales().await.unwrap().len(), 1);
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                 VALUES (999, 'x', TRUE, '', 0)";
    server.run(&name, newer).await;
    let result = refusal(&server.url(&name)).await;
    assert!(matches!(result, StoreError::Schema(_)), "{result}");
    assert!(result.to_string().contains("version 999, created by a newer seckill"), "{result}");
    server.run(&name, "DELETE FROM _sqlx_migrations WHERE version = 999").await;
    server.run(&name, "UPDATE _sqlx_migrations SET checksum = 'x'").await;
    let result = refusal(&server.url(&name)).await;
    assert!(result.to_string().contains("schema version 1 of the database differs"), "{result}");
}

async fn impossible_paths_are_refused_with_an_error<S: Server>(server: S) {
    let url = server.tcp_url("nowhere").replace("root@", "root:hunter2@");
    let port = server.port().to_string();
    let empty = url.replace("/nowhere", "/");
    for (url, words) in [
        (server.tcp_url("nowhere"), "nowhere"),
        (url.replace(&port, "1"), "refused"),
        (empty, "names no database"),
        (format!("{url}?sslmod=verify"), "unknown parameter 'sslmod'"),
        (url.replace("127.0.0.1", "no-such-host.invalid"), "the database is unavailable"),
    ] {
        let error = refusal(&url).await.to_string();
        assert!(error.contains(words), "{url}: {error}");
    }
    let server = S::without_tls();
    let name = server.create().await;
    let tls = Settings { tls: Tls::Require, ..quick() };
    let error = seckill_store::open(&server.tcp_url(&name), &tls).await.unwrap_err();
    assert!(error.is_away() && error.to_string().contains("store.tls"), "{error}");
    let missing = Settings { tls: Tls::Verify, ca: Some("/no/such.pem".into()), ..quick() };
    assert!(seckill_store::open(&server.tcp_url(&name), &missing).await.is_err());
}

/// Counts the tables that a URL's user sees in its database.
async fn tables<S: Server>(server: &S, name: &str) -> String {
    let scheme = server.url(name);
    let (text, own) = if scheme.starts_with("mysql") {
        ("CHAR", "table_schema = DATABASE()")
    } else {
        ("TEXT", "table_schema NOT IN ('pg_catalog', 'information_schema')")
    };
    let query =
        format!("SELECT CAST(COUNT(*) AS {text}) FROM information_schema.tables WHERE {own}");
    S::read(&mut server.connect(name).await, query).await
}

async fn a_database_of_another_deployment_is_left_unchanged<S: Server>(server: S) {
    let name = server.create().await;
    let url = server.url(&name);
    let open_as = async |expected: Expected| {
        let opening = Opening { expected, ..Opening::default() };
        seckill_store::open_as(&url, &quick(), &opening).await
    };
    let named = |name: &str| Expected::Named(name.to_owned());
    // An empty database.
    let error = open_as(named("a")).await.unwrap_err();
    assert!(matches!(error, StoreError::Foreign(_)), "{error}");
    let error = open_as(Expected::Unknown).await.unwrap_err();
    assert!(matches!(error, StoreError::Unbound(_)) && error.is_away(), "{error}");
    assert_eq!(tables(&server, &name).await, "0");
    // One without a name, which another process may be about to store.
    let store = open(&url).await;
    assert!(matches!(open_as(named("a")).await, Err(StoreError::Foreign(_))));
    assert!(matches!(open_as(Expected::Unknown).await, Err(StoreError::Unbound(_))));
    assert!(store.change_setting(DEPLOYMENT, None, "a").await.unwrap());
    open_as(named("a")).await.unwrap();
    open_as(Expected::Unknown).await.unwrap();
    // One of an earlier version.
    let newest = "FROM _sqlx_migrations WHERE version = 13";
    server.run(&name, &format!("DELETE {newest}")).await;
    assert!(matches!(open_as(named("b")).await, Err(StoreError::Foreign(_))));
    assert!(matches!(open_as(Expected::Unknown).await, Err(StoreError::Unbound(_))));
    let text = if url.starts_with("mysql") { "CHAR" } else { "TEXT" };
    let count = format!("SELECT CAST(COUNT(*) AS {text}) {newest}");
    assert_eq!(S::read(&mut server.connect(&name).await, count).await, "0");
}

async fn a_user_who_may_only_read_reads<S: Server>(server: S) {
    let name = server.create().await;
    let is_mysql = server.url(&name).starts_with("mysql");
    let reading = Opening { read_only: true, ..Opening::default() };
    let open_as = async |url: &str| seckill_store::open_as(url, &quick(), &reading).await;
    let url = server.url(&name);
    let error = open_as(&url).await.unwrap_err();
    assert!(error.to_string().contains("has no tables of seckill"), "{error}");
    assert_eq!(tables(&server, &name).await, "0");

    let owner = open(&url).await;
    sale_of(&owner, 5).await;
    owner.try_writes().await.unwrap();
    let make = if is_mysql {
        format!(
            "CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'hunter2'; \
             GRANT SELECT ON {name}.* TO reader@'127.0.0.1'"
        )
    } else {
        "CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader".to_owned()
    };
    server.run(&name, &make).await;
    let reader = server.tcp_url(&name).replace("root@", "reader:hunter2@");
    let store = open_as(&reader).await.unwrap();
    assert_eq!(store.sales().await.unwrap().len(), 1);
    // A command that changes something is rejected by the database, one that reads is not.
    let store = open(&reader).await;
    assert_eq!(store.sales().await.unwrap().len(), 1);
    assert!(store.try_writes().await.unwrap_err().to_string().contains("GRANT"));
    let sale = store
        .create_sale(
            &NewSale { title: "tea".into(), stock: 1, begin: None, end: None, limit: 1, shards: 1 },
            NOW,
        )
        .await;
    assert!(sale.unwrap_err().to_string().contains("GRANT"));

    server.run(&name, "DELETE FROM _sqlx_migrations WHERE version = 13").await;
    let error = open_as(&reader).await.unwrap_err().to_string();
    assert!(error.contains("requires 13, and --read-only upgrades nothing"), "{error}");
}

async fn a_missing_migration_is_named(server: impl Server) {
    let name = server.create().await;
    let url = server.url(&name);
    open(&url).await;
    server.run(&name, "DELETE FROM _sqlx_migrations WHERE version = 5").await;
    let error = refusal(&url).await;
    assert!(matches!(error, StoreError::Schema(_)) && !error.is_away(), "{error}");
    assert!(error.to_string().contains("version 13, but not version 5"), "{error}");
}

crate::on_both_servers![
    a_database_of_another_deployment_is_left_unchanged,
    a_user_who_may_only_read_reads,
    a_missing_migration_is_named,
    a_killed_server_is_away_and_comes_back,
    a_frozen_server_makes_nobody_wait_for_ever,
    a_client_that_stops_in_its_transaction_is_not_waited_for,
    a_commit_that_nobody_heard_of_is_unknown,
    many_may_create_the_tables_at_once,
    several_programs_never_oversell_and_never_double,
    a_foreign_database_is_refused_and_left_unchanged,
    impossible_paths_are_refused_with_an_error,
];

#[tokio::test]
async fn mariadb_refuses_wrong_passwords_and_writes_on_a_replica() {
    let server = MariaDb::start();
    let name = server.create().await;
    open(&server.url_of(&name)).await;
    server
        .run(
            "",
            &format!(
                "CREATE USER shop@'127.0.0.1' IDENTIFIED BY 'hunter2'; \
                 GRANT ALL ON {name}.* TO shop@'127.0.0.1'"
            ),
        )
        .await;
    let url = server.tcp_url_of(&name).replace("root@", "shop:hunter2@");
    let store = open(&url).await;
    assert!(!store.describe().contains("hunter2") && !store.describe().contains("shop"));
    let error = refusal(&url.replace("hunter2", "hunter2x")).await;
    assert!(error.is_away() && error.to_string().contains("password"), "{error}");

    let voucher = sale_of(&store, 5).await;
    server.run("", "SET GLOBAL read_only = 1").await;
    let error = store.write_orders(&[entry(1, voucher)], NOW).await.unwrap_err();
    assert!(error.is_away() && error.to_string().contains("replica"), "{error}");
    assert_eq!(store.sales().await.unwrap().len(), 1, "it can be read");
    server.run("", "SET GLOBAL read_only = 0").await;
    assert_eq!(store.write_orders(&[entry(1, voucher)], NOW).await.unwrap(), [Written::New]);
}

#[tokio::test]
async fn postgres_refuses_wrong_passwords_and_writes_on_a_replica() {
    let server = Postgres::start();
    let name = server.create().await;
    open(&server.url_of(&name)).await;
    server
        .run(
            &name,
            &format!(
                "CREATE ROLE {GUARDED} LOGIN PASSWORD 'hunter2'; \
                 GRANT ALL ON ALL TABLES IN SCHEMA public TO {GUARDED}; \
                 GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {GUARDED}"
            ),
        )
        .await;
    let url = server.tcp_url_of(&name).replace("root@", &format!("{GUARDED}:hunter2@"));
    let error = refusal(&url.replace("hunter2", "hunter2x")).await;
    assert!(error.is_away() && error.to_string().contains("password"), "{error}");

    let store = open(&server.url_of(&name)).await;
    let voucher = sale_of(&store, 5).await;
    let read_only = async |on: bool| {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'seckill'";
        let set = format!("ALTER DATABASE {name} SET default_transaction_read_only = {on}; {end}");
        server.run("postgres", &set).await;
    };
    read_only(true).await;
    let write = async || store.write_orders(&[entry(1, voucher)], NOW).await;
    wait_until(PATIENCE, "new connections write nothing", async || {
        write().await.is_err_and(|error| error.is_away() && error.to_string().contains("replica"))
    })
    .await;
    assert_eq!(store.sales().await.unwrap().len(), 1, "it can be read");
    read_only(false).await;
    wait_until(PATIENCE, "it is written", async || write().await.is_ok()).await;
    assert_eq!(write().await.unwrap(), [Written::Again]);
}

#[tokio::test]
async fn locked_rows_are_waited_for_within_a_bound() {
    let (mariadb, postgres) = (MariaDb::shared(), Postgres::shared());
    let (one, two) = (mariadb.database().await, postgres.database().await);
    let (first, second) = (open(&one).await, open(&two).await);
    let (a, b) = (sale_of(&first, 5).await, sale_of(&second, 5).await);
    let mut my = MySqlConnection::connect(&one).await.unwrap();
    let mut pg = PgConnection::connect(&two).await.unwrap();
    let lock = "BEGIN; SELECT * FROM tb_seckill_voucher FOR UPDATE";
    my.execute(lock).await.unwrap();
    pg.execute(lock).await.unwrap();
    let (x, y) = ([entry(1, a)], [entry(1, b)]);
    let (x, y) = tokio::join!(first.write_orders(&x, NOW), second.write_orders(&y, NOW));
    for error in [x.unwrap_err(), y.unwrap_err()] {
        assert!(matches!(error, StoreError::Away(_)), "{error}");
    }
    my.execute("ROLLBACK").await.unwrap();
    pg.execute("ROLLBACK").await.unwrap();
    assert_eq!(first.write_orders(&[entry(1, a)], NOW).await.unwrap(), [Written::New]);
    assert_eq!(second.write_orders(&[entry(1, b)], NOW).await.unwrap(), [Written::New]);
}

/// Another transaction locks the rows of two sales in the opposite order; one of them is aborted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_is_retried() {
    let settings = Settings { pool: 4, ..Settings::default() };
    let mariadb = MariaDb::start();
    let (one, two) = (mariadb.database().await, Postgres::shared().database().await);
    for (url, is_mariadb) in [(one, true), (two, false)] {
        let store = seckill_store::open(&url, &settings).await.unwrap();
        let (a, b) = (sale_of(&store, 5).await, sale_of(&store, 5).await);
        let lock = |it: VoucherId| {
            let sql =
                format!("UPDATE tb_seckill_voucher SET update_time = 1 WHERE voucher_id = {it}");
            AssertSqlSafe(sql)
        };
        let waiting = if is_mysql() && is_mariadb {
            "SELECT CAST(variable_value AS SIGNED) FROM performance_schema.global_status \
             WHERE variable_name = 'innodb_row_lock_current_waits'"
        } else if is_mariadb {
            "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status \
             WHERE variable_name = 'innodb_row_lock_current_waits'"
        } else {
            "SELECT COUNT(*) FROM pg_stat_activity \
             WHERE wait_event_type = 'Lock' AND datname = current_database()"
        };
        let batch = [entry(1, a), entry(2, b)];
        macro_rules! meet {
            ($kind:ident) => {{
                let mut other = $kind::connect(&url).await.unwrap();
                let mut look = $kind::connect(&url).await.unwrap();
                other.execute("BEGIN").await.unwrap();
                other.execute(lock(b)).await.unwrap();
                let theirs = async {
                    wait_until(PATIENCE, "the store waits", async || {
                        let count = sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut look);
                        count.await.unwrap() > 0
                    })
                    .await;
                    let end = match other.execute(lock(a)).await {
                        Ok(_) => "COMMIT",
                        Err(_) => "ROLLBACK",
                    };
                    other.execute(end).await.unwrap();
                };
                let (result, ()) = tokio::join!(store.write_orders(&batch, NOW), theirs);
                assert_eq!(result.unwrap(), [Written::New; 2]);
            }};
        }
        if is_mariadb { meet!(MySqlConnection) } else { meet!(PgConnection) }
    }
}

#[tokio::test]
async fn mariadb_takes_large_batches_in_small_packets() {
    let server = MariaDb::with(&["--max-allowed-packet=16K"]);
    let name = server.create().await;
    let store = seckill_store::open(&server.url_of(&name), &Settings::default()).await.unwrap();
    let voucher = sale_of(&store, 6_000).await;
    let batch: Vec<_> = (0..5_000).map(|n| entry(n, voucher)).collect();
    assert_eq!(store.write_orders(&batch, NOW).await.unwrap(), vec![Written::New; 5_000]);
    let batch: Vec<_> = (4_000..6_000).map(|n| entry(n, voucher)).collect();
    let result = store.write_orders(&batch, NOW).await.unwrap();
    assert_eq!(result.iter().filter(|it| **it == Written::New).count(), 1_000);
    let ids: Vec<_> = (0..9_000).map(|n| entry(n, voucher).order).collect();
    assert_eq!(store.existing(&ids).await.unwrap().len(), 6_000);
    assert_eq!(store.pay(&ids, NOW).await.unwrap().len(), 9_000);
}

/// Even if the server's settings would truncate text or disable autocommit.
#[tokio::test]
async fn mariadb_is_strict_regardless_of_its_settings() {
    let server = MariaDb::with(&["--sql-mode=", "--autocommit=0", "--character-set-server=latin1"]);
    let name = server.create().await;
    let store = open(&server.url_of(&name)).await;
    let sale = NewSale {
        title: "火".repeat(1_001),
        stock: 1,
        begin: None,
        end: None,
        limit: 1,
        shards: 1,
    };
    let error = store.create_sale(&sale, NOW).await.unwrap_err();
    assert!(matches!(error, StoreError::Rejected(_)), "{error}");
    let sale = NewSale { title: "火锅 🍲".into(), ..sale };
    let made = store.create_sale(&sale, NOW).await.unwrap();
    store.close().await;
    let again = open(&server.url_of(&name)).await;
    assert_eq!(again.sale(made.voucher_id).await.unwrap(), made);
}

/// A transaction of READ COMMITTED cannot be logged as its statements: no order could be written.
#[tokio::test]
async fn mariadb_with_a_log_of_statements_gets_no_tables() {
    let log = ["--log-bin=log", "--server-id=1", "--binlog-format=STATEMENT"];
    let mut server = MariaDb::with(&log);
    let name = Server::create(&server).await;
    let error = refusal(&server.url_of(&name)).await;
    assert!(error.is_away() && error.to_string().contains("ROW or MIXED"), "{error}");
    assert_eq!(tables(&server, &name).await, "0");
    server.restart_with(&["--binlog-format=ROW"]);
    let store = open(&server.url_of(&name)).await;
    let voucher = sale_of(&store, 1).await;
    // What is there can be read.
    server.restart_with(&["--binlog-format=STATEMENT"]);
    let store = open(&server.url_of(&name)).await;
    assert_eq!(store.sale(voucher).await.unwrap().voucher_id, voucher);
    let error = store.write_orders(&[entry(1, voucher)], NOW).await.unwrap_err();
    assert!(error.is_away() && error.to_string().contains("ROW or MIXED"), "{error}");
}

/// A process was killed while it created the tables, which MySQL commits one by one.
#[tokio::test]
async fn mariadb_rolls_back_what_a_killed_process_began() {
    let server = MariaDb::shared();
    let (url, name) = {
        let url = server.database().await;
        let name = url.split(['/', '?']).nth(3).unwrap().to_owned();
        (url, name)
    };
    open(&url).await.close().await;
    let half = "UPDATE _sqlx_migrations SET success = FALSE; \
                DROP TABLE tb_setting; DROP TABLE tb_job_run; DROP TABLE tb_give_back; \
                DROP TABLE tb_voucher_order; DROP TABLE tb_shard_stock; DROP TABLE tb_seckill_voucher";
    server.run(&name, half).await;
    let store = open(&url).await;
    let voucher = sale_of(&store, 1).await;
    assert_eq!(store.write_orders(&[entry(1, voucher)], NOW).await.unwrap(), [Written::New]);

    // Before the first table: only the record of its migration is there.
    let created = name;
    let url = server.database().await;
    let name = url.split(['/', '?']).nth(3).unwrap().to_owned();
    let record = "CREATE TABLE _sqlx_migrations (version BIGINT PRIMARY KEY, description TEXT NOT NULL, \
                  installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, success BOOLEAN NOT NULL, \
                  checksum BLOB NOT NULL, execution_time BIGINT NOT NULL); \
                  INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                  VALUES (1, 'init', FALSE, 'x', -1)";
    server.run(&name, record).await;
    // That of another program stays, and is named.
    let refused = refusal(&url).await.to_string();
    assert!(refused.contains("was interrupted"), "{refused}");
    let first = "SELECT CAST(HEX(checksum) AS CHAR) FROM _sqlx_migrations WHERE version = 1";
    let known =
        <MariaDb as Server>::read(&mut server.connect(&created).await, first.to_owned()).await;
    server.run(&name, &format!("UPDATE _sqlx_migrations SET checksum = UNHEX('{known}')")).await;
    sale_of(&open(&url).await, 1).await;
}

/// A schema that precedes that of the tables, which PostgreSQL would use for new ones.
#[tokio::test]
async fn postgres_keeps_the_schema_of_its_tables() {
    let server = Postgres::start();
    let name = server.create().await;
    let (url, other) =
        (server.url_of(&name), format!("{}&options=-csearch_path%3Droot", server.url_of(&name)));
    let store = open(&url).await;
    assert!(store.describe().ends_with(" schema public"), "{}", store.describe());
    let voucher = sale_of(&store, 5).await;
    let new_connections = async || {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'seckill'";
        server.run("postgres", end).await;
        wait_until(PATIENCE, "it answers again", async || store.ping().await.is_ok()).await;
    };
    server.run(&name, "CREATE SCHEMA root").await;
    let second = open(&url).await;
    assert!(second.describe().ends_with(" schema public"), "{}", second.describe());
    assert_eq!(second.sales().await.unwrap().len(), 1);
    // Tables of another deployment there.
    let there = open(&other).await;
    assert!(there.describe().ends_with(" schema root"), "{}", there.describe());
    assert_eq!(there.sales().await.unwrap().len(), 0);
    new_connections().await;
    assert_eq!(store.write_orders(&[entry(1, voucher)], NOW).await.unwrap(), [Written::New]);
    // A table that was moved is missing, whatever precedes it.
    server
        .run(&name, "CREATE SCHEMA moved; ALTER TABLE public.tb_voucher_order SET SCHEMA moved")
        .await;
    new_connections().await;
    let error = store.write_orders(&[entry(2, voucher)], NOW).await.unwrap_err();
    assert!(matches!(error, StoreError::Schema(_)), "{error}");
}

/// Sessions have settings, prepared statements and locks, which a pooler would leave to other clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_shares_sessions_is_refused_and_keeps_nothing() {
    let server = Postgres::start();
    for (mode, remedy) in [
        (PoolMode::Newest, "pool_mode = session"),
        (PoolMode::Oldest, "pool_mode = session"),
        (PoolMode::Same, "pool_mode = session"),
        (PoolMode::Uncleaned, "server_reset_query = DISCARD ALL"),
    ] {
        let name = server.create().await;
        let pooler = Pooler::before(server.port(), &name, mode).await;
        let url = format!("postgres://root@127.0.0.1:{}/{name}", pooler.port());
        let error = seckill_store::open(&url, &Settings::default()).await.unwrap_err();
        assert!(error.to_string().contains(remedy), "{mode:?}: {error}");
        assert_eq!(tables(&server, &name).await, "0", "{mode:?}");
        let kept = "SELECT concat_ws(' ', NULLIF(current_setting('seckill.connection', TRUE), ''), \
             current_setting('statement_timeout'), \
             current_setting('lock_timeout'), (SELECT COUNT(*) FROM pg_prepared_statements), \
             (SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory'), \
             (SELECT COUNT(*) FROM pg_listening_channels()))";
        let kept = pooler.in_each_session(kept).await;
        assert!(!kept.is_empty() && kept.iter().all(|it| it == "0 0 0 0 0"), "{mode:?}: {kept:?}");
        drop(pooler);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_of_sessions_is_used() {
    let server = Postgres::start();
    let name = server.create().await;
    let pooler = Pooler::before(server.port(), &name, PoolMode::Session).await;
    let store = open(&format!("postgres://root@127.0.0.1:{}/{name}", pooler.port())).await;
    let voucher = sale_of(&store, 5).await;
    assert_eq!(store.write_orders(&[entry(1, voucher)], NOW).await.unwrap(), [Written::New]);
}

/// The database generates an ID that another program has used, or another server of a cluster.
#[tokio::test]
async fn an_id_that_another_row_has_is_not_used() {
    let server = Postgres::shared();
    let name = server.create().await;
    let store = open(&server.url_of(&name)).await;
    let taken = "INSERT INTO tb_voucher (id, title, create_time, update_time) OVERRIDING SYSTEM VALUE \
                 VALUES (1, 'a', 0, 0), (2, 'b', 0, 0); \
                 INSERT INTO tb_job_run (id, job, due, cause, node, token, started) OVERRIDING SYSTEM VALUE \
                 VALUES (1, 'a', 0, 'due', '', 0, 0); \
                 INSERT INTO tb_audit_log (id, at, operator, node, act, subject, result) OVERRIDING SYSTEM VALUE \
                 VALUES (1, 0, '', '', '', '', '')";
    Server::run(server, &name, taken).await;
    assert_eq!(sale_of(&store, 5).await, VoucherId(3));
    let (job, node) = ("b".to_owned(), "n".to_owned());
    let run = NewRun { job, due: NOW, cause: Cause::Due, node, token: 1, started: NOW };
    assert_eq!(store.begin_run(&run).await.unwrap(), Some(2));
    assert_eq!(store.begin_run(&run).await.unwrap(), None, "that due time is taken");
    store.record(&AuditEntry::default()).await.unwrap();
    assert_eq!(store.activity(&ActivityFilter::default(), None, 9).await.unwrap().len(), 2);
}

/// An upgrade that fails for another reason than an outage is not repeated.
#[tokio::test]
async fn postgres_says_why_an_upgrade_fails() {
    let server = Postgres::start();
    let name = server.create().await;
    let url = server.url_of(&name);
    open(&url).await;
    server.run(&name, "DELETE FROM _sqlx_migrations WHERE version = 13").await;
    let error = refusal(&url).await;
    assert!(matches!(error, StoreError::Schema(_)) && !error.is_away(), "{error}");
    assert!(error.to_string().contains("schema version 13 failed"), "{error}");
}

#[tokio::test]
async fn mariadb_tables_have_the_format_that_their_keys_need() {
    let server = MariaDb::with(&["--innodb-default-row-format=compact"]);
    let name = server.create().await;
    let store = open(&server.url_of(&name)).await;
    let voucher = sale_of(&store, 1).await;
    assert_eq!(store.write_orders(&[entry(1, voucher)], NOW).await.unwrap(), [Written::New]);
}

/// MySQL remembers passwords until it is restarted; the next login proves the password again.
#[tokio::test]
async fn a_password_is_accepted_without_tls() {
    let mut server = <MariaDb as Server>::without_tls();
    let name = server.create().await;
    let url = server.guarded(&name).await;
    let store = open(&url).await;
    store.close().await;
    server.restart();
    open(&url).await.ping().await.unwrap();
}

#[tokio::test]
async fn the_clock_of_a_server_is_compared_and_a_file_has_none() {
    let files = tempfile::tempdir().unwrap();
    let file = open(&format!("sqlite:{}", files.path().join("t.db").display())).await;
    assert_eq!(file.clock_ahead_ms(7).await.unwrap(), None);
    for url in [MariaDb::shared().database().await, Postgres::shared().database().await] {
        let store = open(&url).await;
        // Each reply bounds the difference: what was known wrongly is corrected.
        for known in [-3_600_000, 0, 3_600_000] {
            let ahead = store.clock_ahead_ms(known).await.unwrap().unwrap();
            assert!(ahead.abs() < 60_000, "{known}: {ahead} ms on the same host");
        }
    }
}

#[tokio::test]
async fn durability_settings_are_reported() {
    let mariadb = open(&MariaDb::shared().database().await).await;
    let result = mariadb.durability().await.unwrap();
    assert!(result.contains(&("innodb_flush_log_at_trx_commit".into(), "2".into())), "{result:?}");
    let postgres = open(&Postgres::shared().database().await).await;
    let result = postgres.durability().await.unwrap();
    assert!(result.contains(&("fsync".into(), "off".into())), "{result:?}");
    assert!(result.contains(&("synchronous_commit".into(), "on".into())), "{result:?}");
}
