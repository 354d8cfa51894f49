//! `seckill serve` as a process: its command line, and its end during a rush.

use std::{
    collections::{BTreeSet, HashSet},
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    sync::Arc,
};

use crate::support::{
    AUTHORITY, Background, CERTIFICATE, KEY, PATIENCE, Seckill, Terminal, refused, wait_until,
};
use futures::{StreamExt as _, stream};
use reqwest::Client;
use rustix::process::Signal;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use serde_json::Value;

/// Waits for the address in the first line of `seckill serve`.
async fn address_of(server: &mut Background) -> String {
    let mut address = String::new();
    wait_until(PATIENCE, "it serves", async || {
        let shown = server.stdout();
        let found = shown.split_once("://").and_then(|(_, rest)| rest.split_once(' '));
        address = found.map(|(address, _)| address.to_owned()).unwrap_or_default();
        assert!(server.is_running(), "{}", server.stderr());
        !address.is_empty()
    })
    .await;
    address
}

/// Creates users with their sessions; returns the tokens.
fn log_in(home: &Seckill, users: u64) -> Vec<String> {
    let file = home.file("tokens.txt");
    let (count, path) = (users.to_string(), file.to_str().unwrap());
    let created = home.json(&["users", "create", "--count", &count, "--tokens", path]);
    assert_eq!(created["users"], users);
    let tokens: Vec<_> = fs::read_to_string(&file).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(tokens.iter().collect::<HashSet<_>>().len() as u64, users);
    tokens
}

