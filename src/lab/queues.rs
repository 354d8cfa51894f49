//! The table of the tutorials that compares queues, measured: each cell is the result of a probe on the servers of the
//! lab, with the commands and replies from which it follows.

use std::time::Duration;

use futures::StreamExt as _;
use redis::{Cmd, Value, cmd, pipe};
use seckill_model::{Label, Reason, in_english, text};
use seckill_redis::{Connection, Redis};
use serde::{Serialize, Serializer};
use strum::{EnumIter, IntoEnumIterator as _, IntoStaticStr};
use tokio::{
    io::AsyncWriteExt as _,
    net::UnixStream,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Database, Incident, Lab, LabError, Program, Result, Verdict, Work, consumer::BLOCK, designs,
    memory_queue::MemoryQueue, shop::Shop, trace::one_line,
};

/// The key of the probed queue.
const QUEUE: &str = "q";
/// Entries that a queue without a bound must take.
const BACKLOG: usize = 20_000;
/// Entries per round trip.
const PAGE: usize = 1_000;
/// A message that fills the buffer of a subscriber.
const MIB: usize = 1024 * 1024;
/// Most of them.
const MAX_MIB: usize = 256;
/// Timeout of a condition.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A queue of the tutorials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, EnumIter, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Queue {
    /// `ArrayBlockingQueue`, in the memory of a process.
    BlockingQueue,
    /// `LPUSH` and `BRPOP`.
    List,
    /// `PUBLISH` and `SUBSCRIBE`.
    PubSub,
    /// `XADD` and `XREAD`.
    Stream,
    /// `XADD` and `XREADGROUP`.
    Group,
}

impl Queue {
    /// All of them, in the order of the tutorials.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::iter()
    }

    /// Its name.
    pub fn title(self) -> Label {
        match self {
            Self::BlockingQueue => Label("lab-queue-blocking"),
            Self::List => Label("lab-queue-list"),
            Self::PubSub => Label("lab-queue-pubsub"),
            Self::Stream => Label("lab-queue-stream"),
            Self::Group => Label("lab-queue-group"),
        }
    }

    /// The design that hands orders over in it.
    fn design(self) -> &'static str {
        match self {
            Self::BlockingQueue => "blocking-queue",
            Self::List => "list-brpop",
            Self::PubSub => "pubsub",
            Self::Stream => "stream-read-$",
            Self::Group => "stream-group-repaired",
        }
    }
}

/// What is asked of a queue; each is better if it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, EnumIter, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Property {
    /// Entries survive a restart of where they are.
    Persistence,
    /// A reader can wait for the next entry.
    BlockingRead,
    /// Only the memory of Redis bounds the backlog.
    UnboundedBacklog,
    /// An entry that was taken stays until its consumer acknowledges it.
    Acknowledgement,
    /// Entries can be read again.
    Replay,
    /// Several consumers share the entries: each entry goes to one of them.
    SharedEntries,
    /// No order is lost when the consumer dies.
    CrashSafety,
}

impl Property {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::iter()
    }

    /// What it says.
    pub fn title(self) -> Label {
        match self {
            Self::Persistence => Label("lab-property-persistence"),
            Self::BlockingRead => Label("lab-property-blocking-read"),
            Self::UnboundedBacklog => Label("lab-property-unbounded-backlog"),
            Self::Acknowledgement => Label("lab-property-acknowledgement"),
            Self::Replay => Label("lab-property-replay"),
            Self::SharedEntries => Label("lab-property-shared-entries"),
            Self::CrashSafety => Label("lab-property-crash-safety"),
        }
    }
}

/// A step of a probe.
#[derive(Clone, Debug)]
pub enum How {
    /// A command with its reply, or a call with its result.
    Did(String),
    /// Something that happened.
    Happened(Reason),
}

impl How {
    /// As text, in the current language.
    pub fn text(&self) -> String {
        match self {
            Self::Did(what) => what.clone(),
            Self::Happened(what) => what.to_string(),
        }
    }
}

