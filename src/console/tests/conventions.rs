//! What views have in common: targets, refusals that say which key helps, filter, order, copies, mouse, custom keys.

use seckill_engine::error::MAX_REASON;
use tokio::sync::oneshot;

use super::prelude::*;

fn keys(text: &str) -> Keys {
    toml::from_str(text).expect("keys that can be read")
}

/// Applies keys of a user.
pub(super) fn configure(text: &str) {
    keymap::choose_here(keys(text).table().expect("a good choice"));
}

fn fault(text: &str) -> String {
    keys(text).check().expect_err("a fault").to_string()
}

#[test]
fn esc_dismisses_a_message_before_leaving_the_view() {
    let mut tui = Tui::open(normal(), "6Z");
    tui.assert_status_contains("has no function here").press("\x1b").assert_status("");
    assert_eq!(tui.app.view, View::Locks);
    assert_eq!(tui.press("\x1b").app.view, View::Overview);
}

#[test]
fn tables_are_filtered_alike() {
    for (snapshot, view, filter, expected) in [
        (with_letters as fn() -> Snapshot, '2', "running", "1 of 4"),
        (with_letters, '2', "!running !ended", "2 of 4"),
        (with_letters, '4', "node-b !stuck", "22 of 128"),
        (with_letters, '5', "waits", "of 9"),
        (with_letters, '6', "orphan", "1 of 3"),
        (with_letters, '6', "stock !node-a", "1 of 3"),
        (with_letters, '8', "paused", "1 of 3"),
        (with_letters, '8', "!paused !done", "1 of 3"),
        (overflowing, '4', "node-a !stuck", " of 500 on this page"),
    ] {
        let mut tui = Tui::open(snapshot(), &format!("{view}/{filter}"));
        tui.assert_shows(expected);
        // A list that is loaded as a whole has no pages.
        if !expected.contains("page") {
            tui.assert_hides("on this page");
        }
        tui.press("\n\x1b").assert_hides(format!("/{filter}"));
    }
}

#[test]
fn rows_are_sorted_by_a_column_and_the_choice_stays_on_its_row() {
    let mut tui = Tui::open(normal(), "2jk");
    tui.press("o").assert_status("sorted by ID, ascending");
    let text = tui.assert_shows("ID↑").screen();
    let words = text.lines().skip(5).take(6).flat_map(str::split_whitespace);
    let ids: Vec<&str> = words.filter(|word| word.starts_with('#')).collect();
    assert_eq!(ids, ["#5", "#7", "#8", "#9"], "{text}");
    assert_eq!(tui.app.views.sales.chosen, Some(VoucherId(7)));
    tui.press("r").assert_shows("ID↓");
    // The command applies to the row that was chosen, wherever that moved.
    assert_eq!(tui.press("Ey").sent(), [Command::EndSale(VoucherId(7))]);
    tui.press("ooooooooo");
    assert!(!tui.screen().lines().nth(5).unwrap_or_default().contains(['↑', '↓']));
}

#[test]
fn paged_lists_are_not_sortable_and_explain_it() {
    let mut tui = Tui::open(overflowing(), "4");
    tui.press("o").assert_status_contains("12,340 rows are loaded in pages by ID");
    let mut tui = Tui::open(normal(), "4");
    tui.press("oo").assert_status("sorted by AGE, ascending");
    tui.show(overflowing()).assert_status_contains("more than one page of rows");
    // The page of the log is sorted, and the stream never.
    let mut tui = Tui::open(normal(), "0");
    tui.screen();
    tui.press("oo").assert_status_contains("sorted by ");
    tui.assert_shows("sorted by event within these ").press("g");
    let rows = tui.app.views.log.rows(&tui.app.display.shown);
    assert_eq!(tui.app.views.log.position(&rows), Some(0));
    tui.press("3o").assert_status("the stream is always in delivery order");
}

