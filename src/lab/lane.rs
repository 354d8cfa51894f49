//! One purchase or one consumer in progress: runs each statement, command and lock of a design, and records it as a
//! step.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use futures::{Stream, StreamExt as _};
use jiff::Zoned;
use rand::{RngExt as _, rngs::StdRng};
use redis::{Cmd, FromRedisValue, Script, Value, cmd};
use seckill_model::{Label, OrderId};
use seckill_redis::{Connection, Layout, Redis, RedisError};
use seckill_store::plain::PlainConnection;
use tokio::sync::{Mutex, MutexGuard};

use crate::{
    LabError, Result,
    engine_locks::EngineLocks,
    engine_node::EngineNode,
    entry::{Entry, VoucherOrder},
    meeting::{Meeting, Reached},
    memory_queue::MemoryQueue,
    parent::{Reply, Report, Served, report},
    stalls::{HolderReport, Point},
    trace::{Action, Instant, Saw, Step},
    work::{Request, VOUCHER, Work},
};

/// The lane of a consumer; requests are counted from 0.
pub(crate) const CONSUMER: u32 = u32::MAX;
/// Maximum number of steps that a consumer reports; later ones are not in the trace. A consumer with a fault may loop
/// forever.
const MAX_REPORTED: u32 = 5_000;
const INSERT_ORDER: &str =
    "INSERT INTO tb_voucher_order (id, user_id, voucher_id) VALUES ($1, $2, $3)";

/// The memory of one process, which its requests share and other processes do not see.
#[derive(Debug)]
pub(crate) struct Process {
    /// From 1.
    pub(crate) instance: u32,
    pub(crate) work: Work,
    pub(crate) seed: u64,
    pub(crate) keys: Layout,
    /// The requests that hold a lock when an incident happens.
    pub(crate) holders: Vec<Request>,
    /// Set in the process that serves these requests.
    pub(crate) holder_report: Option<HolderReport>,
    pub(crate) engine_locks: EngineLocks,
    /// The lock of a method that is `synchronized`.
    pub(crate) mutex: Mutex<()>,
    /// Strings that exist once in the process, each with its lock: what `String.intern()` and `synchronized` find.
    pub(crate) strings: parking_lot::Mutex<HashMap<String, Arc<Mutex<()>>>>,
    /// The stock as counted in memory, read from SQL at startup.
    pub(crate) counter: AtomicI64,
    /// Orders that were accepted and not written yet.
    pub(crate) order_tasks: MemoryQueue<VoucherOrder>,
    /// For subscriptions.
    pub(crate) redis: Redis,
    /// The node of the engine, for the design that is the engine.
    pub(crate) node: Option<EngineNode>,
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
pub(crate) struct Lane<'a> {
    process: &'a Process,
    connections: &'a mut Connections,
    request: Request,
    rng: StdRng,
    in_transaction: bool,
    /// Where it will stall.
    stall: Option<Point>,
    /// Of the first request of a user, after it has stalled: where the second one waits for its end.
    awaited: Option<Meeting>,
    steps: Vec<Step>,
    /// Set for a consumer.
    consumer: Option<Consuming>,
}

/// What only a consumer has.
struct Consuming {
    /// The position of the pause from which it does not return: the parent kills it then.
    stall: Option<u32>,
    pauses: u32,
    reported: u32,
    messages: Option<Box<dyn Stream<Item = String> + Send + Unpin>>,
}

impl<'a> Lane<'a> {
    pub(crate) fn new(
        process: &'a Process,
        connections: &'a mut Connections,
        request: Request,
    ) -> Self {
        let rng = Work::rng(process.seed, request.number);
        let stall = process.work.stall_of(&process.holders, request);
        let (in_transaction, awaited, steps, consumer) = (false, None, Vec::new(), None);
        Self { process, connections, request, rng, in_transaction, stall, awaited, steps, consumer }
    }

    /// The lane of a consumer. Each step is reported to the parent immediately, because the process may be killed; in the pause
    /// at position `stall` it waits for that.
    pub(crate) fn of_consumer(
        process: &'a Process,
        connections: &'a mut Connections,
        stall: Option<u32>,
    ) -> Self {
        let consumer = Consuming { stall, pauses: 0, reported: 0, messages: None };
        let request = Request { number: CONSUMER, user: 0 };
        Self { consumer: Some(consumer), ..Self::new(process, connections, request) }
    }

    pub(crate) fn user(&self) -> i64 {
        self.request.user
    }

    /// What the tutorials store in a lock to know its owner, `ID_PREFIX + threadId`: its process and its position; of a
    /// consumer, its process.
    pub(crate) fn owner(&self) -> String {
        match self.request.number {
            CONSUMER => format!("{}-consumer", self.process.instance),
            number => format!("{}-{number}", self.process.instance),
        }
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
        let saw: Vec<i64> = rows.iter().map(|rows| *rows as i64).collect();
        self.record(Action::Write, sql.into(), values, saw, begun);
        Ok(rows?)
    }

