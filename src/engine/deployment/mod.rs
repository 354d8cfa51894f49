//! A deployment: one Redis, one database, the settings of the engine on them, and what all its nodes agree on.
//!
//! A node that is connected to a mismatched pair would treat orders of another deployment as invalid. The database
//! has a unique name, and Redis stores it; on a mismatch the node stops before it does anything.

pub mod partitions;
pub mod servers;
pub mod settings;
pub mod time_zone;

use redis::cmd;
use seckill_model::{
    durability::{Append, Commit, Setup},
    reason::reason,
};
use seckill_redis::{Connection, Layout, Redis, RedisError, keys::Partition, repair, replicas};
use seckill_store::{DEPLOYMENT, Expected, SharedStore};

use crate::{
    EngineError, Result,
    deployment::{servers::Servers, settings::Settings},
    orders::ids::Dates,
};

/// What every task of a node needs. Cheap to clone; each task opens its own connection.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// Redis.
    pub redis: Redis,
    /// SQL.
    pub store: SharedStore,
    /// Names of keys.
    pub keys: Layout,
    /// Settings of the engine.
    pub settings: Settings,
}

impl Deployment {
    /// Redis and SQL, over a separate connection.
    pub fn servers(&self) -> Servers {
        Servers::new(&self.redis, &self.store, &self.keys)
    }

    /// Closes the generation of order IDs in each partition without a live node: when a node leaves, and before the embedded Redis
    /// is stopped. Otherwise, later orders are dated up to a minute ahead.
    ///
    /// # Errors
    /// Redis or the database is unreachable; the partitions before the failed one are closed.
    pub async fn close_ids(&self) -> Result<()> {
        let mut conn = self.redis.connection();
        for of in self.keys.partitions() {
            Dates::close(&self.store, &mut conn, &of, self.settings.node_dead_ms).await?;
        }
        Ok(())
    }

    /// [`Deployment::servers`] after a probe of the connection: what is read leaves out the lost servers of a cluster.
    pub async fn probed(&self) -> Servers {
        let mut servers = self.servers();
        servers.conn.probe(&servers.keys).await;
        servers
    }
}

/// Which database belongs to a Redis.
///
/// # Errors
/// Redis is unreachable, so that this is unknown.
pub async fn expected(conn: &mut Connection, keys: &Layout) -> Result<Expected, RedisError> {
    Ok(name_in_redis(conn, keys).await?.map_or(Expected::Any, Expected::Named))
}

/// The name that Redis has; a key of another type names no database.
async fn name_in_redis(conn: &mut Connection, keys: &Layout) -> Result<Option<String>, RedisError> {
    match conn.query(cmd("GET").arg(keys.deployment())).await {
        Err(RedisError::Foreign(_)) => Ok(None),
        name => name,
    }
}

/// Stores the database's name in a Redis that has none, and rejects one that has another. With `read_only` it only
/// checks.
///
/// # Errors
/// [`EngineError::Rejected`], or a server is unreachable.
pub async fn tie(servers: &mut Servers, read_only: bool) -> Result<()> {
    let Servers { store, conn, keys, .. } = servers;
    // Redis first: a database gets its name before Redis does.
    let there = name_in_redis(conn, keys).await?;
    let ours = store.setting(DEPLOYMENT).await?;
    if there.is_some() && ours != there {
        return Err(foreign(conn));
    }
    if read_only {
        return Ok(());
    }
    let ours = match ours {
        Some(ours) => ours,
        None => name(store, false).await?,
    };
    repair::set_aside(conn, &keys.deployment(), "string").await?;
    let mut put = cmd("SET");
    put.arg(keys.deployment()).arg(&ours).arg("NX");
    conn.query::<Option<String>>(&put).await?;
    reject_foreign(conn, keys, &ours).await
}

