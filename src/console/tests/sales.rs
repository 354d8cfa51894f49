//! The sale detail: its orders are counted by status while it is open, and it leads to the buyers.

use super::{layout::assert_steady, prelude::*};

#[test]
fn orders_are_counted_for_the_sale_whose_detail_is_open() {
    let mut tui = Tui::new(normal());
    for (keys, counted) in
        [("2jk", None), ("l", Some(7)), ("j", Some(8)), ("1", None), ("2", Some(8)), ("\x1b", None)]
    {
        tui.press(keys);
        assert_eq!(tui.focus.borrow().sale, counted.map(VoucherId), "{keys}");
    }
    // None is counted for a sale that is not on the screen.
    let mut tui = Tui::open(normal(), "2jkl");
    tui.app.views.sales.choose(VoucherId(99));
    tui.press("u");
    assert_eq!(tui.focus.borrow().sale, None);
}

#[test]
fn stock_that_is_cut_is_not_sold() {
    for (admitted, is_drawn) in [([100, 100], false), ([100, 300], true)] {
        let snapshot = with(normal(), |it| {
            for (ago, left, admitted) in [(50, 500, admitted[0]), (20, 300, admitted[1])] {
                it.curves.note(VoucherId(8), NOW.plus(-ago * 1_000), Some(left), Some(admitted));
            }
        });
        let screen = Tui::open(snapshot, "2").screen();
        let row = screen.lines().find(|line| line.contains("milk tea")).unwrap();
        // The last column but the sparkline.
        assert_eq!(row.ends_with(|it: char| it.is_ascii_digit()), !is_drawn, "{row}");
    }
}

#[test]
fn order_states_are_shown_or_unknown() {
    let taken = NOW.plus(-70_000);
    let unknown = SaleOrders { voucher: VoucherId(7), taken, counts: None, repeat_buyers: None };
    let unknown = Snapshot { sale_orders: Some(unknown), ..normal() };
    let many = (1..=9).map(|user| (UserId(user * 100_000_000), 2)).collect();
    let many = with(normal(), |it| it.sale_orders.as_mut().unwrap().repeat_buyers = Some(many));
    let away = Snapshot { sale_orders: None, ..without_sql(outage()) };
    let states = "orders         unpaid 1,140  paid 5,720 83.1%  closed 20";
    for (snapshot, keys, shown) in [
        (normal(), "2jkl", states),
        (normal(), "2jkl", "press Enter for its orders"),
        (normal(), "2jkl", "repeat buyers  ***04 ×3  ***59 ×2"),
        (normal(), "2jklu", "repeat buyers  1004 ×3  987659 ×2"),
        (many, "2jklu", "repeat buyers  100000000 ×2|…"),
        (unknown.clone(), "2jkl", "orders         unknown"),
        (away, "2jkl", "orders         unknown"),
        // Those of another sale are not shown.
        (normal(), "2jklj", "orders         reading"),
    ] {
        Tui::open(snapshot, keys).at((80, 24)).assert_shows(shown);
    }
    Tui::open(unknown, "2jkl").assert_hides("counted");
}

#[test]
fn the_last_load_test_of_a_sale_is_reported_in_its_detail() {
    let line = AggregateLine {
        label: RequestLabel::Total,
        samples: 5_500,
        average: 11_300,
        median: 11_600,
        p90: 15_000,
        p95: 15_400,
        p99: 121_000,
        min: 3_300,
        max: 121_100,
        error_percent: 0.0,
        per_second: 76_526.4,
    };
    let mut tui = Tui::open(normal(), "2jklR\t\t\t\t\t\t\t\n");
    tui.press("y").sent();
    let done = LoadReport { settled: true, aggregate: vec![line], ..LoadReport::default() };
    tui.answer(Ok(Reply::LoadTestDone(done)));
    let wide = "total       5,500  11.3  11.6  15.0  15.4  121  3.30  121    0.0  76,526";
    tui.at((120, 36)).assert_shows("LAST LOAD TEST").assert_shows(wide);
    tui.assert_shows("STOCK OVER TIME");
    tui.at((60, 36)).assert_shows("total       5,500  11.6  121  3.30  121    0.0  76,526");
    tui.press("j").at((120, 36)).assert_hides("LAST LOAD TEST");
}

