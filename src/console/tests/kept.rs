//! Stored outcomes, startup errors and system errors are shown in the language of the reader.

use seckill_engine::{
    LockName, PlanError,
    commands::{
        audit_record,
        command_handler::no_job,
        group::{
            ClaimPlan, ClaimReport,
            claim::{ClaimEntries, ClaimPart},
        },
    },
    dead_letters::LETTER_FIELDS,
    event::Event,
    locks::LockError,
    telemetry::data_loss::{Closed, Reconciled},
};
use seckill_model::{
    NewSale, OsError, VoucherDetails,
    dead_letter::{MAX_DATA, MAX_REASON},
    ledger::Side,
};

use super::prelude::*;
use crate::{
    text::{
        self,
        audit_log::{job_result, subject},
    },
    widgets::wrap,
};

const SALE: VoucherId = VoucherId(7);
/// Cells of the status line, at 80 columns.
const ANSWER: usize = 76;

fn findings() -> Vec<Finding> {
    vec![
        Finding::NotLoaded,
        Finding::RedisStock { initial: 10_000, stock: -3, admitted: 9 },
        Finding::Negative(Side::Redis, -1),
        Finding::Negative(Side::Sql, -1),
        Finding::Behind(2),
        Finding::Initial { redis: 1, sql: 2 },
        Finding::Lost(2),
        Finding::Unknown(2),
        Finding::SqlStock { stock: 1, initial: 2, live: 3 },
        Finding::Doubled(2),
        Finding::Kept(2),
        Finding::Repeated(2),
    ]
}

/// Errors of each shape; the texts of reasons are in the catalog.
fn errors() -> Vec<EngineError> {
    let words = || "-7".to_owned();
    let address = || "127.0.0.1:1".to_owned();
    let away = || RedisError::Away { address: address(), detail: reason!("redis-timed-out") };
    let lock = LockName::new("job:x").unwrap();
    let done = reason!("done-repaired", done = 1_u64, planned = 2_u64, sales = "#7");
    vec![
        EngineError::Failed(reason!("error-busy")),
        EngineError::Rejected(reason!("error-foreign-redis", address = address())),
        EngineError::Stopping,
        EngineError::ReadOnly,
        EngineError::NameTaken("node-b".to_owned()),
        EngineError::NotHeld(SALE),
        EngineError::NotLoaded { voucher: SALE, why: away() },
        EngineError::Unbalanced(SaleFinding { sale: Some(SALE), what: Finding::Lost(2) }),
        EngineError::BrokeOff { why: Box::new(EngineError::ReadOnly), done },
        away().into(),
        StoreError::Away(reason!("store-reason-rows-locked")).into(),
        StoreError::NoSale(SALE).into(),
        EngineError::Failed(reason!("faults-sequence")),
        EngineError::Rejected(reason!("faults-title-empty", most = 60_u64)),
        LockError::Busy(lock.clone()).into(),
        LockError::Lost(lock.clone()).into(),
        LockError::NotHeld(lock.clone()).into(),
        LockError::Changed(lock).into(),
        PlanError::Foreign.into(),
        PlanError::Edited.into(),
        PlanError::Io(OsError::Quoted(words())).into(),
        no_job("a-b"),
    ]
}

fn job_results() -> Vec<Event> {
    let trimmed = vec![
        reason!("job-trimmed", entries = 1_u64, runs = 2_u64),
        reason!("job-trimmed-letters", letters = 3_u64),
    ];
    vec![
        Event::Other(reason!("job-balanced")),
        Event::Other(Reason::Joined(trimmed)),
        Event::Error(EngineError::ReadOnly),
    ]
}

fn outcomes() -> Vec<CommandOutcome> {
    let mut all = vec![
        CommandOutcome::Started,
        CommandOutcome::Done(Reply::SaleCreated(SALE)),
        CommandOutcome::Done(Reply::LoadTestDone(LoadReport::default())),
        CommandOutcome::Failed(EngineError::ReadOnly),
        CommandOutcome::Finished,
    ];
    for payment in [Payment::Paid, Payment::PaidBefore, Payment::TooLate, Payment::NotFound] {
        let order = OrderId::new(1_795_000_000, 1);
        all.extend(order.map(|order| CommandOutcome::Done(Reply::Paid { order, payment })));
    }
    all.extend(job_results().into_iter().map(|result| CommandOutcome::Ran {
        outcome: JobOutcome::Done,
        took_ms: 842,
        result: Some(result),
    }));
    all
}

fn events() -> Vec<Event> {
    let unread = [
        EngineError::Redis(RedisError::Reply(None)),
        EngineError::Redis(RedisError::NoGroup),
        EngineError::Store(StoreError::Away(reason!("store-reason-disk-full"))),
    ];
    let others = [reason!("event-no-group"), reason!("event-lag", lag = 86_u64)];
    let others = others.map(Event::Other).into_iter();
    let losses = [
        Event::DataLoss(Reconciled {
            keys: vec![seckill_redis::Layout::default().buyers(VoucherId(7))],
            restored: 5,
            removed: 2,
            promised: 1,
            refused: 0,
            unknown: 4,
            archived: 1,
            closed: Some(Closed::OtherSale),
            ..Reconciled::default()
        }),
        Event::DataLoss(Reconciled { closed: Some(Closed::Oversold), ..Reconciled::default() }),
        Event::lasted(7_500),
    ];
    others.chain(unread.map(Event::Error)).chain(losses).collect()
}

