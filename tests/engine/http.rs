//! The HTTP API on a real engine: admission, results, payment, refusals, limits, and its end.

use std::{
    collections::{BTreeMap, HashSet},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use crate::support::{PATIENCE, http_client, wait_until};
use crate::world::{World, newest, sale};
use futures::{
    StreamExt as _,
    stream::{self, FuturesUnordered},
};
use redis::{cmd, pipe};
use reqwest::{Client, Method, RequestBuilder, StatusCode, header::RETRY_AFTER};
use seckill_engine::{
    commands::Command,
    orders::{self, Location},
};
use seckill_http::{HttpSettings, Secret, Server, ServerError};
use seckill_model::{
    EntryId, Fence, Label, Message, Millis, NewSale, ShardId, UserId, VoucherId, user::Role,
};
use seckill_redis::dead_letters::bury_all;
use serde_json::{Value, json};
use sqlx::Executor as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The HTTP server of the node of a world, and a client.
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    /// That for operators, if they have their own.
    pub(crate) admin: Option<SocketAddr>,
    client: Client,
    pub(crate) stop: CancellationToken,
    ended: JoinHandle<Result<(), ServerError>>,
}

/// An answer: status, headers and the document.
pub(crate) struct Got {
    pub(crate) status: u16,
    /// Seconds of `Retry-After`.
    pub(crate) wait: Option<u64>,
    retry: bool,
    pub(crate) body: Value,
}

impl Door {
    pub(crate) fn open(world: &World) -> Self {
        Self::with(world, |_| {})
    }

    pub(crate) fn with(world: &World, change: impl FnOnce(&mut HttpSettings)) -> Self {
        Self::on(world, false, change)
    }

    /// With an address for operators, or without.
    pub(crate) fn on(world: &World, admin: bool, change: impl FnOnce(&mut HttpSettings)) -> Self {
        let mut settings = HttpSettings::default();
        change(&mut settings);
        let any = "127.0.0.1:0".parse().unwrap();
        let server = Server::bind(any).unwrap();
        let server = if admin { server.with_admin(any).unwrap() } else { server };
        let (address, admin, stop) =
            (server.address(), server.admin_address(), CancellationToken::new());
        let (operator, stopping) = (world.node().operator().clone(), stop.clone());
        let snapshots = world.node().remote().snapshots;
        let ended =
            tokio::spawn(async move { server.run(&operator, snapshots, settings, stopping).await });
        Self { address, admin, client: http_client(), stop, ended }
    }

    pub(crate) async fn send(&self, method: Method, path: &str, token: &str) -> Got {
        self.got(path, self.request(method, path, token)).await
    }

    /// With a document as its body.
    pub(crate) async fn put(
        &self,
        method: Method,
        path: &str,
        token: &str,
        body: impl Into<String>,
    ) -> Got {
        self.got(path, self.request(method, path, token).body(body.into())).await
    }

    async fn in_language(&self, method: Method, path: &str, token: &str, language: &str) -> Got {
        let request = self.request(method, path, token).header("accept-language", language);
        self.got(path, request).await
    }

    pub(crate) fn request(&self, method: Method, path: &str, token: &str) -> RequestBuilder {
        self.request_at(self.address, method, path, token)
    }

    pub(crate) fn request_at(
        &self,
        address: SocketAddr,
        method: Method,
        path: &str,
        token: &str,
    ) -> RequestBuilder {
        let url = format!("http://{address}{path}");
        self.client.request(method, url).header("authorization", token)
    }

    pub(crate) async fn got(&self, path: &str, request: RequestBuilder) -> Got {
        let response = request.send().await.unwrap();
        let status = response.status();
        let wait = response.headers().get(RETRY_AFTER);
        let wait: Option<u64> = wait.map(|it| it.to_str().unwrap().parse().unwrap());
        let retry = wait.is_some();
        assert!(response.headers().contains_key("x-request-id"), "{path}");
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["success"] == true, status == StatusCode::OK, "{path}: {body}");
        assert_eq!(body["errorMsg"].is_null(), status == StatusCode::OK, "{path}: {body}");
        Got { status: status.as_u16(), wait, retry, body }
    }

    async fn buy(&self, voucher: impl std::fmt::Display, token: &str) -> Got {
        self.send(Method::POST, &format!("/voucher-order/seckill/{voucher}"), token).await
    }

    pub(crate) async fn order(&self, id: &str, token: &str) -> Got {
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

    pub(crate) async fn close(self) {
        self.stop.cancel();
        self.ended.await.unwrap().unwrap();
    }
}