/// The persisted count is current; the counts by status are older.
#[test]
fn orders_that_were_counted_before_have_their_age_in_a_place_of_its_own() {
    let counted = |age: i64, seen: i64, (width, height)| {
        let mut snapshot = normal();
        snapshot.sale_orders.iter_mut().for_each(|orders| orders.taken = NOW.plus(-age));
        let mut tui = Tui::open(snapshot, "2jkl");
        tui.app.display.now = NOW.plus(seen);
        tui.screen_at(width, height)
    };
    for size in [(200, 50), (120, 36), (80, 24), (60, 24)] {
        let fresh = counted(0, 0, size);
        assert!(fresh.contains("orders counted"), "{fresh}");
        let [seven, forty] = [counted(7_000, 0, size), counted(2_400_000, 0, size)];
        assert!(seven.contains("orders counted     7 s ago"), "{seven}");
        assert!(forty.contains("orders counted  40 min ago"), "{forty}");
        // It moves nothing else, nor does its own figure.
        let differs: Vec<_> = fresh.lines().zip(seven.lines()).filter(|(a, b)| a != b).collect();
        assert!(matches!(&differs[..], [(rule, _)] if rule.starts_with("───")), "{differs:?}");
        let at = |text: &str| {
            let line = text.lines().find(|line| line.contains("orders counted")).unwrap();
            line.split_once("orders counted").map(|(before, _)| before.chars().count())
        };
        assert_eq!(at(&seven), at(&forty));
        let grown = counted(4_000, 3_000, size);
        assert!(grown.contains("orders counted     7 s ago"), "without a new snapshot: {grown}");
    }
}

#[test]
fn the_detail_leads_to_the_orders_of_the_sale() {
    let mut tui = Tui::open(normal(), "2jkl\n");
    assert_eq!(tui.app.view, View::Orders);
    let query = "voucher=7".parse().unwrap();
    assert_eq!(tui.focus.borrow().orders, Some(OrdersView { query, before: None }));
    tui.assert_shows("voucher=7").press("\x1b");
    assert_eq!(tui.focus.borrow().orders, Some(OrdersView::default()), "as if it was typed");
}

#[test]
fn no_title_moves_while_its_sale_sells() {
    const TITLE: &str = "ninety-nine luft balloons in one long title";
    for size in [(120, 36), (80, 24)] {
        let screen = |phase, left| {
            let mut line = sale(7, TITLE, phase, 120_000, left);
            (line.begin, line.end) = (None, None);
            Tui::new(Snapshot { sales: vec![line], ..normal() }).screen_at(size.0, size.1)
        };
        let row = |text: &String| {
            text.lines().skip(1).find_map(|it| Some(it[it.find("#7 nin")?..].to_owned())).unwrap()
        };
        let selling = [120_000, 119_999, 101_027, 96_423, 1_000, 7];
        let selling = selling.map(|left| screen(Phase::Running, left));
        let rows = selling.each_ref().map(row);
        let title = rows[0].split_inclusive('…').next().unwrap();
        let over = [Phase::SoldOut, Phase::Paused, Phase::Ended].map(|phase| screen(phase, 0));
        assert_steady(&[&selling[..], &over].concat(), &[title]);
        let end = |row: &String| {
            let units = ["/ 120,000", "/ 120k"].iter();
            units.filter_map(|unit| Some(row.find(unit)? + unit.len())).max()
        };
        let ends = rows.each_ref().map(end);
        assert!(ends.iter().all(|it| *it == ends[0]), "the initial stock moves: {rows:?}");
        assert_eq!(ends[0].is_some(), size.0 > 80, "a narrow window has no room for it");
    }
}

#[test]
fn a_load_test_form_keeps_what_was_typed_for_its_sale() {
    let mut tui = Tui::open(normal(), "2jkR4567\t\t\n\x1b");
    tui.assert_status("nothing was changed").press("R").assert_shows("4567");
    tui.press("\x1bjjR").assert_hides("4567");
}

