//! Scenarios of a node that survives faults of its servers, its stream and its entries.

use std::{
    collections::{HashSet, VecDeque},
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};
use redis::cmd;
use seckill_engine::{
    deployment::servers::Servers, fault_injection, node::Node, orders::vouchers::Vouchers,
};
use seckill_model::{Millis, ShardId, VoucherId, order_id::utc_day};
use seckill_redis::{Redis, scripts};
use seckill_store::fault_injection::{Ill, Illness};
use sqlx::{AnyConnection, Executor as _};
use tokio_util::sync::CancellationToken;

use super::{
    buyers::{Buyers, Log},
    check::{added_twice, last_delivered},
    plan::{Change, Fault, Field, Harm, Key, Plan},
    sale_fields, small_disk, sql_changes,
    stage::{self, ScenarioReport, until},
    support::{Cut, Proxy, TestRedis},
    world::{NODE, World},
};

/// What may be cut off the end of the file: well within the promise journal of a node.
const CUT_WITHIN: Duration = Duration::from_secs(2);
/// Nodes beside the first one.
const OTHERS: [&str; 2] = ["node-2", "node-3"];
const DEAD_NODE: &str = "node-b";

pub async fn run(plan: &Plan, faults: &[(usize, Fault)]) -> Result<ScenarioReport, String> {
    let (mut world, illness) = stage::world(plan).await;
    world.start_node();
    let proxy = Proxy::before_socket(world.server.socket()).await;
    let has_late = faults.iter().any(|(_, it)| matches!(it, Fault::Replies { .. }));
    let other = |name: &&str| {
        if *name == OTHERS[0] && has_late {
            world.node_through(&proxy.redis_url(), name)
        } else {
            world.another_node(name)
        }
    };
    let others: Vec<Node> = OTHERS.iter().take(plan.nodes - 1).map(other).collect();
    let vouchers = stage::create(&world, plan).await;
    let log = Log::default();
    let mut entrances = vec![stage::entrance(&world)];
    entrances.extend(others.iter().filter_map(|it| it.operator().admission.clone()));
    let nodes: Vec<&Node> = std::iter::once(world.node()).chain(&others).collect();
    until("each node knows the others", async || {
        nodes.iter().all(|node| {
            let seen = node.remote().snapshots.borrow().clone();
            seen.nodes.len() == plan.nodes && seen.seq > 4
        })
    })
    .await?;
    let mut sizes = AofSizes::watch(&world);
    let fails_over = faults.iter().any(|(_, it)| matches!(it, Fault::FailedOver { .. }));
    let mut replica = fails_over.then(|| world.server.replica());
    let buyers = Buyers::ask(&entrances, 0, &vouchers, plan.lanes(0, 1), &log);
    let stop = CancellationToken::new();
    let closing = plan.closing.then(|| stage::close_and_pay(&world, &log, stop.clone()));
    let names = [&[NODE], &OTHERS[..plan.nodes - 1]].concat();
    let mut result = ScenarioReport { struck: true, ..ScenarioReport::default() };
    for (after, fault) in faults {
        until("buyers are in", async || log.admitted() >= *after || buyers.are_done()).await?;
        result.struck &= !buyers.are_done();
        let nodes: Vec<&Node> = std::iter::once(world.node()).chain(&others).collect();
        match *fault {
            Fault::KillRedis { away } => restart(&mut world, away, None).await,
            Fault::TruncateAof { away } => restart(&mut world, away, Some((&sizes, plan))).await,
            Fault::FailedOver { behind, hangs } => {
                let replica = replica.take().unwrap_or_else(|| world.server.replica());
                fail_over(&mut world, replica, behind, hangs).await;
                sizes = AofSizes::watch(&world);
            }
            Fault::ConsumerRemoved(most)
            | Fault::TrimmedPending(most)
            | Fault::TrimmedAll(most) => stick(&world, &nodes, &log, &buyers, *fault, most).await?,
            Fault::OldRedis(age) => old_copy(&mut world, age).await,
            Fault::DiskFull(time) => {
                small_disk::fill(&mut world, plan.seed, time).await;
                // It shares the disk: it may have ended, or lost its link to a server that has.
                replica = replica.take().map(|_| world.server.replica());
            }
            Fault::Replies { late, time } => withhold(&proxy, late, time).await,
            Fault::ForeignRows(time) => {
                let shard = plan.busy_shard(vouchers[0]);
                let users = plan.late_users(vouchers[0], &log);
                let added = sql_changes::foreign_rows(&world, shard, &users, time).await;
                result.struck &= added > 0;
            }
            other => Box::pin(change(&world, plan, &illness, &vouchers, other)).await?,
        }
    }
    if faults.iter().any(|(_, it)| *it == Fault::SaleLost) {
        // Nodes that have found the loss refuse its buyers until the operator has restored it.
        restored(&world, vouchers[0]).await?;
    }
    buyers.done().await;
    stop.cancel();
    if let Some(closing) = closing {
        closing.await.map_err(|error| error.to_string())?;
    }
    illness.set(Ill::Not);
    resolved(&world, plan, faults, &vouchers, &names, &log).await?;
    result.admitted = log.admitted();
    for other in others {
        other.stop().await;
    }
    world.stop_node().await;
    Ok(result)
}