/// Rejects a Redis without the name of a database while a node may live on another one with this database: both would sell the
/// same pieces. A Redis that was emptied, or restarted, has the name again as soon as a node has reconciled it.
///
/// # Errors
/// [`EngineError::Rejected`], or a server is unreachable.
pub async fn reject_second_redis(servers: &mut Servers) -> Result<()> {
    let Servers { store, conn, keys, .. } = servers;
    if name_in_redis(conn, keys).await?.is_some() {
        return Ok(());
    }
    let of = keys.home();
    let (run, now) = (conn.run_id(&of.reconciled()).await?, conn.now_at(&of.reconciled()).await?);
    match Dates::used_elsewhere(store, &of, &run, now).await? {
        0 => Ok(()),
        seconds => {
            let address = conn.address();
            Err(EngineError::Rejected(reason!("error-second-redis", address, seconds)))
        }
    }
}

/// Rejects a Redis that has the name of a database other than `ours`.
///
/// # Errors
/// [`EngineError::Rejected`], or Redis is unreachable.
pub async fn reject_foreign(conn: &mut Connection, keys: &Layout, ours: &str) -> Result<()> {
    match name_in_redis(conn, keys).await? {
        Some(there) if there != ours => Err(foreign(conn)),
        _ => Ok(()),
    }
}

/// The error of a Redis that belongs to another database.
pub fn foreign(conn: &Connection) -> EngineError {
    EngineError::Rejected(reason!("error-foreign-redis", address = conn.address()))
}

/// The database's name, created if it has none, except with `read_only`.
pub async fn name(store: &SharedStore, read_only: bool) -> Result<String> {
    match store.setting(DEPLOYMENT).await? {
        Some(name) => return Ok(name),
        None if read_only => return Ok(String::new()),
        None => {}
    }
    let new = uuid::Uuid::new_v4().simple().to_string();
    store.change_setting(DEPLOYMENT, None, &new).await?;
    // Another process may have been faster.
    Ok(store.setting(DEPLOYMENT).await?.unwrap_or(new))
}

/// Reads the settings of the server of each partition and of the database, and returns the weakest. `sentinels`: Redis
/// is monitored by Sentinels.
pub async fn durability(deployment: &Deployment, sentinels: bool) -> Result<Setup> {
    let Deployment { redis, store, keys, settings } = deployment;
    let Servers { mut conn, .. } = deployment.probed().await;
    let (mut append, mut replicas) = (Some(Append::Always), u32::MAX);
    for of in keys.partitions() {
        let here = append_of(&mut conn, &of).await?;
        append = append.zip(here).map(|(one, other)| one.max(other));
        replicas = replicas.min(replicas::acknowledging(&mut conn, &of).await?);
    }
    Ok(Setup {
        append,
        one_host: redis.managed().is_some(),
        takeover: redis.is_cluster() || sentinels,
        replicas,
        wait_replicas: settings.wait_replicas,
        commit: Commit::read(&store.durability().await?),
    })
}

/// How many seconds of writes a restart or a failover of the server of a partition may lose: `None` for nothing, 0 for an
/// unknown number.
pub(crate) async fn may_lose(
    deployment: &Deployment,
    conn: &mut Connection,
    of: &Partition,
) -> Result<Option<u64>> {
    let append = append_of(conn, of).await?;
    if deployment.redis.has_failover() {
        // What the failed primary had not replicated, unless a replica had confirmed it.
        let is_confirmed = deployment.settings.wait_replicas > 0;
        return Ok((!is_confirmed).then_some(0));
    }
    Ok(match append {
        Some(Append::Always) => None,
        // It syncs once a second, and may be a second late.
        Some(Append::EverySecond) => Some(2),
        Some(Append::Late) => Some(30),
        Some(Append::Off) | None => Some(0),
    })
}

/// `None` if this user has no permission to read the settings.
async fn append_of(conn: &mut Connection, of: &Partition) -> Result<Option<Append>, RedisError> {
    let mut read = Vec::new();
    for name in ["appendonly", "appendfsync"] {
        match conn.setting(&of.orders(), name).await {
            Ok(value) => read.push(value),
            Err(error) if error.is_away() => return Err(error),
            Err(_) => return Ok(None),
        }
    }
    Ok(match read.as_slice() {
        [on, fsync] => Some(Append::read(on, fsync)),
        _ => None,
    })
}
