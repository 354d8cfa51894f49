//! The servers and tables of the lab: in a temporary directory, never those of a deployment.

use std::path::Path;

use jiff::Zoned;
use redis::cmd;
use seckill_model::{SaleId, ShardId};
use seckill_redis::Layout;
use seckill_store::plain::{PlainConnection, PlainPool};
use tokio_util::sync::CancellationToken;

use crate::{
    Database, Design, Incident, Result,
    consumer::Consumer,
    engine_node,
    redis_server::{Address, RedisServer},
    sql_server::SqlServer,
    work::{VOUCHER, Work},
};

/// The tables of the tutorials.
const TABLES: [&str; 3] = [
    "CREATE TABLE tb_voucher (
        id BIGINT NOT NULL PRIMARY KEY,
        title VARCHAR(255) NOT NULL)",
    "CREATE TABLE tb_seckill_voucher (
        voucher_id BIGINT NOT NULL PRIMARY KEY,
        stock BIGINT NOT NULL)",
    "CREATE TABLE tb_voucher_order (
        id BIGINT NOT NULL PRIMARY KEY,
        user_id BIGINT NOT NULL,
        voucher_id BIGINT NOT NULL)",
];
/// Queries by user read along it, as in any shop; it rejects nothing.
const INDEX: &str = "CREATE INDEX idx_order_user ON tb_voucher_order (user_id, voucher_id)";
/// More orders than a run creates.
const MAX_ORDERS: u32 = 1_000_000;
/// The tables of the last run, with those of its design.
const DROP: [&str; 5] = [
    "DROP TABLE IF EXISTS tb_lock",
    "DROP TABLE IF EXISTS tb_lock_fence",
    "DROP TABLE IF EXISTS tb_voucher_order",
    "DROP TABLE IF EXISTS tb_seckill_voucher",
    "DROP TABLE IF EXISTS tb_voucher",
];

/// The Redis servers and a database, removed with their directories when this is dropped.
#[derive(Debug)]
pub(crate) struct Shop {
    /// Where instances reach Redis.
    address: Address,
    redis: RedisServer,
    /// Takes over in a failover; started when it is first needed.
    replica: Option<RedisServer>,
    /// Independent servers for locks; started when they are first needed.
    more_redis: Vec<RedisServer>,
    database: Database,
    sql_server: Option<SqlServer>,
    database_url: String,
    pool: PlainPool,
    /// The database of the engine, with its URL, during its runs.
    engine: Option<(String, PlainPool)>,
    /// Counts the databases of the engine.
    engines: u32,
}

impl Shop {
    /// Starts the servers. It is not dropped before it is done, because it stops what it has started: `stop` ends it.
    pub(crate) async fn open(database: Database, stop: &CancellationToken) -> Result<Self> {
        let redis = RedisServer::start().await?;
        match Self::open_database(database, &redis, stop).await {
            Ok((address, sql_server, database_url, pool)) => Ok(Self {
                address,
                redis,
                replica: None,
                more_redis: Vec::new(),
                database,
                sql_server,
                database_url,
                pool,
                engine: None,
                engines: 0,
            }),
            Err(error) => {
                redis.stop().await?;
                Err(error)
            }
        }
    }

    async fn open_database(
        database: Database,
        redis: &RedisServer,
        stop: &CancellationToken,
    ) -> Result<(Address, Option<SqlServer>, String, PlainPool)> {
        let address = Address::of(redis)?;
        let sql_server = match database {
            Database::Sqlite => None,
            Database::Mariadb | Database::Mysql | Database::Postgres => {
                Some(SqlServer::start(database, stop).await?)
            }
        };
        let database_url =
            sql_server.as_ref().map_or_else(|| redis.dir().database_url(), |it| it.url.clone());
        let pool = PlainPool::open(&database_url, 2)?;
        Ok((address, sql_server, database_url, pool))
    }

    pub(crate) fn database(&self) -> Database {
        self.database
    }

    pub(crate) fn database_url(&self) -> &str {
        self.engine.as_ref().map_or(&self.database_url, |(url, _)| url)
    }

    pub(crate) fn socket(&self) -> &Path {
        self.redis.socket()
    }

    /// Stops Redis and starts it again, with what it has stored.
    pub(crate) async fn restart_redis(&mut self) -> Result<()> {
        self.redis.restart().await
    }

    pub(crate) fn redis_url(&self) -> String {
        self.address.url()
    }

    /// The URLs of the independent servers.
    pub(crate) fn more_redis_urls(&self) -> Vec<String> {
        self.more_redis.iter().map(RedisServer::url).collect()
    }