/// Changes of the keys in Redis and of SQL while both run.
async fn change(
    world: &World,
    plan: &Plan,
    illness: &Illness,
    vouchers: &[VoucherId],
    fault: Fault,
) -> Result<(), String> {
    match fault {
        Fault::Frozen(time) => {
            world.server.freeze();
            tokio::time::sleep(time).await;
            world.server.thaw();
        }
        Fault::Key(key, harm) => damage(world, plan.shard_of(vouchers[0], 0), key, harm).await,
        Fault::OldRows(age) => old_rows(world, age).await,
        Fault::OrdersRejected(time) => sql_changes::reject(world, None, time).await,
        Fault::SaleRejected(time) => sql_changes::reject(world, Some(vouchers[0]), time).await,
        Fault::SaleLost => {
            // What both servers lose at the same time is nowhere.
            until("no key is damaged", async || stage::is_reconciled(world).await).await?;
            sql_changes::lose(world, vouchers[0]).await;
        }
        Fault::Cuts { late, slow } => {
            illness.set(Ill::Slow(slow));
            Box::pin(cuts(world, vouchers, late)).await;
            illness.set(Ill::Not);
        }
        Fault::Forged(count) => {
            let shards = vouchers.iter().map(|it| plan.shard_of(*it, 0));
            forge(world, &shards.collect::<Vec<_>>(), count);
        }
        Fault::Field(field, change) => {
            sale_fields::change(world, plan.busy_shard(vouchers[0]), field, change).await?;
        }
        Fault::ColumnAdded(time) => sql_changes::add_column(world, time).await,
        Fault::UniqueIndex(time) => sql_changes::add_index(world, time).await,
        Fault::SqlStock(by) => {
            sql_changes::change_stock(world, plan.busy_shard(vouchers[0]), by).await?;
        }
        other => inflict(world, illness, other).await?,
    }
    Ok(())
}

/// Resolves what the faults left, as nodes and the operator do, and checks what must hold then.
async fn resolved(
    world: &World,
    plan: &Plan,
    faults: &[(usize, Fault)],
    vouchers: &[VoucherId],
    names: &[&str],
    log: &Log,
) -> Result<(), String> {
    if faults.iter().any(|(_, it)| *it == Fault::SaleLost) {
        // Its orders wait until then.
        restored(world, vouchers[0]).await?;
    }
    stage::settle(world, names).await?;
    if has_letters(faults) {
        stage::replay_letters(world, names, log).await?;
    }
    if needs_repair(faults) {
        // What another client removed is reported by both and repaired by the operator.
        stage::agreed(world).await?;
        stage::repair(world).await?;
        stage::settle(world, names).await?;
    }
    after(world, plan, faults, vouchers).await?;
    stage::give_back(world).await?;
    stage::asked_again(world, plan, log).await?;
    stage::verdict(world, log, &HashSet::new()).await?;
    // Pieces that a failed cut puts back, or that are added, come after some buyers were refused.
    let adds = |it: &Fault| matches!(it, Fault::Cuts { .. } | Fault::Field(..));
    let adds = faults.iter().any(|(_, fault)| adds(fault));
    if !plan.closing && !adds {
        stage::nothing_is_unsold(world, plan, log)?;
    }
    Ok(())
}

