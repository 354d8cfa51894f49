//! Every view, dialog, and stored message in the language of the reader: nothing is truncated or left in English.

use seckill_engine::telemetry::event::Event;
use seckill_model::dead_letter::MAX_REASON;

use super::prelude::*;
use crate::widgets::wrap;

/// Truncated texts: in the dialog if one is open, as it covers arbitrary parts of the view.
fn truncated(tui: &mut Tui, (width, height): (u16, u16)) -> usize {
    let buffer = match &mut tui.app.dialog {
        Some(dialog) => {
            let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
            let area = buffer.area;
            dialog.draw(area, &mut buffer, &tui.app.display);
            buffer
        }
        None => tui.draw(width, height),
    };
    buffer.content.iter().filter(|cell| cell.symbol() == "…").count()
}

/// Chinese text is narrower, so a column or a button that fits in English fits in Chinese.
#[test]
fn no_more_is_truncated_in_chinese_than_in_english() {
    for (name, snapshot, keys) in every_screen() {
        for size in [(120, 36), (80, 24), (60, 15)] {
            let [english, chinese] = ["en", "zh"].map(|lang| {
                set_thread_language(lang);
                truncated(&mut opened(snapshot(), keys), size)
            });
            assert!(chinese <= english, "{name} at {size:?}");
        }
        let mut tui = opened(snapshot(), keys);
        if tui.app.dialog.is_some() {
            tui.assert_shows("[ 取消 ]");
        }
    }
}

#[test]
fn the_palette_finds_both_names() {
    set_thread_language("zh");
    for wanted in ["freeze", "冻结"] {
        let mut tui = Tui::open(normal(), ":");
        tui.paste(wanted.to_owned());
        tui.press("\n");
        assert!(tui.app.display.frozen, "{wanted}");
    }
}

/// Latin words that are not texts of the console: names, units, input, and data of the snapshot.
const NAMES: &[&str] = &[
    "Redis", "redis", "sqlite", "SQLite", "SQL", "sql", "ID", "UTC", "Tab", "Enter", "Esc",
    "Space", "XACK", "XCLAIM", "INSERT", "INTO", "on", "seckill", "lab", "audit", "ms", "kim",
    "lee", "max", "PgUp", "PgDn", "Home", "End", "CSV", "JSON", "SVG", "ANSI", "HTTP", "job",
    "every", "order", "recount", // A line of an older version.
    "sale",    // Titles and errors of servers.
    "hot", "pot", "off", "milk", "tea", "cinema", "ticket", "noodles", "disk", "error",
];

/// Words in Latin letters that are not names. Words with digits or symbols are IDs.
fn english(screen: &str) -> Vec<String> {
    let apart = |sign: char| {
        sign.is_whitespace() || !sign.is_ascii() || ['(', ')', ',', '\'', '"'].contains(&sign)
    };
    let words = screen.split(apart).map(|word| word.trim_matches(['.', ':', ';', '[', ']', '/']));
    let words = words.filter(|it| it.len() > 1 && it.chars().all(|c| c.is_ascii_alphabetic()));
    let words = words.filter(|it| seckill_lab::find(it).is_err());
    words.filter(|it| !NAMES.contains(it)).map(str::to_owned).collect()
}

#[test]
fn no_view_has_english_on_it() {
    set_thread_language("zh");
    for (state, snapshot) in [("normal", normal as fn() -> Snapshot), ("outage", outage)] {
        for view in view_keys() {
            for detail in ["", "l"] {
                let mut tui = opened(snapshot(), &format!("{view}{detail}"));
                assert_eq!(english(&tui.screen()), [""; 0], "{state} {view}{detail}");
            }
        }
    }
    // ASCII glyphs leave text unchanged.
    let text = Tui::themed(normal(), Theme::new(Depth::None, true)).screen();
    assert!(text.contains("待确认") && !text.contains(['─', '█', '●', '→']), "{text}");
}

type Shown = fn(&Message) -> String;

const SALE: VoucherId = VoucherId(7);
/// Cells of the status line, at 80 columns.
const ANSWER: usize = 76;

fn job(message: &Message) -> String {
    job_result(JobOutcome::Done, Some(message))
}

