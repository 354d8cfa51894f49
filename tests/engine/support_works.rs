//! The test support works as other tests expect.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    time::Duration,
};

use crate::support::{
    Background, MariaDb, PATIENCE, Postgres, Pty, Seckill, Terminal, TestRedis, key, run,
    wait_until,
};
use rustix::process::Signal;

/// What a test that panics would print.
fn complaint(test: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(test)).expect_err("it should fail");
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

fn is_alive(pid: u32) -> bool {
    // PID 1 of a container may never reap the zombies that it inherits.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::test_kill_process(pid).is_ok() && !stat.contains(") Z ")
}

#[test]
fn redis_keeps_its_data_over_a_kill() {
    let mut redis = TestRedis::setup().args(&["--appendfsync", "always"]).start();
    redis.query::<()>(&["SET", "k", "v"]);
    redis.kill();
    assert!(redis::Client::open(redis.url()).unwrap().get_connection().is_err());
    redis.restart();
    assert_eq!(redis.query::<String>(&["GET", "k"]), "v");
}

#[test]
fn redis_is_frozen_and_thawed() {
    let redis = TestRedis::start();
    let mut connection = redis.connection();
    connection.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    redis.freeze();
    assert!(redis::cmd("PING").query::<String>(&mut connection).is_err());
    redis.thaw();
    assert_eq!(redis.query::<String>(&["PING"]), "PONG");
}

#[test]
fn redis_asks_for_its_password_on_socket_and_port() {
    for setup in [TestRedis::setup(), TestRedis::setup().tcp()] {
        let redis = setup.password("secret").start();
        assert_eq!(redis.query::<String>(&["PING"]), "PONG");
        let without = redis.url().replace(":secret@", "").replace("?pass=secret", "");
        let mut stranger = redis::Client::open(without).unwrap().get_connection().unwrap();
        let refused = redis::cmd("PING").query::<String>(&mut stranger).unwrap_err();
        assert_eq!(refused.code(), Some("NOAUTH"));
    }
}

#[test]
fn redis_ends_with_a_test_that_panics_and_says_why_it_did_not_start() {
    let (mut pid, mut dir) = (0, std::path::PathBuf::new());
    complaint(|| {
        let redis = TestRedis::start();
        (pid, dir) = (redis.pid(), redis.dir().to_owned());
        panic!("as a test does");
    });
    assert!(!is_alive(pid) && !dir.exists());

    let why = complaint(|| drop(TestRedis::setup().args(&["--no-such-setting", "1"]).start()));
    assert!(why.contains("no-such-setting"), "{why}");
}

#[tokio::test]
async fn waiting_ends_with_the_condition_or_an_error() {
    let mut looks = 0;
    wait_until(PATIENCE, "three looks", async || {
        looks += 1;
        looks == 3
    })
    .await;
    let why = complaint(|| {
        crate::support::wait_until_blocking(Duration::ZERO, "what never comes", || false);
    });
    assert!(why.contains("what never comes"), "{why}");
}

#[test]
fn a_program_is_bounded_and_its_output_kept() {
    let sandbox = Seckill::new();
    let sh = |script: &str| Background::spawn("sh", &["-c", script], &sandbox, &[("X", "7")]);

    let ran = sh("cat; echo \"{\\\"x\\\": $X}\"; echo no >&2; exit 3").wait(PATIENCE);
    assert_eq!((ran.code(), ran.stderr.as_str()), (3, "no\n"));
    assert_eq!(ran.json()["x"], 7);
    let why = complaint(|| drop(ran.expect_code(0)));
    assert!(why.contains("expected exit code 0") && why.contains("no\n"), "{why}");

    let mut pid = 0;
    let why = complaint(|| {
        let endless = sh("echo begun; exec sleep 1000");
        pid = endless.pid();
        crate::support::wait_until_blocking(PATIENCE, "the begin", || {
            endless.stdout() == "begun\n"
        });
        endless.wait(Duration::ZERO);
    });
    assert!(why.contains("begun") && !is_alive(pid), "{why}");

    let stopped = sh("exec sleep 1000");
    stopped.signal(Signal::TERM);
    assert_eq!(stopped.wait(PATIENCE).status.code(), None);
}

#[test]
fn a_program_runs_without_the_environment_of_the_user() {
    let sandbox = Seckill::new();
    let ran = Background::spawn("env", &[] as &[&str], &sandbox, &[]).wait(PATIENCE);
    let value = |name: &str| {
        let line = ran.stdout.lines().find(|line| line.starts_with(&format!("{name}=")));
        line.map(str::to_owned)
    };
    let inside = sandbox.file("home").display().to_string();
    assert_eq!(value("HOME"), Some(format!("HOME={inside}")));
    for name in ["REDIS_URL", "DATABASE_URL", "NO_COLOR", "LC_ALL", "XDG_DATA_HOME"] {
        assert_eq!(value(name), None);
    }
    assert!(sandbox.args(&["status"]).ends_with(&["status".into()]));
}