/// Whether orders of buyers became dead letters.
fn has_letters(faults: &[(usize, Fault)]) -> bool {
    let has = |it: &Fault| {
        matches!(it, Fault::UniqueIndex(_) | Fault::ForeignRows(_) | Fault::SqlStock(_))
    };
    faults.iter().any(|(_, fault)| has(fault))
}

/// What else holds after some faults.
async fn after(
    world: &World,
    plan: &Plan,
    faults: &[(usize, Fault)],
    vouchers: &[VoucherId],
) -> Result<(), String> {
    if faults.iter().any(|(_, it)| matches!(it, Fault::Field(..))) {
        let ahead = Fault::Field(Field::Version, Change::Other);
        let is_ahead = faults.iter().any(|(_, it)| *it == ahead);
        sale_fields::takes_changes(world, plan, vouchers, is_ahead).await?;
    }
    // Other faults make nodes add entries again.
    if faults.iter().all(|(_, it)| matches!(it, Fault::Replies { .. })) {
        let twice = added_twice(&mut stage::connection(world), world.keys.count());
        if !twice.is_empty() {
            return Err(format!("5: orders were added twice: {twice:?}"));
        }
    }
    Ok(())
}

/// Withholds replies of Redis from the node behind the proxy: all of them, or those to admissions for a while each.
async fn withhold(proxy: &Proxy, late: Option<Duration>, time: Duration) {
    match late {
        None => proxy.mute(),
        Some(late) => proxy.cut_at_each(scripts::ADMIT.get_hash(), Cut::Late(late)),
    }
    tokio::time::sleep(time).await;
    proxy.unmute();
    proxy.heal();
}

/// Whether entries are lost for redelivery: removed with their consumer, before their delivery, or
/// without a body when their group was destroyed.
fn needs_repair(faults: &[(usize, Fault)]) -> bool {
    let has = |which: fn(&Fault) -> bool| faults.iter().any(|(_, fault)| which(fault));
    has(|it| {
        matches!(
            it,
            Fault::ConsumerRemoved(_) | Fault::TrimmedAll(_) | Fault::OldRows(_) | Fault::SaleLost
        )
    }) || (has(|it| matches!(it, Fault::TrimmedPending(_)))
        && has(|it| matches!(it, Fault::GroupDestroyed)))
}

/// Instantaneous faults.
async fn inflict(world: &World, illness: &Illness, fault: Fault) -> Result<(), String> {
    let mut redis = stage::connection(world);
    let ill = match fault {
        Fault::FlushAll => {
            cmd("FLUSHALL").exec(&mut redis).unwrap();
            return Ok(());
        }
        Fault::ScriptFlush => {
            cmd("SCRIPT").arg("FLUSH").exec(&mut redis).unwrap();
            return Ok(());
        }
        Fault::DatabaseAway(_) => Ill::Away,
        Fault::DatabaseHangs(_) => Ill::Hangs(Duration::from_millis(150)),
        Fault::DatabaseSlow(by) => Ill::Slow(by),
        Fault::CommitsUnsure(share) => Ill::Unsure(share),
        _ => {
            for of in world.keys.partitions() {
                let mut conn = world.redis.connection();
                let done = match fault {
                    Fault::GroupDestroyed => {
                        fault_injection::destroy_group(&mut conn, &of).await.map(drop)
                    }
                    Fault::Duplicates(most) => {
                        fault_injection::duplicate(&mut conn, &of, most).await.map(drop)
                    }
                    Fault::Poison(most) => fault_injection::poison(&mut conn, &of, most).await,
                    _ => Ok(()),
                };
                done.map_err(|error| error.to_string())?;
            }
            return Ok(());
        }
    };
    illness.set(ill);
    // Others last to the end of the load test.
    let (Fault::DatabaseAway(time) | Fault::DatabaseHangs(time)) = fault else { return Ok(()) };
    tokio::time::sleep(time).await;
    illness.set(Ill::Not);
    Ok(())
}

