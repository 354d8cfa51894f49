//! Text in Redis that any program may have written: names of consumers, groups and nodes, fields.

use redis::{FromRedisValue, ParsingError, Value};

/// Text in which invalid UTF-8 is replaced, so that one invalid name does not hide the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(pub String);

impl FromRedisValue for Text {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        match value {
            Value::BulkString(bytes) => Ok(Self(String::from_utf8_lossy(&bytes).into_owned())),
            other => String::from_redis_value(other).map(Self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_utf8_is_replaced() {
        let read = |value| Text::from_redis_value(value).map(|it| it.0).ok();
        assert_eq!(
            read(Value::BulkString(b"x\xff\xfey".to_vec())),
            Some("x\u{fffd}\u{fffd}y".into())
        );
        assert_eq!(read(Value::SimpleString("ok".into())), Some("ok".into()));
        assert_eq!(read(Value::Nil), None);
    }
}
