//! The recovery views: a list that changes, users, marks, and that a command applies to its subject or to nothing.

use super::prelude::*;

/// This many are pending when the list is read; the stats saw `counted`.
fn holding(count: u64, counted: u64) -> Snapshot {
    let census = census(count, [0, 0, count, 0, 0], [count, 0, 0]);
    with(Snapshot { pending: page(0, count), census: Some(census), ..normal() }, |it| {
        it.stream.iter_mut().for_each(|stream| stream.pending = counted);
    })
}

#[test]
fn the_layout_stays_while_entries_come_and_go() {
    let words = [
        ["HOLDER", "age > 10 min", "No pending entries"],
        ["持有者", "已等待 > 10 分", "没有待确认"],
    ];
    for (_, [head, oldest, none]) in languages().zip(words) {
        for size in SIZES {
            let mut tui = Tui::open(holding(0, 7), "4");
            tui.at(size);
            let screens = [0, 3, 0, 1].map(|count| tui.show(holding(count, 9)).screen());
            assert_steady(&screens, &[head, oldest][..if size.1 > 15 { 2 } else { 1 }]);
            let shown = screens.each_ref().map(|screen| screen.contains(none));
            assert_eq!(shown, [true, false, true, false], "{}", screens[0]);
        }
    }
}

#[test]
fn the_tab_counts_what_the_list_shows() {
    let mut tui = Tui::open(holding(3, 7), "4");
    tui.assert_shows("Pending 3 |1–3 of 3");
    tui.show(holding(0, 7)).assert_hides("Pending 7");
    // Without an open list the stats count.
    tui.show(Snapshot { pending: PendingPage::default(), census: None, ..holding(0, 7) });
    tui.press("1").assert_shows("Pending 7 ");
}

#[test]
fn an_older_count_shows_its_time() {
    let age = |it: &mut Snapshot| it.census.as_mut().unwrap().taken = NOW.plus(-7_000);
    Tui::open(with(normal(), age), "4").at((80, 24)).assert_shows("7 s old");
    let mut long = holding(700, 700);
    long.census.as_mut().unwrap().taken = NOW.plus(-1_400);
    let mut tui = Tui::open(long, "4");
    tui.assert_shows("1 s old").show(holding(499, 499)).assert_hides(" s old");
}

fn marked_letters(tui: &Tui) -> Vec<EntryId> {
    tui.app.views.letters.marks.iter().copied().collect()
}

fn marked_entries(tui: &Tui) -> Vec<EntryId> {
    tui.app.views.pending.marks.iter().copied().collect()
}

#[test]
fn marks_identify_letters_and_not_rows() {
    let first_gone = with(with_letters(), |it| _ = Arc::make_mut(&mut it.letters.lines).remove(0));
    let mut tui = Tui::open(with_letters(), "5 j ");
    tui.assert_shows("2 marked").show(first_gone.clone());
    tui.assert_status("1 marked letter is no longer present; unmarked");
    let scope = LetterScope::Letters(vec![letter(2)]);
    ask(&mut tui, "D", &scope);
    assert_eq!(tui.press("y").sent(), [Command::DiscardLetters { scope, compensate: false }]);
    // An outage says nothing about what is gone.
    tui.show(Snapshot { letters: LetterPage::default(), ..without_sql(with_letters()) });
    assert_eq!(marked_letters(&tui), [letter(2)]);
    // The reply clears the marks of its own letters only.
    tui.show(first_gone).press("g ");
    let report = LettersDiscarded { seen: 1, discarded: 1, ..LettersDiscarded::default() };
    tui.answer(Ok(Reply::LettersDiscarded(report))).assert_status("✔ 1 dead letter discarded");
    assert_eq!(marked_letters(&tui), [letter(1)]);
}

#[test]
fn marks_identify_entries_on_every_page() {
    let mut tui = Tui::open(normal(), "4  ");
    tui.show(with(normal(), |it| _ = Arc::make_mut(&mut it.pending.lines).remove(0)));
    tui.assert_status("1 marked entry is no longer pending; unmarked");
    assert_eq!(tui.press("A").sent(), [Command::Plan(Scope::Entries(vec![entry(1)]))]);
    let mut tui = Tui::open(overflowing(), "4 GG");
    tui.show(with(overflowing(), |it| {
        it.pending = page(500, 12_340);
        it.pending.view = entry(499).next_of_all().unwrap();
    }));
    let scope = Scope::Entries(vec![entry(0), entry(500)]);
    assert_eq!(tui.press(" A").sent(), [Command::Plan(scope)]);
}

