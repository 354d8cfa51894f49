//! Connections over HTTP: clients that do not read, do not end their requests, leave early, or come in crowds.

use std::{net::SocketAddr, time::Duration};

use reqwest::Method;
use seckill_engine::orders::vouchers::Vouchers;
use seckill_http::{HttpSettings, ProxyNetwork};
use seckill_model::{ShardId, VoucherDetails};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::{
    http::{Door, log_in, operator_token},
    support::{PATIENCE, wait_until},
    world::{World, newest, sale},
};

/// Longer than any test waits.
const NEVER_MS: u64 = 600_000;

/// A connection on which this was sent.
async fn sent(address: SocketAddr, what: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(what.as_bytes()).await.unwrap();
    stream
}

/// Sends requests and reads no answer, until the server reads no more either; returns the connection.
async fn unread(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1_000);
    while timeout(Duration::from_millis(500), stream.write_all(request.as_bytes())).await.is_ok() {}
    stream
}

/// Ends a connection as a client does that has crashed: the server gets a reset.
fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
    drop(stream);
}

/// The value of a metric, by its line up to the value.
async fn metric(door: &Door, name: &str) -> u64 {
    let text = door.request(Method::GET, "/metrics", "").send().await.unwrap();
    let text = text.text().await.unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("{name} is missing in\n{text}"))
}

