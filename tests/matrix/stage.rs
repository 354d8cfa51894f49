//! Shared by all scenarios: servers, sales, settling, and the final checks.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use redis::cmd;
use seckill_engine::{
    EngineError,
    admission::Admission,
    commands::{Command, Scope},
    ledger,
    orders::{payment, vouchers::Vouchers},
    recovery::{
        dead_letters::{LETTER_FIELDS, LetterScope},
        repair,
    },
};
use seckill_model::{
    EntryId, Fence, Millis, NewSale, OrderId, ShardId, VoucherId, filter::Filter, ledger::Finding,
};
use seckill_store::fault_injection::Illness;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{
    buyers::Log,
    check::{Seen, at_rest, letters},
    plan::Plan,
    support::TestRedis,
    world::{Database, World},
};

/// Longest wait for a condition, on a shared machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// The result of one scenario.
#[derive(Debug, Default)]
pub struct ScenarioReport {
    /// Whether the planned fault occurred.
    pub struck: bool,
    /// Order IDs that buyers received and that are lost for good.
    pub gone: usize,
    /// Buyers that received an order ID.
    pub admitted: usize,
}

/// `DATABASE=mariadb`, `mysql` or `postgres` selects the database.
fn database() -> Database {
    match std::env::var("DATABASE").as_deref() {
        Ok("mariadb" | "mysql") => Database::MariaDb,
        Ok("postgres") => Database::Postgres,
        Ok(other) => panic!("DATABASE={other}"),
        Err(_) => Database::Sqlite,
    }
}

pub async fn world(plan: &Plan) -> (World, Illness) {
    let fsync = if plan.always { "always" } else { "everysec" };
    let server = TestRedis::setup().args(&["--appendfsync", fsync]).start();
    World::shaky(server, database(), plan.partitions, plan.seed, |it| plan.settings(it)).await
}

pub fn sale(stock: u64, limit: u8) -> NewSale {
    let sale = NewSale::checked("hot pot", stock, None, None, Millis::now()).unwrap();
    NewSale { limit, ..sale }
}

pub async fn create(world: &World, plan: &Plan) -> Vec<VoucherId> {
    let mut made = Vec::new();
    for stock in &plan.stock {
        let new = NewSale { shards: plan.shards, ..sale(*stock, plan.limit) };
        let made_now = Vouchers { servers: &mut world.servers() }.create(&new).await;
        made.push(made_now.unwrap().voucher_id);
    }
    made
}

pub fn entrance(world: &World) -> Admission {
    world.node().operator().admission.clone().unwrap()
}