impl Serialize for How {
    /// Documents are in English.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&in_english(|| self.text()))
    }
}

/// A measured cell.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The queue.
    pub queue: Queue,
    /// The property.
    pub property: Property,
    /// Whether the queue has it.
    pub holds: bool,
    /// The figure or reply that shows it.
    pub measured: String,
    /// How it was measured.
    pub how: Vec<How>,
}

impl Cell {
    /// The result, in the current language.
    pub fn text(&self) -> String {
        let holds = if self.holds { Label("lab-queues-yes") } else { Label("lab-queues-no") };
        format!("{holds} ({})", self.measured)
    }
}

/// The table.
#[derive(Clone, Debug, Serialize)]
pub struct Queues {
    /// One cell for each property and queue.
    pub cells: Vec<Cell>,
}

impl Queues {
    /// Measures all cells on servers that are removed afterwards. `program` runs the instances of the crashes.
    ///
    /// # Errors
    /// A server or an instance failed, or `stop` was cancelled.
    pub async fn measure(program: &Program, stop: &CancellationToken) -> Result<Self> {
        let mut shop = Shop::open(Database::Sqlite, stop).await?;
        let measured = Self::measure_in(&mut shop, program, stop).await;
        shop.close().await?;
        measured
    }

    async fn measure_in(
        shop: &mut Shop,
        program: &Program,
        stop: &CancellationToken,
    ) -> Result<Self> {
        let mut cells = Vec::new();
        for property in Property::all() {
            for queue in Queue::all() {
                let crash = match (property, queue) {
                    // In a run, `$` skips almost all entries, and the consumer has none when it dies.
                    (Property::CrashSafety, Queue::Stream) => None,
                    (Property::CrashSafety, _) => Some(Incident::ConsumerDies),
                    (Property::Persistence, Queue::BlockingQueue) => Some(Incident::Restart),
                    _ => None,
                };
                let Found { holds, measured, how } = if let Some(incident) = crash {
                    lose(shop, program, queue, incident, stop).await?
                } else {
                    let mut probe = Probe::open(shop).await?;
                    let probing = Box::pin(probe.look(property, queue, shop));
                    let (holds, measured) = tokio::select! {
                        found = probing => found?,
                        () = stop.cancelled() => return Err(LabError::Cancelled),
                    };
                    Found { holds, measured, how: probe.how }
                };
                cells.push(Cell { queue, property, holds, measured, how });
            }
        }
        Ok(Self { cells })
    }

    /// The cells of a property, in the order of the queues.
    pub fn row(&self, property: Property) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |it| it.property == property)
    }

    /// As Markdown, in the current language.
    pub fn markdown(&self) -> String {
        let mut page = format!("# {}\n\n| ", Label("lab-queues-title"));
        for queue in Queue::all() {
            page.push_str(&format!("| {} ", queue.title()));
        }
        page.push_str(&format!("|\n|{}\n", " --- |".repeat(1 + Queue::all().count())));
        for property in Property::all() {
            page.push_str(&format!("| {} ", property.title()));
            for cell in self.row(property) {
                page.push_str(&format!("| {} ", cell.text()));
            }
            page.push_str("|\n");
        }
        page.push_str(&format!("\n## {}\n", Label("lab-queues-how")));
        for cell in &self.cells {
            let title = format!("{}, {}", cell.property.title(), cell.queue.title());
            page.push_str(&format!("\n### {title}\n\n"));
            for step in &cell.how {
                page.push_str(&format!("- `{}`\n", step.text()));
            }
        }
        page
    }
}

struct Found {
    holds: bool,
    measured: String,
    how: Vec<How>,
}

