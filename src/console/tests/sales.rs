//! Sales: what chooses one and what only looks, the detail of one, and lists of hundreds.

use super::prelude::*;

/// A planned sale above five active ones, of which none has a rate.
fn quiet() -> Snapshot {
    let running = (1..=5).rev().map(|id| sale(id, "milk tea", Phase::Running, 100, 90));
    let planned = sale(6, "hot soup", Phase::Planned, 50, 50);
    let sales = std::iter::once(planned).chain(running);
    let sales = sales.map(|sale| SaleLine { funnel: Funnel::default(), ..sale }).collect();
    Snapshot { sales, ..empty() }
}

/// Buyers of another process come to this sale.
fn selling(id: u64) -> Snapshot {
    with(quiet(), |it| {
        let sale = it.sales.iter_mut().find(|sale| sale.voucher_id.0 == id);
        sale.expect("a sale").funnel.admitted.per_second = 802.0;
    })
}

/// The header names one sale, and the presenter layout shows one.
#[track_caller]
fn assert_named(tui: &mut Tui, header: u64, presented: u64, why: &str) {
    let line = tui.header();
    assert!(line.contains(&format!("#{header} ")), "{why}: {line}");
    assert_eq!(tui.app.presented(), Some(VoucherId(presented)), "{why}");
}

#[test]
fn keys_choose_the_sale_that_header_and_presenter_layout_show() {
    // Keys, the sale in the header, which commands act on, and the one in the presenter layout.
    for (keys, header, presented, why) in [
        ("", 5, 5, "at first"),
        ("2", 6, 5, "commands act on the row under the cursor"),
        ("21", 5, 5, "back on the Overview"),
        ("2k1", 5, 5, "a key that moves nothing"),
        ("2/soup\n1", 5, 5, "a filter"),
        ("2jk", 6, 6, "a key"),
        ("2l", 6, 6, "Enter"),
        ("1j", 6, 6, "a key on the Overview"),
        ("21j", 6, 6, "a key after the sales were seen"),
        ("2S\x1b1", 5, 5, "the question was left"),
        ("2Sy1", 6, 6, "a command on the row"),
        ("2jjj/#1\n", 1, 3, "the filter hides the chosen one, which stays chosen"),
        ("2jjj/#1\nPy", 1, 1, "a command on the row that the filter shows"),
    ] {
        let mut tui = Tui::open(quiet(), keys);
        assert_named(&mut tui, header, presented, why);
        tui.show(quiet());
        assert_named(&mut tui, header, presented, &format!("{why}, a snapshot later"));
    }
    let mut tui = Tui::open(quiet(), "21");
    tui.assert_hides(format!("{} #6", glyphs::POINTER));
    tui.show(with(quiet(), |it| _ = it.sales.remove(0)));
    assert_named(&mut tui, 5, 5, "the row under the cursor is gone");
}

#[test]
fn a_sale_that_sql_has_lost_or_lacks_changes_of_is_marked() {
    for (sql, word, detail) in [
        (SqlCopy::Lost, "SQL lost", "lost; no buyer is admitted; press 9 to repair"),
        (SqlCopy::Behind, "running", "older than in Redis"),
    ] {
        let snapshot = with(quiet(), |it| it.sales[1].sql = sql);
        let mut tui = Tui::open(snapshot, "2j");
        let screen = tui.screen();
        let row = screen.lines().find(|line| line.contains("#5  ")).unwrap_or(&screen).to_owned();
        assert!(row.contains(word), "{row}");
        let header = tui.header();
        assert!(header.contains(&word.to_uppercase()), "{header}");
        tui.press("l");
        tui.assert_shows(detail);
    }
}

