//! Scenarios of a node in a separate process: it is killed at a fault point, killed with its Redis and all other nodes, or
//! suspended until it counts as dead, or inside a transaction. Another node continues.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use redis::cmd;
use rustix::process::Signal;
use seckill_engine::{
    EngineError,
    commands::Command,
    fault_injection,
    node::{Node, heartbeat::take_name},
    orders::{payment, vouchers::Vouchers},
};
use seckill_model::{
    Fence, OrderId, SaleState, VoucherId,
    faults::{KILL_AT, Point},
};
use seckill_redis::Redis;
use sqlx::Executor as _;
use tokio_util::sync::CancellationToken;

use super::{
    buyers::{Buyers, Log, parse},
    check::at_rest,
    live::{AofSizes, OldCopy},
    plan::{Fate, Loses, Plan},
    sql_changes,
    stage::{self, ScenarioReport, until},
    support::{Background, Seckill},
    world::{Beside, NODE, World},
};

/// Environment variable that makes a process one of these: `SEED|REDIS|URL OF THE DATABASE|FIRST|LAST|NUMBER|OF`.
pub const CHILD: &str = "MATRIX_CHILD";
/// The node that takes over if it does not use the name of the dead one.
const NEXT: &str = "node-next";
const DEAD_BEFORE: &str = "node-b";
/// The second process, or the node beside the one that is suspended.
const SECOND: &str = "node-2";
/// Longer than the timeouts of a transaction with the limits of this scenario, and than a node counts as alive.
const LONGER: Duration = Duration::from_secs(6);

pub async fn run(plan: &Plan, fate: Fate) -> Result<ScenarioReport, String> {
    let (mut world, _illness) = stage::world(plan).await;
    let vouchers = stage::create(&world, plan).await;
    let log = Log::default();
    let sizes = AofSizes::watch(&world);
    before(&mut world, plan, fate, &vouchers, &log).await?;
    if let Fate::Inside { .. } = fate {
        world.store = seckill_store::open(&world.url, &plan.limits()).await.unwrap();
        sql_changes::slow(&world).await;
    }
    let count = if let Fate::WithRedis { nodes, .. } = fate { nodes } else { 1 };
    let start = |number| Child::start(&world, plan, fate, &vouchers, number, count);
    let mut children: Vec<Child> = (0..count).map(start).collect();
    let child = &mut children[0];
    let mut report = ScenarioReport { struck: true, ..ScenarioReport::default() };
    let (mut gone, next) = (HashSet::new(), next_of(plan));
    let mut successor = None;
    let mut others: Vec<(&str, Node)> = Vec::new();
    match fate {
        Fate::DiesAt(..) => {
            until("the child dies", async || child.is_done() || !child.process.is_running())
                .await?;
            report.struck = !child.process.is_running();
        }
        Fate::WithRedis { after, loses, .. } => {
            have_printed(&mut children, after).await?;
            kill_with_redis(&mut world, plan, &mut children, &sizes, loses).await?;
        }
        Fate::Inside { after } => {
            have_printed(std::slice::from_mut(child), after).await?;
            report.struck = suspend(&world, child, true).await?;
            let node = world.another_node(SECOND);
            let entrance = node.operator().admission.clone().unwrap();
            let buyers = Buyers::ask(&[entrance], 3, &vouchers, plan.lanes(2, 3), &log);
            tokio::time::sleep(LONGER).await;
            child.process.signal(Signal::CONT);
            until("it ends", async || child.is_done() || !child.process.is_running()).await?;
            buyers.done().await;
            sql_changes::slow_no_more(&world).await;
            others.push((SECOND, node));
        }
        Fate::Suspended { after } => {
            have_printed(std::slice::from_mut(child), after).await?;
            // A process suspended with locks would block all others.
            suspend(&world, child, false).await?;
            successor = Some(());
            take_over(&mut world, plan, false).await?;
            stage::settle(&world, &[next]).await?;
            until("it counts as dead", async || silent_for(&world) > 2_000).await?;
            child.process.signal(Signal::CONT);
            until("it ends", async || child.is_done() || !child.process.is_running()).await?;
        }
    }
    let outputs: Vec<String> = children.into_iter().map(Child::end).collect();
    for output in &outputs {
        log.read(output);
    }
    if let Fate::WithRedis { .. } = fate {
        // What neither Redis nor SQL holds after both were killed is lost; nothing else may be missing in the end.
        let known = stage::look(&world).await.known();
        gone = log.all().iter().map(|it| it.order).filter(|id| !known.contains(id)).collect();
        if plan.always && !gone.is_empty() {
            return Err(format!("a Redis that syncs always has lost {gone:?}"));
        }
    }
    if successor.is_none() {
        take_over(&mut world, plan, true).await?;
    }
    if count > 1 {
        let name = take_name(&mut world.servers(), SECOND, "next-2", 2_000, true).await;
        name.map_err(|error| error.to_string())?;
        others.push((SECOND, world.node_as(SECOND, "next-2")));
    }
    let entrance = stage::entrance(&world);
    Buyers::ask(&[entrance], 2, &vouchers, plan.lanes(2, 3), &log).done().await;
    let names: Vec<&str> = std::iter::once(next).chain(others.iter().map(|it| it.0)).collect();
    stage::settle(&world, &names).await?;
    stage::give_back(&world).await?;
    if gone.is_empty() {
        stage::asked_again(&world, plan, &log).await?;
    }
    stage::verdict(&world, &log, &gone).await.map_err(|error| {
        let tails: Vec<String> = outputs.iter().map(|it| tail(it)).collect();
        format!("{error}\nthe children: {tails:?}")
    })?;
    report.gone = gone.len();
    report.admitted = log.admitted();
    for (_, other) in others {
        other.stop().await;
    }
    world.stop_node().await;
    Ok(report)
}

