//! The Ledger: each difference as text, its repair, and the question before that.

use crossterm::event::KeyCode;
use seckill_engine::{
    command::{Command, Reply},
    repair::{Repaired, SaleRepair},
    telemetry::{
        Snapshot,
        alarms::alarms,
        ledger_page::{AuditLimit, LedgerPage},
    },
};
use seckill_model::{
    VoucherId,
    ledger::{Balance, Cure, Finding, SaleAudit, SaleFinding},
    locale::set_thread_language,
};

use super::{
    fixture::{Bench, NOW, empty, normal, outage},
    screens::{SHOTS, assert_screen},
};

fn line(id: u64, title: &str, sold: u64, findings: Vec<Finding>) -> SaleAudit {
    SaleAudit {
        voucher_id: VoucherId(id),
        title: title.to_owned(),
        initial: 10_000,
        stock: Some(10_000 - sold as i64),
        admitted: sold,
        persisted: sold,
        closed: 4,
        undelivered: 0,
        pending: 0,
        dead: 0,
        db_stock: 10_000 - sold as i64,
        findings,
    }
}

/// One sale that a repair fixes, one that it fixes in part, one in flight, and one without findings.
pub(super) fn audited() -> Snapshot {
    let lost = SaleAudit { persisted: 6_877, ..line(7, "hot pot 50% off", 6_880, vec![]) };
    let lost = SaleAudit { findings: vec![Finding::Unknown(2), Finding::Lost(3)], ..lost };
    let sold = Finding::SqlStock { stock: 9_400, initial: 10_000, live: 500 };
    let short = vec![sold, Finding::Kept(1)];
    let short = SaleAudit { db_stock: 9_400, ..line(8, "milk tea 9.9", 500, short) };
    let moving = SaleAudit { pending: 20, persisted: 860, ..line(5, "noodles", 880, vec![]) };
    let lines = vec![line(9, "cinema ticket", 0, vec![]), lost, moving, short];
    let ledger = LedgerPage::of(NOW.plus(-1_000), lines, Vec::new());
    let findings = ledger.lines.iter().flat_map(SaleAudit::found).collect();
    let mut snapshot = Snapshot { ledger, audit: Balance::Off { findings }, ..normal() };
    snapshot.alarms = alarms(&snapshot, None);
    snapshot
}

fn plan() -> Vec<SaleRepair> {
    audited()
        .ledger
        .lines
        .iter()
        .filter(|line| !line.findings.is_empty())
        .map(|line| SaleRepair::of(line.voucher_id, line.findings.clone()))
        .collect()
}

#[test]
fn every_size_and_language() {
    for (lang, width, height) in SHOTS {
        set_thread_language(lang);
        let tail = if lang == "zh" { "_zh" } else { "" };
        for (name, keys) in [("ledger", "9"), ("ledger_detail", "9jl"), ("confirm_repair", "9A")] {
            let mut bench = Bench::new(audited());
            bench.keys(keys);
            let text = bench.text(width, height);
            assert_screen(&format!("{name}_normal{tail}_{width}x{height}"), &text);
        }
    }
}

#[test]
fn unknown_values_are_labelled() {
    let mut large = normal();
    large.ledger.limit = Some(AuditLimit::Orders(300_000));
    let mut none = empty();
    none.ledger = LedgerPage::of(NOW, Vec::new(), Vec::new());
    let mut old = Snapshot { ledger: audited().ledger, ..outage() };
    old.ledger.taken = Some(NOW.plus(-42_000));
    for (snapshot, expected) in [
        (normal(), "Auditing the sales."),
        (outage(), "once Redis and the database are reachable again"),
        (old, "4 sales audited    42 s ago"),
        (none, "No sales yet, nothing to audit."),
        (large, "run 'seckill audit' in a shell"),
    ] {
        for (width, height) in [(120, 36), (80, 24), (60, 15)] {
            let mut bench = Bench::new(snapshot.clone());
            bench.keys("9");
            let text = bench.text(width, height);
            let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let expected = expected.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flat.contains(&expected), "{text}");
        }
    }
}

#[test]
fn the_alarm_names_the_key_and_the_key_explains() {
    let mut bench = Bench::new(audited());
    let text = bench.text(120, 36);
    assert!(text.contains("Audit failed: #7: 2 orders in SQL have no buyer"), "{text}");
    assert!(text.contains("Press 9"), "{text}");
    bench.keys("9l");
    let text = bench.text(120, 36);
    for shown in ["3 admitted orders are neither in SQL", "1. reconcile with", "2. put lost orders"]
    {
        assert!(text.contains(shown), "{text}");
    }
    bench.keys("jl");
    let text = bench.text(120, 36);
    assert!(text.contains("compare its orders (7, /"), "{text}");
}