/// Every ID that a client was given is in SQL, although the server was stopped in the middle.
#[tokio::test(flavor = "multi_thread")]
async fn each_order_given_before_sigterm_is_in_sql() {
    const USERS: u64 = 4_000;
    let home = Seckill::new();
    home.run(&["sale", "create", "--title", "tea", "--stock", "4000"]).expect_code(0);
    let mut server = home.spawn(&["serve", "--listen", "127.0.0.1:0"]);
    let address = address_of(&mut server).await;
    let tokens = log_in(&home, USERS);
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

/// Names of metrics in the text, without those in comments.
fn metrics(text: &str) -> BTreeSet<&str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let words = lines.flat_map(|line| line.split(|c: char| c != '_' && !c.is_alphanumeric()));
    words.filter(|word| word.starts_with("seckill_")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_shows_exactly_the_metrics_that_are_served() {
    let home = Seckill::new();
    home.run(&["sale", "create", "--title", "tea", "--stock", "1"]).expect_code(0);
    let mut server = home.spawn(&["serve", "--listen", "127.0.0.1:0"]);
    let url = format!("http://{}/metrics", address_of(&mut server).await);
    let client = Client::builder().no_proxy().build().unwrap();
    let mut served = String::new();
    wait_until(PATIENCE, "a request was counted, and the sale is known", async || {
        served = client.get(&url).send().await.unwrap().text().await.unwrap();
        ["seckill_http_requests_total{", "seckill_sale_orders{"]
            .iter()
            .all(|it| served.contains(it))
    })
    .await;
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/grafana/seckill.json");
    assert_eq!(metrics(&fs::read_to_string(file).unwrap()), metrics(&served));
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
    // The console says so before it opens the screen, and before it starts a server.
    let mut console = home.pty(&["--listen", &address], 100, 30, &[]);
    console.wait_for_text(&format!("cannot listen on {address}"));
    assert_eq!(console.exit_status(PATIENCE).exit_code(), 1);
    assert_eq!(console.terminal(), Terminal::RESTORED);
    for (args, why) in [
        (&["--listen", &address, "--read-only"][..], "--read-only"),
        (&["--listen", &address, "status"], "seckill serve"),
        (&["--insecure"], "--listen"),
    ] {
        refused(home.run(args), 2, why);
    }
    assert!(home.processes().is_empty(), "nothing was started");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_console_serves_buyers_until_it_quits() {
    let home = Seckill::new();
    home.run(&["sale", "create", "--title", "tea", "--stock", "9"]).expect_code(0);
    let mut console = home.pty(&["--listen", "127.0.0.1:0"], 120, 36, &[]);
    console.wait_for_text("Overview");
    console.send("s");
    let text = console.wait_for_text("http://127.0.0.1:");
    let (_, url) = text.split_once("http://").unwrap();
    let url = format!("http://{}", url.split_whitespace().next().unwrap());
    let (client, tokens) = (Client::builder().no_proxy().build().unwrap(), log_in(&home, 1));
    let order = format!("{url}/voucher-order/seckill/1");
    let buy = async || client.post(&order).header("authorization", &tokens[0]).send().await;
    for status in [200, 409] {
        assert_eq!(buy().await.unwrap().status(), status);
    }
    console.send("l");
    let text = console.wait_for_text("200: 1, 409: 1");
    assert!(text.contains("top users") && !text.contains(&tokens[0]), "{text}");
    let status = home.json(&["status"]);
    assert_eq!((&status["http"][0]["url"], &status["http"][1]), (&url.into(), &Value::Null));
    console.send("q");
    assert!(console.exit_status(PATIENCE).success());
    assert_eq!(console.terminal(), Terminal::RESTORED);
    assert!(buy().await.is_err(), "it listens no more");
    assert_eq!(home.json(&["audit"])["sales"][0]["persisted"], 1);
}

/// A process that is killed cannot remove its figures.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_server_is_not_shown() {
    let home = Seckill::new();
    let mut server = home.spawn(&["serve", "--listen", "127.0.0.1:0"]);
    address_of(&mut server).await;
    let served = || home.json(&["status"])["http"].as_array().unwrap().len();
    wait_until(PATIENCE, "it is shown", async || served() == 1).await;
    server.signal(Signal::KILL);
    wait_until(PATIENCE, "it counts as dead", async || served() == 0).await;
}

#[test]
fn tokens_are_shown_once_and_revoked_once() {
    let home = Seckill::new();
    let created = home.json(&["tokens", "create", "--role", "operator", "--name", "till"]);
    let (id, token) = (created["id"].to_string(), created["token"].as_str().unwrap());
    assert_eq!(token.len(), 32);
    let listed = home.run(&["tokens", "list"]).expect_code(0);
    assert!(listed.stdout.contains("till") && !listed.stdout.contains(token), "{listed}");
    let stored = fs::read(home.data_dir().join("seckill.db")).unwrap();
    let found = |text: &str| stored.windows(text.len()).any(|it| it == text.as_bytes());
    assert!(!found(token), "the database holds a digest only");
    home.run(&["tokens", "revoke", &id]).expect_code(0);
    home.run(&["tokens", "revoke", &id]).expect_code(1);
    for wrong in [&["create", "--role", "king"][..], &["create"], &["revoke", "x"]] {
        home.run(&[&["tokens"], wrong].concat()).expect_code(2);
    }
    let actions = home.json(&["activity", "--commands"]);
    let shown = actions.to_string();
    assert!(shown.contains("token create") && shown.contains("token revoke"), "{shown}");
    assert!(!shown.contains(token));
}

#[test]
fn a_file_of_tokens_is_for_its_user_alone() {
    let home = Seckill::new();
    log_in(&home, 3);
    let mode = fs::metadata(home.file("tokens.txt")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0);
    let create = |count: &str, file: &str| {
        home.run(&["users", "create", "--count", count, "--tokens", file])
    };
    for count in ["0", "-1", "x", "1000001"] {
        create(count, home.file("t").to_str().unwrap()).expect_code(2);
    }
    refused(create("1", "/nonexistent/t"), 1, "/nonexistent/t");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_door_with_a_certificate_speaks_tls_alone() {
    let home = Seckill::new();
    let file = |name: &str, text: &str| {
        let path = home.file(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (chain, key) = (file("chain.pem", CERTIFICATE), file("key.pem", KEY));
    let (empty, other) = (file("empty.pem", ""), file("other.pem", AUTHORITY));
    let serve = |chain: &str, key: &str| {
        home.run(&["serve", "--listen", "0.0.0.0:0", "--tls-cert", chain, "--tls-key", key])
    };
    for (chain, key, named) in [
        ("/nonexistent", &*key, "/nonexistent"),
        (&*chain, "/nonexistent", "/nonexistent"),
        (&*chain, &*empty, &*empty),
        (&*empty, &*key, &*empty),
        (&*other, &*key, &*other),
    ] {
        refused(serve(chain, key), 1, named);
    }
    refused(home.run(&["serve", "--tls-cert", &chain]), 2, "--tls-key");
    let args = ["serve", "--listen", "127.0.0.1:0", "--tls-cert", &chain, "--tls-key", &key];
    let mut server = home.spawn(&args);
    let address = address_of(&mut server).await;
    assert!(server.stdout().contains("https://"), "{}", server.stdout());
    let answer = tokio::task::spawn_blocking(move || {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(AUTHORITY.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        let client = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut tls = StreamOwned::new(client, stream);
        tls.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        // The server may close the connection without a farewell.
        let _ = tls.read_to_string(&mut answer);
        answer
    });
    let answer = answer.await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    server.signal(Signal::TERM);
    server.wait(PATIENCE).expect_code(0);
}

/// Two servers share a sale: it is sold once, and every order that was given is written.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_test_over_http_is_reported_like_one_of_a_node() {
    let home = Seckill::new();
    home.run(&["sale", "create", "--title", "tea", "--stock", "100"]).expect_code(0);
    log_in(&home, 300);
    let mut servers = ["one", "two"].map(|_| home.spawn(&["serve", "--listen", "127.0.0.1:0"]));
    let mut urls = Vec::new();
    for server in &mut servers {
        urls.push(format!("http://{}", address_of(server).await));
    }
    let file = home.file("tokens.txt");
    let rush = |urls: &[&str], more: &[&str]| {
        let mut args = vec!["rush", "--voucher", "1", "--tokens", file.to_str().unwrap()];
        for url in urls {
            args.extend(["--http", url]);
        }
        home.run(&[&args, more].concat())
    };
    let both = [&*urls[0], &*urls[1]];
    let csv = home.file("rush.csv");
    let done = rush(&both, &["--repeat", "0.5", "--json", "--csv", csv.to_str().unwrap()]);
    let report: Value = serde_json::from_str(&done.expect_code(0).stdout).unwrap();
    for (figure, value) in
        [("attempts", 450), ("admitted", 100), ("persisted", 100), ("rejected", 0), ("errors", 0)]
    {
        assert_eq!(report[figure], value, "{figure}: {report}");
    }
    let refused_in_all =
        report["sold_out"].as_u64().unwrap() + report["duplicate"].as_u64().unwrap();
    assert_eq!(refused_in_all, 350, "{report}");
    assert!(fs::read_to_string(&csv).unwrap().contains("\ntotal,450,"));
    assert_eq!(home.json(&["audit"])["balanced"], true);
    // A voucher, a server or a token that is wrong.
    refused(home.run(&["rush", "--voucher", "1"]), 2, "--users");
    let tokens = ["--tokens", file.to_str().unwrap(), "--http", &urls[0]];
    refused(home.run(&[&["rush", "--voucher", "9"], &tokens[..]].concat()), 1, "404");
    refused(rush(&both[..1], &["--users", "301"]), 2, "300");
    refused(rush(&["https://127.0.0.1"], &[]), 2, "http://");
    refused(rush(&["here"], &[]), 2, "http://");
    let none = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    refused(rush(&[&format!("http://{none}")], &[]), 3, &none.to_string());
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = stranger.local_addr().unwrap();
    let page = std::thread::spawn(move || {
        let (mut client, _) = stranger.accept().unwrap();
        let _ = client.read(&mut [0; 1_024]);
        client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>").unwrap();
    });
    refused(rush(&[&format!("http://{address}")], &[]), 1, "not a seckill server");
    page.join().unwrap();
    for (content, named) in
        [("", "no tokens"), ("good\nnot good\n", "line 2"), ("a\n\nb", "line 2")]
    {
        fs::write(&file, content).unwrap();
        let output = rush(&both, &[]);
        assert!(!output.stderr.contains("good"), "{output}");
        refused(output, 2, named);
    }
    fs::write(&file, "0123456789abcdef\n").unwrap();
    let stranger = rush(&both, &[]).expect_code(1);
    assert!(stranger.stdout.contains("first error: 401"), "{stranger}");
    fs::remove_file(&file).unwrap();
    refused(rush(&both, &[]), 2, "tokens.txt");
    for server in servers {
        server.signal(Signal::TERM);
        server.wait(PATIENCE).expect_code(0);
    }
}
