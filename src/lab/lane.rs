//! One purchase in progress: runs each statement, command and lock of a design, and records it as a step.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use jiff::Zoned;
use rand::{RngExt as _, rngs::StdRng};
use redis::{Cmd, FromRedisValue, Value, cmd};
use seckill_model::{Label, OrderId, Reason};
use seckill_redis::{Connection, Layout, RedisError};
use seckill_store::plain::PlainConnection;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, MutexGuard};

use crate::{
    LabError, Result,
    disruption::{Holders, Point},
    instance::Served,
    lock::EngineLocks,
    trace::{Action, Instant, Step},
    work::{Request, Work},
};

/// The voucher on sale; the tutorials use this number.
pub(crate) const VOUCHER: i64 = 7;

/// What a request was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// Its order.
    Bought(i64),
    SoldOut,
    /// The user has an order already.
    Duplicate,
    /// The lock of the user was not free in time, or was lost.
    Locked,
    /// The request failed.
    Failed(Reason),
}

impl Reply {
    /// Its process was killed.
    fn died() -> Self {
        Self::Failed(Label("lab-holder-died").into())
    }
}

/// The memory of one process, which its requests share and other processes do not see.
#[derive(Debug)]
pub(crate) struct Process {
    /// From 1.
    pub(crate) instance: u32,
    pub(crate) work: Work,
    pub(crate) seed: u64,
    pub(crate) keys: Layout,
    /// The first requests of the users to whom a disruption happens.
    pub(crate) victims: Vec<Request>,
    /// Set in the process that serves these requests.
    pub(crate) holders: Option<Holders>,
    pub(crate) engine_locks: EngineLocks,
    /// The lock of a method that is `synchronized`.
    pub(crate) mutex: Mutex<()>,
    /// Strings that exist once in the process, each with its lock: what `String.intern()` and `synchronized` find.
    pub(crate) strings: parking_lot::Mutex<HashMap<String, Arc<Mutex<()>>>>,
    /// The stock as counted in memory, read from SQL at startup.
    pub(crate) counter: AtomicI64,
}

impl Process {
    /// The lock of the one string of the process that is equal to this one.
    pub(crate) fn intern(&self, string: String) -> Arc<Mutex<()>> {
        Arc::clone(self.strings.lock().entry(string).or_default())
    }
}

/// The connections of one worker, which serves one request at a time.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) sql: PlainConnection,
    pub(crate) redis: Connection,
}

/// One request on its way through a design.
#[derive(Debug)]
pub(crate) struct Lane<'a> {
    process: &'a Process,
    connections: &'a mut Connections,
    request: Request,
    rng: StdRng,
    in_transaction: bool,
    /// Where it will stall.
    stall: Option<Point>,
    steps: Vec<Step>,
}

impl<'a> Lane<'a> {
    pub(crate) fn new(
        process: &'a Process,
        connections: &'a mut Connections,
        request: Request,
    ) -> Self {
        let rng = Work::rng(process.seed, request.number);
        let stall = process.work.stall_of(&process.victims, request);
        let (in_transaction, steps) = (false, Vec::new());
        Self { process, connections, request, rng, in_transaction, stall, steps }
    }

    pub(crate) fn user(&self) -> i64 {
        self.request.user
    }

    /// Its position in the order of arrival.
    pub(crate) fn number(&self) -> u32 {
        self.request.number
    }

