//! Errors of commands: a message and an exit code.

use std::{
    io::{self, Write as _},
    path::Path,
};

use seckill_attach::AttachError;
use seckill_console::{ConsoleError, ThemeError};
use seckill_engine::EngineError;
use seckill_lab::LabError;
use seckill_model::{Label, Message, OsError, Reason, text};
use seckill_redis::{DataDirError, RedisError, connection::LostServer};
use seckill_store::StoreError;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::{Output, plain};

/// Exit code of a negative result, or of a command that was rejected or failed.
pub(super) const FAILED: u8 = 1;
/// Exit code of invalid arguments or settings: the command was not tried.
pub(super) const USAGE: u8 = 2;
/// Exit code while Redis, the database or the data directory cannot be used.
pub(super) const UNREACHABLE: u8 = 3;
/// Exit code after a second Ctrl-C: what a shell reports for a program that Ctrl-C ended.
pub(super) const INTERRUPTED: u8 = 130;

/// The result of a command, or of a step of it.
pub(crate) type Result<T, E = CliError> = std::result::Result<T, E>;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct CliError {
    /// For stderr; errors of the engine are typed data.
    pub(super) text: Message,
    pub(super) code: u8,
    /// Each line is a separate error; in all other messages a line break is part of quoted text and shown as a space.
    is_list: bool,
}

impl CliError {
    /// The message in the current language, safe for a terminal. Each of several errors is on its own line.
    pub(crate) fn message(&self) -> String {
        if !self.is_list {
            return plain(&self.text.localized::<EngineError>());
        }
        self.text.lines().map(|line| plain(line.trim_end())).collect::<Vec<_>>().join("\n")
    }

    /// Says on stderr why the command failed, and on stdout if that is to have a JSON document. Returns the exit code.
    pub(super) fn report(&self, out: Output) -> u8 {
        self.print();
        out.fail(&self.document());
        self.code
    }

    /// What stdout has with `--json` instead of a result.
    pub(super) fn document(&self) -> Value {
        json!({ "error": self.message(), "exit_code": self.code })
    }

    pub(super) fn print(&self) {
        let _ = writeln!(io::stderr(), "seckill: {}", self.message());
    }

    pub(super) fn failed(text: impl Into<Message>) -> Self {
        Self { text: text.into(), code: FAILED, is_list: false }
    }

    pub(super) fn usage(text: impl Into<Message>) -> Self {
        Self { code: USAGE, ..Self::failed(text) }
    }

    /// A file that the command cannot write.
    pub(super) fn not_written(path: &Path, error: &io::Error) -> Self {
        let (path, error) = (path.display(), OsError::of(error));
        Self::failed(text!("cli-file-not-written", path, error))
    }

    /// A file that cannot be created, found before the command has done anything. A missing directory is wrong use.
    pub(super) fn not_created(path: &Path, error: &io::Error) -> Self {
        use io::ErrorKind::{NotADirectory, NotFound};
        let code = match error.kind() {
            NotFound | NotADirectory => USAGE,
            _ => FAILED,
        };
        Self { code, ..Self::not_written(path, error) }
    }

    pub(super) fn unreachable(text: impl Into<Message>) -> Self {
        Self { code: UNREACHABLE, ..Self::failed(text) }
    }

    pub(super) fn is_unreachable(&self) -> bool {
        self.code == UNREACHABLE
    }

    /// The errors of a file, one per line.
    pub(super) fn list(text: String) -> Self {
        Self { is_list: true, ..Self::usage(text) }
    }

    /// Names the servers that the printed answer lacks. Returns the exit code, which is `code` without any.
    pub(super) fn name_lost(lost: &[LostServer], code: u8) -> u8 {
        for server in lost {
            Self::unreachable(server.to_string()).print();
        }
        if lost.is_empty() { code } else { UNREACHABLE }
    }

    /// The reply of the engine does not belong to the command that was sent.
    pub(super) fn unexpected_reply() -> Self {
        Self::failed(Label("cli-unexpected-reply"))
    }
}

impl Serialize for CliError {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.message())
    }
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> Self {
        let first = match &error {
            EngineError::BrokeOff { why, .. } => why,
            other => other,
        };
        let code = match first {
            EngineError::Redis(RedisError::Url(_)) | EngineError::Store(StoreError::Url(_)) => {
                USAGE
            }
            EngineError::Store(StoreError::File(_)) => UNREACHABLE,
            EngineError::ReadOnly => USAGE,
            away if away.is_away() => UNREACHABLE,
            _ => FAILED,
        };
        let text = match &error {
            // A command that has ended does not continue its work.
            EngineError::Store(StoreError::Away(reason)) => {
                text!("cli-database-unavailable", reason).into()
            }
            other => Message::of(other),
        };
        Self { code, ..Self::failed(text) }
    }
}

/// An invalid argument.
impl From<Reason> for CliError {
    fn from(reason: Reason) -> Self {
        Self::usage(reason.to_string())
    }
}

/// Errors of servers are those of the engine.
macro_rules! by_engine {
    ($($error:ty => $by:ty),*) => {
        $(impl From<$error> for CliError {
            fn from(error: $error) -> Self {
                <$by>::from(error).into()
            }
        })*
    };
}

