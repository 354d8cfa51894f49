//! The managed server: started, shared, killed, damaged, left behind.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

use redis::Commands;
use seckill_redis::{
    DataDir, DataDirError, ManagedServer, find_server, server_binary::find_server_on,
};
use tempfile::TempDir;

use crate::support::{BINARY, Background, PATIENCE, Seckill};

/// A directory for one test; a server left in it is stopped with it.
struct Room(TempDir);

impl Room {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("data")
    }

    fn enter(&self) -> (DataDir, ManagedServer) {
        let dir = DataDir::open(self.path()).unwrap();
        let server = ManagedServer::attach(&dir).unwrap();
        (dir, server)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path().join("redis/redis.log")).unwrap()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Ok(dir) = DataDir::open(self.path()) {
            if let Ok(mut server) = connect_to(dir.socket_path()) {
                let _ = redis::cmd("SHUTDOWN").arg("NOSAVE").query::<()>(&mut server);
            }
            if !dir.socket_path().starts_with(dir.path()) {
                let _ = fs::remove_dir(dir.socket_path().parent().unwrap());
            }
        }
    }
}

fn connect_to(socket: &Path) -> redis::RedisResult<redis::Connection> {
    redis::Client::open(redis::ConnectionAddr::Unix(socket.to_path_buf()))?.get_connection()
}

fn connect(server: &ManagedServer) -> redis::Connection {
    connect_to(server.socket()).unwrap()
}

fn info(server: &ManagedServer, field: &str) -> String {
    let info: redis::InfoDict = redis::cmd("INFO").query(&mut connect(server)).unwrap();
    info.get(field).unwrap()
}

/// Sends SIGKILL to the server that answers.
fn kill(server: &ManagedServer) {
    let pid: i32 = info(server, "process_id").parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    wait_until(|| connect_to(server.socket()).is_err());
}

fn wait_until(mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(20), "it does not come about");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Starts and stops of servers in the order of the log: `(`, `)`; a killed one has no stop.
fn lives(log: &str) -> String {
    log.lines()
        .filter_map(|line| match line {
            line if line.contains("oO0OoO0OoO0Oo") => Some('('),
            line if line.contains("bye bye") => Some(')'),
            _ => None,
        })
        .collect()
}

/// A visitor in a separate process: this test binary, re-executed.
fn visitor(data: &Path, how: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(crate::support::only(module_path!(), "visit"))
        .env("SECKILL_TEST_VISIT", how)
        .env("SECKILL_TEST_ROOM", data)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Entry point of a [`visitor`].
#[test]
#[ignore = "the work of a process that another test starts"]
fn visit() {
    let how = std::env::var("SECKILL_TEST_VISIT").unwrap();
    let room = std::env::var_os("SECKILL_TEST_ROOM").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for _ in 0..4 {
            let dir = DataDir::open(&room).unwrap();
            let server = ManagedServer::attach(&dir).unwrap();
            server.ensure().await.unwrap();
            let _: () = connect(&server).incr("visits", 1).unwrap();
            if how == "die" {
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
            }
            server.detach().await.unwrap();
        }
    });
}

#[tokio::test]
async fn the_first_process_starts_the_server_and_the_last_stops_it() {
    let room = Room::new();
    let (dir, one) = room.enter();
    one.ensure().await.unwrap();
    one.ensure().await.unwrap();
    let run = info(&one, "run_id");
    let (_, two) = room.enter();
    two.ensure().await.unwrap();
    assert_eq!(info(&two, "run_id"), run);
    assert_eq!(two.socket(), dir.socket_path());

    one.detach().await.unwrap();
    let DataDirError(why) = one.ensure().await.unwrap_err();
    assert_eq!(why.id(), Some("redis-server-detached"), "{why}");
    two.ensure().await.unwrap();
    assert_eq!(info(&two, "run_id"), run, "the one who started it has gone, and it stays");

    let _: () = connect(&two).set("kept", "火").unwrap();
    two.detach().await.unwrap();
    two.detach().await.unwrap();
    assert!(connect_to(dir.socket_path()).is_err());
    assert_eq!(lives(&room.log()), "()");

    let (_, three) = room.enter();
    three.ensure().await.unwrap();
    assert_eq!(connect(&three).get::<_, String>("kept").unwrap(), "火");
    three.detach().await.unwrap();
}

