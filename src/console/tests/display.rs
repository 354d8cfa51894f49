//! What is displayed in special states and windows, and in which colours.

use ratatui::{buffer::Cell, style::Modifier};

use super::{
    layout::column,
    prelude::*,
    screens::{CONFIRMATIONS, Case, DETAILS, FORMS, VIEWS, open},
};

#[test]
fn entries_of_partitions_are_not_truncated() {
    let mut spread = normal();
    for line in Arc::make_mut(&mut spread.pending.lines) {
        line.entry.partition = (line.entry.number % 64) as u16;
    }
    let mut tui = Tui::open(spread, "4G");
    for (width, height) in [(120, 36), (80, 24), (60, 15)] {
        let text = tui.screen_at(width, height);
        assert!(text.contains("1794999958000-127@63  "), "{text}");
        assert!(text.contains("node-b/1"), "{text}");
    }
}

#[test]
fn an_archived_sale_is_over() {
    let mut snapshot = normal();
    for sale in &mut snapshot.sales {
        sale.phase = Phase::Archived;
        sale.stock = None;
    }
    let mut tui = Tui::new(snapshot);
    for view in ["1", "2"] {
        tui.press(view).assert_shows("archived");
        tui.assert_hides("ends in");
    }
    tui.press("jE").assert_status_contains("has ended");
}

#[test]
fn a_message_or_a_filter_is_never_mixed_with_a_long_guide() {
    let last_lines = |tui: &mut Tui| {
        let text = tui.screen_at(60, 15);
        text.lines().rev().skip(1).take(3).map(|it| it.trim().to_owned()).collect::<Vec<_>>()
    };
    let mut tui = Tui::new(normal());
    tui.app.on_guide(GuidePage {
        title: "SOLD OUT".to_owned(),
        text: "Every piece is sold, none twice. The consumer now resumes and catches up, a thousand orders per \
               transaction."
            .to_owned(),
        ..GuidePage::default()
    });
    assert_eq!(last_lines(&mut tui)[0], "per transaction.", "the guide has three lines");
    tui.press("0N");
    let message = tui.app.status.shown().unwrap().1.to_owned();
    assert_eq!(last_lines(&mut tui)[0], message);
    tui.press("\x1b/redis");
    assert_eq!(last_lines(&mut tui)[0], "/redis");
}

#[test]
fn a_small_window_says_so_and_a_large_one_restores() {
    let mut tui = Tui::new(normal());
    let before = tui.screen();
    assert!(tui.screen_at(20, 5).contains("60"), "the size that it needs");
    for width in 1..=90 {
        for height in 1..=30 {
            tui.draw(width, height);
        }
    }
    assert_eq!(tui.screen(), before);
}

/// The first cell of the first occurrence of a text.
fn find<'b>(buffer: &'b Buffer, text: &str) -> Option<&'b Cell> {
    let mut rows = buffer.area.rows();
    rows.find_map(|row| buffer.cell((column(buffer, row.y, text)? as u16, row.y)))
}

#[test]
fn colour_shows_state() {
    let mut tui = Tui::new(outage());
    let buffer = tui.draw(120, 36);
    let colour = |text: &str| find(&buffer, text).map(|cell| cell.fg);
    let theme = tui.app.display.theme;
    assert_eq!(colour("RUNNING"), theme.good.fg);
    assert_eq!(colour("✖    42 s"), theme.bad.fg);
    assert_eq!(colour("redis    42 s old"), theme.warn.fg);
    assert_eq!(colour("cinema ticket"), Some(Color::Reset));
    tui.press("2f");
    let buffer = tui.draw(120, 36);
    let chosen = find(&buffer, "cinema ticket  ").map(|cell| cell.modifier);
    assert!(buffer.content.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)));
    assert!(chosen.is_some());
    let frozen = find(&buffer, "FROZEN").map(|cell| cell.modifier.contains(Modifier::REVERSED));
    assert_eq!(frozen, Some(true));
    // A failed run of a job.
    let buffer = Tui::open(normal(), "8l").draw(120, 36);
    assert_eq!(find(&buffer, "failed").map(|cell| cell.fg), theme.bad.fg);
}

#[test]
fn the_next_run_of_a_paused_job_is_not_unknown() {
    let screen = Tui::open(normal(), "8jl").screen();
    let label = format!(" {} ", Label("field-next").read());
    let next = screen.lines().find(|line| line.starts_with(&label)).unwrap_or_default();
    assert!(next.contains("paused") && !next.contains("unknown"), "{screen}");
}

