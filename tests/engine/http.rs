//! The HTTP door before a real engine: admission, results, payment, refusals, limits, and its end.

use std::{collections::HashSet, net::SocketAddr, time::Duration};

use crate::support::{PATIENCE, wait_until};
use crate::world::{World, sale};
use futures::{
    StreamExt as _,
    stream::{self, FuturesUnordered},
};
use redis::{cmd, pipe};
use reqwest::{Client, Method, StatusCode, header::RETRY_AFTER};
use seckill_engine::commands::Command;
use seckill_http::{HttpSettings, Server, ServerError};
use seckill_model::{EntryId, Label, Message, Millis, NewSale, VoucherId};
use seckill_redis::dead_letters::bury_all;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// A server before the node of a world, and a client.
struct Door {
    address: SocketAddr,
    client: Client,
    stop: CancellationToken,
    ended: JoinHandle<Result<(), ServerError>>,
}

/// An answer: status, headers and the document.
struct Got {
    status: u16,
    retry: bool,
    body: Value,
}

impl Door {
    fn open(world: &World) -> Self {
        Self::with(world, |_| {})
    }

    fn with(world: &World, change: impl FnOnce(&mut HttpSettings)) -> Self {
        let mut settings = HttpSettings::default();
        change(&mut settings);
        let server = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (address, stop) = (server.address(), CancellationToken::new());
        let (operator, stopping) = (world.node().operator().clone(), stop.clone());
        let ended = tokio::spawn(async move { server.run(&operator, settings, stopping).await });
        let client = Client::builder().no_proxy().build().unwrap();
        Self { address, client, stop, ended }
    }

    async fn send(&self, method: Method, path: &str, token: &str) -> Got {
        self.in_language(method, path, token, "").await
    }

    async fn in_language(&self, method: Method, path: &str, token: &str, language: &str) -> Got {
        let url = format!("http://{}{path}", self.address);
        let request = self.client.request(method, url).header("authorization", token);
        let response = request.header("accept-language", language).send().await.unwrap();
        let status = response.status();
        let retry = response.headers().contains_key(RETRY_AFTER);
        assert!(response.headers().contains_key("x-request-id"), "{path}");
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["success"] == true, status == StatusCode::OK, "{path}: {body}");
        assert_eq!(body["errorMsg"].is_null(), status == StatusCode::OK, "{path}: {body}");
        Got { status: status.as_u16(), retry, body }
    }

    async fn buy(&self, voucher: impl std::fmt::Display, token: &str) -> Got {
        self.send(Method::POST, &format!("/voucher-order/seckill/{voucher}"), token).await
    }

    async fn order(&self, id: &str, token: &str) -> Got {
        self.send(Method::GET, &format!("/voucher-order/{id}"), token).await
    }

    async fn pay(&self, id: &str, token: &str) -> Got {
        self.send(Method::POST, &format!("/voucher-order/{id}/pay"), token).await
    }

    /// Waits until the order has this state; it is never unknown on the way.
    async fn until_state(&self, id: &str, token: &str, state: &str) {
        wait_until(PATIENCE, state, async || {
            let got = self.order(id, token).await;
            assert_ne!(got.status, 404, "an order that was promised: {}", got.body);
            got.body["data"]["state"] == state
        })
        .await;
    }

    async fn close(self) {
        self.stop.cancel();
        self.ended.await.unwrap().unwrap();
    }
}

/// Logs users in as the tutorials do; returns their tokens.
async fn log_in(world: &World, users: impl IntoIterator<Item = u64>) -> Vec<String> {
    let (mut login, mut tokens) = (pipe(), Vec::new());
    for user in users {
        let token = Uuid::new_v4().simple().to_string();
        let session = json!({ "id": user, "nickName": format!("user_{user}"), "icon": "" });
        let key = world.keys.session(&token);
        login.cmd("SET").arg(key).arg(session.to_string()).arg("EX").arg(600).ignore();
        tokens.push(token);
    }
    world.servers().conn.pipe::<()>(&login).await.unwrap();
    tokens
}

