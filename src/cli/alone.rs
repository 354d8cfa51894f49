//! What one server alone tells while the other one can't be opened.
//!
//! A picture of it has gaps where the other one would have told, never zeros.

use std::{sync::Arc, time::Duration};

use seckill_engine::{
    partitions,
    settings::Settings,
    telemetry::{
        Snapshot,
        alarms::alarms,
        data_loss::{RecentLosses, add_published, damaged_keys, published},
        snapshot::{ConsumerLine, Health, NodeLine, SaleLine, StreamLine},
        write_probe::takes_writes,
    },
};
use seckill_model::{EntryId, Message, Millis};
use seckill_redis::{
    Layout, Redis, RedisError,
    data_dir::DataDir,
    lock_holders::holders,
    nodes::NodeState,
    server::ManagedServer,
    stream_stats::{partitions_there, read_stats, sales_held},
};
use seckill_store::SharedStore;

use super::Fault;
use crate::config::Config;

/// What was read, or why not, in one sentence.
pub(super) type Told<T> = Result<T, String>;

/// Bound on each part.
const PATIENCE: Duration = Duration::from_secs(30);
const LOCKS: usize = 100;

/// Where something is read from.
pub(super) struct Sources {
    pub(super) store: Told<SharedStore>,
    pub(super) redis: Told<Redis>,
    pub(super) keys: Layout,
    pub(super) settings: Settings,
}

/// What could be opened. Give it back with [`Alone::close`].
pub(super) struct Alone {
    pub(super) sources: Sources,
    server: Option<Arc<ManagedServer>>,
}

impl Alone {
    /// Opens the one that answers.
    ///
    /// # Errors
    /// The `fault` that was met before, where neither does.
    pub(super) async fn open(config: &Config, fault: Fault) -> Result<Self, Fault> {
        let dir = match &config.data_dir {
            Some(path) => DataDir::open(path)?,
            None => DataDir::open(&DataDir::default_path()?)?,
        };
        let database = config.database.clone().unwrap_or_else(|| dir.database_url());
        let store =
            seckill_store::open(&database, &config.store).await.map_err(|error| error.to_string());
        let server = match &config.redis {
            Some(_) => None,
            None => Some(Arc::new(ManagedServer::attach(&dir)?)),
        };
        let redis = match (&config.redis, &server) {
            (Some(url), _) => {
                Redis::trusting(url, config.redis_ca.as_deref()).map_err(|error| error.to_string())
            }
            (None, Some(server)) => match server.ensure().await {
                Ok(()) => {
                    Redis::from_managed(Arc::clone(server)).map_err(|error| error.to_string())
                }
                Err(error) => Err(error.to_string()),
            },
            (None, None) => Err("no Redis is configured".to_owned()),
        };
        let neither = store.is_err() && redis.is_err();
        let keys = layout(config, store.as_ref().ok(), redis.as_ref().ok()).await;
        let settings = config.engine.clone();
        let alone = Self { sources: Sources { store, redis, keys, settings }, server };
        if neither {
            alone.close().await;
            return Err(fault);
        }
        Ok(alone)
    }

    /// Gives back what was opened.
    pub(super) async fn close(self) {
        if let Ok(store) = &self.sources.store {
            store.close().await;
        }
        if let Some(server) = self.server
            && let Err(error) = server.detach().await
        {
            tracing::warn!(%error, "the server was not stopped");
        }
    }

    /// A picture of what it tells.
    pub(super) async fn look(&self) -> Snapshot {
        let Sources { store, redis, keys, settings } = &self.sources;
        let health = |name: &str, error: Option<String>| Health {
            name: name.to_owned(),
            up: error.is_none(),
            error: error.map(Message::from),
            ..Health::default()
        };
        let now = Millis::now();
        let mut snapshot = Snapshot { taken: now, ..Snapshot::default() };
        let sales = match store {
            Ok(store) => within(store.sales()).await,
            Err(why) => Err(why.clone()),
        };
        snapshot.sql = health("database", sales.as_ref().err().cloned());
        if let (Ok(store), Ok(_)) = (store, &sales) {
            snapshot.sql.unwritable = takes_writes(store).await.err().as_ref().map(Message::of);
        }
        snapshot.sales =
            sales.unwrap_or_default().iter().map(|sale| SaleLine::of(sale, now, None)).collect();
        snapshot.order_sales();
        let dead_ms = settings.node_dead_ms;
        let looked = match redis {
            Ok(redis) => {
                let mut conn = redis.connection();
                within(async {
                    // SQL may not answer which sales there are.
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
                .await
            }
            Err(why) => Err(why.clone()),
        };
        snapshot.redis = health("redis", looked.as_ref().err().cloned());
        let mut losses = None;
        if let Ok((stats, sales, locks, published)) = looked {
            let mut log = Vec::new();
            add_published(&mut log, published);
            losses = RecentLosses::of(&log, stats.now);
            let sales = sales.into_iter().zip(stats.sales.iter().map(|facts| facts.damaged));
            snapshot.damaged = damaged_keys(keys, &stats.lost, sales);
            let age = |id: EntryId| stats.now.since(id.added());
            snapshot.locks = locks;
            snapshot.nodes = NodeLine::all(&stats.nodes, dead_ms);
            snapshot.stream = Some(StreamLine {
                length: stats.stream.length,
                oldest_ms: stats.stream.first.map(age),
                lag: stats.stream.lag,
                pending: stats.stream.pending,
                oldest_pending_ms: stats.stream.oldest_pending.map(age),
                dead: stats.stream.dead,
                group: stats.stream.group,
                consumers: stats
                    .consumers
                    .iter()
                    .map(|it| ConsumerLine {
                        name: it.name.clone(),
                        alive: stats.works(&it.name, dead_ms),
                        known: stats.nodes.state(&it.name, it.idle_ms, dead_ms)
                            != NodeState::Stopped,
                        pending: it.pending,
                        idle_ms: it.idle_ms,
                    })
                    .collect(),
            });
        }
        snapshot.alarms = alarms(&snapshot, losses);
        snapshot
    }
}

/// The partitions by SQL, which decides; else by the settings; else as many as Redis has streams of.
async fn layout(config: &Config, store: Option<&SharedStore>, redis: Option<&Redis>) -> Layout {
    let cluster = redis.is_some_and(Redis::is_cluster);
    let agreed = match store {
        Some(store) => within(partitions::agreed(store, config.partitions, true)).await.ok(),
        None => config.partitions,
    };
    let there = match (agreed, redis) {
        (None, Some(redis)) => {
            within(partitions_there(&mut redis.connection(), cluster)).await.ok()
        }
        _ => None,
    };
    Layout::new(agreed.or(there).unwrap_or(1), cluster)
}

/// What comes within the bound.
pub(super) async fn within<T, E: std::fmt::Display>(
    reading: impl Future<Output = Result<T, E>>,
) -> Told<T> {
    match tokio::time::timeout(PATIENCE, reading).await {
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}