/// Kills the children together with Redis, which restarts without what it `loses`.
async fn kill_with_redis(
    world: &mut World,
    plan: &Plan,
    children: &mut [Child],
    sizes: &AofSizes,
    loses: Loses,
) -> Result<(), String> {
    let copy = match loses {
        Loses::Since(age) => {
            let copy = OldCopy::of(world);
            tokio::time::sleep(age).await;
            Some(copy)
        }
        _ => None,
    };
    let killed = Instant::now();
    for child in children.iter() {
        child.process.signal(Signal::KILL);
    }
    world.server.kill();
    if loses == Loses::Tail {
        sizes.truncate(killed, plan.seed);
    }
    if let Some(copy) = copy {
        copy.put_back(world);
    }
    world.server.restart();
    until("they are dead", async || children.iter_mut().all(|it| !it.process.is_running())).await
}

fn tail(output: &str) -> String {
    output.lines().rev().take(4).collect::<Vec<_>>().join(" / ")
}

/// The first third of the buyers, and the state that the child needs to reach its fault point.
async fn before(
    world: &mut World,
    plan: &Plan,
    fate: Fate,
    vouchers: &[VoucherId],
    log: &Log,
) -> Result<(), String> {
    let result = |error: EngineError| error.to_string();
    world.start_node();
    let buyers = Buyers::ask(&[stage::entrance(world)], 0, vouchers, plan.lanes(0, 3), log);
    let sticks = matches!(fate, Fate::DiesAt(Point::AfterClaim | Point::AfterRebuild, _));
    if sticks {
        world.hold().await;
    }
    buyers.done().await;
    if sticks {
        fault_injection::die_with_batch(&world.redis, &world.keys, DEAD_BEFORE, 20, 600_000)
            .await
            .map_err(result)?;
        world.node().hold_consumer(false).await;
        let undelivered = async || {
            let mut redis = stage::connection(world);
            (0..plan.partitions).all(|part| {
                let key = world.keys.partition(part).orders();
                let last = super::check::last_delivered(&mut redis, &key).unwrap_or_default();
                let next: Vec<redis::Value> = cmd("XRANGE")
                    .arg(key)
                    .arg(format!("({last}"))
                    .arg("+")
                    .query(&mut redis)
                    .unwrap();
                next.is_empty()
            })
        };
        until("all others are delivered", undelivered).await?;
    } else {
        stage::settle(world, &[NODE]).await?;
    }
    world.stop_node().await;
    let mut conn = world.redis.connection();
    for of in world.keys.partitions() {
        match fate {
            Fate::DiesAt(Point::AfterRebuild, _) => {
                fault_injection::trim_pending(&mut conn, &of).await.map_err(result)?;
            }
            Fate::DiesAt(Point::BeforeBurial | Point::AfterBurial, _) => {
                fault_injection::poison(&mut conn, &of, 6).await.map_err(result)?;
            }
            _ => {}
        }
        if sticks {
            until("they were left for long enough", async || {
                let mut read = cmd("XPENDING");
                read.arg(of.orders())
                    .arg(of.group())
                    .arg("IDLE")
                    .arg(310)
                    .arg("-")
                    .arg("+")
                    .arg(1_000);
                let old: Vec<redis::Value> = read.query(&mut stage::connection(world)).unwrap();
                old.len() as u64 == at_rest(&mut stage::connection(world), of.number()).1
            })
            .await?;
        }
    }
    if let Fate::DiesAt(Point::MidReconciliation, _) = fate {
        conn.query::<()>(&cmd("FLUSHALL")).await.unwrap();
    }
    Ok(())
}