#[test]
fn a_copy_is_reported_and_has_no_control_characters() {
    let hostile = "a\x1b[31m\u{202e}火锅\r\n".to_owned();
    let mut tui = Tui::open(with(normal(), |it| it.sales[2].title = hostile), "2jjy");
    assert_eq!(tui.assert_status("copied: 9").copied(), "9");
    let copied = tui.press("w").copied();
    assert!(copied.contains(r#""title":"a\u001b[31m"#), "{copied:?}");
    assert!(!copied.contains(char::is_control), "{copied:?}");
    // tmux keeps copies to itself by default.
    let mut tui = Tui::new(normal());
    tui.app.terminal.in_tmux = true;
    let needs = "copied: 9; tmux forwards it only with 'set -s set-clipboard on'";
    assert_eq!(tui.press("2jjy").assert_status(needs).copied(), "9");
    tui.press("w").assert_status_contains("tmux");
}

#[test]
fn the_mouse_chooses_only_while_it_is_on() {
    let mut tui = Tui::new(normal());
    assert_eq!(tui.click("Sales").app.view, View::Overview, "it is off");
    assert_eq!(tui.press("m").click("Sales").app.view, View::Sales);
    assert_eq!(tui.click("noodles").app.views.sales.chosen, Some(VoucherId(5)));
    tui.screen();
    tui.mouse(MouseEventKind::ScrollUp, 20, 9);
    assert_eq!(tui.app.views.sales.chosen, Some(VoucherId(7)));
    // It stops at both ends.
    tui.mouse(MouseEventKind::ScrollUp, 20, 9);
    tui.assert_status("this is the first row");
    (0..3).for_each(|_| tui.mouse(MouseEventKind::ScrollDown, 20, 9));
    tui.assert_status("this is the last row");
    tui.mouse(MouseEventKind::ScrollUp, 20, 9);
    // Questions are answered with keys only.
    tui.press("E");
    tui.screen();
    for y in 0..36 {
        for x in 0..120 {
            tui.mouse(MouseEventKind::Down(MouseButton::Left), x, y);
        }
    }
    assert!(matches!(tui.app.dialog, Some(Dialog::Confirm(_))) && tui.sent().is_empty());
    // A key hint runs its action, and a row of the stock panel chooses its sale.
    tui.press("n1").click("#9 cinema");
    assert_eq!(tui.app.views.sales.chosen, Some(VoucherId(9)));
    assert!(matches!(tui.click("? help").app.dialog, Some(Dialog::Help(_))));
    // A tab opens its view also from the filter.
    tui.press("\x1b2/noo").click("Orders");
    assert_eq!((tui.app.view, tui.app.views.filtering), (View::Orders, false));
    assert_eq!(tui.press("2m").click("Overview").app.view, View::Sales);
}

#[test]
fn the_palette_runs_a_command_of_another_view_there_and_remembers_recent_ones() {
    let mut tui = Tui::open(with_letters(), "2:return stock");
    tui.assert_shows("in Dead letters").press("\n");
    assert_eq!(tui.app.view, View::Letters);
    assert!(matches!(tui.sent()[..], [Command::CountLetters(_)]), "the question follows");
    let first = tui.press("\x1b:freeze\n:").line("recently used");
    assert!(first.contains("freeze"), "{first}");
    assert!(!tui.press("\n").app.display.frozen);
}

#[test]
fn the_palette_goes_to_a_row_by_its_id_or_name() {
    let mut tui = Tui::open(normal(), "4/zzz\n1:noodles");
    tui.assert_shows("#5 noodles").press("\n");
    assert_eq!((tui.app.view, tui.app.views.sales.chosen), (View::Sales, Some(VoucherId(5))));
    let entry = tui.app.display.shown.pending.lines[3].entry;
    tui.press(&format!(":{entry}\n"));
    assert_eq!((tui.app.view, tui.app.views.pending.cursor), (View::Pending, Some(entry)));
    assert!(tui.app.views.pending.controls.filter.value().is_empty(), "the filter hid it");
    let consumer = tui.app.display.shown.stream.as_ref().unwrap().consumers[1].name.clone();
    tui.press(&format!(":{consumer}\n"));
    assert_eq!((tui.app.view, tui.app.views.stream.pane), (View::Stream, views::Pane::Consumers));
    let pointed = tui.app.views.stream.consumers.cursor.as_ref();
    assert_eq!(pointed.map(|(_, name)| name), Some(&consumer));
    // An order that is not loaded is searched for.
    tui.press(":1234567890123\n").assert_shows("ORDERS  1234567890123");
    assert_eq!(tui.app.view, View::Orders);
    // Rows are not listed before something is typed, nor by scattered letters.
    Tui::open(normal(), "4:").assert_hides("#5 noodles");
    Tui::open(normal(), "4:nodl").assert_hides("#5 noodles");
    // A sale is offered once, although the Ledger has it too, and lines of the log have no name.
    let mut tui = Tui::open(with_findings(), "4:5");
    tui.assert_shows("#5 noodles").assert_hides("in Ledger").assert_hides("in Activity");
}

#[test]
fn a_paste_is_truncated_with_a_notice_and_does_no_harm() {
    const CUT: &str = "the pasted text was truncated to 1,000 characters";
    for keys in ["N", ":", "2jkE\t", "2/", "3/", "4/", "5/", "6/", "7/", "8/", "0/"] {
        let mut tui = Tui::open(normal(), keys);
        // There is room for the first one, and the notice stays until the next key.
        tui.paste("锅".repeat(600));
        tui.assert_hides(CUT).paste("锅".repeat(600));
        tui.assert_shows(CUT).key(KeyCode::Backspace);
        tui.assert_hides(CUT);
    }
    // Without input nothing is truncated.
    for keys in ["2", "x", "?", "8P"] {
        let mut tui = Tui::open(normal(), keys);
        tui.paste("锅".repeat(2_000));
        tui.assert_hides(CUT);
    }
    // Filters are repeated in short.
    for view in in_each_language(|| "23456780".chars()) {
        let mut tui = Tui::open(normal(), &format!("{view}/"));
        tui.paste("x".repeat(1_000));
        let text = tui.press("\n").screen_at(80, 24);
        assert!(text.lines().filter(|it| it.contains("xxxxxxxx")).count() <= 2, "{view}: {text}");
    }
    // A megabyte is a valid reason, and no answer.
    for text in ["x".repeat(1 << 20), "火\n".repeat(1 << 18), "\u{301}a\x1b[2J".repeat(1 << 17)] {
        let mut tui = Tui::open(normal(), "2jkE");
        tui.paste("y");
        assert_eq!(tui.press("\t").sent(), []);
        tui.paste(text.clone());
        tui.paste(text);
        tui.press("more").draw(80, 24);
        assert_eq!(tui.press("\ny").sent().len(), 1);
        let reason = tui.reason().unwrap();
        assert!(audit_record::check_reason(Some(&reason)).is_ok());
        assert!(reason.chars().count() <= MAX_REASON);
        assert!(!reason.contains(char::is_control));
    }
}

#[test]
fn messages_are_above_the_filter_input() {
    let mut tui = Tui::open(normal(), "6/job");
    tui.paste("x".repeat(2_000));
    for (width, height) in SIZES {
        let text = tui.screen_at(width, height);
        let lines: Vec<&str> = text.lines().collect();
        let [.., message, typed, _] = &lines[..] else { panic!("{text}") };
        assert!(message.contains("the pasted text was truncated"), "{text}");
        assert!(typed.starts_with(" /") && typed.contains('x'), "{text}");
    }
}

#[test]
fn configured_keys_apply_to_dispatch_help_and_messages() {
    configure(
        "mark = [\"v\", \"f5\"]\nnew-sale = \"B\"\nhelp = \"f1\"\nquit = \"ctrl-q\"\nend = []",
    );
    let mut tui = Tui::open(normal(), "4vA");
    assert_eq!(tui.sent().len(), 1);
    tui.at((160, 80)).press("2").assert_shows("B new ");
    tui.press("E").assert_status("E has no function here; press F1 for the keys");
    tui.key(KeyCode::F(1)).assert_shows("v F5|Ctrl-Q");
    let none = Snapshot { sales: Vec::new(), ..normal() };
    Tui::open(none, "2").assert_shows("Press B to create one");
    // A confirmation names them as well.
    configure("next-part = [\"ctrl-n\"]\npress = [\"ctrl-j\"]");
    Tui::open(normal(), "2jkE").assert_shows("optional, for the log; Ctrl-N to edit");
    let missing = text!("conventions-this-affects-type-that-number", count = 1_204);
    assert!(missing.ends_with("type that number, then press Ctrl-J"));
    // So do refusals and errors.
    configure(
        "freeze = \"f6\"\ndown = [\"J\"]\nstart = \"B\"\nremove-consumer = \"K\"\nactivity = \"f9\"",
    );
    let mut tui = Tui::new(Snapshot { letters: LetterPage::default(), ..with_letters() });
    let paused = "the display is paused; press F6 to resume before loading more";
    tui.key(KeyCode::F(6)).press("5").assert_status(paused);
    Tui::open(normal(), "B").assert_status("select the sale with ↑ and J, then press B again");
    let consumer = "select a consumer in the list above with ↑ and J, then press K again";
    Tui::open(with_stream(), "3K").assert_status(consumer);
    // The engine stopped before it replied.
    let mut tui = Tui::new(normal());
    let (_, answer) = oneshot::channel();
    let answer = answer.now_or_never().expect("the reply is ready");
    tui.app.on_answer((Command::EndSale(VoucherId(7)), answer));
    tui.assert_status_contains("; check Activity (F9) before you repeat the command");
}

#[test]
fn invalid_keys_are_reported_one_by_one() {
    let cases = [
        ("fly = \"a\"", "unknown action 'fly'"),
        ("mark = \"hyper-x\"", "'mark': 'hyper-x' is not a key"),
        (
            "mark = \"ctrl-m\"",
            "'ctrl-m': ctrl can only be combined with a letter other than i and m",
        ),
        ("mark = \"f13\"", "is not a key"),
        ("mark = \"f\"", "'mark' and 'freeze' would share the key 'f'"),
        ("release = \"x\"", "needs a capital letter; 'x' is not one"),
        ("release = \"ctrl-x\"", "needs a capital letter"),
        ("accept = \"E\"", "pressing one twice would confirm"),
        ("quit = []", "'quit' has no key left"),
        ("cancel = []", "'cancel' has no key left"),
        ("quit-now = \"x\"", "also applies while text is typed"),
    ];
    for (text, expected) in cases {
        assert!(fault(text).contains(expected), "{text}: {}", fault(text));
    }
    // The first error in the text, not in alphabetical order.
    let at = keys("quit = []\naccept = \"E\"").check().map_err(|fault| fault.at);
    assert_eq!(at, Err(0));
    assert!(toml::from_str::<Keys>("mark = 5").is_err());
    // Two actions may exchange their keys.
    for text in ["freeze = \"m\"\nmouse = \"f\"", "", "next-view = [\"tab\", \"ctrl-n\"]"] {
        assert!(keys(text).check().is_ok(), "{text}");
    }
}

#[test]
fn the_choice_follows_the_sale_and_not_the_row() {
    let mut tui = Tui::open(normal(), "2jk");
    tui.show(with(normal(), |it| it.sales.reverse()));
    assert_eq!(tui.press("Py").sent(), [Command::PauseSale(VoucherId(7))]);
    // The only open sale needs no choice.
    let only = with(normal(), |it| it.sales.retain(|sale| [5, 7].contains(&sale.voucher_id.0)));
    assert_eq!(Tui::open(only, "Ey").sent(), [Command::EndSale(VoucherId(7))]);
}

/// Presses keys, each followed by the status line that it leads to.
#[track_caller]
fn assert_statuses(snapshot: Snapshot, steps: &[(&str, &str)]) {
    let mut tui = Tui::new(snapshot);
    for (keys, status) in steps {
        assert_eq!(tui.press(keys).status(), *status, "{keys}");
    }
    assert_eq!(tui.sent(), []);
}

#[test]
fn a_key_that_does_nothing_gives_the_reason_and_the_next_step() {
    assert_statuses(
        normal(),
        &[
            ("S", "select the sale with ↑ and ↓, then press S again"),
            ("S", "#7 is already running"),
            ("jS", "#8 has started and is sold out"),
            ("jjE", "#5 has ended and cannot be changed"),
            ("j", "this is the last row"),
            ("A", "A is available in Pending (plan), Ledger (repair)"),
            ("C", "C is available in Stream (claim), Dead letters (return stock)"),
            ("W", "W is available in Stream (rewind)"),
            ("z", "z has no function here; press ? for the keys"),
            ("h", "no details are open; press Enter to open them"),
            ("kkkEz", "z has no function here"),
            ("?", "? has no function here"),
            ("nz", "z has no function here; press ? for the keys"),
            ("1o", "this view has no table"),
            ("4X", "no command is running"),
            ("5X", "no command is running"),
            ("R", "there are no dead letters"),
            ("tjjjjjj", "this is the last sale"),
            ("kkkkkk", "this is the first sale"),
        ],
    );
    // The statistics were read shortly before the list.
    let late = with(empty(), |it| it.stream.iter_mut().for_each(|it| it.pending = 7));
    for snapshot in [empty(), late] {
        assert_statuses(
            snapshot,
            &[
                ("4A", "there are no pending entries to plan for"),
                (" ", "there is no entry to mark"),
                ("y", "no row is selected; use ↑ and ↓"),
                ("w", "no row is selected; use ↑ and ↓"),
                ("l", "no row is selected; use ↑ and ↓"),
                ("1E", "there is no sale to change"),
                ("2y", "no row is selected; use ↑ and ↓"),
                ("tk", "No sales yet. Press L to schedule one."),
            ],
        );
    }
    let one = with(normal(), |it| it.sales.truncate(1));
    assert_statuses(one, &[("tj", "there is no other sale to show")]);
    assert_statuses(with_letters(), &[("5/nothing of the kind\nD", "no row is selected")]);
}

#[test]
fn no_command_opens_in_read_only_mode_or_while_its_server_is_unreachable() {
    let read_only = "read-only mode: commands are disabled; restart without --read-only";
    let redis = "Redis is unreachable; try again once it is reachable";
    let sql = "the database is unreachable; try again once it is reachable";
    for (view, snapshot, commands, status) in [
        ("2", normal as fn() -> Snapshot, "NSREPLFH", read_only),
        ("3c", with_stream, "WCD", read_only),
        ("4", normal, "AX", read_only),
        ("5", with_letters, "RDCX", read_only),
        ("6", normal, "X", read_only),
        ("7", with_orders, "P", read_only),
        ("8", normal, "TP", read_only),
        ("9", with_findings, "A", read_only),
        ("2jk", outage, "PER", redis),
        ("2jk", || without_sql(normal()), "PER", sql),
    ] {
        let is_disabled = status == read_only;
        let mut tui = Tui::open(Snapshot { read_only: is_disabled, ..snapshot() }, view);
        for command in commands.chars() {
            tui.press(&command.to_string()).assert_status(status).assert_idle();
        }
    }
}

#[test]
fn a_reply_covers_no_other_question_and_names_the_keys_to_close_and_retry() {
    let planned = Reply::Planned(stuck(1));
    let ready = "the plan is ready";
    let counts = LetterCounts::default();
    let counted = Reply::LettersCounted(LettersCounted { counts, gone: 0, last: letter(8) });
    let letters = "the dead letters are counted";
    let removed = Reply::Previewed(Preview::Remove(stream::removed()));
    let statistics = "the statistics are ready";
    // A form, a question, its reason, the palette.
    for (snapshot, asks, keys, reply, what, again) in [
        (normal as fn() -> Snapshot, "4A", "1N", &planned, ready, "A"),
        (normal, "4A", "2jkE", &planned, ready, "A"),
        (normal, "4A", "2jkE\t", &planned, ready, "A"),
        (normal, "4A", ":", &planned, ready, "A"),
        (with_letters, "5R", ":", &counted, letters, "R"),
        (with_letters, "5D", ":", &counted, letters, "D"),
        (with_letters, "5C", ":", &counted, letters, "C"),
        (with_stream, "3cjjD", ":", &removed, statistics, "D"),
    ] {
        let mut tui = Tui::open(snapshot(), asks);
        assert_eq!(tui.sent().len(), 1);
        tui.press(keys).answer(Ok(reply.clone()));
        let closes = if keys == "2jkE" { "n" } else { "Esc" };
        let text = format!("{what}; press {closes} to close this, then {again} again");
        tui.assert_status(&text).press(if closes == "n" { "n" } else { "\x1b" });
        tui.assert_idle();
    }
    // A plan without effect asks nothing, and neither does an error.
    let mut tui = Tui::open(normal(), "4A");
    let none = plan(&[(entry(1), Verdict::InHand)], "");
    tui.reply(Ok(Reply::Planned(none))).assert_idle();
    tui.assert_status("1 held by live nodes; nothing to do");
    let why = "there is no consumer 'x'";
    let mut tui = Tui::open(with_stream(), "3cC\n");
    tui.reply(Err(EngineError::Rejected(why.into()))).assert_status_contains(why).assert_idle();
}

#[test]
fn a_filter_is_live_and_moves_the_cursor_also_during_an_outage() {
    let mut tui = Tui::open(normal(), "4");
    tui.show(with(normal(), |it| it.redis.up = false));
    let last = tui.app.views.pending.rows(&tui.app.display.shown).last().unwrap().entry;
    tui.press(&format!("/{last}"));
    assert_eq!(tui.app.views.pending.cursor, Some(last));
    // Escape ends it.
    let mut tui = Tui::open(normal(), "2/tea");
    tui.assert_hides("noodles").press("\n").assert_shows("1 of 4");
    tui.press("E").assert_shows("#8 milk tea").press("n\x1b").assert_shows("noodles");
}

#[test]
fn the_palette_runs_what_it_names() {
    assert_eq!(Tui::open(normal(), ":pend\n").app.view, View::Pending);
    let plan = Command::Plan(Scope::All(Filter::default()));
    assert_eq!(Tui::open(normal(), "4:reco\n").sent(), [plan]);
    for (name, asked) in [("audit", false), ("ledger", false), ("repair", true)] {
        let tui = Tui::open(with_findings(), &format!("3:{name}\n"));
        assert_eq!((tui.app.view, tui.app.dialog.is_some()), (View::Ledger, asked), "{name}");
    }
}