#[tokio::test]
async fn the_managed_server_is_configured_for_durability() {
    let room = Room::new();
    let (_dir, server) = room.enter();
    server.ensure().await.unwrap();
    for (name, value) in
        [("appendonly", "yes"), ("appendfsync", "everysec"), ("save", ""), ("port", "0")]
    {
        let (_, result): (String, String) =
            redis::cmd("CONFIG").arg("GET").arg(name).query(&mut connect(&server)).unwrap();
        assert_eq!(result, value, "{name}");
    }
    server.detach().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_comes_back_with_its_data() {
    let room = Room::new();
    let (_dir, server) = room.enter();
    server.ensure().await.unwrap();
    let (_, other) = room.enter();
    for round in 1..=3 {
        let _: () = connect(&server).incr("rounds", 1).unwrap();
        kill(&server);
        // Many tasks notice at once, through two handles.
        let all: Vec<_> = (0..8)
            .map(|n| {
                let server = if n % 2 == 0 { server.clone() } else { other.clone() };
                tokio::spawn(async move { server.ensure().await })
            })
            .collect();
        for one in all {
            one.await.unwrap().unwrap();
        }
        assert_eq!(connect(&other).get::<_, i64>("rounds").unwrap(), round);
        assert_eq!(lives(&room.log()).len() as i64, round + 1);
    }
    server.detach().await.unwrap();
    other.detach().await.unwrap();
    assert_eq!(lives(&room.log()), "(((()");
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_processes_share_one_server() {
    let room = Room::new();
    let path = room.path();
    let all: Vec<_> = (0..8)
        .map(|_| {
            let path = path.clone();
            tokio::spawn(async move {
                let dir =
                    tokio::task::spawn_blocking(|| DataDir::open(path)).await.unwrap().unwrap();
                let server = ManagedServer::attach(&dir).unwrap();
                server.ensure().await.unwrap();
                let run = info(&server, "run_id");
                (server, run)
            })
        })
        .collect();
    let mut servers = Vec::new();
    let mut runs = Vec::new();
    for one in all {
        let (server, run) = one.await.unwrap();
        servers.push(server);
        runs.push(run);
    }
    runs.dedup();
    assert_eq!(runs.len(), 1);
    // All leave at the same moment; exactly one of them is the last.
    let leaving: Vec<_> = servers
        .into_iter()
        .map(|server| tokio::spawn(async move { server.detach().await }))
        .collect();
    for one in leaving {
        one.await.unwrap().unwrap();
    }
    assert_eq!(lives(&room.log()), "()");
}

#[test]
fn processes_join_and_leave_without_a_second_server() {
    let room = Room::new();
    let visitors: Vec<_> = (0..6).map(|_| visitor(&room.path(), "politely")).collect();
    for mut one in visitors {
        assert!(one.wait().unwrap().success());
    }
    let lives = lives(&room.log());
    assert!(!lives.is_empty() && lives.replace("()", "").is_empty(), "{lives}");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let (_dir, server) = room.enter();
        server.ensure().await.unwrap();
        assert_eq!(connect(&server).get::<_, i64>("visits").unwrap(), 24);
        server.detach().await.unwrap();
    });
}

#[tokio::test]
async fn a_server_whose_starter_was_killed_is_adopted() {
    let room = Room::new();
    assert!(!visitor(&room.path(), "die").wait().unwrap().success());
    let (dir, server) = room.enter();
    server.ensure().await.unwrap();
    assert_eq!(connect(&server).get::<_, i64>("visits").unwrap(), 1);
    assert_eq!(lives(&room.log()), "(");
    server.detach().await.unwrap();
    assert!(connect_to(dir.socket_path()).is_err());
    assert_eq!(lives(&room.log()), "()");
}

#[tokio::test]
async fn a_long_data_directory_path_works() {
    let room = Room::new();
    let path = room.path().join("x".repeat(120));
    let dir = DataDir::open(path).unwrap();
    let server = ManagedServer::attach(&dir).unwrap();
    server.ensure().await.unwrap();
    assert!(!server.socket().starts_with(dir.path()));
    server.detach().await.unwrap();
    fs::remove_dir(server.socket().parent().unwrap()).unwrap();
}