    /// The memory of the process that serves it.
    pub(crate) fn process(&self) -> &'a Process {
        self.process
    }

    /// Reads the numbers of the only row.
    pub(crate) async fn read_row<const N: usize>(
        &mut self,
        sql: &'static str,
        values: &[i64],
    ) -> Result<[i64; N]> {
        let begun = Instant::now();
        let rows = self.connections.sql.rows::<N>(sql, values).await;
        let saw = rows.as_ref().ok().and_then(|it| it.first()).map(|it| it.to_vec());
        self.record(Action::Read, sql.into(), values, saw.unwrap_or_default(), begun);
        // A missing row reads as zeros: no stock, no orders.
        Ok(rows?.first().copied().unwrap_or([0; N]))
    }

    /// Reads one number.
    pub(crate) async fn read(&mut self, sql: &'static str, values: &[i64]) -> Result<i64> {
        self.read_row::<1>(sql, values).await.map(|[number]| number)
    }

    /// Executes an UPDATE or DELETE; returns how many rows it changed.
    pub(crate) async fn write(&mut self, sql: &'static str, values: &[i64]) -> Result<u64> {
        let begun = Instant::now();
        let rows = self.connections.sql.execute(sql, values).await;
        let saw = rows.as_ref().ok().map(|rows| *rows as i64);
        self.record(Action::Write, sql.into(), values, saw.into_iter().collect(), begun);
        Ok(rows?)
    }

    /// Executes an INSERT; returns whether a unique key accepted the row.
    pub(crate) async fn insert(&mut self, sql: &'static str, values: &[i64]) -> Result<bool> {
        let begun = Instant::now();
        let rows = self.connections.sql.insert(sql, values).await;
        let saw = rows.as_ref().ok().map(|rows| *rows as i64);
        self.record(Action::Write, sql.into(), values, saw.into_iter().collect(), begun);
        Ok(rows? > 0)
    }

    /// Begins a transaction, as `@Transactional` does before the method.
    pub(crate) async fn begin(&mut self) -> Result<()> {
        self.transaction("BEGIN").await?;
        self.in_transaction = true;
        Ok(())
    }

    /// Commits, as `@Transactional` does after the method.
    pub(crate) async fn commit(&mut self) -> Result<()> {
        self.transaction("COMMIT").await?;
        self.in_transaction = false;
        Ok(())
    }

    /// Rolls back, as `@Transactional` does after an exception.
    pub(crate) async fn rollback(&mut self) -> Result<()> {
        self.in_transaction = false;
        self.transaction("ROLLBACK").await
    }

    async fn transaction(&mut self, sql: &'static str) -> Result<()> {
        let begun = Instant::now();
        let done = self.connections.sql.command(sql).await;
        self.record(Action::Transaction, sql.into(), &[], Vec::new(), begun);
        Ok(done?)
    }

    /// Sends a command to Redis.
    pub(crate) async fn redis<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T> {
        let begun = Instant::now();
        let reply: Value = self.send(command).await?;
        let saw = match &reply {
            Value::Int(number) => vec![*number],
            _ => Vec::new(),
        };
        self.record(Action::Redis, shown(command).into(), &[], saw, begun);
        let address = self.connections.redis.address();
        let read = T::from_redis_value(reply);
        Ok(read.map_err(|error| RedisError::from_redis(&error.into(), address))?)
    }

    /// Sends a command to Redis, and once more on a new connection if the server has gone, as the driver of the
    /// tutorials does.
    pub(crate) async fn send<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T> {
        let begun = Instant::now();
        match self.connections.redis.query(command).await {
            Err(error) if error.is_away() => {
                self.record(Action::Redis, shown(command).into(), &[], Vec::new(), begun);
                Ok(self.connections.redis.query(command).await?)
            }
            reply => Ok(reply?),
        }
    }

    /// Takes a lock in the memory of the process, and waits for it. The lock is released by [`Lane::unlock`], or when
    /// the request ends.
    pub(crate) async fn lock<'m>(
        &mut self,
        mutex: &'m Mutex<()>,
        name: &'static str,
    ) -> Held<MutexGuard<'m, ()>> {
        let begun = Instant::now();
        let guard = mutex.lock().await;
        self.record(Action::Lock, name.into(), &[], Vec::new(), begun);
        Held { guard, name }
    }

    /// Releases a lock in the memory of the process.
    pub(crate) fn unlock<G>(&mut self, held: Held<G>) {
        // Recorded first: once it is released, another request may record that it holds the lock.
        self.record(Action::Unlock, held.name.into(), &[], Vec::new(), Instant::now());
        drop(held.guard);
    }

    /// Adds to a number in the memory of the process, atomically; returns what it was.
    pub(crate) fn fetch_add(
        &mut self,
        number: &AtomicI64,
        name: &'static str,
        difference: i64,
    ) -> i64 {
        let begun = Instant::now();
        let was = number.fetch_add(difference, Ordering::SeqCst);
        self.record(Action::Memory, name.into(), &[difference], vec![was], begun);
        was
    }

    /// Waits for the think time of the work, a quarter more or less by chance: what a real program does between a check
    /// and a write (calls, garbage collection, a slow network), and what widens a race.
    pub(crate) async fn think(&mut self) {
        self.think_at(Point::BeforeWrite).await;
    }

    /// The same between the check of a lock's owner and the command that deletes the lock.
    pub(crate) async fn think_before_release(&mut self) {
        self.think_at(Point::BeforeRelease).await;
    }

    /// Waits, or stalls if a disruption happens to this request here.
    async fn think_at(&mut self, point: Point) {
        let (mut action, mut pause) = (Action::Think, self.think_time());
        if self.stall.take_if(|it| *it == point).is_some() {
            let work = &self.process.work;
            let is_first = self.process.victims.contains(&self.request);
            pause = if is_first { work.stall() } else { work.second_stall() };
            action = Action::Stall;
        }
        let begun = Instant::now();
        // It begins before the parent is told, who may stop this process at once.
        let sleeping = tokio::time::sleep(pause);
        if action == Action::Stall {
            self.tell_holders();
        }
        sleeping.await;
        let millis = pause.as_millis() as i64;
        let values = if action == Action::Stall { vec![millis] } else { Vec::new() };
        self.record(action, "".into(), &values, Vec::new(), begun);
    }

    fn think_time(&mut self) -> Duration {
        let mean = u64::from(self.process.work.think_ms) * 1_000;
        Duration::from_micros(self.rng.random_range(mean * 3 / 4..=mean * 5 / 4))
    }

    /// Tells the parent what this request has done until now, if it is a holder of a lock to be disrupted.
    fn tell_holders(&self) {
        let Some(holders) = &self.process.holders else { return };
        let (user, reply, ended) = (self.user(), Reply::died(), Instant::now());
        let begun = self.steps.first().map_or(ended, |it| it.begun);
        holders.add(Served { user, reply, begun, ended, steps: self.steps.clone() });
    }

    /// `RedisIdWorker.nextId`: seconds since 2022 and a counter of the day in Redis.
    ///
    /// The tutorials take local time for UTC; the lab does as they do, because a design is judged by its orders only.
    pub(crate) async fn next_id(&mut self) -> Result<i64> {
        let now = Zoned::now();
        let key = self.process.keys.home().sequence(now.date());
        let count: u64 = self.redis(cmd("INCR").arg(key)).await?;
        let id = OrderId::new(now.timestamp().as_second(), count).map_err(LabError::Invalid)?;
        Ok(id.as_i64())
    }

    /// Creates the order: an ID, then the row. Returns `None` if a unique key rejects it.
    pub(crate) async fn create_order(&mut self) -> Result<Option<i64>> {
        let id = self.next_id().await?;
        let sql = "INSERT INTO tb_voucher_order (id, user_id, voucher_id) VALUES ($1, $2, $3)";
        let is_new = self.insert(sql, &[id, self.user(), VOUCHER]).await?;
        Ok(is_new.then_some(id))
    }

    /// Creates the order and replies with it.
    pub(crate) async fn order(&mut self) -> Result<Reply> {
        Ok(self.create_order().await?.map_or(Reply::Duplicate, Reply::Bought))
    }

    /// Ends the request: rolls back what it left open, and returns its steps.
    pub(crate) async fn finish(mut self) -> Vec<Step> {
        if self.in_transaction
            && let Err(error) = self.rollback().await
        {
            tracing::warn!(%error, "a transaction of the lab was not rolled back");
        }
        self.steps
    }

    pub(crate) fn record(
        &mut self,
        action: Action,
        what: Cow<'static, str>,
        values: &[i64],
        saw: Vec<i64>,
        begun: Instant,
    ) {
        let Request { number: lane, user } = self.request;
        let (instance, ended) = (self.process.instance, Instant::now());
        let values = values.to_vec();
        self.steps.push(Step { lane, user, instance, action, what, values, saw, begun, ended });
    }
}

/// A held lock of the process.
pub(crate) struct Held<G> {
    guard: G,
    name: &'static str,
}

/// A command as MONITOR shows it, without quotes.
pub(crate) fn shown(command: &Cmd) -> String {
    let arguments = command.args_iter().map(|it| match it {
        redis::Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => "0".to_owned(),
    });
    arguments.collect::<Vec<_>>().join(" ")
}
