//! Liveness and readiness, for load balancers and supervisors.

use std::time::{Duration, Instant};

use axum::extract::State;
use seckill_engine::{
    deployment::servers::Servers, recovery::reconcile::all_reconciled, telemetry::write_probe,
};
use seckill_model::Label;
use seckill_redis::{HOME, replicas, stream_stats};
use serde::Serialize;
use serde_json::json;
use tokio::{sync::Mutex, time::timeout};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Shared,
    answer::{Answer, Envelope, NO_DATABASE, NO_REDIS, RECONCILING, Refusal, Result, STOPPING},
};

/// How long a check is reused.
const REUSED_FOR: Duration = Duration::from_millis(500);
/// A server that does not answer within this time is not ready.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(alive)).routes(routes!(ready))
}

/// The process answers. Says nothing about the servers behind it: a restart would not repair those.
#[utoipa::path(
    get, path = "/healthz", tag = "health",
    responses((status = 200, description = "success", body = Envelope<String>))
)]
async fn alive() -> Answer<&'static str> {
    Answer("alive")
}

/// Whether this node can take orders.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
struct Readiness {
    /// Redis answers, takes writes, and has the replicas that must confirm an order.
    redis: bool,
    /// The database answers and takes writes.
    sql: bool,
    /// Redis was reconciled with the database.
    reconciled: bool,
    /// The node is not stopping.
    running: bool,
}

impl Readiness {
    /// What it lacks, if anything.
    fn lacks(self) -> Option<Label> {
        let Self { redis, sql, reconciled, running } = self;
        let lacks =
            [(running, STOPPING), (redis, NO_REDIS), (sql, NO_DATABASE), (reconciled, RECONCILING)];
        lacks.into_iter().find(|(is_there, _)| !is_there).map(|(_, why)| why)
    }
}

/// The last check, with the connections for the next one.
#[derive(Debug)]
pub(crate) struct Check {
    servers: Servers,
    /// Replicas that must confirm an order.
    wait_replicas: u32,
    last: Option<(Instant, Readiness)>,
}

impl Check {
    pub(crate) fn new(servers: Servers, wait_replicas: u32) -> Mutex<Self> {
        Mutex::new(Self { servers, wait_replicas, last: None })
    }

    async fn run(&mut self) -> Readiness {
        if let Some((at, readiness)) = self.last
            && at.elapsed() < REUSED_FOR
        {
            return readiness;
        }
        let store = self.servers.store.clone();
        let redis = async {
            let reconciled = all_reconciled(&mut self.servers).await.ok()?;
            Some((takes_orders(&mut self.servers, self.wait_replicas).await, reconciled))
        };
        let sql =
            async { store.ping().await.is_ok() && write_probe::takes_writes(&store).await.is_ok() };
        let (redis, sql) =
            tokio::join!(timeout(ANSWERS_WITHIN, redis), timeout(ANSWERS_WITHIN, sql));
        let (redis, reconciled) = redis.ok().flatten().unwrap_or_default();
        let sql = sql.unwrap_or_default();
        let readiness = Readiness { redis, sql, reconciled, running: true };
        self.last = Some((Instant::now(), readiness));
        readiness
    }
}

/// Whether Redis accepts an order, and enough replicas confirm it.
async fn takes_orders(servers: &mut Servers, wait_replicas: u32) -> bool {
    let Servers { conn, keys, .. } = servers;
    conn.multiplexed(HOME).await.is_ok()
        && stream_stats::takes_writes(conn, keys).await.is_ok()
        && (wait_replicas == 0
            || replicas::confirming(conn, keys).await.is_ok_and(|it| it >= wait_replicas))
}

/// Whether this node takes orders.
#[utoipa::path(
    get, path = "/readyz", tag = "health",
    responses((status = 200, description = "success", body = Envelope<Readiness>))
)]
async fn ready(State(shared): State<Shared>) -> Result<Readiness> {
    let running = !shared.stopping.is_cancelled();
    let mut readiness = Readiness { running, ..shared.check.lock().await.run().await };
    // What a probe cannot try: only an order uses each key and command of an order.
    readiness.redis &= !shared.metrics.is_denied();
    match readiness.lacks() {
        None => Ok(Answer(readiness)),
        Some(why) => Err(Refusal::NotReady(why, json!(readiness))),
    }
}
