//! The snapshot of Redis alone, while the database cannot be opened.
//!
//! Values that only the database has are missing from it, never zero.

use std::time::Duration;

use seckill_engine::{
    settings::Settings,
    telemetry::{
        Snapshot,
        alarms::alarms,
        data_loss::{RecentLosses, add_published, damaged_keys, published},
        snapshot::{ConsumerLine, Health, NodeLine, StreamLine},
    },
};
use seckill_model::{EntryId, Message, Millis, message::text};
use seckill_redis::{
    Layout, Redis, RedisError,
    lock_holders::holders,
    nodes::NodeState,
    stream_stats::{RedisStats, partitions_there, read_stats, sales_held},
};

use super::{CliError, Result, context};
use crate::config::Config;

/// Limit for each read.
const TIMEOUT: Duration = Duration::from_secs(30);
const LOCKS: usize = 100;

/// Redis alone. Release it with [`Degraded::close`].
pub(super) struct Degraded {
    pub(super) redis: Redis,
    pub(super) keys: Layout,
    pub(super) settings: Settings,
    /// Why the database could not be opened.
    pub(super) database: Message,
}

impl Degraded {
    /// Opens Redis after the database failed with `error`.
    ///
    /// # Errors
    /// That error if the embedded Redis server does not start either.
    pub(super) async fn open(config: &Config, error: CliError) -> Result<Self> {
        let redis = config.redis(&config.open_data_dir()?)?;
        if context::start(&redis).await.is_err() {
            let _ = context::stop(&redis).await;
            return Err(error);
        }
        let cluster = redis.is_cluster();
        let partitions = match config.partitions {
            Some(partitions) => Some(partitions),
            None => within(partitions_there(&mut redis.connection(), cluster)).await.ok(),
        };
        let keys = Layout::new(partitions.unwrap_or(1), cluster);
        Ok(Self { redis, keys, settings: config.engine.clone(), database: error.text })
    }

    /// Releases Redis.
    pub(super) async fn close(self) {
        if let Err(error) = context::stop(&self.redis).await {
            tracing::warn!(%error, "the server was not stopped");
        }
    }

    /// Takes a snapshot of Redis.
    pub(super) async fn snapshot(&self) -> Snapshot {
        let Self { redis, keys, settings, database } = self;
        let dead_ms = settings.node_dead_ms;
        let mut conn = redis.connection();
        let read = within(async {
            // Which sales exist is known to the database only.
            let mut sales = Vec::new();
            for of in keys.partitions() {
                sales.extend(sales_held(&mut conn, &of).await?);
            }
            let stats = read_stats(&mut conn, keys, &sales).await?;
            let alive = |node: &str| stats.nodes.life(node, dead_ms);
            let locks = holders(&mut conn, keys, LOCKS, alive).await?;
            let losses = published(&mut conn, &keys.home()).await?;
            Ok::<_, RedisError>((stats, sales, locks, losses))
        })
        .await;
        let health = |name: &str, error: Option<Message>| Health {
            name: name.to_owned(),
            up: error.is_none(),
            error,
            ..Health::default()
        };
        let mut snapshot = Snapshot {
            taken: Millis::now(),
            redis: health("redis", read.as_ref().err().cloned().map(Message::from)),
            sql: health("database", Some(database.clone())),
            ..Snapshot::default()
        };
        let mut losses = None;
        if let Ok((stats, sales, locks, published)) = read {
            let mut log = Vec::new();
            add_published(&mut log, published);
            losses = RecentLosses::of(&log, stats.now);
            let sales = sales.into_iter().zip(stats.sales.iter().map(|facts| facts.damaged));
            snapshot.damaged = damaged_keys(keys, &stats.lost, sales);
            snapshot.locks = locks;
            snapshot.nodes = NodeLine::all(&stats.nodes, dead_ms);
            snapshot.stream = Some(stream(&stats, dead_ms));
        }
        snapshot.alarms = alarms(&snapshot, losses);
        snapshot
    }
}

fn stream(stats: &RedisStats, dead_ms: u64) -> StreamLine {
    let stream = &stats.stream;
    let age = |id: EntryId| stats.now.since(id.added());
    let consumers = stats.consumers.iter().map(|consumer| ConsumerLine {
        name: consumer.name.clone(),
        alive: stats.works(&consumer.name, dead_ms),
        known: stats.nodes.state(&consumer.name, consumer.idle_ms, dead_ms) != NodeState::Stopped,
        pending: consumer.pending,
        idle_ms: consumer.idle_ms,
    });
    StreamLine {
        length: stream.length,
        oldest_ms: stream.first.map(age),
        lag: stream.lag,
        pending: stream.pending,
        oldest_pending_ms: stream.oldest_pending.map(age),
        dead: stream.dead,
        group: stream.group,
        consumers: consumers.collect(),
    }
}

/// The result of a read, or why there is none, in a sentence.
pub(super) async fn within<T, E: std::fmt::Display>(
    read: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match tokio::time::timeout(TIMEOUT, read).await {
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(_) => Err(text!("cli-no-answer", seconds = TIMEOUT.as_secs())),
    }
}
