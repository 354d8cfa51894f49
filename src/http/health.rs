//! Liveness and readiness, for load balancers and supervisors.

use std::time::{Duration, Instant};

use axum::extract::State;
use seckill_engine::{recovery::reconcile::all_reconciled, servers::Servers};
use seckill_redis::HOME;
use serde::Serialize;
use serde_json::json;
use tokio::{sync::Mutex, time::timeout};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Shared,
    answer::{Answer, Envelope, Refusal, Result},
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
    /// Redis answers.
    redis: bool,
    /// The database answers.
    sql: bool,
    /// Redis was reconciled with the database.
    reconciled: bool,
    /// The node is not stopping.
    running: bool,
}

impl Readiness {
    fn is_ready(self) -> bool {
        self.redis && self.sql && self.reconciled && self.running
    }
}

/// The last check, with the connections for the next one.
#[derive(Debug)]
pub(crate) struct Check {
    servers: Servers,
    last: Option<(Instant, Readiness)>,
}

impl Check {
    pub(crate) fn new(servers: Servers) -> Mutex<Self> {
        Mutex::new(Self { servers, last: None })
    }

    async fn run(&mut self) -> Readiness {
        if let Some((at, readiness)) = self.last
            && at.elapsed() < REUSED_FOR
        {
            return readiness;
        }
        let store = self.servers.store.clone();
        let redis = async {
            if self.servers.conn.multiplexed(HOME).await.is_err() {
                return (false, false);
            }
            match all_reconciled(&mut self.servers).await {
                Ok(reconciled) => (true, reconciled),
                Err(_) => (false, false),
            }
        };
        let (redis, sql) =
            tokio::join!(timeout(ANSWERS_WITHIN, redis), timeout(ANSWERS_WITHIN, store.ping()));
        let (redis, reconciled) = redis.unwrap_or_default();
        let sql = matches!(sql, Ok(Ok(_)));
        let readiness = Readiness { redis, sql, reconciled, running: true };
        self.last = Some((Instant::now(), readiness));
        readiness
    }
}

/// Whether this node takes orders.
#[utoipa::path(
    get, path = "/readyz", tag = "health",
    responses((status = 200, description = "success", body = Envelope<Readiness>))
)]
async fn ready(State(shared): State<Shared>) -> Result<Readiness> {
    let running = !shared.stopping.is_cancelled();
    let readiness = Readiness { running, ..shared.check.lock().await.run().await };
    if readiness.is_ready() {
        Ok(Answer(readiness))
    } else {
        Err(Refusal::NotReady(json!(readiness)))
    }
}
