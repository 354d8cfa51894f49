//! The HTTP API: buyers reach the engine through it.
//!
//! `server` listens, `connections` bounds what it accepts, `router` joins the endpoints with the guards before them, and each
//! other module is one group of endpoints or what they share. The path of a purchase is `sessions` (who asks), `orders`
//! (admission), and `answer` (the reply, in the language of the client).

mod answer;
mod body;
mod cache;
mod client;
mod connections;
pub mod files;
mod health;
mod language;
mod limits;
mod login_limits;
mod metrics;
mod openapi;
mod operators;
mod orders;
mod path;
mod router;
mod server;
mod sessions;
mod settings;
mod traffic;
mod users;
mod vouchers;

use std::{net::IpAddr, sync::Arc, time::Duration};

use deadpool::unmanaged::{Object, Pool};
use seckill_engine::{
    EngineError, Operator, Snapshot, admission::Admission, deployment::servers::Servers,
    telemetry::snapshot::HttpLine,
};
use seckill_model::text;
use seckill_redis::{Layout, SharedConnection};
use seckill_store::SharedStore;
use tokio::{
    sync::{Mutex, watch::Receiver},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use client::ProxyNetwork;
pub use operators::Secret;
pub use server::{Server, ServerError};
pub use sessions::{Session, Sessions};
pub use settings::HttpSettings;
pub use users::new_nick_name;

use answer::Refusal;
use cache::Cache;
use connections::Places;
use limits::Limits;
use login_limits::LoginCodes;
use metrics::Metrics;
use operators::Operators;

/// Connections for requests that need more than one command. Redis works on one at a time in any case.
const CONNECTIONS: usize = 8;
/// Maximum wait for one of them.
const CONNECTION_WITHIN: Duration = Duration::from_secs(2);
/// Time that a request may take beyond the time that admission may take.
const GRACE: Duration = Duration::from_secs(1);

/// How often the server looks after its limits.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Share of the requests beyond which one address is that of a proxy, or of a load test, and their rate below which it does
/// not matter.
const MOST_TRAFFIC: f64 = 0.8;
const NOTICED_PER_SECOND: f64 = 100.0;

/// What the endpoints share.
#[derive(Debug)]
pub(crate) struct State {
    admission: Admission,
    operator: Operator,
    /// What outlives the request that has begun it: see [`State::complete`].
    tasks: TaskTracker,
    /// Requests that are not answered yet.
    requests: TaskTracker,
    sessions: Sessions,
    operators: Operators,
    redis: SharedConnection,
    login_codes: LoginCodes,
    cache: Cache,
    pages: vouchers::Pages,
    keys: Layout,
    store: SharedStore,
    servers: Pool<Servers>,
    check: Mutex<health::Check>,
    limits: Limits,
    /// What the node has seen of the deployment.
    snapshots: Receiver<Arc<Snapshot>>,
    metrics: Metrics,
    /// Those of the connections of buyers.
    places: Arc<Places>,
    settings: HttpSettings,
    /// Timeout of a request.
    answers_within: Duration,
    /// Cancelled when the server stops.
    stopping: CancellationToken,
}

/// The state as axum passes it to each request.
pub(crate) type Shared = Arc<State>;

impl State {
    /// The state of a server that sells through the engine of `operator` and reports its `snapshots`.
    ///
    /// # Errors
    /// [`ServerError::Files`] if the limit of open files leaves none for connections; [`EngineError::Stopping`] if no engine
    /// runs there.
    fn new(
        operator: &Operator,
        snapshots: Receiver<Arc<Snapshot>>,
        settings: HttpSettings,
        stopping: CancellationToken,
    ) -> Result<Self, ServerError> {
        let deployment = &operator.deployment;
        let admission = operator.admission.clone().ok_or(EngineError::Stopping)?;
        let redis = deployment.redis.shared_connection();
        let keys = deployment.keys.clone();
        let sessions = Sessions::new(redis.clone(), keys.clone(), settings.session());
        let servers: Vec<Servers> = (0..CONNECTIONS).map(|_| operator.servers()).collect();
        let limit = files::limit();
        let most = files::connections(&settings, keys.count(), limit);
        if most == 0 {
            return Err(ServerError::Files(limit));
        }
        let places = Arc::new(Places::new(&settings, most));
        let tasks = TaskTracker::new();
        let answers_within = Duration::from_millis(deployment.settings.answer_within_ms) + GRACE;
        Ok(Self {
            admission,
            operator: operator.clone(),
            sessions,
            operators: Operators::new(deployment.store.clone()),
            cache: Cache::new(redis.clone(), tasks.clone()),
            pages: vouchers::pages(),
            tasks,
            requests: TaskTracker::new(),
            login_codes: LoginCodes::new(redis.clone(), keys.clone(), &settings),
            redis,
            keys,
            store: deployment.store.clone(),
            servers: servers.into(),
            check: health::Check::new(operator.servers(), deployment.settings.wait_replicas),
            limits: Limits::new(settings.user_per_second, settings.address_per_second),
            metrics: Metrics::new(snapshots.clone(), Arc::clone(&places)),
            snapshots,
            places,
            settings,
            answers_within,
            stopping,
        })
    }

    /// The figures that consoles show of the server at `url`.
    fn figures(&self, url: &str) -> HttpLine {
        HttpLine {
            node: self.operator.node.clone(),
            url: url.to_owned(),
            connections: self.places.taken() as u64,
            max_connections: self.places.most() as u64,
            one_address: self.one_address(),
            ..self.metrics.line()
        }
    }

    /// The address that most requests come from, as if it were that of a proxy, if none is configured.
    fn one_address(&self) -> Option<IpAddr> {
        let line = self.settings.trusted_proxies.is_empty().then(|| self.metrics.traffic.line())?;
        let top = line.addresses.first()?;
        let is_most = top.per_second > line.per_second * MOST_TRAFFIC;
        (is_most && line.per_second >= NOTICED_PER_SECOND).then_some(top.id)
    }

    /// Forgets those that have not asked for a while, and warns of a proxy that is not configured, until `stop`.
    async fn look_after(&self, stop: &CancellationToken) {
        let mut noticed = None;
        while stop.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_some() {
            self.limits.forget();
            let one = self.one_address();
            if let Some(address) = one.filter(|_| one != noticed) {
                let notice = text!("http-one-address", address = address.to_string());
                tracing::warn!("{notice}");
                noticed = one;
            }
        }
    }

    /// Runs a step to its end in a task of its own, also if the client leaves meanwhile: a change that was begun in SQL is
    /// delivered to Redis, and what was decided is counted. The task ends by the time limits of Redis and SQL; the server
    /// waits for it when it stops.
    ///
    /// # Errors
    /// [`Refusal::Uncertain`] if the step panicked.
    async fn complete<T: Send + 'static>(
        &self,
        step: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.tasks.spawn(step).await.map_err(|_| Refusal::Uncertain)
    }

    /// Connections to Redis and SQL for one request.
    async fn servers(&self) -> Result<Object<Servers>, Refusal> {
        match timeout(CONNECTION_WITHIN, self.servers.get()).await {
            Ok(Ok(servers)) => Ok(servers),
            Ok(Err(_)) | Err(_) => Err(Refusal::Overloaded),
        }
    }
}
