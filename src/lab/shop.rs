//! The servers and tables of the lab: in a temporary directory, never those of a deployment.

use std::sync::Arc;

use redis::cmd;
use seckill_redis::{Connection, DataDir, ManagedServer, Redis};
use seckill_store::plain::{PlainConnection, PlainPool};
use tokio_util::sync::CancellationToken;

use crate::{Database, Design, Result, lane::VOUCHER, sql_server::SqlServer, work::Work};

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
const DROP: [&str; 3] = [
    "DROP TABLE IF EXISTS tb_voucher_order",
    "DROP TABLE IF EXISTS tb_seckill_voucher",
    "DROP TABLE IF EXISTS tb_voucher",
];

/// A Redis server and a database, removed with their directory when this is dropped.
#[derive(Debug)]
pub(crate) struct Shop {
    server: Arc<ManagedServer>,
    redis: Connection,
    database: Database,
    sql_server: Option<SqlServer>,
    database_url: String,
    pool: PlainPool,
}

impl Shop {
    /// Starts the servers. It is not dropped before it is done, because it stops what it has started: `stop` ends it.
    pub(crate) async fn open(database: Database, stop: &CancellationToken) -> Result<Self> {
        let dir = DataDir::throw_away()?;
        let server = Arc::new(ManagedServer::attach(&dir)?);
        server.ensure().await?;
        let opened = Self::open_database(database, &dir, &server, stop).await;
        if opened.is_err() {
            server.detach().await?;
        }
        opened
    }

    async fn open_database(
        database: Database,
        dir: &DataDir,
        server: &Arc<ManagedServer>,
        stop: &CancellationToken,
    ) -> Result<Self> {
        let redis = Redis::from_managed(Arc::clone(server))?.connection();
        let sql_server = match database {
            Database::Sqlite => None,
            Database::Mariadb | Database::Postgres => Some(SqlServer::start(database, stop).await?),
        };
        let database_url =
            sql_server.as_ref().map_or_else(|| dir.database_url(), |it| it.url.clone());
        let pool = PlainPool::open(&database_url, 2)?;
        Ok(Self { server: Arc::clone(server), redis, database, sql_server, database_url, pool })
    }

    pub(crate) fn database(&self) -> Database {
        self.database
    }

    pub(crate) fn database_url(&self) -> &str {
        &self.database_url
    }

    pub(crate) fn redis_url(&self) -> String {
        format!("unix://{}", self.server.socket().display())
    }

    /// Removes the orders and keys of the last run, and creates the tables and the sale for a design.
    pub(crate) async fn set_up(&mut self, design: &Design, work: &Work) -> Result<()> {
        let mut sql = self.sql().await?;
        for statement in DROP.iter().chain(&TABLES).chain([&INDEX]).chain(design.schema) {
            sql.command(statement).await?;
        }
        sql.command(&format!("INSERT INTO tb_voucher (id, title) VALUES ({VOUCHER}, 'lab')"))
            .await?;
        let sale = "INSERT INTO tb_seckill_voucher (voucher_id, stock) VALUES ($1, $2)";
        sql.execute(sale, &[VOUCHER, work.stock.into()]).await?;
        let () = self.redis.query(&cmd("FLUSHALL")).await?;
        Ok(())
    }

    /// A connection to count with.
    pub(crate) async fn sql(&self) -> Result<PlainConnection> {
        Ok(self.pool.connection().await?)
    }

    /// Stops the servers and removes their files.
    pub(crate) async fn close(mut self) -> Result<()> {
        self.pool.close().await;
        if let Some(server) = &mut self.sql_server {
            server.stop().await;
        }
        Ok(self.server.detach().await?)
    }
}