#[test]
fn the_first_character_replaces_a_prefilled_text() {
    let users = |keys: &str| {
        let mut tui = Tui::open(normal(), "2jkR");
        tui.press(keys);
        match &tui.app.dialog {
            Some(Dialog::Form(form)) => [0, 1].map(|field| form.value(field).to_owned()),
            other => panic!("no form is open: {other:?}"),
        }
    };
    assert_eq!(users("5"), ["5", "10"]);
    assert_eq!(users("500\t3"), ["500", "3"]);
    assert_eq!(users("\x08"), ["10000", "10"], "a key that edits it keeps it");
    assert_eq!(users("\t\t\t\t\t7"), ["7", "10"], "until something is typed");
    let mut tui = Tui::open(normal(), "2jkR");
    tui.paste("250");
    tui.assert_shows("275 requests by 250 buyers").assert_shows("28/s");
}

#[test]
fn pieces_are_added_and_removed_after_a_question() {
    let change = |keys: &str, by| {
        let mut tui = Tui::open(normal(), &format!("2jkK{keys}\n"));
        assert!(tui.sent().is_empty());
        tui.press("y");
        assert_eq!(tui.sent(), [Command::Restock { voucher: VoucherId(7), by }], "{keys}");
    };
    change("500", 500);
    change("+1,000", 1_000);
    change("-20", -20);
    let mut tui = Tui::open(normal(), "2jkK-200\n");
    tui.assert_shows("Removes 200 unsold pieces: initial stock 10,000 → 9,800");
    tui.assert_shows("3,120 of 10,000 pieces unsold now");
    Tui::open(normal(), "2jkKx\n").assert_shows("enter a whole number");
    Tui::open(normal(), "2jkK-3121\n").assert_shows("cannot remove 3,121");
    Tui::open(normal(), "2jkK0\n").assert_shows("the stock cannot change by 0");
    Tui::open(normal(), "2jjjjK").assert_status_contains("cannot be changed");
    assert!(Tui::open(read_only(), "2jkK").app.dialog.is_none());
}

#[test]
fn a_short_chart_is_below_the_figures() {
    let mut tea = sale(7, "tea", Phase::Running, 10, 3);
    (tea.begin, tea.end) = (Some(NOW), None);
    let text = Tui::open(Snapshot { sales: vec![tea], ..normal() }, "2l").screen_at(80, 24);
    let end = |label: &str| {
        let line = text.lines().find(|line| line.contains(label)).unwrap();
        line.trim_end().chars().count()
    };
    assert_eq!(end(" window "), end(" left in SQL "), "{text}");
}

#[test]
fn a_choice_on_the_overview_is_kept_beside_a_filter_of_the_sales() {
    let mut tui = Tui::open(normal(), "2/ended\n1");
    tui.app.views.sales.chosen = None;
    tui.press("jj").show(normal());
    assert_eq!(tui.app.views.sales.chosen, Some(VoucherId(8)), "a snapshot moves no choice");
    // Its detail is the one that opens, and a filter of another view moves nothing.
    tui.press("4/x\x1b1\n");
    assert_eq!(tui.focus.borrow().sale, Some(VoucherId(8)));
    tui.assert_shows("#8 milk tea").press("/\x08");
    let pointed = tui.app.views.sales.table.cursor;
    assert_eq!(pointed, Some(VoucherId(5)), "another filter moves the cursor");
    assert_eq!(tui.app.views.sales.chosen, Some(VoucherId(8)), "and no choice");
}

#[test]
fn a_sale_that_was_just_created_is_chosen_beside_a_filter() {
    let mut tui = Tui::open(normal(), "2/ended\n");
    tui.app.views.sales.await_sale(VoucherId(12));
    let later = with(normal(), |it| it.sales.insert(0, sale(12, "soup", Phase::Planned, 50, 50)));
    tui.show(later.clone()).show(later);
    assert_eq!(tui.app.views.sales.chosen, Some(VoucherId(12)));
}

