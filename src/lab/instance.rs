//! An instance of the shop: a process that serves its share of the requests with one design; or those of the holders of
//! locks; or the consumer of a design, if it is a process of its own.
//!
//! It reads what its parent says on standard input, and reports on standard output. The end of standard input ends it at
//! once, so it never outlives its parent.

use std::{
    io::{self, BufRead as _},
    sync::atomic::{AtomicI64, AtomicU32, AtomicUsize, Ordering},
};

use futures::future::try_join_all;
use seckill_model::reason;
use seckill_redis::{Connection, Layout, Redis};
use seckill_store::plain::PlainPool;
use tokio::{
    sync::{Mutex, mpsc},
    time::timeout,
};

use crate::{
    Design, LabError, Result,
    consumer::{BLOCK, Consumer},
    designs,
    engine_locks::EngineLocks,
    engine_node::EngineNode,
    lane::{Connections, Lane, Process},
    memory_queue::MemoryQueue,
    parent::{Assignment, GO, REQUEST_TIMEOUT, Reply, Report, Role, Served, report},
    stalls::HolderReport,
    trace::{Action, Instant},
    work::{Incident, Request, VOUCHER},
};

/// Runs this process as an instance, until its work is done or its parent ends.
///
/// # Errors
/// There is no parent, or the instance cannot work; the parent gets the reason.
pub async fn run() -> Result<()> {
    let mut lines = read_lines()?;
    let Some(first) = lines.recv().await else {
        return Err(LabError::Invalid(reason!("lab-instance-alone")));
    };
    let assignment: Assignment =
        serde_json::from_str(&first).map_err(|error| LabError::pipe(0, error))?;
    match work(&assignment, &mut lines).await {
        // The parent has ended, or no longer needs this process.
        Ok(()) => Ok(()),
        Err(error) => report(&Report::Failed(error.to_string().into())),
    }
}

/// Connects, waits for `go`, and works until the parent ends or no longer needs this process.
async fn work(assignment: &Assignment, lines: &mut mpsc::Receiver<String>) -> Result<()> {
    let Assignment { work, seed, instance, role, .. } = assignment;
    let design = designs::find(&assignment.design)?;
    let holders = work.holders(*seed);
    let size = match role {
        Role::Serve(_) | Role::Resume => work.connections_of(*instance),
        Role::Hold => holders.len() as u32,
        Role::Consume(_) => 0,
    };
    // One more for the consumer, if it is a task.
    let pool = PlainPool::open(&assignment.database, size + 1)?;
    let redis = Redis::from_url(&assignment.redis)?;
    let mut workers = Vec::new();
    for _ in 0..size {
        workers.push(connect(&pool, redis.connection()).await?);
    }
    let mut consumer = connect(&pool, redis.blocking_connection(BLOCK)).await?;
    let sql = "SELECT stock FROM tb_seckill_voucher WHERE voucher_id = $1";
    let stock = consumer.sql.rows::<1>(sql, &[VOUCHER]).await?.first().map_or(0, |row| row[0]);
    let node = match design.consumer {
        Some(Consumer::Engine) if !matches!(role, Role::Consume(_)) => {
            Some(EngineNode::start(&assignment.database, &redis, instance + 1, false).await?)
        }
        _ => None,
    };
    let mut servers = vec![redis.clone()];
    for url in &assignment.more_redis {
        servers.push(Redis::from_url(url)?);
    }
    let process = Process {
        instance: instance + 1,
        work: work.clone(),
        seed: *seed,
        keys: Layout::default(),
        holder_report: (*role == Role::Hold).then(|| HolderReport::new(holders.len())),
        holders,
        engine_locks: EngineLocks::new(servers, instance + 1, work.lease()),
        mutex: Mutex::new(()),
        strings: parking_lot::Mutex::default(),
        counter: AtomicI64::new(stock),
        order_tasks: MemoryQueue::new(),
        redis,
        node,
    };
    report(&Report::Ready)?;
    if lines.recv().await.as_deref() != Some(GO) {
        return Ok(());
    }
    let consuming = consume(design, assignment, &process, &mut consumer);
    let serving = async {
        let (requests, report_at) = match *role {
            Role::Serve(report_at) => (work.requests_of(*instance, *seed), report_at),
            Role::Hold => (process.holders.clone(), None),
            Role::Resume | Role::Consume(_) => return std::future::pending().await,
        };
        let served = serve_all(design, &process, workers, &pool, &requests, report_at).await?;
        report(&Report::Done(served))?;
        std::future::pending::<Result<()>>().await
    };
    // The consumer and the workers are parts of this future: they end with it.
    tokio::select! {
        failed = consuming => failed,
        failed = serving => failed,
        // Nothing more is sent: only the end of the parent ends the wait.
        None = lines.recv() => Ok(()),
    }
}

