//! The recovery views: which users they show, and that a command applies to its intended subject or to nothing.

use super::prelude::*;

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
        let sheet = tui.app.sheet().map(|sheet| format!("{:?}", sheet.rows));
        assert!(!names_one(&sheet.unwrap_or_default()));
        let copied = tui.press("jjw").copied();
        assert!(copied.contains("user_masked") && !names_one(&copied), "{copied}");
        tui.press("u").assert_status("users are shown");
        let copied = tui.press("w").copied();
        assert!(copied.contains(r#""user":"#) && names_one(&copied), "{copied}");
        let sheet = tui.app.sheet().map(|sheet| format!("{:?}", sheet.rows));
        assert!(names_one(&sheet.unwrap_or_default()), "an export is as the screen");
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

#[test]
fn a_running_command_is_shown_and_can_be_cancelled() {
    for (view, action) in [("4", "pending apply"), ("5", "dead replay")] {
        let running = || Snapshot { recoveries: recovering(action), ..with_letters() };
        let mut tui = Tui::open(with_letters(), view);
        tui.press("X").assert_status("no command is running").assert_idle();
        tui.show(running()).assert_shows(format!("{action} 400 of 12,000"));
        assert_eq!(tui.press("Xy").sent(), [Command::Cancel]);
        tui.answer(Ok(Reply::Cancelled(true)));
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