/// Sells with the design of a queue while an incident happens, and counts the lost orders.
async fn lose(
    shop: &mut Shop,
    program: &Program,
    queue: Queue,
    incident: Incident,
    stop: &CancellationToken,
) -> Result<Found> {
    let design = designs::find(queue.design())?;
    let work = Work { incidents: [incident].into(), ..Work::default() };
    let lab = Lab {
        designs: vec![design],
        databases: vec![Database::Sqlite],
        work: work.clone(),
        seeds: vec![1],
        program: program.clone(),
    };
    let ran = lab.serve(shop, design, &work, 1, stop).await?;
    let mut sql = shop.sql().await?;
    let verdict = Verdict::count(&mut sql, design, &work, &ran.served).await?;
    let measured = text!("lab-queues-lost", lost = verdict.lost, orders = verdict.replied_bought);
    let name: &str = incident.into();
    let how = vec![
        How::Did(format!("seckill lab {} --incidents {name}", design.name)),
        How::Happened(incident.title().into()),
    ];
    Ok(Found { holds: verdict.lost == 0, measured, how })
}

type Answer = Result<(bool, String)>;

/// Commands to an empty Redis, with what they replied.
struct Probe {
    redis: Redis,
    one: Connection,
    two: Connection,
    how: Vec<How>,
}

impl Probe {
    async fn open(shop: &Shop) -> Result<Self> {
        let redis = Redis::from_url(&shop.redis_url())?;
        let (one, two) = (redis.blocking_connection(BLOCK), redis.blocking_connection(BLOCK));
        let mut probe = Self { redis, one, two, how: Vec::new() };
        probe.one.query::<Value>(&cmd("FLUSHALL")).await?;
        Ok(probe)
    }

    async fn look(&mut self, property: Property, queue: Queue, shop: &mut Shop) -> Answer {
        if queue == Queue::BlockingQueue {
            return self.look_in_memory(property).await;
        }
        if queue == Queue::Group {
            self.send("XGROUP CREATE q g 0 MKSTREAM").await?;
        }
        match property {
            Property::Persistence => self.persistence(queue, shop).await,
            Property::BlockingRead => self.blocking_read(queue).await,
            Property::UnboundedBacklog if queue == Queue::PubSub => self.buffer(shop).await,
            Property::UnboundedBacklog => self.backlog(queue).await,
            Property::Acknowledgement => self.acknowledgement(queue).await,
            Property::Replay => self.replay(queue).await,
            Property::SharedEntries => self.shared_entries(queue).await,
            Property::CrashSafety => self.crash_safety(queue).await,
        }
    }

    /// Sends a command, whose words have no spaces.
    async fn send(&mut self, line: &str) -> Result<Value> {
        let reply = self.one.query(&command(line)).await?;
        self.did(line, &reply);
        Ok(reply)
    }

    /// Sends a command on the connection of a second client.
    async fn send_as_second(&mut self, line: &str) -> Result<Value> {
        let reply = self.two.query(&command(line)).await?;
        self.did(&text!("lab-queues-second", command = line), &reply);
        Ok(reply)
    }

    fn did(&mut self, line: &str, reply: &Value) {
        self.how.push(How::Did(format!("{line} → {}", one_line(reply))));
    }

    /// Puts an entry into the queue.
    async fn put(&mut self, queue: Queue, entry: u32) -> Result<Value> {
        self.send(&put(queue, entry)).await
    }

    async fn persistence(&mut self, queue: Queue, shop: &mut Shop) -> Answer {
        for entry in 1..=3 {
            self.put(queue, entry).await?;
        }
        if queue == Queue::Group {
            // One of the three is pending.
            self.send("XREADGROUP GROUP g a COUNT 1 STREAMS q >").await?;
        }
        shop.restart_redis().await?;
        self.one.forget();
        self.how.push(How::Happened(Label("lab-queues-restart").into()));
        let count = match queue {
            Queue::List => self.send("LLEN q").await?,
            Queue::PubSub => self.send("EXISTS q").await?,
            _ => self.send("XLEN q").await?,
        };
        let mut holds = count == Value::Int(3);
        if queue == Queue::Group {
            let pending = self.send("XPENDING q g - + 3").await?;
            holds &= matches!(pending, Value::Array(list) if list.len() == 1);
        }
        Ok((holds, format!("{} / 3", one_line(&count))))
    }