#[tokio::test]
async fn paths_may_contain_any_character() {
    let room = Room::new();
    let dir = DataDir::open(room.path().join("a \"b\" %41?#火")).unwrap();
    let server = ManagedServer::attach(&dir).unwrap();
    server.ensure().await.unwrap();
    assert_eq!(connect(&server).ping::<String>().unwrap(), "PONG");
    server.detach().await.unwrap();
}

#[tokio::test]
async fn a_damaged_file_is_reported_with_the_remedy() {
    let room = Room::new();
    let (dir, server) = room.enter();
    server.ensure().await.unwrap();
    let _: () = connect(&server).set("a", "b").unwrap();
    server.detach().await.unwrap();
    let files = dir.redis_dir().join("appendonlydir");
    let incr = fs::read_dir(&files)
        .unwrap()
        .map(|it| it.unwrap().path())
        .find(|it| it.to_string_lossy().ends_with(".incr.aof"))
        .unwrap();
    let whole = fs::read(&incr).unwrap();
    fs::write(&incr, [b"garbage\r\n".as_slice(), &whole].concat()).unwrap();

    let (_dir, server) = room.enter();
    let error = server.ensure().await.unwrap_err();
    assert_eq!(error.0.id(), Some("redis-server-damaged"), "{error}");
    assert!(error.to_string().contains("redis-check-aof --fix"), "{error}");
    fs::write(&incr, whole).unwrap();
    server.ensure().await.unwrap();
    assert_eq!(connect(&server).get::<_, String>("a").unwrap(), "b");
    server.detach().await.unwrap();
}

#[tokio::test]
async fn a_foreign_server_on_the_socket_is_left_alone() {
    let room = Room::new();
    let elsewhere = Room::new();
    let (_, strange) = elsewhere.enter();
    strange.ensure().await.unwrap();
    let (dir, server) = room.enter();
    std::os::unix::fs::symlink(strange.socket(), dir.socket_path()).unwrap();
    let error = server.ensure().await.unwrap_err();
    assert_eq!(error.0.id(), Some("redis-server-foreign"), "{error}");
    server.detach().await.unwrap();
    strange.ensure().await.unwrap();
    assert_eq!(lives(&elsewhere.log()), "(");
    strange.detach().await.unwrap();
}

#[tokio::test]
async fn a_dropped_demo_leaves_neither_server_nor_directory() {
    let place = tempfile::tempdir().unwrap();
    let dir = DataDir::throw_away_in(place.path()).unwrap();
    let server = ManagedServer::attach(&dir).unwrap();
    server.ensure().await.unwrap();
    let socket = server.socket().to_owned();
    let mut line = connect(&server);
    drop((server, dir));
    assert!(line.ping::<String>().is_err());
    assert!(!socket.exists());
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn an_abandoned_demo_is_swept_with_its_server() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("seckill-demo-of-old");
    assert!(!visitor(&data, "die").wait().unwrap().success());
    let lock = fs::File::options().write(true).open(data.join("lock")).unwrap();
    lock.set_modified(SystemTime::now() - Duration::from_hours(1)).unwrap();
    let mut line = connect_to(&data.join("redis.sock")).unwrap();

    let demo = DataDir::throw_away_in(place.path()).unwrap();
    assert!(!data.exists());
    assert!(line.ping::<String>().is_err());
    drop(demo);
}