/// Entries are stuck at a dead node, and another fault follows.
async fn stick(
    world: &World,
    nodes: &[&Node],
    log: &Log,
    buyers: &Buyers,
    fault: Fault,
    most: usize,
) -> Result<(), String> {
    // An earlier fault may have destroyed the group, which paused consumers do not recreate, or replaced the keys of the
    // nodes, to which the dead one is added.
    until("the groups are there", async || {
        let mut redis = stage::connection(world);
        world.keys.partitions().all(|of| {
            let mut is_list =
                |key: String| cmd("TYPE").arg(key).query::<String>(&mut redis).unwrap() == "list";
            !is_list(of.nodes())
                && !is_list(of.instances())
                && last_delivered(&mut redis, &of.orders()).is_some()
        })
    })
    .await?;
    for node in nodes {
        node.hold_consumer(true).await;
    }
    let enough = log.admitted() + most / 2 + 1;
    until("entries wait", async || log.admitted() >= enough || buyers.are_done()).await?;
    let result = |error: seckill_engine::EngineError| error.to_string();
    fault_injection::die_with_batch(&world.redis, &world.keys, DEAD_NODE, most, 600_000)
        .await
        .map_err(result)?;
    let mut conn = world.redis.connection();
    for of in world.keys.partitions() {
        match fault {
            Fault::ConsumerRemoved(_) => {
                // Its pending entries are never redelivered.
                let mut remove = cmd("XGROUP");
                remove.arg("DELCONSUMER").arg(of.orders()).arg(of.group());
                remove.arg(of.consumer(DEAD_NODE));
                remove.exec(&mut stage::connection(world)).unwrap();
            }
            Fault::TrimmedPending(_) => {
                fault_injection::trim_pending(&mut conn, &of).await.map_err(result)?;
            }
            _ => {
                let mut redis = stage::connection(world);
                cmd("XTRIM").arg(of.orders()).arg("MAXLEN").arg(0).exec(&mut redis).unwrap();
            }
        }
    }
    for node in nodes {
        node.hold_consumer(false).await;
    }
    Ok(())
}

/// Two processes remove and add stock; the replies to the cuts of one are lost or come late. Each of their commands may fail.
async fn cuts(world: &World, vouchers: &[VoucherId], late: Option<Duration>) {
    let proxy = Proxy::before_socket(world.server.socket()).await;
    let redis = Redis::from_url(&proxy.redis_url()).unwrap();
    let cut = late.map_or(Cut::After, Cut::Late);
    proxy.cut_at_each(scripts::CUT.get_hash(), cut);
    for voucher in vouchers {
        let restock = async |mut servers: Servers, changes: [i64; 4]| {
            for by in changes {
                if let Err(error) = (Vouchers { servers: &mut servers }).restock(*voucher, by).await
                {
                    println!("a command fails by {by}: {error}");
                }
            }
        };
        tokio::join!(
            restock(Servers::new(&redis, &world.store, &world.keys), [-2, 3, -1, -2]),
            restock(world.servers(), [-1, -2, 2, -1]),
        );
    }
}

/// Adds entries that look like those of admission.
fn forge(world: &World, shards: &[ShardId], count: usize) {
    let mut redis = stage::connection(world);
    for (shard, number) in shards.iter().flat_map(|it| (0..count).map(move |n| (it, n))) {
        let (orders, voucher) = (world.keys.partition_of(*shard).orders(), shard.sale);
        let mut add = cmd("XADD");
        add.arg(orders).arg("*").arg("userId").arg(1_000_000 + number);
        add.arg("voucherId").arg(voucher.0).arg("id").arg(voucher.0 * 1_000 + number as u64 + 1);
        if let Some(number) = shard.numbered() {
            add.arg("shard").arg(number);
        }
        // If the key has another type at the moment, nothing can be forged.
        let _ = add.query::<String>(&mut redis);
    }
}

