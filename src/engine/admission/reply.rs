//! Parses the reply of the admission script. Its format is documented at the head of `lua/admit.lua`.

use redis::Value;

use seckill_model::{Millis, OrderId, Outcome};

/// A decision that applies to every request of the batch.
pub(super) fn whole_batch(answers: &[Value]) -> Option<Outcome> {
    let [Value::BulkString(why), Value::BulkString(detail)] = answers else { return None };
    Some(match why.as_slice() {
        b"paused" => Outcome::Paused,
        b"ended" => Outcome::Ended,
        b"not_ready" => Outcome::NotReady,
        b"not_started" => {
            let begins = std::str::from_utf8(detail).ok()?.parse().ok()?;
            Outcome::NotStarted { begins: Millis(begins) }
        }
        // Two buyers who both hold an order: two strings of digits, not a pair.
        _ => return None,
    })
}

/// Why the script decided nothing for the whole batch: something has to be reconciled first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The server was emptied since this node reconciled it.
    NotHealed,
    /// A stream of the partition has lost entries.
    Streams,
    /// The keys of the sale do not agree, or Redis holds an older version than this node has seen.
    Sale,
}

/// The obstacle that a reply reports, if any.
pub(super) fn obstacle(reply: &Value) -> Option<Obstacle> {
    let Value::Array(answers) = reply else { return None };
    let [Value::BulkString(why), Value::BulkString(detail)] = answers.as_slice() else {
        return None;
    };
    match (why.as_slice(), detail.as_slice()) {
        (b"not_healed", _) => Some(Obstacle::NotHealed),
        (b"damaged", b"orders" | b"watermark") => Some(Obstacle::Streams),
        (b"damaged" | b"behind", _) => Some(Obstacle::Sale),
        _ => None,
    }
}

/// The decision for one request, and the place that the order has among those of its user. A buyer who holds the very ID
/// that was proposed was admitted by an earlier attempt whose reply was lost.
pub(super) fn outcome_of(answer: &Value, proposed: Option<OrderId>) -> Option<(Outcome, u8)> {
    match answer {
        Value::Int(place @ ..=-1) => {
            let place = u8::try_from(place.unsigned_abs()).ok()?;
            proposed.map(|order| (Outcome::Admitted { order }, place))
        }
        Value::Int(1) => Some((Outcome::SoldOut, 0)),
        Value::Int(2) => Some((Outcome::NotReady, 0)),
        Value::BulkString(held) => {
            let held = std::str::from_utf8(held).ok()?;
            let (id, place) = held.split_once('/').unwrap_or((held, "1"));
            let (order, place): (OrderId, u8) = (id.parse().ok()?, place.parse().ok()?);
            Some(if proposed == Some(order) {
                (Outcome::Admitted { order }, place)
            } else {
                (Outcome::Duplicate { order }, place)
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(raw: i64) -> OrderId {
        OrderId::from_i64(raw).unwrap()
    }

    #[test]
    fn a_lost_reply_differs_from_a_second_request() {
        let held = Value::BulkString(b"42/3".to_vec());
        let (admitted, duplicate) =
            (Outcome::Admitted { order: id(42) }, Outcome::Duplicate { order: id(42) });
        assert_eq!(outcome_of(&held, Some(id(42))), Some((admitted, 3)));
        assert_eq!(outcome_of(&held, Some(id(43))), Some((duplicate, 3)));
        assert_eq!(outcome_of(&Value::Int(-2), Some(id(42))), Some((admitted, 2)));
        assert_eq!(outcome_of(&Value::BulkString(b"x".to_vec()), Some(id(43))), None);
    }

    #[test]
    fn two_duplicates_do_not_decide_the_whole_batch() {
        let two = [Value::BulkString(b"42".to_vec()), Value::BulkString(b"43".to_vec())];
        assert_eq!(whole_batch(&two), None);
        let ended = [Value::BulkString(b"ended".to_vec()), Value::BulkString(Vec::new())];
        assert_eq!(whole_batch(&ended), Some(Outcome::Ended));
    }
}