#[test]
fn a_lost_server_hides_only_its_own_figures() {
    let mut tui = Tui::open(without_server(), "2");
    let screen = tui.screen();
    let rows: Vec<&str> = screen.lines().skip(1).filter(|line| line.contains("unknown")).collect();
    assert!(matches!(rows[..], [row] if row.contains("hot pot")), "{screen}");
    tui.assert_shows("SALES  without partitions 0, 3, 6, 9");
    // The others are as before, and not marked as old.
    tui.assert_shows("sold out|2,000").assert_hides(" old");
    assert!(tui.header().contains("redis !"), "{}", tui.header());
    tui.press("1").assert_shows("10.20.30.40:16379|0, 3, 6, 9, 12, 15, 18, 21");
    // Totals of the other servers.
    let screen = tui.screen();
    for figure in ["PENDING ", "DEAD "] {
        let marked = |line: &&str| line.contains(figure) && line.contains("without partitions");
        assert_eq!(screen.lines().filter(marked).count(), 1, "{screen}");
    }
    tui.press("2l").assert_shows("conversion     unknown|requests and outcomes: unknown");
    tui.assert_shows("in flight        unknown");
    // All locks are on one server, which replies, or not.
    let without_locks = with(without_server(), |it| it.locks_unknown = true);
    Tui::open(without_locks, "1").assert_shows("LOCKS     unknown");
    tui.press("6").assert_shows("LOCKS|stock:8").assert_hides("without partition");

    let two = with(without_server(), |it| {
        let mut other = lost_server();
        other.partitions = vec![1];
        it.unreachable.push(other);
    });
    Tui::open(two, "2")
        .assert_shows("SALES  without partitions 0, 1, 3, 6")
        .assert_hides("partition 1");
}

#[test]
fn a_click_chooses_its_row_also_where_the_filter_hides_the_cursor() {
    let mut tui = Tui::open(quiet(), "2m");
    assert_named(tui.click("hot soup"), 6, 6, "the row where the cursor is");
    for id in [4, 2] {
        let mut tui = Tui::open(quiet(), "2m/running\n");
        tui.show(with(quiet(), |it| it.sales[1].phase = Phase::Paused));
        assert_eq!(tui.app.views.sales.table.cursor, Some(VoucherId(5)), "it is hidden now");
        let chosen = tui.click(&format!("#{id}  milk")).app.views.sales.chosen;
        assert_eq!(chosen, Some(VoucherId(id)));
    }
}

#[test]
fn enter_on_the_overview_opens_the_named_sale() {
    let tui = Tui::open(quiet(), "2jjj1\n");
    assert_eq!(tui.app.views.sales.table.cursor, Some(VoucherId(3)), "the chosen one");
    let mut tui = Tui::open(selling(2), "21");
    assert_named(&mut tui, 2, 2, "it sells");
    assert_eq!(tui.press("\n").app.views.sales.table.cursor, Some(VoucherId(2)));
}

#[test]
fn commands_target_the_row_in_the_table_and_the_choice_on_the_overview() {
    assert_eq!(Tui::open(quiet(), "2Sy").sent(), [Command::StartSale(VoucherId(6))]);
    Tui::open(quiet(), "2L").assert_shows("#6");
    let mut tui = Tui::open(quiet(), "2jjj/#1\ny");
    assert_eq!(tui.copied(), "1", "the row under the cursor");
    assert_eq!(tui.press("Py").sent(), [Command::PauseSale(VoucherId(1))]);
    let mut tui = Tui::open(quiet(), "2jjj/#1\n1y");
    assert_eq!(tui.copied(), "3");
    let row = tui.press("w").copied();
    assert!(row.contains("\"id\":\"3\""), "{row}");
    tui.press("\n");
    assert_eq!(tui.focus.borrow().sale, Some(VoucherId(3)), "and its detail is opened");
}

/// The sale of the open question, as its command has it.
fn asked(tui: &Tui) -> Option<u64> {
    tui.app.dialog.as_ref().and_then(Dialog::sale).map(|sale| sale.0)
}