/// Logs users in as the tutorials do; returns their tokens.
pub(crate) async fn log_in(world: &World, users: impl IntoIterator<Item = u64>) -> Vec<String> {
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
    let rows = world.store.live_orders(ShardId::only(voucher), None, 1_000).await.unwrap();
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

#[tokio::test(flavor = "multi_thread")]
async fn an_order_whose_sale_goes_back_to_another_service_is_not_paid_here() {
    let (world, voucher) = World::with_sale(10).await;
    let door = Door::open(&world);
    let token = log_in_one(&world, 1).await;
    let got = door.buy(voucher, &token).await;
    let id = got.body["data"].as_str().unwrap();
    door.until_state(id, &token, "persisted").await;
    let fence = Fence { name: "operator".into(), token: 1 };
    world.store.freeze_orders(voucher, Millis::now(), &fence).await.unwrap();
    let refused = door.pay(id, &token).await;
    assert_eq!((refused.status, &refused.body["data"]["state"]), (409, &json!("persisted")));
    let why = refused.body["errorMsg"].as_str().unwrap();
    assert!(why.contains("goes back to the service that it came from"), "{why}");
    world.store.thaw_orders(voucher, &fence).await.unwrap();
    assert_eq!(door.pay(id, &token).await.body["data"]["state"], "paid");
    // What is paid here stays paid.
    world.store.freeze_orders(voucher, Millis::now(), &fence).await.unwrap();
    assert_eq!(door.pay(id, &token).await.body["data"]["state"], "paid");
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

/// SQL was restored from a backup that is older than the sale: Redis still has the buyer.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_of_a_sale_that_sql_has_lost_is_not_denied() {
    let (world, voucher) = World::with_sale(10).await;
    let door = Door::open(&world);
    let token = log_in_one(&world, 1).await;
    let got = door.buy(voucher, &token).await;
    let id = got.body["data"].as_str().unwrap();
    door.until_state(id, &token, "persisted").await;
    world.settled_and_balanced().await;
    world
        .run_sql(
            "DELETE FROM tb_voucher_order; DELETE FROM tb_seckill_voucher; DELETE FROM tb_voucher",
        )
        .await;
    // An operator's search asks Redis itself, a buyer's what the node has seen.
    let found = orders::find(&mut world.servers(), id.parse().unwrap()).await.unwrap();
    let voucher_id = voucher;
    assert_eq!(found, Location::Lost { user_id: UserId(1), voucher_id });
    let snapshots = world.node().remote().snapshots;
    wait_until(PATIENCE, "the sale is known to be lost", async || {
        snapshots.borrow().lost_shards().count() > 0
    })
    .await;
    let held = door.order(id, &token).await;
    assert_eq!(
        (held.status, &held.body["data"]["state"]),
        (200, &json!("queued")),
        "{}",
        held.body
    );
    assert_eq!(door.order("7", &token).await.status, 404);
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

/// Waits until `/readyz` replies this, and that Redis and the database are ready or not.
async fn ready_is(door: &Door, what: &str, status: u16, redis: bool, sql: bool) {
    wait_until(PATIENCE, what, async || {
        let got = door.send(Method::GET, "/readyz", "").await;
        let data = &got.body["data"];
        got.status == status && (&data["redis"], &data["sql"]) == (&json!(redis), &json!(sql))
    })
    .await;
}

/// Servers that reply to reads only take no orders.
#[tokio::test(flavor = "multi_thread")]
async fn readiness_follows_what_the_servers_take() {
    let world = World::start().await;
    let door = Door::open(&world);
    ready_is(&door, "it is ready", 200, true, true).await;
    for setting in ["maxmemory", "min-replicas-to-write"] {
        world.server.query::<String>(&["CONFIG", "SET", setting, "1"]);
        ready_is(&door, setting, 503, false, true).await;
        world.server.query::<String>(&["CONFIG", "SET", setting, "0"]);
        ready_is(&door, "it is ready again", 200, true, true).await;
    }
    let mut locked = world.sql().await;
    locked.execute("BEGIN EXCLUSIVE").await.unwrap();
    ready_is(&door, "the database is locked", 503, true, false).await;
    locked.execute("ROLLBACK").await.unwrap();
    ready_is(&door, "it is ready at last", 200, true, true).await;
    // Only an order itself shows a missing permission of one of its commands.
    let voucher = world.create(sale(5)).await;
    let [one, two] = log_in(&world, [1, 2]).await.try_into().unwrap();
    world.server.query::<String>(&["ACL", "SETUSER", "default", "-xadd"]);
    assert_eq!(door.buy(voucher, &one).await.status, 503);
    ready_is(&door, "an order is denied", 503, false, true).await;
    world.server.query::<String>(&["ACL", "SETUSER", "default", "+xadd"]);
    assert_eq!(door.buy(voucher, &two).await.status, 200);
    ready_is(&door, "an order is admitted", 200, true, true).await;
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_replicas_that_must_confirm_orders_it_is_not_ready() {
    let world = World::with(|settings| settings.wait_replicas = 1).await;
    let door = Door::open(&world);
    ready_is(&door, "no replica confirms an order", 503, false, true).await;
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn overload_is_reported_at_once_and_what_is_in_flight_is_answered_at_the_end() {
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

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_no_document_is_refused() {
    let world = World::start().await;
    let door = Door::with(&world, |settings| {
        (settings.body_bytes, settings.body_ms) = (1_024, 200);
        settings.demo_login = true;
    });
    let send = async |body: String| door.put(Method::POST, "/user/code", "", body).await.status;
    for body in
        ["", "{", "[]", "null", "{}", r#"{"phone":1}"#, r#"{"phone":"1"}"#, "\u{0}", "\u{feff}{}"]
    {
        assert_eq!(send(body.to_owned()).await, 400, "{body}");
    }
    assert_eq!(send(format!("[{}", " ".repeat(2_000))).await, 413);
    // A body that stops arriving, and one that never ends.
    let mut answer = vec![0; 12];
    for drips in [false, true] {
        let (mut read, mut write) = TcpStream::connect(door.address).await.unwrap().into_split();
        let head = "POST /user/code HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n{";
        write.write_all(head.as_bytes()).await.unwrap();
        let dripping = async {
            while drips && write.write_all(b" ").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            std::future::pending::<()>().await;
        };
        let answered = tokio::time::timeout(PATIENCE, async {
            tokio::select! {
                answered = read.read_exact(&mut answer) => answered,
                () = dripping => unreachable!(),
            }
        });
        answered.await.unwrap().unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 408", "{drips}");
    }
    // Headers that are too large.
    let mut huge = TcpStream::connect(door.address).await.unwrap();
    let head = format!("GET /healthz HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(64_000));
    let _ = huge.write_all(head.as_bytes()).await;
    tokio::time::timeout(PATIENCE, huge.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 431");
    door.close().await;
}

/// A token of an operator.
pub(crate) async fn operator_token(world: &World, name: &str) -> (u64, String) {
    let (secret, now) = (Secret::new(), Millis::now());
    let id = world.store.create_token(&secret.digest(), Role::Operator, name, now).await.unwrap();
    (id, secret.reveal())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_operator_changes_the_stock() {
    let (world, voucher) = World::with_sale(10).await;
    let door = Door::open(&world);
    let user = log_in_one(&world, 1).await;
    assert_eq!(door.buy(voucher, &user).await.status, 200);
    let (id, operator) = operator_token(&world, "till").await;
    let path = format!("/voucher/{voucher}/stock");
    let restock = async |token: &str, by: &str| {
        door.put(Method::PUT, &path, token, format!("{{\"by\":{by}}}")).await
    };
    for (token, status) in [("", 401), (&*Uuid::new_v4().to_string(), 401), (&user, 403)] {
        assert_eq!(restock(token, "5").await.status, status);
    }
    let added = restock(&operator, "5").await;
    assert_eq!(added.body["data"], json!({ "initial": 15, "stock": 14 }), "{}", added.body);
    let cut = restock(&operator, "-4").await;
    assert_eq!(cut.body["data"], json!({ "initial": 11, "stock": 10 }), "{}", cut.body);
    for by in ["-11", "0", "99999999999", "1.5", "\"1\""] {
        assert_eq!(restock(&operator, by).await.status, 400, "{by}");
    }
    let missing = door.put(Method::PUT, "/voucher/999/stock", &operator, "{\"by\":1}").await;
    assert_eq!((missing.status, &missing.body["code"]), (404, &json!(3)));
    world.execute(Command::EndSale(voucher)).await.unwrap();
    assert_eq!(restock(&operator, "1").await.status, 410);
    let lines = newest(&world.store, 20).await;
    assert!(lines.iter().any(|it| it.action == "sale restock" && it.operator == "till"));
    world.store.revoke_token(id, Millis::now()).await.unwrap();
    wait_until(PATIENCE, "the token is revoked", async || {
        restock(&operator, "1").await.status == 401
    })
    .await;
    door.close().await;
}

/// Creates a voucher over HTTP; returns its ID.
async fn create_over_http(door: &Door, path: &str, token: &str, voucher: &Value) -> VoucherId {
    let got = door.put(Method::POST, path, token, voucher.to_string()).await;
    assert_eq!(got.status, 200, "{}", got.body);
    VoucherId(got.body["data"].as_u64().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_over_shards_is_created_shown_and_bought_over_http() {
    let world = World::spread(4, |_| {}).await;
    let door = Door::open(&world);
    let (_, operator) = operator_token(&world, "till").await;
    let user = log_in_one(&world, 1).await;
    let sale = json!({
        "title": "hot pot", "payValue": 1, "actualValue": 2, "type": 1, "status": 1, "stock": 10, "shards": 4,
    });
    let pot = create_over_http(&door, "/voucher/seckill", &operator, &sale).await;
    let shown = async |id: VoucherId| {
        let got = door.send(Method::GET, &format!("/voucher/{id}"), "").await.body["data"].clone();
        (got["stock"].clone(), got["shards"].clone())
    };
    assert_eq!(shown(pot).await, (json!(10), json!(4)));
    // A change of the sale is seen at once.
    let state = async || {
        let got = door.send(Method::GET, &format!("/voucher/{pot}"), "").await;
        got.body["data"]["state"].clone()
    };
    for _ in 0..3 {
        assert_eq!(state().await, "running");
        world.execute(Command::PauseSale(pot)).await.unwrap();
        assert_eq!(state().await, "paused");
        world.execute(Command::ResumeSale(pot)).await.unwrap();
    }
    let first = VoucherId(pot.0 + 1);
    let got = door.send(Method::GET, &format!("/voucher/{first}"), "").await;
    assert_eq!(got.status, 404, "a shard is not a voucher of its own: {}", got.body);
    let orders = [door.buy(pot, &user).await, door.buy(first, &user).await];
    assert_eq!(orders[0].status, 200, "{}", orders[0].body);
    assert_eq!(orders[1].status, 404, "{}", orders[1].body);
    assert_eq!(shown(pot).await.0, json!(9));
    let order = orders[0].body["data"].as_str().unwrap();
    wait_until(PATIENCE, "the order is that of the sale", async || {
        door.order(order, &user).await.body["data"]["voucherId"] == json!(pot)
    })
    .await;
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn vouchers_are_created_shown_and_bought_over_http() {
    let world = World::start().await;
    let door = Door::open(&world);
    let (_, operator) = operator_token(&world, "till").await;
    let user = log_in_one(&world, 1).await;
    let show = async |id: VoucherId| {
        let got = door.send(Method::GET, &format!("/voucher/{id}"), "").await;
        got.body["data"].clone()
    };
    let list = async || door.send(Method::GET, "/voucher/list/7", "").await.body["data"].clone();
    assert_eq!(list().await, json!([]), "that there is none is cached, and dropped");
    let ordinary = json!({
        "shopId": 7, "title": " tea ", "subTitle": "weekdays", "rules": "one a table",
        "payValue": 4_750, "actualValue": 5_000, "type": 0, "status": 1, "createTime": null,
        "id": null, "updateTime": null, "stock": null, "beginTime": null, "endTime": null,
    });
    let tea = create_over_http(&door, "/voucher", &operator, &ordinary).await;
    assert_eq!(
        show(tea).await,
        json!({
            "id": tea, "shopId": 7, "title": "tea", "subTitle": "weekdays", "rules": "one a table",
            "payValue": 4_750, "actualValue": 5_000, "type": 0, "status": 1,
            "beginTime": null, "endTime": null, "limit": null, "shards": null, "state": null, "stock": null,
        })
    );
    let sale = json!({
        "shopId": 7, "title": "hot pot", "payValue": 1, "actualValue": 2, "type": 1, "status": 1,
        "stock": 2, "beginTime": "2026-01-01T00:00:00Z", "endTime": "2089-01-01T00:00:00Z", "limit": 1,
    });
    let pot = create_over_http(&door, "/voucher/seckill", &operator, &sale).await;
    assert_eq!(door.buy(pot, &user).await.status, 200);
    let shown = show(pot).await;
    for (key, value) in [
        ("stock", json!(1)),
        ("limit", json!(1)),
        ("type", json!(1)),
        ("shopId", json!(7)),
        ("state", json!("running")),
        ("beginTime", json!("2026-01-01T00:00:00Z")),
        ("endTime", json!("2089-01-01T00:00:00Z")),
    ] {
        assert_eq!(shown[key], value, "{key}: {shown}");
    }
    let listed = list().await;
    let ids: Vec<_> = listed.as_array().unwrap().iter().map(|it| it["id"].clone()).collect();
    assert_eq!(ids, [json!(pot), json!(tea)]);
    // Freely, in SQL at once.
    let path = |id: VoucherId| format!("/voucher-order/{id}");
    let mut orders = HashSet::new();
    for _ in 0..2 {
        let got = door.send(Method::POST, &path(tea), &user).await;
        let id = got.body["data"].as_str().unwrap_or_else(|| panic!("{}", got.body)).to_owned();
        assert_eq!(door.order(&id, &user).await.body["data"]["state"], "persisted");
        assert_eq!(door.pay(&id, &user).await.body["data"]["state"], "paid");
        orders.insert(id);
    }
    assert_eq!(orders.len(), 2);
    let off = json!({ "title": "off", "status": 2 });
    let off = create_over_http(&door, "/voucher", &operator, &off).await;
    for (id, status) in [(pot, 409), (off, 409), (VoucherId(999), 404)] {
        assert_eq!(door.send(Method::POST, &path(id), &user).await.status, status, "{id}");
    }
    assert_eq!(door.send(Method::POST, &path(tea), "").await.status, 401);
    let lines = newest(&world.store, 20).await;
    let created: Vec<_> = lines.iter().filter(|it| it.action.ends_with("create")).collect();
    assert!(created.len() == 3 && created.iter().all(|it| it.operator == "till"), "{lines:?}");
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_voucher_that_is_no_voucher_is_refused() {
    let world = World::start().await;
    let door = Door::open(&world);
    let (_, operator) = operator_token(&world, "till").await;
    let user = log_in_one(&world, 1).await;
    let (voucher, sale) = ("/voucher", "/voucher/seckill");
    for (path, body) in [
        (voucher, json!({})),
        (voucher, json!({ "title": "" })),
        (voucher, json!({ "title": "a\nb" })),
        (voucher, json!({ "title": "t", "type": 1 })),
        (voucher, json!({ "title": "t", "status": 4 })),
        (voucher, json!({ "title": "t", "payValue": -1 })),
        (voucher, json!({ "title": "t", "payValue": u64::MAX })),
        (voucher, json!({ "title": "t", "shopId": u64::MAX })),
        (sale, json!({ "title": "t" })),
        (sale, json!({ "title": "t", "stock": 0 })),
        (sale, json!({ "title": "t", "stock": 1.5 })),
        (sale, json!({ "title": "t", "stock": 1, "type": 0 })),
        (sale, json!({ "title": "t", "stock": 1, "limit": 21 })),
        (sale, json!({ "title": "t", "stock": 1, "limit": 0 })),
        (sale, json!({ "title": "t", "stock": 1, "beginTime": "soon" })),
        (sale, json!({ "title": "t", "stock": 1, "endTime": "2020-01-01T00:00:00Z" })),
    ] {
        let got = door.put(Method::POST, path, &operator, body.to_string()).await;
        assert_eq!(got.status, 400, "{body}: {}", got.body);
    }
    // A field that was misspelt is named: a sale without it would begin at once, or have another limit.
    for (path, body, field) in [
        (voucher, json!({ "title": "t", "payvalue": 1 }), "payvalue"),
        (voucher, json!({ "title": "t", "stock": 5 }), "5"),
        (sale, json!({ "title": "t", "stock": 1, "limt": 5 }), "limt"),
        (
            sale,
            json!({ "title": "t", "stock": 1, "begin_time": "2099-01-01T00:00:00Z" }),
            "begin_time",
        ),
    ] {
        let got = door.put(Method::POST, path, &operator, body.to_string()).await;
        let message = got.body["errorMsg"].as_str().unwrap_or_default();
        assert!(got.status == 400 && message.contains(field), "{body}: {}", got.body);
    }
    for status in [2, 3] {
        let body = json!({ "title": "t", "stock": 1, "status": status }).to_string();
        let got = door.put(Method::POST, sale, &operator, body).await;
        assert_eq!((got.status, &got.body["data"]["status"]), (409, &json!(status)));
    }
    let got = door.put(Method::PUT, "/voucher/1/stock", &operator, r#"{"by":1,"to":2}"#).await;
    assert_eq!(got.status, 400, "{}", got.body);
    let fine = json!({ "title": "t", "stock": 1 }).to_string();
    for path in [voucher, sale] {
        assert_eq!(door.put(Method::POST, path, &user, fine.clone()).await.status, 403);
        assert_eq!(door.put(Method::POST, path, "", fine.clone()).await.status, 401);
    }
    for (path, status) in [
        ("/voucher/0", 400),
        ("/voucher/x", 400),
        ("/voucher/7", 404),
        ("/voucher/list/x", 400),
        ("/voucher/list/18446744073709551615", 400),
        ("/voucher/list/7", 200),
    ] {
        assert_eq!(door.send(Method::GET, path, "").await.status, status, "{path}");
    }
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_voucher_is_loaded_by_one_reader_and_stale_meanwhile() {
    let (world, voucher) = World::with_sale(10).await;
    let door = Door::open(&world);
    let keys = world.keys.voucher_cache(voucher);
    let state = async || {
        let got = door.send(Method::GET, &format!("/voucher/{voucher}"), "").await;
        got.body["data"]["state"].clone()
    };
    let lasts = || world.server.query::<i64>(&["PTTL", &keys.entry]);
    assert_eq!(state().await, "running");
    let first = lasts();
    assert!(first > 60_000, "{first}");
    // Another reader loads: this one gets the stale value.
    let _: () = world.server.query(&["PEXPIRE", &keys.entry, "50000"]);
    let _: () = world.server.query(&["SET", &keys.loading, "another"]);
    assert_eq!(state().await, "running");
    assert!(lasts() <= 50_000);
    // Without a value, a reader waits for the loader, and loads once that has given up.
    let _: () = world.server.query(&["DEL", &keys.entry]);
    let _: () = world.server.query(&["PEXPIRE", &keys.loading, "200"]);
    let (one, other) = tokio::join!(state(), state());
    assert_eq!((one, other), (json!("running"), json!("running")));
    assert!(lasts() > 60_000);
    // A change is seen at once.
    world.execute(Command::PauseSale(voucher)).await.unwrap();
    assert_eq!(state().await, "paused");
    world.execute(Command::ResumeSale(voucher)).await.unwrap();
    assert_eq!(state().await, "running");
    // A loader that has read before the change stores nothing.
    let _: () = world.server.query(&["SET", &keys.loading, "old"]);
    world.execute(Command::PauseSale(voucher)).await.unwrap();
    let mut store = seckill_redis::scripts::CACHE_STORE.prepare_invoke();
    store.key(&keys.entry).key(&keys.loading).arg("old").arg("null").arg(60_000);
    assert_eq!(world.servers().conn.invoke::<u64>(&store).await.unwrap(), 0);
    assert_eq!(state().await, "paused");
    // What does not exist is cached until it is created.
    let next = VoucherId(voucher.0 + 1);
    let missing = world.keys.voucher_cache(next).entry;
    let path = format!("/voucher/{next}");
    assert_eq!(door.send(Method::GET, &path, "").await.status, 404);
    assert_eq!(world.server.query::<String>(&["GET", &missing]), "null");
    assert_eq!(world.create(sale(1)).await, next);
    assert_eq!(door.send(Method::GET, &path, "").await.status, 200);
    door.close().await;
}

/// Redis refuses to store the value; the reader has it already.
#[tokio::test(flavor = "multi_thread")]
async fn a_voucher_that_cannot_be_cached_is_answered() {
    let (world, voucher) = World::with_sale(10).await;
    let door = Door::open(&world);
    let entry = world.keys.voucher_cache(voucher).entry;
    let _: () =
        world.server.query(&["ACL", "SETUSER", "default", "resetkeys", "%R~*", "~*:loading:*"]);
    for path in [format!("/voucher/{voucher}"), format!("/voucher/{}", voucher.0 + 10)] {
        let got = door.send(Method::GET, &path, "").await;
        let expected = if path.ends_with(&format!("/{voucher}")) { 200 } else { 404 };
        assert_eq!(got.status, expected, "{path}: {}", got.body);
    }
    let _: () = world.server.query(&["ACL", "SETUSER", "default", "allkeys"]);
    assert_eq!(world.server.query::<u64>(&["EXISTS", &entry]), 0);
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_are_those_of_the_engine() {
    let (world, voucher) = World::with_sale(2).await;
    let door = Door::open(&world);
    let tokens = log_in(&world, 1..=4).await;
    for (token, status) in tokens.iter().zip([200, 200, 410, 410]) {
        assert_eq!(door.buy(voucher, token).await.status, status);
    }
    assert_eq!(door.buy(voucher, &tokens[0]).await.status, 409);
    assert_eq!(door.send(Method::GET, "/a/path/of/an/attacker", "").await.status, 404);
    world.settled().await;
    let scrape = async || {
        let response = door.request(Method::GET, "/metrics", "").send().await.unwrap();
        assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/plain"));
        response.text().await.unwrap()
    };
    let stock = format!("seckill_sale_stock_pieces{{voucher=\"{voucher}\"}} 0");
    wait_until(PATIENCE, "the snapshot is of now", async || {
        let text = scrape().await;
        text.lines().any(|line| line == stock)
            && text.lines().any(|line| line == "seckill_orders 2")
    })
    .await;
    let text = scrape().await;
    let orders = format!("seckill_sale_orders{{voucher=\"{voucher}\"}} 2");
    for line in [
        "seckill_admission_requests_total{outcome=\"admitted\"} 2",
        "seckill_admission_requests_total{outcome=\"sold_out\"} 2",
        "seckill_admission_requests_total{outcome=\"duplicate\"} 1",
        "# TYPE seckill_admission_requests_total counter",
        "# TYPE seckill_http_request_duration_seconds histogram",
        "seckill_http_requests_in_flight 1",
        "seckill_redis_up 1",
        "seckill_database_up 1",
        "seckill_stream_lag_entries 0",
        "seckill_stream_pending_entries 0",
        "seckill_dead_letters 0",
        &orders,
    ] {
        assert!(text.lines().any(|it| it == line), "{line} is missing in\n{text}");
    }
    assert!(
        !text.contains("attacker") && text.contains("path=\"unmatched\",status=\"404\""),
        "{text}"
    );
    // The figures for consoles are the same ones; the scrape itself was counted after it.
    let mut answers = BTreeMap::from([(200, 1)]);
    for line in text.lines().filter(|line| line.starts_with("seckill_http_requests_total{")) {
        let (labels, count) = line.rsplit_once(' ').unwrap();
        let status = labels.split("status=\"").nth(1).unwrap()[..3].parse::<u16>().unwrap();
        *answers.entry(status).or_default() += count.parse::<u64>().unwrap();
    }
    let http = async || Arc::clone(&world.node().remote().snapshots.borrow()).http.clone();
    wait_until(PATIENCE, "they are published", async || {
        http().await.first().is_some_and(|line| line.answers == answers)
    })
    .await;
    let [line] = <[_; 1]>::try_from(http().await).unwrap();
    assert_eq!((line.node.as_str(), line.limited()), (world.node().operator().node.as_str(), 0));
    assert_eq!(line.url, format!("http://{}", door.address));
    door.close().await;
    let key = world.keys.home().http();
    wait_until(PATIENCE, "a server that has stopped has none", async || {
        http().await.is_empty() && world.server.query::<u64>(&["EXISTS", &key]) == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_asks_too_often_waits_and_others_do_not() {
    let (world, voucher) = World::with_sale(100).await;
    let door = Door::with(&world, |settings| settings.user_per_second = 1);
    let [greedy, other] = log_in(&world, [1, 2]).await.try_into().unwrap();
    let asked = (0..20).map(|_| door.buy(voucher, &greedy));
    let answers = futures::future::join_all(asked).await;
    let limited: Vec<_> = answers.iter().filter(|got| got.status == 429).collect();
    assert!(!limited.is_empty());
    for got in &limited {
        assert!(got.retry && got.body["code"] == 429, "{}", got.body);
    }
    let mut snapshots = world.node().remote().snapshots;
    let counted = snapshots.wait_for(|it| {
        it.http.first().is_some_and(|line| line.limited_users == limited.len() as u64)
    });
    let counted = Arc::clone(&tokio::time::timeout(PATIENCE, counted).await.unwrap().unwrap());
    let users: Vec<_> = counted.http[0].users.iter().map(|it| it.id).collect();
    assert_eq!(users, [UserId(1)]);
    assert_eq!(answers.iter().filter(|got| got.status == 200).count(), 1);
    assert_eq!(door.buy(voucher, &other).await.status, 200);
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_lists_every_endpoint() {
    let world = World::start().await;
    let door = Door::open(&world);
    let response = door.request(Method::GET, "/openapi.json", "").send().await.unwrap();
    let described: Value = response.json().await.unwrap();
    assert_eq!(described["openapi"], "3.1.0");
    let paths = described["paths"].as_object().unwrap();
    let mut endpoints: Vec<String> = paths
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap();
            methods.keys().map(move |method| format!("{method} {path}"))
        })
        .collect();
    endpoints.sort();
    assert_eq!(
        endpoints,
        [
            "get /healthz",
            "get /readyz",
            "get /user/me",
            "get /voucher-order/{id}",
            "get /voucher/list/{shopId}",
            "get /voucher/{id}",
            "post /user/code",
            "post /user/login",
            "post /user/logout",
            "post /voucher",
            "post /voucher-order/seckill/{id}",
            "post /voucher-order/{id}",
            "post /voucher-order/{id}/pay",
            "post /voucher/seckill",
            "put /voucher/{id}/stock",
        ]
    );
    let operations = || paths.values().flat_map(|path| path.as_object().unwrap().values());
    let ids: HashSet<_> = operations().map(|it| it["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), endpoints.len(), "each is unique: {ids:?}");
    assert!(operations().all(|it| it["responses"]["default"].is_object()), "each may refuse");
    door.close().await;
}
