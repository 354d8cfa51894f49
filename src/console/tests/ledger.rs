//! The Ledger: each difference as text, its repair, and the question before that.

use super::prelude::*;

fn line(id: u64, title: &str, sold: u64, findings: Vec<Finding>) -> SaleAudit {
    let (voucher_id, title, db_stock) = (VoucherId(id), title.to_owned(), 10_000 - sold as i64);
    SaleAudit {
        voucher_id,
        shard: None,
        title,
        initial: 10_000,
        stock: Some(db_stock),
        admitted: sold,
        persisted: sold,
        closed: 4,
        undelivered: 0,
        pending: 0,
        dead: 0,
        db_stock,
        findings,
        incomplete: false,
        is_outdated: false,
        shards: Vec::new(),
    }
}

/// One sale that a repair fixes, one that it fixes in part, one in flight, and one without findings.
pub(super) fn with_findings() -> Snapshot {
    let lost = SaleAudit { persisted: 6_877, ..line(7, "hot pot 50% off", 6_880, vec![]) };
    let lost = SaleAudit { findings: vec![Finding::Unknown(2), Finding::Lost(3)], ..lost };
    let sold = Finding::SqlStock { stock: 9_400, initial: 10_000, live: 10_500 };
    let short = vec![sold, Finding::Kept(1)];
    let short = SaleAudit { db_stock: 9_400, ..line(8, "milk tea 9.9", 500, short) };
    let moving = SaleAudit { pending: 20, persisted: 860, ..line(5, "noodles", 880, vec![]) };
    let lines = vec![line(9, "cinema ticket", 0, vec![]), lost, moving, short];
    let ledger = LedgerPage::of(NOW.plus(-1_000), lines, Vec::new());
    let findings = ledger.lines.iter().flat_map(SaleAudit::found).collect();
    with(Snapshot { ledger, audit: Balance::Off { findings }, ..normal() }, |it| {
        it.alarms = alarms(it, None);
    })
}

pub(super) fn repairs() -> Vec<SaleAudit> {
    let ledger = with_findings().ledger;
    ledger.lines.iter().filter(|line| !line.findings.is_empty()).cloned().collect()
}

#[test]
fn the_alarm_names_the_key_and_the_key_explains() {
    let mut tui = Tui::new(with_findings());
    tui.assert_shows("Audit failed: #7: 2 orders in SQL have no buyer|Press 9");
    let repair = "3 admitted orders are neither in SQL|1. reconcile with|2. re-add lost orders";
    tui.press("9l").assert_shows(repair);
    tui.press("jl").assert_shows("compare its orders (7, /");
}

#[test]
fn the_result_of_a_repair_is_shown() {
    let mut tui = Tui::open(with_findings(), "9Ay");
    let done =
        Repaired { put_back: 2, enqueued: 3, given_back: 1, derived: 0, partition_faults: 0 };
    let text = "✔ 2 buyers restored, 3 orders re-added to the stream, 1 piece returned to stock";
    tui.reply(Ok(Reply::Repaired(done))).assert_status(text);
}

#[test]
fn marked_sales_are_repaired_and_no_others() {
    let mut tui = Tui::open(with_findings(), "9j ");
    tui.assert_shows("1 marked").press("A").assert_shows("1 marked sale, 2 differences: #8");
    let only: Vec<_> = repairs().into_iter().filter(|it| it.voucher_id == VoucherId(8)).collect();
    assert_eq!(only[0].cures(), [Cure::GiveBack]);
    assert_eq!(tui.press("y").sent(), [Command::Repair(only)]);
    // A sale without findings cannot be marked, and a mark vanishes with its differences.
    tui.press("G ").assert_status("this sale has no automatic repair");
    tui.show(Snapshot { ledger: LedgerPage::of(NOW, vec![], vec![]), ..normal() });
    assert!(tui.app.views.ledger.marks.is_empty());
}

#[test]
fn an_audit_without_a_lost_server_is_incomplete() {
    let whole = LedgerPage::of(NOW, vec![line(7, "hot pot", 3, vec![])], Vec::new());
    let ledger = LedgerPage { unread: Arc::new(vec![VoucherId(8)]), ..whole };
    for snapshot in [without_server(), normal()] {
        // The page stays incomplete once the server is back.
        let mut tui = Tui::open(Snapshot { ledger: ledger.clone(), ..snapshot }, "9");
        tui.assert_shows("Audit incomplete: no differences in what was read")
            .assert_hides("Audit passed");
        tui.press("A").assert_hides("no differences, so");
    }
}

#[test]
fn a_sale_over_shards_is_one_row_with_its_shards_inside() {
    let shard = |number, sold, findings| SaleAudit {
        shard: Some(number),
        ..line(19, "hot pot", sold, findings)
    };
    let shards = vec![shard(2, 70, vec![]), shard(1, 30, vec![Finding::Lost(3)])];
    let lines = vec![SaleAudit::whole(shards).unwrap(), line(7, "tea", 1, vec![])];
    let ledger = LedgerPage::of(NOW, lines.clone(), Vec::new());
    let mut tui = Tui::open(Snapshot { ledger, ..normal() }, "9");
    tui.assert_shows("2 sales audited|#19  hot pot").assert_hides("#19.1");
    let partly =
        SaleAudit { incomplete: true, ..SaleAudit::whole(vec![shard(1, 30, vec![])]).unwrap() };
    let ledger = LedgerPage::of(NOW, vec![partly], Vec::new());
    Tui::open(Snapshot { ledger, ..normal() }, "9")
        .assert_shows("1 sale audited|#19  hot pot|incomplete");
    tui.press("l").assert_shows("#19.1: 3 admitted orders|20,000");
    tui.assert_shows("#19.1 1 difference|#19.2 passed");
    let many = (1..65).map(|number| {
        shard(number, 30, if number == 31 { vec![Finding::Lost(1)] } else { vec![] })
    });
    let ledger = LedgerPage::of(NOW, vec![SaleAudit::whole(many.collect()).unwrap()], Vec::new());
    let mut all = Tui::open(Snapshot { ledger, ..normal() }, "9l");
    all.at((80, 24))
        .assert_shows("#19.31 1 difference|63 of 64 passed|hot pot")
        .assert_hides("more lines");
    tui.press("A").assert_shows("1 sale").press("y");
    assert_eq!(tui.sent(), [Command::Repair(lines[..1].to_vec())]);
}

#[test]
fn a_repair_is_refused_where_there_is_none() {
    let by_hand = vec![line(7, "hot pot", 3, vec![Finding::Doubled(1)])];
    let page = |lines| LedgerPage::of(NOW, lines, Vec::new());
    let old = LedgerPage { taken: Some(NOW.plus(-60_000)), ..with_findings().ledger };
    for (snapshot, expected) in [
        (Snapshot { ledger: page(vec![line(7, "hot pot", 3, vec![])]), ..normal() }, "no differ"),
        (Snapshot { ledger: page(by_hand), ..normal() }, "no automatic repair"),
        (Snapshot { ledger: old, ..normal() }, "press A again"),
        (Snapshot { ledger: with_findings().ledger, ..outage() }, "Redis"),
    ] {
        let mut tui = Tui::open(snapshot, "9A");
        let message = tui.assert_idle().status();
        assert!(message.to_lowercase().contains(&expected.to_lowercase()), "{message}");
    }
}
