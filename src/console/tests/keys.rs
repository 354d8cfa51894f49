//! Keys: commands address identities, refusals say why and which key helps, no input is lost.

use tokio::sync::oneshot;

use super::prelude::*;

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
            ("5R", "there are no dead letters"),
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
fn messages_name_the_configured_keys() {
    let keys = "freeze = \"f6\"\ndown = [\"J\"]\nstart = \"B\"\nremove-consumer = \"K\"\nactivity = \"f9\"";
    let keys: Keys = toml::from_str(keys).expect("keys that can be read");
    keymap::choose_here(keys.table().expect("a good choice"));
    let mut tui = Tui::new(Snapshot { letters: LetterPage::default(), ..with_letters() });
    tui.key(KeyCode::F(6));
    let paused = "the display is paused; press F6 to resume before loading more";
    tui.press("5").assert_status(paused);
    Tui::open(normal(), "B").assert_status("select the sale with ↑ and J, then press B again");
    let consumer = "select a consumer in the list above with ↑ and J, then press K again";
    Tui::open(with_stream(), "3K").assert_status(consumer);
    // The engine stopped before it replied.
    let mut tui = Tui::new(normal());
    let (sender, answer) = oneshot::channel();
    drop(sender);
    let answer = answer.now_or_never().expect("the reply is ready");
    tui.app.on_answer((Command::EndSale(VoucherId(7)), answer));
    tui.assert_status_contains("; check Activity (F9) before you repeat the command");
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
    assert_eq!(
        Tui::open(normal(), "4:reco\n").sent(),
        [Command::Plan(Scope::All(Filter::default()))]
    );
    for (name, asked) in [("audit", false), ("ledger", false), ("repair", true)] {
        let tui = Tui::open(with_findings(), &format!("3:{name}\n"));
        assert_eq!((tui.app.view, tui.app.dialog.is_some()), (View::Ledger, asked), "{name}");
    }
}