#[test]
fn the_header_names_the_target_sale_of_commands() {
    for key in ["E", "P", "R"] {
        let mut tui = Tui::open(quiet(), "2jj1");
        assert_named(tui.show(selling(3)), 4, 3, "one is chosen, another one is active");
        tui.press(key).show(selling(2));
        assert_eq!(asked(&tui), Some(4));
        assert!(tui.header().contains("#4 "), "it is asked about");
    }
    // A load test from here does not change the target either.
    let mut tui = Tui::open(quiet(), "2jj1");
    tui.show(Snapshot { load_tests: vec![load_test(2, 1, 9)], ..quiet() });
    assert_named(&mut tui, 4, 2, "it is chosen");
    assert_eq!(asked(tui.press("H")), Some(2), "only that one has a load test");
    assert_named(&mut tui, 2, 2, "it is asked about");
    assert_named(tui.press("\x1b"), 4, 2, "the question was left");
    // Without a choice a command leads to the sale that the header names.
    let mut tui = Tui::open(selling(3), "E");
    assert_eq!(asked(&tui), None, "several are open");
    assert_named(&mut tui, 3, 3, "the cursor is on it");
    assert_eq!(asked(tui.press("E")), Some(3));
}

#[test]
fn orders_are_counted_for_the_sale_whose_detail_is_open() {
    let mut tui = Tui::new(normal());
    let detail = [("2jk", None), ("l", Some(7)), ("j", Some(8))];
    for (keys, counted) in detail.into_iter().chain([("1", None), ("2", Some(8)), ("\x1b", None)]) {
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
        let row = Tui::open(snapshot, "2").line("milk tea");
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
    for (snapshot, keys, shown) in [
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
    tui.answer(Ok(Reply::LoadTestDone(done))).at((120, 36));
    let wide = "total       5,500  11.3  11.6  15.0  15.4  121  3.30  121    0.0  76,526";
    tui.assert_shows("LAST LOAD TEST|STOCK OVER TIME").assert_shows(wide);
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
        let tui = Tui::open(normal(), &format!("2jkR{keys}"));
        [0, 1].map(|field| form_of(&tui).value(field).to_owned())
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
    for (keys, by) in [("500", 500), ("+1,000", 1_000), ("-20", -20)] {
        let mut tui = Tui::open(normal(), &format!("2jkK{keys}\n"));
        assert!(tui.sent().is_empty());
        let change = Command::Restock { voucher: VoucherId(7), by };
        assert_eq!(tui.press("y").sent(), [change], "{keys}");
    }
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
    let mut tui = Tui::open(Snapshot { sales: vec![tea], ..normal() }, "2l");
    let ends = [" window ", " left in SQL "].map(|it| width(&tui.at((80, 24)).line(it)));
    assert_eq!(ends[0], ends[1], "{}", tui.screen());
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
    let words = [["unknown", "not in Redis"], ["未知", "不在 Redis"]];
    for (_, words) in languages().zip(words) {
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
    for (width, height) in SIZES {
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
        assert!(first.contains("#1  hot pot") && text.contains("of 301"), "{text}");
    }
    Tui::new(crowded()).at((200, 50)).assert_shows("Sales 301");
    // A sale with a finding follows the running ones.
    let finding = SaleFinding { sale: Some(VoucherId(40)), shard: None, what: Finding::NotLoaded };
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

#[test]
fn many_shards_leave_room_for_the_sales_and_the_figures() {
    let snapshot = with(normal(), |it| {
        it.sales[0].shards = (1..=64)
            .map(|number| SaleLine {
                shard: Some(number),
                ..sale(7, "hot pot", Phase::Running, 10, u64::from(number) % 4)
            })
            .collect();
    });
    let mut tui = Tui::open(snapshot, "2l");
    for (size, rest) in [((80, 24), "milk tea 9.9|busy"), ((60, 15), "duplicate|rejected")] {
        tui.at(size).assert_shows("64, #7.1–#7.64: 0–3 left each, 16 empty").assert_shows(rest);
    }
}
