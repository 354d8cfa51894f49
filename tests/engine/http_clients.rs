//! Who a client is over HTTP, and how often it may guess: the login by code, and the addresses behind proxies.

use futures::{StreamExt as _, stream};
use reqwest::Method;
use seckill_http::{HttpSettings, ProxyNetwork};
use serde_json::{Value, json};

use crate::{
    http::{Door, Got},
    world::World,
};

const PHONE: &str = "13812345678";
const HOUR_MS: u64 = 3_600_000;

/// A server behind a proxy on this host, with the login by code.
fn behind_proxy(settings: &mut HttpSettings) {
    settings.demo_login = true;
    settings.address_per_second = 0;
    settings.trusted_proxies = vec!["127.0.0.0/8".parse::<ProxyNetwork>().unwrap()];
}

/// Each time another address.
fn address(n: u64) -> String {
    format!("198.18.{}.{}", n / 250, n % 250 + 1)
}

impl Door {
    /// Sends a document as a client with this address.
    async fn post_from(&self, from: &str, path: &str, body: Value) -> Got {
        let request = self.request(Method::POST, path, "").header("x-forwarded-for", from);
        self.got(path, request.body(body.to_string())).await
    }

    async fn code(&self, from: &str, phone: &str) -> Got {
        self.post_from(from, "/user/code", json!({ "phone": phone })).await
    }

    async fn log_in(&self, from: &str, phone: &str, code: &str) -> Got {
        self.post_from(from, "/user/login", json!({ "phone": phone, "code": code })).await
    }
}

/// The valid code of a phone.
fn code_of(world: &World, phone: &str) -> String {
    world.server.query(&["GET", &world.keys.login_code(phone)])
}

fn wrong_for(world: &World, phone: &str) -> &'static str {
    let code: Option<String> = world.server.query(&["GET", &world.keys.login_code(phone)]);
    if code.as_deref() == Some("000000") { "000001" } else { "000000" }
}

/// Lets this time pass for all that Redis knows of logins.
fn forward(world: &World, ms: u64) {
    let keys: Vec<String> = world.server.query(&["KEYS", "login:{login}:*"]);
    for key in keys {
        let left: i64 = world.server.query(&["PTTL", &key]);
        assert_ne!(left, -1, "{key} never expires");
        let left = left - ms as i64;
        if left <= 0 {
            let _: () = world.server.query(&["DEL", &key]);
            continue;
        }
        if world.server.query::<String>(&["TYPE", &key]) == "hash" {
            let _: i64 = world.server.query(&["HINCRBY", &key, "until", &format!("-{ms}")]);
        }
        let _: () = world.server.query(&["PEXPIRE", &key, &left.to_string()]);
    }
}

/// How many of the attempts are looked at in an hour, if each refused one is repeated as soon as it may be.
async fn in_an_hour(world: &World, attempt: impl AsyncFn(u64) -> Got) -> u64 {
    let (mut at, mut looked_at) = (0, 0);
    for n in 0.. {
        let got = attempt(n).await;
        match got.status {
            429 => {
                let ms = got.wait.expect("how long to wait") * 1_000;
                forward(world, ms);
                at += ms;
            }
            status => {
                assert!([200, 401].contains(&status), "{}", got.body);
                looked_at += 1;
            }
        }
        if at >= HOUR_MS {
            break;
        }
    }
    looked_at
}

