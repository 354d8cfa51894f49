//! Words of what the system and the servers say, inside a sentence of the console: the common errors of the system,
//! and what the program itself says in their place. Whatever else they say is quoted as it is.

use std::io;

use seckill_engine::refusal::Unwilling;
use seckill_model::{
    locale::{Lang, language},
    message::text,
};

/// What the program says where a server says nothing, and its words around those of a server. `{}` is anything.
const OWN: &[(&str, &str)] = &[
    ("no answer in time", "没有及时应答"),
    ("no answer of its sentinels in time", "哨兵没有及时应答"),
    ("its sentinels name no live master of '{}'", "哨兵没有“{}”的在线主节点"),
    ("none of its servers; {} says: {}", "其服务器均不可用，{} 称：{}"),
    ("{}: the key has another server now", "{}：该键已移到另一台服务器"),
    ("all its connections are busy", "所有连接都在使用中"),
    ("all {} connections of this process are busy", "本进程的 {} 个连接都在使用中"),
    ("the store was closed", "已关闭"),
    ("its connection broke: {}", "连接中断：{}"),
    ("its connection broke", "连接中断"),
    ("the disk is full; make room", "磁盘已满，请腾出空间"),
    (
        "the database file is read-only; make it and its directory writable",
        "数据库文件只读，请使文件及其目录可写",
    ),
    ("the database file can't be read or written: {}", "数据库文件无法读写：{}"),
    ("it takes connections and does not answer", "接受连接但没有应答"),
    ("it has not answered for {} s", "已 {} 秒没有应答"),
    ("others keep standing in the way", "一直被其他事务阻挡"),
    ("another process is changing its schema", "另一个进程正在更改表结构"),
    ("{} does not answer", "{} 没有应答"),
    ("no encrypted connection: {}; look at store.tls", "无法加密连接：{}；请检查 store.tls"),
    ("other transactions keep the same rows locked", "其他事务锁定了相同的行"),
    (
        "it is read-only, as a replica is; give the URL of the primary",
        "它是只读的副本，请改用主库的地址",
    ),
    (
        "it refuses this user, the password or what is asked: {}; check --database and GRANT",
        "它拒绝该用户、密码或请求：{}；请检查 --database 和 GRANT",
    ),
    (
        "{}; create it with CREATE DATABASE, or correct --database",
        "{}；请用 CREATE DATABASE 创建，或更正 --database",
    ),
    (
        "it takes no more connections: {}; raise its limit or lower store.pool",
        "它不再接受连接：{}；请提高其上限，或调低 store.pool",
    ),
    ("a statement took longer than store.statement_ms", "语句执行超过 store.statement_ms"),
    ("it can't write: {}; make room on its disk", "它无法写入：{}；请腾出磁盘空间"),
    ("it said nothing", "没有留下信息"),
];

/// What makes a Redis take writes again.
pub(crate) fn unwilling(words: &str) -> String {
    match Unwilling::of(words) {
        Unwilling::Memory => {
            text!("system-raise-maxmemory-or-remove-other-data")
        }
        Unwilling::Replicas => text!("system-connect-its-replicas-again-or-lower"),
        Unwilling::Disk => {
            text!("system-make-room-on-its-disk-and")
        }
        Unwilling::Replica => {
            text!("system-it-is-a-replica-give-the")
        }
        Unwilling::Other => text!("system-mend-that"),
    }
}

/// What the system or a server said, to be quoted in a sentence.
pub(crate) fn said(words: &str) -> String {
    match language() {
        Lang::En => words.to_owned(),
        Lang::Zh => chinese(words),
    }
}

/// What the system said of an input or an output.
pub(crate) fn fault(why: &io::Error) -> String {
    said(&why.to_string())
}

fn chinese(words: &str) -> String {
    let own = OWN.iter().find_map(|(en, zh)| Some((zh, held(words, en)?)));
    match own {
        Some((zh, held)) => {
            let held = held.into_iter().map(chinese);
            held.fold((*zh).to_owned(), |text, part| text.replacen("{}", &part, 1))
        }
        None => numbered(words).unwrap_or_else(|| words.to_owned()),
    }
}

