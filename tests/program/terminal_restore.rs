//! The terminal is restored however the console ends or stops; and one that the console cannot
//! draw on is not touched.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use crate::support::{LONG, Pty, Seckill, Terminal, key, wait_until_blocking};
use rustix::process::{Pid, Signal, kill_process};
use seckill_console::Options;
use seckill_engine::{
    commands::{Focus, Remote},
    telemetry::Snapshot,
};
use tokio::sync::{mpsc, watch};

const TAKES: &[u8] = b"\x1b[?1049h";
const LEAVES: &str = "\x1b[?1049l";
const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";

fn contains(output: &[u8], part: &[u8]) -> bool {
    output.windows(part.len()).any(|it| it == part)
}

#[test]
fn every_signal_gives_the_terminal_back() {
    use Signal as S;
    for signal in [S::HUP, S::TERM, S::INT, S::QUIT, S::ALARM, S::USR1, S::USR2] {
        let home = Seckill::new();
        let mut terminal = home.pty(&[], 80, 24, &[]);
        terminal.wait_for_text("Overview");
        terminal.signal(signal);
        assert!(terminal.exit_status(LONG).success(), "{signal:?}");
        assert_eq!(terminal.terminal(), Terminal::RESTORED, "{signal:?}");
        assert!(home.processes().is_empty(), "{signal:?} leaves nothing behind");
    }
}

/// A shell that gets the terminal after a stop, waits for Enter and resumes the console in the foreground.
fn comes_back_from_the_shell(stop: impl FnOnce(&Pty)) {
    let home = Seckill::new();
    let script = "set -m; \"$@\"; echo SHELL; read _; fg >/dev/null";
    let mut args =
        vec!["-c".into(), script.into(), "bash".into(), env!("CARGO_BIN_EXE_seckill").into()];
    args.extend(home.args(&[]));
    let mut terminal = Pty::open("bash".as_ref(), &args, 80, 24, &home, &[]);
    terminal.wait_for(LONG, "the console", |screen| screen.contains("No open alarms"));
    stop(&terminal);
    terminal.wait_for(LONG, "the shell", |screen| screen.contains("SHELL"));
    assert_eq!(terminal.terminal(), Terminal::RESTORED);
    terminal.send("\r");
    terminal.wait_for(LONG, "the console again", |screen| screen.contains("No open alarms"));
    terminal.send("q");
    assert!(terminal.exit_status(LONG).success());
    assert_eq!(terminal.terminal(), Terminal::RESTORED);
}

#[test]
fn a_console_that_was_stopped_by_a_key_comes_back() {
    comes_back_from_the_shell(|terminal| {
        terminal.send(key::CTRL_Z);
        terminal.wait_for(LONG, "the question", |screen| screen.contains("Suspend the console?"));
        terminal.send(key::CTRL_Z);
    });
}

#[test]
fn a_console_that_was_stopped_by_a_signal_comes_back() {
    comes_back_from_the_shell(|terminal| {
        let shell = terminal.pid();
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        let console = children.split_whitespace().next().unwrap().parse().unwrap();
        kill_process(Pid::from_raw(console).unwrap(), Signal::TSTP).unwrap();
    });
}

/// Environment variable with the instructions for [`a_console_beside_which_something_panics`].
const PANICS: &str = "CONSOLE_TEST_PANICS";

