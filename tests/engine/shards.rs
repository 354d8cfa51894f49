//! Sales that are spread over shards: no request is refused before all pieces are sold.

use std::{collections::BTreeSet, time::Duration};

use futures::future::join_all;
use seckill_engine::{
    EngineError,
    admission::AdmissionError,
    commands::{
        Command, Pace, Reply, Scope,
        plan::{Change, SaleForecast},
    },
    deployment::servers::Servers,
    jobs::retention,
    ledger,
    orders::{Location, trace, vouchers::Vouchers},
    recovery::{dead_letters::classify, repair},
};
use seckill_model::{
    EntryId, LetterVerdict, OrderFilter, OrderId, OrderTerms, Outcome, Sale, SaleAudit, SaleShard,
    SaleState, ShardId, Spread, UserId, VoucherId, filter::Filter,
};
use seckill_redis::{
    Redis,
    dead_letters::{self, DeadLetter},
    scripts,
};
use tokio_util::sync::CancellationToken;

use crate::{
    support::{Cut, Proxy},
    world::{World, sale},
};

const SHARDS: u16 = 8;

/// A sale over shards.
#[derive(Clone, Copy)]
struct Shards {
    of: VoucherId,
    spread: Spread,
}

impl Shards {
    fn new(of: VoucherId) -> Self {
        Self { of, spread: Spread { sale: of.into(), count: SHARDS } }
    }

    fn all(self) -> impl Iterator<Item = ShardId> {
        self.spread.all()
    }
}

async fn sharded(stock: u64) -> (World, Shards) {
    let world = World::spread(SHARDS, |_| {}).await;
    let of = world.create(sale(stock).sharded(SHARDS.into()).unwrap()).await;
    (world, Shards::new(of))
}

/// Users of one shard.
fn users_of(shard: Shards, number: u16) -> impl Iterator<Item = u64> {
    (1..).filter(move |user| shard.spread.of_user(UserId(*user)).number == number)
}

async fn parts(world: &World, shard: Shards) -> Vec<SaleShard> {
    world.store.shards_of(shard.of).await.unwrap()
}

fn stocks(world: &World, shard: Shards) -> Vec<u64> {
    shard.all().map(|id| world.server.query(&["GET", &world.keys.stock(id)])).collect()
}

/// Each order is in SQL, each shard is balanced, and the pieces are as many as were put on sale.
async fn is_balanced(world: &World, shard: Shards, pieces: u64, orders: u64) {
    world
        .until("all orders are in SQL", async || {
            parts(world, shard).await.iter().map(|it| it.live_orders()).sum::<u64>() == orders
        })
        .await;
    // A node undoes a move whose reply was lost once others no longer wait for it; another move may come meanwhile.
    let mut audit = None;
    world
        .until("the audit passes with these figures", async || {
            let found = ledger::audit(&mut world.servers(), Some(shard.of)).await.unwrap();
            let figures = |line: &SaleAudit| (line.voucher_id, line.initial, line.persisted);
            let expected = [(shard.of, pieces, orders)];
            let passes = found.balanced && found.sales.iter().map(figures).eq(expected);
            audit = Some(found);
            passes
        })
        .await;
    let audit = audit.unwrap();
    let [line] = audit.sales.as_slice() else { panic!("{audit:?}") };
    assert_eq!(
        line.shards.iter().map(SaleAudit::shard_id).collect::<Vec<_>>(),
        shard.all().collect::<Vec<_>>()
    );
    belongs_to_what_was_sold(world, shard, orders).await;
    let whole = Sale::whole(&parts(world, shard).await).unwrap();
    assert_eq!((whole.initial, whole.live_orders()), (pieces, orders));
    assert_eq!(stocks(world, shard).iter().sum::<u64>(), pieces - orders);
}