/// Every variant: the compiler asks for the place of a new one.
fn order_faults() -> Vec<OrderError> {
    let order = OrderId::new(1_795_000_000, 1).unwrap();
    let after = |fault: &OrderError| {
        Some(match fault {
            OrderError::Fields(_) => OrderError::Gone,
            OrderError::Gone => OrderError::NoSale(SALE),
            OrderError::NoSale(_) => OrderError::OutOfStock(SALE),
            OrderError::OutOfStock(_) => OrderError::Rejected("-7".to_owned()),
            OrderError::Rejected(_) => OrderError::TooOften(6),
            OrderError::TooOften(_) => OrderError::Unkept,
            OrderError::Unkept => OrderError::NotPromised,
            OrderError::NotPromised => {
                OrderError::Holds { user: UserId(5), holds: order, voucher: SALE }
            }
            OrderError::Holds { .. } => OrderError::IdTaken(order),
            OrderError::IdTaken(_) => OrderError::Promised(order),
            OrderError::Promised(_) => return None,
        })
    };
    let fields = [
        reason!("faults-entry-id", text = "x"),
        reason!("faults-field-garbage", field = "userId", value = "7x"),
    ];
    let missing = OrderError::Fields(reason!("faults-field-missing", field = "userId"));
    let fields = fields.into_iter().map(OrderError::Fields);
    fields.chain(std::iter::successors(Some(missing), after)).collect()
}

/// Commands whose objects are data.
fn commands() -> Vec<Command> {
    let matching = |filter: &str| LetterScope::Matching {
        filter: Filter::parse(filter, LETTER_FIELDS).unwrap(),
        last: EntryId::MAX,
    };
    let chosen = LetterScope::Letters(vec![entry(1); 3]);
    let (begin, end) = (Some(Millis(1_795_000_000_000)), Some(Millis(1_795_003_600_000)));
    let (from, to, entries) = ("a/1".into(), "b/1".into(), ClaimEntries::UpTo(entry(1)));
    let part = ClaimPart { partition: 0, from, to, count: 3, entries };
    vec![
        Command::CreateSale(NewSale { title: "火锅".to_owned(), stock: 9, limit: 2, begin, end }),
        Command::CreateVoucher(VoucherDetails {
            shop_id: Some(3),
            sub_title: Some("周一至周五".to_owned()),
            rules: Some("不找零".to_owned()),
            pay_value: 8_000,
            actual_value: 10_000,
            ..VoucherDetails::titled("火锅")
        }),
        Command::Restock { voucher: SALE, by: -3 },
        Command::LoadTest(LoadTest::new(SALE, 9)),
        Command::Apply(plan(&[(entry(1), Verdict::Stuck)], "idle>30s"), Pace::default()),
        Command::Claim(ClaimPlan { parts: vec![part], gone: 0, force: true }),
        Command::RemoveConsumer(RemoveReport { consumer: "a/1".into(), partitions: vec![1] }),
        Command::ReleaseLock { name: "job:x".to_owned(), owner: "a/1#2".to_owned() },
        Command::ReplayLetters { scope: chosen, force: false },
        Command::ReplayLetters { scope: matching(""), force: true },
        Command::DiscardLetters { scope: matching("voucher=7"), compensate: true },
    ]
}

/// Words in Latin letters outside the names in quotation marks, such as commands.
fn foreign(text: &str) -> Vec<String> {
    english(&text.split('\'').step_by(2).collect::<String>())
}

/// Asserts that a message is shown in Chinese after it was stored in SQL and read back.
fn assert_chinese(message: &Message, text: impl Fn(&Message) -> String) {
    let read = Message::from_stored(message.stored());
    set_thread_language("en");
    assert_eq!(text(&read), message.to_string(), "English is the sentence itself");
    set_thread_language("zh");
    let text = text(&read);
    assert!(!text.is_ascii() && english(&text).is_empty(), "{text}");
    assert!(wrap(&text, ANSWER).len() <= 3, "{text}");
}

#[test]
fn errors_of_each_shape_are_localized() {
    set_thread_language("zh");
    for error in errors() {
        // The name of a setting.
        let names: &[&str] = match &error {
            EngineError::NameTaken(_) => &["node"],
            _ => &[],
        };
        let text = error.to_string();
        assert!(!text.is_ascii(), "{text}");
        assert_eq!(foreign(&text), names, "{text}");
        assert!(wrap(&text, ANSWER).len() <= 3, "{text}");
    }
}

