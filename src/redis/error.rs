//! What can go wrong with Redis, told to a person.

use redis::{ErrorKind, RedisError};
use seckill_model::ForeignKey;

use super::UrlFault;

/// Why Redis did not do what it was asked. None of these holds a password.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The URL is not understood.
    #[error(transparent)]
    Url(#[from] UrlFault),
    /// Nobody answers, or the connection broke; the outcome of a write is then unknown.
    #[error("Redis at {place} does not answer ({detail}); start it or check the URL")]
    Away {
        /// Where it was looked for.
        place: String,
        /// What the system said.
        detail: String,
    },
    /// A password or a user is missing or wrong.
    #[error(
        "Redis at {place} refuses the login ({detail}); put user and password into the URL: redis://USER:PASSWORD@HOST or unix:///PATH?user=USER&pass=PASSWORD"
    )]
    Login {
        /// Where.
        place: String,
        /// What Redis said.
        detail: String,
    },
    /// An encrypted connection that was given up: nobody who is trusted has signed the server's certificate, or it is
    /// not good for this host or this time.
    #[error(
        "Redis at {place} shows a certificate that is not accepted ({detail}); if an authority of your own has signed it, name that authority's certificate with --redis-ca FILE"
    )]
    Certificate {
        /// Where.
        place: String,
        /// What is wrong with it.
        detail: String,
    },
    /// An older server than the scripts need.
    #[error("Redis at {place} is {version}, but 7.0 or later is needed; upgrade it")]
    TooOld {
        /// Where.
        place: String,
        /// What it says of itself.
        version: String,
    },
    /// The group or its stream is missing.
    #[error("the consumer group is gone; a running node makes it anew")]
    NoGroup,
    /// The server can't take writes now: out of memory, a replica, a failed save, still loading.
    #[error("{}", unwilling(.0))]
    Unwilling(String),
    /// The managed server could not be started.
    #[error(transparent)]
    Server(#[from] super::server::ServerError),
    /// Redis refused this very command.
    #[error("Redis refused: {0}")]
    Refused(String),
    /// A key of the program holds something else.
    #[error("{0}")]
    Foreign(ForeignKey),
    /// A reply of another shape than the command gives.
    #[error("{}", unexpected(.0))]
    Reply(&'static str),
}

/// The sentence of [`BrokerError::Unwilling`].
fn unwilling(words: &str) -> String {
    format!("Redis takes no writes now ({words}); {}", Unwilling::of(words).next_step())
}

/// Why a server takes no writes, as far as there is more to advise than to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwilling {
    /// It has no memory left.
    Memory,
    /// Too few replicas are connected.
    Replicas,
    /// It can't write to its disk.
    Disk,
    /// It is a replica.
    Replica,
    /// Anything else.
    Other,
}

impl Unwilling {
    /// Reads it from the server's words.
    pub fn of(words: &str) -> Self {
        match words.split_whitespace().next() {
            Some("OOM") => Self::Memory,
            Some("NOREPLICAS") => Self::Replicas,
            Some("MISCONF") => Self::Disk,
            Some("READONLY") => Self::Replica,
            _ => Self::Other,
        }
    }

    fn next_step(self) -> &'static str {
        match self {
            Self::Memory => {
                "raise maxmemory (CONFIG SET maxmemory, and redis.conf) or remove other data; it goes on by itself"
            }
            Self::Replicas => {
                "connect its replicas again or lower min-replicas-to-write; it goes on by itself"
            }
            Self::Disk => {
                "make room on its disk and look into its log; it goes on with its next save or append"
            }
            Self::Replica => "it is a replica: give the URL of its master",
            Self::Other => "mend that and what was asked goes on",
        }
    }
}

/// The sentence of [`BrokerError::Reply`].
pub fn unexpected(command: &str) -> String {
    format!(
        "Redis answered {command} with something unexpected; does a key hold something else, or is that server no Redis?"
    )
}

impl BrokerError {
    /// Sorts what redis-rs reports, for the server at `place`.
    pub fn from_redis(error: &RedisError, place: &str) -> Self {
        let text = plain(error);
        if let Some(said) = Said::of(error) {
            return match said.code.as_str() {
                "NOGROUP" => Self::NoGroup,
                "NOAUTH" | "WRONGPASS" => Self::Login { place: place.to_owned(), detail: text },
                "OOM" | "MISCONF" | "READONLY" | "LOADING" | "MASTERDOWN" | "BUSY"
                | "NOREPLICAS" | "CLUSTERDOWN" => Self::Unwilling(text),
                // The server was demoted while somebody waited for entries.
                "UNBLOCKED" => Self::Away { place: place.to_owned(), detail: text },
                "MOVED" | "ASK" => Self::Refused(format!(
                    "{place} is one server of a cluster ({text}); its URL starts with redis+cluster:// or rediss+cluster://"
                )),
                _ => Self::Refused(text),
            };
        }
        match error.kind() {
            ErrorKind::AuthenticationFailed => {
                Self::Login { place: place.to_owned(), detail: text }
            }
            ErrorKind::UnexpectedReturnType | ErrorKind::Parse => Self::Reply("a command"),
            _ if text.contains("certificate") => {
                Self::Certificate { place: place.to_owned(), detail: text }
            }
            ErrorKind::InvalidClientConfig => UrlFault::Unusable(text).into(),
            _ => Self::Away { place: place.to_owned(), detail: text },
        }
    }

    /// Whether the same command may succeed later without anybody changing it.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Away { .. } | Self::Unwilling(_) | Self::Server(_))
    }
}

/// What a server said, of a pipeline or a transaction the first command that failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// For example `MOVED`.
    pub(super) code: String,
    /// The rest of the line.
    pub(super) detail: String,
}

impl Said {
    /// `None` where the error is none of a server.
    pub(super) fn of(error: &RedisError) -> Option<Self> {
        // Of a transaction the first is why one of its commands was refused; that all was given up
        // comes after it.
        let errors = error.clone().into_server_errors()?;
        let (_, said) = errors.first()?;
        let detail = said.details().unwrap_or_default().to_owned();
        Some(Self { code: said.code().to_owned(), detail })
    }
}

/// redis-rs' words on one line, without control characters and of bounded length.
pub(super) fn plain(error: &RedisError) -> String {
    let text = match (error.is_timeout(), Said::of(error), error.detail()) {
        (true, ..) => "no answer in time".to_owned(),
        (_, Some(said), _) if said.detail.starts_with(&said.code) => said.detail,
        (_, Some(said), _) => format!("{} {}", said.code, said.detail).trim_end().to_owned(),
        (_, None, Some(detail)) => detail.to_owned(),
        (_, None, None) => error.to_string(),
    };
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;

    fn sorted(line: &str) -> BrokerError {
        match redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap() {
            Value::ServerError(error) => BrokerError::from_redis(&error.into(), "here"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_passes_by_itself_is_told_from_what_does_not() {
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
            assert!(matches!(&error, BrokerError::Refused(why) if why == line), "{error}");
        }
        assert!(matches!(sorted("NOGROUP No such key"), BrokerError::NoGroup));
        assert!(matches!(sorted("NOAUTH Authentication required."), BrokerError::Login { .. }));
        let moved = sorted("MOVED 866 127.0.0.1:7001").to_string();
        assert!(moved.contains("redis+cluster://") && moved.contains("MOVED 866"), "{moved}");
    }
}