    /// Executes an INSERT; returns whether a unique key accepted the row.
    pub(crate) async fn insert(&mut self, sql: &'static str, values: &[i64]) -> Result<bool> {
        let begun = Instant::now();
        let rows = self.connections.sql.insert(sql, values).await;
        let saw: Vec<i64> = rows.iter().map(|rows| *rows as i64).collect();
        self.record(Action::Write, sql.into(), values, saw, begun);
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
        self.record(Action::Transaction, sql.into(), &[], Saw::default(), begun);
        Ok(done?)
    }

    /// Sends a command to Redis.
    pub(crate) async fn redis<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T> {
        let begun = Instant::now();
        let reply = self.send::<Value>(command).await;
        let saw = reply.as_ref().map(Saw::from).unwrap_or_default();
        self.record(Action::Redis, shown(command).into(), &[], saw, begun);
        let address = self.connections.redis.address();
        let read = T::from_redis_value(reply?);
        Ok(read.map_err(|error| RedisError::from_redis(&error.into(), address))?)
    }

    /// Sends a command to Redis, and once more on a new connection if the server has gone, as the driver of the
    /// tutorials does.
    pub(crate) async fn send<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T> {
        let begun = Instant::now();
        match self.connections.redis.query(command).await {
            Err(error) if error.is_away() => {
                self.record(Action::Redis, shown(command).into(), &[], Saw::default(), begun);
                Ok(self.connections.redis.query(command).await?)
            }
            reply => Ok(reply?),
        }
    }

    /// Runs a script by its hash, and loads it if Redis does not have it. The step has its name in place of the hash.
    pub(crate) async fn script(
        &mut self,
        name: &'static str,
        script: &'static str,
        keys: &[&str],
        values: &[&str],
    ) -> Result<i64> {
        let begun = Instant::now();
        let script = Script::new(script);
        let mut call = script.prepare_invoke();
        for key in keys {
            call.key(*key);
        }
        for value in values {
            call.arg(*value);
        }
        let reply = self.connections.redis.invoke::<i64>(&call).await;
        let what = format!("EVALSHA {name} {} {}", keys.len(), [keys, values].concat().join(" "));
        let saw: Vec<i64> = reply.iter().copied().collect();
        self.record(Action::Redis, what.into(), &[], saw, begun);
        Ok(reply?)
    }

    /// Reads a queue in Redis, and waits for an entry as the command says. The step saw its order and user, or the reply
    /// without an entry.
    pub(crate) async fn receive(
        &mut self,
        command: &Cmd,
        entry: fn(Value) -> Result<Option<Entry>>,
    ) -> Result<Option<Entry>> {
        let begun = Instant::now();
        let reply = self.connections.redis.query::<Value>(command).await?;
        let nothing = Saw::from(&reply);
        let entry = entry(reply)?;
        match &entry {
            Some(entry) => self.got(Action::Redis, shown(command).into(), entry, begun),
            None => self.record(Action::Redis, shown(command).into(), &[], nothing, begun),
        }
        Ok(entry)
    }

    /// Subscribes to a channel, on a connection of its own.
    pub(crate) async fn subscribe(&mut self, channel: &str) -> Result<()> {
        let begun = Instant::now();
        let messages = self.process.redis.subscribe(channel).await?;
        if let Some(consumer) = &mut self.consumer {
            consumer.messages = Some(Box::new(messages));
        }
        let what = format!("SUBSCRIBE {channel}");
        self.record(Action::Redis, what.into(), &[], Saw::default(), begun);
        Ok(())
    }

    /// Waits for a message of the channel; `None` if the subscription has ended.
    pub(crate) async fn message(&mut self) -> Option<Entry> {
        let begun = Instant::now();
        let messages = self.consumer.as_mut()?.messages.as_mut()?;
        let entry = Entry::of_text(&messages.next().await?);
        self.got(Action::Redis, "message".into(), &entry, begun);
        Some(entry)
    }

    /// Puts an order into the queue in memory.
    pub(crate) fn add(&mut self, order: VoucherOrder) -> Result<()> {
        let begun = Instant::now();
        let added = self.process.order_tasks.add(order);
        self.record(Action::Queue, "orderTasks.add".into(), &[order.id], Saw::default(), begun);
        added
    }

    /// Takes an order out of the queue in memory, and waits for it.
    pub(crate) async fn take(&mut self) -> Option<VoucherOrder> {
        let begun = Instant::now();
        let order = self.process.order_tasks.take().await;
        let entry = Entry { id: String::new(), order };
        self.got(Action::Queue, "orderTasks.take".into(), &entry, begun);
        order
    }

    /// Asks the admission of the node in this process. How many buyers share a call of its script is up to the node, so
    /// the step is none of Redis.
    pub(crate) async fn admit(&mut self) -> Result<Reply> {
        let begun = Instant::now();
        let reply = match &self.process.node {
            Some(node) => node.admit(self.request.user).await,
            None => Err(LabError::Invalid(Label("lab-instance-ended").into())),
        };
        let saw = match &reply {
            Ok(Reply::Bought(order)) => vec![*order],
            _ => Vec::new(),
        };
        self.record(Action::Queue, "Admission::request".into(), &[], saw, begun);
        reply
    }

