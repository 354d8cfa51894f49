//! `seckill serve` as a process: its command line, and its end during a rush.

use std::{
    collections::{BTreeSet, HashSet},
    ffi::OsString,
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
};

use crate::support::{
    AUTHORITY, BINARY, Background, CERTIFICATE, KEY, PATIENCE, Pty, Seckill, Terminal, came_true,
    http_client, key, refused, wait_until,
};
use futures::{StreamExt as _, stream};
use rustix::process::Signal;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    runtime::Handle,
    sync::watch,
    task::block_in_place,
    time::timeout,
};

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

/// `seckill serve` on a free port, and its address.
async fn serve(home: &Seckill, args: &[&str]) -> (Background, String) {
    let mut server = home.spawn(&[&["serve", "--listen", "127.0.0.1:0"], args].concat());
    let address = address_of(&mut server).await;
    (server, address)
}

/// The orders of voucher 1 in SQL.
fn persisted(home: &Seckill) -> u64 {
    home.json(&["sale", "show", "1"])["persisted"].as_u64().unwrap()
}

/// The arguments of a load test of voucher 1 on these servers, with the buyers of [`log_in`].
fn rush<'a>(tokens: &'a str, urls: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["rush", "--voucher", "1", "--tokens", tokens];
    for url in urls {
        args.extend(["--http", url]);
    }
    [&args, more].concat()
}

