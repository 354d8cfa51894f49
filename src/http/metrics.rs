//! Metrics for Prometheus: counters of this process, and gauges of the deployment from the latest snapshot.
//!
//! Labels are bounded: paths are those of the router, and sales are the foremost ones of the snapshot.

use std::{
    fmt,
    net::IpAddr,
    sync::{Arc, atomic::AtomicI64},
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{MatchedPath, Request, State},
    http::{Method, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, prometheus_text::encode},
    metrics::{
        MetricType, counter::Counter, family::Family, gauge::ConstGauge, gauge::Gauge,
        histogram::Histogram,
    },
    registry::Registry,
};
use seckill_engine::{
    SaleLine, Snapshot, admission::AdmissionError, telemetry::snapshot::HttpLine,
};
use seckill_model::{Label, Outcome};
use tokio::sync::watch;

use crate::{Shared, answer::Refusal, connections::Places, traffic::Traffic};

/// Upper bounds of the buckets, in seconds: admission takes about a millisecond, and waits for at most ten seconds.
const BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];
/// Outcomes of admission, and limits, as values of labels.
const OUTCOMES: [&str; 10] = [
    "admitted",
    "duplicate",
    "sold_out",
    "not_started",
    "ended",
    "paused",
    "not_loaded",
    "not_ready",
    "busy",
    "error",
];
const LIMITS: [&str; 5] = ["user", "address", "login", "connections", "address_connections"];
/// Maximum number of sales with series of their own.
const SALES: usize = 100;
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/metrics", get(show))
}

async fn show(State(shared): State<Shared>) -> Response {
    let mut text = String::new();
    match encode(&mut text, &shared.metrics.registry) {
        Ok(()) => ([(CONTENT_TYPE, TEXT)], text).into_response(),
        Err(fmt::Error) => Refusal::Defect.into_response(),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    path: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PathLabel {
    path: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabel {
    by: &'static str,
}

/// The metrics of a server.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Family<PathLabel, Histogram, fn() -> Histogram>,
    in_flight: Gauge,
    admission: Family<OutcomeLabel, Counter>,
    limited: Family<LimitLabel, Counter>,
    /// When Redis last rejected the command that admits a buyer, if it has admitted none since.
    denied: Mutex<Option<Instant>>,
    pub(crate) traffic: Traffic,
}

/// A node that lacks a permission is not ready for this long after each attempt.
const DENIED_FOR: Duration = Duration::from_secs(10);

impl Metrics {
    /// `places` are those of the connections of buyers.
    pub(crate) fn new(snapshots: watch::Receiver<Arc<Snapshot>>, places: Arc<Places>) -> Self {
        let mut registry = Registry::with_prefix("seckill");
        let requests = Family::default();
        registry.register("http_requests", Label("metrics-requests").english(), requests.clone());
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let durations = Family::new_with_constructor(histogram);
        registry.register(
            "http_request_duration_seconds",
            Label("metrics-duration").english(),
            durations.clone(),
        );
        let in_flight = Gauge::<i64, AtomicI64>::default();
        registry.register(
            "http_requests_in_flight",
            Label("metrics-in-flight").english(),
            in_flight.clone(),
        );
        let admission = Family::<OutcomeLabel, Counter>::default();
        registry.register(
            "admission_requests",
            Label("metrics-admission").english(),
            admission.clone(),
        );
        let limited = Family::<LimitLabel, Counter>::default();
        registry.register("http_limited", Label("metrics-limited").english(), limited.clone());
        // Prometheus cannot tell the growth of a series that it has not seen before, such as the first orders of a sale.
        for outcome in OUTCOMES {
            drop(admission.get_or_create(&OutcomeLabel { outcome }));
        }
        for by in LIMITS {
            drop(limited.get_or_create(&LimitLabel { by }));
        }
        registry.register_collector(Box::new(Connections(places)));
        registry.register_collector(Box::new(Deployment(snapshots)));
        let traffic = Traffic::default();
        let denied = Mutex::default();
        Self { registry, requests, durations, in_flight, admission, limited, denied, traffic }
    }

    /// Counts a request from this address from now on.
    pub(crate) fn begin(&self, request: &Request, from: Option<IpAddr>) -> InFlight<'_> {
        let path = request.extensions().get::<MatchedPath>();
        let path = path.map_or("unmatched", MatchedPath::as_str).to_owned();
        let method = match *request.method() {
            Method::GET => "GET",
            Method::POST => "POST",
            Method::PUT => "PUT",
            _ => "other",
        };
        self.in_flight.inc();
        InFlight { metrics: self, method, path, from, began: Instant::now() }
    }

    /// Counts a decision of admission.
    pub(crate) fn note_admission(&self, outcome: &Result<Outcome, AdmissionError>) {
        let denied = outcome.as_ref().is_err_and(AdmissionError::is_of_permission);
        let outcome = match outcome {
            Ok(Outcome::Admitted { .. }) => "admitted",
            Ok(Outcome::Duplicate { .. }) => "duplicate",
            Ok(Outcome::SoldOut) => "sold_out",
            Ok(Outcome::NotStarted { .. }) => "not_started",
            Ok(Outcome::Ended) => "ended",
            Ok(Outcome::Paused) => "paused",
            Ok(Outcome::NotLoaded) => "not_loaded",
            Ok(Outcome::NotReady) => "not_ready",
            Ok(Outcome::Busy) => "busy",
            Err(error) if error.is_of_lost_sale() => "not_ready",
            Err(_) => "error",
        };
        self.admission.get_or_create(&OutcomeLabel { outcome }).inc();
        match outcome {
            "admitted" => *self.denied.lock() = None,
            "error" if denied => *self.denied.lock() = Some(Instant::now()),
            _ => {}
        }
    }

    /// Whether Redis has just rejected the command that admits a buyer, and admitted none since.
    pub(crate) fn is_denied(&self) -> bool {
        self.denied.lock().is_some_and(|at| at.elapsed() < DENIED_FOR)
    }

    /// Counts a request beyond the limit of its `user` or `address`, or of the `login`; or a connection beyond that of all
    /// (`connections`) or of its address (`address_connections`).
    pub(crate) fn note_limited(&self, by: &'static str) {
        self.limited.get_or_create(&LimitLabel { by }).inc();
    }

    /// What consoles show of these figures.
    pub(crate) fn line(&self) -> HttpLine {
        let limited = |by| self.limited.get_or_create(&LimitLabel { by }).get();
        HttpLine {
            in_flight: u64::try_from(self.in_flight.get()).unwrap_or_default(),
            limited_users: limited("user"),
            limited_addresses: limited("address"),
            ..self.traffic.line()
        }
    }
}

/// A request in progress; one whose client leaves has no answer, and is not counted as one.
pub(crate) struct InFlight<'a> {
    metrics: &'a Metrics,
    method: &'static str,
    path: String,
    from: Option<IpAddr>,
    began: Instant,
}