#[test]
fn the_binary_can_be_run() {
    run(&["--help"]).expect_code(0);
}

/// A managed server as the binary leaves it: in the data directory, and not a child of this process.
fn leave_a_server_behind(sandbox: &Seckill) -> u32 {
    let dir = sandbox.data_dir();
    std::fs::create_dir(&dir).unwrap();
    let script = r#"
        for it in valkey-server:valkey-server redis-server:redis-server redis-check-rdb:redis-server; do
            if path=$(type -P "${it%%:*}") && (exec -a "${it##*:}" "$path" --version) | grep -q 'server v='; then
                exec -a "${it##*:}" "$path" --port 0 --unixsocket "$0/redis.sock" --dir "$0" --daemonize yes
            fi
        done
        exit 1"#;
    let args = ["-c", script, dir.to_str().unwrap()];
    Background::spawn("bash", &args, sandbox, &[]).wait(PATIENCE).expect_code(0);
    crate::support::wait_until_blocking(PATIENCE, "the server answers", || sandbox.redis().is_ok());
    let info: String =
        redis::cmd("INFO").arg("server").query(&mut sandbox.redis().unwrap()).unwrap();
    let pid = info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap();
    pid.trim().parse().unwrap()
}

#[test]
fn no_server_survives_its_data_dir() {
    let sandbox = Seckill::new();
    let pid = leave_a_server_behind(&sandbox);
    if Path::new("/proc/self/cwd").exists() {
        assert_eq!(sandbox.processes(), [pid]);
    }
    drop(sandbox);
    crate::support::wait_until_blocking(PATIENCE, "the server is gone", || !is_alive(pid));
}

#[test]
#[cfg(target_os = "linux")]
fn an_unresponsive_server_is_also_stopped() {
    let lose_socket = |sandbox: &Seckill, _| std::fs::remove_file(sandbox.socket()).unwrap();
    let freeze = |_: &Seckill, pid| {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        crate::support::freeze(pid);
    };
    for hurt in [&lose_socket as &dyn Fn(&Seckill, i32), &freeze] {
        let sandbox = Seckill::new();
        let pid = leave_a_server_behind(&sandbox);
        hurt(&sandbox, i32::try_from(pid).unwrap());
        drop(sandbox);
        crate::support::wait_until_blocking(PATIENCE, "the server is gone", || !is_alive(pid));
    }
}

fn sh(script: &str) -> Pty {
    Pty::spawn_program("sh", &["-c", script], 40, 6, &[])
}

#[test]
fn a_terminal_shows_what_is_typed_and_how_it_ended() {
    let mut pty = sh("printf 'name? '; read name; echo \"hello $name\"; exit 4");
    pty.wait_for_text("name?");
    pty.send("hot pot");
    pty.send(key::ENTER);
    let screen = pty.wait_for_text("hello hot pot");
    assert!(screen.starts_with("name? hot pot\nhello"), "{screen}");
    assert_eq!(pty.exit_status(PATIENCE).exit_code(), 4);
    assert_eq!(pty.terminal(), Terminal::RESTORED);
    assert!(pty.output().starts_with(b"name? "));
}

#[test]
fn a_terminal_reports_its_size_and_resizes() {
    let pty = sh("trap 'stty size; exit' WINCH; stty size; while :; do sleep 0.01; done");
    pty.wait_for_text("6 40");
    pty.resize(100, 30);
    pty.wait_for_text("30 100");
}

#[test]
fn a_terminal_reports_its_cursor_position() {
    let mut pty = sh("stty raw -echo; printf 'abc\\033[6n'; dd bs=1 count=6 2>/dev/null | od -c");
    // Row 1, column 4.
    pty.wait_for_text("033   [   1   ;   4   R");
    assert!(pty.exit_status(PATIENCE).success());
}

#[test]
fn a_terminal_records_its_final_state() {
    let all = "\\033[?1049h\\033[?25l\\033[?2004h\\033[?1000h\\033[?1h";
    let mut pty = sh(&format!("stty raw -echo; printf '{all}'"));
    assert!(pty.exit_status(PATIENCE).success());
    let left = Terminal {
        alternate_screen: true,
        cursor_hidden: true,
        bracketed_paste: true,
        mouse: true,
        application_keys: true,
        cooked: false,
    };
    assert_eq!(pty.terminal(), left);
}

