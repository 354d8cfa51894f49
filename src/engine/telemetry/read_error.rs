//! Why a server could not be read, as data that displays itself in the current language.
//!
//! Messages of a server or the operating system are quoted.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use seckill_model::message::text;
use seckill_redis::RedisError;
use seckill_store::StoreError;

use crate::event;

/// Why a server could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum ReadError {
    /// Redis did not reply within this many milliseconds.
    #[error("{}", text!("unread-redis-silent", address = _0, seconds = seconds(*_1)))]
    RedisSilent(String, u64),
    /// Redis failed.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// The database of that name did not reply within this many milliseconds.
    #[error("{}", text!("unread-sql-silent", name = _0, seconds = seconds(*_1)))]
    SqlSilent(String, u64),
    /// The database failed.
    #[error(transparent)]
    Sql(#[from] StoreError),
}

fn seconds(millis: u64) -> String {
    event::seconds(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seckill_model::{Message, reason::reason};

    #[test]
    fn the_text_matches_the_error_and_the_data_is_parsed_back() {
        let away = || {
            let (address, detail) = ("h:1".to_owned(), reason!("redis-timed-out"));
            RedisError::Away { address, detail }
        };
        let read_only = || reason!("store-file-read-only", path = "a.db");
        let full = || StoreError::Away(reason!("store-reason-disk-full"));
        for (unread, sentence) in [
            (ReadError::from(away()), away().to_string()),
            (ReadError::from(full()), full().to_string()),
            (ReadError::from(StoreError::Locked), StoreError::Locked.to_string()),
            (ReadError::from(RedisError::NoGroup), RedisError::NoGroup.to_string()),
            (
                ReadError::from(StoreError::File(read_only())),
                read_only().to_string(),
            ),
            (
                ReadError::SqlSilent("sqlite".into(), 1_500),
                "sqlite has not replied within 1.5 s; check whether it hangs or another program locks it"
                    .to_owned(),
            ),
        ] {
            let message = Message::of(&unread);
            assert_eq!((&*message, message.data::<ReadError>()), (sentence.as_str(), Some(unread)));
        }
    }
}
