//! Errors of Redis, as data displayed in the user's language.

use std::{borrow::Cow, error::Error, io, sync::Arc};

use redis::{ErrorKind, RedisError as DriverError, ServerError};
use seckill_model::{
    ForeignKey, OsError,
    message::{Label, text},
};
use serde::{Deserialize, Serialize};

use super::UrlError;

/// Why a Redis operation failed. Never contains a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RedisError {
    /// The URL is invalid.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// No server responds, or the connection broke; the outcome of a write is then unknown.
    #[error("{}", text!("redis-redis-at-does-not-answer", place = .place, reason = .detail))]
    Away {
        /// Address.
        place: String,
        /// Cause.
        detail: Reason,
    },
    /// Missing or wrong credentials.
    #[error("{}", text!("redis-login", place = .place, reason = .detail))]
    Login {
        /// Address.
        place: String,
        /// Error from Redis.
        detail: Reason,
    },
    /// The server certificate was rejected: no trusted authority signed it, or it is not valid for this host or time.
    #[error("{}", text!("redis-certificate", place = .place, reason = .detail))]
    Certificate {
        /// Address.
        place: String,
        /// Error of the TLS library.
        detail: String,
    },
    /// The server is older than the scripts require.
    #[error("{}", text!("redis-too-old", place = .place, version = .version))]
    TooOld {
        /// Address.
        place: String,
        /// Reported version.
        version: String,
    },
    /// The group or its stream is missing.
    #[error("{}", Label("redis-no-group"))]
    NoGroup,
    /// The server rejects writes: out of memory, a replica, a failed save, still loading.
    #[error("{}", text!("redis-unwilling", reason = .0, remedy = .0.remedy()))]
    Unwilling(Reason),
    /// The managed server could not be started.
    #[error(transparent)]
    Server(#[from] super::server::ServerError),
    /// Redis rejected this command.
    #[error("{}", text!("redis-refused", reason = .0))]
    Refused(Reason),
    /// A key of the program holds another type.
    #[error("{0}")]
    Foreign(ForeignKey),
    /// A reply of unexpected shape; the command or script that gave it, if known.
    #[error("{}", unexpected(.0.as_deref()))]
    Reply(Option<Cow<'static, str>>),
}

/// Why a server is unreachable or rejects a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Timeout.
    #[error("{}", Label("redis-timed-out"))]
    TimedOut,
    /// Timeout after this many milliseconds.
    #[error("{}", text!("redis-timed-out-after", millis = .0))]
    TimedOutAfter(u64),
    /// The sentinels did not respond in time.
    #[error("{}", Label("redis-sentinels-timed-out"))]
    SentinelsTimedOut,
    /// The sentinels know no live master of that service.
    #[error("{}", text!("redis-no-master", service = .0))]
    NoMaster(String),
    /// The server was demoted since the sentinels named it.
    #[error("{}", Label("redis-not-master"))]
    NotMaster,
    /// No server of the cluster is reachable.
    #[error("{}", text!("redis-none-of-its-servers-answers", place = .place, reason = .reason))]
    NoneOfCluster {
        /// One of its servers.
        place: String,
        /// Why that one is not.
        reason: Box<Self>,
    },
    /// The key moved to another server; reply of the one that was asked.
    #[error("{}", text!("redis-key-moved", reply = .0))]
    KeyMoved(String),
    /// No server of the cluster serves a slot.
    #[error("{}", text!("redis-unserved", cluster = .cluster, slot = .slot.to_string()))]
    Unserved {
        /// The cluster.
        cluster: String,
        /// The slot.
        slot: u16,
    },
    /// A server of the cluster rejects commands because others are missing.
    #[error(
        "{}",
        text!("redis-cluster-down", place = .place, slot = .slot.to_string(), reply = .reply)
    )]
    ClusterDown {
        /// Address.
        place: String,
        /// The requested slot.
        slot: u16,
        /// Its reply.
        reply: String,
    },
    /// A server configured as a single one belongs to a cluster.
    #[error("{}", text!("redis-one-of-cluster", place = .place, reply = .reply))]
    OneOfCluster {
        /// Address.
        place: String,
        /// Its reply.
        reply: String,
    },
    /// The keys of one pipeline are in different slots: a bug.
    #[error("{}", Label("redis-cross-slot"))]
    CrossSlot,
    /// Sentinels may require credentials of their own.
    #[error("{}", text!("redis-sentinel-login", reason = .0))]
    SentinelLogin(Box<Self>),
    /// The connection that wrote is gone.
    #[error("{}", Label("redis-broke-after-write"))]
    BrokeAfterWrite,
    /// It was unreachable a moment ago.
    #[error("{}", Label("redis-just-failed"))]
    JustFailed,
    /// An error of the operating system.
    #[error("{0}")]
    Os(OsError),
    /// Message of a server or library.
    #[error("{0}")]
    Quoted(String),
}

