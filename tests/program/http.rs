//! `seckill serve` as a process: its command line, and its end during a rush.

use std::{collections::HashSet, net::TcpListener};

use crate::support::{Background, PATIENCE, Seckill, refused, wait_until};
use futures::{StreamExt as _, stream};
use redis::pipe;
use reqwest::Client;
use rustix::process::Signal;
use serde_json::{Value, json};
use uuid::Uuid;

/// Waits for the address in the first line of `seckill serve`.
async fn address_of(server: &mut Background) -> String {
    let mut address = String::new();
    wait_until(PATIENCE, "it serves", async || {
        let shown = server.stdout();
        let found = shown.split_once("http://").and_then(|(_, rest)| rest.split_once(' '));
        address = found.map(|(address, _)| address.to_owned()).unwrap_or_default();
        assert!(server.is_running(), "{}", server.stderr());
        !address.is_empty()
    })
    .await;
    address
}

/// Every ID that a client was given is in SQL, although the server was stopped in the middle.
#[tokio::test(flavor = "multi_thread")]
async fn each_order_given_before_sigterm_is_in_sql() {
    const USERS: u64 = 4_000;
    let home = Seckill::new();
    home.run(&["sale", "create", "--title", "tea", "--stock", "4000"]).expect_code(0);
    let mut server = home.spawn(&["serve", "--listen", "127.0.0.1:0"]);
    let address = address_of(&mut server).await;
    let mut login = pipe();
    let tokens: Vec<String> = (1..=USERS)
        .map(|user| {
            let token = Uuid::new_v4().simple().to_string();
            let session = json!({ "id": user, "nickName": "", "icon": "" }).to_string();
            login.cmd("SET").arg(format!("login:token:{token}")).arg(session).ignore();
            token
        })
        .collect();
    login.query::<()>(&mut home.redis().unwrap()).unwrap();
    let client = Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{address}/voucher-order/seckill/1");
    // A refused connection is no answer; an answer that was begun is complete.
    let ask = async |token: &String| {
        let answer = client.post(&url).header("authorization", token).send().await.ok()?;
        let (status, body) = (answer.status(), answer.json::<Value>().await.ok()?);
        assert!([200, 503].contains(&status.as_u16()), "{status}: {body}");
        (status == 200).then(|| body["data"].as_str().unwrap().to_owned())
    };
    let mut answers = stream::iter(&tokens).map(ask).buffer_unordered(64);
    let mut given = HashSet::new();
    while let Some(answer) = answers.next().await {
        given.extend(answer);
        if given.len() == 500 {
            server.signal(Signal::TERM);
        }
    }
    drop(answers);
    let ended = server.wait(PATIENCE).expect_code(0);
    assert!(ended.stdout.contains("stopped"), "{ended}");
    assert!(given.len() >= 500, "{}", given.len());
    // What the node had admitted and not written is finished by the next one.
    let worker = home.spawn(&["work"]);
    wait_until(PATIENCE, "every entry has settled", async || {
        let status = home.json(&["status"]);
        status["stream"]["lag"] == 0 && status["stream"]["pending"] == 0
    })
    .await;
    worker.signal(Signal::TERM);
    worker.wait(PATIENCE).expect_code(0);
    assert_eq!(home.json(&["audit"])["balanced"], true);
    let mut written = HashSet::new();
    let mut before: Option<String> = None;
    loop {
        let mut args = vec!["orders", "list", "--limit", "1000"];
        if let Some(before) = &before {
            args.extend(["--before", before]);
        }
        let page = home.json(&args);
        let ids = page["orders"].as_array().unwrap().iter();
        written.extend(ids.map(|order| order["id"].as_str().unwrap().to_owned()));
        before = page["next"].as_str().map(str::to_owned);
        if before.is_none() {
            break;
        }
    }
    let lost: Vec<_> = given.difference(&written).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn an_address_that_cannot_be_used_is_reported() {
    let home = Seckill::new();
    let serve = |address: &str| home.run(&["serve", "--listen", address]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    refused(serve(&address), 1, &format!("cannot listen on {address}"));
    refused(serve("0.0.0.0:0"), 2, "--insecure");
    for wrong in ["", "localhost", "127.0.0.1", "127.0.0.1:x", "-1", "127.0.0.1:70000"] {
        refused(serve(wrong), 2, "--listen");
    }
    refused(home.run(&["serve", "--read-only"]), 1, "read-only");
}