/// Waits for a condition; an error if it is not met in time.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) -> Result<(), String> {
    let end = Instant::now() + PATIENCE;
    while !holds().await {
        if Instant::now() > end {
            return Err(format!("waited in vain: {what}"));
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    Ok(())
}

/// Waits until the nodes have reconciled this Redis, and no entry is undelivered or pending. Orphaned entries
/// are replayed, as by an operator.
pub async fn settle(world: &World, nodes: &[&str]) -> Result<(), String> {
    until("Redis is whole", async || nodes.iter().all(|node| is_reconciled_by(world, node)))
        .await?;
    until("no key is damaged, and no cut is under way", async || is_reconciled(world).await)
        .await?;
    let mut redis = connection(world);
    let mut replay = Instant::now() + Duration::from_millis(300);
    let mut last = String::new();
    let all = until("every entry has settled", async || {
        let states: Vec<(bool, u64)> =
            (0..world.keys.count()).map(|part| at_rest(&mut redis, part)).collect();
        if states.iter().all(|it| it.0) {
            return true;
        }
        last = format!("{states:?}");
        if states.iter().any(|it| it.1 > 0) && Instant::now() > replay {
            // It waits for an unreachable database without a limit.
            let replaying = world.try_replay(Scope::All(Filter::default()));
            let replayed = tokio::time::timeout(PATIENCE, replaying).await;
            last = format!("{last}, replayed: {replayed:?}");
            replay = Instant::now() + Duration::from_millis(300);
        }
        false
    });
    all.await.map_err(|error| format!("{error}: {last}"))
}

/// No timeout here, which would turn each signal into an error; the scenario has one.
pub fn connection(world: &World) -> redis::Connection {
    let redis = world.server.connection();
    redis.set_read_timeout(None).unwrap();
    redis
}

/// What SQL and Redis contain now.
pub async fn look(world: &World) -> Seen {
    let mut sql = world.sql().await;
    Seen::read(&mut connection(world), world.keys.count(), &mut sql).await
}

/// A node checks all keys once a second and waits for the lease of a reduction whose process has died.
pub async fn is_reconciled(world: &World) -> bool {
    let mut redis = connection(world);
    for of in world.keys.partitions() {
        for (key, wanted) in [(of.orders(), "stream"), (of.dead(), "stream")] {
            let found: String = cmd("TYPE").arg(key).query(&mut redis).unwrap();
            if found != wanted && found != "none" {
                return false;
            }
        }
        let sales: Vec<String> =
            cmd("KEYS").arg(of.orders().replace(":orders", ":sale:*")).query(&mut redis).unwrap();
        // A key of another type was renamed.
        for sale in sales.into_iter().filter(|key| !key.ends_with(":replaced")) {
            let tally: String =
                cmd("TYPE").arg(sale.replace(":sale:", ":tally:")).query(&mut redis).unwrap();
            let under_way = ["cutting", "restoring"].iter().any(|field| {
                cmd("HEXISTS").arg(&sale).arg(field).query(&mut redis).unwrap_or(true)
            });
            if under_way || !["hash", "none"].contains(&tally.as_str()) {
                return false;
            }
        }
        let mut watermark = cmd("HGET");
        let counted: Result<Option<u64>, _> =
            watermark.arg(of.watermark()).arg("orders").query(&mut redis);
        if counted.is_err() {
            return false;
        }
    }
    let audit = ledger::audit(&mut world.servers(), None).await;
    audit.is_ok_and(|audit| {
        !audit
            .findings()
            .any(|it| matches!(it.what, Finding::Damaged(_) | Finding::RedisStock { .. }))
    })
}

/// An idle node notices a loss in Redis within a second.
fn is_reconciled_by(world: &World, node: &str) -> bool {
    let mut redis = connection(world);
    let result: String = cmd("INFO").arg("server").query(&mut redis).unwrap();
    let run = result.lines().find_map(|line| line.strip_prefix("run_id:"));
    world.keys.partitions().all(|of| {
        let reconciled: Option<String> =
            cmd("HGET").arg(of.reconciled()).arg(node).query(&mut redis).unwrap_or_default();
        reconciled.as_deref() == run.map(str::trim)
    })
}

/// Closes unpaid orders and pays some of them while buyers order. Its tokens increase; a lower one is refused.
pub fn close_and_pay(world: &World, log: &Log, stop: CancellationToken) -> JoinHandle<()> {
    let (mut servers, log) = (world.servers(), log.clone());
    tokio::spawn(async move {
        let mut token = 0;
        while !stop.is_cancelled() {
            token += 1;
            let some = log.all().into_iter().filter(|it| it.order % 3 == 0).map(|it| it.order);
            let ids: Vec<OrderId> = some.filter_map(OrderId::from_i64).collect();
            let work = async {
                let now = servers.conn.now().await?;
                servers.store.pay(&ids, now).await?;
                let fence = Fence { name: "closing".into(), token };
                let old = now.plus(-100);
                payment::close_overdue(&mut servers, old, now, &fence, &stop).await?;
                Ok::<_, EngineError>(())
            };
            // Servers are unreachable at times; the next round retries.
            let _ = work.await;
            tokio::time::sleep(Duration::from_millis(80)).await;
        }
    })
}

/// Completes the give-backs of an interrupted closing.
pub async fn give_back(world: &World) -> Result<(), String> {
    payment::return_outstanding(&mut world.servers())
        .await
        .map(drop)
        .map_err(|error| format!("giving back: {error}"))
}

/// Replays the dead letters of buyers, as an operator does once their cause is gone; none of their orders may stay one.
pub async fn replay_letters(world: &World, nodes: &[&str], log: &Log) -> Result<(), String> {
    let scope = || LetterScope::Matching {
        filter: Filter::parse("", LETTER_FIELDS).unwrap(),
        last: EntryId::MAX,
    };
    let replay = Command::ReplayLetters { scope: scope(), force: true };
    world.execute(replay).await.map_err(|error| format!("replay of dead letters: {error}"))?;
    settle(world, nodes).await?;
    let seen = look(world).await;
    let dead: Vec<i64> =
        log.all().iter().map(|it| it.order).filter(|it| seen.is_dead(*it)).collect();
    if dead.is_empty() {
        return Ok(());
    }
    let letters = letters(&mut connection(world), world.keys.count());
    Err(format!("dead letters after their replay: {dead:?} of {letters:?}"))
}

/// Repairs the findings of the audit as the operator; returns them.
pub async fn repair(world: &World) -> Result<Vec<String>, String> {
    let result = |error: EngineError| format!("repair: {error}");
    let plan = repair::plan(&mut world.servers()).await.map_err(result)?;
    let findings = plan.iter().flat_map(|it| it.findings.iter().map(ToString::to_string)).collect();
    // A connection that was idle during a restart of Redis fails at its first command: the operator retries.
    while !plan.is_empty() {
        match world.execute(Command::Repair(plan.clone())).await {
            Err(error) if error.is_away() => tokio::time::sleep(Duration::from_millis(50)).await,
            done => {
                done.map_err(result)?;
                break;
            }
        }
    }
    Ok(findings)
}

/// Asserts that the audit and the checker agree; returns their findings.
pub async fn agreed(world: &World) -> Result<(Seen, Vec<String>), String> {
    let audit = ledger::audit(&mut world.servers(), None).await;
    let audit = audit.map_err(|error| format!("audit: {error}"))?;
    let seen = look(world).await;
    let found = seen.findings();
    let findings: Vec<_> = audit.sales.iter().flat_map(|it| &it.findings).collect();
    if found.is_empty() == audit.balanced {
        Ok((seen, found))
    } else {
        let letters = letters(&mut connection(world), world.keys.count());
        Err(format!(
            "the audit says {findings:?}, the checker says {found:?}; dead letters: {letters:?}"
        ))
    }
}

/// Checks all eight invariants and every receipt of a buyer, except those in `gone`.
pub async fn verdict(world: &World, log: &Log, gone: &HashSet<i64>) -> Result<(), String> {
    let (seen, mut wrong) = agreed(world).await?;
    wrong.extend(seen.promises(&log.all(), gone));
    wrong.extend(log.unanswered());
    if wrong.is_empty() {
        return Ok(());
    }
    let more = wrong.len().saturating_sub(12);
    wrong.truncate(12);
    Err(format!("{}\n(and {more} more)", wrong.join("\n")))
}

/// No request was refused as sold out while a shard had pieces.
pub fn nothing_is_unsold(world: &World, plan: &Plan, log: &Log) -> Result<(), String> {
    let mut redis = connection(world);
    for voucher in log.sold_out() {
        let left = plan.shards_of(voucher).into_iter().map(|id| {
            let stock = cmd("GET").arg(world.keys.stock(id)).query::<Option<u64>>(&mut redis);
            (id, stock.unwrap().unwrap_or(0))
        });
        let left: Vec<(ShardId, u64)> = left.filter(|(_, left)| *left > 0).collect();
        if !left.is_empty() {
            return Err(format!("#{voucher} was sold out, and has {left:?}"));
        }
    }
    Ok(())
}

/// A buyer with an order ID gets the same one again, also if the order is a dead letter.
pub async fn asked_again(world: &World, plan: &Plan, log: &Log) -> Result<(), String> {
    if plan.limit > 1 || plan.closes() {
        return Ok(());
    }
    let held = |voucher: VoucherId, user: u64| -> Option<i64> {
        let mut ask = cmd("HGET");
        ask.arg(world.keys.buyers(plan.shard_of(voucher, user))).arg(user);
        ask.query(&mut connection(world)).unwrap()
    };
    for result in log.all().iter().step_by(17) {
        let outcome = world.ask(result.voucher, result.user).await;
        let now = match outcome {
            seckill_model::Outcome::Duplicate { order } => order.as_i64(),
            other => {
                let held = held(result.voucher, result.user);
                return Err(format!(
                    "{result:?} asks again, holds {held:?} and receives {other:?}"
                ));
            }
        };
        if now != result.order || Some(now) != held(result.voucher, result.user) {
            return Err(format!("{result:?} asks again and receives {now}"));
        }
    }
    Ok(())
}
