//! A snapshot of the servers for one command, without an engine in this process.

use std::{fmt::Display, sync::Arc, time::Duration};

use seckill_engine::{
    Snapshot,
    commands::command_handler::lock_names,
    telemetry::{Meters, collector::Collector, data_loss::damaged_keys},
};
use seckill_model::{Balance, text};
use seckill_redis::{
    RedisError,
    stream_stats::{read_stats, shards_held},
};

use crate::{Context, Result};

/// Pause between two snapshots: a change reaches Redis a few milliseconds after its commit.
const BETWEEN: Duration = Duration::from_millis(100);
/// Limit of one read.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Damaged keys without SQL: the sales are known by their keys in Redis only.
pub(super) async fn damaged(context: &Context) -> Result<Vec<String>, RedisError> {
    let (keys, mut conn, mut held) = (&context.keys, context.redis.connection(), Vec::new());
    conn.probe(keys).await;
    for of in conn.reachable(keys) {
        held.extend(shards_held(&mut conn, &of).await?);
    }
    let stats = read_stats(&mut conn, keys, &held).await?;
    let damaged = stats.sales.iter().map(|facts| facts.and_then(|facts| facts.damaged));
    Ok(damaged_keys(keys, &stats.lost, held.into_iter().zip(damaged)))
}

/// The result of a read, or why there is none, in a sentence.
pub(super) async fn within<T, E: Display>(
    read: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match tokio::time::timeout(TIMEOUT, read).await {
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(_) => Err(text!("cli-no-answer", seconds = TIMEOUT.as_secs())),
    }
}

/// What [`settled`] has read.
pub(super) struct Settled {
    pub(super) collector: Collector,
    pub(super) snapshot: Snapshot,
    /// Why it is unknown which sales SQL has lost although both servers answer.
    pub(super) lost_unknown: Option<String>,
}

/// Takes snapshots until no order and no change of a sale is in flight, at most three: a difference counts only if two
/// consecutive snapshots show it. Sales that SQL has lost are searched in Redis.
pub(super) async fn settled(context: &mut Context) -> Settled {
    let mut collector = Collector::new(
        &context.deployment,
        Arc::new(Meters::default()),
        String::new(),
        context.config.read_only,
        lock_names(&context.config.engine),
    );
    let mut snapshot = collector.collect().await;
    let mut lost_unknown = None;
    if snapshot.redis.up && snapshot.sql.up {
        match within(collector.find_lost()).await {
            Ok(false) => {}
            Ok(true) => snapshot = collector.collect().await,
            Err(why) => lost_unknown = Some(why),
        }
    }
    for _ in 0..2 {
        if !matches!(snapshot.audit, Balance::InFlight { .. }) && snapshot.undelivered.is_empty() {
            break;
        }
        tokio::time::sleep(BETWEEN).await;
        snapshot = collector.collect().await;
    }
    Settled { collector, snapshot, lost_unknown }
}
