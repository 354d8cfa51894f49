//! What can go wrong with Redis, told to a person.

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Why Redis did not do what it was asked. None of these holds a password.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The URL is not understood.
    #[error("{0}")]
    Url(String),
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
    #[error("Redis takes no writes now ({0}); mend that and what was asked goes on")]
    Unwilling(String),
    /// The managed server could not be started.
    #[error(transparent)]
    Server(#[from] super::server::ServerError),
    /// Redis refused this very command.
    #[error("Redis refused: {0}")]
    Refused(String),
    /// A key of ours holds something else.
    #[error(
        "the key '{0}' in Redis holds something else than a number; delete it, then pause and resume its sale, which puts it back"
    )]
    Garbage(String),
    /// A reply of another shape than the command gives.
    #[error(
        "Redis answered {0} with something unexpected; does a key hold something else, or is that server no Redis?"
    )]
    Reply(&'static str),
}

impl BrokerError {
    /// Sorts what redis-rs reports, for the server at `place`.
    pub fn from_redis(error: &RedisError, place: &str) -> Self {
        let text = plain(error);
        match error.code() {
            Some("NOGROUP") => return Self::NoGroup,
            Some("NOAUTH" | "WRONGPASS") => {
                return Self::Login { place: place.to_owned(), detail: text };
            }
            Some("OOM" | "MISCONF" | "READONLY" | "LOADING" | "MASTERDOWN" | "BUSY") => {
                return Self::Unwilling(text);
            }
            _ => {}
        }
        match error.kind() {
            ErrorKind::AuthenticationFailed => {
                Self::Login { place: place.to_owned(), detail: text }
            }
            ErrorKind::Server(ServerErrorKind::BusyLoading | ServerErrorKind::ReadOnly) => {
                Self::Unwilling(text)
            }
            ErrorKind::Server(_) | ErrorKind::Extension => Self::Refused(text),
            ErrorKind::UnexpectedReturnType | ErrorKind::Parse => Self::Reply("a command"),
            ErrorKind::InvalidClientConfig => {
                Self::Url(format!("the Redis URL can't be used ({text})"))
            }
            _ => Self::Away { place: place.to_owned(), detail: text },
        }
    }

    /// Whether the same command may succeed later without anybody changing it.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Away { .. } | Self::Unwilling(_) | Self::Server(_))
    }
}

/// redis-rs' words on one line, without control characters and of bounded length.
fn plain(error: &RedisError) -> String {
    let text = match (error.is_timeout(), error.detail()) {
        (true, _) => "no answer in time".to_owned(),
        (_, Some(detail)) => match error.code() {
            Some(code) if !detail.starts_with(code) => format!("{code} {detail}"),
            _ => detail.to_owned(),
        },
        _ => error.to_string(),
    };
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}