impl Reason {
    /// What the operator can do so that the server accepts writes again.
    pub fn remedy(&self) -> Label {
        match self.code() {
            Some("OOM") => Label("redis-remedy-memory"),
            Some("NOREPLICAS") => Label("redis-remedy-replicas"),
            Some("MISCONF") => Label("redis-remedy-disk"),
            Some("READONLY") => Label("redis-remedy-replica"),
            _ => Label("redis-remedy-other"),
        }
    }

    /// Error code from the server, for example `OOM`.
    pub fn code(&self) -> Option<&str> {
        let Self::Quoted(message) = self else { return None };
        message.split_whitespace().next()
    }

    /// Why redis-rs failed.
    fn of(error: &DriverError) -> Self {
        // The system error is only available as its source, which it shares.
        type Shared = Arc<dyn Error + Send + Sync>;
        let io = || error.source()?.downcast_ref::<Shared>()?.downcast_ref::<io::Error>();
        match io() {
            _ if error.is_timeout() => Self::TimedOut,
            Some(error) => Self::Os(OsError::of(error)),
            None => Self::Quoted(plain(error)),
        }
    }
}

fn unexpected(command: Option<&str>) -> String {
    command
        .map_or_else(|| Label("redis-reply").to_owned(), |command| text!("redis-reply-to", command))
}

impl RedisError {
    /// Classifies an error of redis-rs from the server at `place`.
    pub fn from_redis(error: &DriverError, place: &str) -> Self {
        let (place, text) = (place.to_owned(), plain(error));
        let quoted = || Reason::Quoted(text.clone());
        if let Some(reply) = server_error(error) {
            return match reply.code() {
                "NOGROUP" => Self::NoGroup,
                "NOAUTH" | "WRONGPASS" => Self::Login { place, detail: quoted() },
                "OOM" | "MISCONF" | "READONLY" | "LOADING" | "MASTERDOWN" | "BUSY"
                | "NOREPLICAS" | "CLUSTERDOWN" => Self::Unwilling(quoted()),
                // The server was demoted during a blocking read.
                "UNBLOCKED" => Self::Away { place, detail: quoted() },
                "MOVED" | "ASK" => Self::Refused(Reason::OneOfCluster { place, reply: text }),
                _ => Self::Refused(quoted()),
            };
        }
        match error.kind() {
            ErrorKind::AuthenticationFailed => Self::Login { place, detail: quoted() },
            ErrorKind::UnexpectedReturnType | ErrorKind::Parse => Self::Reply(None),
            _ if text.contains("certificate") => Self::Certificate { place, detail: text },
            ErrorKind::InvalidClientConfig => UrlError::Unusable(text).into(),
            _ => Self::Away { place, detail: Reason::of(error) },
        }
    }

    /// An unexpected reply to this command or script.
    pub fn reply(command: &'static str) -> Self {
        Self::Reply(Some(command.into()))
    }

    /// Whether the same command may succeed later without intervention.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Away { .. } | Self::Unwilling(_) | Self::Server(_))
    }
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
            assert!(error == RedisError::Refused(Reason::Quoted(line.to_owned())), "{error}");
        }
        assert!(matches!(sorted("NOGROUP No such key"), RedisError::NoGroup));
        assert!(matches!(sorted("NOAUTH Authentication required."), RedisError::Login { .. }));
        let moved = sorted("MOVED 866 127.0.0.1:7001").to_string();
        assert!(moved.contains("redis+cluster://") && moved.contains("MOVED 866"), "{moved}");
    }
}