/// Deletes a key, puts a value of another type there, or sets it back.
async fn damage(world: &World, shard: ShardId, key: Key, harm: Harm) {
    let (keys, of) = (&world.keys, world.keys.partition_of(shard));
    let key = match key {
        Key::Sale => keys.sale(shard),
        Key::Stock => keys.stock(shard),
        Key::Buyers => keys.buyers(shard),
        Key::Tally => keys.tally(shard),
        Key::Orders => of.orders(),
        Key::Dead => of.dead(),
        Key::Watermark => of.watermark(),
        Key::DataLoss => of.reconciled(),
        Key::Nodes => of.nodes(),
        Key::Instances => of.instances(),
        Key::Gone => of.gone(),
        Key::Sequence => of.sequence(utc_day(Millis::now().0 / 1_000)),
    };
    let mut redis = stage::connection(world);
    match harm {
        Harm::Deleted => cmd("DEL").arg(&key).exec(&mut redis).unwrap(),
        Harm::Replaced => {
            let mut replace = redis::pipe();
            replace.atomic().cmd("DEL").arg(&key).ignore();
            replace.cmd("RPUSH").arg(&key).arg("of another type").ignore();
            replace.exec(&mut redis).unwrap();
        }
        Harm::SetBack(age) => {
            let old: Option<Vec<u8>> = cmd("DUMP").arg(&key).query(&mut redis).unwrap();
            tokio::time::sleep(age).await;
            let back = match old {
                Some(old) => cmd("RESTORE").arg(&key).arg(0).arg(old).arg("REPLACE").take(),
                None => cmd("DEL").arg(&key).take(),
            };
            back.exec(&mut redis).unwrap();
        }
    }
}

/// Redis is killed and restarts from a copy of its files.
async fn old_copy(world: &mut World, age: Duration) {
    let copy = OldCopy::of(world);
    tokio::time::sleep(age).await;
    world.server.kill();
    copy.put_back(world);
    world.server.restart();
}

/// A copy of the files of Redis.
pub struct OldCopy(tempfile::TempDir);

impl OldCopy {
    pub fn of(world: &World) -> Self {
        let copy = tempfile::tempdir().unwrap();
        copy_all(&world.server.dir().join("appendonlydir"), copy.path());
        Self(copy)
    }

    /// Replaces the files of the killed server.
    pub fn put_back(self, world: &World) {
        let files = world.server.dir().join("appendonlydir");
        std::fs::remove_dir_all(&files).unwrap();
        std::fs::create_dir(&files).unwrap();
        copy_all(self.0.path(), &files);
    }
}