fn next_of(plan: &Plan) -> &'static str {
    if plan.same_name { NODE } else { NEXT }
}

/// A node continues where the dead one stopped, under its name or another.
async fn take_over(world: &mut World, plan: &Plan, force: bool) -> Result<(), String> {
    let name = next_of(plan);
    take_name(&mut world.servers(), name, "next", 2_000, force)
        .await
        .map_err(|error| error.to_string())?;
    world.start_node_as(name, "next");
    // A process that died between pausing and resuming left the sale paused.
    for sale in world.store.sales().await.map_err(|error| error.to_string())? {
        if sale.state == SaleState::Paused {
            let resumed = world.execute(Command::ResumeSale(sale.voucher_id)).await;
            resumed.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Milliseconds since the last heartbeat of the child.
fn silent_for(world: &World) -> i64 {
    let mut redis = stage::connection(world);
    let (seconds, micros): (i64, i64) = cmd("TIME").query(&mut redis).unwrap();
    let last: Option<f64> =
        cmd("ZSCORE").arg(world.keys.home().nodes()).arg(NODE).query(&mut redis).unwrap();
    let instance: Option<String> =
        cmd("HGET").arg(world.keys.home().instances()).arg(NODE).query(&mut redis).unwrap();
    // Its name is taken by another process.
    if instance.as_deref() == Some("next") {
        return i64::MAX;
    }
    last.map_or(i64::MAX, |last| seconds * 1_000 + micros / 1_000 - last as i64)
}

/// Suspends the child inside a transaction that has written, or outside any. Whether it was, before it ended.
async fn suspend(world: &World, child: &mut Child, inside: bool) -> Result<bool, String> {
    let mut sql = world.sql().await;
    let sqlite = world.url.starts_with("sqlite:");
    if sqlite {
        sql.execute("PRAGMA busy_timeout = 30").await.unwrap();
    }
    let writers = match (world.url.starts_with("mysql:"), inside) {
        (true, true) => {
            "SELECT COUNT(*) FROM information_schema.innodb_trx t \
             JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id \
             WHERE p.db = DATABASE() AND t.trx_rows_modified > 0"
        }
        (true, false) => {
            "SELECT COUNT(*) FROM information_schema.innodb_trx t \
             JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id WHERE p.db = DATABASE()"
        }
        (false, true) => {
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() \
             AND pid <> pg_backend_pid() AND backend_xid IS NOT NULL"
        }
        (false, false) => {
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() \
             AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
        }
    };
    let mut is_there = false;
    until("it is suspended where it should be", async || {
        if inside && (child.is_done() || !child.process.is_running()) {
            return true;
        }
        child.process.freeze();
        let free = if sqlite {
            let free = sql.execute("BEGIN IMMEDIATE").await.is_ok();
            if free {
                sql.execute("ROLLBACK").await.unwrap();
            }
            free
        } else {
            // InnoDB caches this information for 0.1 s.
            tokio::time::sleep(Duration::from_millis(150)).await;
            match sqlx::query_scalar::<_, i64>(writers).fetch_one(&mut sql).await {
                Ok(found) => found == 0,
                // MySQL cannot show a statement with binary values that runs meanwhile: as if none were there.
                Err(sqlx::Error::Database(error)) if error.message().contains("utf8mb3") => inside,
                Err(error) => panic!("{error}"),
            }
        };
        is_there = free != inside;
        if !is_there {
            child.process.signal(Signal::CONT);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        is_there
    })
    .await?;
    Ok(is_there)
}

struct Child {
    process: Background,
    _home: Seckill,
}

impl Child {
    fn start(
        world: &World,
        plan: &Plan,
        fate: Fate,
        vouchers: &[VoucherId],
        number: usize,
        of: usize,
    ) -> Self {
        let home = Seckill::new();
        let result = format!(
            "{}|{}|{}|{}|{}|{number}|{of}",
            plan.seed,
            world.server.url(),
            world.url,
            vouchers.first().unwrap(),
            vouchers.last().unwrap()
        );
        let kill_at = match fate {
            Fate::DiesAt(point, nth) => format!("{}:{nth}", point.name()),
            _ => format!("{}:1000000000", Point::AfterAck.name()),
        };
        let this = std::env::current_exe().unwrap();
        let args = crate::support::only("matrix", "a_process_of_the_matrix");
        let env = [(CHILD, result.as_str()), (KILL_AT, kill_at.as_str())];
        let process = Background::spawn(this.to_str().unwrap(), &args, &home, &env);
        Self { process, _home: home }
    }

    fn is_done(&self) -> bool {
        self.process.stdout().lines().any(|line| line == "done")
    }

    /// Kills the process if it still runs; returns its output.
    fn end(mut self) -> String {
        if self.process.is_running() {
            self.process.signal(Signal::KILL);
        }
        let ran = self.process.wait(super::support::PATIENCE);
        ran.stdout
    }
}

/// Waits until buyers of the children have received this many replies, or the children end.
async fn have_printed(children: &mut [Child], after: usize) -> Result<(), String> {
    until("the children serve buyers", async || {
        let printed = children.iter().map(|it| parse(&it.process.stdout()).len()).sum::<usize>();
        printed > after || children.iter_mut().all(|it| it.is_done() || !it.process.is_running())
    })
    .await
}

/// The work of the child process: the second third of the buyers, then everything else that an engine does.
pub async fn be_one(result: &str) {
    let parts: Vec<&str> = result.split('|').collect();
    let [seed, url, database, first, last, number, of] = parts[..] else { panic!("{result}") };
    let (number, of): (usize, usize) = (number.parse().unwrap(), of.parse().unwrap());
    let plan = Plan::of(seed.parse().unwrap());
    let all = first.parse().unwrap()..=last.parse().unwrap();
    let vouchers: Vec<VoucherId> = all.map(VoucherId).collect();
    let mut world = Beside::at(Redis::from_url(url).unwrap(), database, plan.partitions, |it| {
        plan.settings(it);
    })
    .await;
    world.store = seckill_store::open(database, &plan.limits()).await.unwrap();
    let (name, instance) = if number == 0 { (NODE, "child") } else { (SECOND, "child-2") };
    take_name(&mut world.servers(), name, instance, 2_000, true).await.unwrap();
    let node = world.start(name, instance);
    let log = Log::printed();
    let entrance = node.operator().admission.clone().unwrap();
    let lanes = plan.lanes(1, 3).into_iter().enumerate();
    let mut lanes: Vec<_> = lanes.filter(|(at, _)| at % of == number).map(|it| it.1).collect();
    let late: Vec<_> = lanes.iter_mut().map(|lane| lane.split_off(lane.len() / 2)).collect();
    Buyers::ask(std::slice::from_ref(&entrance), 10 + number, &vouchers, lanes, &log).done().await;
    // The clock steps in a process of its own, so that no other test sees it.
    fault_injection::step_clock(plan.step);
    Buyers::ask(&[entrance], 10 + number, &vouchers, late, &log).done().await;
    let rest = async || {
        let mut redis = redis::Client::open(url).unwrap().get_connection().unwrap();
        (0..plan.partitions).all(|part| at_rest(&mut redis, part).0)
    };
    // Entries of an earlier node are claimed or stay pending.
    let _ = tokio::time::timeout(Duration::from_secs(3), until("rest", rest)).await;
    let done = match number {
        0 => everything_else(&world, &node, &plan, vouchers[0], &log).await,
        _ => Ok(()),
    };
    println!("\nrest: {done:?}\ndone");
    std::future::pending::<()>().await;
}

async fn everything_else(
    world: &Beside,
    node: &Node,
    plan: &Plan,
    voucher: VoucherId,
    log: &Log,
) -> Result<(), EngineError> {
    let mut servers = world.servers();
    if plan.closes() {
        let some = log.all().into_iter().filter(|it| it.order % 2 == 0).map(|it| it.order);
        let ids: Vec<OrderId> = some.filter_map(OrderId::from_i64).collect();
        let now = servers.conn.now().await?;
        servers.store.pay(&ids, now).await?;
        let fence = Fence { name: "closing".into(), token: 1 };
        let stop = CancellationToken::new();
        payment::close_overdue(&mut servers, now.plus(1), now, &fence, &stop).await?;
    }
    Vouchers { servers: &mut servers }.create(&stage::sale(9, 1)).await?;
    let commands = [
        Command::Restock { voucher, by: 5 },
        Command::Restock { voucher, by: -3 },
        Command::PauseSale(voucher),
        Command::ResumeSale(voucher),
    ];
    for command in commands {
        node.operator().execute(command, node.stopping()).await?;
    }
    Ok(())
}
