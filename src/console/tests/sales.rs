//! The sale detail: its orders are counted by status while it is open, and it leads to the buyers.

use super::prelude::*;

#[test]
fn no_confirmation_opens_while_its_server_is_unreachable() {
    let mut tui = Tui::open(outage(), "2jk");
    for key in ["P", "E", "R"] {
        tui.press(key);
        assert!(tui.app.dialog.is_none(), "{key}");
        assert_eq!(tui.status(), "Redis is unreachable; try again once it is reachable", "{key}");
    }
    let mut snapshot = normal();
    snapshot.sql.up = false;
    tui.show(snapshot.clone());
    tui.press("E").assert_status("the database is unreachable; try again once it is reachable");
    snapshot.sql.up = true;
    tui.show(snapshot);
    tui.press("E");
    assert!(tui.app.dialog.is_some());
}

#[test]
fn orders_are_counted_only_while_the_detail_is_open() {
    let mut tui = Tui::new(normal());
    let looked_at = |tui: &Tui| tui.focus.borrow().sale;
    tui.press("2jk");
    assert_eq!(looked_at(&tui), None);
    tui.press("l");
    assert_eq!(looked_at(&tui), Some(VoucherId(7)));
    tui.press("j");
    assert_eq!(looked_at(&tui), Some(VoucherId(8)), "the detail follows the choice");
    let text = tui.screen();
    assert!(text.contains("orders         reading"), "those of another sale are not shown: {text}");
    tui.press("1");
    assert_eq!(looked_at(&tui), None);
    tui.press("2");
    assert_eq!(looked_at(&tui), Some(VoucherId(8)));
    tui.press("\x1b");
    assert_eq!(looked_at(&tui), None);
}

#[test]
fn order_states_are_shown_or_unknown() {
    let text = |snapshot: Snapshot| {
        let mut tui = Tui::open(snapshot, "2jkl");
        tui.screen_at(80, 24)
    };
    let label = text(normal());
    assert!(label.contains("orders         unpaid 1,140  paid 5,720 83.1%  closed 20"), "{label}");
    assert!(label.contains("press Enter for its orders"), "{label}");
    assert!(label.contains("repeat buyers  ***04 ×3  ***59 ×2"), "{label}");
    let mut tui = Tui::open(normal(), "2jklu");
    let shown = tui.screen_at(80, 24);
    assert!(shown.contains("repeat buyers  1004 ×3  987659 ×2"), "{shown}");
    let voucher = VoucherId(7);
    let unknown = SaleOrders { voucher, taken: NOW, counts: None, repeat_buyers: None };
    let label = text(Snapshot { sale_orders: Some(unknown), ..normal() });
    assert!(label.contains("orders         unknown"), "{label}");
    let mut many = normal();
    many.sale_orders.as_mut().unwrap().repeat_buyers =
        Some((1..=9).map(|user| (UserId(user * 100_000_000), 2)).collect());
    let mut tui = Tui::open(many, "2jklu");
    let narrow = tui.screen_at(80, 24);
    assert!(narrow.contains("repeat buyers  100000000 ×2") && narrow.contains('…'), "{narrow}");
    let mut away = outage();
    (away.sql.up, away.sale_orders) = (false, None);
    assert!(text(away).contains("orders         unknown"));
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
    let (voucher, taken) = (VoucherId(7), NOW.plus(-70_000));
    let unknown = SaleOrders { voucher, taken, counts: None, repeat_buyers: None };
    let snapshot = Snapshot { sale_orders: Some(unknown), ..normal() };
    Tui::open(snapshot, "2jkl").assert_hides("counted");
}

#[test]
fn the_detail_leads_to_the_orders_of_the_sale() {
    let mut tui = Tui::open(normal(), "2jkl\n");
    assert_eq!(tui.app.view, View::Orders);
    let query = "voucher=7".parse().unwrap();
    assert_eq!(tui.focus.borrow().orders, Some(OrdersView { query, before: None }));
    tui.assert_shows("voucher=7");
    tui.press("\x1b");
    assert_eq!(tui.focus.borrow().orders, Some(OrdersView::default()), "as if it was typed");
}

#[test]
fn no_title_moves_while_its_sale_sells() {
    const TITLE: &str = "ninety-nine luft balloons in one long title";
    for (width, height) in [(120, 36), (80, 24)] {
        // The title as far as it is shown, and where the initial stock ends.
        let places = |phase, left: u64| {
            let mut line = sale(7, TITLE, phase, 120_000, left);
            (line.begin, line.end) = (None, None);
            let mut tui = Tui::new(Snapshot { sales: vec![line], ..normal() });
            let text = tui.screen_at(width, height);
            let row = text.lines().skip(1).find(|line| line.contains("#7 nin")).expect("a row");
            let title = row.split_once('…').map(|(title, _)| title.to_owned());
            let units = ["/ 120,000", "/ 120k"].iter();
            let end = units.filter_map(|unit| Some(row.find(unit)? + unit.len())).max();
            (title, end.map(|end| row[..end].chars().count()))
        };
        let full = places(Phase::Running, 120_000);
        // A narrow window has no room for the initial stock.
        assert!(full.0.is_some() && full.1.is_some() == (width > 80));
        for left in [119_999, 101_027, 96_423, 1_000, 7] {
            assert_eq!(places(Phase::Running, left), full, "{left}");
        }
        for phase in [Phase::SoldOut, Phase::Paused, Phase::Ended] {
            assert_eq!(places(phase, 0).0, full.0, "{phase:?}");
        }
    }
}

