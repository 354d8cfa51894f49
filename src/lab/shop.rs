//! The servers and tables of the lab: in a temporary directory, never those of a deployment.

use std::{path::Path, sync::Arc};

use redis::cmd;
use seckill_model::VoucherId;
use seckill_redis::{Connection, DataDir, Layout, ManagedServer, Redis};
use seckill_store::plain::{PlainConnection, PlainPool};
use tokio_util::sync::CancellationToken;

use crate::{
    Database, Design, Result, consumer::Consumer, engine_node, lane::VOUCHER,
    sql_server::SqlServer, work::Work,
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
    /// The database of the engine, with its URL, during its runs.
    engine: Option<(String, PlainPool)>,
    /// Counts the databases of the engine.
    engines: u32,
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
        let (server, engine, engines) = (Arc::clone(server), None, 0);
        Ok(Self { server, redis, database, sql_server, database_url, pool, engine, engines })
    }

    pub(crate) fn database(&self) -> Database {
        self.database
    }

    pub(crate) fn database_url(&self) -> &str {
        self.engine.as_ref().map_or(&self.database_url, |(url, _)| url)
    }

    pub(crate) fn socket(&self) -> &Path {
        self.server.socket()
    }

    /// Stops Redis and starts it again, with what it has stored.
    pub(crate) async fn restart_redis(&mut self) -> Result<()> {
        // It ends the connection instead of a reply.
        let _ = self.redis.query::<redis::Value>(&cmd("SHUTDOWN")).await;
        self.redis.forget();
        Ok(self.server.ensure().await?)
    }

    pub(crate) fn redis_url(&self) -> String {
        format!("unix://{}", self.server.socket().display())
    }

    /// Removes the orders and keys of the last run, and creates the tables and the sale for a design.
    pub(crate) async fn set_up(&mut self, design: &Design, work: &Work) -> Result<()> {
        if let Some((_, pool)) = self.engine.take() {
            pool.close().await;
        }
        let () = self.redis.query(&cmd("FLUSHALL")).await?;
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
        let key = Layout::default().stock(VoucherId(VOUCHER as u64));
        let stock = cmd("SET").arg(key).arg(work.stock).take();
        let () = self.redis.query(&stock).await?;
        Ok(())
    }

    /// Creates a new database with the tables of the engine, and its sale.
    async fn set_up_engine(&mut self, work: &Work) -> Result<()> {
        let (last, name) = (self.engines, self.engines + 1);
        self.engines = name;
        let mut sql = self.sql().await?;
        let name = match self.database {
            Database::Sqlite => format!("engine{name}.db"),
            Database::Mariadb | Database::Postgres => {
                sql.command(&format!("DROP DATABASE IF EXISTS engine{last}")).await?;
                sql.command(&format!("CREATE DATABASE engine{name}")).await?;
                format!("engine{name}")
            }
        };
        drop(sql);
        let url = sibling(&self.database_url, &name);
        let redis = Redis::from_managed(Arc::clone(&self.server))?;
        engine_node::set_up(&url, &redis, work.stock).await?;
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
        Ok(self.server.detach().await?)
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