    /// The entry is the one that a consumer works on from now on.
    fn got(&mut self, action: Action, what: Cow<'static, str>, entry: &Entry, begun: Instant) {
        self.request.user = entry.order.map_or(0, |it| it.user_id);
        // No order has the ID 0: that is an entry that is none.
        let saw = entry.order.map_or([0, 0], |it| [it.id, it.user_id]);
        self.record(action, what, &[], saw.to_vec(), begun);
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
        self.record(Action::Lock, name.into(), &[], Saw::default(), begun);
        Held { guard, name }
    }

    /// Releases a lock in the memory of the process.
    pub(crate) fn unlock<G>(&mut self, held: Held<G>) {
        // Recorded first: once it is released, another request may record that it holds the lock.
        self.record(Action::Unlock, held.name.into(), &[], Saw::default(), Instant::now());
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
    /// and a write (calls, garbage collection, a slow network), and what widens a race. A holder of a lock may stall in
    /// it, and a consumer may be killed.
    pub(crate) async fn think(&mut self) {
        self.think_at(Point::BeforeWrite).await;
    }

    /// The same between the check of a lock's owner and the command that deletes the lock.
    pub(crate) async fn think_before_release(&mut self) {
        self.think_at(Point::BeforeRelease).await;
    }

    async fn think_at(&mut self, point: Point) {
        let mean = u64::from(self.process.work.think_ms) * 1_000;
        let think = Duration::from_micros(self.rng.random_range(mean * 3 / 4..=mean * 5 / 4));
        let stall = self.stall.take_if(|it| *it == point);
        let stall = stall.map(|_| self.process.work.stall(&self.process.holders, self.request));
        let begun = Instant::now();
        if let Some(consumer) = &mut self.consumer {
            consumer.pauses += 1;
            if consumer.stall == Some(consumer.pauses) {
                // If the parent has ended, so does this process.
                let _ = report(&Report::Stalled);
                return std::future::pending().await;
            }
        }
        // A stall begins before the parent gets the report: it may stop this process immediately.
        let sleeping = tokio::time::sleep(stall.unwrap_or(think));
        if stall.is_some() {
            self.report_as_holder();
            self.stall(sleeping).await;
        } else {
            sleeping.await;
        }
        let action = if stall.is_some() { Action::Stall } else { Action::Think };
        // As long as it was.
        let millis = stall.map(|_| (Instant::now().since(begun) / 1_000_000) as i64);
        let millis: Vec<i64> = millis.into_iter().collect();
        self.record(action, "".into(), &millis, Saw::default(), begun);
    }

    /// Stalls until the other request of the user is where it matters: one that has lost its lock goes on once the other
    /// one has it and stalls, while the lease of that one lasts; that one goes on once the first one has ended. One that
    /// keeps its lock stalls for the whole time.
    async fn stall(&mut self, sleeping: impl Future<Output = ()>) {
        let mut meeting = Meeting::new(&self.process.redis, self.user());
        if !self.process.holders.contains(&self.request) {
            meeting.tell(Reached::Stall).await;
            sleeping.await;
            return meeting.wait_for(Reached::End).await;
        }
        let is_told = tokio::select! {
            () = sleeping => false,
            () = meeting.until(Reached::Stall) => true,
        };
        let (lock, owner) = (self.lock_key(), self.owner());
        let had_lock = self.steps.iter().any(Step::took_lock);
        if !is_told && had_lock && !meeting.is_held(&lock, &owner).await {
            meeting.wait_for(Reached::Stall).await;
        }
        self.awaited = Some(meeting);
    }

    /// Reports what this request has done until now, if it is a holder.
    fn report_as_holder(&self) {
        let Some(holders) = &self.process.holder_report else { return };
        let (user, ended) = (self.user(), Instant::now());
        let begun = self.steps.first().map_or(ended, |it| it.begun);
        let reply = Reply::Failed(Label("lab-holder-died").into());
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
        Ok(self.save(id, self.user()).await?.then_some(id))
    }

    /// Inserts an order with this ID; returns whether a unique key accepted it.
    pub(crate) async fn save(&mut self, id: i64, user: i64) -> Result<bool> {
        self.insert(INSERT_ORDER, &[id, user, VOUCHER]).await
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
        if let Some(mut other) = self.awaited.take() {
            other.tell(Reached::End).await;
        }
        self.steps
    }

    pub(crate) fn record(
        &mut self,
        action: Action,
        what: Cow<'static, str>,
        values: &[i64],
        saw: impl Into<Saw>,
        begun: Instant,
    ) {
        let Request { number: lane, user } = self.request;
        let (instance, ended) = (self.process.instance, Instant::now());
        let (values, saw) = (values.to_vec(), saw.into());
        let step = Step { lane, user, instance, action, what, values, saw, begun, ended };
        let Some(consumer) = &mut self.consumer else { return self.steps.push(step) };
        consumer.reported += 1;
        if consumer.reported <= MAX_REPORTED {
            // If the parent has ended, so does this process.
            let _ = report(&Report::Step(step));
        }
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