/// New codes and new addresses give a guesser no more guesses, and take no login from the owner.
#[tokio::test(flavor = "multi_thread")]
async fn guesses_at_a_phone_are_bounded_and_its_owner_logs_in_meanwhile() {
    let world = World::start().await;
    let door = Door::with(&world, behind_proxy);
    let home = "192.0.2.1";
    assert_eq!(door.code(home, PHONE).await.status, 200);
    assert_eq!(door.log_in(home, PHONE, &code_of(&world, PHONE)).await.status, 200);
    let guessed = in_an_hour(&world, async |n| {
        let from = address(n);
        door.code(&from, PHONE).await;
        door.log_in(&from, PHONE, wrong_for(&world, PHONE)).await
    })
    .await;
    assert_eq!(guessed, 24, "the documented bound");
    // At once, and several times, from where the owner has logged in before.
    for _ in 0..3 {
        assert_eq!(door.code(home, PHONE).await.status, 200);
        assert_eq!(door.log_in(home, PHONE, &code_of(&world, PHONE)).await.status, 200);
    }
    // From a new network, after a pause that is bounded.
    while door.log_in(&address(9_000), PHONE, wrong_for(&world, PHONE)).await.status != 429 {}
    let (mut waited, away) = (0, "192.0.2.99");
    let token = loop {
        door.code(away, PHONE).await;
        let code: Option<String> = world.server.query(&["GET", &world.keys.login_code(PHONE)]);
        let got = door.log_in(away, PHONE, &code.unwrap_or_default()).await;
        match got.status {
            200 => break got.body["data"].as_str().unwrap().to_owned(),
            429 => {
                waited += got.wait.unwrap();
                forward(&world, got.wait.unwrap() * 1_000);
            }
            401 => {}
            _ => panic!("{}", got.body),
        }
        assert!(waited <= 600, "{waited}");
    };
    assert_eq!(door.send(Method::GET, "/user/me", &token).await.status, 200);
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_of_an_address_are_bounded_for_one_phone_and_for_all() {
    let world = World::start().await;
    let door = Door::with(&world, behind_proxy);
    let one = in_an_hour(&world, async |_| {
        door.code("192.0.2.1", PHONE).await;
        door.log_in("192.0.2.1", PHONE, wrong_for(&world, PHONE)).await
    });
    assert_eq!(one.await, 19, "the documented bound of a phone");
    let all = in_an_hour(&world, async |n| {
        door.log_in("192.0.2.2", &format!("139{n:08}"), "000000").await
    });
    assert_eq!(all.await, 173, "the documented bound of an address");
    let codes = in_an_hour(&world, async |n| door.code(&address(n), "13700000000").await);
    assert_eq!(codes.await, 17, "the documented bound of codes of a phone");
    door.close().await;
}

/// Requests that come at the same time share one count.
#[tokio::test(flavor = "multi_thread")]
async fn guesses_at_the_same_time_are_counted_one_by_one() {
    let world = World::start().await;
    let door = Door::with(&world, behind_proxy);
    assert_eq!(door.code("192.0.2.1", PHONE).await.status, 200);
    let wrong = wrong_for(&world, PHONE);
    let guesses = stream::iter(0..100)
        .map(async |n| door.log_in(&address(n), PHONE, wrong).await.status)
        .buffer_unordered(50);
    let statuses: Vec<u16> = guesses.collect().await;
    let count = |wanted| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!((count(401), count(429)), (10, 90), "{statuses:?}");
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_clients_together_have_a_bound_that_spares_known_ones() {
    let world = World::start().await;
    let door = Door::with(&world, |settings| {
        behind_proxy(settings);
        (settings.wrong_codes_per_minute, settings.codes_per_minute) = (3, 5);
        settings.address_codes_per_minute = 2;
    });
    let home = "192.0.2.1";
    assert_eq!(door.code(home, PHONE).await.status, 200);
    assert_eq!(door.log_in(home, PHONE, &code_of(&world, PHONE)).await.status, 200);
    for (n, status) in [401, 401, 401, 429, 429].into_iter().enumerate() {
        let phone = format!("139{n:08}");
        assert_eq!(door.log_in(&address(n as u64), &phone, "000000").await.status, status);
    }
    assert_eq!(door.code(home, PHONE).await.status, 200);
    assert_eq!(door.log_in(home, PHONE, &code_of(&world, PHONE)).await.status, 200);
    // Codes: of an address, then of all.
    for (n, (from, status)) in
        [("192.0.2.2", 200), ("192.0.2.2", 200), ("192.0.2.2", 429), ("192.0.2.3", 200)]
            .into_iter()
            .chain([("192.0.2.4", 429)])
            .enumerate()
    {
        let got = door.code(from, &format!("137{n:08}")).await;
        assert_eq!(got.status, status, "{n}: {}", got.body);
        assert_eq!(got.wait.is_some_and(|it| it <= 61), status == 429);
    }
    forward(&world, 60_000);
    assert_eq!(door.code("192.0.2.4", "13600000000").await.status, 200);
    let metrics = door.request(Method::GET, "/metrics", "").send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    assert!(metrics.contains("seckill_http_limited_total{by=\"login\"} 4"), "{metrics}");
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_demo_login_no_code_logs_in() {
    let world = World::start().await;
    let door = Door::with(&world, |settings| settings.demo_login = false);
    for got in [door.code("", PHONE).await, door.log_in("", PHONE, "000000").await] {
        assert_eq!((got.status, got.wait), (501, None), "{}", got.body);
        assert!(got.body["errorMsg"].as_str().unwrap().contains("--demo-login"), "{}", got.body);
    }
    let keys: Vec<String> = world.server.query(&["KEYS", "login:*"]);
    assert!(keys.is_empty(), "{keys:?}");
    door.close().await;
}

/// The address that a proxy names has a limit of its own; one that a client names has not.
#[tokio::test(flavor = "multi_thread")]
async fn limits_apply_to_the_address_that_a_trusted_proxy_names() {
    let world = World::start().await;
    for (trusted, statuses) in [(true, [404, 404, 404, 429]), (false, [404, 429, 429, 429])] {
        let door = Door::with(&world, |settings| {
            settings.address_per_second = 1;
            if trusted {
                behind_proxy(settings);
                settings.address_per_second = 1;
            }
        });
        let ask = async |header: &str, value: &str| {
            let request = door.request(Method::GET, "/voucher/7", "");
            door.got("/voucher/7", request.header(header, value)).await.status
        };
        let got = [
            ask("x-forwarded-for", "192.0.2.1").await,
            ask("x-forwarded-for", "192.0.2.1, 192.0.2.2").await,
            ask("forwarded", "for=\"[2001:db8::1]:80\"").await,
            ask("forwarded", "for=192.0.2.9, for=192.0.2.2").await,
        ];
        assert_eq!(got, statuses, "trusted: {trusted}");
        door.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_logs_in_with_a_code_once_and_out_again() {
    let world = World::start().await;
    world.admits().await;
    let door = Door::with(&world, |settings| {
        settings.demo_login = true;
        settings.session_ms = 60_000;
    });
    let post =
        async |path: &str, body: Value| door.put(Method::POST, path, "", body.to_string()).await;
    let phone = "13812345678";
    let code_key = world.keys.login_code(phone);
    let login =
        async |code: &str| post("/user/login", json!({ "phone": phone, "code": code })).await;
    assert_eq!(login("123456").await.status, 401, "no code was requested");
    let request = async || {
        let got = post("/user/code", json!({ "phone": phone })).await;
        assert_eq!((got.status, &got.body["data"]), (200, &Value::Null), "{}", got.body);
        world.server.query::<String>(&["GET", &code_key])
    };
    // The code of the owner stays, also if others ask for one or guess.
    let code = request().await;
    let wrong = if code == "000000" { "000001" } else { "000000" };
    assert_eq!(login(wrong).await.status, 401);
    assert_eq!(request().await, code);
    assert!(code.len() == 6 && code.bytes().all(|it| it.is_ascii_digit()), "{code}");
    let (one, other) = tokio::join!(login(&code), login(&code));
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 401], "a code opens one session");
    let won = if one.status == 200 { one } else { other };
    let token = won.body["data"].as_str().unwrap();
    let me = door.send(Method::GET, "/user/me", token).await;
    let id = me.body["data"]["id"].as_u64().unwrap();
    assert!(me.body["data"]["nickName"].as_str().unwrap().starts_with("user_"), "{}", me.body);
    // Each request lets the session begin again.
    let key = world.keys.session(token);
    let _: () = world.server.query(&["PEXPIRE", &key, "5000"]);
    assert_eq!(door.send(Method::GET, "/user/me", token).await.status, 200);
    assert!(world.server.query::<i64>(&["PTTL", &key]) > 5_000);
    // The same phone is the same user.
    let code = request().await;
    let again = login(&code).await;
    let second = again.body["data"].as_str().unwrap();
    assert_ne!(second, token);
    assert_eq!(door.send(Method::GET, "/user/me", second).await.body["data"]["id"], id);
    for _ in 0..2 {
        assert_eq!(door.send(Method::POST, "/user/logout", token).await.status, 200);
    }
    assert_eq!(door.send(Method::GET, "/user/me", token).await.status, 401);
    assert_eq!(door.order("7", token).await.status, 401, "no look-up is left");
    assert_eq!(door.order("7", second).await.status, 404);
    door.close().await;
}
