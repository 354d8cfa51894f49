//! A figure is the same wherever it is shown, and unknown values are not shown as known.

use super::prelude::*;

/// A console that shows `normal()` with a change.
fn changed(change: impl FnOnce(&mut Snapshot), keys: &str) -> Tui {
    Tui::open(with(normal(), change), keys)
}

/// The text right after a word in the first line that contains it.
fn behind<'a>(text: &'a str, word: &str) -> &'a str {
    let rest = text.split(word).nth(1).unwrap_or_default();
    rest.split_whitespace().next().unwrap_or_default()
}

#[test]
fn the_chart_and_the_funnel_show_the_same_rate() {
    let rates = |it: &mut Snapshot| {
        (it.funnel.admitted.per_second, it.written.per_second) = (21_627.0, 15_004.0);
    };
    let legend = |tui: &mut Tui| {
        let legend = tui.line("█ admitted");
        ["█ admitted", "persisted"].map(|word| behind(&legend, word).to_owned())
    };
    let mut tui = changed(rates, "");
    assert_eq!(legend(&mut tui), ["21,627/s", "15,004/s"]);
    let text = tui.screen();
    let funnel =
        text.lines().find(|line| line.contains("admitted") && !line.contains("⠤ persisted"));
    assert!(funnel.is_some_and(|line| line.contains("21,627/s")), "{text}");
    assert_eq!(legend(&mut Tui::new(without_sql(normal()))), ["802/s", "unknown"]);
}

/// A drain of 1,000,000 entries in 67 s, written in batches with every second snapshot.
fn draining(tick: u64) -> Snapshot {
    with(with_stream(), |it| {
        it.taken = NOW.plus(tick as i64 * 250);
        it.entries.taken = Some(it.taken);
        let lag = Some(1_000_000 - tick / 2 * 7_463);
        it.entries.partitions.iter_mut().for_each(|line| line.lag = lag);
        it.stream.iter_mut().for_each(|stream| stream.lag = lag);
    })
}

#[test]
fn a_drain_ends_at_the_same_time_in_the_overview_and_in_the_stream() {
    let rows = ["1", "3"].map(|key| {
        let mut tui = Tui::new(draining(0));
        (1..=40).for_each(|tick| _ = tui.show(draining(tick)));
        behind(&tui.press(key).screen(), "drains in").parse::<u64>().unwrap_or_default()
    });
    assert!(rows[0].abs_diff(57) < 12 && rows[0] == rows[1], "{rows:?}");
}

#[test]
fn unreadable_values_are_not_shown_as_current() {
    let quiet = with(outage(), |it| {
        (it.pending, it.locks) = (PendingPage::default(), Holders::default());
    });
    let mut tui = Tui::new(quiet);
    tui.assert_hides("  0/s|802/s|alive| dead  ");
    assert!(tui.line("STREAM").contains("redis    42 s old"), "{}", tui.screen());
    tui.press("4").assert_shows("are unknown").assert_hides("Every delivered order");
    tui.press("6").assert_shows("are unknown").assert_hides("No locks are held");
    let mut tui = Tui::open(Snapshot { pending: PendingPage::default(), ..empty() }, "4");
    tui.assert_shows("reading").assert_hides("Every delivered order");
    tui.show(empty()).assert_hides("reading");
    let text = changed(|it| it.census = None, "4").screen_at(80, 24);
    assert_eq!(text.matches("unknown").count(), 8, "each group: {text}");
    let finding = SaleFinding { sale: None, shard: None, what: Finding::Lost(2) };
    let header = changed(|it| it.audit = Balance::Off { findings: vec![finding] }, "").header();
    assert!(header.contains("✖ audit FAILED"), "even with orders in flight: {header}");
}

#[test]
fn rows_that_were_read_before_redis_went_away_are_dimmed() {
    for (key, word) in [("4", "stuck"), ("6", "node-a")] {
        for (snapshot, dimmed) in [(normal(), false), (outage(), true)] {
            let mut tui = Tui::open(snapshot, key);
            let soft = tui.app.display.theme.dimmed;
            let buffer = tui.draw(120, 36);
            let at = (3..36).filter_map(|y| Some((column(&buffer, y, word)? as u16, y)));
            // The row under the cursor has colours of its own.
            let lit: Vec<_> = at
                .filter(|at| buffer[*at].bg == Color::Reset && buffer[*at].modifier.is_empty())
                .map(|at| (at, buffer[at].fg != soft.fg.unwrap_or_default()))
                .collect();
            let well = !lit.is_empty() && lit.iter().all(|(_, it)| *it != dimmed);
            assert!(well, "{key}: {lit:?} {}", tui.screen());
        }
    }
}

