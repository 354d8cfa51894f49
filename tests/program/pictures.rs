//! The pictures and the recording of the README, produced by the real program in a pseudo-terminal.
//! `assets/pictures.sh` runs this; no picture is made by hand.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a picture that can't be made says why"
)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::support::{LONG, Pty, Seckill};
use serde_json::json;

const COLS: u16 = 120;
const ROWS: u16 = 36;
const LOOK: [(&str, &str); 2] = [("COLORTERM", "truecolor"), ("LANG", "C.UTF-8")];
/// Exports the screen as an image, also with an open dialog.
const PICTURE: &str = "\x18";

fn assets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets")
}

/// A directory for exports, in a sandbox.
fn album(home: &Seckill) -> String {
    let dir = home.file("album");
    fs::create_dir(&dir).unwrap();
    dir.to_str().unwrap().to_owned()
}

/// Exports the screen and stores it as `assets/NAME.svg`.
fn keep(terminal: &Pty, album: &str, name: &str) {
    let before = fs::read_dir(album).unwrap().count();
    terminal.send(PICTURE);
    terminal.wait_for(LONG, "the picture", |_| fs::read_dir(album).unwrap().count() > before);
    // The displayed name may be truncated: the newest file is the export.
    let newest = fs::read_dir(album).unwrap().map(|entry| entry.unwrap().path());
    let newest = newest.max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap()).unwrap();
    terminal.wait_for(LONG, "all of it", |_| {
        fs::read_to_string(&newest).unwrap().ends_with("</svg>\n")
    });
    let to = assets().join(format!("{name}.svg"));
    fs::copy(&newest, &to).unwrap();
    println!("{}", to.display());
}

/// A sale with the figures of a busy evening, and three more.
#[test]
#[ignore = "makes assets/overview.svg"]
fn overview() {
    let home = Seckill::new();
    let album = album(&home);
    let sale = |title: &str, stock: &str, more: &[&str]| {
        let args = ["sale", "create", "--title", title, "--stock", stock];
        home.run(&[&args, more].concat()).expect_code(0);
    };
    sale("hot pot 50% off", "60000", &[]);
    sale("milk tea 9.9", "300", &[]);
    sale("cinema ticket", "5000", &["--begin", "+90m"]);
    home.run(&["rush", "--voucher", "2", "--users", "900"]).expect_code(0);
    let terminal = home.pty(&["--export-dir", &album], COLS, ROWS, &LOOK);
    terminal.wait_for_text("hot pot");
    // One minute in the chart.
    terminal.send("+");
    let rush = home.spawn(&[
        "rush",
        "--voucher",
        "1",
        "--users",
        "60000",
        "--rate",
        "1500",
        "--seed",
        "7",
    ]);
    terminal.wait_for(LONG, "most of them", |screen| {
        screen.lines().any(|line| {
            let mut words = line.split_whitespace().skip_while(|word| *word != "requests").skip(1);
            let total = words.next().and_then(|it| it.replace(',', "").parse().ok());
            total.is_some_and(|total: u64| total > 55_000)
        })
    });
    keep(&terminal, &album, "overview");
    drop(rush);
}

/// The demo from start to audit, as pictures and as a recording.
#[test]
#[ignore = "makes assets/demo.svg, assets/pending.svg and assets/demo.cast"]
fn demo() {
    let home = Seckill::new();
    let album = album(&home);
    let terminal = Pty::spawn(&["demo", "--seed", "7", "--export-dir", &album], COLS, ROWS, &LOOK);
    terminal.wait_for(LONG, "a node dies", |screen| screen.contains("NODE FAILURE"));
    keep(&terminal, &album, "demo");
    terminal.send("4");
    let is_read = |screen: &str| screen.contains("stuck") && !screen.contains("unknown");
    terminal.wait_for(LONG, "pending entries", is_read);
    terminal.send("A");
    terminal.wait_for(LONG, "the question", |screen| screen.contains("Cancel"));
    keep(&terminal, &album, "pending");
    terminal.say_yes(LONG);
    terminal.wait_for(LONG, "the proof", |screen| screen.contains("RECOVERED AND VERIFIED"));
    let cast = assets().join("demo.cast");
    // The export path is private.
    fs::write(&cast, recording(&terminal).replace(&album, "album")).unwrap();
    println!("{}", cast.display());
    terminal.send("q");
}

/// The complete output in the format of asciinema, version 2.
fn recording(terminal: &Pty) -> String {
    let head = json!({
        "version": 2, "width": COLS, "height": ROWS, "idle_time_limit": 2.0,
        "title": "seckill demo", "env": { "TERM": "xterm-256color" },
    });
    let mut text = format!("{head}\n");
    // A character may be split between two chunks.
    let mut rest = Vec::new();
    for (at, piece) in terminal.recorded() {
        rest.extend_from_slice(&piece);
        let whole = match std::str::from_utf8(&rest) {
            Ok(_) => rest.len(),
            Err(error) => error.valid_up_to(),
        };
        let result: Vec<u8> = rest.drain(..whole).collect();
        let seconds = (at.as_secs_f64() * 1e3).round() / 1e3;
        text.push_str(&format!("{}\n", json!([seconds, "o", String::from_utf8(result).unwrap()])));
    }
    text
}
