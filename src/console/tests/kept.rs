//! Stored outcomes, startup errors and system errors are shown in the language of the reader.

use seckill_engine::{
    commands::{
        audit_record,
        command_handler::no_job,
        group::{
            ClaimPlan, ClaimReport,
            claim::{ClaimEntries, ClaimPart},
        },
    },
    dead_letters::LETTER_FIELDS,
    error::PlanError,
    event::Event,
    locks::{LockError, LockName},
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
        reason!("faults-title-empty", most = 60_u64).into(),
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

fn job_results() -> Vec<JobResult> {
    let trimmed = vec![
        reason!("job-trimmed", entries = 1_u64, runs = 2_u64),
        reason!("job-trimmed-letters", letters = 3_u64),
    ];
    vec![
        JobResult::Other(reason!("job-balanced")),
        JobResult::Other(Reason::Joined(trimmed)),
        JobResult::Failed(EngineError::ReadOnly),
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
    let others = [reason!("event-no-group"), reason!("event-lag", lag = 86_u64)];
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
    others.map(Event::Other).into_iter().chain(losses).collect()
}

fn order_faults() -> Vec<OrderError> {
    let order = OrderId::new(1_795_000_000, 1).unwrap();
    vec![
        OrderError::Fields(reason!("faults-field-missing", field = "userId")),
        OrderError::Gone,
        OrderError::NoSale(SALE),
        OrderError::TooOften(6),
        OrderError::Holds { user: UserId(5), holds: order, voucher: SALE },
        OrderError::IdTaken(order),
    ]
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
        Command::Apply(made_up::plan(&[(entry(1), Verdict::Stuck)], "idle>30s"), Pace::default()),
        Command::Claim(ClaimPlan { parts: vec![part], gone: 0, force: true }),
        Command::RemoveConsumer(RemoveReport { consumer: "a/1".into(), partitions: vec![1] }),
        Command::ReleaseLock { name: "job:x".to_owned(), owner: "a/1#2".to_owned() },
        Command::ReplayLetters { scope: chosen, force: false },
        Command::ReplayLetters { scope: matching(""), force: true },
        Command::DiscardLetters { scope: matching("voucher=7"), compensate: true },
    ]
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
fn every_error_is_localized() {
    set_thread_language("zh");
    for error in errors() {
        let text = error.to_string();
        let strange: Vec<String> = english(&text);
        let known = [
            "node", "list", "sale", "locks", "release", "operator", "jobs", "history", "work",
            "fuser", "audit", "repair", "RENAME", "users",
        ];
        let strange: Vec<_> = strange.iter().filter(|it| !known.contains(&it.as_str())).collect();
        assert!(!text.is_ascii() && strange.is_empty(), "{text} {strange:?}");
        assert!(wrap(&text, ANSWER).len() <= 3, "{text}");
    }
}

#[test]
fn every_result_is_localized() {
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
    for found in findings() {
        set_thread_language("zh");
        let text = found.to_string();
        assert!(english(&text).is_empty(), "{text}");
        assert!(wrap(&text, ANSWER).len() == 1, "{text}");
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
        let strange = english(&text).into_iter().filter(|it| it != "userId").count();
        assert!(!text.is_ascii() && strange == 0 && width(&text) <= 60, "{text}");
    }
    for old in ["delivered 5 times", ""] {
        assert_eq!(text::order_error(&Message::with_data(old.to_owned(), "{")), old);
    }
    let foreign = Message::of(&OrderError::Rejected("\u{1b}[2J\u{202e}".repeat(100)));
    let text = text::order_error(&foreign);
    assert!(text.chars().count() <= MAX_REASON + 1 && !text.contains(['\u{1b}', '\u{202e}']));
}

#[test]
fn every_subject_is_localized() {
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
    let old = Message::from_stored("86 entries: 80 written".to_owned());
    assert_eq!(result(&old), "86 entries: 80 written");
    assert_eq!(
        subject(&Message::from_stored("#7, 9 buyers, seed 1".to_owned())),
        "#7, 9 buyers, seed 1"
    );
    assert_eq!(job_result(JobOutcome::Done, Some(&old)), "86 entries: 80 written");
}

/// Rows acknowledged, taken or deleted by others meanwhile: the state of their orders is unknown.
#[test]
fn vanished_entries_are_not_reported_as_settled() {
    let missed = || {
        [
            Reply::Replayed(ReplayReport { seen: 3, gone: 3, ..ReplayReport::default() }),
            Reply::Claimed(ClaimReport { gone: 3, ..ClaimReport::default() }),
            Reply::LettersReplayed(LettersReplayed { gone: 3, ..LettersReplayed::default() }),
            Reply::LettersDiscarded(LettersDiscarded { gone: 3, ..LettersDiscarded::default() }),
        ]
    };
    for (lang, known, guessed) in [
        ("en", &["3 no longer present"][..], &["settled", "done before"][..]),
        ("zh", &["已不在 3", "3 条已不在"], &["处理完", "已处理"]),
    ] {
        set_thread_language(lang);
        for reply in missed() {
            let text = reply.to_string();
            assert!(known.iter().any(|it| text.contains(it)), "{text}");
            assert!(!guessed.iter().any(|it| text.contains(it)), "{text}");
        }
    }
    // A line that an older version stored.
    let old = r#"{"text":"3 letters: 0 replayed, 0 refused, 3 gone","is":{"done":{"letters_replayed":{"seen":3,"replayed":0,"refused":{"awaited":0,"came_back":0,"written":0,"not_awaited":0,"no_sale":0,"not_loaded":0,"id_taken":0,"malformed":0},"gone":3,"cut_short":false}}}}"#;
    assert_eq!(result(&Message::from_stored(old.to_owned())), "已重放 0 条死信，3 条已不在");
    set_thread_language("en");
    assert_eq!(
        result(&Message::from_stored(old.to_owned())),
        "0 dead letters replayed, 3 no longer present"
    );
    let there = Reply::Claimed(ClaimReport { claimed: 2, hollow: 1, ..ClaimReport::default() });
    let text = "2 entries transferred to another consumer, 1 without a body";
    assert_eq!(there.to_string(), text, "what there is none of is not text");
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
    assert!(!read.localized::<EngineError>().is_ascii());
}

#[test]
fn an_unreadable_server_is_logged() {
    set_thread_language("zh");
    for (unread, expected) in [
        (
            ReadError::Redis(RedisError::Reply(None)),
            "Redis 的应答不符合预期；请检查该键是否被其他程序写过，以及该服务器是否为 Redis",
        ),
        (
            ReadError::Redis(RedisError::reply("CLUSTER SLOTS")),
            "Redis 对 CLUSTER SLOTS 的应答不符合预期；请检查该键是否被其他程序写过，以及该服务器是否为 Redis",
        ),
        (ReadError::Redis(RedisError::NoGroup), "消费组不存在，运行中的节点会重建"),
        (
            ReadError::Sql(StoreError::Away(reason!("store-reason-disk-full"))),
            "数据库不可用（磁盘已满，请腾出空间），恢复后自动继续",
        ),
    ] {
        let line = Message::from_stored(Message::of(&Event::ReadError(unread)).stored());
        assert_eq!(result(&line), expected);
    }
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