    async fn blocking_read(&mut self, queue: Queue) -> Answer {
        if queue == Queue::PubSub {
            let mut messages = self.redis.subscribe(QUEUE).await?;
            self.how.push(How::Did(format!("SUBSCRIBE {QUEUE}")));
            self.put(queue, 1).await?;
            let message = timeout(PATIENCE, messages.next()).await.ok().flatten();
            let message = message.unwrap_or_default();
            self.how.push(How::Did(format!("message → {message}")));
            return Ok((message == "1", message));
        }
        let read = match queue {
            Queue::List => "BRPOP q 2",
            Queue::Stream => "XREAD COUNT 1 BLOCK 2000 STREAMS q $",
            _ => "XREADGROUP GROUP g a COUNT 1 BLOCK 2000 STREAMS q >",
        };
        let read_command = command(read);
        let put_line = put(queue, 1);
        let (one, two) = (&mut self.one, &mut self.two);
        let putting = async {
            // The server says that the reader waits.
            loop {
                let clients: String = one.query(cmd("INFO").arg("clients")).await?;
                if clients.lines().any(|it| it == "blocked_clients:1") {
                    return Ok(one.query::<Value>(&command(&put_line)).await?);
                }
                sleep(POLL_INTERVAL).await;
            }
        };
        let putting = async {
            timeout(PATIENCE, putting)
                .await
                .unwrap_or_else(|_| Err(LabError::Invalid(Label("lab-queues-no-reader").into())))
        };
        let reading = async { Ok::<_, LabError>(two.query::<Value>(&read_command).await?) };
        let (got, added) = tokio::try_join!(reading, putting)?;
        self.how.push(How::Did("INFO clients → blocked_clients:1".to_owned()));
        self.did(&put_line, &added);
        self.did(read, &got);
        Ok((got != Value::Nil, content(&got)))
    }

    /// A reader ends after it got an entry; the next reader reads as the first one did.
    async fn crash_safety(&mut self, queue: Queue) -> Answer {
        self.blocking_read(queue).await?;
        self.two.forget();
        self.how.push(How::Happened(Incident::ConsumerDies.title().into()));
        let again = self.send_as_second("XREAD COUNT 1 BLOCK 100 STREAMS q $").await?;
        let lost = u32::from(again == Value::Nil);
        Ok((lost == 0, text!("lab-queues-lost", lost, orders = 1_u32)))
    }

    async fn backlog(&mut self, queue: Queue) -> Answer {
        for first in (0..BACKLOG).step_by(PAGE) {
            let mut page = pipe();
            for entry in first..first + PAGE {
                page.add_command(command(&put(queue, entry as u32))).ignore();
            }
            self.one.pipe::<()>(&page).await?;
        }
        self.how.push(How::Did(format!("{BACKLOG} × {}", put(queue, 0))));
        let length = self.send(if queue == Queue::List { "LLEN q" } else { "XLEN q" }).await?;
        let memory = self.send("CONFIG GET maxmemory").await?;
        let holds = length == Value::Int(BACKLOG as i64) && one_line(&memory).ends_with(" 0]");
        Ok((holds, format!("≥ {}", one_line(&length))))
    }