/// What stands for each `{}` of a pattern.
fn held<'a>(words: &'a str, pattern: &str) -> Option<Vec<&'a str>> {
    let mut parts = pattern.split("{}");
    let mut rest = words.strip_prefix(parts.next()?)?;
    let mut held = Vec::new();
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        let at = if parts.peek().is_some() {
            rest.find(part)?
        } else {
            rest.len() - part.len().min(rest.len())
        };
        held.push(rest.get(..at)?);
        rest = rest.get(at..)?.strip_prefix(part)?;
    }
    rest.is_empty().then_some(held)
}

/// An error of the system stands there with its number, after the words that the library has for it.
fn numbered(words: &str) -> Option<String> {
    let (_, after) = words.split_once("(os error ")?;
    let (number, _) = after.split_once(')')?;
    let error = io::Error::from_raw_os_error(number.parse().ok()?);
    let words = words.replacen(&error.to_string(), kind(error.kind())?, 1);
    Some(words.replacen(": ", "：", 1))
}

fn kind(kind: io::ErrorKind) -> Option<&'static str> {
    use io::ErrorKind as Kind;
    Some(match kind {
        Kind::NotFound => "文件或目录不存在",
        Kind::PermissionDenied => "没有权限",
        Kind::AlreadyExists => "已存在",
        Kind::NotADirectory => "不是目录",
        Kind::IsADirectory => "是目录",
        Kind::DirectoryNotEmpty => "目录不为空",
        Kind::ReadOnlyFilesystem => "文件系统只读",
        Kind::StorageFull => "磁盘已满",
        Kind::QuotaExceeded => "超出磁盘配额",
        Kind::FileTooLarge => "文件过大",
        Kind::InvalidFilename => "文件名过长或无效",
        Kind::ResourceBusy => "正被占用",
        Kind::InvalidInput => "参数无效",
        Kind::OutOfMemory => "内存不足",
        Kind::ConnectionRefused => "连接被拒绝",
        Kind::ConnectionReset => "连接被重置",
        Kind::ConnectionAborted => "连接已中止",
        Kind::NotConnected => "尚未连接",
        Kind::BrokenPipe => "对方已断开",
        Kind::TimedOut => "超时",
        Kind::HostUnreachable => "主机不可达",
        Kind::NetworkUnreachable => "网络不可达",
        Kind::NetworkDown => "网络已断开",
        Kind::AddrInUse => "地址已被占用",
        Kind::AddrNotAvailable => "地址不可用",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use seckill_model::locale::set_thread_language;

    #[test]
    fn errors_of_the_system_are_told_and_others_quoted() {
        let refused = io::Error::from_raw_os_error(111).to_string();
        assert_eq!(said(&refused), refused);
        set_thread_language(Lang::Zh);
        for (words, told) in [
            ("Connection refused (os error 111)", "连接被拒绝"),
            ("No such file or directory (os error 2)", "文件或目录不存在"),
            ("/x: Permission denied (os error 13)", "/x：没有权限"),
            ("Input/output error (os error 5)", "Input/output error (os error 5)"),
            ("its connection broke: Broken pipe (os error 32)", "连接中断：对方已断开"),
            (
                "none of its servers; h:1 says: no answer in time",
                "其服务器均不可用，h:1 称：没有及时应答",
            ),
            ("mysql h:1/x does not answer", "mysql h:1/x 没有应答"),
            ("ERR unknown command", "ERR unknown command"),
            ("(os error 99999999999)", "(os error 99999999999)"),
            ("", ""),
        ] {
            assert_eq!(said(words), told, "{words}");
        }
    }

    /// What nobody says any more is told by nobody.
    #[test]
    fn each_of_our_own_words_is_still_said() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut sources = String::new();
        let mut dirs = vec![root.join("store"), root.join("redis")];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    dirs.push(path);
                } else {
                    let code = fs::read_to_string(path).unwrap();
                    // A test may say what nobody else says any more.
                    sources += code.split("#[cfg(test)]").next().unwrap();
                }
            }
        }
        for (en, _) in OWN {
            // What stands between two fillings only, as in ": ", is found in any source.
            let parts: Vec<_> = en.split("{}").filter(|part| part.len() > 6).collect();
            assert!(!parts.is_empty(), "{en}");
            assert!(parts.iter().all(|part| sources.contains(part)), "{en}");
        }
    }
}
