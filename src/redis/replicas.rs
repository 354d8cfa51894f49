//! The replicas that can confirm what was written, as WAIT counts them.

use redis::{InfoDict, cmd};

use super::{Connection, Layout, Result, keys::Partition};

/// A replica acknowledges every second. One that has been silent for longer may be stopped, and stays connected.
const SILENT_AFTER_S: u64 = 3;

/// How many replicas of the server of a partition are connected and acknowledge.
pub async fn acknowledging(conn: &mut Connection, of: &Partition) -> Result<u32> {
    let key = of.orders();
    let mut connection = conn.multiplexed(&key).await?;
    let asked = cmd("INFO").arg("replication").query_async::<InfoDict>(&mut connection).await;
    let info = asked.map_err(|error| conn.broke(&key, &error))?;
    let connected = info.get::<u32>("connected_slaves").unwrap_or(0);
    let lines = (0..connected).filter_map(|number| info.get::<String>(&format!("slave{number}")));
    let replicas = lines.filter(|line| acknowledges(line)).count();
    Ok(replicas.try_into().unwrap_or(u32::MAX))
}

/// The fewest replicas that a reachable server has, if this user may ask for their confirmation.
///
/// # Errors
/// [`super::RedisError::Rejected`] without that permission; a server is unreachable.
pub async fn confirming(conn: &mut Connection, keys: &Layout) -> Result<u32> {
    let mut fewest = u32::MAX;
    for of in conn.reachable(keys) {
        let key = of.orders();
        let mut connection = conn.multiplexed(&key).await?;
        let asked = cmd("WAIT").arg(0).arg(1).query_async::<u32>(&mut connection).await;
        asked.map_err(|error| conn.broke(&key, &error))?;
        fewest = fewest.min(acknowledging(conn, &of).await?);
        if !conn.is_cluster() {
            break;
        }
    }
    Ok(fewest)
}

/// Whether this line of `INFO replication` is that of a replica in sync that has acknowledged recently.
fn acknowledges(line: &str) -> bool {
    let field = |name: &str| {
        let mut fields = line.split(',').filter_map(|it| it.split_once('='));
        fields.find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    let silent = field("lag").and_then(|lag| lag.parse::<u64>().ok());
    field("state") == Some("online") && silent.is_some_and(|it| it <= SILENT_AFTER_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_is_silent_or_not_in_sync_does_not_count() {
        let line = |state: &str, lag: u64| {
            acknowledges(&format!("ip=127.0.0.1,port=1,state={state},offset=7,lag={lag}"))
        };
        assert!(line("online", 0) && line("online", SILENT_AFTER_S));
        assert!(!line("online", SILENT_AFTER_S + 1) && !line("wait_bgsave", 0));
        assert!(!acknowledges("ip=127.0.0.1,port=1,state=online,offset=7"));
    }
}