async fn connect(pool: &PlainPool, redis: Connection) -> Result<Connections> {
    let mut connections = Connections { sql: pool.connection().await?, redis };
    // The first command opens the connection.
    connections.redis.now().await?;
    Ok(connections)
}

/// Consumes, if this is the place where the design does it. Ends only with an error.
async fn consume(
    design: &Design,
    assignment: &Assignment,
    process: &Process,
    connections: &mut Connections,
) -> Result<()> {
    let Assignment { database, instance, role, .. } = assignment;
    let stall = if let Role::Consume(stall) = *role { stall } else { None };
    let mut lane = Lane::of_consumer(process, connections, stall);
    match (design.consumer, role) {
        (Some(Consumer::Task(run)), Role::Serve(_) | Role::Resume) => return run(&mut lane).await,
        (Some(Consumer::Process { start, run, .. }), Role::Consume(_)) => {
            start(&mut lane).await?;
            report(&Report::Listening)?;
            return run(&mut lane).await;
        }
        (Some(Consumer::Engine), Role::Consume(_)) => {
            // The node does it.
            let _node = EngineNode::start(database, &process.redis, instance + 1, true).await?;
            report(&Report::Listening)?;
            std::future::pending().await
        }
        _ => std::future::pending().await,
    }
}

/// Serves all requests of a process.
async fn serve_all(
    design: &Design,
    process: &Process,
    workers: Vec<Connections>,
    pool: &PlainPool,
    requests: &[Request],
    report_at: Option<u32>,
) -> Result<Vec<Served>> {
    let (next, sold) = (AtomicUsize::new(0), AtomicU32::new(0));
    let turn = Turn { requests, next: &next, sold: &sold, report_at };
    let serving = workers
        .into_iter()
        .map(|connections| serve_in_turn(design, process, connections, pool, turn));
    Ok(try_join_all(serving).await?.into_iter().flatten().collect())
}

/// The requests of a process, which its workers take in turn.
#[derive(Clone, Copy)]
struct Turn<'a> {
    requests: &'a [Request],
    next: &'a AtomicUsize,
    sold: &'a AtomicU32,
    /// Sold pieces at which the parent gets a report.
    report_at: Option<u32>,
}

/// Serves requests until none is left.
async fn serve_in_turn(
    design: &Design,
    process: &Process,
    mut connections: Connections,
    pool: &PlainPool,
    turn: Turn<'_>,
) -> Result<Vec<Served>> {
    let mut all = Vec::new();
    while let Some(request) = turn.requests.get(turn.next.fetch_add(1, Ordering::Relaxed)) {
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
        let has_sold = matches!(reply, Reply::Bought(_));
        let served = Served { user: request.user, reply, begun, ended, steps };
        if let Some(holders) = &process.holder_report
            && served.steps.iter().all(|it| it.action != Action::Stall)
        {
            holders.add(served.clone());
        }
        all.push(served);
        if has_sold && Some(turn.sold.fetch_add(1, Ordering::Relaxed) + 1) == turn.report_at {
            report(&Report::Selling)?;
            put_poison(design, process, &mut connections.redis).await?;
        }
        if is_late {
            // Its statement was interrupted: the state of the connection is unknown.
            connections.redis.forget();
            drop(connections.sql);
            connections.sql = pool.connection().await?;
        }
    }
    Ok(all)
}

/// Puts an entry into the queue that is not an order, if that is to happen.
async fn put_poison(design: &Design, process: &Process, redis: &mut Connection) -> Result<()> {
    let happens = process.work.incidents.contains(&Incident::Poison) && process.instance == 1;
    match design.consumer.and_then(|it| it.poison(&process.keys)) {
        Some(poison) if happens => Ok(redis.query::<redis::Value>(&poison).await.map(drop)?),
        _ => Ok(()),
    }
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