/// Waits until no request but that for the metric is in progress.
async fn until_idle(door: &Door) {
    wait_until(PATIENCE, "the server has noticed that the clients left", async || {
        metric(door, "seckill_http_requests_in_flight").await == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_its_answers_is_disconnected() {
    let world = World::start().await;
    let door = Door::with(&world, |settings| {
        (settings.write_ms, settings.header_ms) = (500, NEVER_MS);
    });
    let mut stream = unread(door.address).await;
    let closed = async { while stream.write_all(&[b'x'; 1_024]).await.is_ok() {} };
    timeout(PATIENCE, closed).await.expect("it is closed");
    door.close().await;
}

/// Requests that a client has sent ahead would cost as much as answered ones.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_beyond_the_limit_of_its_address_is_disconnected() {
    let world = World::start().await;
    let flood = "GET /voucher/list/0 HTTP/1.1\r\nHost: x\r\n\r\n".repeat(49)
        + "GET /voucher/list/0 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answers = async |door: &Door| {
        let mut stream = sent(door.address, &flood).await;
        let mut answers = Vec::new();
        // A reset follows if requests were left in the buffer.
        let read = timeout(PATIENCE, stream.read_to_end(&mut answers)).await;
        drop(read.expect("the connection ends"));
        String::from_utf8(answers).unwrap()
    };
    let limit = |settings: &mut HttpSettings| settings.address_per_second = 10;
    let door = Door::with(&world, limit);
    let got = answers(&door).await;
    let limited = got.matches("HTTP/1.1 429").count();
    assert!(limited == 1 && got.contains("connection: close"), "{got}");
    door.close().await;
    let proxy: ProxyNetwork = "127.0.0.1".parse().unwrap();
    let door = Door::with(&world, |settings| {
        limit(settings);
        settings.trusted_proxies = vec![proxy];
    });
    let got = answers(&door).await;
    assert_eq!(got.matches("HTTP/1.1 ").count(), 50, "each client of a proxy is answered: {got}");
    door.close().await;
}

/// What the kernel keeps for it is bounded as well: it shows in what the client can still read.
#[tokio::test(flavor = "multi_thread")]
async fn little_is_kept_for_a_client_that_does_not_read() {
    let world = World::start().await;
    let door = Door::with(&world, |settings| settings.write_ms = NEVER_MS);
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    // The rest is in the buffers of the server.
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    let mut stream = socket.connect(door.address).await.unwrap();
    let request = "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1_000);
    while timeout(Duration::from_millis(500), stream.write_all(request.as_bytes())).await.is_ok() {}
    let served = metric(
        &door,
        "seckill_http_requests_total{method=\"GET\",path=\"/openapi.json\",status=\"200\"}",
    );
    let mut document = Vec::new();
    let answer = door.request(Method::GET, "/openapi.json", "").send().await.unwrap();
    document.extend_from_slice(&answer.bytes().await.unwrap());
    let bytes = served.await * document.len() as u64;
    assert!(bytes > 0 && bytes < 600_000, "{bytes}");
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    drop(stream);
    door.close().await;
}

/// Only requests in progress are waited for: with the limits of this test, anything else would take ten minutes.
#[tokio::test(flavor = "multi_thread")]
async fn no_client_delays_the_end_of_the_server() {
    let world = World::with(|settings| settings.answer_within_ms = NEVER_MS).await;
    let voucher = world.create(sale(10)).await;
    let door = Door::with(&world, |settings| {
        (settings.write_ms, settings.header_ms, settings.body_ms) = (NEVER_MS, NEVER_MS, NEVER_MS);
        settings.demo_login = true;
    });
    let token = log_in(&world, [1]).await.remove(0);
    let head = "Host: x\r\nContent-Length: 999\r\n\r\n{";
    let kept = [
        unread(door.address).await,
        unread(door.address).await,
        sent(door.address, "").await,
        sent(door.address, "GET /healthz HTTP/1.1\r\nHo").await,
        // After an answer.
        sent(door.address, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\nHo")
            .await,
        sent(door.address, &format!("POST /user/code HTTP/1.1\r\n{head}")).await,
    ];
    // A purchase in progress is answered.
    world.server.freeze();
    let path = format!("/voucher-order/seckill/{voucher}");
    let buying = door.request(Method::POST, &path, &token).send();
    let (bought, ()) = tokio::join!(buying, async {
        wait_until(PATIENCE, "the purchase is in progress", async || {
            metric(&door, "seckill_http_requests_in_flight").await >= 3
        })
        .await;
        door.stop.cancel();
        wait_until(PATIENCE, "no further connection is accepted", async || {
            TcpStream::connect(door.address).await.is_err()
        })
        .await;
        world.server.thaw();
    });
    assert_eq!(bought.unwrap().status(), 200);
    timeout(PATIENCE, door.close()).await.expect("it ends");
    drop(kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_of_an_address_are_bounded_unless_it_is_a_proxy() {
    let world = World::start().await;
    for trusts in [false, true] {
        let door = Door::with(&world, |settings| {
            (settings.address_connections, settings.header_ms) = (3, NEVER_MS);
            if trusts {
                settings.trusted_proxies = vec!["127.0.0.0/8".parse::<ProxyNetwork>().unwrap()];
            }
        });
        let mut answered = 0;
        let mut open = Vec::new();
        for _ in 0..6 {
            let mut stream = sent(door.address, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
            let mut start = [0; 12];
            // One that is closed has no answer.
            answered += usize::from(stream.read_exact(&mut start).await.is_ok());
            open.push(stream);
        }
        assert_eq!(answered, if trusts { 6 } else { 3 });
        drop(open);
        wait_until(PATIENCE, "their places are free again", async || {
            door.request(Method::GET, "/healthz", "").send().await.is_ok()
        })
        .await;
        let refused = metric(&door, "seckill_http_limited_total{by=\"address_connections\"}").await;
        assert!(if trusts { refused == 0 } else { refused >= 3 }, "{refused}");
        door.close().await;
    }
}

/// The first reader leaves while it takes the lock of the loader.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_who_leaves_keeps_no_other_waiting() {
    let (world, voucher) = World::with_sale(10).await;
    let door = Door::open(&world);
    let keys = world.keys.voucher_cache(voucher);
    world.server.query::<String>(&["CLIENT", "PAUSE", "30000", "WRITE"]);
    let get = format!("GET /voucher/{voucher} HTTP/1.1\r\nHost: x\r\n\r\n");
    let reader = sent(door.address, &get).await;
    wait_until(PATIENCE, "it takes the lock", async || {
        world.server.query::<String>(&["CLIENT", "LIST"]).contains("cmd=set")
    })
    .await;
    reset(reader);
    until_idle(&door).await;
    world.server.query::<String>(&["CLIENT", "UNPAUSE"]);
    // Without another reader.
    wait_until(PATIENCE, "what it asked for is loaded", async || {
        world.server.query::<u64>(&["EXISTS", &keys.entry]) == 1
    })
    .await;
    assert_eq!(world.server.query::<u64>(&["EXISTS", &keys.loading]), 0);
    door.close().await;
}

/// Redis decides although the buyers have left.
#[tokio::test(flavor = "multi_thread")]
async fn a_decision_is_counted_if_its_buyer_has_left() {
    const BUYERS: u64 = 20;
    let (world, voucher) = World::with_sale(1_000).await;
    let door = Door::open(&world);
    let buyers = world.keys.buyers(ShardId::only(voucher));
    let mut admitted = 0;
    // On a busy machine, the server may ask Redis for the sessions again, which is suspended by then.
    for round in 0..20 {
        let tokens = log_in(&world, round * BUYERS + 1..=(round + 1) * BUYERS).await;
        futures::future::join_all(tokens.iter().map(|token| door.order("7", token))).await;
        world.server.freeze();
        let mut clients = Vec::new();
        for token in &tokens {
            let head = format!("POST /voucher-order/seckill/{voucher} HTTP/1.1\r\nHost: x\r\n");
            clients
                .push(sent(door.address, &format!("{head}authorization: {token}\r\n\r\n")).await);
        }
        wait_until(PATIENCE, "all of them are in progress", async || {
            metric(&door, "seckill_http_requests_in_flight").await == 1 + BUYERS
        })
        .await;
        clients.into_iter().for_each(reset);
        until_idle(&door).await;
        world.server.thaw();
        world.settled().await;
        // One field is no buyer.
        admitted = world.server.query::<u64>(&["HLEN", &buyers]) - 1;
        if admitted > 0 {
            break;
        }
    }
    assert!(admitted > 0);
    wait_until(PATIENCE, "each is counted", async || {
        metric(&door, "seckill_admission_requests_total{outcome=\"admitted\"}").await == admitted
    })
    .await;
    door.close().await;
}

/// As a server does with connections that were idle for a while.
#[tokio::test(flavor = "multi_thread")]
async fn no_buyer_notices_that_redis_has_closed_idle_connections() {
    let (world, voucher) = World::with_sale(100).await;
    let door = Door::open(&world);
    let tokens = log_in(&world, 1..=10).await;
    let mut order = None;
    for token in &tokens {
        world.server.query::<u64>(&["CLIENT", "KILL", "TYPE", "normal"]);
        let me = door.send(Method::GET, "/user/me", token).await;
        assert_eq!(me.status, 200, "{}", me.body);
        world.server.query::<u64>(&["CLIENT", "KILL", "TYPE", "normal"]);
        let shown = door.send(Method::GET, &format!("/voucher/{voucher}"), "").await;
        assert_eq!(shown.status, 200, "{}", shown.body);
        let path = format!("/voucher-order/seckill/{voucher}");
        let bought = door.send(Method::POST, &path, token).await;
        assert_eq!(bought.status, 200, "{}", bought.body);
        order = bought.body["data"].as_str().map(str::to_owned);
        world.server.query::<u64>(&["CLIENT", "KILL", "TYPE", "normal"]);
        let found = door.order(order.as_deref().unwrap(), token).await;
        assert_eq!(found.status, 200, "{}", found.body);
    }
    assert!(order.is_some());
    door.close().await;
}

/// The commands about the pages and vouchers of the cache, without those inside scripts.
fn reads_of_the_cache(commands: &[String]) -> usize {
    let is_read = |line: &&String| line.contains("cache:") && !line.contains(" lua]");
    commands.iter().filter(is_read).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_shop_is_read_at_once_and_reused() {
    const VOUCHERS: u64 = 60;
    let world = World::start().await;
    let door = Door::open(&world);
    for n in 0..VOUCHERS {
        let mut details = VoucherDetails::titled(format!("v{n}"));
        details.shop_id = Some(7);
        let mut servers = world.servers();
        let mut vouchers = Vouchers { servers: &mut servers };
        vouchers.create_with(&details, &sale(n + 1)).await.unwrap();
    }
    let list = async |door: &Door| {
        let got = door.send(Method::GET, "/voucher/list/7", "").await;
        assert_eq!(got.status, 200, "{}", got.body);
        let listed = got.body["data"].as_array().unwrap().clone();
        let stocks: Vec<u64> = listed.iter().map(|it| it["stock"].as_u64().unwrap()).collect();
        assert_eq!(stocks, (1..=VOUCHERS).rev().collect::<Vec<_>>());
    };
    list(&door).await;
    // A server that has no page yet.
    let other = Door::open(&world);
    let commands = world.server.monitored(async || list(&other).await).await;
    let reads = reads_of_the_cache(&commands);
    assert!((1..10).contains(&reads), "{reads} for {VOUCHERS} vouchers: {commands:?}");
    // Clients who ask at the same time share a page.
    let commands = world
        .server
        .monitored(async || {
            futures::future::join_all((0..50).map(|_| list(&other))).await;
        })
        .await;
    let reads = reads_of_the_cache(&commands);
    assert!(reads < 100, "{reads} for 50 requests");
    for door in [door, other] {
        door.close().await;
    }
}

/// An address of its own for metrics, health and operators; without one, they are where they were.
#[tokio::test(flavor = "multi_thread")]
async fn operators_may_have_an_address_of_their_own() {
    let world = World::start().await;
    let token = operator_token(&world, "till").await.1;
    let body = r#"{"title":"t","stock":5}"#;
    for apart in [false, true] {
        let door = Door::on(&world, apart, |_| {});
        let asked = async |address: SocketAddr| {
            let mut statuses = Vec::new();
            for (method, path) in [
                (Method::GET, "/metrics"),
                (Method::GET, "/healthz"),
                (Method::GET, "/readyz"),
                (Method::POST, "/voucher"),
                (Method::POST, "/voucher/seckill"),
                (Method::PUT, "/voucher/999/stock"),
                (Method::GET, "/voucher/999"),
                (Method::POST, "/voucher-order/seckill/999"),
                (Method::GET, "/user/me"),
                (Method::GET, "/openapi.json"),
            ] {
                let content = if path.ends_with("stock") { r#"{"by":1}"# } else { body };
                let content = if path == "/voucher" { r#"{"title":"t"}"# } else { content };
                let request = door.request_at(address, method, path, &token).body(content);
                statuses.push(request.send().await.unwrap().status().as_u16());
            }
            statuses
        };
        wait_until(PATIENCE, "it is ready", async || {
            let at = door.admin.unwrap_or(door.address);
            door.request_at(at, Method::GET, "/readyz", "").send().await.unwrap().status() == 200
        })
        .await;
        let buyers = asked(door.address).await;
        if let Some(admin) = door.admin {
            assert_eq!(buyers, [404, 404, 404, 404, 405, 404, 404, 401, 401, 200]);
            let admin = asked(admin).await;
            assert_eq!(admin, [200, 200, 200, 200, 200, 404, 404, 404, 404, 200]);
        } else {
            assert_eq!(buyers, [200, 200, 200, 200, 200, 404, 404, 401, 401, 200]);
        }
        door.close().await;
    }
    let lines = newest(&world.store, 20).await;
    assert_eq!(lines.iter().filter(|it| it.action.ends_with("create")).count(), 4, "{lines:?}");
}