    /// Fills the buffer of a subscriber that does not read, until Redis disconnects it.
    async fn buffer(&mut self, shop: &mut Shop) -> Answer {
        let mut slow =
            UnixStream::connect(shop.socket()).await.map_err(|it| LabError::pipe(0, it))?;
        let subscribe = format!("SUBSCRIBE {QUEUE}\r\n");
        slow.write_all(subscribe.as_bytes()).await.map_err(|error| LabError::pipe(0, error))?;
        self.send("CONFIG GET client-output-buffer-limit").await?;
        let subscribing = async {
            while one_line(&self.one.query(&command("PUBSUB NUMSUB q")).await?) != "[q 1]" {
                sleep(POLL_INTERVAL).await;
            }
            Ok::<_, LabError>(())
        };
        let late = || LabError::Invalid(Label("lab-queues-no-reader").into());
        timeout(PATIENCE, subscribing).await.map_err(|_| late())??;
        let message = vec![b'x'; MIB];
        let mut sent = 0;
        while sent < MAX_MIB {
            let publish = cmd("PUBLISH").arg(QUEUE).arg(message.as_slice()).take();
            if self.one.query::<u32>(&publish).await? == 0 {
                break;
            }
            sent += 1;
        }
        self.how.push(How::Did(format!("{sent} × PUBLISH {QUEUE} (1 MiB) → 1")));
        self.how.push(How::Did(format!("PUBLISH {QUEUE} (1 MiB) → {}", u8::from(sent == MAX_MIB))));
        Ok((sent == MAX_MIB, format!("{sent} MiB")))
    }

    async fn acknowledgement(&mut self, queue: Queue) -> Answer {
        let before = self.put(queue, 1).await?;
        match queue {
            Queue::List => {
                self.send("RPOP q").await?;
                let left = self.send("LLEN q").await?;
                Ok((left != Value::Int(0), one_line(&left)))
            }
            // The reply is the number of subscribers; nothing is kept that could be acknowledged.
            Queue::PubSub => {
                let kept = self.send("EXISTS q").await?;
                Ok((kept != Value::Int(0), one_line(&kept)))
            }
            Queue::Stream => {
                self.send("XREAD COUNT 1 STREAMS q 0").await?;
                let done = self.send(&format!("XACK q g {}", one_line(&before))).await?;
                Ok((done == Value::Int(1), one_line(&done)))
            }
            _ => {
                self.send("XREADGROUP GROUP g a COUNT 1 STREAMS q >").await?;
                let pending = self.send("XPENDING q g - + 1").await?;
                let done = self.send(&format!("XACK q g {}", one_line(&before))).await?;
                let rest = self.send("XPENDING q g - + 1").await?;
                let counts =
                    [&pending, &rest].map(|it| matches!(it, Value::Array(list) if list.len() == 1));
                Ok((counts == [true, false] && done == Value::Int(1), one_line(&done)))
            }
        }
    }

    async fn replay(&mut self, queue: Queue) -> Answer {
        self.put(queue, 1).await?;
        let again = match queue {
            Queue::List => {
                self.send("RPOP q").await?;
                self.send("RPOP q").await?
            }
            Queue::PubSub => {
                // Who subscribes later gets the next message, not this one.
                let mut messages = self.redis.subscribe(QUEUE).await?;
                self.how.push(How::Did(format!("SUBSCRIBE {QUEUE}")));
                self.put(queue, 2).await?;
                let message = timeout(PATIENCE, messages.next()).await.ok().flatten();
                let message = message.unwrap_or_default();
                self.how.push(How::Did(format!("message → {message}")));
                return Ok((message == "1", message));
            }
            Queue::Stream => {
                self.send("XREAD COUNT 1 STREAMS q 0").await?;
                self.send("XREAD COUNT 1 STREAMS q 0").await?
            }
            _ => {
                let first = self.send("XREADGROUP GROUP g a COUNT 1 STREAMS q >").await?;
                self.send("XGROUP SETID q g 0").await?;
                let again = self.send("XREADGROUP GROUP g a COUNT 1 STREAMS q >").await?;
                return Ok((again == first, content(&again)));
            }
        };
        Ok((again != Value::Nil, content(&again)))
    }

