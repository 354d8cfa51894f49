//! What is displayed in special states and windows, and in which colours.

use super::{prelude::*, presenter};

#[test]
fn a_countdown_covers_the_chart_and_no_other_label() {
    let mut tui = Tui::new(normal());
    let labels = "STOCK|ADMISSION|requests|STREAM|PENDING|LOCKS";
    for size in [(120, 36), (80, 24), (200, 50)] {
        tui.app.guide.countdown = None;
        tui.at(size).assert_shows(labels).assert_shows("ORDERS PER SECOND|p99");
        tui.app.guide.countdown = Some(4);
        tui.assert_shows(labels).assert_shows("██  ██").assert_hides("ORDERS PER SECOND|p99");
    }
}

#[test]
fn a_message_or_a_filter_is_never_mixed_with_a_long_guide() {
    let last_lines = |tui: &mut Tui| {
        let text = tui.screen_at(60, 15);
        text.lines().rev().skip(1).take(3).map(|it| it.trim().to_owned()).collect::<Vec<_>>()
    };
    let mut tui = Tui::new(normal());
    let text = "Every piece is sold, none twice. The consumer now resumes and catches up, a thousand \
                orders per transaction.";
    let (title, text) = ("SOLD OUT".to_owned(), text.to_owned());
    tui.app.on_guide(GuidePage { title, text, ..GuidePage::default() });
    assert_eq!(last_lines(&mut tui)[0], "transaction.", "the guide has three lines");
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
    (1..=90).for_each(|width| (1..=30).for_each(|height| _ = tui.draw(width, height)));
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
    let buffer = tui.press("2f").draw(120, 36);
    assert!(find(&buffer, "cinema ticket  ").is_some());
    let frozen = find(&buffer, "FROZEN").map(|cell| cell.modifier.contains(Modifier::REVERSED));
    assert_eq!(frozen, Some(true));
    // Only the labels of a detail are secondary text.
    let mut tui = Tui::open(normal(), "4\n");
    let text = tui.screen();
    let y = text.lines().position(|line| line.starts_with(" order ")).unwrap() as u16;
    let buffer = tui.draw(120, 36);
    let [label, value] = [1, 16].map(|x| Some(buffer[(x, y)].fg) == theme.soft.fg);
    assert!(label && !value, "{text}");
    // A failed run of a job.
    let buffer = Tui::open(normal(), "8l").draw(120, 36);
    assert_eq!(find(&buffer, "failed").map(|cell| cell.fg), theme.bad.fg);
}

#[test]
fn without_colour_the_choice_is_seen() {
    let buffer = Tui::themed(outage(), Theme::new(Depth::None, false)).press("2").draw(120, 36);
    let reversed = buffer.content.iter().filter(|cell| cell.modifier == Modifier::REVERSED);
    assert!(reversed.count() > 100);
}

#[test]
fn results_are_shown_and_errors_stay_until_another_command_starts() {
    let mut tui = Tui::open(normal(), "4A");
    tui.reply(Ok(Reply::Planned(stuck(1)))).press("y");
    let report =
        ReplayReport { seen: 128, persisted: 120, acknowledged: 8, ..ReplayReport::default() };
    let text = "✔ 128 entries: 120 written, 8 acknowledged, 0 dead letters, 0 kept pending";
    tui.reply(Ok(Reply::Replayed(report))).assert_status(text);
    let mut tui = Tui::open(with_letters(), "5*");
    ask(&mut tui, "R", &all());
    let report =
        LettersReplayed { seen: 400, replayed: 400, cut_short: true, ..LettersReplayed::default() };
    tui.press("y").reply(Ok(Reply::LettersReplayed(report)));
    tui.assert_status("! 400 dead letters replayed; interrupted");
    let error = || Err(EngineError::Rejected("another operator is running a command".into()));
    let text = "✖ another operator is running a command (Esc to dismiss)";
    ask(&mut tui, "D", &all());
    tui.press("y").reply(error());
    tui.press("j").assert_status(text);
    ask(&mut tui, "D", &all());
    tui.press("yj").assert_hides("another operator").reply(error());
    tui.assert_status(text).press("\x1b").assert_status("");
}