#[test]
fn a_reply_clears_the_marks_of_its_own_plan_only() {
    let mut tui = Tui::open(normal(), "4 A");
    assert_eq!(tui.sent(), [Command::Plan(Scope::Entries(vec![entry(0)]))]);
    // Marked while the plan is made, so it is not among its entries.
    tui.press(" ").answer(Ok(Reply::Planned(plan(&[(entry(0), Verdict::Stuck)], "1 entry"))));
    tui.press("y").sent();
    tui.press(" ").answer(Ok(Reply::Replayed(ReplayReport::default())));
    assert_eq!(marked_entries(&tui), [entry(1), entry(2)]);
    // A later plan that arrives behind the question does not replace that of the question.
    let mut tui = Tui::open(normal(), "4  AA");
    assert_eq!(marked_entries(&tui), [entry(0), entry(1)]);
    let later = plan(&[(entry(9), Verdict::Stuck)], "");
    tui.reply(Ok(Reply::Planned(stuck(2)))).answer(Ok(Reply::Planned(later)));
    assert_eq!(tui.press("y").sent(), [Command::Apply(stuck(2), Pace::default())]);
    tui.answer(Ok(Reply::Replayed(ReplayReport::default())));
    assert_eq!(marked_entries(&tui), []);
}

#[test]
fn without_marks_a_command_targets_the_row_under_the_cursor() {
    for (key, verdict) in [
        ("R", LetterVerdict::Awaited),
        ("D", LetterVerdict::Malformed),
        ("C", LetterVerdict::Awaited),
    ] {
        let mut tui = Tui::open(with_letters(), "5jj");
        let one = LetterScope::Letters(vec![letter(2)]);
        assert_eq!(tui.press(key).sent(), [Command::CountLetters(one)], "{key}");
        // It moves meanwhile, and another one takes its row.
        tui.show(with(with_letters(), |it| _ = Arc::make_mut(&mut it.letters.lines).remove(0)));
        tui.answer(Ok(Reply::LettersCounted(letters::counted(&[verdict], 0))));
        tui.assert_shows("1 dead letter, 1794999970000-2: ");
    }
}

#[test]
fn a_star_marks_all_and_unmarks() {
    let mut tui = Tui::open(with_letters(), "5*");
    tui.assert_shows("all 9 marked");
    ask(&mut tui, "D", &all());
    tui.assert_shows("All 9 dead letters: ");
    tui.press("\x1b ").assert_status("all are marked; press * to clear the marks");
    tui.press("*").assert_hides("marked").press("D");
    assert_eq!(tui.sent(), [Command::CountLetters(LetterScope::Letters(vec![letter(0)]))]);
    // Executing the command clears them as well.
    let mut tui = Tui::open(with_letters(), "5*");
    ask(&mut tui, "D", &all());
    tui.press("y").reply(Ok(Reply::LettersDiscarded(LettersDiscarded::default())));
    assert!(!tui.app.views.letters.all_marked);
}

#[test]
fn with_a_filter_a_star_marks_the_rows_that_it_shows() {
    let mut tui = Tui::open(with_letters(), "5 /missing\n");
    tui.assert_shows("2 of 9|1 marked, 1 hidden").assert_hides("on this page");
    tui.press("*").assert_shows("3 marked, 1 hidden");
    let scope = LetterScope::Letters(vec![letter(0), letter(3), letter(7)]);
    ask(&mut tui, "R", &scope);
    tui.assert_shows("3 marked, 1 of them hidden by the filter: ").press("n*");
    assert_eq!(marked_letters(&tui), [letter(0)]);
    let none = "No row contains 'nothing of the kind'";
    Tui::open(with_letters(), "5/nothing of the kind").assert_shows(none);
    // Of a list that is loaded in pages, the filter sees one.
    Tui::open(overflowing(), "5/missing\n").assert_shows("25 of 100 on this page");
}

#[test]
fn the_confirmation_says_that_all_exceeds_the_filter() {
    let mut tui = Tui::open(with_letters(), "5*/missing\n");
    ask(&mut tui, "R", &all());
    tui.assert_shows("All 9, not only the 2 filtered ones: ");
    let mut tui = Tui::open(normal(), "4/node-b\n");
    let shown = tui.app.views.pending.rows(&tui.app.display.shown).len();
    tui.press("A").reply(Ok(Reply::Planned(stuck(1))));
    tui.assert_shows(format!("All 1, not only the {shown} filtered ones."));
}

type Shown = fn() -> Snapshot;