    async fn shared_entries(&mut self, queue: Queue) -> Answer {
        let read = match queue {
            Queue::PubSub => {
                let mut first = self.redis.subscribe(QUEUE).await?;
                let mut second = self.redis.subscribe(QUEUE).await?;
                self.how.push(How::Did(format!("2 × SUBSCRIBE {QUEUE}")));
                self.put(queue, 1).await?;
                let both = async { (first.next().await, second.next().await) };
                let (first, second) = timeout(PATIENCE, both).await.unwrap_or_default();
                let got = [first, second].map(Option::unwrap_or_default);
                self.how.push(How::Did(format!("messages → {}", got.join(", "))));
                return Ok((got[0] != got[1], got.join(", ")));
            }
            Queue::List => ["BRPOP q 2", "BRPOP q 2"],
            Queue::Stream => ["XREAD COUNT 1 STREAMS q 0", "XREAD COUNT 1 STREAMS q 0"],
            _ => [
                "XREADGROUP GROUP g a COUNT 1 STREAMS q >",
                "XREADGROUP GROUP g b COUNT 1 STREAMS q >",
            ],
        };
        self.put(queue, 1).await?;
        self.put(queue, 2).await?;
        let first = self.send(read[0]).await?;
        let second = self.send_as_second(read[1]).await?;
        Ok((first != second, format!("{}, {}", content(&first), content(&second))))
    }

    /// The queue in the memory of this process.
    async fn look_in_memory(&mut self, property: Property) -> Answer {
        let queue = MemoryQueue::new();
        match property {
            Property::BlockingRead => {
                let mut taking = Box::pin(queue.take());
                let waits = futures::poll!(&mut taking).is_pending();
                queue.add(1)?;
                let taken = taking.await;
                self.call("take() → …");
                self.call("add(1)");
                self.call(&format!("take() → {}", taken.unwrap_or_default()));
                Ok((waits && taken == Some(1), "1".to_owned()))
            }
            Property::UnboundedBacklog => {
                let mut count = 0_u32;
                while queue.add(count).is_ok() {
                    count += 1;
                }
                self.call(&format!("{count} × add(…)"));
                self.call(&format!(
                    "add(…) → {}",
                    in_english(|| Label("lab-queue-full").to_string())
                ));
                Ok((false, count.to_string()))
            }
            Property::SharedEntries => {
                queue.add(1)?;
                queue.add(2)?;
                let (first, second) = tokio::join!(queue.take(), queue.take());
                let got = [first, second].map(Option::unwrap_or_default);
                self.call(&format!("take(), take() → {}, {}", got[0], got[1]));
                Ok((got[0] != got[1], format!("{}, {}", got[0], got[1])))
            }
            // After it was taken, the entry is not in the queue: there is nothing to acknowledge or to read again.
            _ => {
                queue.add(1)?;
                let taken = queue.take().await.unwrap_or_default();
                let mut again = Box::pin(queue.take());
                let is_empty = futures::poll!(&mut again).is_pending();
                self.call("add(1)");
                self.call(&format!("take() → {taken}"));
                self.call(if is_empty { "take() → …" } else { "take() → 1" });
                Ok((!is_empty, "0".to_owned()))
            }
        }
    }

    fn call(&mut self, what: &str) {
        self.how.push(How::Did(what.to_owned()));
    }
}

fn command(line: &str) -> Cmd {
    let mut words = line.split(' ');
    let mut command = cmd(words.next().unwrap_or_default());
    command.arg(words.collect::<Vec<_>>());
    command
}

fn put(queue: Queue, entry: u32) -> String {
    match queue {
        Queue::PubSub => format!("PUBLISH {QUEUE} {entry}"),
        Queue::Stream | Queue::Group => format!("XADD {QUEUE} * n {entry}"),
        _ => format!("LPUSH {QUEUE} {entry}"),
    }
}

/// What is in the last entry of a reply.
fn content(reply: &Value) -> String {
    match reply {
        Value::Array(list) => list.last().map_or_else(String::new, content),
        other => one_line(other),
    }
}