/// Entry point: the other tests run it in a terminal.
#[test]
#[ignore = "is run by the tests of panics"]
fn a_console_beside_which_something_panics() {
    let Ok(instructions) = std::env::var(PANICS) else { return };
    let (place, file) = instructions.split_once(':').expect("PLACE:FILE");
    let file = PathBuf::from(file);
    let until_asked = move || {
        while !file.exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let (_pictures, snapshots) = watch::channel(Arc::new(Snapshot::default()));
    let (commands, _requests) = mpsc::channel(1);
    let (focus, _looks) = watch::channel(Focus::default());
    let console = seckill_console::run(Remote { snapshots, commands, focus }, Options::default());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if place == "elsewhere" {
        let beside = std::thread::spawn(move || {
            until_asked();
            panic!("the other thread broke");
        });
        runtime.block_on(console).unwrap();
        assert!(beside.join().is_err());
    } else {
        runtime.block_on(async {
            tokio::select! {
                shown = console => shown.unwrap(),
                () = async { tokio::task::spawn_blocking(until_asked).await.unwrap() } => {
                    panic!("the console itself broke")
                }
            }
        });
    }
}

fn panicking(home: &Seckill, place: &str) -> (Pty, PathBuf) {
    let file = home.file("now");
    let result = format!("{place}:{}", file.display());
    let this = std::env::current_exe().unwrap();
    let name = "a_console_beside_which_something_panics";
    let args = crate::support::only(module_path!(), name);
    let terminal = Pty::open(this.as_os_str(), &args, 80, 24, home, &[(PANICS, &result)]);
    terminal.wait_for(LONG, "the console", |screen| screen.contains("Waiting for the first"));
    (terminal, file)
}

#[test]
fn a_panic_of_the_console_is_read_on_a_terminal_in_order() {
    let home = Seckill::new();
    let (mut terminal, file) = panicking(&home, "here");
    fs::write(file, "").unwrap();
    assert!(!terminal.exit_status(LONG).success());
    assert_eq!(terminal.terminal(), Terminal::RESTORED);
    let output = String::from_utf8(terminal.output()).unwrap();
    let (_, after) = output.rsplit_once(LEAVES).unwrap();
    assert!(after.contains("the console itself broke"), "{after}");
}

#[test]
fn a_panic_elsewhere_is_reported_and_the_console_continues() {
    let home = Seckill::new();
    let (mut terminal, file) = panicking(&home, "elsewhere");
    fs::write(file, "").unwrap();
    wait_until_blocking(LONG, "it is taken twice", || {
        let output = terminal.output();
        output.windows(TAKES.len()).filter(|it| *it == TAKES).count() == 2
    });
    terminal.wait_for(LONG, "the console", |screen| screen.contains("Waiting for the first"));
    terminal.send("q");
    assert!(terminal.exit_status(LONG).success());
    assert_eq!(terminal.terminal(), Terminal::RESTORED);
    let output = String::from_utf8(terminal.output()).unwrap();
    let [_, result, _] = output.split(LEAVES).collect::<Vec<_>>()[..] else { panic!("left twice") };
    assert!(result.contains("the other thread broke"), "{result}");
}

#[test]
fn an_unusable_terminal_is_reported_and_not_touched() {
    for (term, args) in
        [("dumb", &[][..]), ("", &[]), ("dumb", &["demo"]), ("dumb", &["drill", "poison"])]
    {
        let home = Seckill::new();
        let mut terminal = Pty::open(
            env!("CARGO_BIN_EXE_seckill").as_ref(),
            args,
            80,
            24,
            &home,
            &[("TERM", term)],
        );
        assert_eq!(terminal.exit_status(LONG).exit_code(), 2, "{term} {args:?}");
        let output = terminal.screen().replace('\n', " ");
        assert!(output.contains("TERM=xterm-256color"), "{output}");
        assert!(!contains(&terminal.output(), b"\x1b"), "{output}");
        assert!(!home.data_dir().exists(), "nothing was started for it");
    }
}

#[test]
fn an_unusable_terminal_is_reported_in_the_language_of_the_console() {
    let chinese = ("LANG", "zh_CN.UTF-8");
    for (args, envs, result) in [
        (&[][..], [("TERM", "dumb"), chinese], "控制台不支持终端类型“dumb”"),
        (&["demo"], [("TERM", ""), chinese], "未知终端"),
        (&["--lang", "zh", "drill", "poison"], [("TERM", "dumb"), ("LANG", "C")], "控制台不支持"),
        (&["--lang", "en"], [("TERM", "dumb"), chinese], "does not support"),
    ] {
        let home = Seckill::new();
        let program = env!("CARGO_BIN_EXE_seckill").as_ref();
        let mut terminal = Pty::open(program, args, 80, 24, &home, &envs);
        assert_eq!(terminal.exit_status(LONG).exit_code(), 2, "{args:?}");
        let output = terminal.screen();
        assert!(output.contains(result), "{output}");
    }
    let home = Seckill::new();
    let output = home.run(&["--lang", "zh"]).expect_code(2).stderr;
    assert!(output.contains("控制台需要终端"), "{output}");
}

#[test]
fn a_broken_theme_is_reported_with_its_line_before_anything_starts() {
    let home = Seckill::new();
    let theme = home.file("mine.toml");
    fs::write(&theme, "base = \"dark\"\naccentt = 3\n").unwrap();
    let theme = theme.to_str().unwrap();
    for (args, message) in [
        (vec!["--theme", theme], "line 2, column 1: unknown role 'accentt'; remove the line"),
        (vec!["--theme", "dusk"], "unknown theme 'dusk'"),
        (vec!["--lang", "zh", "--theme", "dusk"], "没有主题“dusk”"),
    ] {
        let mut terminal = home.pty(&args, 200, 24, &[]);
        assert_eq!(terminal.exit_status(LONG).exit_code(), 2);
        let output = terminal.screen().replace('\n', "");
        assert!(output.contains(message), "{output}");
        assert!(!contains(&terminal.output(), TAKES), "the screen was not taken");
        assert!(!home.data_dir().exists());
    }
    let config = home.file("config.toml");
    fs::write(&config, format!("theme = '{theme}'\n")).unwrap();
    let mut terminal = home.pty(&["--config", config.to_str().unwrap()], 200, 24, &[]);
    assert_eq!(terminal.exit_status(LONG).exit_code(), 2);
}

/// Output outside of frames would be visible half-drawn; the cost of a frame is bounded.
#[test]
fn each_frame_is_one_update_and_small() {
    for (term, colours) in [("tmux-256color", "38;5;"), ("screen", "\x1b[36"), ("xterm", "\x1b[36")]
    {
        let home = Seckill::new();
        home.run(&["sale", "create", "--title", "火锅", "--stock", "50"]).expect_code(0);
        let mut terminal = home.pty(&[], 120, 36, &[("TERM", term)]);
        terminal.wait_for(LONG, "the sale", |screen| screen.contains("火锅"));
        home.run(&["rush", "--voucher", "1", "--users", "2000", "--rate", "1000"]).expect_code(0);
        terminal.wait_for(LONG, "the end", |screen| screen.to_lowercase().contains("sold out"));
        terminal.send("q");
        assert!(terminal.exit_status(LONG).success(), "{term}");
        let output = String::from_utf8(terminal.output()).unwrap();
        assert!(output.contains(colours), "{term}");
        let (before, pictures) = output.split_once(BEGIN).unwrap();
        assert!(before.contains("\x1b[?1049h"), "{term}: taken before the first picture");
        let mut sizes = Vec::new();
        for picture in pictures.split(BEGIN) {
            let (drawn, after) = picture.split_once(END).unwrap();
            sizes.push(drawn.len());
            assert!(!drawn.contains(END), "{term}: reported once");
            // The last frame is followed by the sequences that restore the terminal.
            let last = sizes.len() == pictures.split(BEGIN).count();
            assert!(last || after.is_empty(), "{term}: {after:?} between two pictures");
        }
        let rest = sizes.get(1..).unwrap();
        let mean = rest.iter().sum::<usize>() / rest.len().max(1);
        println!(
            "{term}: {} pictures, the first {} bytes, then {mean} each",
            sizes.len(),
            sizes[0]
        );
        assert!(mean < 4_000, "{term}: {mean} bytes a picture");
    }
}

/// The export of the console's own table, with a title that would be a formula and one with a control character.
#[test]
fn what_is_on_the_screen_is_written_to_files() {
    let home = Seckill::new();
    for title in ["=1+1", "火锅, \"50%\""] {
        home.run(&["sale", "create", "--title", title, "--stock", "1200"]).expect_code(0);
    }
    // A directory that cannot be created is an error at once.
    let mut refused = home.pty(&["--export-dir", "/proc/none"], 120, 36, &[]);
    refused.wait_for_text("/proc/none");
    assert!(!refused.exit_status(LONG).success());
    let dir = home.file("exports/of/today");
    let mut terminal = home.pty(&["--export-dir", dir.to_str().unwrap()], 120, 36, &[]);
    terminal.wait_for_text("火锅");
    terminal.send("2");
    terminal.wait_for(LONG, "the table", |screen| screen.contains("PERSISTED"));
    for letter in ["t", "a", "s", "c", "j", "c"] {
        let before = fs::read_dir(&dir).unwrap().count();
        terminal.send("x");
        terminal.wait_for(LONG, "the menu", |screen| screen.contains("the table as CSV"));
        terminal.send(letter);
        terminal.wait_for(LONG, "the path", |screen| screen.contains("written to"));
        assert_eq!(fs::read_dir(&dir).unwrap().count(), before + 1, "{letter}");
    }
    terminal.send("q");
    assert!(terminal.exit_status(LONG).success());
    let read = |end: &str| {
        let mut paths = fs::read_dir(&dir).unwrap().map(|it| it.unwrap().path());
        let path = paths.find(|path| path.extension().is_some_and(|it| it == end)).expect(end);
        fs::read_to_string(path).unwrap()
    };
    assert!(read("txt").contains("火锅, \"50%\""));
    assert!(read("ansi").contains("\x1b["));
    assert!(read("svg").contains(">火</text>"));
    let csv = read("csv");
    assert!(csv.contains(",'=1+1,running,") && csv.contains("\"火锅, \"\"50%\"\"\""), "{csv}");
    assert!(csv.contains(",1200,1200,"), "{csv}");
    let json: serde_json::Value = serde_json::from_str(&read("json")).unwrap();
    assert_eq!(json["view"], "sales");
    assert_eq!(json["rows"].as_array().map(Vec::len), Some(2), "{json}");
}