    /// Removes the orders and keys of the last run, and creates the tables and the sale for a design.
    pub(crate) async fn set_up(&mut self, design: &Design, work: &Work) -> Result<()> {
        if let Some((_, pool)) = self.engine.take() {
            pool.close().await;
        }
        self.set_up_redis(design, work).await?;
        if matches!(design.consumer, Some(Consumer::Engine)) {
            return self.set_up_engine(work).await;
        }
        let mut sql = self.sql().await?;
        for statement in DROP.iter().chain(&TABLES).chain([&INDEX]).chain(design.schema) {
            sql.command(statement).await?;
        }
        sql.command(&format!("INSERT INTO tb_voucher (id, title) VALUES ({VOUCHER}, 'lab')"))
            .await?;
        let sale = "INSERT INTO tb_seckill_voucher (voucher_id, stock) VALUES ($1, $2)";
        sql.execute(sale, &[VOUCHER, work.stock.into()]).await?;
        // `addSeckillVoucher` puts the stock into Redis, too.
        let key = Layout::default().stock(ShardId::only(SaleId(VOUCHER as u64)));
        self.redis.query(cmd("SET").arg(key).arg(work.stock)).await
    }

    async fn set_up_redis(&mut self, design: &Design, work: &Work) -> Result<()> {
        self.redis.clear().await?;
        self.address.move_to(&self.redis)?;
        while self.more_redis.len() + 1 < design.question.servers() {
            self.more_redis.push(RedisServer::start().await?);
        }
        for server in &mut self.more_redis {
            server.clear().await?;
        }
        if work.incidents.contains(&Incident::Failover) {
            let replica = match &mut self.replica {
                Some(replica) => replica,
                none => none.insert(RedisServer::start().await?),
            };
            self.redis.replicate_until_now(replica).await?;
            // The promoted replica would give out the IDs of these orders again. That is a fault too, but not one of a
            // lock.
            let sequence = Layout::default().home().sequence(Zoned::now().date());
            let _: i64 = self.redis.query(cmd("INCRBY").arg(sequence).arg(MAX_ORDERS)).await?;
        }
        Ok(())
    }

    /// Promotes the replica, and ends the server that it replaces.
    pub(crate) async fn fail_over(&mut self) -> Result<()> {
        match &mut self.replica {
            Some(replica) => self.redis.fail_over(replica, &self.address).await,
            None => Ok(()),
        }
    }

    /// Creates a new database with the tables of the engine, and its sale.
    async fn set_up_engine(&mut self, work: &Work) -> Result<()> {
        let (last, name) = (self.engines, self.engines + 1);
        self.engines = name;
        let mut sql = self.sql().await?;
        let name = match self.database {
            Database::Sqlite => format!("engine{name}.db"),
            Database::Mariadb | Database::Mysql | Database::Postgres => {
                sql.command(&format!("DROP DATABASE IF EXISTS engine{last}")).await?;
                sql.command(&format!("CREATE DATABASE engine{name}")).await?;
                format!("engine{name}")
            }
        };
        drop(sql);
        let url = sibling(&self.database_url, &name);
        engine_node::set_up(&url, &self.redis.client()?, work.stock).await?;
        let pool = PlainPool::open(&url, 2)?;
        self.engine = Some((url, pool));
        Ok(())
    }

    /// A connection to count with.
    pub(crate) async fn sql(&self) -> Result<PlainConnection> {
        let pool = self.engine.as_ref().map_or(&self.pool, |(_, pool)| pool);
        Ok(pool.connection().await?)
    }

    /// Stops the servers and removes their files.
    pub(crate) async fn close(mut self) -> Result<()> {
        if let Some((_, pool)) = self.engine.take() {
            pool.close().await;
        }
        self.pool.close().await;
        if let Some(server) = &mut self.sql_server {
            server.stop().await;
        }
        let servers = self.more_redis.iter().chain(&self.replica).chain([&self.redis]);
        let mut stopped = Ok(());
        for server in servers {
            stopped = stopped.and(server.stop().await);
        }
        stopped
    }
}

/// The URL of a database beside another one: a file in its directory, or a database on its server.
fn sibling(url: &str, name: &str) -> String {
    let (path, query) =
        url.split_once('?').map_or((url, None), |(path, query)| (path, Some(query)));
    let directory = path.rsplit_once('/').map_or(path, |(directory, _)| directory);
    let query = query.map_or_else(String::new, |query| format!("?{query}"));
    format!("{directory}/{name}{query}")
}
