//! Errors of Redis, as data displayed in the user's language.

use std::{borrow::Cow, error::Error, io, path::Path, sync::Arc};

use redis::{ErrorKind, RedisError as DriverError, ServerError};
use seckill_model::{
    ForeignKey, OsError, Reason,
    message::{Label, text},
    reason::reason,
};
use serde::{Deserialize, Serialize};

/// Result of a Redis operation.
pub type Result<T, E = RedisError> = std::result::Result<T, E>;

/// Why a Redis operation failed. Never contains a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RedisError {
    /// The URL is invalid.
    #[error(transparent)]
    Url(Reason),
    /// No server responds, or the connection broke; the outcome of a write is then unknown.
    #[error("{}", text!("redis-redis-at-does-not-answer", address = .address, reason = .detail))]
    Away {
        /// Address.
        address: String,
        /// Cause.
        detail: Reason,
    },
    /// The server accepts the connection but does not reply; the outcome of a write is then unknown.
    #[error("{}", text!("redis-silent", address, seconds = *millis as f64 / 1e3))]
    Silent {
        /// Address.
        address: String,
        /// For how long.
        millis: u64,
    },
    /// A key of a cluster is on another server, or moves there. Nothing was executed, and the next attempt finds it.
    #[error("{}", text!("redis-key-moved", address = .address, reply = .reply))]
    Moved {
        /// Address of the server that was asked.
        address: String,
        /// Its reply.
        reply: Reason,
    },
    /// Missing or wrong credentials.
    #[error("{}", text!("redis-login", address = .address, reason = .detail, code = code_of(.detail).unwrap_or_default()))]
    Login {
        /// Address.
        address: String,
        /// Error from Redis.
        detail: Reason,
    },
    /// The server certificate was rejected: no trusted authority signed it, or it is not valid for this host or time.
    #[error("{}", text!("redis-certificate", address = .address, reason = .detail))]
    Certificate {
        /// Address.
        address: String,
        /// Error of the TLS library.
        detail: String,
    },
    /// The server requires a client certificate, and does not accept the one that was sent, if any.
    #[error("{}", text!("redis-client-certificate", address = .address, reason = .detail))]
    ClientCertificate {
        /// Address.
        address: String,
        /// Error of the TLS library.
        detail: String,
    },
    /// The server is older than the scripts require.
    #[error("{}", text!("redis-too-old", address = .address, version = .version))]
    TooOld {
        /// Address.
        address: String,
        /// Reported version.
        version: String,
    },
    /// The group or its stream is missing.
    #[error("{}", Label("redis-no-group"))]
    NoGroup,
    /// The server rejects writes: out of memory, a replica, a failed save, still loading.
    #[error("{}", text!("redis-unwilling", reason = .0, remedy = self.remedy()))]
    Unwilling(Reason),
    /// No server of the cluster serves the slot, for reads or writes.
    #[error("{}", text!("redis-cluster-is-down", reason = .0))]
    ClusterDown(Reason),
    /// The managed server could not be started.
    #[error(transparent)]
    Server(#[from] DataDirError),
    /// Redis rejected this command.
    #[error("{}", text!("redis-refused", reason = .0, code = code_for_doctor(.0)))]
    Rejected(Reason),
    /// A key of the program holds another type.
    #[error("{0}")]
    Foreign(ForeignKey),
    /// A reply of unexpected shape; the command or script that gave it, if known.
    #[error("{}", unexpected(.0.as_deref()))]
    Reply(Option<Cow<'static, str>>),
}

/// Error code of a reply, for example `OOM`: its first word by the protocol.
fn code_of(reply: &Reason) -> Option<&str> {
    let Reason::Quoted(reply) = reply else { return None };
    reply.split_whitespace().next()
}

/// The code of a rejection that `doctor` explains; empty for others.
fn code_for_doctor(reply: &Reason) -> &str {
    match (code_of(reply), reply) {
        (Some(code @ "NOPERM"), _) => code,
        (Some(code @ "ERR"), Reason::Quoted(text)) if text.contains("unknown command") => code,
        _ => "",
    }
}

/// The system error behind an error of redis-rs; it is only available as its source, which is shared.
fn io_error(error: &DriverError) -> Option<&io::Error> {
    type Shared = Arc<dyn Error + Send + Sync>;
    error.source()?.downcast_ref::<Shared>()?.downcast_ref()
}

/// Why redis-rs failed.
fn reason_of(error: &DriverError) -> Reason {
    match io_error(error) {
        _ if error.is_timeout() => reason!("redis-timed-out"),
        Some(error) => OsError::of(error).into(),
        None => Reason::Quoted(plain(error)),
    }
}

fn unexpected(command: Option<&str>) -> String {
    command
        .map_or_else(|| Label("redis-reply").to_owned(), |command| text!("redis-reply-to", command))
}

impl RedisError {
    /// Classifies an error of redis-rs from the server at `address`.
    pub fn from_redis(error: &DriverError, address: &str) -> Self {
        let (address, text) = (address.to_owned(), plain(error));
        let quoted = || Reason::Quoted(text.clone());
        if let Some(reply) = server_error(error) {
            return match reply.code() {
                "NOGROUP" => Self::NoGroup,
                "NOAUTH" | "WRONGPASS" => Self::Login { address, detail: quoted() },
                "OOM" | "MISCONF" | "READONLY" | "LOADING" | "MASTERDOWN" | "BUSY"
                | "NOREPLICAS" => Self::Unwilling(quoted()),
                "CLUSTERDOWN" => Self::ClusterDown(quoted()),
                // The server was demoted during a blocking read, or lost a script between its loading and its call.
                "UNBLOCKED" | "NOSCRIPT" => Self::Away { address, detail: quoted() },
                "MOVED" | "ASK" => {
                    Self::Rejected(reason!("redis-one-of-cluster", address, reply = text))
                }
                _ => Self::Rejected(quoted()),
            };
        }
        match error.kind() {
            // The library replaces the reply of the server by a text of its own.
            ErrorKind::AuthenticationFailed => {
                Self::Login { address, detail: reason!("redis-wrong-login") }
            }
            ErrorKind::UnexpectedReturnType | ErrorKind::Parse => Self::Reply(None),
            _ if is_certificate_rejected(error) => Self::Certificate { address, detail: text },
            _ if is_client_rejected(error) => Self::ClientCertificate { address, detail: text },
            ErrorKind::InvalidClientConfig if text.contains("sentinel node") => {
                Self::Url(reason!("redis-url-not-a-sentinel", address))
            }
            ErrorKind::InvalidClientConfig => Self::unusable_url(text),
            // Other replies have a code.
            ErrorKind::Server(_) => Self::at_select(address, text),
            _ => Self::Away { address, detail: reason_of(error) },
        }
    }

    /// Classifies why the first connection to `address` failed. A server that expects TLS and gets none, or the reverse, hangs up
    /// or keeps waiting.
    pub(super) fn at_connect(error: &DriverError, address: &str, has_tls: bool) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        let hung_up = [BrokenPipe, ConnectionReset, UnexpectedEof];
        match Self::from_redis(error, address) {
            Self::Away { address, detail }
                if io_error(error).is_some_and(|it| hung_up.contains(&it.kind())) =>
            {
                let tls = if has_tls { "tls" } else { "plain" };
                let detail = reason!("redis-hung-up", tls, reason = detail);
                Self::Away { address, detail }
            }
            error => error,
        }
    }

    /// Classifies the reply of a server to SELECT: redis-rs keeps its text, but not its code.
    fn at_select(address: String, text: String) -> Self {
        let has = |part: &str| text.contains(part);
        let quoted = |code: &str| Reason::Quoted(format!("{code} {text}"));
        if has("DB index") || has("cluster mode") {
            Self::Url(reason!("redis-url-database", reason = text))
        } else if has("Authentication required") {
            Self::Login { address, detail: quoted("NOAUTH") }
        } else if has("no permissions") {
            Self::Rejected(quoted("NOPERM"))
        } else if has("is busy") {
            Self::Unwilling(quoted("BUSY"))
        } else {
            Self::Away { address, detail: Reason::Quoted(text) }
        }
    }

    /// An option of the URL is not supported; message of the library.
    pub(super) fn unusable_url(reason: String) -> Self {
        Self::Url(reason!("redis-url-unusable", reason))
    }

    /// Error code of the server's reply, if it rejected a command or all writes.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Rejected(reply) | Self::Unwilling(reply) => code_of(reply),
            _ => None,
        }
    }

    /// What the operator can do so that the server accepts writes again.
    pub fn remedy(&self) -> String {
        text!("redis-remedy", code = self.code().unwrap_or_default())
    }

    /// An unexpected reply to this command or script.
    pub fn reply(command: &'static str) -> Self {
        Self::Reply(Some(command.into()))
    }

    /// Whether the same command may succeed later without intervention.
    pub fn is_away(&self) -> bool {
        matches!(
            self,
            Self::Away { .. }
                | Self::Silent { .. }
                | Self::Moved { .. }
                | Self::Unwilling(_)
                | Self::ClusterDown(_)
                | Self::Server(_)
        )
    }
}