/// Users 1000 to 1127 are in the stream, pending, dead and bought rows; each text names one of them.
fn with_users() -> Snapshot {
    let mut snapshot = with_letters();
    let fault = |user| Some(format!("buyer {user} holds order 9 already").into());
    for line in Arc::make_mut(&mut snapshot.pending.lines) {
        line.fault = line.user.and_then(fault);
    }
    for line in Arc::make_mut(&mut snapshot.letters.lines) {
        let line = &mut line.letter;
        line.reason = match line.order {
            Some(OrderEntry { user, .. }) => {
                format!("buyer {user} already holds order 9 for voucher 7").into()
            }
            None => "field userId holds '1001x', which is not a number".into(),
        };
        for burial in &mut line.history {
            burial.reason.clone_from(&line.reason);
        }
    }
    snapshot.entries = stream::page(StreamView::default(), 128);
    for line in Arc::make_mut(&mut snapshot.entries.lines) {
        line.holding = DeliveryState::Undelivered;
        line.fault = line.user.and_then(fault);
    }
    snapshot.orders = orders::page(OrdersView::default(), 99);
    snapshot
}

/// Whether a text contains one of those users.
fn names_one(text: &str) -> bool {
    let numbers = text.split(|c: char| !c.is_ascii_digit());
    numbers.filter_map(|it| it.parse::<u64>().ok()).any(|it| (1_000..1_128).contains(&it))
}

