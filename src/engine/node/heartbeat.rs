//! Heartbeats of a node, its claim to its name, and the checks of its partitions that go with them.
//!
//! Two processes with one name would treat each other's entries as their own. A process that finds its name taken,
//! because it was suspended for too long or was started twice, stops.

use std::time::{Duration, Instant};

use redis::{ScriptInvocation, cmd};
use seckill_model::Millis;
use seckill_redis::{Connection, RedisError, keys::Partition, nodes::FORGET_MS, scripts};
use tokio_util::sync::CancellationToken;

use crate::{
    EngineError, Result,
    deployment::servers::Servers,
    node::context::NodeContext,
    recovery::partition_repair::repair_partition,
    telemetry::{data_loss::LossExchange, node_report::NodeReport},
};

const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// How long a node that starts waits for a slot of a cluster that moves to another server. Until its keys have all moved, no
/// server executes a command about several of them.
const MOVES_WITHIN: Duration = Duration::from_mins(1);

/// Sends a node's heartbeats in one partition and repairs its faults until `stop` is cancelled. Cancels `stop` itself
/// if another process has taken the name.
pub(crate) async fn send_heartbeats(
    context: NodeContext,
    mut servers: Servers,
    of: Partition,
    instance: String,
    stop: CancellationToken,
) {
    let mut losses = LossExchange::default();
    // How far the clock of Redis is ahead of this host's.
    let mut ahead = None;
    let NodeContext { node, deployment, outbox, meters, .. } = context;
    let mut counted = (Instant::now(), meters.written(of.number()));
    let dead_ms = deployment.settings.node_dead_ms;
    let is_home = of == servers.keys.home();
    loop {
        // The collector reports outages; the next heartbeat retries.
        let now = (Instant::now(), meters.written(of.number()));
        let seconds = now.0.duration_since(counted.0).as_secs_f64();
        let rate = ((now.1 - counted.1) as f64 / seconds.max(0.1)).round() as u64;
        counted = now;
        let (mut http, mut report) = (String::new(), String::new());
        if is_home {
            let zone = deployment.settings.jobs.time_zone.as_ref().map(ToString::to_string);
            http = meters.http();
            // Until the first reply, nothing is known of the clock.
            if let Some(ahead) = ahead {
                report = NodeReport::new(meters.refused_sales(), ahead, zone).to_json();
            }
        }
        let figures = Figures { per_second: rate, http, report };
        let asked = Millis::now();
        match beat(&mut servers.conn, &of, &node, &instance, dead_ms, "", figures).await {
            Ok((now, true)) => {
                ahead = Some(now.ahead(ahead.unwrap_or(0), asked, Millis::now()));
            }
            Ok((_, false)) => {
                tracing::error!(node, "another process has taken the name; stopping");
                stop.cancel();
            }
            Err(_) => {}
        }
        // A fault that could not be repaired is retried with the next heartbeat.
        match repair_partition(&mut servers, &of, &outbox, &node).await {
            Ok(0) => {}
            Ok(_) => _ = outbox.write(&servers.store).await,
            Err(error) => {
                tracing::debug!(%error, partition = of.number(), "partition check failed");
            }
        }
        let next = Instant::now() + HEARTBEAT_INTERVAL;
        loop {
            if is_home {
                // The collector reports outages here as well.
                let _ = losses.run(&mut servers.conn, &of, &node, &outbox).await;
            }
            tokio::select! {
                () = stop.cancelled() => return,
                // Losses are published in Redis immediately: the database may take a second longer.
                () = outbox.line_came(), if is_home => {}
                () = tokio::time::sleep_until(next.into()) => break,
            }
        }
    }
}

/// Claims a name in every partition before a node starts under it, except in those of servers that did not reply to a
/// probe of the connection: the first heartbeat there claims it. Waits until a process of that name that has just
/// died counts as dead; does not wait if it has certainly ended, or with `force`. Waits for up to a minute while the slot of
/// a partition moves to another server of a cluster.
///
/// # Errors
/// [`EngineError::NameTaken`] if it is alive; Redis is unreachable.
pub async fn take_name(
    servers: &mut Servers,
    node: &str,
    instance: &str,
    dead_ms: u64,
    force: bool,
) -> Result<()> {
    let began = Instant::now();
    let until = began + Duration::from_millis(dead_ms) + HEARTBEAT_INTERVAL;
    for of in servers.conn.reachable(&servers.keys) {
        let mut how = if force { "take".to_owned() } else { String::new() };
        loop {
            let figures = Figures::default();
            match beat(&mut servers.conn, &of, node, instance, dead_ms, &how, figures).await {
                Ok((_, true)) => break,
                Ok((_, false)) => {}
                Err(EngineError::Redis(RedisError::Moved { address, reply }))
                    if began.elapsed() < MOVES_WITHIN =>
                {
                    tracing::debug!(address, %reply, "waiting for a slot that moves");
                    tokio::time::sleep(ASK_AGAIN).await;
                    continue;
                }
                Err(error) => return Err(error),
            }
            let other = cmd("HGET").arg(of.instances()).arg(node).take();
            let other: Option<String> = servers.conn.query(&other).await?;
            if let Some(ended) = other.filter(|it| *it != how && servers.conn.has_ended(it)) {
                how = ended;
                continue;
            }
            if Instant::now() > until {
                return Err(EngineError::NameTaken(node.to_owned()));
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }
    Ok(())
}

/// What a heartbeat publishes.
#[derive(Debug, Default)]
struct Figures {
    /// Orders written per second.
    per_second: u64,
    /// Figures of the HTTP server, as JSON; empty without one.
    http: String,
    /// Its [`NodeReport`] as JSON; empty before there is one.
    report: String,
}

/// The time by the clock of Redis; and `false` if another process of that name is alive.
async fn beat(
    conn: &mut Connection,
    of: &Partition,
    node: &str,
    instance: &str,
    dead_ms: u64,
    how: &str,
    figures: Figures,
) -> Result<(Millis, bool)> {
    let mut call = beat_call(of, node, FORGET_MS, instance, dead_ms, how);
    call.arg(figures.per_second).arg(figures.http).arg(figures.report);
    let (now, taken): (i64, bool) = conn.invoke(&call).await?;
    Ok((Millis(now), taken))
}

/// Prepares a heartbeat; the caller appends the figures.
pub(crate) fn beat_call(
    of: &Partition,
    node: &str,
    forget_ms: u64,
    instance: &str,
    dead_ms: u64,
    how: &str,
) -> ScriptInvocation<'static> {
    let mut call = scripts::HEARTBEAT.prepare_invoke();
    call.key(of.nodes()).key(of.instances()).key(of.reconciled()).key(of.rates()).key(of.http());
    call.key(of.reports());
    call.arg(node).arg(forget_ms).arg(instance).arg(dead_ms).arg(how);
    call
}
