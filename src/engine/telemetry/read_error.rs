//! Why a server could not be read, as data that displays itself in the current language.
//!
//! What a server or the operating system says is quoted.

use std::fmt;

use serde::{Deserialize, Serialize};

use seckill_model::{locale::in_english, message::text};
use seckill_redis::{BrokerError, ServerError, error::unexpected};
use seckill_store::{FileFault, SchemaFault, StoreError};

/// Why a server could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unread {
    /// Redis there gave no answer within so many milliseconds.
    RedisSilent(String, u64),
    /// Redis does not answer there, in its words.
    RedisAway(String, String),
    /// Redis refuses the login there, in its words.
    RedisLogin(String, String),
    /// The certificate of Redis there is not accepted, in the words of the library.
    RedisCertificate(String, String),
    /// Redis takes no writes, in its words.
    RedisUnwilling(String),
    /// Redis refused, in its words.
    RedisRefused(String),
    /// Redis answered that with something unexpected.
    RedisReply(String),
    /// The group is gone.
    NoGroup,
    /// There is no Redis server of its own.
    RedisServer(ServerError),
    /// The database of that name gave no answer within so many milliseconds.
    SqlSilent(String, u64),
    /// The database is away, in its words.
    SqlAway(String),
    /// Another program keeps the database locked: a write waits in vain.
    SqlLocked,
    /// It refused, in its words.
    SqlRefused(String),
    /// The file can't be the database.
    SqlFile(FileFault),
    /// The schema of the database does not do.
    SqlSchema(SchemaFault),
    /// The sentence is all that there is.
    Words(String),
}

impl From<BrokerError> for Unread {
    fn from(error: BrokerError) -> Self {
        match error {
            BrokerError::Away { place, detail } => Self::RedisAway(place, detail),
            BrokerError::Login { place, detail } => Self::RedisLogin(place, detail),
            BrokerError::Certificate { place, detail } => Self::RedisCertificate(place, detail),
            BrokerError::Unwilling(detail) => Self::RedisUnwilling(detail),
            BrokerError::Refused(detail) => Self::RedisRefused(detail),
            BrokerError::Reply(command) => Self::RedisReply(command.to_owned()),
            BrokerError::NoGroup => Self::NoGroup,
            BrokerError::Server(error) => Self::RedisServer(error),
            other => Self::Words(in_english(|| other.to_string())),
        }
    }
}

impl From<StoreError> for Unread {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Away(detail) => Self::SqlAway(detail),
            StoreError::Locked => Self::SqlLocked,
            StoreError::Refused(detail) => Self::SqlRefused(detail),
            StoreError::File(fault) => Self::SqlFile(fault),
            StoreError::Schema(fault) => Self::SqlSchema(fault),
            other => Self::Words(in_english(|| other.to_string())),
        }
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |millis: u64| (millis as f64 / 1e3).to_string();
        match self.clone() {
            Self::RedisSilent(place, millis) => {
                f.write_str(&text!("unread-redis-silent", place, seconds = seconds(millis)))
            }
            Self::RedisAway(place, detail) => BrokerError::Away { place, detail }.fmt(f),
            Self::RedisLogin(place, detail) => BrokerError::Login { place, detail }.fmt(f),
            Self::RedisCertificate(place, detail) => {
                BrokerError::Certificate { place, detail }.fmt(f)
            }
            Self::RedisUnwilling(detail) => BrokerError::Unwilling(detail).fmt(f),
            Self::RedisRefused(detail) => BrokerError::Refused(detail).fmt(f),
            Self::RedisReply(command) => f.write_str(&unexpected(&command)),
            Self::NoGroup => BrokerError::NoGroup.fmt(f),
            Self::RedisServer(error) => error.fmt(f),
            Self::SqlSilent(name, millis) => {
                f.write_str(&text!("unread-sql-silent", name, seconds = seconds(millis)))
            }
            Self::SqlAway(detail) => StoreError::Away(detail).fmt(f),
            Self::SqlLocked => StoreError::Locked.fmt(f),
            Self::SqlRefused(detail) => StoreError::Refused(detail).fmt(f),
            Self::SqlFile(fault) => fault.fmt(f),
            Self::SqlSchema(fault) => fault.fmt(f),
            Self::Words(words) => f.write_str(&words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seckill_model::Said;

    #[test]
    fn the_sentence_is_that_of_the_error_and_the_data_is_read_again() {
        let away = || BrokerError::Away { place: "h:1".into(), detail: "refused".into() };
        let full = || StoreError::Away("the disk is full".into());
        for (unread, sentence) in [
            (Unread::from(away()), away().to_string()),
            (Unread::from(full()), full().to_string()),
            (Unread::from(StoreError::Locked), StoreError::Locked.to_string()),
            (Unread::from(BrokerError::NoGroup), BrokerError::NoGroup.to_string()),
            (
                Unread::from(BrokerError::Reply("a command")),
                BrokerError::Reply("a command").to_string(),
            ),
            (
                Unread::from(StoreError::from(FileFault::ReadOnly("a.db".into()))),
                FileFault::ReadOnly("a.db".into()).to_string(),
            ),
            (
                Unread::SqlSilent("sqlite".into(), 1_500),
                "sqlite has not replied within 1.5 s; check whether it hangs or another program locks it"
                    .to_owned(),
            ),
        ] {
            let said = Said::of(&unread);
            assert!(!matches!(unread, Unread::Words(_)), "{said}");
            assert_eq!((&*said, said.data::<Unread>()), (sentence.as_str(), Some(unread)));
        }
    }
}