#[test]
fn unknown_is_not_shown_as_unreachable() {
    for (lang, words) in [("en", ["unknown", "not in Redis"]), ("zh", ["未知", "不在 Redis"])] {
        set_thread_language(lang);
        for (admitted, is) in [(None, 0), (Some(0), 1)] {
            let (expected, other) = (words[is], words[1 - is]);
            let mut tickets = sale(9, "cinema ticket", Phase::Running, 2_000, 2_000);
            (tickets.stock, tickets.admitted) = (None, admitted);
            let snapshot = Snapshot { sales: vec![tickets], ..normal() };
            for (width, height) in SIZES {
                let mut tui = Tui::new(snapshot.clone());
                let name = Label("tables-left-in-redis").read();
                for (keys, row) in [("1", "#9 "), ("2", "#9 "), ("l", name)] {
                    let text = tui.press(keys).screen_at(width, height);
                    let row = text.lines().skip(2).find(|line| line.contains(row)).unwrap();
                    assert!(row.contains(expected) && !row.contains(other), "{keys}: {text}");
                }
                tui.press(&format!("/{expected}"));
                let found = tui.app.views.sales.table.rows(&tui.app.display.shown).len();
                assert_eq!(found, 1, "a filter finds what is shown");
            }
        }
    }
}

/// An active sale, older than three hundred planned ones.
fn crowded() -> Snapshot {
    let planned = (2..=301).rev().map(|id| sale(id, "cinema ticket", Phase::Planned, 50, 50));
    let running = sale(1, "hot pot", Phase::Running, 5_000, 4_400);
    let mut snapshot = Snapshot { sales: planned.chain([running]).collect(), ..normal() };
    snapshot.order_sales();
    snapshot
}

#[test]
fn a_running_sale_precedes_hundreds_of_planned_ones() {
    for (width, height) in [(200, 50), (120, 36), (80, 24), (60, 15)] {
        let mut tui = Tui::new(crowded());
        let text = tui.screen_at(width, height);
        let rows: Vec<&str> =
            text.lines().filter(|it| it.contains('#') && !it.contains("seckill")).collect();
        assert!(rows[0].contains("#1 hot pot"), "{text}");
        let listed = rows.iter().filter(|it| it.contains("hot pot") || it.contains("cinema"));
        let more = format!("and {} more", 301 - listed.count());
        assert!(text.contains(&more), "{more}: {text}");
        let text = tui.press("2").screen_at(width, height);
        let first = text.lines().skip(2).find(|it| it.contains('#')).unwrap();
        assert!(first.contains("#1  hot pot"), "{text}");
        assert!(text.contains("of 301"), "{text}");
    }
    Tui::new(crowded()).at((200, 50)).assert_shows("Sales 301");
    // A sale with a finding follows the running ones.
    let finding = SaleFinding { sale: Some(VoucherId(40)), what: Finding::NotLoaded };
    let mut found = Snapshot { audit: Balance::Off { findings: vec![finding] }, ..crowded() };
    found.order_sales();
    let first: Vec<u64> = found.sales.iter().take(3).map(|sale| sale.voucher_id.0).collect();
    assert_eq!(first, [1, 40, 301]);
}

#[test]
fn the_last_of_many_sales_is_reached_found_and_shown_on_the_overview() {
    let mut tui = Tui::open(crowded(), "2G");
    tui.assert_shows(" #2  cinema").press("/#2 \n");
    let rows = tui.app.views.sales.table.rows(&tui.app.display.shown);
    assert!(rows.iter().any(|it| it.voucher_id == VoucherId(2)));
    tui.press("/\x1b/running\n").assert_shows("1 of 301");
    let chosen = format!("{} #2 cinema|#1 hot pot", glyphs::POINTER);
    Tui::open(crowded(), "2G1").assert_shows(chosen);
}

#[test]
fn the_list_stays_above_the_detail_of_a_sale() {
    for (height, least, has_curve) in [(24, 4, false), (36, 4, true), (50, 8, true)] {
        let text = Tui::open(crowded(), "2l").screen_at(80, height);
        let rule = text.lines().skip(3).position(|line| line.contains("──────"));
        let listed = text.lines().skip(3).take(rule.unwrap()).filter(|it| it.contains(" #"));
        assert!(listed.count() >= least, "{height}: {text}");
        assert!(text.contains("attempts") || text.contains("requests"), "{height}: {text}");
        assert_eq!(text.contains("STOCK OVER TIME"), has_curve, "{height}: {text}");
    }
}