/// A program on its own search path. The shell writes it: a file that this process has open
/// for writing cannot be executed while another thread forks.
fn program(dir: &Path, name: &str, prints: &str) {
    fs::create_dir_all(dir).unwrap();
    let done = Command::new("sh")
        .arg("-c")
        .arg(r#"printf '#!/bin/sh\necho "%s"\n' "$1" > "$2" && chmod 755 "$2""#)
        .args(["sh", prints])
        .arg(dir.join(name))
        .status();
    assert!(done.unwrap().success());
}

#[test]
fn server_programs_are_identified_by_their_version_output() {
    let place = tempfile::tempdir().unwrap();
    let [a, b, c] = ["a", "b", "c"].map(|it| place.path().join(it));
    let on = |dirs: &[&Path]| find_server_on(&std::env::join_paths(dirs).unwrap());

    let none = on(&[&a]).unwrap_err().to_string();
    assert!(none.contains("none is on PATH") && none.contains("install"), "{none}");

    program(&a, "redis-server", "I am a crate");
    program(&a, "valkey-server", "Redis server v=6.2.14 sha=0");
    let fakes = on(&[&a]).unwrap_err().to_string();
    assert!(fakes.contains("valkey-server is 6.2.14"), "{fakes}");
    assert!(fakes.contains("redis-server is not a server"), "{fakes}");

    program(&b, "redis-server", "Redis server v=7.0.0 sha=0");
    let found = on(&[&a, &b]).unwrap();
    assert_eq!((found.path, found.version.as_str()), (b.join("redis-server"), "7.0.0"));
    program(&c, "valkey-server", "Valkey server v=8.1.3 sha=0");
    assert_eq!(on(&[&a, &b, &c]).unwrap().path, c.join("valkey-server"));
    assert!(on(&[Path::new("."), Path::new("")]).is_err(), "relative places are no PATH");
    assert!(find_server().unwrap().version.starts_with(|it: char| it.is_ascii_digit()));
}

/// A server of version 7.2 or later asks the system for the locale of its environment, and exits if it is not
/// installed; those of this machine may be older.
#[test]
fn the_server_starts_whatever_the_locale_of_the_user() {
    let sandbox = Seckill::new();
    let real = find_server().unwrap();
    let script = r#"printf '#!/bin/bash
if [ "${LC_ALL:-${LC_COLLATE:-$LANG}}" != C ] && [ "$1" != --version ]; then
    echo "7:C 28 Nov 2026 16:19:09.539 # WARNING Memory overcommit must be enabled! See a web page."
    echo "7:M 28 Nov 2026 16:19:09.539 * Configuration loaded"
    echo "7:M 28 Nov 2026 16:19:09.539 # Failed to configure LOCALE for invalid locale name."
    exit 1
fi
exec -a %s %s "$@"
' "$1" "$2" > "$3" && chmod 755 "$3""#;
    let bin = sandbox.file("bin");
    fs::create_dir(&bin).unwrap();
    let done = Command::new("sh")
        .args(["-c", script, "sh", real.arg0])
        .arg(&real.path)
        .arg(bin.join("valkey-server"))
        .status();
    assert!(done.unwrap().success());
    let path = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path)));
    let path = path.unwrap().into_string().unwrap();
    for name in ["LANG", "LC_ALL", "LC_COLLATE"] {
        let envs = [("PATH", path.as_str()), (name, "xx_XX.UTF-8")];
        let args = sandbox.args(&["sale", "list"]);
        let listed = Background::spawn(BINARY, &args, &sandbox, &envs).wait(PATIENCE);
        listed.expect_code(0);
    }
}

#[tokio::test]
async fn a_server_that_exits_at_once_is_reported_with_its_last_output() {
    let room = Room::new();
    let bin = room.0.path().join("bin");
    program(&bin, "redis-server", "Redis server v=7.9.9");
    let dir = DataDir::open(room.path()).unwrap();
    let search = OsString::from(&bin);
    let server = ManagedServer::attach_searching(&dir, search).unwrap();
    let error = server.ensure().await.unwrap_err();
    assert_eq!(error.0.id(), Some("redis-server-died"), "{error}");
    assert!(error.to_string().contains("7.9.9"), "{error}");
    // Its lock went with it.
    let (_, other) = room.enter();
    other.ensure().await.unwrap();
    server.ensure().await.unwrap();
    server.detach().await.unwrap();
    other.detach().await.unwrap();

    let dir = DataDir::open(room.path()).unwrap();
    let nowhere = OsString::from("/nowhere");
    let server = ManagedServer::attach_searching(&dir, nowhere).unwrap();
    let DataDirError(why) = server.ensure().await.unwrap_err();
    assert_eq!(why.id(), Some("redis-redis-or-valkey-or-later"), "{why}");
    server.detach().await.unwrap();
}