/// A message of each kind, with long arguments, and what shows it.
fn stored() -> [(Shown, Message); 9] {
    let address = "127.0.0.1:1".to_owned();
    let done = reason!("done-repaired", done = 1_u64, planned = 2_u64, sales = "#7");
    let stopped = EngineError::BrokeOff { why: Box::new(EngineError::ReadOnly), done };
    let why = RedisError::Away { address, detail: reason!("redis-timed-out") };
    let lost =
        Reconciled { restored: 5, removed: 2, promised: 1, unknown: 4, ..Reconciled::default() };
    let lost = Reconciled { closed: Some(Closed::OtherSale), archived: 1, ..lost };
    let trimmed = reason!("job-trimmed", entries = 1_u64, runs = 2_u64);
    let failed = |error| Message::of(&CommandOutcome::Failed(error));
    let (_, restock) = audit_record::describe(&Command::Restock { voucher: SALE, by: -3 });
    [
        (localized_result, Message::of(&CommandOutcome::Done(Reply::SaleCreated(SALE)))),
        (
            localized_result,
            failed(EngineError::NotLoaded { voucher: SALE, shards: Vec::new(), why }),
        ),
        (localized_result, failed(stopped)),
        (localized_result, Message::of(&Event::DataLoss(lost))),
        (localized_result, Message::of(&Event::Error(EngineError::Redis(RedisError::NoGroup)))),
        (job, Message::of(&Event::Other(trimmed))),
        (job, Message::of(&Event::Error(EngineError::ReadOnly))),
        (localized_subject, restock),
        (localized_subject, Message::of(&reason!("subject-partition", number = "1"))),
    ]
}

#[test]
fn stored_messages_are_localized_and_have_at_most_three_lines() {
    for (text, message) in stored() {
        let read = Message::from_stored(message.stored());
        set_thread_language("en");
        assert_eq!(text(&read), message.to_string(), "English is the sentence itself");
        set_thread_language("zh");
        let text = text(&read);
        assert!(!text.is_ascii() && english(&text).is_empty(), "{text}");
        assert!(wrap(&text, ANSWER).len() <= 3, "{text}");
    }
    for (text, old) in [
        (localized_result as Shown, "86 entries: 80 written"),
        (job, "86 entries"),
        (localized_subject, "#7, 9 buyers"),
    ] {
        assert_eq!(text(&Message::from_stored(old.to_owned())), old, "an older version stored it");
    }
    let lasted = Message::of(&Event::lasted(405_100));
    assert_eq!(localized_result(&lasted), "持续 405.1 秒");
    set_thread_language("en");
    assert_eq!(localized_result(&lasted), "after 405.1 s");
}

#[test]
fn order_errors_are_localized_short_and_harmless() {
    let (user, holds) = (UserId(5), OrderId::new(1_795_000_000, 1).unwrap());
    let holds = OrderError::Holds { user, holds, voucher: SALE };
    let field = OrderError::Fields(reason!("faults-field-garbage", field = "userId", value = "7x"));
    for fault in [holds, field, OrderError::OutOfStock(SALE), OrderError::NotPromised] {
        let message = Message::of(&fault);
        let beside = message.data_json(MAX_DATA).unwrap_or_default();
        let read = Message::with_data(message.to_string(), &beside);
        set_thread_language("en");
        assert_eq!(order_error(&read), fault.to_string());
        set_thread_language("zh");
        let text = order_error(&read);
        assert!(!text.is_ascii() && width(&text) <= 60, "{text}");
    }
    for old in ["delivered 5 times", ""] {
        assert_eq!(order_error(&Message::with_data(old.to_owned(), "{")), old);
    }
    let hostile = Message::of(&OrderError::Rejected("\u{1b}[2J\u{202e}".repeat(100)));
    let text = order_error(&hostile);
    assert!(text.chars().count() <= MAX_REASON + 1 && !text.contains(['\u{1b}', '\u{202e}']));
}

/// Others acknowledged, took or deleted them meanwhile: the state of their orders is unknown.
#[test]
fn vanished_entries_are_not_reported_as_settled() {
    let replayed = Reply::Replayed(ReplayReport { seen: 3, gone: 3, ..ReplayReport::default() });
    let letters =
        Reply::LettersDiscarded(LettersDiscarded { gone: 3, ..LettersDiscarded::default() });
    for reply in [replayed, letters] {
        let text = reply.to_string();
        assert!(text.contains("3 no longer present") && !text.contains("settled"), "{text}");
    }
    // A line that an older version stored.
    let old = r#"{"text":"3 letters: 0 replayed, 0 refused, 3 gone","is":{"done":{"letters_replayed":{"seen":3,"replayed":0,"refused":{"awaited":0,"came_back":0,"written":0,"not_awaited":0,"no_sale":0,"not_loaded":0,"id_taken":0,"malformed":0},"gone":3,"cut_short":false}}}}"#;
    let old = Message::from_stored(old.to_owned());
    assert_eq!(localized_result(&old), "0 dead letters replayed, 3 no longer present");
}
