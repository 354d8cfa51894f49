//! Stored outcomes and errors are shown in the language of the reader.

use seckill_engine::event::Event;
use seckill_model::dead_letter::MAX_REASON;

use super::prelude::*;
use crate::{
    text::{
        self,
        audit_log::{job_result, subject},
    },
    widgets::wrap,
};

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
    let (_, subject_of_command) =
        audit_record::describe(&Command::Restock { voucher: SALE, by: -3 });
    [
        (result, Message::of(&CommandOutcome::Done(Reply::SaleCreated(SALE)))),
        (result, failed(EngineError::NotLoaded { voucher: SALE, why })),
        (result, failed(stopped)),
        (result, Message::of(&Event::DataLoss(lost))),
        (result, Message::of(&Event::Error(EngineError::Redis(RedisError::NoGroup)))),
        (job, Message::of(&Event::Other(trimmed))),
        (job, Message::of(&Event::Error(EngineError::ReadOnly))),
        (subject, subject_of_command),
        (subject, Message::of(&reason!("subject-partition", number = "1"))),
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
        (result as Shown, "86 entries: 80 written"),
        (job, "86 entries"),
        (subject, "#7, 9 buyers"),
    ] {
        assert_eq!(text(&Message::from_stored(old.to_owned())), old, "an older version stored it");
    }
    let lasted = Message::of(&Event::lasted(405_100));
    assert_eq!(result(&lasted), "持续 405.1 秒");
    set_thread_language("en");
    assert_eq!(result(&lasted), "after 405.1 s");
}

#[test]
fn order_errors_are_localized_short_and_harmless() {
    let holds = OrderError::Holds {
        user: UserId(5),
        holds: OrderId::new(1_795_000_000, 1).unwrap(),
        voucher: SALE,
    };
    let field = OrderError::Fields(reason!("faults-field-garbage", field = "userId", value = "7x"));
    for fault in [holds, field, OrderError::OutOfStock(SALE), OrderError::NotPromised] {
        let message = Message::of(&fault);
        let beside = message.data_json(MAX_DATA).unwrap_or_default();
        let read = Message::with_data(message.to_string(), &beside);
        set_thread_language("en");
        assert_eq!(text::order_error(&read), fault.to_string());
        set_thread_language("zh");
        let text = text::order_error(&read);
        assert!(!text.is_ascii() && width(&text) <= 60, "{text}");
    }
    for old in ["delivered 5 times", ""] {
        assert_eq!(text::order_error(&Message::with_data(old.to_owned(), "{")), old);
    }
    let hostile = Message::of(&OrderError::Rejected("\u{1b}[2J\u{202e}".repeat(100)));
    let text = text::order_error(&hostile);
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
    assert_eq!(result(&old), "0 dead letters replayed, 3 no longer present");
}

#[test]
fn system_errors_of_an_export_are_localized() {
    for (lang, expected) in [("en", "(no such file or directory)"), ("zh", "（文件或目录不存在）")]
    {
        set_thread_language(lang);
        let mut tui = Tui::new(normal());
        let why = io::Error::from_raw_os_error(2);
        tui.app.on_saved(Err(ExportError::Unwritable("/a/7".into(), why)));
        tui.assert_shows(expected);
    }
}