fn copy_all(from: &std::path::Path, to: &std::path::Path) {
    for file in std::fs::read_dir(from).unwrap().flatten() {
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// Tables that are set back, and their columns but those that the database computes.
const SET_BACK: [(&str, &str); 4] = [
    (
        "tb_seckill_voucher",
        "voucher_id, initial_stock, stock, begin_time, end_time, state, version, user_limit, create_time, \
         update_time, archive_time, delivered_version, shards",
    ),
    (
        "tb_shard_stock",
        "voucher_id, shard, initial_stock, stock, version, delivered_version, update_time, former_voucher_id",
    ),
    (
        "tb_voucher_order",
        "id, user_id, voucher_id, shard, buyer_place, pay_type, status, create_time, pay_time, use_time, refund_time, \
         close_time, update_time",
    ),
    ("tb_give_back", "order_id, user_id, voucher_id, shard, buyer_place, closed, given"),
];

/// Sets the tables of sales and orders back in one transaction, like a restored backup.
async fn old_rows(world: &World, age: Duration) {
    let mut sql = world.sql().await;
    // Foreign keys would prevent clearing a table before those that refer to it.
    let (settings, begin, lock): (&[&str], &[&str], &str) = if world.url.starts_with("sqlite:") {
        (&["PRAGMA busy_timeout = 60000", "PRAGMA foreign_keys = OFF"], &["BEGIN IMMEDIATE"], "")
    } else if world.url.starts_with("mysql:") {
        (&["SET foreign_key_checks = 0"], &["START TRANSACTION"], " FOR UPDATE")
    } else {
        (
            &["SET session_replication_role = replica"],
            &[
                "BEGIN",
                "LOCK TABLE tb_seckill_voucher, tb_shard_stock, tb_voucher_order, tb_give_back",
            ],
            "",
        )
    };
    for setting in settings {
        sql.execute(*setting).await.unwrap();
    }
    for (table, columns) in SET_BACK {
        let copy = format!("CREATE TABLE old_{table} AS SELECT {columns} FROM {table} WHERE 1 = 0");
        sql.execute(sqlx::AssertSqlSafe(copy)).await.unwrap();
    }
    let copied = |(table, columns): (&str, &str)| {
        vec![format!("INSERT INTO old_{table} ({columns}) SELECT {columns} FROM {table}{lock}")]
    };
    together(&mut sql, begin, SET_BACK.into_iter().flat_map(copied).collect()).await;
    tokio::time::sleep(age).await;
    let back = |(table, columns): (&str, &str)| {
        vec![
            format!("DELETE FROM {table}"),
            format!("INSERT INTO {table} ({columns}) SELECT {columns} FROM old_{table}"),
        ]
    };
    together(&mut sql, begin, SET_BACK.into_iter().flat_map(back).collect()).await;
    for (table, _) in SET_BACK {
        sql.execute(sqlx::AssertSqlSafe(format!("DROP TABLE old_{table}"))).await.unwrap();
    }
    drop(sql);
}

/// Runs statements in one transaction; retried after a deadlock with the nodes.
async fn together(sql: &mut AnyConnection, begin: &[&str], statements: Vec<String>) {
    let begin = begin.iter().map(|it| (*it).to_owned());
    let all: Vec<String> = begin.chain(statements).collect();
    let run = async |sql: &mut AnyConnection| {
        for statement in &all {
            sql.execute(sqlx::AssertSqlSafe(statement.clone())).await?;
        }
        Ok::<(), sqlx::Error>(())
    };
    while let Err(error) = run(sql).await {
        let text = error.to_string().to_lowercase();
        assert!(text.contains("deadlock") || text.contains("lock wait"), "{error}");
        sql.execute("ROLLBACK").await.unwrap();
    }
    sql.execute("COMMIT").await.unwrap();
}

/// The operator restores a sale that SQL has lost.
async fn restored(world: &World, voucher: VoucherId) -> Result<(), String> {
    until("the sale is back", async || {
        stage::repair(world).await.is_ok() && world.store.sale(voucher).await.is_ok()
    })
    .await
}

/// A replica takes the place of Redis.
async fn fail_over(world: &mut World, replica: TestRedis, behind: Duration, hangs: Duration) {
    if !behind.is_zero() {
        // Suspended and disconnected: otherwise it would later read what the kernel has buffered.
        replica.freeze();
        world.server.query::<u64>(&["CLIENT", "KILL", "TYPE", "replica"]);
        tokio::time::sleep(behind).await;
    }
    world.server.freeze();
    tokio::time::sleep(hangs).await;
    replica.thaw();
    world.server.fail_over(replica);
}

async fn restart(world: &mut World, away: Duration, cut: Option<(&AofSizes, &Plan)>) {
    let killed = Instant::now();
    world.server.kill();
    if let Some((sizes, plan)) = cut {
        sizes.truncate(killed, plan.seed);
    }
    tokio::time::sleep(away).await;
    world.server.restart();
}

/// The size of the append-only file during the last seconds.
pub struct AofSizes {
    dir: PathBuf,
    sizes: Arc<Mutex<VecDeque<(Instant, u64)>>>,
    watching: tokio::task::JoinHandle<()>,
}

impl AofSizes {
    pub fn watch(world: &World) -> Self {
        let dir = world.server.dir().join("appendonlydir");
        let sizes = Arc::new(Mutex::new(VecDeque::new()));
        let (of, seen) = (dir.clone(), Arc::clone(&sizes));
        let watching = tokio::spawn(async move {
            loop {
                if let Some((_, size)) = last_part(&of) {
                    let mut sizes = seen.lock().unwrap();
                    sizes.push_back((Instant::now(), size));
                    if sizes.len() > 1_000 {
                        sizes.pop_front();
                    }
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Self { dir, sizes, watching }
    }

    /// Cuts the file somewhere within what was written shortly before `killed`.
    pub fn truncate(&self, killed: Instant, seed: u64) {
        let Some((path, now)) = last_part(&self.dir) else { return };
        let mut sizes = self.sizes.lock().unwrap();
        let young = |at: &Instant| killed.saturating_duration_since(*at) < CUT_WITHIN;
        let least = sizes.iter().filter(|(at, _)| young(at)).map(|it| it.1).min().unwrap_or(now);
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        let length = random.random_range(least.min(now)..=now);
        std::fs::File::options().write(true).open(path).unwrap().set_len(length).unwrap();
        sizes.clear();
    }
}

impl Drop for AofSizes {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

fn last_part(dir: &std::path::Path) -> Option<(PathBuf, u64)> {
    let parts = std::fs::read_dir(dir).ok()?.flatten().map(|it| it.path());
    let path = parts.filter(|it| it.to_string_lossy().ends_with(".incr.aof")).max()?;
    let size = path.metadata().ok()?.len();
    Some((path, size))
}