/// The tables have one voucher, one sale, and orders of that voucher.
async fn belongs_to_what_was_sold(world: &World, shard: Shards, orders: u64) {
    let mut sql = world.sql().await;
    let of = shard.of.0 as i64;
    for (query, expected) in [
        ("SELECT voucher_id, COUNT(*) FROM tb_voucher_order GROUP BY voucher_id", orders),
        ("SELECT id, COUNT(*) FROM tb_voucher GROUP BY id", 1),
        ("SELECT voucher_id, COUNT(*) FROM tb_seckill_voucher GROUP BY voucher_id", 1),
        ("SELECT voucher_id, COUNT(*) FROM tb_shard_stock GROUP BY voucher_id", SHARDS.into()),
    ] {
        let rows: Vec<(i64, i64)> = sqlx::query_as(query).fetch_all(&mut sql).await.unwrap();
        let expected = (expected > 0).then_some((of, expected as i64));
        assert_eq!(rows, Vec::from_iter(expected), "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_of_one_shard_buy_the_pieces_of_all() {
    let (world, shard) = sharded(100).await;
    assert_eq!(stocks(&world, shard), [13, 13, 13, 13, 12, 12, 12, 12]);
    let users: Vec<u64> = users_of(shard, 3).take(130).collect();
    let answers = join_all(users.iter().map(|user| world.ask(shard.of, *user))).await;
    let admitted = answers.iter().filter(|it| matches!(it, Outcome::Admitted { .. })).count();
    let sold_out = answers.iter().filter(|it| **it == Outcome::SoldOut).count();
    assert_eq!((admitted, sold_out), (100, 30));
    // However often a shard was asked for it, each request counts once.
    let mut counted = (0, 0);
    world
        .until("each request is counted", async || {
            counted = (0, 0);
            for id in shard.all() {
                let tally = world.keys.tally(id);
                let read = ["HMGET", &tally, "admitted", "sold_out"];
                let (admitted, sold_out): (Option<u64>, Option<u64>) = world.server.query(&read);
                counted.0 += admitted.unwrap_or(0);
                counted.1 += sold_out.unwrap_or(0);
            }
            counted.0 + counted.1 >= 130
        })
        .await;
    assert_eq!(counted, (100, 30));
    // A buyer learns the order, also now; a stranger of any shard is refused.
    for (user, answer) in users.iter().zip(&answers) {
        if let Outcome::Admitted { order } = answer {
            let again = world.ask(shard.of, *user).await;
            assert_eq!(again, Outcome::Duplicate { order: *order });
        }
    }
    for number in 1..=SHARDS {
        let stranger = users_of(shard, number).find(|user| *user > 1_000_000).unwrap();
        assert_eq!(world.ask(shard.of, stranger).await, Outcome::SoldOut);
    }
    is_balanced(&world, shard, 100, 100).await;
    let of_sale = OrderTerms { voucher: Some(shard.of), ..OrderTerms::default() };
    let with = OrderFilter { is: of_sale, ..OrderFilter::default() };
    let without = OrderFilter { not: of_sale, ..OrderFilter::default() };
    for (filter, orders) in [(with, 100), (without, 0)] {
        let found = world.store.orders(&filter, None, 1_000).await.unwrap();
        assert_eq!(found.len(), orders, "{filter:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_user_has_one_order_on_all_nodes() {
    let (world, shard) = sharded(400).await;
    let other = world.another_node("node-2");
    let theirs = other.operator().admission.clone().unwrap();
    // The other node may learn of the shards by the first request.
    let skewed = users_of(shard, 1).take(300).chain(users_of(shard, 5).take(150));
    let users: Vec<u64> = skewed.collect();
    let ask = async |user: u64| {
        let mut orders = BTreeSet::new();
        for _ in 0..3 {
            orders.extend(world.ask(shard.of, user).await.order());
            let outcome = loop {
                match theirs.request(shard.of, UserId(user)).answer().await.outcome.unwrap() {
                    Outcome::Busy | Outcome::NotReady => {}
                    outcome => break outcome,
                }
            };
            orders.extend(outcome.order());
        }
        assert!(orders.len() < 2, "{user} has {orders:?}");
        orders.len() as u64
    };
    let orders: u64 = join_all(users.iter().map(|user| ask(*user))).await.iter().sum();
    assert_eq!(orders, 400);
    is_balanced(&world, shard, 400, 400).await;
    other.stop().await;
}

/// Shards have no IDs that a buyer could name, also on a node that has never heard of the sale.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_is_no_voucher() {
    let (world, shard) = sharded(80).await;
    let other = world.another_node("node-2");
    let theirs = other.operator().admission.clone().unwrap();
    for (number, user) in (1..=8).zip(users_of(shard, 4)) {
        let id = VoucherId(shard.of.0 + number);
        assert_eq!(world.ask(id, user).await, Outcome::NotLoaded);
        let order = loop {
            match theirs.request(shard.of, UserId(user)).answer().await.outcome.unwrap() {
                Outcome::Busy | Outcome::NotReady => {}
                outcome => break outcome.order().unwrap(),
            }
        };
        assert_eq!(world.ask(shard.of, user).await, Outcome::Duplicate { order });
    }
    is_balanced(&world, shard, 80, 8).await;
    let listed = world.store.vouchers(None, 100).await.unwrap();
    assert_eq!(listed.iter().map(|it| it.voucher_id).collect::<Vec<_>>(), [shard.of]);
    other.stop().await;
}

/// Pieces move, and are restocked and removed, all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_audit_reports_a_move() {
    let (world, shard) = sharded(800).await;
    let buying = async {
        for users in users_of(shard, 2).take(900).collect::<Vec<_>>().chunks(20) {
            join_all(users.iter().map(|user| world.ask(shard.of, *user))).await;
        }
        world.execute(Command::Restock { voucher: shard.of, by: 8 }).await.unwrap();
        world.execute(Command::Restock { voucher: shard.of, by: -5 }).await.unwrap();
    };
    let auditing = async {
        loop {
            let audit = ledger::audit(&mut world.servers(), Some(shard.of)).await.unwrap();
            assert!(audit.balanced, "{audit:?}");
        }
    };
    tokio::select! {
        () = buying => {}
        () = auditing => {}
    }
    assert!(parts(&world, shard).await.iter().all(|part| part.version > 2));
    is_balanced(&world, shard, 803, 800).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_reach_each_shard() {
    let (world, shard) = sharded(16).await;
    let states = async || parts(&world, shard).await.into_iter().map(|it| it.state);
    world.execute(Command::PauseSale(shard.of)).await.unwrap();
    assert!(states().await.all(|state| state == SaleState::Paused));
    assert_eq!(world.ask(shard.of, 1).await, Outcome::Paused);
    world.execute(Command::ResumeSale(shard.of)).await.unwrap();
    world.execute(Command::Restock { voucher: shard.of, by: 11 }).await.unwrap();
    assert_eq!(stocks(&world, shard), [4, 4, 4, 3, 3, 3, 3, 3]);
    // More than one shard has.
    world.execute(Command::Restock { voucher: shard.of, by: -20 }).await.unwrap();
    let error = world.execute(Command::Restock { voucher: shard.of, by: -8 }).await.unwrap_err();
    assert!(error.to_string().contains('7'), "{error}");
    world.admit(shard.of, users_of(shard, 8).take(7)).await;
    is_balanced(&world, shard, 7, 7).await;
    // A change of the sale is one of all its shards.
    let versions: Vec<u64> = parts(&world, shard).await.iter().map(|it| it.version).collect();
    world.execute(Command::EndSale(shard.of)).await.unwrap();
    assert!(states().await.all(|state| state == SaleState::Ended));
    let raised: Vec<u64> = parts(&world, shard).await.iter().map(|it| it.version - 1).collect();
    assert_eq!(raised, versions);
    assert_eq!(world.ask(shard.of, 1).await, Outcome::Ended);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reasons_and_limits_name_the_sale_and_its_figures() {
    let (world, shard) = sharded(80).await;
    let cut = Command::Restock { voucher: shard.of, by: -80 };
    let error = world.execute(cut).await.unwrap_err();
    assert!(error.to_string().contains("80 of 80 are unsold"), "{error}");
    // A foreign entry of a buyer who has another order.
    let user = users_of(shard, 3).next().unwrap();
    assert!(matches!(world.ask(shard.of, user).await, Outcome::Admitted { .. }));
    let of = world.keys.partition_of(ShardId { number: 3, ..ShardId::only(shard.of) });
    let (user, voucher, orders) = (user.to_string(), shard.of.to_string(), of.orders());
    let entry = ["XADD", &orders, "*", "userId", &user, "voucherId", &voucher, "shard", "3"];
    world.server.query::<String>(&[&entry[..], &["id", "4242"]].concat());
    let mut servers = world.servers();
    let mut letters = Vec::new();
    world
        .until("it is a dead letter", async || {
            letters = dead_letters::read(&mut servers.conn, &of, EntryId::MIN, 9).await.unwrap();
            !letters.is_empty()
        })
        .await;
    let reason = letters[0].reason.to_string();
    assert!(reason.ends_with(&format!("for voucher {}", shard.of)), "{reason}");
}

/// Entries of another program: of a voucher that is not sold, and without the shard of one that is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_names_no_shard_is_a_dead_letter_that_says_so() {
    let (world, shard) = sharded(80).await;
    let mut servers = world.servers();
    let ids = [(VoucherId(9_999), 4_242), (shard.of, 4_243)];
    for (of, id) in ids {
        let orders = world.keys.partition_of(ShardId::only(of)).orders();
        let (voucher, id) = (of.to_string(), id.to_string());
        let entry = ["XADD", &orders, "*", "userId", "5", "voucherId", &voucher, "id", &id];
        world.server.query::<String>(&entry);
    }
    let mut letters = Vec::new();
    world
        .until("they are dead letters", async || {
            let of = (EntryId::MIN, EntryId::MAX);
            letters = dead_letters::page_of_all(&mut servers.conn, &world.keys, of.0, of.1, 9)
                .await
                .unwrap();
            letters.len() == 2
        })
        .await;
    for (of, id) in ids {
        let order = OrderId::from_i64(id).unwrap();
        let is_this = |it: &&DeadLetter| it.order.is_some_and(|it| it.order == order);
        let reason = letters.iter().find(is_this).unwrap().reason.to_string();
        let no_shard = format!("names no shard, but voucher {of} is sold over shards");
        let no_sale = format!("there is no sale of voucher {of}");
        let expected = if of == shard.of { no_shard } else { no_sale };
        assert!(reason.contains(&expected), "{reason}");
        let trace = trace::follow(&mut servers, order).await.unwrap();
        assert!(matches!(trace.location, Location::Dead { .. }), "{trace:?}");
    }
    let classified = classify(&mut servers, 3, letters).await.unwrap();
    assert!(classified.iter().all(|it| it.verdict == LetterVerdict::NoSale), "{classified:?}");
}

/// A database that is restored from a backup, after an end that did not reach the server of one shard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_opens_no_sale_again_that_ended_in_some_shards() {
    let (mut world, shard) = sharded(80).await;
    world.admit(shard.of, 1..=20).await;
    is_balanced(&world, shard, 80, 20).await;
    world.stop_node().await;
    for id in shard.all() {
        let (state, version) = if id.number == SHARDS { ("running", 103) } else { ("ended", 104) };
        let (key, version) = (world.keys.sale(id), version.to_string());
        world.server.query::<u64>(&["HSET", &key, "state", state, "version", &version]);
    }
    let mut servers = world.servers();
    let plan = repair::plan(&mut servers).await.unwrap();
    repair::apply_all(&mut servers, &plan, &CancellationToken::new()).await.unwrap();
    assert!(parts(&world, shard).await.iter().all(|it| it.state == SaleState::Ended));
    for id in shard.all() {
        let state: String = world.server.query(&["HGET", &world.keys.sale(id), "state"]);
        assert_eq!(state, "ended", "{id}");
    }
    is_balanced(&world, shard, 80, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_forecasts_the_sums_of_the_shards() {
    let world = World::spread(SHARDS, |settings| settings.claim_idle_ms = 86_400_000).await;
    let of = world.create(sale(80).sharded(SHARDS.into()).unwrap()).await;
    let stuck = world.stick(of, 40, 40).await as u64;
    assert!(stuck > 1);
    let planned = world.execute(Command::Plan(Scope::All(Filter::default()))).await.unwrap();
    let Reply::Planned(plan) = planned else { panic!("{planned:?}") };
    let forecast = SaleForecast {
        voucher_id: of,
        persisted: Change { now: 40 - stuck, after: 40 },
        db_stock: Change { now: 40 + stuck, after: 40 },
    };
    let totals = &plan.totals;
    assert_eq!(totals.sales, [forecast]);
    assert_eq!(totals.forecast.persisted, Change { now: 40 - stuck, after: 40 });
    assert_eq!((totals.forecast.pending.after, totals.forecast.dead.after), (0, 0));
    let applied = world.execute(Command::Apply(plan, Pace::default())).await.unwrap();
    let Reply::Replayed(report) = applied else { panic!("{applied:?}") };
    assert_eq!((report.persisted, report.dead), (stuck, 0), "{report:?}");
    is_balanced(&world, Shards::new(of), 80, 40).await;
}

/// A finding that no command in between explains is not read again, which would take a pause for each shard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_sale_is_audited_with_one_look_at_each_shard() {
    let (mut world, shard) = sharded(80).await;
    world.admit(shard.of, 1..=20).await;
    is_balanced(&world, shard, 80, 20).await;
    world.stop_node().await;
    let audit = async || {
        let mut servers = world.servers();
        let audit = ledger::audit(&mut servers, Some(shard.of)).await.unwrap();
        (audit.findings().count(), servers.conn.commands_sent())
    };
    let (_, whole) = audit().await;
    world.server.query::<()>(&["FLUSHALL"]);
    let (findings, lost) = audit().await;
    assert!(findings >= SHARDS.into() && lost <= whole, "{findings}, {lost} of {whole} commands");
}

#[tokio::test]
async fn no_more_shards_than_partitions() {
    let (world, _) = sharded(16).await;
    let error = world.execute(Command::CreateSale(sale(99).sharded(9).unwrap())).await.unwrap_err();
    assert!(error.to_string().contains("9 shards need as many partitions"), "{error}");
    assert_eq!(world.store.sales().await.unwrap().len(), 8);
    assert!(sale(99).sharded(0).is_err());
    assert!(sale(7).sharded(8).is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shards_of_a_sale_are_archived_together() {
    let (world, shard) = sharded(80).await;
    let archive = async || {
        retention::archive_ended(&mut world.servers(), 0, &CancellationToken::new())
            .await
            .unwrap()
            .sales
    };
    world.node().hold_consumer(true).await;
    let user = users_of(shard, 3).next().unwrap();
    assert!(matches!(world.ask(shard.of, user).await, Outcome::Admitted { .. }));
    world.execute(Command::EndSale(shard.of)).await.unwrap();
    assert_eq!(archive().await, [], "an order of one shard is on its way");
    world.node().hold_consumer(false).await;
    is_balanced(&world, shard, 80, 1).await;
    assert_eq!(archive().await, [shard.of]);
    assert!(parts(&world, shard).await.iter().all(|it| it.state == SaleState::Archived));
    let other = world.create(sale(1)).await;
    world.execute(Command::EndSale(other)).await.unwrap();
    assert_eq!(archive().await, [other]);
    let page = async |before| {
        let page = world.store.archived(before, 1).await.unwrap();
        page.iter().map(|it| (it.voucher_id, it.initial, it.stock)).collect::<Vec<_>>()
    };
    assert_eq!(page(None).await, [(other, 1, 1)]);
    assert_eq!(page(Some(other)).await, [(shard.of, 80, 79)], "one sale, not each shard");
    assert_eq!(page(Some(shard.of)).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_run_removes_the_shards_of_a_sale_whose_archiving_was_interrupted() {
    let (mut world, shard) = sharded(80).await;
    world.execute(Command::EndSale(shard.of)).await.unwrap();
    world.stop_node().await;
    world.store.set_state(shard.of, SaleState::Archived, None, &[]).await.unwrap();
    let has_keys = |id| world.server.query::<bool>(&["EXISTS", &world.keys.stock(id)]);
    assert!(shard.all().all(has_keys));
    let done = retention::archive_ended(&mut world.servers(), 0, &CancellationToken::new()).await;
    assert_eq!(done.unwrap().sales, [], "it was archived before");
    assert!(!shard.all().any(has_keys));
}

/// Its other shards are sold out: nothing can come to those who wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_stays_closed_refuses_the_buyers_of_the_others_at_once() {
    let (world, shard) = sharded(80).await;
    let closed = shard.all().next().unwrap();
    world.admit(shard.of, users_of(shard, 1).take(10)).await;
    world.admit(shard.of, users_of(shard, 2).take(70)).await;
    world.settled().await;
    let _: u64 = world.server.query(&["HSET", &world.keys.buyers(closed), "999", "77"]);
    let key = world.keys.sale(closed);
    world.until("it is closed", async || world.server.query(&["HEXISTS", &key, "oversold"])).await;
    let admission = world.node().operator().admission.clone().unwrap();
    let stranger = users_of(shard, 3).next().unwrap();
    let mut answer = None;
    world
        .until("the reason is known", async || {
            let asked = admission.request(shard.of, UserId(stranger)).answer();
            let within = Duration::from_secs(3);
            let reply = tokio::time::timeout(within, asked).await.expect("an answer at once");
            answer = Some(reply.outcome);
            matches!(answer, Some(Err(AdmissionError::Rejected(_))))
        })
        .await;
    let answer = format!("{:?}", answer.unwrap());
    assert!(answer.contains("oversold"), "{answer}");
}

/// Another program has raised the version of the dry shard in Redis, which ignores what SQL adds to it.
#[tokio::test(flavor = "multi_thread")]
async fn no_pieces_move_to_a_shard_of_which_sql_lacks_changes() {
    let (world, shard) = sharded(40).await;
    world.admits().await;
    let [dry, full] = [1, 2].map(|number| ShardId { sale: shard.of.into(), number });
    let _: u64 = world.server.query(&["HSET", &world.keys.sale(dry), "version", "1000"]);
    let mut servers = world.servers();
    let mut vouchers = Vouchers { servers: &mut servers };
    let error = vouchers.move_pieces(&[(full, 1)], &[(dry, 1)]).await.unwrap_err();
    assert_eq!(error, EngineError::SqlBehind(shard.of));
    assert!(parts(&world, shard).await.iter().all(|part| part.initial == 5));
    assert_eq!(stocks(&world, shard), [5; 8]);
}

/// Two nodes move pieces while the replies to the cuts of one are lost, and SQL is slow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_replies_to_moves_sell_nothing_twice() {
    let (world, shard) = sharded(240).await;
    let proxy = Proxy::before_socket(world.server.socket()).await;
    let other = world.node_through(&proxy.redis_url(), "node-2");
    let theirs = other.operator().admission.clone().unwrap();
    let each = scripts::CUT.get_hash();
    proxy.cut_at_each(each, Cut::After);
    let buying = async {
        let users: Vec<u64> = users_of(shard, 1).take(300).collect();
        for (round, users) in users.chunks(15).enumerate() {
            join_all(users.iter().map(async |user| {
                let admission = if round % 2 == 0 {
                    world.node().operator().admission.clone().unwrap()
                } else {
                    theirs.clone()
                };
                let _ = admission.request(shard.of, UserId(*user)).answer().await;
            }))
            .await;
        }
    };
    let slow = async {
        loop {
            let held = world.lock_database().await;
            tokio::time::sleep(Duration::from_millis(150)).await;
            drop(held);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = buying => {}
        () = slow => {}
    }
    proxy.heal();
    let agrees = async || {
        let parts = parts(&world, shard).await;
        let stocks = stocks(&world, shard);
        parts.iter().zip(stocks).all(|(part, stock)| {
            let buyers: u64 = world.server.query(&["HLEN", &world.keys.buyers(part.id)]);
            let buyers = buyers.saturating_sub(1);
            part.initial == stock + buyers && part.live_orders() == buyers
        })
    };
    world.until("Redis agrees with SQL", agrees).await;
    let sold: u64 = parts(&world, shard).await.iter().map(|it| it.live_orders()).sum();
    is_balanced(&world, shard, 240, sold).await;
    world.admit(shard.of, users_of(shard, 4).take((240 - sold) as usize)).await;
    is_balanced(&world, shard, 240, 240).await;
    other.stop().await;
}

/// Each total is one that the sale had: it is that of the transaction, not of shards that were read at other moments.
#[tokio::test(flavor = "multi_thread")]
async fn each_restock_reports_the_total_that_it_committed() {
    let (world, shards) = sharded(80).await;
    world.admits().await;
    let restock = |by: i64| {
        let mut servers = world.servers();
        tokio::spawn(async move { Vouchers { servers: &mut servers }.restock(shards.of, by).await })
    };
    // Each changes other shards.
    let changes = [7, 3, 5, 7, 3, 5, 7, 3, 5, 7];
    let mut totals = Vec::new();
    for done in join_all(changes.map(restock)).await {
        totals.push(done.unwrap().unwrap());
    }
    totals.sort_unstable();
    let last = 80 + changes.iter().sum::<i64>() as u64;
    assert_eq!(totals.last(), Some(&last), "{totals:?}");
    let mut steps: Vec<_> = std::iter::once(80)
        .chain(totals.iter().copied())
        .zip(&totals)
        .map(|(a, b)| (b - a) as i64)
        .collect();
    steps.sort_unstable();
    let mut expected = changes;
    expected.sort_unstable();
    assert_eq!(steps, expected, "{totals:?}");
}

/// Pieces move to a shard whose stock was read before.
#[tokio::test(flavor = "multi_thread")]
async fn pieces_that_move_while_the_stocks_are_read_are_not_missing() {
    let (world, shards) = sharded(80).await;
    world.admits().await;
    let proxy = Proxy::before_socket(world.server.socket()).await;
    let redis = Redis::from_url(&proxy.redis_url()).unwrap();
    let mut servers = Servers::new(&redis, &world.store, &world.keys);
    let [first, .., last] = shards.all().collect::<Vec<_>>()[..] else { panic!() };
    let key = world.keys.stock(first);
    // Its stock is read, and the others a second later.
    let read = format!("GET\r\n${}\r\n{key}", key.len());
    proxy.cut_at_text(&read, Cut::Late(Duration::from_secs(1)));
    let removing =
        tokio::spawn(
            async move { Vouchers { servers: &mut servers }.restock(shards.of, -75).await },
        );
    world.until("the first stock is read", async || proxy.to_come() == 0).await;
    let mut vouchers = Vouchers { servers: &mut world.servers() };
    let moved = vouchers.move_pieces(&[(last, 10)], &[(first, 10)]).await.unwrap();
    assert!(moved, "no other process changes the shards");
    assert_eq!(removing.await.unwrap().unwrap(), 5);
    assert_eq!(stocks(&world, shards).iter().sum::<u64>(), 5);
    world.settled_and_balanced().await;
}