fn tls_error(error: &DriverError) -> Option<&rustls::Error> {
    io_error(error)?.get_ref()?.downcast_ref()
}

fn is_certificate_rejected(error: &DriverError) -> bool {
    matches!(tls_error(error), Some(rustls::Error::InvalidCertificate(_)))
}

fn is_client_rejected(error: &DriverError) -> bool {
    use rustls::AlertDescription as Alert;
    let Some(rustls::Error::AlertReceived(alert)) = tls_error(error) else { return false };
    matches!(
        alert,
        Alert::CertificateRequired
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
    )
}

/// Server error; of a pipeline or transaction, that of the first failed command: EXECABORT follows it.
pub(super) fn server_error(error: &DriverError) -> Option<ServerError> {
    error.clone().into_server_errors()?.first().map(|(_, error)| error.clone())
}

/// Message of redis-rs on one line, without control characters and of bounded length.
pub(super) fn plain(error: &DriverError) -> String {
    let text = match (server_error(error), error.detail()) {
        (Some(reply), _) => {
            let (code, detail) = (reply.code(), reply.details().unwrap_or_default());
            let repeated = detail.starts_with(code);
            if repeated { detail.to_owned() } else { format!("{code} {detail}").trim_end().into() }
        }
        (None, Some(detail)) => detail.to_owned(),
        (None, None) => error.to_string(),
    };
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

/// Why a data directory, or the server in it, cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(transparent)]
#[error("{0}")]
pub struct DataDirError(pub Reason);

/// Whether an error means that there is no room for a write.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl DataDirError {
    pub(super) fn of(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| {
            let path = path.as_path();
            Self(match source.kind() {
                _ if is_full(&source) => reason!("redis-data-dir-full", path),
                io::ErrorKind::PermissionDenied => reason!("redis-data-dir-denied", path),
                io::ErrorKind::ReadOnlyFilesystem => reason!("redis-data-dir-read-only", path),
                io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                    reason!("redis-data-dir-not-a-directory", path)
                }
                _ => reason!("redis-data-dir-unusable", path, reason = OsError::from(source)),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;

    fn sorted(line: &str) -> RedisError {
        match redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap() {
            Value::ServerError(error) => RedisError::from_redis(&error.into(), "here"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn transient_errors_are_recognized() {
        for line in [
            "UNBLOCKED force unblock from blocking operation",
            "LOADING Redis is loading the dataset in memory",
            "READONLY You can't write against a read only replica.",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "NOREPLICAS Not enough good replicas to write.",
            "CLUSTERDOWN The cluster is down",
        ] {
            assert!(sorted(line).is_away(), "{line}");
        }
        for line in ["ERR unknown command", "CROSSSLOT Keys in request don't hash to the same slot"]
        {
            let error = sorted(line);
            assert!(error == RedisError::Rejected(Reason::Quoted(line.to_owned())), "{error}");
        }
        assert!(matches!(sorted("NOGROUP No such key"), RedisError::NoGroup));
        assert!(matches!(sorted("NOAUTH Authentication required."), RedisError::Login { .. }));
        // Of a reply to SELECT, redis-rs leaves the text alone.
        let select = |text: &str| RedisError::at_select("here".to_owned(), text.to_owned());
        assert!(matches!(select("DB index is out of range"), RedisError::Url(_)));
        assert!(matches!(select("Authentication required."), RedisError::Login { .. }));
        let busy = select(
            "Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        );
        assert!(busy.is_away() && busy.remedy().contains("SCRIPT KILL"), "{busy}");
        let denied = select("User shop has no permissions to run the 'select' command");
        assert!(matches!(denied, RedisError::Rejected(_)), "{denied}");
        assert!(select("something new").is_away());
        let moved = sorted("MOVED 866 127.0.0.1:7001").to_string();
        assert!(moved.contains("redis+cluster://") && moved.contains("MOVED 866"), "{moved}");
    }
}
