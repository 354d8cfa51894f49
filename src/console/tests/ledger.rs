//! The Ledger: each difference as text, its repair, and the question before that.

use seckill_engine::{
    recovery::repair::Repaired,
    telemetry::ledger_page::{AuditLimit, LedgerPage},
};
use seckill_model::{SaleAudit, ledger::Cure};

use super::prelude::*;

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
pub(super) fn with_findings() -> Snapshot {
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

fn plan() -> Vec<SaleAudit> {
    let page = with_findings().ledger;
    page.lines.iter().filter(|line| !line.findings.is_empty()).cloned().collect()
}

#[test]
fn unknown_values_are_labelled() {
    let mut large = normal();
    large.ledger.limit = Some(AuditLimit::Orders(300_000));
    let mut none = empty();
    none.ledger = LedgerPage::of(NOW, Vec::new(), Vec::new());
    let mut old = Snapshot { ledger: with_findings().ledger, ..outage() };
    old.ledger.taken = Some(NOW.plus(-42_000));
    for (snapshot, expected) in [
        (normal(), "Auditing the sales."),
        (outage(), "once Redis and the database are reachable again"),
        (old, "4 sales audited    42 s ago"),
        (none, "No sales yet, nothing to audit."),
        (large, "run 'seckill audit' in a shell"),
    ] {
        for (width, height) in [(120, 36), (80, 24), (60, 15)] {
            let mut tui = Tui::open(snapshot.clone(), "9");
            let text = tui.screen_at(width, height);
            let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let expected = expected.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flat.contains(&expected), "{text}");
        }
    }
}

#[test]
fn the_alarm_names_the_key_and_the_key_explains() {
    let mut tui = Tui::new(with_findings());
    tui.assert_shows("Audit failed: #7: 2 orders in SQL have no buyer");
    tui.assert_shows("Press 9");
    let text = tui.press("9l").screen();
    for shown in
        ["3 admitted orders are neither in SQL", "1. reconcile with", "2. re-add lost orders"]
    {
        assert!(text.contains(shown), "{text}");
    }
    tui.press("jl").assert_shows("compare its orders (7, /");
}

#[test]
fn a_repair_is_confirmed_and_does_what_was_shown() {
    // Cancel is focused.
    let mut tui = Tui::open(with_findings(), "9A\n");
    assert!(tui.sent().is_empty());
    tui.assert_status("nothing was changed");
    assert_eq!(tui.press("Ay").sent(), [Command::Repair(plan())]);
    let done = Repaired { put_back: 2, enqueued: 3, given_back: 1, partition_faults: 0 };
    tui.answer(Ok(Reply::Repaired(done)));
    tui.assert_status(
        "✔ 2 buyers restored, 3 orders re-added to the stream, 1 piece returned to stock",
    );
}

#[test]
fn marked_sales_are_repaired_and_no_others() {
    let mut tui = Tui::open(with_findings(), "9j ");
    tui.assert_shows("1 marked");
    tui.press("A").assert_shows("1 marked sale, 2 differences: #8");
    tui.press("y");
    let only: Vec<SaleAudit> =
        plan().into_iter().filter(|sale| sale.voucher_id == VoucherId(8)).collect();
    assert_eq!(only[0].cures(), [Cure::GiveBack]);
    assert_eq!(tui.sent(), [Command::Repair(only)]);
    // A sale without findings cannot be marked, and a mark vanishes with its differences.
    tui.press("G ").assert_status("this sale has no automatic repair");
    tui.show(Snapshot { ledger: LedgerPage::default(), ..normal() });
    assert!(tui.app.views.ledger.marks.is_empty());
}

#[test]
fn a_repair_is_refused_where_there_is_none() {
    let by_hand = vec![line(7, "hot pot", 3, vec![Finding::Doubled(1)])];
    let page = |lines| LedgerPage::of(NOW, lines, Vec::new());
    let old = LedgerPage { taken: Some(NOW.plus(-60_000)), ..with_findings().ledger };
    for (snapshot, expected) in [
        (Snapshot { read_only: true, ..with_findings() }, "read-only"),
        (Snapshot { ledger: page(vec![line(7, "hot pot", 3, vec![])]), ..normal() }, "no differ"),
        (Snapshot { ledger: page(by_hand), ..normal() }, "no automatic repair"),
        (Snapshot { ledger: old, ..normal() }, "press A again"),
        (Snapshot { ledger: with_findings().ledger, ..outage() }, "Redis"),
    ] {
        let mut tui = Tui::open(snapshot, "9A");
        tui.assert_idle();
        let message = tui.status();
        assert!(message.to_lowercase().contains(&expected.to_lowercase()), "{message}");
    }
}

#[test]
fn the_palette_opens_the_view_from_anywhere() {
    for (name, asked) in [("audit", false), ("ledger", false), ("repair", true)] {
        let mut tui = Tui::open(with_findings(), &format!("3:{name}"));
        tui.press("\n");
        assert_eq!(tui.app.view, View::Ledger, "{name}");
        assert_eq!(tui.app.dialog.is_some(), asked, "{name}");
    }
}

#[test]
fn a_difference_of_all_sales_is_named() {
    let findings = vec![SaleFinding { sale: None, what: Finding::Lost(2) }];
    let audit = Balance::Off { findings };
    let passed = LedgerPage::of(NOW, vec![line(7, "hot pot", 3, vec![])], Vec::new());
    for (ledger, shown) in [(passed, true), (with_findings().ledger, false)] {
        let mut tui = Tui::open(Snapshot { audit: audit.clone(), ledger, ..normal() }, "9");
        let text = tui.screen();
        assert_eq!(text.contains("All sales: 2 admitted orders are neither"), shown, "{text}");
    }
}