async fn log_in_one(world: &World, user: u64) -> String {
    log_in(world, [user]).await.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_users_get_a_hundred_orders_over_http() {
    let (world, voucher) = World::with_sale(100).await;
    let door = Door::open(&world);
    let tokens = log_in(&world, 1..=1_000).await;
    let asking = stream::iter(&tokens).map(async |token| (token, door.buy(voucher, token).await));
    let answers: Vec<_> = asking.buffer_unordered(200).collect().await;
    let mut ids = HashSet::new();
    for (token, got) in &answers {
        match got.status {
            200 => {
                let id = got.body["data"].as_str().expect("the ID is a string");
                assert!(ids.insert(id.to_owned()), "{id} was given twice");
                let found = door.order(id, token).await;
                assert!(found.status == 200, "{}", found.body);
                // The retry of a buyer whose answer was lost.
                let again = door.buy(voucher, token).await;
                assert_eq!((again.status, &again.body["data"]), (409, &json!(id)));
                assert_eq!(again.body["code"], 2);
            }
            _ => assert_eq!((got.status, &got.body["code"]), (410, &json!(1)), "{}", got.body),
        }
    }
    assert_eq!((ids.len(), answers.len()), (100, 1_000));
    world.settled_and_balanced().await;
    let rows = world.store.live_orders(voucher, None, 1_000).await.unwrap();
    let rows: HashSet<String> = rows.into_iter().map(|order| order.id.to_string()).collect();
    assert_eq!(rows, ids, "what was promised is what was written");
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_queued_then_persisted_then_paid() {
    let (world, voucher) = World::with_sale(10).await;
    let door = Door::open(&world);
    let [token, other] = log_in(&world, [1, 2]).await.try_into().unwrap();
    world.hold().await;
    let got = door.buy(voucher, &token).await;
    let id = got.body["data"].as_str().unwrap();
    let queued = door.order(id, &token).await;
    assert_eq!((queued.status, &queued.body["data"]["state"]), (200, &json!("queued")));
    let early = door.pay(id, &token).await;
    assert_eq!((early.status, &early.body["data"]["state"]), (409, &json!("queued")));
    assert_eq!(door.order(id, &other).await.status, 404, "the order of another user");
    world.release().await;
    door.until_state(id, &token, "persisted").await;
    let foreign = door.pay(id, &other).await;
    assert_eq!((foreign.status, &foreign.body["data"]["state"]), (404, &json!("unknown")));
    for _ in 0..2 {
        let paid = door.pay(id, &token).await;
        assert_eq!((paid.status, &paid.body["data"]["state"]), (200, &json!("paid")));
        assert!(paid.body["data"]["payTime"].is_string(), "{}", paid.body);
    }
    door.close().await;
}

/// The streams of XREADGROUP, each with its entries.
type Delivered = Vec<(String, Vec<(String, Vec<String>)>)>;

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_reported_to_its_buyer_alone() {
    let (world, voucher) = World::with_sale(10).await;
    let door = Door::open(&world);
    let [token, other] = log_in(&world, [1, 2]).await.try_into().unwrap();
    world.hold().await;
    let got = door.buy(voucher, &token).await;
    let id = got.body["data"].as_str().unwrap();
    let (mut servers, of) = (world.servers(), world.keys.home());
    let mut take = cmd("XREADGROUP");
    take.arg("GROUP").arg(of.group()).arg("lost/1").arg("STREAMS").arg(of.orders()).arg(">");
    let delivered: Delivered = servers.conn.query(&take).await.unwrap();
    let entry: EntryId = delivered[0].1[0].0.parse().unwrap();
    let why = Message::from(Label("common-lag"));
    assert_eq!(bury_all(&mut servers.conn, &of, &[(entry, why)]).await.unwrap(), 1);
    let dead = door.order(id, &token).await;
    assert_eq!((dead.status, &dead.body["data"]["state"]), (200, &json!("dead_letter")));
    assert_eq!(door.pay(id, &token).await.status, 409);
    assert_eq!(door.order(id, &other).await.status, 404);
    door.close().await;
}

/// Redis forgets all promises; the node restores those that it remembers.
#[tokio::test(flavor = "multi_thread")]
async fn a_promised_order_is_never_unknown_while_redis_is_reconciled() {
    let (world, voucher) = World::with_sale(10).await;
    let door = Door::open(&world);
    let token = log_in_one(&world, 1).await;
    world.hold().await;
    let got = door.buy(voucher, &token).await;
    let id = got.body["data"].as_str().unwrap();
    // The session survives, so that the buyer can ask meanwhile.
    let session: Vec<u8> = world.server.query(&["GET", &world.keys.session(&token)]);
    let _: () = world.server.query(&["FLUSHALL"]);
    let session = String::from_utf8(session).unwrap();
    let _: () = world.server.query(&["SET", &world.keys.session(&token), &session]);
    door.until_state(id, &token, "queued").await;
    world.release().await;
    door.until_state(id, &token, "persisted").await;
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_has_its_status_and_its_sentence() {
    let world = World::start().await;
    let door = Door::open(&world);
    let token = log_in_one(&world, 1).await;
    let later = Millis::now().plus(3_600_000);
    let planned = NewSale::checked("tea", 5, Some(later), None, Millis::now()).unwrap();
    let planned = world.create(planned).await;
    let ended = world.create(sale(5)).await;
    world.execute(Command::EndSale(ended)).await.unwrap();
    let paused = world.create(sale(5)).await;
    world.execute(Command::PauseSale(paused)).await.unwrap();
    let buy = |id: VoucherId| format!("/voucher-order/seckill/{id}");
    let forged = Uuid::new_v4().to_string();
    for (method, path, token, status, code, sentence) in [
        (Method::POST, buy(planned), &*token, 425, 425, "秒杀尚未开始"),
        (Method::POST, buy(ended), &token, 410, 410, "秒杀已经结束"),
        (Method::POST, buy(paused), &token, 503, 503, "秒杀已暂停"),
        (Method::POST, buy(VoucherId(999)), &token, 404, 3, "库存数据不存在"),
        (Method::POST, buy(VoucherId(0)), &token, 400, 400, "优惠券编号"),
        (Method::POST, "/voucher-order/seckill/1e3".to_owned(), &token, 400, 400, "优惠券编号"),
        (Method::POST, buy(VoucherId(u64::MAX)), &token, 400, 400, "优惠券编号"),
        (Method::POST, "/voucher-order/seckill/%ff".to_owned(), &token, 400, 400, "路径无效"),
        (Method::POST, buy(planned), "", 401, 401, "未登录"),
        (Method::POST, buy(planned), "x", 401, 401, "未登录"),
        (Method::POST, buy(planned), &forged, 401, 401, "未登录"),
        (Method::GET, "/voucher-order/9223372036854775808".to_owned(), &token, 400, 400, "订单号"),
        (Method::GET, "/voucher-order/7".to_owned(), &token, 404, 404, "没有这个订单"),
        (Method::POST, "/voucher-order/7/pay".to_owned(), &token, 404, 404, "没有这个订单"),
        (Method::GET, "/voucher-order/7".to_owned(), "", 401, 401, "未登录"),
        (Method::GET, "/nowhere".to_owned(), &token, 404, 404, "路径不存在"),
        (Method::DELETE, buy(planned), &token, 405, 405, "不支持此请求方法"),
    ] {
        let got = door.in_language(method, &path, token, "zh-CN,zh;q=0.9,en;q=0.8").await;
        let (body, said) = (&got.body, got.body["errorMsg"].as_str().unwrap());
        assert_eq!((got.status, &body["code"]), (status, &json!(code)), "{path}: {body}");
        assert!(said.contains(sentence), "{path}: {body}");
        assert_eq!(got.retry, status == 503, "{path}");
    }
    let got = door.buy(planned, &token).await;
    assert_eq!(got.body["data"]["begin"], later.to_string(), "{}", got.body);
    assert!(got.body["errorMsg"].as_str().unwrap().is_ascii());
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_follows_the_servers_and_liveness_does_not() {
    let mut world = World::start().await;
    let door = Door::open(&world);
    let ready = async || door.send(Method::GET, "/readyz", "").await;
    wait_until(PATIENCE, "it is ready", async || ready().await.status == 200).await;
    world.server.kill();
    wait_until(PATIENCE, "it is not ready", async || {
        let got = ready().await;
        assert!([200, 503].contains(&got.status), "{}", got.body);
        got.status == 503 && got.retry && got.body["data"]["redis"] == false
    })
    .await;
    assert_eq!(ready().await.body["data"]["sql"], true);
    assert_eq!(door.send(Method::GET, "/healthz", "").await.status, 200);
    world.server.restart();
    wait_until(PATIENCE, "it is ready again", async || ready().await.status == 200).await;
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn overload_is_told_at_once_and_what_is_in_flight_is_answered_at_the_end() {
    const USERS: usize = 20;
    let (world, voucher) = World::with_sale(100).await;
    let door = Door::with(&world, |settings| settings.requests = 1);
    let tokens = log_in(&world, 1..=USERS as u64).await;
    world.server.freeze();
    let mut asking: FuturesUnordered<_> =
        tokens.iter().map(|token| door.buy(voucher, token)).collect();
    // One of them waits for Redis; the others do not wait for that one.
    for _ in 1..USERS {
        let got = asking.next().await.unwrap();
        let said = got.body["errorMsg"].as_str().unwrap();
        assert!(got.status == 503 && got.retry, "{}", got.body);
        assert!(said.starts_with("too many requests"), "{said}");
    }
    door.stop.cancel();
    wait_until(PATIENCE, "no further connection is accepted", async || {
        TcpStream::connect(door.address).await.is_err()
    })
    .await;
    assert!(!door.ended.is_finished(), "a request is in flight");
    world.server.thaw();
    let last = asking.next().await.unwrap();
    assert_eq!(last.status, 200, "{}", last.body);
    drop(asking);
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_bounded_and_idle_ones_are_closed() {
    let world = World::start().await;
    let door = Door::with(&world, |settings| {
        (settings.connections, settings.header_ms) = (2, 1_000);
    });
    let mut open = Vec::new();
    for half in ["", "POST / HTTP/1.1\r\nHost: x\r\n"] {
        let mut idle = TcpStream::connect(door.address).await.unwrap();
        idle.write_all(half.as_bytes()).await.unwrap();
        open.push(idle);
    }
    let ends = async |mut stream: TcpStream| {
        let mut rest = Vec::new();
        // The peer may reset a connection whose bytes it has not read.
        let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await.unwrap();
        String::from_utf8(rest).unwrap()
    };
    // Accepted in the order in which they came.
    assert_eq!(ends(TcpStream::connect(door.address).await.unwrap()).await, "");
    for idle in open {
        ends(idle).await;
    }
    wait_until(PATIENCE, "their places are free again", async || {
        let request = door.client.get(format!("http://{}/healthz", door.address));
        request.timeout(Duration::from_secs(5)).send().await.is_ok_and(|it| it.status() == 200)
    })
    .await;
    door.close().await;
}
