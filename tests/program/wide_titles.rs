//! Titles of every kind in a real terminal: columns stay aligned, and a terminal without UTF-8 gets ASCII.

use crate::support::{LONG, Pty, Seckill, key};
use sqlx::Connection as _;

/// Combining, zero-width and ambiguous-width characters.
const TITLES: [&str; 8] = [
    "hot pot",
    "火锅五折 🍲",
    "👩‍👩‍👧‍👦 family 👍🏿",
    "1️⃣ 🇨🇳 ❤️ flag",
    "a\u{200b}b\u{2060}c\u{feff}d",
    "e\u{301}\u{302}\u{303}\u{304}\u{305}\u{306} zalgo",
    "\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af} jamo",
    "①±Ж لا न्\u{200d}न",
];

fn with_titles() -> Seckill {
    let home = Seckill::new();
    for title in TITLES {
        home.run(&["sale", "create", "--title", title, "--stock", "4711"]).expect_code(0);
    }
    home
}

/// Waits for the table of sales with a row for each title.
fn opens_the_sales(terminal: &Pty) {
    terminal.wait_for_text("Overview");
    terminal.send("2");
    terminal.wait_for(LONG, "a row of each", |screen| {
        let row = |line: &&str| line.matches("4,711").count() == 2;
        screen.contains("TITLE") && screen.lines().filter(row).count() == TITLES.len()
    });
}

/// The cells at which a text ends on the lines that hold it.
fn ends(terminal: &Pty, text: &str) -> Vec<u16> {
    terminal.with_screen(|screen| {
        let (rows, columns) = screen.size();
        let mut ends = Vec::new();
        for row in 0..rows {
            let at = (0..columns).find(|column| {
                (*column..).zip(text.chars()).all(|(column, c)| {
                    screen.cell(row, column).is_some_and(|it| it.contents() == c.to_string())
                })
            });
            ends.extend(at.map(|at| at + text.len() as u16));
        }
        ends
    })
}

#[test]
fn columns_stay_aligned_with_any_title() {
    let home = with_titles();
    for (cols, rows) in [(120, 36), (80, 24)] {
        let mut terminal = home.pty(&[], cols, rows, &[]);
        opens_the_sales(&terminal);
        // Drawn as a difference to another view, and as a full frame.
        for _ in 0..2 {
            let ends = ends(&terminal, "4,711");
            assert!(ends.len() >= TITLES.len(), "{}", terminal.screen());
            assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}\n{}", terminal.screen());
            terminal.send("1");
            terminal.wait_for(LONG, "another view", |screen| screen.contains("ADMISSION"));
            opens_the_sales(&terminal);
        }
        let shown = terminal.screen();
        for part in ["火锅五折 🍲", "👩 family 👍", "1 CN ❤ flag", "abcd", "한글 jamo"]
        {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        terminal.send("q");
        assert!(terminal.exit_status(LONG).success());
    }
    assert!(home.processes().is_empty());
}

#[test]
fn a_terminal_without_utf8_gets_ascii_only() {
    let home = with_titles();
    let seen = |args: &[&str], envs: &[(&str, &str)], result: &str| {
        let mut terminal = home.pty(args, 120, 36, envs);
        terminal.wait_for(LONG, result, |screen| screen.contains(result));
        opens_the_sales(&terminal);
        let ends = ends(&terminal, "4,711");
        assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}\n{}", terminal.screen());
        for key in ["3", "4", "5", "6", "7", "8", "0", "1", "?"] {
            terminal.send(key);
        }
        terminal.wait_for(LONG, "the help", |screen| screen.contains("All views"));
        terminal.send(key::ESC);
        terminal.wait_for(LONG, "no help", |screen| !screen.contains("All views"));
        terminal.send("q");
        assert!(terminal.exit_status(LONG).success());
        terminal.output()
    };
    for (args, locale, result) in [
        (&[][..], ("LC_ALL", "C"), "LC_ALL=C is not a UTF-8 locale"),
        (&[], ("LC_ALL", "POSIX"), "LC_ALL=POSIX is not a UTF-8 locale"),
        (&[], ("LANG", "de_DE"), "LANG=de_DE is not a UTF-8 locale"),
        (&["--ascii"], ("LANG", "C.UTF-8"), "Overview"),
    ] {
        let output = seen(args, &[locale], result);
        let beyond: Vec<u8> = output.into_iter().filter(|byte| *byte > 0x7e).collect();
        assert!(beyond.is_empty(), "{locale:?}: {}", String::from_utf8_lossy(&beyond));
    }
    let result = "LC_ALL=C 不是 UTF-8 环境：因 --lang zh 仍以 UTF-8 绘制";
    let mut chinese = home.pty(&["--lang", "zh"], 120, 36, &[("LC_ALL", "C")]);
    chinese.wait_for(LONG, result, |screen| screen.contains(result));
    chinese.send("q");
    assert!(chinese.exit_status(LONG).success());
    let output = seen(&[], &[("LANG", "xx_YY.UTF-8")], "Overview");
    assert!(String::from_utf8_lossy(&output).contains('火'));
    assert!(home.processes().is_empty());
}

#[test]
fn control_characters_of_a_title_are_removed() {
    let home = Seckill::new();
    home.run(&["sale", "create", "--title", "plain", "--stock", "7"]).expect_code(0);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let url = format!("sqlite://{}", home.data_dir().join("seckill.db").display());
        let mut sql = sqlx::SqliteConnection::connect(&url).await.unwrap();
        let control = "\u{1b}]0;PWNED\u{7}\u{1b}[31mred\u{9b}5m\u{202e}end";
        sqlx::query("UPDATE tb_voucher SET title = ?")
            .bind(control)
            .execute(&mut sql)
            .await
            .unwrap();
    });
    for command in [
        &["sale", "list"][..],
        &["sale", "show", "1"],
        &["sale", "pause", "1"],
        &["status"],
        &["voucher", "list"],
        &["audit"],
    ] {
        let out = home.run(command);
        let result = format!("{}{}", out.stdout, out.stderr);
        let control = |c: &char| c.is_control() && *c != '\n' || *c == '\u{202e}';
        assert_eq!(result.chars().find(control), None, "{command:?}: {result:?}");
    }
}