by_engine! {
    RedisError => EngineError, StoreError => EngineError, DataDirError => RedisError
}

impl From<LabError> for CliError {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Invalid(reason) => Self::usage(reason.to_string()),
            LabError::Store(error) => error.into(),
            LabError::Redis(error) => error.into(),
            LabError::DataDir(error) => error.into(),
            LabError::Engine(error) => error.into(),
            other @ LabError::Database(..) => Self::unreachable(other.to_string()),
            other @ (LabError::Replica(_) | LabError::Instance(..) | LabError::Cancelled) => {
                Self::failed(other.to_string())
            }
        }
    }
}

impl From<AttachError> for CliError {
    fn from(error: AttachError) -> Self {
        let text = error.to_string();
        match error {
            AttachError::Redis(error) => Self { text: text.into(), ..error.into() },
            AttachError::Store(error) => Self { text: text.into(), ..error.into() },
            AttachError::Mismatch(reason) | AttachError::Refused(reason) => {
                Self::failed(reason.to_string())
            }
            AttachError::Invalid(reason) => Self::usage(reason.to_string()),
        }
    }
}

impl From<ThemeError> for CliError {
    fn from(error: ThemeError) -> Self {
        Self::list(error.to_string())
    }
}

impl From<ConsoleError> for CliError {
    fn from(error: ConsoleError) -> Self {
        let code = match error {
            ConsoleError::NotATerminal | ConsoleError::Dumb(_) | ConsoleError::Keys(_) => USAGE,
            ConsoleError::Terminal(_) => FAILED,
        };
        Self { code, ..Self::failed(error.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use seckill_console::Palette;
    use seckill_model::locale::set_thread_language;
    use seckill_redis::{DataDir, HOME, Redis};
    use seckill_store::Settings;

    /// The message in both languages, and the exit code.
    fn both(fault: impl Into<CliError>) -> (String, String, u8) {
        let fault = fault.into();
        let [english, chinese] = ["en", "zh"].map(|lang| {
            set_thread_language(lang);
            fault.message()
        });
        set_thread_language("en");
        (english, chinese, fault.code)
    }

    #[tokio::test]
    async fn startup_errors_are_localized() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "no database of anybody".repeat(100)).unwrap();
        let shown = path.display();
        let open = async |url: String| {
            seckill_store::open(&url, &Settings::default()).await.map(|_| ()).unwrap_err()
        };
        let redis = |url: &str| Redis::from_url(url).map(|_| ()).unwrap_err();
        let away = Redis::from_url("redis://127.0.0.1:1").unwrap();
        let away = away.connection().multiplexed(HOME).await.map(|_| ()).unwrap_err();
        for ((english, chinese, code), message, expected) in [
            (
                both(open("sqlite:/nonexistent/x.db".to_owned()).await),
                "目录 /nonexistent 不存在，请创建，或另指定 --database".to_owned(),
                UNREACHABLE,
            ),
            (
                both(open(format!("sqlite:{shown}")).await),
                format!("{shown} 不是 SQLite 数据库，或已损坏，请另指定 --database"),
                UNREACHABLE,
            ),
            (
                both(open("sqlite:".to_owned()).await),
                "数据库地址缺少文件路径；请写成 sqlite:PATH、mysql://USER:PASSWORD@HOST/DATABASE 或 postgres://USER:PASSWORD@HOST/DATABASE".to_owned(),
                USAGE,
            ),
            (
                both(redis("redis+cluster://a/1")),
                "集群地址无法识别：集群不支持选择数据库；形如 redis+cluster://USER:PASSWORD@HOST:6379,HOST:6379".to_owned(),
                USAGE,
            ),
            (
                both(away),
                "无法连接 127.0.0.1:1 的 Redis（连接被拒绝），请启动它或检查地址".to_owned(),
                UNREACHABLE,
            ),
            (
                both(DataDir::open(&path).map(|_| ()).unwrap_err()),
                format!("{shown} 不是目录，请另指定 --data-dir"),
                UNREACHABLE,
            ),
        ] {
            assert_eq!((chinese, code), (message, expected), "{english}");
            assert!(english.is_ascii(), "{english}");
        }
    }

    #[test]
    fn each_error_of_a_file_has_its_own_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        std::fs::write(&path, "warn = 256\n\"a\\nb\\u001b[1m\" = 3\n").unwrap();
        let theme = CliError::from(Palette::load(path.to_str().unwrap()).unwrap_err());
        std::fs::write(&path, "nodes = 1\n\"re\\ndis\" = 3\n").unwrap();
        let config = Config::load(Some(&path)).unwrap_err();
        for fault in [theme, config] {
            let message = fault.message();
            let lines: Vec<_> = message.lines().skip(1).collect();
            let [first, second] = lines.as_slice() else { panic!("{message:?}") };
            assert!(
                first.starts_with("  line 1, column ") && second.starts_with("  line 2, column "),
                "{message:?}"
            );
            assert!(!message.contains('\u{1b}') && fault.code == USAGE, "{message:?}");
        }
    }
}
