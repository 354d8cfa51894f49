//! The path of an order against a real Redis and a real database: outcomes, batches, recovery.

use std::time::Duration;

use crate::world::{World, newest, sale};
use redis::cmd;
use seckill_engine::{
    commands::{Command, LoadTest, Pace, ReplayReport, Reply, Scope},
    fault_injection,
    ledger::{self, sale_copy},
    orders::ids::IdWorker,
};
use seckill_model::{
    EntryId, Millis, NewSale, OrderError, OrderId, Outcome, SaleState, ShardId, UserId, VoucherId,
    filter::Filter,
};
use seckill_redis::{dead_letters, stream};

#[tokio::test(flavor = "multi_thread")]
async fn each_outcome_is_returned() {
    let world = World::start().await;
    let ask = async |voucher, user| world.ask(voucher, user).await;

    assert_eq!(ask(VoucherId(99), 1).await, Outcome::NotLoaded);

    let voucher = world.create(sale(1)).await;
    let Outcome::Admitted { order } = ask(voucher, 1).await else { panic!("not admitted") };
    assert_eq!(ask(voucher, 1).await, Outcome::Duplicate { order }, "also once it is sold out");
    assert_eq!(ask(voucher, 2).await, Outcome::SoldOut);

    world.execute(Command::PauseSale(voucher)).await.unwrap();
    assert_eq!(ask(voucher, 2).await, Outcome::Paused);
    world.execute(Command::ResumeSale(voucher)).await.unwrap();
    assert_eq!(ask(voucher, 2).await, Outcome::SoldOut);
    world.execute(Command::Restock { voucher, by: 1 }).await.unwrap();
    assert!(matches!(ask(voucher, 2).await, Outcome::Admitted { .. }));
    world.execute(Command::EndSale(voucher)).await.unwrap();
    assert_eq!(ask(voucher, 3).await, Outcome::Ended);

    let begins = Millis::now().plus(3_600_000);
    let later = NewSale::checked("later", 1, Some(begins), None, Millis::now()).unwrap();
    let voucher = world.create(later).await;
    assert_eq!(ask(voucher, 1).await, Outcome::NotStarted { begins });
    world.execute(Command::StartSale(voucher)).await.unwrap();
    assert!(matches!(ask(voucher, 1).await, Outcome::Admitted { .. }));

    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_order_is_admitted_while_the_group_is_missing() {
    let (world, voucher) = World::with_sale(5).await;
    world.hold().await;
    let mut conn = world.redis.connection();
    // The consumer recreates the group as soon as it notices, so retry until the gap is hit.
    let result = async {
        loop {
            let mut destroy = cmd("XGROUP");
            destroy.arg("DESTROY").arg(world.keys.home().orders()).arg(world.keys.home().group());
            conn.query::<u64>(&destroy).await.unwrap();
            if world.ask(voucher, 1).await == Outcome::NotReady {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), result)
        .await
        .expect("NotReady was never returned");
    world.release().await;
    // Recovered: the same buyer gets an order, and the audit passes.
    world.until("the group is back", async || world.obtains(voucher, 1).await).await;
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_beyond_the_queue_are_rejected_immediately() {
    let world = World::with(|settings| settings.queue = 4).await;
    let voucher = world.create(sale(1)).await;
    let plan = LoadTest { concurrency: 1_000, ..LoadTest::new(voucher, 1_000) };
    let report = world.rush(plan).await;
    assert!(report.rejected > 0, "{report:?}");
    assert_eq!(report.errors, 0);
    assert_eq!(report.admitted, 1);
    let attempts = report.admitted + report.sold_out + report.duplicate + report.rejected;
    assert_eq!(attempts, report.attempts);
    world.balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_would_wait_too_long_are_rejected_immediately() {
    for (wait_ms, rejects) in [(1, true), (60_000, false)] {
        let world = World::with(|settings| {
            (settings.queue, settings.queue_wait_ms) = (1_000_000, wait_ms);
        });
        let world = world.await;
        let voucher = world.create(sale(100_000)).await;
        // The rate is measured.
        world.buy(voucher, 20_000).await;
        let admission = world.node().operator().admission.clone().unwrap();
        let buyers = 50_001..=70_000;
        let tickets: Vec<_> =
            buyers.map(|user| admission.request(voucher, UserId(user)).answer()).collect();
        let mut busy = 0;
        for reply in futures::future::join_all(tickets).await {
            match reply.outcome.unwrap() {
                Outcome::Admitted { .. } => {}
                Outcome::Busy => busy += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(busy > 0, rejects, "{busy} were rejected");
        world.settled_and_balanced().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_users_and_a_hundred_pieces() {
    let (world, voucher) = World::with_sale(100).await;
    let report = world.buy(voucher, 1_000).await;
    assert_eq!((report.admitted, report.sold_out, report.duplicate), (100, 900, 0));
    assert_eq!((report.persisted, report.errors, report.settled), (100, 0, true));
    let orders = world.store.live_orders(ShardId::only(voucher), None, 1_000).await.unwrap();
    let mut users: Vec<UserId> = orders.iter().map(|order| order.user_id).collect();
    users.sort_unstable();
    users.dedup();
    assert_eq!(users.len(), 100, "100 different users");
    assert_eq!(world.store.sale(voucher).await.unwrap().stock, 0);
    world.balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_thousand_users_with_ten_percent_duplicates() {
    let mut seen = Vec::new();
    for _ in 0..2 {
        let (world, voucher) = World::with_sale(500).await;
        let plan = LoadTest { seed: 7, ..LoadTest::new(voucher, 20_000) };
        let report = world.rush(plan).await;
        assert_eq!((report.attempts, report.admitted, report.persisted), (22_000, 500, 500));
        world.balanced().await;
        seen.push((report.admitted, report.duplicate, report.sold_out));
    }
    assert_eq!(seen[0], seen[1], "the same seed gives the same counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_thousand_ids_of_three_hundred_tasks_differ() {
    let world = World::start().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..300 {
        let (mut conn, keys) = (world.redis.connection(), world.keys.clone());
        tasks.spawn(async move {
            let mut worker = IdWorker::new(keys.home());
            let mut ids = Vec::new();
            for _ in 0..100 {
                ids.extend(worker.issue(&mut conn, 1).await.unwrap());
            }
            assert!(ids.is_sorted(), "ids of one issuer rise");
            ids
        });
    }
    let mut all: Vec<OrderId> = tasks.join_all().await.into_iter().flatten().collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 30_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_are_unique_across_midnight_and_clock_steps() {
    let world = World::start().await;
    let mut conn = world.redis.connection();
    let mut worker = IdWorker::new(world.keys.home());
    // 2026-11-20T23:59:59Z, midnight, then an hour back, then the next day again.
    let evening = 1_795_219_199;
    let mut all = Vec::new();
    for second in [evening, evening + 1, evening - 3_600, evening, evening + 2] {
        all.extend(worker.issue_at(&mut conn, 3, second).await.unwrap());
    }
    assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "{all:?}");
    // Another worker whose clock is still before midnight.
    let mut late = IdWorker::new(world.keys.home());
    all.extend(late.issue_at(&mut conn, 3, evening).await.unwrap());
    // Redis comes back with an older counter.
    for day in ["2026:11:20", "2026:11:21"] {
        let key = format!("icr:order:{day}");
        conn.query::<()>(cmd("SET").arg(&key).arg(0)).await.unwrap();
    }
    all.extend(worker.issue_at(&mut conn, 10_000, evening + 2).await.unwrap());
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "no id was given twice");
    let ttl: i64 = conn.query(cmd("TTL").arg("icr:order:2026:11:20")).await.unwrap();
    assert!(ttl != 0, "day keys expire");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_sequence_is_an_error_and_never_wraps() {
    let world = World::start().await;
    let mut conn = world.redis.connection();
    let mut worker = IdWorker::new(world.keys.home());
    let now = 1_795_219_199;
    worker.issue_at(&mut conn, 1, now).await.unwrap();
    conn.query::<()>(cmd("SET").arg("icr:order:2026:11:20").arg((1_u64 << 32) - 10)).await.unwrap();
    let mut fresh = IdWorker::new(world.keys.home());
    assert!(fresh.issue_at(&mut conn, 10, now).await.is_ok());
    let error = fresh.issue_at(&mut conn, 1, now).await.unwrap_err();
    assert!(error.to_string().contains("used up"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_entries_become_dead_letters_and_valid_ones_are_written() {
    let (world, voucher) = World::with_sale(50).await;
    world.hold().await;
    let plan = LoadTest { settle: false, repeat: 0.0, ..LoadTest::new(voucher, 50) };
    world.rush(plan).await;
    let v = voucher.to_string();
    let poison: [&[&str]; 7] = [
        &["userId", "7"],
        &["userId", "x", "voucherId", &v, "id", "1"],
        &["userId", "7", "voucherId", &v, "id", "99999999999999999999"],
        &["userId", "7", "voucherId", "4242", "id", "77"],
        &["reason", "mine", "body:userId", "\u{1b}[2J"],
        &["", ""],
        // No buyer was admitted under this one.
        &["userId", "777777", "voucherId", &v, "id", "78"],
    ];
    for fields in poison {
        world.add_entry(fields).await;
    }
    world.release().await;
    world.settled().await;
    assert_eq!(world.store.sale(voucher).await.unwrap().stock, 0, "every good one was written");
    let letters =
        dead_letters::read(&mut world.redis.connection(), &world.keys.home(), EntryId::MIN, 100)
            .await
            .unwrap();
    let reasons: Vec<&str> = letters.iter().map(|letter| &*letter.reason).collect();
    assert_eq!(letters.len(), poison.len(), "{reasons:?}");
    for expected in ["id is missing", "userId holds 'x'", "id holds", "no sale", "no buyer"] {
        assert!(reasons.iter().any(|reason| reason.contains(expected)), "{expected}: {reasons:?}");
    }
    assert!(letters.iter().all(|it| it.reason.data::<OrderError>().is_some()), "{letters:?}");
    let audit = ledger::audit(&mut world.servers(), None).await.unwrap();
    assert!(audit.balanced, "poison that no buyer was promised is no imbalance: {audit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_order_is_acknowledged_once() {
    let (world, voucher) = World::with_sale(10).await;
    let Outcome::Admitted { order } = world.ask(voucher, 5).await else { panic!() };
    world.settled().await;
    let (v, id) = (voucher.to_string(), order.to_string());
    for _ in 0..3 {
        world.add_entry(&["userId", "5", "voucherId", &v, "id", &id]).await;
    }
    // The same buyer under another id: one live order a buyer.
    world.add_entry(&["userId", "5", "voucherId", &v, "id", "12345"]).await;
    world.settled().await;
    assert_eq!(world.store.sale(voucher).await.unwrap().stock, 9, "one piece was taken");
    let letters =
        dead_letters::read(&mut world.redis.connection(), &world.keys.home(), EntryId::MIN, 9)
            .await
            .unwrap();
    assert!(matches!(&letters[..], [only] if only.reason.contains(&id)), "{letters:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_a_dead_consumer_are_taken_over() {
    let world = World::with(|settings| settings.claim_idle_ms = 1_000).await;
    let voucher = world.create(sale(300)).await;
    let stuck = world.stick(voucher, 300, 128).await;
    assert_eq!(stuck, 128);
    world.settled_and_balanced().await;
    assert_eq!(world.store.sale(voucher).await.unwrap().stock, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_taken_over_without_its_body_is_rebuilt() {
    let world = World::with(|settings| settings.claim_idle_ms = 1_000).await;
    let voucher = world.create(sale(40)).await;
    assert_eq!(world.stick(voucher, 40, 20).await, 20);
    let mut conn = world.redis.connection();
    let page = stream::pending_page(&mut conn, &world.keys.home(), EntryId::MIN, EntryId::MAX, 3)
        .await
        .unwrap();
    for row in &page {
        let mut delete = cmd("XDEL");
        delete.arg(world.keys.home().orders()).arg(row.delivered.entry.to_string());
        conn.query::<u64>(&delete).await.unwrap();
    }
    world.settled().await;
    world
        .until("every order is written", async || {
            world.store.sale(voucher).await.unwrap().stock == 0
        })
        .await;
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn own_pending_entries_come_first_after_a_restart() {
    let (mut world, voucher) = World::with_sale(200).await;
    world.hold().await;
    world.rush(LoadTest { settle: false, ..LoadTest::new(voucher, 200) }).await;
    // A killed process leaves entries pending under the name of its consumer.
    let from = stream::ReadFrom::New(Duration::from_millis(100));
    let name = format!("{}/1", crate::world::NODE);
    let held =
        stream::read_group(&mut world.redis.connection(), &world.keys.home(), &name, from, 150)
            .await
            .unwrap();
    assert_eq!(held.len(), 150);
    world.restart_node().await;
    world.settled_and_balanced().await;
}

/// Redis runs one command at a time: a long one would delay the buyers.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_read_claimed_and_acknowledged_in_pages() {
    // The fields of an entry of SLOWLOG; the fourth has the arguments.
    type Logged = (u64, u64, u64, Vec<String>, String, String);
    let buyers = 6 * stream::PAGE;
    let world = World::with(|settings| {
        settings.consumer_batch = buyers;
        settings.claim_idle_ms = 1_000;
    })
    .await;
    // Logs every command.
    let _: () = world.server.query(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    let _: () = world.server.query(&["CONFIG", "SET", "slowlog-max-len", "100000"]);
    let reset = || world.server.query::<()>(&["CONFIG", "RESETSTAT"]);
    let has_pages = |command: &str| {
        let stats: String = world.server.query(&["INFO", "commandstats"]);
        let mut lines = stats.lines();
        let calls = lines.find_map(|it| it.strip_prefix(&format!("cmdstat_{command}:calls=")));
        let calls: u64 = calls.unwrap().split(',').next().unwrap().parse().unwrap();
        assert!(calls >= 6, "{command}: {calls}");
    };
    let voucher = world.create(sale(buyers as u64)).await;
    world.hold().await;
    world.admit(voucher, 1..=buyers as u64).await;
    reset();
    world.release().await;
    world.settled().await;
    has_pages("xack");
    let log: Vec<Logged> = world.server.query(&["SLOWLOG", "GET", "-1"]);
    let reads = log.iter().map(|logged| &logged.3).filter(|args| args[0] == "XREADGROUP");
    let counts: Vec<usize> = reads.map(|args| args[5].parse().unwrap()).collect();
    assert!(counts.len() >= 6 && counts.iter().all(|it| *it <= stream::PAGE), "{counts:?}");
    let voucher = world.create(sale(buyers as u64)).await;
    reset();
    assert_eq!(world.stick(voucher, buyers as u64, buyers).await, buyers);
    world.settled_and_balanced().await;
    has_pages("xclaim");
    has_pages("xack");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_delivered_too_often_becomes_a_dead_letter_unless_it_can_be_written() {
    let mut world = World::with(|settings| settings.max_deliveries = 2).await;
    let voucher = world.create(sale(10)).await;
    let Outcome::Admitted { order } = world.ask(voucher, 1).await else { panic!() };
    world.settled().await;
    world.stop_node().await;
    let (v, id) = (voucher.to_string(), order.to_string());
    world.add_entry(&["userId", "1", "voucherId", &v, "id", &id]).await;
    world.add_entry(&["userId", "2", "voucherId", &v, "id", "4711"]).await;
    world.add_entry(&["userId", "3", "voucherId", &v, "id", "4712"]).await;
    let held = world.keys.buyers(ShardId::only(voucher));
    // The buyers of the others: one order is written, and a process has ended while it tried to write the other one.
    let _: u64 = world.server.query(&["HSET", &held, "2", "4711", "3", "4712"]);
    let _: u64 = world.server.query(&["HINCRBY", &held, "seq", "2"]);
    let _: i64 = world.server.query(&["DECRBY", &world.keys.stock(ShardId::only(voucher)), "2"]);
    let name = format!("{}/1", crate::world::NODE);
    let mut conn = world.redis.connection();
    let new = stream::ReadFrom::New(Duration::from_millis(100));
    assert_eq!(
        stream::read_group(&mut conn, &world.keys.home(), &name, new, 10).await.unwrap().len(),
        3
    );
    let of = world.keys.home();
    let page = stream::pending_page(&mut conn, &of, EntryId::MIN, EntryId::MAX, 9).await.unwrap();
    let last = page.last().unwrap().delivered.entry;
    stream::begin_trial(&mut conn, &of, last).await.unwrap();
    for _ in 0..3 {
        let own = stream::ReadFrom::Own(EntryId::MIN);
        stream::read_group(&mut conn, &world.keys.home(), &name, own, 10).await.unwrap();
    }
    world.start_node();
    world.settled().await;
    let letters = dead_letters::read(&mut conn, &world.keys.home(), EntryId::MIN, 9).await.unwrap();
    assert!(matches!(&letters[..], [only] if only.reason.starts_with("delivered")), "{letters:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_scripts_and_a_lost_group_are_recreated() {
    let (world, voucher) = World::with_sale(3_000).await;
    let plan = LoadTest { rate: Some(3_000.0), ..LoadTest::new(voucher, 3_000) };
    let (report, ()) = tokio::join!(world.rush(plan), async {
        for round in 1..=5 {
            let some = async || world.buyers(voucher).len() > round * 300;
            world.until("some more are admitted", some).await;
            let mut conn = world.redis.connection();
            conn.query::<()>(cmd("SCRIPT").arg("FLUSH")).await.unwrap();
            let mut destroy = cmd("XGROUP");
            destroy.arg("DESTROY").arg(world.keys.home().orders()).arg(world.keys.home().group());
            conn.query::<u64>(&destroy).await.unwrap();
        }
    });
    assert_eq!(report.errors, 0, "{report:?}");
    assert!(report.settled);
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_database_only_delays_orders() {
    let (world, voucher) = World::with_sale(500).await;
    world.admits().await;
    let lock = world.lock_database().await;
    world.rush(LoadTest { settle: false, ..LoadTest::new(voucher, 500) }).await;
    world.until("entries wait", async || world.pending().await > 0).await;
    // Longer than SQLite's busy timeout.
    tokio::time::sleep(Duration::from_millis(5_500)).await;
    assert_eq!(world.store.sale(voucher).await.unwrap().stock, 500, "nothing was written");
    drop(lock);
    world.settled_and_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_notices_each_kind_of_damage() {
    let (mut world, voucher) = World::with_sale(20).await;
    world.buy(voucher, 10).await;
    world.settled().await;
    world.stop_node().await;
    let mut conn = world.redis.connection();
    let (stock, buyers) =
        (world.keys.stock(ShardId::only(voucher)), world.keys.buyers(ShardId::only(voucher)));
    let damage = [
        (cmd("INCR").arg(&stock).clone(), cmd("DECR").arg(&stock).clone(), "is not stock"),
        (
            cmd("HINCRBY").arg(&buyers).arg("seq").arg(1).clone(),
            cmd("HINCRBY").arg(&buyers).arg("seq").arg(-1).clone(),
            "key 'sale' in Redis",
        ),
    ];
    for (break_it, mend_it, words) in damage {
        conn.query::<()>(&break_it).await.unwrap();
        let audit = ledger::audit(&mut world.servers(), None).await.unwrap();
        let findings = &audit.sales[0].findings;
        assert!(
            !audit.balanced && findings.iter().any(|f| f.to_string().contains(words)),
            "{words}: {findings:?}"
        );
        conn.query::<()>(&mend_it).await.unwrap();
        world.balanced().await;
    }
    let user = world.store.live_orders(ShardId::only(voucher), None, 1).await.unwrap()[0].user_id;
    conn.query::<()>(cmd("HDEL").arg(&buyers).arg(user.0)).await.unwrap();
    conn.query::<()>(cmd("INCR").arg(&stock)).await.unwrap();
    let audit = ledger::audit(&mut world.servers(), None).await.unwrap();
    assert!(
        audit.sales[0].findings.iter().any(|f| f.to_string().contains("no buyer in Redis")),
        "{audit:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_applies_each_verdict() {
    let world = World::with(|settings| settings.claim_idle_ms = 3_600_000).await;
    let voucher = world.create(sale(100)).await;
    assert_eq!(world.stick(voucher, 100, 60).await, 60);
    assert_eq!(world.pending().await, 60);
    let mut conn = world.redis.connection();
    let page = stream::pending_page(&mut conn, &world.keys.home(), EntryId::MIN, EntryId::MAX, 100)
        .await
        .unwrap();
    let held: Vec<_> = page.iter().filter_map(|row| row.delivered.order()).collect();
    // One order is in SQL already, the body of another entry is deleted.
    world.store.write_orders(&held[..1], Millis::now()).await.unwrap();
    conn.query::<u64>(cmd("XDEL").arg(world.keys.home().orders()).arg(held[1].entry.to_string()))
        .await
        .unwrap();

    // Three marked entries first: the command identifies entries by ID.
    let marked = Scope::Entries(held[2..5].iter().map(|entry| entry.entry).collect());
    let report = world.replay(marked).await;
    assert_eq!((report.seen, report.persisted), (3, 3), "{report:?}");
    assert_eq!(world.pending().await, 57);
    let gone = Scope::Entries(vec![held[2].entry]);
    assert_eq!(world.replay(gone).await, ReplayReport::default());

    let report = world.replay(Scope::All(Filter::default())).await;
    assert_eq!((report.seen, report.persisted), (57, 55), "{report:?}");
    assert_eq!((report.rebuilt, report.lost, report.dead), (1, 0, 0), "{report:?}");
    world.settled_and_balanced().await;
    let entries = newest(&world.store, 10).await;
    assert!(
        entries
            .iter()
            .any(|entry| entry.action == "pending apply" && entry.result.contains("57 entries")),
        "{entries:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_a_live_node_are_left_alone() {
    let world = World::with(|settings| settings.claim_idle_ms = 3_600_000).await;
    let voucher = world.create(sale(10)).await;
    world.hold().await;
    world.rush(LoadTest { settle: false, repeat: 0.0, ..LoadTest::new(voucher, 10) }).await;
    let name = format!("{}/2", crate::world::NODE);
    let from = stream::ReadFrom::New(Duration::from_millis(100));
    stream::read_group(&mut world.redis.connection(), &world.keys.home(), &name, from, 10)
        .await
        .unwrap();
    let report = world.replay(Scope::All(Filter::default())).await;
    assert_eq!((report.seen, report.left, report.persisted), (10, 10, 0), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_is_loaded_after_its_commit_and_never_replaced_by_an_older_copy() {
    let (world, voucher) = World::with_sale(5).await;
    let old = world.store.shard(ShardId::only(voucher)).await.unwrap();
    world.execute(Command::EndSale(voucher)).await.unwrap();
    let taken = sale_copy::sync(&mut world.servers(), &old, "").await.unwrap();
    assert_eq!(taken, sale_copy::Synced::Newer(2), "an older version was taken over");
    assert_eq!(world.ask(voucher, 1).await, Outcome::Ended);
    assert!(world.execute(Command::ResumeSale(voucher)).await.is_err(), "ended is for good");
    assert_eq!(world.store.sale(voucher).await.unwrap().state, SaleState::Ended);
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_mode_refuses_every_command_in_the_engine() {
    let (mut world, voucher) = World::with_sale(5).await;
    world.stop_node().await;
    world.read_only = true;
    world.start_node();
    // Reading is no command.
    let all = Command::Plan(Scope::All(Filter::default()));
    let Reply::Planned(plan) = world.execute(all).await.unwrap() else { panic!() };
    for command in [
        Command::CreateSale(sale(1)),
        Command::StartSale(voucher),
        Command::PauseSale(voucher),
        Command::ResumeSale(voucher),
        Command::EndSale(voucher),
        Command::Restock { voucher, by: 1 },
        Command::LoadTest(LoadTest::new(voucher, 1)),
        Command::Apply(plan, Pace::default()),
        Command::StopLoadTest(voucher),
        Command::Cancel,
    ] {
        let error = world.execute(command.clone()).await.unwrap_err();
        assert!(error.to_string().starts_with("read-only"), "{command:?}: {error}");
    }
    assert_eq!(world.store.sales().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_found_in_every_state() {
    use seckill_engine::orders::{Location, find};
    let world = World::with(|settings| settings.claim_idle_ms = 3_600_000).await;
    let voucher = world.create(sale(3)).await;
    world.hold().await;
    let mut orders = Vec::new();
    for user in 1..=3 {
        let Outcome::Admitted { order } = world.ask(voucher, user).await else { panic!() };
        orders.push(order);
    }
    let mut conn = world.redis.connection();
    let stand = async |id| find(&mut world.servers(), id).await;
    assert!(matches!(stand(orders[0]).await, Ok(Location::Undelivered { .. })));
    fault_injection::die_with_batch(&world.redis, &world.keys, "node-b", 2, 600_000).await.unwrap();
    assert!(matches!(stand(orders[0]).await, Ok(Location::Pending { .. })));
    let first = stream::pending_page(&mut conn, &world.keys.home(), EntryId::MIN, EntryId::MAX, 1)
        .await
        .unwrap();
    let buried = [(first[0].delivered.entry, "a drill".into())];
    dead_letters::bury_all(&mut conn, &world.keys.home(), &buried).await.unwrap();
    assert!(
        matches!(stand(orders[0]).await, Ok(Location::Dead { reason, .. }) if &*reason == "a drill")
    );
    world.release().await;
    world
        .until("the last is written", async || {
            world.store.order(orders[2]).await.unwrap().is_some()
        })
        .await;
    assert!(matches!(stand(orders[2]).await, Ok(Location::Persisted { .. })));
    assert!(matches!(stand(OrderId::from_i64(1).unwrap()).await, Ok(Location::Unknown)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_order_lock_delays_orders_without_loss() {
    use seckill_engine::locks::{LockName, Locks, Timing};
    let world = World::with(|settings| settings.order_lock = true).await;
    let voucher = world.create(sale(40)).await;
    let keys = world.keys.clone();
    let (locks, keeper) = Locks::new(&world.redis, keys, "elsewhere", Timing::default());
    let keeping = tokio::spawn(keeper.run(world.node().stopping().clone()));
    let name = LockName::new("order:7").unwrap();
    let guard = locks.try_lock(&name, "test").await.unwrap();
    assert!(matches!(world.ask(voucher, 7).await, Outcome::Admitted { .. }));
    world.until("the order is delivered", async || world.pending().await == 1).await;
    // Those that come later do not wait for it.
    let plan = LoadTest { settle: false, repeat: 0.0, ..LoadTest::new(voucher, 40) };
    assert_eq!(world.rush(plan).await.admitted, 39);
    world
        .until("all the others are written", async || {
            world.store.sale(voucher).await.unwrap().stock == 1 && world.pending().await == 1
        })
        .await;
    guard.release().await.unwrap();
    world.settled_and_balanced().await;
    assert_eq!(world.store.sale(voucher).await.unwrap().stock, 0);
    let left: Vec<String> = world.server.query(&["KEYS", "lock:order:*"]);
    assert!(left.is_empty(), "{left:?}");
    keeping.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_malformed_key_is_reported_and_hides_no_other_sale() {
    let mut world = World::start().await;
    let (bad, good) = (world.create(sale(5)).await, world.create(sale(7)).await);
    world.stop_node().await;
    let key = world.keys.stock(ShardId::only(bad));
    let _: () = world.server.query(&["SET", &key, "kaputt"]);
    let audit = ledger::audit(&mut world.servers(), Some(bad)).await.unwrap();
    let findings = &audit.sales[0].findings;
    assert!(findings.iter().any(|it| it.to_string().contains("'stock'")), "{findings:?}");
    world.start_node();
    world
        .until("both stocks are shown", async || {
            let snapshot = world.node().remote().snapshots.borrow().clone();
            let stock = |voucher| snapshot.sale(voucher).and_then(|sale| sale.stock);
            snapshot.redis.up && (stock(bad), stock(good)) == (Some(5), Some(7))
        })
        .await;
    assert!(matches!(world.ask(bad, 1).await, Outcome::Admitted { .. }));
    world.settled_and_balanced().await;
}
