//! Reads the durability settings of the servers, which `model::durability` evaluates.

use redis::{InfoDict, cmd};
use seckill_model::durability::{Append, Commit, Setup};
use seckill_redis::{Connection, RedisError, keys::Partition};

use super::{EngineError, deployment::Deployment};

/// Reads the settings of the server of each partition and of the database, and returns the weakest. `sentinels`: Redis
/// is monitored by Sentinels.
pub async fn setup(deployment: &Deployment, sentinels: bool) -> Result<Setup, EngineError> {
    let Deployment { redis, store, keys, settings } = deployment;
    let mut conn = redis.connection();
    let (mut append, mut replicas) = (Some(Append::Always), u32::MAX);
    for of in keys.partitions() {
        let here = append_of(&mut conn, &of).await?;
        append = append.zip(here).map(|(one, other)| one.max(other));
        replicas = replicas.min(replicas_of(&mut conn, &of).await?);
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

async fn replicas_of(conn: &mut Connection, of: &Partition) -> Result<u32, RedisError> {
    let key = of.orders();
    let mut connection = conn.multiplexed(&key).await?;
    let asked = cmd("INFO").arg("replication").query_async::<InfoDict>(&mut connection).await;
    let info = asked.map_err(|error| conn.broke(&key, &error))?;
    Ok(info.get("connected_slaves").unwrap_or(0))
}