#[test]
fn a_terminal_shows_its_last_screen_when_a_test_fails() {
    let why = complaint(|| {
        let pty = sh("echo here; exec sleep 1000");
        pty.wait_for_text("here");
        pty.wait_for(Duration::from_millis(20), "there", |screen| screen.contains("there"));
    });
    assert!(why.contains("vain for there: the time is over") && why.contains("│here"), "{why}");
    let why = complaint(|| drop(sh("echo over").wait_for_text("there")));
    assert!(why.contains("the program ended") && why.contains("│over"), "{why}");
}

#[test]
fn a_program_in_a_terminal_ends_with_the_test_and_by_signals() {
    let pty = sh("trap '' HUP; echo up; while :; do sleep 0.01; done");
    pty.wait_for_text("up");
    let pid = pty.pid();
    drop(pty);
    assert!(!is_alive(pid));

    let mut pty = sh("exec sleep 1000");
    pty.send(key::CTRL_C);
    assert_eq!(pty.exit_status(PATIENCE).signal(), Some("Interrupt"));
}

/// Entry point of the process that the test below kills: it re-executes this binary.
#[tokio::test]
#[ignore = "the work of a process that another test starts"]
async fn process_with_databases() {
    let (mariadb, postgres) = (MariaDb::shared(), Postgres::shared());
    mariadb.database().await;
    postgres.database().await;
    // Ends the line that the test harness has begun.
    println!();
    for (pid, dir) in [(mariadb.pid(), mariadb.dir()), (postgres.pid(), postgres.dir())] {
        println!("server {} {}", pid.as_raw_nonzero(), dir.display());
    }
    println!("ready");
    std::future::pending::<()>().await;
}

/// A client that reconnects to a killed server must not reach that of another test.
#[test]
fn a_port_stays_reserved_while_its_server_is_down() {
    let mut server = TestRedis::setup().tcp().start();
    let address = ("127.0.0.1", server.port());
    server.kill();
    assert!(std::net::TcpListener::bind(address).is_ok(), "the server is gone");
    assert!(std::net::UdpSocket::bind(address).is_err(), "the next test takes another port");
    drop(server);
    assert!(std::net::UdpSocket::bind(address).is_ok());
}

/// Neither a finished nor a killed test leaves a server or a file.
#[tokio::test]
async fn databases_end_with_the_process_of_their_test() {
    let sandbox = Seckill::new();
    let this = std::env::current_exe().unwrap();
    let args = crate::support::only(module_path!(), "process_with_databases");
    let env = [("TMPDIR", "/tmp")];
    let mut process = Background::spawn(this.to_str().unwrap(), &args, &sandbox, &env);
    process.wait_for_line("ready").await;
    let output = process.stdout();
    let servers: Vec<(u32, &Path)> = output
        .lines()
        .filter_map(|line| line.strip_prefix("server ")?.split_once(' '))
        .map(|(pid, dir)| (pid.parse().unwrap(), Path::new(dir)))
        .collect();
    assert_eq!(servers.len(), 2, "{output}");
    assert!(servers.iter().all(|(pid, dir)| is_alive(*pid) && dir.exists()));
    process.signal(Signal::KILL);
    wait_until(PATIENCE, "servers and directories are gone", async || {
        servers.iter().all(|(pid, dir)| !is_alive(*pid) && !dir.exists())
    })
    .await;
}

#[tokio::test]
async fn databases_are_killed_frozen_and_started_again() {
    let (mut mariadb, mut postgres) = (MariaDb::start(), Postgres::start());
    let (one, two) = (crate::support::new_name(), crate::support::new_name());
    mariadb.run("", &format!("CREATE DATABASE {one}")).await;
    mariadb.run(&one, "CREATE TABLE kept (a INT)").await;
    postgres.run("postgres", &format!("CREATE DATABASE {two}")).await;
    postgres.run(&two, "CREATE TABLE kept (a INT)").await;
    mariadb.kill();
    postgres.kill();
    mariadb.restart();
    postgres.restart();
    mariadb.run(&one, "INSERT INTO kept VALUES (1)").await;
    postgres.run(&two, "INSERT INTO kept VALUES (1)").await;
    mariadb.freeze();
    postgres.freeze();
    let limit = Duration::from_millis(100);
    assert!(tokio::time::timeout(limit, mariadb.run(&one, "SELECT 1")).await.is_err());
    assert!(tokio::time::timeout(limit, postgres.run(&two, "SELECT 1")).await.is_err());
    mariadb.thaw();
    postgres.thaw();
    mariadb.run(&one, "SELECT 1").await;
    postgres.run(&two, "SELECT 1").await;
    let places = [mariadb.dir().to_owned(), postgres.dir().to_owned()];
    drop((mariadb, postgres));
    assert!(places.iter().all(|place| !place.exists()));
}
