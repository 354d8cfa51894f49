//! An instance of the shop: a process that serves its share of the requests with one design.
//!
//! It speaks with its parent in lines: it gets an [`Assignment`] and `go` on standard input, and writes [`Report`]s,
//! each after a [`MARK`], to standard output. The end of standard input ends it at once, so it never outlives its parent.

use std::{
    io::{self, BufRead as _, Write as _},
    sync::atomic::{AtomicI64, AtomicUsize, Ordering},
    time::Duration,
};

use futures::future::try_join_all;
use seckill_model::{Reason, reason};
use seckill_redis::{Layout, Redis};
use seckill_store::plain::PlainPool;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{Mutex, mpsc},
    time::timeout,
};

use crate::{
    Design, LabError, Result, designs,
    disruption::Holders,
    lane::{Connections, Lane, Process, Reply, VOUCHER},
    lock::EngineLocks,
    trace::{Action, Instant, Step},
    work::{Request, Work},
};

/// The line that starts the requests.
pub(crate) const GO: &str = "go";
/// Marks the lines for the parent: a test harness writes lines of its own.
pub(crate) const MARK: &str = "seckill-lab ";
/// Timeout of one request.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// What an instance does.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Assignment {
    pub(crate) design: String,
    pub(crate) work: Work,
    pub(crate) seed: u64,
    /// From 0.
    pub(crate) instance: u32,
    pub(crate) database: String,
    pub(crate) redis: String,
    /// Independent Redis servers, for locks over several of them.
    pub(crate) more_redis: Vec<String>,
}

/// What an instance reports.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// It is connected.
    Ready,
    /// Its requests stall or are served: what each has done until now.
    Holding(Vec<Served>),
    /// It has served its requests.
    Done(Vec<Served>),
    /// It cannot work.
    Failed(Reason),
}

/// One served request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Served {
    pub(crate) user: i64,
    pub(crate) reply: Reply,
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
    pub(crate) steps: Vec<Step>,
}

impl Served {
    /// Its position in the order of arrival, if it did anything.
    pub(crate) fn lane(&self) -> Option<u32> {
        self.steps.first().map(|it| it.lane)
    }
}

/// Runs this process as an instance, until its work is done or its parent ends.
///
/// # Errors
/// There is no parent, or the instance cannot work; the parent is told why.
pub async fn run() -> Result<()> {
    let mut lines = read_lines()?;
    let Some(first) = lines.recv().await else {
        return Err(LabError::Invalid(reason!("lab-instance-alone")));
    };
    let assignment: Assignment =
        serde_json::from_str(&first).map_err(|error| LabError::pipe(0, error))?;
    match work(&assignment, &mut lines).await {
        Ok(Some(served)) => report(&Report::Done(served)),
        // The parent has ended.
        Ok(None) => Ok(()),
        Err(error) => report(&Report::Failed(error.to_string().into())),
    }
}

/// Connects, waits for `go` and serves all requests; `None` if the parent ends first.
async fn work(
    assignment: &Assignment,
    lines: &mut mpsc::Receiver<String>,
) -> Result<Option<Vec<Served>>> {
    let Assignment { work, seed, instance, .. } = assignment;
    let design = designs::find(&assignment.design)?;
    let size = work.connections_of(*instance, *seed);
    let pool = PlainPool::open(&assignment.database, size)?;
    let redis = Redis::from_url(&assignment.redis)?;
    let mut workers = Vec::new();
    for _ in 0..size {
        let mut connections =
            Connections { sql: pool.connection().await?, redis: redis.connection() };
        // The first command opens the connection.
        connections.redis.now().await?;
        workers.push(connections);
    }
    let stock = match workers.first_mut() {
        Some(first) => {
            let sql = "SELECT stock FROM tb_seckill_voucher WHERE voucher_id = $1";
            first.sql.rows::<1>(sql, &[VOUCHER]).await?.first().map_or(0, |row| row[0])
        }
        None => 0,
    };
    let mut servers = vec![redis];
    for url in &assignment.more_redis {
        servers.push(Redis::from_url(url)?);
    }
    let victims = work.victims(*seed);
    let process = Process {
        instance: instance + 1,
        work: *work,
        seed: *seed,
        keys: Layout::default(),
        holders: (*instance == work.instances).then(|| Holders::new(victims.len())),
        victims,
        engine_locks: EngineLocks::new(servers, instance + 1, work.lease()),
        mutex: Mutex::new(()),
        strings: parking_lot::Mutex::default(),
        counter: AtomicI64::new(stock),
    };
    let requests = work.requests_of(*instance, *seed);
    report(&Report::Ready)?;
    if lines.recv().await.as_deref() != Some(GO) {
        return Ok(None);
    }
    let next = AtomicUsize::new(0);
    // The workers are parts of this future: they end with it.
    let serving = workers
        .into_iter()
        .map(|connections| serve_in_turn(design, &process, connections, &pool, &requests, &next));
    tokio::select! {
        served = try_join_all(serving) => served.map(|it| Some(it.into_iter().flatten().collect())),
        // Nothing more is sent: only the end of the parent ends the wait.
        None = lines.recv() => Ok(None),
    }
}

/// Serves requests until none is left.
async fn serve_in_turn(
    design: &Design,
    process: &Process,
    mut connections: Connections,
    pool: &PlainPool,
    requests: &[Request],
    next: &AtomicUsize,
) -> Result<Vec<Served>> {
    let mut all = Vec::new();
    while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
        let begun = Instant::now();
        let mut lane = Lane::new(process, &mut connections, *request);
        let served = timeout(REQUEST_TIMEOUT, (design.serve)(&mut lane)).await;
        let ended = Instant::now();
        let is_late = served.is_err();
        let reply = match served {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => Reply::Failed(error.to_string().into()),
            Err(_) => {
                Reply::Failed(reason!("lab-request-timeout", seconds = REQUEST_TIMEOUT.as_secs()))
            }
        };
        let steps = lane.finish().await;
        let served = Served { user: request.user, reply, begun, ended, steps };
        if let Some(holders) = &process.holders
            && served.steps.iter().all(|it| it.action != Action::Stall)
        {
            holders.add(served.clone());
        }
        all.push(served);
        if is_late {
            // Its statement was interrupted: the state of the connection is unknown.
            connections.redis.forget();
            drop(connections.sql);
            connections.sql = pool.connection().await?;
        }
    }
    Ok(all)
}

/// Reads the lines of standard input on a thread of its own, which ends with the input or the process. A reader of the
/// runtime would delay the end of the process.
fn read_lines() -> Result<mpsc::Receiver<String>> {
    let (sender, lines) = mpsc::channel(1);
    let read = move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    };
    let started = std::thread::Builder::new().name("lab-input".to_owned()).spawn(read);
    started.map(|_| lines).map_err(|error| LabError::pipe(0, error))
}

pub(crate) fn report(report: &Report) -> Result<()> {
    let line = serde_json::to_string(report).map_err(|error| LabError::pipe(0, error))?;
    let mut out = io::stdout().lock();
    let written = writeln!(out, "\n{MARK}{line}").and_then(|()| out.flush());
    written.map_err(|error| LabError::pipe(0, error))
}