#[test]
fn a_repair_is_confirmed_with_its_counts_and_does_what_was_shown() {
    let mut bench = Bench::new(audited());
    bench.keys("9A");
    let text = bench.text(80, 24);
    for shown in [
        "2 sales, 4 differences: #7 #8",
        "1 sale: reconcile with SQL, stream and dead letters",
        "1 sale: return the stock of orders closed in SQL to Redis",
        "1 sale: put lost orders back into the stream",
        "Not repaired: 1 difference",
    ] {
        assert!(text.contains(shown), "{text}");
    }
    // Cancel is focused.
    bench.press(KeyCode::Enter);
    assert!(bench.sent().is_empty());
    assert_eq!(bench.said(), "nothing was changed");
    bench.keys("Ay");
    assert_eq!(bench.sent(), [Command::Repair(plan())]);
    let done = Repaired { put_back: 2, enqueued: 3, given_back: 1, partition_faults: 0 };
    bench.answer(Ok(Reply::Repaired(done)));
    assert_eq!(bench.said(), "✔ 2 buyers restored, 3 orders enqueued, 1 piece returned to stock");
}

#[test]
fn marked_sales_are_repaired_and_no_others() {
    let mut bench = Bench::new(audited());
    bench.keys("9j ");
    assert!(bench.text(120, 36).contains("1 marked"));
    bench.keys("A");
    let text = bench.text(120, 36);
    assert!(text.contains("1 marked sale, 2 differences: #8"), "{text}");
    bench.keys("y");
    let only: Vec<SaleRepair> =
        plan().into_iter().filter(|sale| sale.voucher_id == VoucherId(8)).collect();
    assert_eq!(only[0].cures, [Cure::GiveBack]);
    assert_eq!(bench.sent(), [Command::Repair(only)]);
    // A sale without findings cannot be marked, and a mark vanishes with its differences.
    bench.keys("G ");
    assert_eq!(bench.said(), "this sale has no automatic repair");
    bench.show(Snapshot { ledger: LedgerPage::default(), ..normal() });
    assert!(bench.app.ledger.marks.is_empty());
}

#[test]
fn a_repair_is_refused_where_there_is_none() {
    let by_hand = vec![line(7, "hot pot", 3, vec![Finding::Doubled(1)])];
    let page = |lines| LedgerPage::of(NOW, lines, Vec::new());
    let old = LedgerPage { taken: Some(NOW.plus(-60_000)), ..audited().ledger };
    for (snapshot, expected) in [
        (Snapshot { read_only: true, ..audited() }, "read-only"),
        (Snapshot { ledger: page(vec![line(7, "hot pot", 3, vec![])]), ..normal() }, "no differ"),
        (Snapshot { ledger: page(by_hand), ..normal() }, "no automatic repair"),
        (Snapshot { ledger: old, ..normal() }, "press A again"),
        (Snapshot { ledger: audited().ledger, ..outage() }, "Redis"),
    ] {
        let mut bench = Bench::new(snapshot);
        bench.keys("9A");
        assert!(bench.app.dialog.is_none() && bench.sent().is_empty());
        let said = bench.said();
        assert!(said.to_lowercase().contains(&expected.to_lowercase()), "{said}");
    }
}

#[test]
fn the_palette_opens_the_view_from_anywhere() {
    for (name, asked) in [("audit", false), ("ledger", false), ("repair", true)] {
        let mut bench = Bench::new(audited());
        bench.keys(&format!("3:{name}"));
        bench.press(KeyCode::Enter);
        assert_eq!(bench.app.view, crate::views::View::Ledger, "{name}");
        assert_eq!(bench.app.dialog.is_some(), asked, "{name}");
    }
}

#[test]
fn a_difference_of_all_sales_is_named() {
    let findings = vec![SaleFinding { sale: None, what: Finding::Lost(2) }];
    let audit = Balance::Off { findings };
    let passed = LedgerPage::of(NOW, vec![line(7, "hot pot", 3, vec![])], Vec::new());
    for (ledger, shown) in [(passed, true), (audited().ledger, false)] {
        let mut bench = Bench::new(Snapshot { audit: audit.clone(), ledger, ..normal() });
        bench.keys("9");
        let text = bench.text(120, 36);
        assert_eq!(text.contains("All sales: 2 admitted orders are neither"), shown, "{text}");
    }
}