/// A server that is not seckill: one answer to questions about a voucher, and another one to all other requests. An empty
/// answer is not sent. Counts the requests.
async fn stranger(voucher: String, others: String) -> (String, watch::Receiver<u32>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (count, counted) = watch::channel(0);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (voucher, others, count) = (voucher.clone(), others.clone(), count.clone());
            tokio::spawn(async move {
                let mut request = [0; 4_096];
                while let Ok(1..) = client.read(&mut request).await {
                    let is_check = request.starts_with(b"GET /voucher/");
                    count.send_modify(|count| *count += 1);
                    let answer = if is_check { &voucher } else { &others };
                    client.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    });
    (url, counted)
}

/// An HTTP answer.
fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
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
    let client = http_client();
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
    let client = http_client();
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
    let admin =
        |admin: &str| home.run(&["serve", "--listen", "127.0.0.1:0", "--admin-listen", admin]);
    refused(admin(&address), 1, &format!("cannot listen on {address}"));
    refused(admin("0.0.0.0:0"), 2, "--insecure");
    refused(admin("localhost"), 2, "--admin-listen");
    for wrong in ["", "localhost", "127.0.0.1", "127.0.0.1:x", "-1", "127.0.0.1:70000"] {
        refused(serve(wrong), 2, "--listen");
    }
    refused(home.run(&["serve", "--read-only"]), 2, "read-only");
    // The console says so before it opens the screen, and before it starts a server.
    let mut console = home.pty(&["--listen", &address], 100, 30, &[]);
    console.wait_for_text(&format!("cannot listen on {address}"));
    assert_eq!(console.exit_status(PATIENCE).exit_code(), 1);
    assert_eq!(console.terminal(), Terminal::RESTORED);
    for (args, why) in [
        (&["--listen", &address, "--read-only"][..], "--read-only"),
        (&["--listen", &address, "status"], "seckill serve"),
        (&["--insecure"], "--listen"),
        (&["--admin-listen", "127.0.0.1:0"], "--listen"),
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
    let (client, tokens) = (http_client(), log_in(&home, 1));
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

/// A stopped multiplexer, a connection that is gone: the terminal takes some frames, then nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_that_is_not_read_delays_no_buyer_and_no_signal() {
    let home = Seckill::new();
    home.run(&["sale", "create", "--title", "tea", "--stock", "9"]).expect_code(0);
    let mut console = home.pty(&["--listen", "127.0.0.1:0"], 200, 50, &[]);
    console.wait_for_text("Overview");
    console.send("s");
    let text = console.wait_for_text("http://127.0.0.1:");
    let (_, url) = text.split_once("http://").unwrap();
    let url = format!("http://{}", url.split_whitespace().next().unwrap());
    let (client, tokens) = (http_client(), log_in(&home, 1));
    let order = format!("{url}/voucher-order/seckill/1");
    let stalled = async |console: &mut Pty| {
        // Each key shows another page, or all of it again: far more than a terminal holds.
        let healthy = format!("{url}/healthz");
        for view in "12345".chars().cycle().take(100) {
            console.send(&format!("{view}{}", key::CTRL_L));
            // Over a new connection.
            let answered = timeout(PATIENCE, http_client().get(&healthy).send()).await;
            assert_eq!(answered.expect("an answer").unwrap().status(), 200);
        }
        let buy = client.post(&order).header("authorization", &tokens[0]).send();
        assert_eq!(timeout(PATIENCE, buy).await.unwrap().unwrap().status(), 200);
        console.signal(Signal::TERM);
        assert!(came_true(PATIENCE, || console.has_exited()), "it does not end");
    };
    let runtime = Handle::current();
    block_in_place(|| console.unread_while(|console| runtime.block_on(stalled(console))));
    assert!(console.exit_status(PATIENCE).success());
    assert_eq!(console.terminal(), Terminal::RESTORED);
    assert!(home.processes().is_empty());
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
    refused(create("1", "/nonexistent/t"), 2, "/nonexistent/t");
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
        refused(serve(chain, key), 2, named);
    }
    refused(home.run(&["serve", "--tls-cert", &chain]), 2, "--tls-key");
    let args = ["serve", "--listen", "127.0.0.1:0", "--tls-cert", &chain, "--tls-key", &key];
    let mut server = home.spawn(&args);
    let address = address_of(&mut server).await;
    assert!(server.stdout().contains("https://"), "{}", server.stdout());
    let answer = http_client().get(format!("https://{address}/healthz")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    server.signal(Signal::TERM);
    server.wait(PATIENCE).expect_code(0);
}

/// The address for operators of `seckill serve`.
fn admin_address(server: &Background) -> String {
    let shown = server.stdout();
    let line = shown.lines().find(|line| line.starts_with("Metrics")).unwrap();
    let (_, address) = line.split_once("http://").unwrap();
    address.trim_end_matches('.').to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_have_an_address_of_their_own_if_asked_for() {
    let home = Seckill::new();
    let file = home.file("config.toml");
    fs::write(&file, "[http]\nadmin_listen = \"127.0.0.1\"\n").unwrap();
    let config = ["--config", file.to_str().unwrap()];
    let wrong = home.run(&[&["serve"], &config[..]].concat());
    refused(wrong, 2, "line 2, column 16: http.admin_listen must be an address with a port");
    fs::write(&file, "[http]\nadmin_listen = \"127.0.0.1:0\"\n").unwrap();
    let client = http_client();
    let status = async |address: &str, path: &str| {
        client.get(format!("http://{address}{path}")).send().await.unwrap().status().as_u16()
    };
    for args in [&["--admin-listen", "127.0.0.1:0"][..], &config] {
        let (server, address) = serve(&home, args).await;
        let mut admin = String::new();
        wait_until(PATIENCE, "it names the other address", async || {
            let is_shown = server.stdout().lines().any(|line| line.starts_with("Metrics"));
            if is_shown {
                admin = admin_address(&server);
            }
            is_shown
        })
        .await;
        for path in ["/metrics", "/healthz"] {
            assert_eq!(status(&admin, path).await, 200, "{path}");
            assert_eq!(status(&address, path).await, 404, "{path}");
        }
        server.signal(Signal::TERM);
        server.wait(PATIENCE).expect_code(0);
    }
    // What other hosts reach is said; a file of certificates that has no use is refused.
    let server = home.spawn(&["serve", "--listen", "0.0.0.0:0", "--insecure"]);
    wait_until(PATIENCE, "it says so", async || server.stdout().contains("--admin-listen")).await;
    server.signal(Signal::TERM);
    server.wait(PATIENCE).expect_code(0);
    let ca = home.file("ca.pem");
    for (content, named) in [(None, "ca.pem"), (Some(AUTHORITY), "rediss://")] {
        if let Some(content) = content {
            fs::write(&ca, content).unwrap();
        }
        let ca = ca.to_str().unwrap();
        let at = ["--redis", "rediss://127.0.0.1:1"];
        let args = if content.is_none() { &at[..] } else { &[] };
        refused(home.run(&[args, &["--redis-ca", ca, "status"]].concat()), 2, named);
    }
    for alone in ["--redis-cert", "--redis-key"] {
        let args = ["--redis", "rediss://127.0.0.1:1", alone, ca.to_str().unwrap(), "status"];
        refused(home.run(&args), 2, "belong together");
    }
}

/// A crowd that sends nothing takes only its part of the files that the process may open.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_connections_leaves_files_to_the_engine() {
    const LIMIT: usize = 512;
    let home = Seckill::new();
    home.run(&["sale", "create", "--title", "tea", "--stock", "9"]).expect_code(0);
    let file = home.file("config.toml");
    fs::write(&file, "[http]\naddress_connections = 0\n").unwrap();
    let limited = |set: &str, args: &[&str]| {
        let shell = format!("ulimit {set} {LIMIT}; exec \"$@\"");
        let mut all: Vec<OsString> =
            ["-c", &shell, "sh", BINARY].iter().map(|it| OsString::from(*it)).collect();
        all.extend(home.args(args));
        Background::spawn("sh", &all, &home, &[])
    };
    let config = ["--config", file.to_str().unwrap()];
    let serve = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let serve = [&config[..], &serve].concat();
    // The soft limit alone is raised.
    let mut server = limited("-S -n", &serve);
    address_of(&mut server).await;
    server.signal(Signal::TERM);
    let said = server.wait(PATIENCE).expect_code(0).stdout;
    assert!(!said.contains("LimitNOFILE"), "{said}");

    let mut server = limited("-n", &serve);
    let address = address_of(&mut server).await;
    wait_until(PATIENCE, "it says so", async || {
        server.stdout().contains("At most 240 connections of clients instead of 16,384")
    })
    .await;
    let admin = admin_address(&server);
    let mut crowd = Vec::new();
    for _ in 0..LIMIT - 40 {
        crowd.extend(tokio::net::TcpStream::connect(&address).await);
    }
    let client = http_client();
    let metrics = async || {
        let got = client.get(format!("http://{admin}/metrics")).send().await.unwrap();
        got.text().await.unwrap()
    };
    wait_until(PATIENCE, "its connections are taken", async || {
        metrics().await.lines().any(|line| line == "seckill_http_connections 240")
    })
    .await;
    // New connections to Redis and the database, and locks.
    wait_until(PATIENCE, "it is ready", async || {
        let ready = client.get(format!("http://{admin}/readyz")).send().await.unwrap();
        ready.status() == 200
    })
    .await;
    home.run(&["rush", "--voucher", "1", "--users", "20"]).expect_code(0);
    home.run(&["jobs", "run", "check-ledger"]).expect_code(0);
    wait_until(PATIENCE, "the node has written all", async || persisted(&home) == 9).await;
    let log = fs::read_to_string(home.data_dir().join("seckill.log")).unwrap();
    assert!(!log.contains("Too many open files"), "{log}");
    drop(crowd);
    server.signal(Signal::TERM);
    server.wait(PATIENCE).expect_code(0);
    let found = limited("-n", &["doctor"]).wait(PATIENCE).expect_code(0).stdout;
    assert!(found.contains("open-files") && found.contains("240"), "{found}");
    assert!(found.contains("LimitNOFILE"), "{found}");
}

/// Two servers share a sale: it is sold once, and every order that was given is written.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_test_over_http_is_reported_like_one_of_a_node() {
    let home = Seckill::new();
    home.run(&["sale", "create", "--title", "tea", "--stock", "100"]).expect_code(0);
    log_in(&home, 300);
    let file = home.file("tokens.txt");
    let tokens = file.to_str().unwrap();
    let (one, two) = (serve(&home, &[]).await, serve(&home, &[]).await);
    let urls = [&one, &two].map(|(_, address)| format!("http://{address}"));
    let both = [&*urls[0], &*urls[1]];
    let run = |urls: &[&str], more: &[&str]| home.run(&rush(tokens, urls, more));
    let csv = home.file("rush.csv");
    let done = run(&both, &["--repeat", "0.5", "--json", "--csv", csv.to_str().unwrap()]);
    let report = done.expect_code(0).json();
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
    let other = ["--tokens", tokens, "--http", both[0]];
    refused(home.run(&[&["rush", "--voucher", "9"], &other[..]].concat()), 1, "404");
    refused(run(&both[..1], &["--users", "301"]), 2, "300");
    for wrong in ["here", "ftp://127.0.0.1", "http://127.0.0.1/shop", "http://u:p@127.0.0.1"] {
        refused(run(&[wrong], &[]), 2, "http://");
    }
    let none = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    refused(run(&[&format!("http://{none}")], &[]), 3, &format!("{none}/ cannot be reached"));
    refused(run(&[&format!("https://{}", one.1)], &[]), 3, "cannot be reached");
    for (content, named) in
        [("", "no tokens"), ("good\nnot good\n", "line 2"), ("a\n\nb", "line 2")]
    {
        fs::write(&file, content).unwrap();
        let output = run(&both, &[]);
        assert!(!output.stderr.contains("good"), "{output}");
        refused(output, 2, named);
    }
    fs::write(&file, "0123456789abcdef\n").unwrap();
    let stranger = run(&both, &[]).expect_code(1);
    assert!(stranger.stdout.contains("first error: 401"), "{stranger}");
    fs::remove_file(&file).unwrap();
    refused(run(&both, &[]), 2, "tokens.txt");
    for (server, _) in [one, two] {
        server.signal(Signal::TERM);
        server.wait(PATIENCE).expect_code(0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_test_over_tls_checks_the_certificate() {
    let home = Seckill::new();
    home.run(&["sale", "create", "--title", "tea", "--stock", "100"]).expect_code(0);
    log_in(&home, 30);
    let [chain, key, authority, empty] = [
        ("chain.pem", CERTIFICATE),
        ("key.pem", KEY),
        ("authority.pem", AUTHORITY),
        ("empty.pem", ""),
    ]
    .map(|(name, text)| {
        fs::write(home.file(name), text).unwrap();
        home.file(name).to_str().unwrap().to_owned()
    });
    let file = home.file("tokens.txt");
    let run = |urls: &[&str], more: &[&str]| home.run(&rush(file.to_str().unwrap(), urls, more));
    let (signed, address) = serve(&home, &["--tls-cert", &chain, "--tls-key", &key]).await;
    let (signed_url, plain) = (format!("https://{address}"), format!("http://{address}"));
    let report = run(&[&signed_url], &["--tls-ca", &authority, "--json"]).expect_code(0).json();
    assert_eq!((&report["admitted"], &report["persisted"]), (&30.into(), &30.into()), "{report}");
    // Signed by no trusted authority, or not by that one.
    for ca in [&[][..], &["--tls-ca", &chain]] {
        refused(run(&[&signed_url], ca), 3, "--tls-ca");
    }
    refused(run(&[&plain], &[]), 3, "cannot be reached");
    refused(run(&[&plain], &["--tls-ca", &authority]), 2, "https://");
    for unusable in ["/nonexistent", "/", &empty, &key] {
        refused(run(&[&signed_url], &["--tls-ca", unusable]), 2, unusable);
    }
    signed.signal(Signal::TERM);
    signed.wait(PATIENCE).expect_code(0);
}

/// A buyer per 50 ms: it would take minutes.
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_a_load_test_over_http_with_a_report() {
    let home = Seckill::new();
    home.run(&["sale", "create", "--title", "tea", "--stock", "4000"]).expect_code(0);
    log_in(&home, 4_000);
    let file = home.file("tokens.txt");
    let (server, address) = serve(&home, &[]).await;
    let url = format!("http://{address}");
    let mut written = 0;
    for signal in [Signal::INT, Signal::TERM] {
        let seed = (written + 1).to_string();
        let more = ["--rate", "20", "--seed", &seed, "--json"];
        let running = home.spawn(&rush(file.to_str().unwrap(), &[&url], &more));
        wait_until(PATIENCE, "it has sold a few", async || persisted(&home) > written + 5).await;
        running.signal(signal);
        let report = running.wait(PATIENCE).expect_code(1).json();
        let figure = |name: &str| report[name].as_u64().unwrap();
        assert_eq!(
            (&report["cut_short"], &report["errors"]),
            (&true.into(), &0.into()),
            "{report}"
        );
        assert!(figure("attempts") < 4_000 && figure("persisted") > 5, "{report}");
        assert!(figure("persisted") <= figure("admitted"), "{report}");
        written += figure("admitted");
    }
    wait_until(PATIENCE, "every order is written", async || persisted(&home) == written).await;
    server.signal(Signal::TERM);
    server.wait(PATIENCE).expect_code(0);
}

/// One of two servers is killed in the middle: what it has given is found through the other one.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_test_outlives_one_of_its_servers() {
    let home = Seckill::new();
    home.run(&["sale", "create", "--title", "tea", "--stock", "600"]).expect_code(0);
    log_in(&home, 600);
    let file = home.file("tokens.txt");
    let config = home.file("claims.toml");
    fs::write(&config, "[engine]\nclaim_idle_ms = 1000\n").unwrap();
    let config = ["--config", config.to_str().unwrap()];
    let (living, dying) = (serve(&home, &config).await, serve(&home, &config).await);
    let urls = [&living, &dying].map(|(_, address)| format!("http://{address}"));
    // The first one is also the first to be asked for orders.
    let more = ["--rate", "100", "--json"];
    let running = home.spawn(&rush(file.to_str().unwrap(), &[&urls[1], &urls[0]], &more));
    wait_until(PATIENCE, "both have sold a few", async || persisted(&home) > 20).await;
    dying.0.signal(Signal::KILL);
    let report = running.wait(PATIENCE).expect_code(1).json();
    let figure = |name: &str| report[name].as_u64().unwrap();
    assert_eq!(
        (&report["cut_short"], &report["settled"]),
        (&false.into(), &true.into()),
        "{report}"
    );
    assert_eq!(figure("attempts"), 600, "{report}");
    assert_eq!(figure("admitted") + figure("errors"), 600, "{report}");
    assert_eq!(figure("persisted"), figure("admitted"), "{report}");
    assert!(figure("admitted") > 300 && figure("errors") > 100, "{report}");
    let why = report["first_error"].as_str().unwrap();
    assert!(why.starts_with(&urls[1]) && why.contains("cannot be reached"), "{why}");
    living.0.signal(Signal::TERM);
    living.0.wait(PATIENCE).expect_code(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_are_not_seckill_are_reported() {
    let home = Seckill::new();
    let file = home.file("tokens.txt");
    fs::write(&file, "one\ntwo\n").unwrap();
    let start = |url: &str| home.spawn(&rush(file.to_str().unwrap(), &[url], &[]));
    let good = answer("200 OK", r#"{"success":true,"errorMsg":null,"code":0,"data":{}}"#);
    let moved =
        "HTTP/1.1 302 Found\r\nLocation: https://shop.example/\r\nContent-Length: 0\r\n\r\n";
    for (wrong, named) in [
        (answer("200 OK", "<html>"), "(200) is not one of this API"),
        (answer("200 OK", r#"{"success":"#), "(200) is not one of this API"),
        (answer("200 OK", r#"{"status":"ok"}"#), "(200) is not one of this API"),
        (answer("502 Bad Gateway", ""), "(502) is not one of this API"),
        (moved.to_owned(), "redirects to https://shop.example/"),
    ] {
        let (url, _) = stranger(wrong.clone(), String::new()).await;
        refused(start(&url).wait(PATIENCE), 1, named);
        // It becomes so after the check.
        let (url, _) = stranger(good.clone(), wrong).await;
        let ended = start(&url).wait(PATIENCE).expect_code(1);
        assert!(
            ended.stdout.contains("first error: http://") && ended.stdout.contains(named),
            "{ended}"
        );
    }
    let (url, _) = stranger("nonsense".to_owned(), String::new()).await;
    refused(start(&url).wait(PATIENCE), 3, "cannot be reached");
    let (url, _) = stranger(good.clone(), good.clone()).await;
    let ended = start(&url).wait(PATIENCE).expect_code(1);
    assert!(ended.stdout.contains("is not one of this API"), "{ended}");
    // It gives no answer, at once or after the check, until a signal ends the load test.
    for check in [String::new(), good] {
        let (url, sent) = stranger(check.clone(), String::new()).await;
        let running = start(&url);
        let (requests, named) = if check.is_empty() {
            (1, "stopped before all requests were sent")
        } else {
            (3, "no reply before the load test was stopped")
        };
        wait_until(PATIENCE, "it waits for answers", async || *sent.borrow() == requests).await;
        running.signal(Signal::INT);
        let ended = running.wait(PATIENCE).expect_code(1);
        assert!(ended.stdout.contains(named), "{ended}");
    }
}

/// Codes are in the log only if the operator asked for it, who learns where they are.
#[tokio::test(flavor = "multi_thread")]
async fn the_login_by_code_is_off_unless_asked_for() {
    let home = Seckill::new();
    let client = http_client();
    for (args, status) in [(&[][..], 501), (&["--demo-login"], 200)] {
        let (server, address) = serve(&home, args).await;
        let url = format!("http://{address}/user/code");
        let answer = client.post(&url).body(r#"{"phone":"13812345678"}"#).send().await.unwrap();
        assert_eq!(answer.status(), status);
        let path = home.data_dir().join("seckill.log");
        let log = fs::read_to_string(&path).unwrap();
        assert_eq!(log.contains("login code phone=138****5678"), status == 200, "{log}");
        let said = server.stdout();
        assert_eq!(said.contains(path.to_str().unwrap()), status == 200, "{said}");
        server.signal(Signal::TERM);
        server.wait(PATIENCE).expect_code(0);
    }
    refused(home.run(&["--demo-login"]), 2, "--listen");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_that_sends_everything_is_named_unless_it_is_a_proxy() {
    let home = Seckill::new();
    for wrong in ["", "x", "10.0.0.0/33", "127.0.0.1,x"] {
        refused(home.run(&["serve", "--trusted-proxies", wrong]), 2, "10.0.0.0/8");
    }
    let file = home.file("config.toml");
    fs::write(&file, "[http]\ntrusted_proxies = [\"10.0.0.0/33\"]\n").unwrap();
    let config = file.to_str().unwrap();
    refused(home.run(&["serve", "--config", config]), 2, "line 2, column 19: http.trusted_prox");
    let (server, address) = serve(&home, &[]).await;
    let (client, url) = (http_client(), format!("http://{address}/healthz"));
    let ask = || {
        stream::iter(0..2_000).for_each_concurrent(8, async |_| {
            assert_eq!(client.get(&url).send().await.unwrap().status(), 200);
        })
    };
    let named = || home.json(&["status"])["http"][0]["one_address"].clone();
    wait_until(PATIENCE, "the address is named", async || {
        ask().await;
        named() == "127.0.0.1"
    })
    .await;
    wait_until(PATIENCE, "the log names the setting", async || {
        ask().await;
        let log = fs::read_to_string(home.data_dir().join("seckill.log")).unwrap();
        log.contains("127.0.0.1") && log.contains("http.trusted_proxies")
    })
    .await;
    server.signal(Signal::TERM);
    server.wait(PATIENCE).expect_code(0);
}