/// The views show the same, with a badge, and without the keys of commands.
#[test]
fn read_only_mode_has_a_badge_in_every_view() {
    for key in view_keys().chain(["t"]) {
        for (width, height) in [(120, 36), (80, 24), (60, 15)] {
            let [writable, read_only] = [false, true].map(|read_only| {
                let mut tui = Tui::open(Snapshot { read_only, ..with_letters() }, key);
                tui.screen_at(width, height)
            });
            assert!(!writable.contains("READ-ONLY") && read_only.contains("READ-ONLY"), "{key}");
            assert_eq!(inner(&writable, 3, 1), inner(&read_only, 3, 1), "{key}");
        }
    }
}

/// Text with control characters, bidirectional overrides, and joined signs.
const HOSTILE: &str =
    "\x1b[31m\u{9b}2J\u{202e}\u{200b}\u{200d}עברית火锅\u{feff}\x07\u{1f468}\u{200d}\u{1f469}";

/// The same snapshot with hostile text from buyers, operators, nodes and servers.
fn hostile(snapshot: Snapshot) -> Snapshot {
    with(snapshot, |it| {
        it.sales.iter_mut().for_each(|sale| HOSTILE.clone_into(&mut sale.title));
        for line in Arc::make_mut(&mut it.pending.lines) {
            (line.consumer, line.fault) = (HOSTILE.to_owned(), Some(HOSTILE.into()));
            line.verdict = None;
        }
        for line in Arc::make_mut(&mut it.letters.lines) {
            let line = &mut line.letter;
            (line.reason, line.consumer) = (HOSTILE.into(), HOSTILE.to_owned());
            line.payload = vec![(HOSTILE.to_owned(), HOSTILE.repeat(40))];
        }
        for lock in &mut it.locks.locks {
            for text in [&mut lock.name, &mut lock.node, &mut lock.task, &mut lock.owner] {
                HOSTILE.clone_into(text);
            }
        }
        for job in &mut it.jobs {
            (job.name, job.schedule) = (HOSTILE.to_owned(), HOSTILE.to_owned());
            for run in &mut job.runs {
                (run.node, run.detail) = (HOSTILE.to_owned(), Some(HOSTILE.into()));
            }
        }
    })
}

/// Chinese data is shown as it is.
#[test]
fn every_screen_has_ascii_signs_no_colour_and_no_control_character_where_that_is_required() {
    let beyond = |c: char| !c.is_ascii() && !('\u{2e80}'..='\u{ffef}').contains(&c);
    let is_control =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let presenter =
        [presenter::before, presenter::running, presenter::sold_out, presenter::away, normal]
            .map(|snapshot| ("presenter", snapshot as fn() -> Snapshot, "t"));
    let others = [("help", "?"), ("palette", ":"), ("moment", "[["), ("filter", "2/\u{202e}")]
        .map(|(name, keys)| (name, normal as fn() -> Snapshot, keys));
    let copies = [("copy", "2yw"), ("letter", "5w"), ("lock", "6yw"), ("job", "8ylw")]
        .map(|(name, keys)| (name, with_letters as fn() -> Snapshot, keys));
    for (name, snapshot, keys) in every_screen().chain(presenter).chain(others).chain(copies) {
        let mut ascii = Tui::themed(snapshot(), Theme::new(Depth::None, true));
        open(&mut ascii, keys);
        let mut attacked = Tui::new(hostile(snapshot()));
        open(&mut attacked, keys);
        for (width, height) in [(120, 36), (80, 24), (60, 15)] {
            let buffer = ascii.draw(width, height);
            let plain = |cell: &Cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset);
            assert!(buffer.content.iter().all(plain), "{name} at {width}x{height}");
            let screen = lines(&buffer, buffer.area);
            let found = screen.lines().find(|line| line.chars().any(beyond));
            assert_eq!(found, None, "{name} at {width}x{height}");
            let buffer = attacked.draw(width, height);
            let found = buffer.content.iter().find(|cell| cell.symbol().contains(is_control));
            assert_eq!(found, None, "{name} at {width}x{height}");
        }
    }
}