#[test]
fn a_holder_that_is_not_a_node_looks_the_same_everywhere() {
    let strangers = |it: &mut Snapshot| {
        for consumer in it.stream.iter_mut().flat_map(|stream| &mut stream.consumers) {
            (consumer.alive, consumer.known) = (false, false);
        }
        for line in Arc::make_mut(&mut it.pending.lines) {
            (line.holder_alive, line.holder_known) = (false, false);
        }
        let lock = &mut it.locks.locks[0];
        (lock.node, lock.known) = ("desk-7".to_owned(), false);
        it.locks.locks.truncate(1);
    };
    changed(strangers, "").assert_shows("no node").assert_hides(" dead  ");
    changed(strangers, "4").assert_shows("no node").assert_hides(" dead  ");
    let mut tui = changed(strangers, "6\n");
    tui.assert_shows("desk-7 no node|desk-7  no node").assert_hides("alive|orphan");
    tui.press("X").assert_shows("Its holder desk-7 is not a known node");
    let orphan = |it: &mut Snapshot| (strangers(it), it.locks.locks[0].orphan = true);
    changed(|it| _ = orphan(it), "6").assert_shows("desk-7 orphan");
}

/// Every entry of the stream is held by a consumer, except for the last one, which was read.
fn held_by(consumer: &str, holder: Option<NodeState>, dead: Option<bool>) -> Snapshot {
    with(with_stream(), |it| {
        for (number, line) in Arc::make_mut(&mut it.entries.lines).iter_mut().enumerate() {
            (line.dead, line.fault, line.holder) = (Some(false), None, holder);
            let consumer = consumer.to_owned();
            line.holding = DeliveryState::Pending { consumer, idle_ms: 9, deliveries: 1 };
            if number == 199 {
                (line.dead, line.holding) = (dead, DeliveryState::Acknowledged);
            }
        }
    })
}

#[test]
fn entries_show_the_state_of_their_holder_and_what_is_unknown() {
    let stopped = held_by("node-c/1", Some(NodeState::Stopped), Some(true));
    Tui::open(stopped, "3l")
        .assert_shows("pending node-c/1 no node|in dead letters; press 5 to open");
    let text = "acknowledged or dead: too many dead letters|press 5 to open them";
    let unknown = held_by("node-d/1", None, None);
    Tui::open(unknown, "3l").assert_shows("pending node-d/1 unknown").assert_shows(text);
    let mut uncounted = with_stream();
    uncounted.entries.partitions[0].read = None;
    Tui::open(uncounted.clone(), "3").assert_shows("6,880 of 8,084 added");
    uncounted.entries.partitions[0].lag = None;
    Tui::open(uncounted, "3").assert_shows("not counted; 8,084 added|unknown");
    for (lag, expected) in [
        (Some(0), "No pending entries. Every delivered order is written."),
        (Some(5_606), "No pending entries. 5,606 entries wait in the stream (3)."),
        (Some(1), "No pending entries. 1 entry waits in the stream (3)."),
        (None, "The lag of the stream is unknown (3)."),
    ] {
        let snapshot = with(empty(), |it| it.stream.iter_mut().for_each(|it| it.lag = lag));
        Tui::open(snapshot, "4").at((80, 24)).assert_shows(expected);
    }
    // Partitions are part of the ID.
    let spread = |it: &mut Snapshot| {
        for line in Arc::make_mut(&mut it.pending.lines) {
            line.entry.partition = (line.entry.number % 64) as u16;
        }
    };
    for size in &SIZES[1..] {
        changed(spread, "4G").at(*size).assert_shows("1794999958000-127@63  |node-b/1");
    }
}

#[test]
fn the_ledger_says_what_it_does_not_know() {
    let old = with(Snapshot { ledger: with_findings().ledger, ..outage() }, |it| {
        it.ledger.taken = Some(NOW.plus(-42_000));
    });
    let large = with(normal(), |it| it.ledger.limit = Some(AuditLimit::Orders(300_000)));
    let none = Snapshot { ledger: LedgerPage::of(NOW, vec![], vec![]), ..empty() };
    for (snapshot, expected) in [
        (normal(), "Auditing the sales."),
        (outage(), "Redis is unreachable: the rows are unknown"),
        (old, "4 sales audited 42 s ago"),
        (none, "No sales yet, nothing to audit."),
        (large, "run 'seckill audit' in a shell"),
    ] {
        for (width, height) in &SIZES[1..] {
            let text = Tui::open(snapshot.clone(), "9").screen_at(*width, *height);
            let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flat.contains(expected), "{text}");
        }
    }
    let audit = Balance::Off {
        findings: vec![SaleFinding { sale: None, shard: None, what: Finding::Lost(2) }],
    };
    let all = "All sales: 2 admitted orders are neither";
    let mut passed = with_findings().ledger;
    Arc::make_mut(&mut passed.lines).retain(|line| line.findings.is_empty());
    Tui::open(Snapshot { audit: audit.clone(), ledger: passed, ..normal() }, "9").assert_shows(all);
    Tui::open(Snapshot { audit, ..with_findings() }, "9").assert_hides(all);
}

