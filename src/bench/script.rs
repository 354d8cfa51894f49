//! The admission of the tutorials: their script, called by a client that keeps Redis busy.
//!
//! The client is as cheap as a client can be: it makes up the order IDs, which the tutorials take from Redis, and sends
//! each connection's calls in pipelines.

use std::{
    io::ErrorKind,
    ops::{Range, RangeInclusive},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use redis::{
    ErrorKind as DriverErrorKind, RedisError as DriverError, aio::MultiplexedConnection, cmd, pipe,
};
use seckill_engine::{EngineError, deployment::Deployment, telemetry::meters::histogram};
use seckill_model::reason;
use seckill_redis::{HOME, Redis, RedisError};
use tokio::{process::Command, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::setup::{self, Bench, failed};

/// Text 000, section 12.6, without its comments: 0 for a buyer who is admitted, 1 if it is sold out, 2 for a second
/// order.
const SCRIPT: &str = "\
local voucherId = ARGV[1]
local userId = ARGV[2]
local orderId = ARGV[3]
local stockKey = 'seckill:stock:' .. voucherId
local orderKey = 'seckill:order:' .. voucherId
if(tonumber(redis.call('get', stockKey)) <= 0) then
    return 1
end
if(redis.call('sismember', orderKey, userId) == 1) then
    return 2
end
redis.call('incrby', stockKey, -1)
redis.call('sadd', orderKey, userId)
redis.call('xadd', 'stream.orders', '*', 'userId', userId, 'voucherId', voucherId, 'id', orderId)
return 0
";
const STREAM: &str = "stream.orders";
const STOCK: &str = "seckill:stock:10";
const BUYERS: &str = "seckill:order:10";
const VOUCHER: u64 = 10;
/// As long as an order ID.
const FIRST_ORDER: u64 = 1 << 60;

/// Calls in one pipeline.
const PIPELINE: usize = 64;
/// Interval at which [`Script::call_at`] sends what is due.
const TICK: Duration = Duration::from_millis(1);
const PROGRAM: &str = "redis-benchmark";
/// Random users of [`PROGRAM`]; it counts them in 31 bits.
const RANDOM_USERS: &str = "2000000000";

/// Calls the script.
pub(super) struct Script {
    redis: Redis,
    sha: String,
}

/// Number of replies: admitted, sold out, already a buyer.
pub(super) type Replies = [u64; 3];

/// The keys of the script, which it makes itself.
pub(super) fn keys() -> Vec<String> {
    [STREAM, STOCK, BUYERS].map(str::to_owned).to_vec()
}

impl Script {
    /// Rejects a Redis that has such keys: they may belong to another program.
    pub(super) async fn refuse_keys(redis: &Redis) -> Result<(), EngineError> {
        if redis.is_cluster() {
            return Err(EngineError::Rejected(reason!("bench-script-cluster")));
        }
        let found: u64 = redis.connection().query(cmd("EXISTS").arg(keys())).await?;
        if found > 0 {
            let keys = keys().join(", ");
            return Err(EngineError::Rejected(reason!("bench-script-keys", keys)));
        }
        Ok(())
    }

    pub(super) async fn load(redis: &Redis) -> Result<Self, EngineError> {
        let sha = redis.connection().query(cmd("SCRIPT").arg("LOAD").arg(SCRIPT)).await?;
        Ok(Self { redis: redis.clone(), sha })
    }

    /// Begins a sale with this stock.
    pub(super) async fn open(&self, stock: u64) -> Result<(), EngineError> {
        let mut open = pipe();
        open.cmd("UNLINK").arg(keys()).ignore();
        open.cmd("SET").arg(STOCK).arg(stock).ignore();
        Ok(self.redis.connection().pipe(&open).await?)
    }

    /// Checks that stock, buyers and entries agree with the number of admitted users, and ends the sale.
    pub(super) async fn close(
        &self,
        stock: u64,
        sold: RangeInclusive<u64>,
    ) -> Result<(), EngineError> {
        let mut read = pipe();
        read.cmd("GET").arg(STOCK).cmd("SCARD").arg(BUYERS).cmd("XLEN").arg(STREAM);
        let mut conn = self.redis.connection();
        let (left, buyers, entries): (i64, u64, u64) = conn.pipe(&read).await?;
        if !sold.contains(&buyers) || entries != buyers || left != stock as i64 - buyers as i64 {
            let expected = *sold.end();
            let why = reason!("bench-script-wrong", expected, buyers, entries, left);
            return Err(failed(why));
        }
        conn.query::<u64>(cmd("UNLINK").arg(keys())).await?;
        Ok(())
    }

    /// Calls it once for each user, in pipelines of [`PIPELINE`], over so many connections.
    pub(super) async fn run(
        &self,
        users: &Arc<[u32]>,
        range: Range<usize>,
        connections: usize,
    ) -> Result<(Replies, Duration), EngineError> {
        let (next, mut clients) = (Arc::new(AtomicUsize::new(range.start)), JoinSet::new());
        let mut open = Vec::new();
        for _ in 0..connections {
            open.push(self.connect().await?);
        }
        let begun = Instant::now();
        for mut connection in open {
            let (users, next, sha) = (Arc::clone(users), Arc::clone(&next), self.sha.clone());
            let end = range.end;
            clients.spawn(async move {
                let mut replies = Replies::default();
                loop {
                    let from = next.fetch_add(PIPELINE, Ordering::Relaxed);
                    let Some(due) = users.get(from..end.min(from + PIPELINE)) else { break };
                    if due.is_empty() {
                        break;
                    }
                    add(&mut replies, call(&mut connection, &sha, due).await?);
                }
                Ok::<_, DriverError>(replies)
            });
        }
        let mut replies = Replies::default();
        for client in clients.join_all().await {
            add(&mut replies, client.map_err(|error| self.failed(&error))?);
        }
        Ok((replies, begun.elapsed()))
    }

    /// Runs a sale with a piece for each of these users, who ask at a rate. Returns the latencies, and the replies per
    /// second; `None` if a call got no reply in time: the script refuses no one.
    pub(super) async fn offer(
        &self,
        users: &[u32],
        rate: f64,
    ) -> Result<Option<(Histogram<u64>, f64)>, EngineError> {
        let stock = users.len() as u64;
        self.open(stock).await?;
        let offered = match self.call_at(users, rate).await {
            Err(EngineError::Redis(RedisError::Away { .. } | RedisError::Silent { .. })) => None,
            offered => Some(offered?),
        };
        let least = if offered.is_some() { stock } else { 0 };
        self.close(stock, least..=stock).await?;
        Ok(offered)
    }

    /// Calls it at a rate, over one connection, for users who must all be admitted. Returns the latencies, and the
    /// replies per second.
    async fn call_at(
        &self,
        users: &[u32],
        rate: f64,
    ) -> Result<(Histogram<u64>, f64), EngineError> {
        let connection = self.connect().await?;
        let mut calls = JoinSet::new();
        let (begun, mut sent) = (Instant::now(), 0);
        let mut tick = tokio::time::interval(TICK);
        while sent < users.len() {
            tick.tick().await;
            let due = ((begun.elapsed() + TICK).as_secs_f64() * rate) as usize;
            let due = due.min(users.len()).max(sent);
            for due in users.get(sent..due).unwrap_or_default().chunks(PIPELINE) {
                let (mut connection, sha) = (connection.clone(), self.sha.clone());
                let (due, sent) = (due.to_vec(), Instant::now());
                calls.spawn(async move {
                    let [admitted, ..] = call(&mut connection, &sha, &due).await?;
                    Ok::<_, DriverError>((sent.elapsed(), admitted))
                });
            }
            sent = due;
        }
        let (mut latencies, mut admitted) = (histogram(), 0);
        for call in calls.join_all().await {
            let (took, buyers) = call.map_err(|error| self.failed(&error))?;
            // Up to a minute, which is longer than the timeout of a command.
            let _ = latencies.record_n((took.as_micros() as u64).max(1), buyers);
            admitted += buyers;
        }
        expect([admitted, 0, 0], [users.len() as u64, 0, 0])?;
        Ok((latencies, admitted as f64 / begun.elapsed().as_secs_f64().max(1e-6)))
    }

    /// Calls it for one user after the other; returns the latencies.
    pub(super) async fn one_by_one(&self, users: &[u32]) -> Result<Histogram<u64>, EngineError> {
        let (mut connection, mut latencies) = (self.connect().await?, histogram());
        for user in users {
            let begun = Instant::now();
            let mut call = cmd("EVALSHA");
            call.arg(&self.sha).arg(0).arg(VOUCHER).arg(*user).arg(FIRST_ORDER + u64::from(*user));
            let reply = call.query_async::<u8>(&mut connection).await;
            reply.map_err(|error| self.failed(&error))?;
            latencies.saturating_record(begun.elapsed().as_micros() as u64);
        }
        Ok(latencies)
    }

    /// Lets redis-benchmark call it; returns its requests per second. `None` if it is not installed, or the server has
    /// no socket that needs no password.
    pub(super) async fn redis_benchmark(&self, requests: u64) -> Result<Option<f64>, EngineError> {
        let Some(server) = self.redis.managed() else { return Ok(None) };
        let mut program = Command::new(PROGRAM);
        program.arg("-s").arg(server.socket()).args(["-c", "50", "--csv", "-r", RANDOM_USERS]);
        program.args(["-P", &PIPELINE.to_string(), "-n", &requests.to_string()]);
        program.args(["EVALSHA", &self.sha, "0", &VOUCHER.to_string()]);
        program.args(["__rand_int__", &FIRST_ORDER.to_string()]);
        let output = match program.kill_on_drop(true).output().await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            output => output,
        };
        let output =
            output.map_err(|error| failed(reason!("bench-program", error = error.to_string())))?;
        // "name","requests per second", …
        let text = String::from_utf8_lossy(&output.stdout);
        let figure = text.lines().last().and_then(|line| line.split("\",\"").nth(1)?.parse().ok());
        match figure {
            Some(per_second) if output.status.success() => Ok(Some(per_second)),
            _ => {
                let error = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                Err(failed(reason!("bench-program", error)))
            }
        }
    }

    async fn connect(&self) -> Result<MultiplexedConnection, EngineError> {
        Ok(self.redis.connection().multiplexed(HOME).await?)
    }

    fn failed(&self, error: &DriverError) -> EngineError {
        RedisError::from_redis(error, self.redis.address()).into()
    }
}

/// Runs `measure` on servers that both the engine and the script use, and cleans up.
///
/// # Errors
/// The servers are in use or unavailable, `measure` failed, or `stop` was cancelled.
pub(super) async fn run_beside<T>(
    deployment: Deployment,
    stop: &CancellationToken,
    measure: impl AsyncFnOnce(&mut Bench) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    Script::refuse_keys(&deployment.redis).await?;
    setup::run(deployment, keys(), stop, measure).await
}

/// Checks the number of each reply.
pub(super) fn expect(replies: Replies, expected: Replies) -> Result<(), EngineError> {
    if replies == expected {
        return Ok(());
    }
    let requests = expected.iter().sum::<u64>();
    let [admitted, sold_out, duplicate] = replies;
    Err(failed(reason!("bench-script-replies", requests, admitted, sold_out, duplicate)))
}

/// Sends one pipeline.
async fn call(
    connection: &mut MultiplexedConnection,
    sha: &str,
    users: &[u32],
) -> Result<Replies, DriverError> {
    let mut calls = pipe();
    for user in users {
        let order = FIRST_ORDER + u64::from(*user);
        calls.cmd("EVALSHA").arg(sha).arg(0).arg(VOUCHER).arg(*user).arg(order);
    }
    let mut replies = Replies::default();
    for reply in calls.query_async::<Vec<usize>>(connection).await? {
        let count = replies.get_mut(reply);
        *count.ok_or((DriverErrorKind::UnexpectedReturnType, "seckill.lua"))? += 1;
    }
    Ok(replies)
}

fn add(sum: &mut Replies, replies: Replies) {
    sum.iter_mut().zip(replies).for_each(|(sum, more)| *sum += more);
}