impl InFlight<'_> {
    pub(crate) fn end(self, status: StatusCode) {
        let (path, took) = (self.path.clone(), self.began.elapsed());
        self.metrics.traffic.note_answer(status, took, self.from);
        let duration = self.metrics.durations.get_or_create(&PathLabel { path: path.clone() });
        duration.observe(took.as_secs_f64());
        let labels = RequestLabels { method: self.method, path, status: status.as_u16() };
        self.metrics.requests.get_or_create(&labels).inc();
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.metrics.in_flight.dec();
    }
}

#[derive(Debug)]
struct Connections(Arc<Places>);

impl Collector for Connections {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let open = self.0.taken() as i64;
        gauge(&mut encoder, "http_connections", Label("metrics-connections"), Some(open))
    }
}

/// The figures of `seckill status`. They are those of the deployment, the same on each node; what is unknown has no
/// series.
#[derive(Debug)]
struct Deployment(watch::Receiver<Arc<Snapshot>>);

impl Collector for Deployment {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let snapshot = Arc::clone(&self.0.borrow());
        let encoder = &mut encoder;
        let (redis, sql) = (&snapshot.redis, &snapshot.sql);
        let known = snapshot.seq > 0;
        let up = |up: bool| known.then_some(i64::from(up));
        gauge(encoder, "redis_up", Label("metrics-redis-up"), up(redis.up))?;
        gauge(encoder, "database_up", Label("metrics-database-up"), up(sql.up))?;
        // Of an unreachable server nothing is known, not even what it last said.
        let stream =
            snapshot.stream.as_ref().filter(|_| redis.up && snapshot.unreachable.is_empty());
        let figure = |figure: Option<u64>| figure.map(|figure| figure as i64);
        let lag = figure(stream.and_then(|it| it.lag));
        gauge(encoder, "stream_lag_entries", Label("metrics-lag"), lag)?;
        let pending = figure(stream.map(|it| it.pending));
        let help = Label("metrics-pending");
        gauge(encoder, "stream_pending_entries", help, pending)?;
        let dead = figure(stream.map(|it| it.dead));
        gauge(encoder, "dead_letters", Label("metrics-dead"), dead)?;
        let written = (known && sql.up).then_some(snapshot.written.total as i64);
        gauge(encoder, "orders", Label("metrics-orders"), written)?;
        let alive = snapshot.nodes.iter().filter(|node| node.alive).count() as i64;
        gauge(encoder, "nodes", Label("metrics-nodes"), redis.up.then_some(alive))?;
        let alarms = known.then_some(snapshot.alarms.len() as i64);
        gauge(encoder, "alarms", Label("metrics-alarms"), alarms)?;
        let up = redis.up;
        let mut of_sales = |name, help: Label, figure: &dyn Fn(&SaleLine) -> Option<i64>| {
            let mut family =
                encoder.encode_descriptor(name, help.english(), None, MetricType::Gauge)?;
            for sale in snapshot.sales.iter().take(SALES) {
                let Some(figure) = figure(sale) else { continue };
                let labels = [("voucher", sale.voucher_id.to_string())];
                ConstGauge::new(figure).encode(family.encode_family(&labels)?)?;
            }
            Ok(())
        };
        let initial = Label("metrics-sale-initial");
        of_sales("sale_initial_pieces", initial, &|sale| Some(sale.initial as i64))?;
        let stock = Label("metrics-sale-stock");
        of_sales("sale_stock_pieces", stock, &|sale| sale.stock.filter(|_| up))?;
        let admitted = Label("metrics-sale-admitted");
        let buyers = |sale: &SaleLine| figure(sale.admitted.filter(|_| up));
        of_sales("sale_admitted_buyers", admitted, &buyers)?;
        let orders = Label("metrics-sale-orders");
        of_sales("sale_orders", orders, &|sale| Some(sale.persisted as i64))?;
        Ok(())
    }
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: Label,
    value: Option<i64>,
) -> fmt::Result {
    let Some(value) = value else { return Ok(()) };
    let gauge = ConstGauge::new(value);
    let metric = encoder.encode_descriptor(name, help.english(), None, MetricType::Gauge)?;
    gauge.encode(metric)
}
