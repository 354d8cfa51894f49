//! Startup errors and system errors in the reader's language.

use std::io;

use seckill_engine::{
    EngineError,
    error::{RedisError, SqlReason, StoreError},
    event::Event,
    partitions::{Obstacle, PartitionsError},
    telemetry::read_error::ReadError,
};
use seckill_model::{Message, locale::set_thread_language};

use super::{chinese::english, fixture::Bench, fixture::normal};
use crate::{export::ExportError, text::audit_log::result};

fn partitions() -> impl Iterator<Item = PartitionsError> {
    let words = || "7".to_owned();
    let under_way =
        [Obstacle::Node(words()), Obstacle::Unknown, Obstacle::Entries(9, 1), Obstacle::Letters(1)];
    let faults = [
        PartitionsError::Stored { text: words(), most: 64 },
        PartitionsError::Other(1, 2),
        PartitionsError::Changed,
    ];
    faults.into_iter().chain(under_way.map(|it| PartitionsError::NotNow(1, 2, it)))
}

#[test]
fn every_startup_error_is_localized() {
    for fault in partitions() {
        let error = EngineError::from(fault);
        // As the log stores it, and as stderr has it.
        let read = Message::from_stored(Message::of(&error).stored());
        set_thread_language("en");
        assert_eq!(read.localized::<EngineError>(), *read);
        set_thread_language("zh");
        let text = read.localized::<EngineError>();
        let strange: Vec<_> = english(&text).into_iter().filter(|it| it != "work").collect();
        assert!(!text.is_ascii() && strange.is_empty(), "{text} {strange:?}");
    }
}

#[test]
fn an_unreadable_server_is_logged() {
    set_thread_language("zh");
    for (unread, expected) in [
        (
            ReadError::Redis(RedisError::Reply(None)),
            "Redis 的应答不符合预期，该键存有其他内容，或该服务器不是 Redis",
        ),
        (
            ReadError::Redis(RedisError::reply("CLUSTER SLOTS")),
            "Redis 对 CLUSTER SLOTS 的应答不符合预期，该键存有其他内容，或该服务器不是 Redis",
        ),
        (ReadError::Redis(RedisError::NoGroup), "消费组不存在，运行中的节点会重建"),
        (
            ReadError::Sql(StoreError::Away(SqlReason::DiskFull)),
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
        let mut bench = Bench::new(normal());
        let why = io::Error::from_raw_os_error(2);
        bench.app.on_saved(Err(ExportError::Unwritable { path: "/a/7".into(), why }));
        let text = bench.text(120, 36);
        assert!(text.contains(expected), "{text}");
    }
}