#[test]
fn users_are_masked_in_every_view_copy_and_export_until_asked() {
    for view in ["3", "4", "5", "7"] {
        for row in 0..9 {
            let mut tui = Tui::open(with_users(), view);
            tui.press(&"j".repeat(row));
            for keys in ["", "\n"] {
                tui.press(keys);
                for width in [80, 120, 200] {
                    let text = tui.screen_at(width, 50);
                    assert!(!names_one(&text), "view {view}, {width}\n{text}");
                }
            }
            assert!(tui.screen_at(200, 50).contains("***"), "{}", tui.screen_at(200, 50));
        }
        let mut tui = Tui::open(with_users(), view);
        let sheet = |tui: &Tui| format!("{:?}", tui.app.sheet().map(|it| it.rows));
        assert!(!names_one(&sheet(&tui)));
        let copied = tui.press("jjw").copied();
        assert!(copied.contains("user_masked") && !names_one(&copied), "{copied}");
        tui.press("u").assert_status("users are shown");
        let copied = tui.press("w").copied();
        assert!(copied.contains(r#""user":"#) && names_one(&copied), "{copied}");
        assert!(names_one(&sheet(&tui)), "an export is as the screen");
        assert!(names_one(&tui.screen_at(200, 50)));
        assert_eq!(tui.press("7u").status(), "users are masked", "one switch for all views");
    }
    // Without an audience they need no mask.
    let mut tui = Tui::new(normal());
    tui.app.display.users.masked = false;
    assert!(names_one(&tui.press("4").screen_at(200, 50)));
    tui.press("tt");
    assert!(!names_one(&tui.screen_at(200, 50)), "the audience may still be there");
}

/// A lock that was read just now with this much time left.
fn lent(at: Millis, left_ms: u64) -> Snapshot {
    with(normal(), |it| {
        (it.taken, it.redis.last_ok) = (at, Some(at));
        it.locks.locks.truncate(1);
        it.locks.locks[0].left_ms = Some(left_ms);
    })
}

fn tick(tui: &mut Tui, millis: i64) {
    tui.app.display.now = NOW.plus(millis);
    tui.app.on_tick();
}

#[test]
fn a_lease_runs_down_between_snapshots_and_warns_without_renewals() {
    let mut tui = Tui::open(lent(NOW, 30_000), "6");
    tui.assert_shows("████    30 s").app.terminal.dirty = false;
    tick(&mut tui, 1_500);
    assert!(tui.app.terminal.dirty, "it moves without a snapshot");
    tui.assert_shows("███▊    28 s");
    let warned = |tui: &mut Tui| {
        let buffer = tui.draw(120, 36);
        let bar = buffer.content.iter().position(|cell| cell.symbol() == "█");
        bar.map(|at| buffer.content[at].fg) == tui.app.display.theme.warn.fg
    };
    // A row under the cursor has no colour of its own, so another one precedes it.
    let mut two = lent(NOW.plus(16_000), 14_000);
    let mut first = two.locks.locks[0].clone();
    first.name = "a".to_owned();
    two.locks.locks.insert(0, first);
    two.locks.locks[0].left_ms = None;
    tick(&mut tui, 16_000);
    tui.show(two.clone()).press("g");
    assert!(warned(&mut tui), "{}", tui.screen());
    two.redis.last_ok = Some(NOW.plus(17_000));
    two.locks.locks[1].left_ms = Some(30_000);
    tui.show(two);
    tick(&mut tui, 17_000);
    assert!(!warned(&mut tui), "renewed: {}", tui.screen());
}

#[test]
fn a_paused_display_confirms_with_the_newest_figures_or_not_at_all() {
    let later = with(normal(), |it| it.locks.locks[1].waiting = 77);
    Tui::open(normal(), "6jf").show(later).press("X").assert_shows("77 waiters");
    let later = with(normal(), |it| {
        it.sales.reverse();
        it.sales.iter_mut().for_each(|sale| sale.stock = Some(42));
    });
    Tui::open(normal(), "2jkf").show(later).press("E").assert_shows("42 of 10,000 pieces unsold");
    let without_sale = || with(normal(), |it| it.sales.retain(|sale| sale.voucher_id.0 != 7));
    let without_lock = || with(normal(), |it| it.locks.locks.retain(|it| it.name != "stock:8"));
    let taken = || with(normal(), |it| it.locks.locks[1].owner = "node-a/recount#77".to_owned());
    let without_jobs = || Snapshot { jobs: Vec::new(), ..normal() };
    let cases: [(Shown, Shown, &str, &[&str], &str); 6] = [
        (normal, without_sale, "2jk", &["P", "E", "R"], "the sale is no longer listed"),
        (normal, without_lock, "6j", &["X"], "the holder no longer holds the lock"),
        (normal, taken, "6j", &["X"], "the holder no longer holds the lock"),
        (normal, without_jobs, "8", &["T"], "the job no longer exists"),
        (with_orders, normal, "7", &["P"], "the order is no longer on the newest page"),
        (with_stream, normal, "3c", &["C", "D"], "the consumer no longer exists"),
    ];
    for (seen, newest, keys, commands, message) in cases {
        let mut tui = Tui::open(seen(), keys);
        tui.press("f").show(newest());
        for command in commands {
            tui.press(command).assert_status(message).assert_idle();
        }
    }
}

/// The plan is for entries of a dead consumer, idle for 41 s, which a live node claims after 63 s.
#[test]
fn a_question_about_a_plan_shows_when_live_nodes_claim_entries() {
    let claims = |it: &mut Snapshot| it.claim_idle_ms = Some(63_000);
    // Paused, the question still follows the newest snapshot.
    let mut tui = Tui::open(with(normal(), claims), "4fA");
    tui.reply(Ok(Reply::Planned(stuck(87)))).assert_shows("87 entries: all pending");
    tui.assert_shows("Live nodes claim them automatically in 22 s.").assert_hides("eft to apply");
    let later = |held| with(Snapshot { pending: page(0, held), ..normal() }, claims);
    // Of these seven, three are with a live node.
    tui.show(later(7)).assert_shows("87 entries: all pending|Left to apply: 4 of 87|in 22 s");
    tui.show(later(0)).assert_shows("Nothing is left to apply").assert_hides("Live nodes claim");
    let unread = |it: &mut Snapshot| it.pending.taken = None;
    tui.show(with(later(0), unread)).assert_hides("eft to apply|Live nodes claim");
    // The plan is executed as confirmed; the engine skips entries that changed.
    assert_eq!(tui.press("y").sent(), [Command::Apply(stuck(87), Pace::default())]);
    let report =
        ReplayReport { planned: 87, seen: 87, gone: 80, changed: 7, ..ReplayReport::default() };
    let text = "nothing left to apply to the 87 entries of the plan";
    tui.answer(Ok(Reply::Replayed(report))).assert_shows(text);
    let dead = with(with(normal(), claims), |it| {
        it.stream.iter_mut().flat_map(|it| &mut it.consumers).for_each(|it| it.alive = false);
    });
    let long = with(normal(), |it| it.claim_idle_ms = Some(86_400_000));
    for snapshot in [dead, long] {
        let mut tui = Tui::open(snapshot, "4A");
        tui.reply(Ok(Reply::Planned(stuck(1)))).assert_hides("Live nodes claim");
    }
    // Marked entries count alone, and presenter mode reads the list for the question.
    let mut tui = Tui::open(with(normal(), claims), "4jg j A");
    let marked = plan(&[(entry(0), Verdict::InHand), (entry(1), Verdict::Stuck)], "entries=2");
    tui.reply(Ok(Reply::Planned(marked))).assert_shows("in 22 s").assert_hides("eft to apply");
    tui.show(later(1)).assert_shows("Nothing is left to apply");
    let mut tui = Tui::open(with(normal(), claims), "tA");
    assert_eq!(tui.focus.borrow().pending, None);
    tui.reply(Ok(Reply::Planned(stuck(87))));
    assert!(tui.focus.borrow().pending.is_some());
}
