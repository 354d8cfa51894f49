//! Faults on purpose, each alone: what they leave behind, and that they befall nobody else's servers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails says where"
)]

mod support;
mod world;

use std::{collections::HashSet, os::unix::process::ExitStatusExt as _, sync::Arc};

use redis::cmd;
use seckill::{
    broker::{DataDir, ManagedServer, Redis},
    engine::{EngineError, command::RushPlan, drill},
    faults::{KILL_AT, Point},
    model::{Millis, NewSale, Outcome, VoucherId},
};
use support::{BINARY, Background, PATIENCE, Seckill, wait_until};
use world::World;

fn sale(stock: u64) -> NewSale {
    NewSale::checked("hot pot", stock, None, None, Millis::now()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn poison_becomes_dead_letters_and_what_comes_twice_is_written_once() {
    let world = World::start().await;
    let voucher = world.create(sale(100)).await;
    world.rush(RushPlan { repeat: 0.0, ..RushPlan::new(voucher, 40) }).await;
    let (mut link, of) = (world.redis.link(), world.keys.home());
    assert_eq!(drill::duplicate(&mut link, &of, 25).await.unwrap(), 25);
    let kinds = drill::poison(&mut link, &of, drill::Poison::ALL.len()).await.unwrap();
    assert_eq!(kinds, drill::Poison::ALL);
    world.settled().await;
    assert_eq!(world.server.query::<u64>(&["XLEN", &of.dead()]), kinds.len() as u64);
    assert_eq!(world.store.live_orders(voucher, None, 99).await.unwrap().len(), 40);
    world.balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_steps_repeats_no_id() {
    let mut world = World::start().await;
    let voucher = world.create(sale(1_000)).await;
    let mut given = HashSet::new();
    for (round, step) in [0, 90_000, -90_000, -3, 3].into_iter().enumerate() {
        drill::step_clock(step);
        for user in 1..=20 {
            let outcome = world.ask(voucher, round as u64 * 100 + user).await;
            let Outcome::Admitted { order } = outcome else { panic!("{outcome:?}") };
            assert!(given.insert(order), "{order} after {step} s");
        }
        if round % 2 == 1 {
            world.restart_node().await;
        }
    }
    world.settled().await;
    world.balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_programs_own_redis_is_killed() {
    let dir = DataDir::throw_away().unwrap();
    let server = Arc::new(ManagedServer::attach(&dir).unwrap());
    server.ensure().await.unwrap();
    let redis = Redis::from_managed(Arc::clone(&server)).unwrap();
    let run = async || {
        let told: String = redis.link().query(cmd("INFO").arg("server")).await.ok()?;
        told.lines().find_map(|line| line.strip_prefix("run_id:").map(str::to_owned))
    };
    let before = run().await.unwrap();
    drill::kill_redis(&redis).await.unwrap();
    wait_until(PATIENCE, "another one runs", async || run().await.is_some_and(|now| now != before))
        .await;
    server.detach().await.unwrap();

    let world = World::start().await;
    let told = drill::kill_redis(&world.redis).await.unwrap_err();
    assert!(matches!(told, EngineError::Plan(_)), "{told}");
    assert_eq!(world.server.query::<String>(&["PING"]), "PONG");
}

/// The points are in the very program, where it is built for tests.
#[test]
#[cfg(debug_assertions)]
fn the_program_dies_where_it_is_told_and_the_next_one_goes_on() {
    let home = Seckill::new();
    let create = home.args(&["sale", "create", "--title", "t", "--stock", "9"]);
    let told = format!("{}:1", Point::AfterSaleCommit.name());
    let env = [(KILL_AT, told.as_str())];
    let ran = Background::spawn(BINARY, &create, &home, &env).wait(PATIENCE);
    assert_eq!(ran.status.signal(), Some(9), "{ran}");
    let sales = home.run(&["sale", "list", "--json"]).expect_code(0).json();
    let voucher = VoucherId(1).to_string();
    assert!(sales.to_string().contains("\"t\""), "{sales}");
    let rush = ["rush", "--voucher", &voucher, "--users", "20", "--json"];
    let rushed = home.run(&rush).expect_code(0).json();
    assert_eq!(rushed["persisted"], 9, "{rushed}");
    home.run(&["audit"]).expect_code(0);

    // One that believes it is told something must not go on without it.
    let env = [(KILL_AT, "after-lunch:1")];
    let ran = Background::spawn(BINARY, &create, &home, &env).wait(PATIENCE);
    assert_eq!(ran.status.signal(), Some(6), "{ran}");
    assert!(ran.stderr.contains("after-lunch"), "{ran}");
}