#[test]
fn results_of_each_shape_are_localized() {
    for outcome in outcomes() {
        assert_chinese(&Message::of(&outcome), result);
    }
    for event in events() {
        assert_chinese(&Message::of(&event), result);
    }
    for message in job_results() {
        assert_chinese(&Message::of(&message), |message| {
            job_result(JobOutcome::Done, Some(message))
        });
    }
    set_thread_language("zh");
    for text in findings().iter().map(Finding::to_string) {
        assert!(foreign(&text).is_empty() && wrap(&text, ANSWER).len() == 1, "{text}");
    }
}

#[test]
fn every_order_error_is_localized() {
    for fault in order_faults() {
        let message = Message::of(&fault);
        let beside = message.data_json(MAX_DATA).unwrap_or_default();
        let read = Message::with_data(message.to_string(), &beside);
        set_thread_language("en");
        assert_eq!(text::order_error(&read), fault.to_string());
        set_thread_language("zh");
        let text = text::order_error(&read);
        let is_field = |it: &String| it == "userId";
        assert!(!text.is_ascii() && foreign(&text).iter().all(is_field), "{text}");
        assert!(width(&text) <= 60, "{text}");
    }
    for old in ["delivered 5 times", ""] {
        assert_eq!(text::order_error(&Message::with_data(old.to_owned(), "{")), old);
    }
    let hostile = Message::of(&OrderError::Rejected("\u{1b}[2J\u{202e}".repeat(100)));
    let text = text::order_error(&hostile);
    assert!(text.chars().count() <= MAX_REASON + 1 && !text.contains(['\u{1b}', '\u{202e}']));
}

#[test]
fn subjects_of_each_shape_are_localized() {
    for command in commands() {
        assert_chinese(&audit_record::describe(&command).1, subject);
    }
    let (partition, from) = ("0", entry(1));
    let again = 3_u64;
    for part in [
        reason!("subject-partition-no-group-to-redelivers", partition, from, again),
        reason!("subject-rewind", partition, was = from, from, again),
        reason!("subject-partition", number = "1"),
    ] {
        assert_chinese(&Message::of(&part), subject);
    }
}

#[test]
fn a_line_of_an_older_version_stays_as_it_is() {
    set_thread_language("zh");
    let done = |line: &Message| job_result(JobOutcome::Done, Some(line));
    for (text, old) in [
        (&result as &dyn Fn(&Message) -> String, "86 entries: 80 written"),
        (&subject, "#7, 9 buyers, seed 1"),
        (&done, "86 entries: 80 written"),
    ] {
        assert_eq!(text(&Message::from_stored(old.to_owned())), old);
    }
}

/// Rows acknowledged, taken or deleted by others meanwhile: the state of their orders is unknown.
#[test]
fn vanished_entries_are_not_reported_as_settled() {
    let missed = [
        Reply::Replayed(ReplayReport { seen: 3, gone: 3, ..ReplayReport::default() }),
        Reply::Claimed(ClaimReport { gone: 3, ..ClaimReport::default() }),
        Reply::LettersReplayed(LettersReplayed { gone: 3, ..LettersReplayed::default() }),
        Reply::LettersDiscarded(LettersDiscarded { gone: 3, ..LettersDiscarded::default() }),
    ];
    // A line that an older version stored.
    let old = r#"{"text":"3 letters: 0 replayed, 0 refused, 3 gone","is":{"done":{"letters_replayed":{"seen":3,"replayed":0,"refused":{"awaited":0,"came_back":0,"written":0,"not_awaited":0,"no_sale":0,"not_loaded":0,"id_taken":0,"malformed":0},"gone":3,"cut_short":false}}}}"#;
    let old = Message::from_stored(old.to_owned());
    for (lang, known, guessed, stored) in [
        (
            "en",
            ["3 no longer present", "3 no longer present"],
            ["settled", "done before"],
            "0 dead letters replayed, 3 no longer present",
        ),
        ("zh", ["已不在 3", "3 条已不在"], ["处理完", "已处理"], "已重放 0 条死信，3 条已不在"),
    ] {
        set_thread_language(lang);
        for text in missed.iter().map(Reply::to_string) {
            assert!(known.iter().any(|it| text.contains(it)), "{text}");
            assert!(!guessed.iter().any(|it| text.contains(it)), "{text}");
        }
        assert_eq!(result(&old), stored);
    }
    set_thread_language("en");
    let there =
        Reply::Claimed(ClaimReport { claimed: 2, without_body: 1, ..ClaimReport::default() });
    let text = "2 entries transferred to another consumer, 1 without a body";
    assert_eq!(there.to_string(), text, "a count of zero is omitted");
}

#[test]
fn a_startup_error_is_localized() {
    let under_way = reason!("partitions-node", node = "7");
    let fault = reason!("partitions-not-now", from = 1_u16, to = 2_u16, why = under_way);
    let error = EngineError::Rejected(fault);
    // As the log stores it, and as stderr has it.
    let read = Message::from_stored(Message::of(&error).stored());
    set_thread_language("en");
    assert_eq!(read.localized::<EngineError>(), *read);
    set_thread_language("zh");
    let text = read.localized::<EngineError>();
    assert!(!text.is_ascii() && foreign(&text).is_empty(), "{text}");
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