#[test]
fn a_load_test_form_keeps_what_was_typed_for_its_sale() {
    let mut tui = Tui::open(normal(), "2jkR4\t\n\x1b");
    tui.assert_status("nothing was changed");
    tui.press("R").assert_shows("1000004");
    tui.press("\x1bjjR").assert_hides("1000004");
}

#[test]
fn a_short_chart_is_below_the_figures() {
    let mut snapshot = normal();
    snapshot.sales = vec![sale(7, "tea", Phase::Running, 10, 3)];
    snapshot.sales[0].begin = Some(NOW);
    snapshot.sales[0].end = None;
    let mut tui = Tui::open(snapshot, "2l");
    let text = tui.screen_at(80, 24);
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
    tui.press("jj");
    assert_eq!(tui.app.views.sales.chosen, Some(VoucherId(8)));
    tui.show(normal());
    assert_eq!(tui.app.views.sales.chosen, Some(VoucherId(8)), "a snapshot moves no choice");
    // Its detail is the one that opens, and a filter of another view moves nothing.
    tui.press("4/x\x1b1\n");
    assert_eq!(tui.focus.borrow().sale, Some(VoucherId(8)));
    tui.assert_shows("#8 milk tea");
    tui.press("/");
    tui.key(KeyCode::Backspace);
    assert_eq!(
        tui.app.views.sales.pointed(),
        Some(VoucherId(5)),
        "another filter moves the cursor"
    );
    assert_eq!(tui.app.views.sales.chosen, Some(VoucherId(8)), "and no choice");
}

#[test]
fn a_sale_that_was_just_created_is_chosen_beside_a_filter() {
    let mut tui = Tui::open(normal(), "2/ended\n");
    tui.app.views.sales.await_sale(VoucherId(12));
    let mut later = normal();
    later.sales.insert(0, sale(12, "hot soup", Phase::Planned, 50, 50));
    tui.show(later.clone());
    tui.show(later);
    assert_eq!(tui.app.views.sales.chosen, Some(VoucherId(12)));
}

#[test]
fn unknown_is_not_shown_as_unreachable() {
    for (lang, words) in [("en", ["unknown", "not in Redis"]), ("zh", ["未知", "不在 Redis"])] {
        set_thread_language(lang);
        for (admitted, is) in [(None, 0), (Some(0), 1)] {
            let (expected, other) = (words[is], words[1 - is]);
            let mut snapshot = normal();
            snapshot.sales.retain(|sale| sale.voucher_id == VoucherId(9));
            snapshot.sales[0].phase = Phase::Running;
            (snapshot.sales[0].stock, snapshot.sales[0].admitted) = (None, admitted);
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
    let mut tui = Tui::new(crowded());
    let text = tui.screen_at(200, 50);
    assert!(text.lines().nth(1).unwrap().contains("Sales 301"), "{text}");
}

#[test]
fn a_filter_of_the_sales_searches_all_of_them_and_the_table_ends_with_the_last() {
    let mut tui = Tui::open(crowded(), "2G");
    tui.assert_shows(" #2  cinema");
    tui.press("/#2 \n");
    assert!(
        tui.app
            .views
            .sales
            .table
            .rows(&tui.app.display.shown)
            .iter()
            .any(|it| it.voucher_id == VoucherId(2))
    );
    tui.press("/\x1b/running\n").assert_shows("1 of 301");
}

#[test]
fn a_chosen_sale_is_on_the_overview_however_many_come_before_it() {
    let mut tui = Tui::open(crowded(), "2G1");
    let text = tui.screen();
    let pointer = glyphs::POINTER;
    assert!(text.contains(&format!("{pointer} #2 cinema")), "{text}");
    assert!(text.contains("#1 hot pot"), "{text}");
}

#[test]
fn a_sale_with_a_finding_follows_the_running_ones() {
    let mut snapshot = crowded();
    let finding = SaleFinding { sale: Some(VoucherId(40)), what: Finding::NotLoaded };
    snapshot.audit = Balance::Off { findings: vec![finding] };
    snapshot.order_sales();
    let first: Vec<u64> = snapshot.sales.iter().take(3).map(|sale| sale.voucher_id.0).collect();
    assert_eq!(first, [1, 40, 301]);
}

#[test]
fn no_orders_are_counted_for_a_sale_that_is_not_on_the_screen() {
    let mut tui = Tui::open(normal(), "2jkl");
    assert_eq!(tui.focus.borrow().sale, Some(VoucherId(7)));
    tui.app.views.sales.choose(VoucherId(99));
    tui.press("u");
    assert_eq!(tui.focus.borrow().sale, None);
}

#[test]
fn the_list_stays_above_the_detail_of_a_sale() {
    for (height, least, has_curve) in [(24, 4, false), (36, 4, true), (50, 8, true)] {
        let mut tui = Tui::open(crowded(), "2l");
        let text = tui.screen_at(80, height);
        let rule = text.lines().skip(3).position(|line| line.contains("──────"));
        let listed = text.lines().skip(3).take(rule.unwrap()).filter(|it| it.contains(" #"));
        assert!(listed.count() >= least, "{height}: {text}");
        assert!(text.contains("attempts") || text.contains("requests"), "{height}: {text}");
        assert_eq!(text.contains("STOCK OVER TIME"), has_curve, "{height}: {text}");
    }
}

#[test]
fn a_narrow_window_with_enough_rows_shows_the_whole_detail_of_a_sale() {
    let mut snapshot = normal();
    let title = "a title that fills most of a line of a window";
    snapshot.sales.iter_mut().for_each(|sale| title.clone_into(&mut sale.title));
    let text = Tui::open(snapshot, "2l").screen_at(60, 30);
    assert!(text.contains(&format!("#7 {title}  RUNNING")), "{text}");
    assert!(text.contains("repeat buyers  ***04 ×3"), "{text}");
}
