//! Why nothing starts, and what the system says, in the reader's language.

use std::{io, path::PathBuf};

use seckill_engine::{
    messages::Event,
    refusal::{
        DataDirError, FileFault, HostsFault, MYSQL_PARAMETERS, POSTGRES_PARAMETERS,
        PartitionsFault, RedisUrlFault, Refusal, SchemaFault, ServerError, SqlUrlFault, UnderWay,
        Why,
    },
    telemetry::read_error::Unread,
};
use seckill_model::{
    Said,
    locale::{Lang, set_thread_language},
};

use super::{chinese::english, fixture::Bench, fixture::normal};
use crate::{
    export::ExportError,
    text::{self, told::result},
};

/// What has a name, or is typed as it is.
const KNOWN: &[&str] = &[
    "Valkey",
    "SQLite",
    "MySQL",
    "PostgreSQL",
    "MariaDB",
    "URL",
    "PATH",
    "HOST",
    "PORT",
    "USER",
    "PASSWORD",
    "SERVICE",
    "DB",
    "DATABASE",
    "TMPDIR",
    "rediss",
    "unix",
    "redis-check-aof",
    "UTF",
    "ENCODING",
    "shutdown",
    "work",
    "apt",
    "install",
];

fn path() -> PathBuf {
    PathBuf::from("/a/7")
}

fn gone() -> String {
    io::Error::from_raw_os_error(2).to_string()
}

fn hosts() -> [HostsFault; 9] {
    [
        HostsFault::Service,
        HostsFault::None,
        HostsFault::Missing,
        HostsFault::Host,
        HostsFault::HostsOnly,
        HostsFault::Parameters,
        HostsFault::NoParameters,
        HostsFault::Databases,
        HostsFault::Password,
    ]
}

fn redis() -> Vec<Why> {
    let urls = [
        RedisUrlFault::Scheme(None),
        RedisUrlFault::Scheme(Some("h7".to_owned())),
        RedisUrlFault::Unreadable("Redis URL did not parse".to_owned()),
        RedisUrlFault::NoCluster("h:1".to_owned()),
        RedisUrlFault::Unusable("7".to_owned()),
    ];
    let several = hosts().into_iter();
    let several = several.flat_map(|it| [RedisUrlFault::Sentinels(it), RedisUrlFault::Cluster(it)]);
    let dirs = [
        DataDirError::NotADirectory(path()),
        DataDirError::Denied(path()),
        DataDirError::ReadOnly(path()),
        DataDirError::Full(path()),
        DataDirError::Closing(path(), 30),
        DataDirError::NoHome,
        DataDirError::Gone(path()),
        DataDirError::Shared(path()),
        DataDirError::Crowded(path(), 1_000),
        DataDirError::Io { path: path(), why: gone() },
    ];
    let (log, dir, socket) = (path(), path(), path());
    let install = "apt install redis".to_owned();
    let found = vec![(path(), Some("6.2.1".to_owned())), (path(), None)];
    let servers = [
        ServerError::NotInstalled { passed_over: Vec::new(), install: install.clone() },
        ServerError::NotInstalled { passed_over: found, install },
        ServerError::Unwritten(path()),
        ServerError::Spawn { path: path(), why: gone() },
        ServerError::Died { why: "it said nothing".to_owned(), log: path() },
        ServerError::Damaged { dir: path(), manifest: path() },
        ServerError::Full(path()),
        ServerError::Foreign { socket: path(), dir },
        ServerError::Silent { lock: path(), socket, log },
        ServerError::Loading(60),
        ServerError::Stuck(path()),
        ServerError::Detached,
        ServerError::Ending,
    ];
    let urls = urls.into_iter().chain(several).map(Why::RedisUrl);
    let servers = servers.into_iter().chain(dirs.map(ServerError::Dir)).map(Why::RedisServer);
    urls.chain(servers).collect()
}

