//! The lab with a fixed report: choosing, running, verdicts, a timeline, exports; without a program nothing runs.

use seckill_lab::{
    Database, DesignReport, Latency, Line, Progress, Promise, Run, Step, Timeline, Verdict, Work,
};

use super::prelude::*;
use crate::LabSetup;

/// Orders, orders beyond the stock, users with two orders, pieces left, requests per second.
type Figures = (&'static str, [u64; 4], f64);

const RUNS: [Figures; 6] = [
    ("unguarded", [138, 38, 31, 0], 3_120.4),
    ("guard-after-update", [131, 31, 28, 0], 2_980.0),
    ("version-equal-stock", [12, 0, 1, 88], 3_402.7),
    ("stock-guard", [100, 0, 22, 0], 4_217.2),
    ("count-then-insert", [100, 0, 17, 0], 2_461.9),
    ("unique-index", [100, 0, 0, 0], 3_871.5),
];

fn step(lane: u32, action: &str, what: &str, values: &[i64], saw: &[i64]) -> Step {
    let step = serde_json::json!({
        "lane": lane, "user": 10 + i64::from(lane), "instance": 1 + lane % 2, "action": action,
        "what": what, "values": values, "saw": saw, "begun": 0, "ended": 0,
    });
    serde_json::from_value(step).expect("a step")
}

/// Two requests that both see the last piece.
fn timeline() -> Timeline {
    const READ: &str = "SELECT stock FROM tb_seckill_voucher WHERE voucher_id = $1";
    const WRITE: &str = "UPDATE tb_seckill_voucher SET stock = stock - 1 WHERE voucher_id = $1";
    const ORDER: &str =
        "INSERT INTO tb_voucher_order (id, user_id, voucher_id) VALUES ($1, $2, $3)";
    let steps = [
        (0, step(41, "read", READ, &[1], &[1]), 212.0, None),
        (1, step(44, "read", READ, &[1], &[1]), 538.4, None),
        (0, step(41, "transaction", "BEGIN", &[], &[]), 5_120.0, None),
        (0, step(41, "write", WRITE, &[1], &[1]), 5_433.9, Some(100)),
        (0, step(41, "write", ORDER, &[100, 51, 1], &[1]), 5_702.1, None),
        (0, step(41, "transaction", "COMMIT", &[], &[]), 6_011.0, None),
        (1, step(44, "write", WRITE, &[1], &[1]), 6_820.6, Some(101)),
        (1, step(44, "write", ORDER, &[101, 54, 1], &[1]), 7_033.3, None),
        (1, step(44, "transaction", "COMMIT", &[], &[]), 7_240.0, None),
    ];
    let line = |(column, step, ended_us, piece)| Line {
        column,
        begun_us: ended_us - 180.0,
        ended_us,
        step,
        piece,
        lock_of: None,
        refused_before: None,
    };
    let lines = steps.into_iter().map(line).collect();
    Timeline { promise: Promise::NoOverselling, seed: 7, instances: 2, lanes: vec![41, 44], lines }
}

/// The result in the first work of its question.
fn result(figures: Figures) -> DesignReport {
    result_in(0, figures)
}

fn result_in(
    work: usize,
    (name, [sold, oversold, twice, unsold], throughput): Figures,
) -> DesignReport {
    let design = seckill_lab::find(name).expect("a design");
    let asked = Promise::all().filter(|it| design.question.asks_for(*it));
    let mut verdict = Verdict {
        requests: 301,
        sold,
        oversold,
        users_with_two_orders: twice,
        lost: 0,
        locked_out: 0,
        deleted_locks: 0,
        unsold,
        stock_left: 100 - sold as i64,
        replied_bought: sold,
        replied_sold_out: 301 - sold,
        replied_duplicate: 0,
        failed: 0,
        failure: None,
        sql: 1_043,
        redis: 0,
        broken: std::collections::BTreeSet::new(),
        orders: std::collections::BTreeSet::new(),
    };
    verdict.broken = asked.filter(|it| verdict.anomalies(*it) > 0).collect();
    let work = design.question.works(&small()).remove(work);
    let mut report = DesignReport::new(design, Database::Sqlite, &work);
    report.broken = verdict.broken.iter().map(|it| (*it, 3)).collect();
    report.latency = Latency {
        samples: 903,
        median: 21_000.0 / throughput,
        p99: 96_000.0 / throughput,
        throughput,
        ..Latency::default()
    };
    (report.sql_per_request, report.redis_per_request) = (3.5, 0.0);
    report.runs = [7, 8, 9].map(|seed| Run { seed, verdict: verdict.clone() }).into();
    for promise in [Promise::NoOverselling, Promise::OneOrder] {
        if report.broken.contains_key(&promise) {
            report.timelines.push(Timeline { promise, ..timeline() });
        }
    }
    report
}

/// The work whose figures the results have.
fn small() -> Work {
    Work { buyers: 200, stock: 100, ..Work::default() }
}

fn judged() -> Tui {
    let mut tui = Tui::open(normal(), "e");
    tui.app.views.lab.set_work(small(), vec![7, 8, 9]);
    for run in RUNS {
        tui.app.views.lab.add(result(run));
    }
    tui
}

fn running() -> Tui {
    let mut tui = judged();
    tui.press("b");
    let design = seckill_lab::find("process-mutex").unwrap();
    let database = Database::Sqlite;
    tui.app.views.lab.fake_run(Progress {
        database,
        design,
        incident: None,
        seed: 8,
        done: 19,
        runs: 42,
    });
    tui
}

type Opened = fn() -> Tui;

const SCREENS: [(&str, Opened); 6] = [
    ("running", running),
    ("verdicts", judged),
    ("bars", || pressed("b")),
    ("page", || pressed("\n")),
    ("timeline", scrolled),
    ("page of a kept design", || pressed("/unique-index\n\n")),
];

#[test]
fn the_form_keeps_the_incidents() {
    let mut tui = Tui::open(normal(), "e");
    let work = Work { incidents: std::iter::empty().collect(), ..Work::default() };
    tui.app.views.lab.set_up(LabSetup { work, ..LabSetup::default() });
    assert!(tui.screen_at(120, 36).contains("Incidents: none"), "those of the command line");
    tui.press("c\t7\n\n\n\n\n\n\n\n").assert_idle();
    let screen = tui.screen_at(120, 36);
    assert!(screen.contains("stock 7") && screen.contains("Incidents: none"), "{screen}");
    tui.press("c\t\t\t\t\t\tfire\n\n\n").assert_shows("there is no incident 'fire'");
    tui.press("\x1bc\t\t\t\t\t\tholder-dies, failover\n41\n2\n").assert_idle();
    let screen = tui.screen_at(120, 36);
    for shown in ["Incidents: holder dies;", "failover of Redis.", "2 seeds"] {
        assert!(screen.contains(shown), "{shown}: {screen}");
    }
    tui.press("c").assert_shows("41");
}

fn pressed(keys: &str) -> Tui {
    let mut tui = judged();
    tui.press(keys);
    tui
}

/// At the end of the page in the smallest window.
fn scrolled() -> Tui {
    let mut tui = pressed("\n");
    tui.at((60, 15)).screen();
    tui.press("G");
    tui
}

#[test]
fn a_run_its_verdicts_and_a_timeline() {
    for (width, height) in [(120, 36), (80, 24), (60, 15)] {
        let screens = SCREENS.map(|(name, tui)| (name.to_owned(), tui().screen_at(width, height)));
        assert_screens(&format!("lab_report_{width}x{height}"), screens);
    }
    set_thread_language("zh");
    let screens = SCREENS.map(|(name, tui)| (name.to_owned(), tui().screen_at(80, 24)));
    assert_screens("lab_report_zh_80x24", screens);
}

/// A lock in all works: without an incident, and in each alone.
#[test]
fn a_lock_is_judged_in_each_incident() {
    let mut tui = judged();
    tui.press("/watchdog\n");
    for (work, twice) in [0, 0, 4, 0, 4].into_iter().enumerate() {
        let run = ("watchdog", [100, 0, twice, 0], 1_000.0 / (1 + work) as f64);
        tui.app.views.lab.add(result_in(work, run));
        // Not before all of its runs are done.
        tui.assert_hides("✔ watchdog").assert_hides("✔ kept: no lost");
        if work == 0 {
            tui.assert_shows("≈ watchdog").assert_shows("not broken in 3 of 15 runs");
        }
    }
    let screen = tui.screen_at(120, 36);
    for shown in [
        "✖ one order per user 3/3",
        "✖ broken with 3 of 3 seeds: one order per user (holder is stopped, failover of Redis)",
        "✔ kept: no overselling, no lost orders",
        // The speed without an incident.
        "1,000 requests/s",
        "fixed by       multilock",
    ] {
        assert!(screen.contains(shown), "{shown}: {screen}");
    }
    tui.press("\n").assert_shows("watchdog (holder is stopped)").assert_shows("promise 1 of 2");
    tui.press("b").assert_shows("watchdog (failover of Redis)");
    // It has no row locks.
    let mut tui = judged();
    tui.press("/mysql-row\n").assert_shows("not applicable on SQLite");
    tui.press("p")
        .assert_status("mysql-row-lock is not applicable on SQLite, which has no row locks.");
}

#[test]
fn a_wide_window_has_bars_beside_the_table() {
    let mut tui = judged();
    let text = tui.screen_at(200, 50);
    let line = text.lines().find(|line| line.contains("unguarded")).unwrap();
    assert!(line.contains("138") && text.contains("REQUESTS/S"), "{text}");
    assert!(
        text.lines().any(|line| line.contains("stock-guard") && line.contains("████")),
        "{text}"
    );
}

#[test]
fn enter_opens_a_broken_promise_and_leads_to_the_design_that_mends_it() {
    let mut tui = judged();
    tui.assert_shows("no overselling 3/3").press("\n");
    tui.assert_shows("Broken promise: no overselling (seed 7)").assert_shows("request 41: user 51");
    tui.assert_shows("piece 100").press("\x1b").assert_hides("request 41").press("\n");
    let mended = seckill_lab::find("unguarded").unwrap().mended_by.unwrap();
    assert_eq!(tui.press("ny").copied(), mended);
    tui.press("g").assert_shows("unguarded");
}

/// In a low window the page is scrolled, whether a promise is broken or not.
#[test]
fn every_design_has_a_page_that_is_scrolled() {
    let mut tui = Tui::open(normal(), "e/engine\n");
    tui.assert_hides("One script checks").press("\n");
    let mut text = String::new();
    for _ in 0..9 {
        text.push_str(&tui.screen_at(60, 15));
        tui.press("j");
    }
    for shown in ["source", "not run yet", "One script checks", "a dead letter."] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    tui.assert_status("this is the last row").press("\x1b\x1b").assert_hides("One script checks");
    let mut tui = judged();
    assert!(tui.screen_at(80, 24).contains("more lines; press Enter to read them"));
    let screen = scrolled().screen();
    assert!(screen.contains("(piece 101)") && screen.contains("COMMIT"), "{screen}");
}

#[test]
fn the_step_that_broke_the_promise_is_marked() {
    let mut tui = judged();
    tui.press("\n").assert_shows("✖ UPDATE tb_seckill_voucher");
    let mut twice = result(("count-then-insert", [100, 0, 17, 0], 2_461.9));
    // It inserts the order before it takes the piece.
    twice.timelines[0].lines.swap(6, 7);
    let mut tui = judged();
    tui.app.views.lab.add(twice);
    tui.press("/count-then\n\n").assert_shows("✖ INSERT INTO tb_voucher_order");
}

#[test]
fn designs_are_marked_filtered_and_exported() {
    let mut tui = judged();
    tui.press("  ").assert_shows("2 marked").press("*").assert_shows("marked");
    tui.press("/unique\n").assert_shows("1 of ").assert_hides("counter-in-memory");
    assert_eq!(tui.press("y").copied(), "unique-index");
    tui.press("xj");
    let [export] = <[_; 1]>::try_from(std::mem::take(&mut tui.app.terminal.exports)).unwrap();
    let read: serde_json::Value = serde_json::from_str(&export.body).unwrap();
    let row = &read["rows"][0];
    assert_eq!(
        (&row["orders"], &row["broken"], &row["seeds"]),
        (&100.into(), &"".into(), &3.into())
    );
    assert_eq!(row["requests_per_second"], 3_871.5);
}

#[test]
fn the_work_is_checked_in_its_form_and_discards_results_of_other_work() {
    let mut tui = judged();
    tui.press("c\t\t\t1\n\n\n\n").assert_shows("2 instances need a connection each");
    let mut tui = judged();
    tui.press("c500\n\n\n\n\n\n\n\n5\n").assert_idle();
    tui.assert_shows("500 buyers").assert_shows("5 seeds").assert_hides("3/3");
    // Each database has its own results.
    let mut tui = judged();
    tui.press("d").assert_shows("MariaDB").assert_hides("3/3").press("ddd").assert_shows("3/3");
}

#[test]
fn without_a_program_nothing_runs_and_leaving_cancels() {
    let mut tui = Tui::open(normal(), "ep");
    tui.assert_status("this console cannot start the lab; run 'seckill lab'");
    let mut tui = running();
    tui.press("p").assert_status("the lab is running; press Esc to cancel it");
    tui.press("1").assert_status("cancelling: the servers of the lab are being stopped");
    let mut tui = running();
    tui.press("\x1b\x1b").assert_shows("cancelling");
}

#[test]
fn the_lab_alone_has_no_other_view() {
    let mut tui = Tui::open(normal(), "e");
    tui.app.alone = true;
    tui.assert_hides("Overview").assert_shows("no real sale");
    tui.press("?").assert_shows("run the marked designs").assert_shows("mouse");
    for other in ["Overview", "Presenter", "freeze", "guide", "sort"] {
        tui.assert_hides(other);
    }
    tui.press("\x1b");
    for key in ["1", "\t", "N", "t", "L", "f"] {
        tui.press(key);
        assert_eq!(tui.app.view, View::Lab, "{key}");
        assert!(!tui.app.presenter.on && !tui.app.display.frozen, "{key}");
    }
}
