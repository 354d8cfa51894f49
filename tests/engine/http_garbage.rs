//! Whatever a client sends over HTTP is answered with a reason, and never harms the server.
//!
//! `PROPTEST_CASES=100000 cargo test --test engine http_garbage` sends that many requests of each kind.

use std::collections::BTreeMap;

use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};
use reqwest::Method;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    http::{Door, log_in, operator_token},
    support::PATIENCE,
    world::World,
};

/// Requests of each kind, unless `PROPTEST_CASES` says otherwise.
const CASES: usize = 300;

/// Every field of every document that is read, and one that is none.
const FIELDS: &[&str] = &[
    "title",
    "subTitle",
    "rules",
    "shopId",
    "payValue",
    "actualValue",
    "type",
    "status",
    "stock",
    "limit",
    "beginTime",
    "endTime",
    "shards",
    "by",
    "phone",
    "code",
    "id",
    "createTime",
    "surplus",
];

/// A value of each type of JSON, in and out of the range of each field.
fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop_oneof![-3..30_i64, any::<i64>()].prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,40}".prop_map(Value::from),
        "20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z?".prop_map(Value::from),
        "1[0-9]{10}|[0-9]{6}".prop_map(Value::from),
        prop::collection::vec(any::<i8>(), 0..3).prop_map(Value::from),
    ]
}

fn document() -> impl Strategy<Value = Vec<u8>> {
    let object = prop::collection::btree_map(prop::sample::select(FIELDS), value(), 0..8);
    let object = object.prop_map(|fields| serde_json::to_vec(&fields).unwrap());
    prop_oneof![4 => object, 1 => prop::collection::vec(any::<u8>(), 0..200)]
}

fn path() -> impl Strategy<Value = String> {
    let id = prop_oneof!["[0-9]{1,20}", "-?[0-9a-z%.]{0,8}", Just("1".to_owned())];
    let places = [
        "/voucher",
        "/voucher/seckill",
        "/voucher/{}",
        "/voucher/{}/stock",
        "/voucher/list/{}",
        "/voucher-order/{}",
        "/voucher-order/seckill/{}",
        "/voucher-order/{}/pay",
        "/user/code",
        "/user/login",
        "/user/me",
        "/metrics",
        "/healthz",
        "/readyz",
        "/openapi.json",
        "/{}",
    ];
    (prop::sample::select(places.to_vec()), id).prop_map(|(place, id)| place.replace("{}", &id))
}

fn cases() -> usize {
    std::env::var("PROPTEST_CASES").map_or(CASES, |cases| cases.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn any_request_gets_a_reason() {
    let (world, _) = World::with_sale(10).await;
    let door = Door::with(&world, |settings| settings.demo_login = true);
    let (_, operator) = operator_token(&world, "till").await;
    let user = log_in(&world, [1]).await.remove(0);
    let mut runner = TestRunner::default();
    let methods = vec![Method::GET, Method::POST, Method::PUT, Method::DELETE];
    let tokens = vec![operator, user, String::new(), "nonsense".to_owned()];
    let request = (prop::sample::select(methods), path(), prop::sample::select(tokens), document());
    let mut seen = BTreeMap::<u16, usize>::new();
    for _ in 0..cases() {
        let (method, path, token, body) = request.new_tree(&mut runner).unwrap().current();
        let sent = door.request(method.clone(), &path, &token).body(body.clone()).send().await;
        let status = sent.unwrap().status().as_u16();
        let text = String::from_utf8_lossy(&body);
        assert_ne!(status, 500, "{method} {path} with {text}");
        *seen.entry(status).or_default() += 1;
    }
    println!("answers by status: {seen:?}");
    for status in [200, 400, 401, 403, 404, 405] {
        assert!(seen.contains_key(&status), "no request got as far as {status}: {seen:?}");
    }
    // What was sold and created meanwhile is as sound as ever.
    world.settled_and_balanced().await;
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_request_harm_no_other() {
    let (world, _) = World::with_sale(10).await;
    let door = Door::open(&world);
    let mut runner = TestRunner::default();
    let head = "(GET|POST|PUT|\\PC{0,9}) /[a-z/%0-9]{0,20} HTTP/1.[0-9]\r\n([a-z-]{1,20}: ?[ -~]{0,30}\r\n){0,6}(\r\n)?";
    let head = proptest::string::bytes_regex(head).unwrap();
    let sent = prop_oneof![head, prop::collection::vec(any::<u8>(), 0..300)];
    for _ in 0..cases() {
        let bytes = sent.new_tree(&mut runner).unwrap().current();
        let mut client = TcpStream::connect(door.address).await.unwrap();
        // The server may have closed it by now.
        let _ = client.write_all(&bytes).await;
        let _ = client.shutdown().await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(PATIENCE, client.read_to_end(&mut answer)).await;
        assert!(read.is_ok(), "{} is left open", bytes.escape_ascii());
    }
    let got = door.send(Method::GET, "/voucher/1", "").await;
    assert_eq!(got.status, 200, "{}", got.body);
    door.close().await;
}