fn sql() -> Vec<Why> {
    let [at, words] = ["/a/7", "7"].map(str::to_owned);
    let (at, words) = (|| at.clone(), || words.clone());
    let urls = [
        SqlUrlFault::NoScheme,
        SqlUrlFault::Scheme,
        SqlUrlFault::Unreadable(words()),
        SqlUrlFault::NoHost,
        SqlUrlFault::Memory,
        SqlUrlFault::Parameters,
        SqlUrlFault::NoFile,
        SqlUrlFault::Mysql(words()),
        SqlUrlFault::Postgres(words()),
        SqlUrlFault::NoDatabase("mysql://USER:PASSWORD@HOST/DATABASE".to_owned()),
        SqlUrlFault::Unusable(words()),
    ];
    let files = [
        FileFault::NotUtf8(at()),
        FileFault::NotADirectory(at()),
        FileFault::NoDirectory(at()),
        FileFault::Closed(at(), gone()),
        FileFault::NotAFile(at()),
        FileFault::Unreadable(at(), gone()),
        FileFault::ReadOnlySystem(at()),
        FileFault::Denied(at()),
        FileFault::Unusable(at(), gone()),
        FileFault::NoDatabase(at()),
        FileFault::CantOpen(at()),
        FileFault::ReadOnly(at()),
        FileFault::Removed(at()),
        FileFault::Replaced(at()),
        FileFault::Damaged(words()),
        FileFault::Foreign(at(), words()),
    ];
    let oldest = vec!["MariaDB 10.6".to_owned(), "MySQL 8.0".to_owned()];
    let schemas = [
        SchemaFault::Newer(9, 8),
        SchemaFault::Other(9),
        SchemaFault::HalfDone(9),
        SchemaFault::Stuck(words()),
        SchemaFault::Changed(words()),
        SchemaFault::OldServer { version: words(), oldest },
        SchemaFault::Encoding("LATIN1".to_owned()),
        SchemaFault::NoSchema,
    ];
    let under_way =
        [UnderWay::Node(words()), UnderWay::Unknown, UnderWay::Entries(9, 1), UnderWay::Letters(1)];
    let partitions = [
        PartitionsFault::Stored { text: words(), most: 64 },
        PartitionsFault::Other(1, 2),
        PartitionsFault::Changed,
    ];
    let partitions =
        partitions.into_iter().chain(under_way.map(|it| PartitionsFault::NotNow(1, 2, it)));
    let sql = urls.map(Why::SqlUrl).into_iter().chain(files.map(Why::SqlFile));
    sql.chain(schemas.map(Why::SqlSchema)).chain(partitions.map(Why::Partitions)).collect()
}

#[test]
fn everything_that_keeps_it_from_starting_is_told() {
    for why in redis().into_iter().chain(sql()) {
        // As the log keeps it, and as stderr has it.
        let kept = Said::of(&Refusal::new("THE SENTENCE", why));
        let read = Said::read(kept.stored());
        set_thread_language(Lang::En);
        assert_eq!(text::broke_off(&read), "THE SENTENCE");
        set_thread_language(Lang::Zh);
        let told = text::broke_off(&read);
        let apart = |sign: char| ['=', '?', '@'].contains(&sign);
        let typed = [MYSQL_PARAMETERS, POSTGRES_PARAMETERS, KNOWN].concat();
        let strange: Vec<_> = english(&told.replace(apart, " "))
            .into_iter()
            .filter(|it| !typed.contains(&it.as_str()))
            .collect();
        assert!(!told.is_ascii() && strange.is_empty(), "{told} {strange:?}");
        assert!(!told.contains("THE SENTENCE"), "{told}");
    }
}

#[test]
fn an_unreadable_server_is_told_in_the_log() {
    set_thread_language(Lang::Zh);
    let socket = path();
    for (unread, told) in [
        (
            Unread::RedisReply("a command".to_owned()),
            "Redis 的应答不符合预期，该键存有其他内容，或该服务器不是 Redis",
        ),
        (
            Unread::RedisReply("CLUSTER SLOTS".to_owned()),
            "Redis 对 CLUSTER SLOTS 的应答不符合预期，该键存有其他内容，或该服务器不是 Redis",
        ),
        (Unread::NoGroup, "消费组不存在，运行中的节点会重建"),
        (
            Unread::RedisServer(ServerError::Stuck(socket)),
            "/a/7 的 Redis 服务器没有退出，请用 redis-cli -s /a/7 shutdown 停止",
        ),
        (
            Unread::SqlFile(FileFault::ReadOnly("/a/7".to_owned())),
            "/a/7 只读，请使文件及其目录可写，或另指定 --database",
        ),
        (
            Unread::SqlAway("the disk is full; make room".to_owned()),
            "数据库失联（磁盘已满，请腾出空间），恢复后会继续",
        ),
    ] {
        let line = Said::read(Said::of(&Event::Unread(unread)).stored());
        assert_eq!(result(&line), told);
    }
}

#[test]
fn what_the_system_says_of_an_export_is_told() {
    for (lang, told) in
        [(Lang::En, "(No such file or directory (os error 2))"), (Lang::Zh, "（文件或目录不存在）")]
    {
        set_thread_language(lang);
        let mut bench = Bench::new(normal());
        let why = io::Error::from_raw_os_error(2);
        bench.app.on_saved(Err(ExportError::Unwritable { path: path(), why }));
        let text = bench.text(120, 36);
        assert!(text.contains(told), "{text}");
    }
}