#[test]
fn without_colour_no_cell_has_one_and_the_choice_is_seen() {
    let mut tui = Tui::themed(outage(), Theme::new(Depth::None, false));
    for key in ["1", "2", "6", "8", "5", "4", "A", "n", "2", "N"] {
        tui.press(key);
        let buffer = tui.draw(120, 36);
        let plain = |cell: &Cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset);
        assert!(buffer.content.iter().all(plain), "{key}");
    }
    tui.press("\x1b");
    let buffer = tui.draw(120, 36);
    let reversed = buffer.content.iter().filter(|cell| cell.modifier == Modifier::REVERSED);
    assert!(reversed.count() > 100);
}

#[test]
fn results_are_shown_and_errors_stay() {
    let mut tui = Tui::new(normal());
    let plan_and_confirm = |tui: &mut Tui, keys: &str| {
        tui.press(keys);
        assert_eq!(tui.sent().len(), 1);
        let plan = plan(&[(entry(1), Verdict::Stuck)], "");
        tui.answer(Ok(Reply::Planned(plan)));
        tui.press("y");
        assert_eq!(tui.sent().len(), 1);
    };
    plan_and_confirm(&mut tui, "4A");
    let report =
        ReplayReport { seen: 128, persisted: 120, acknowledged: 8, ..ReplayReport::default() };
    tui.answer(Ok(Reply::Replayed(report)));
    let message = "✔ 128 entries: 120 written, 8 acknowledged, 0 dead letters, 0 kept pending";
    tui.assert_status(message);
    plan_and_confirm(&mut tui, "A");
    tui.answer(Err(EngineError::Rejected("redis does not answer; try again".into())));
    tui.press("j").assert_status("✖ redis does not answer; try again (Esc to dismiss)");
    tui.press("\x1b").assert_status("");
}

/// The views show the same, with a badge, and without the keys of commands.
#[test]
fn read_only_mode_has_a_badge_in_every_view() {
    for key in "1234567890t".chars() {
        for (width, height) in [(120, 36), (80, 24), (60, 15)] {
            let [writable, read_only] = [false, true].map(|read_only| {
                let mut tui = Tui::open(Snapshot { read_only, ..with_letters() }, &key.to_string());
                tui.screen_at(width, height)
            });
            assert!(!writable.contains("READ-ONLY") && read_only.contains("READ-ONLY"), "{key}");
            let body = |text: &str| -> Vec<String> {
                text.lines().skip(3).take(usize::from(height) - 4).map(str::to_owned).collect()
            };
            assert_eq!(body(&writable), body(&read_only), "{key}");
        }
    }
}

#[test]
fn no_command_opens_in_read_only_mode() {
    let cases: [Case; 8] = [
        ("2", normal, "NSREPLFH"),
        ("3c", with_stream, "WCD"),
        ("4", normal, "AX"),
        ("5", with_letters, "RDCX"),
        ("6", normal, "X"),
        ("7", with_orders, "P"),
        ("8", normal, "TP"),
        ("9", with_findings, "A"),
    ];
    for (view, snapshot, commands) in cases {
        let mut tui = Tui::open(Snapshot { read_only: true, ..snapshot() }, view);
        for command in commands.chars() {
            tui.press(&command.to_string()).assert_idle();
            tui.assert_status("read-only mode: commands are disabled; restart without --read-only");
        }
    }
}

/// Chinese data is shown as it is.
#[test]
fn ascii_mode_draws_only_ascii() {
    let beyond = |c: char| !c.is_ascii() && !('\u{2e80}'..='\u{ffef}').contains(&c);
    let dialogs = CONFIRMATIONS.iter().flat_map(|(_, cases)| cases.iter());
    let others: [Case; 3] =
        [("help", normal, "?"), ("palette", normal, ":"), ("moment", normal, "[[")];
    for (name, snapshot, keys) in
        VIEWS.iter().chain(&DETAILS).chain(dialogs).chain(&FORMS).chain(&others)
    {
        let mut tui = Tui::themed(snapshot(), Theme::new(Depth::None, true));
        tui.draw(120, 36);
        open(&mut tui, keys);
        for (width, height) in [(120, 36), (80, 24), (60, 15)] {
            let screen = tui.screen_at(width, height);
            let found = screen.lines().find(|line| line.chars().any(beyond));
            assert_eq!(found, None, "{name} at {width}x{height}");
        }
    }
}