/// While the database is away, no screen claims that an audit passed: its age is what is known.
#[test]
fn no_audit_passed_while_the_database_is_away() {
    let away = with(without_sql(with_findings()), |it| {
        Arc::make_mut(&mut it.ledger.lines).retain(|line| line.findings.is_empty());
        it.audit = Balance::Unknown;
        it.ledger = it.ledger.clone().outdated();
        it.ledger.taken = Some(NOW.plus(-42_000));
    });
    assert!(!away.sql.up && !away.ledger.lines.is_empty());
    for (width, height) in &SIZES[1..] {
        for keys in ["9", "9l"] {
            let text = Tui::open(away.clone(), keys).screen_at(*width, *height);
            let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(!flat.contains("Audit passed") && !flat.contains(" passed │"), "{text}");
            assert!(flat.contains("Unknown until both servers answer"), "{text}");
            assert!(flat.contains("The last audit, 42 s ago"), "{text}");
        }
    }
}

#[test]
fn an_alarm_keeps_its_next_step_when_its_error_is_long() {
    for (_, words) in languages().zip(["orders wait in the stream", "订单暂存在消息流中"])
    {
        let error = StoreError::Away(Reason::Quoted("the disk is full and so on ".repeat(20)));
        let kind = AlarmKind::SqlAway { error: Message::of(&EngineError::Store(error)) };
        let alarms = vec![Alarm { urgency: Urgency::Critical, kind }];
        changed(|it| it.alarms = alarms, "").at((80, 24)).assert_shows(words);
    }
}

#[test]
fn the_state_of_a_sale_and_of_a_job_is_shown() {
    let archived = |it: &mut Snapshot| {
        it.sales.iter_mut().for_each(|sale| (sale.phase, sale.stock) = (Phase::Archived, None));
    };
    changed(archived, "1").assert_shows("archived").assert_hides("ends in");
    let mut tui = changed(archived, "2");
    tui.assert_shows("archived").assert_hides("ends in");
    tui.press("jE").assert_status_contains("has ended");
    let screen = Tui::open(normal(), "8jl").screen();
    let next = screen.lines().find(|line| line.starts_with(" next ")).unwrap_or_default();
    assert!(next.contains("paused") && !next.contains("unknown"), "{screen}");
    let large = vec![sale(7, "hot pot", Phase::Running, 10_000_000, 9_876_543)];
    for size in [(60, 15), (60, 30), (71, 24), (72, 24), (80, 15)] {
        let mut tui = changed(|it| it.sales.clone_from(&large), "2l");
        tui.at(size).assert_shows("9,876,543|9,876,563|10,000,000|802/s|until 11:10");
        let way = tui.line("of these persisted");
        assert!(way.contains(" 99.9% of these"), "{way}");
    }
    let title = "a title that fills most of a line of a window";
    changed(|it| it.sales.iter_mut().for_each(|it| title.clone_into(&mut it.title)), "2l")
        .at((60, 30))
        .assert_shows(format!("#7 {title}  RUNNING|repeat buyers  ***04 ×3"));
    let letters = |it: &mut Snapshot| it.letters.taken = Some(NOW.plus(-9_000));
    Tui::open(with(with_letters(), letters), "5").assert_shows("DEAD LETTERS      9 s old");
    Tui::open(normal(), "4/1005\n").assert_shows("***05");
    changed(|it| it.recoveries = recovering("pending apply"), "4")
        .assert_shows("pending apply 400 of 12,000");
    Tui::open(normal(), "0").assert_shows("sale end");
}

/// Another program has locked the database.
pub(super) fn locked(snapshot: Snapshot) -> Snapshot {
    with(snapshot, |it| {
        it.sql.unwritable = Some(Message::of(&EngineError::Store(StoreError::Locked)));
        let kind = AlarmKind::SqlLocked { waiting: Some(86) };
        it.alarms.insert(0, Alarm { urgency: Urgency::Critical, kind });
    })
}

#[test]
fn a_locked_database_ages_no_figures_and_is_reported_to_commands() {
    for view in ["2", "3", "4", "5", "7", "8", "0"] {
        for (width, height) in &SIZES[1..3] {
            // The header has the state of the server.
            let [free, held] = [with_orders(), locked(with_orders())]
                .map(|snapshot| inner(&Tui::open(snapshot, view).screen_at(*width, *height), 1, 0));
            assert_eq!(free, held, "view {view}");
        }
    }
    for (_, expected) in languages().zip(["rejects writes", "拒绝写入"]) {
        let mut tui = Tui::new(normal());
        assert_eq!(tui.app.away(), None);
        tui.show(locked(normal()));
        assert!(tui.app.away().is_some_and(|it| it.contains(expected)));
        tui.show(without_sql(normal()));
        assert!(tui.app.away().is_some_and(|it| !it.contains(expected)));
    }
}
