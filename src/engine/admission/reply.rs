//! Parses the reply of the admission script. Its format is documented at the head of `lua/admit.lua`.

use redis::Value;

use seckill_model::{Millis, OrderId, Outcome};

/// What the script decided about a batch.
#[derive(Debug, PartialEq)]
pub(super) enum Decision {
    /// An outcome for each request, to be read with [`outcome_of`].
    Each(Vec<Value>),
    /// The same outcome for all of them.
    All(Outcome),
    /// There was no request; it would be refused, since the sale is sold out at this change number.
    WouldRefuse { seq: String },
    /// There was no request; it would be admitted.
    WouldAdmit,
    /// Nothing: the server was emptied since this node reconciled it.
    NotReconciled,
    /// Nothing: a stream of the partition has lost entries.
    StreamsDamaged,
    /// Nothing: the keys of the sale do not agree, or Redis holds an older version than this node has seen.
    SaleDamaged,
}

/// Parses the reply to a batch; `None` if it is none of the script's.
pub(super) fn decision(reply: Value) -> Option<Decision> {
    let Value::Array(answers) = reply else { return None };
    // Two buyers who both hold an order are two strings of digits, not a pair.
    if let [Value::BulkString(word), Value::BulkString(detail)] = answers.as_slice() {
        match (word.as_slice(), detail.as_slice()) {
            (b"paused", _) => return Some(Decision::All(Outcome::Paused)),
            (b"ended", _) => return Some(Decision::All(Outcome::Ended)),
            (b"not_ready", _) => return Some(Decision::All(Outcome::NotReady)),
            (b"not_started", begins) => {
                let begins = Millis(std::str::from_utf8(begins).ok()?.parse().ok()?);
                return Some(Decision::All(Outcome::NotStarted { begins }));
            }
            (b"sold_out", seq) => {
                let seq = std::str::from_utf8(seq).ok()?.to_owned();
                return Some(Decision::WouldRefuse { seq });
            }
            (b"on_sale", _) => return Some(Decision::WouldAdmit),
            (b"not_reconciled", _) => return Some(Decision::NotReconciled),
            (b"damaged", b"orders" | b"watermark") => return Some(Decision::StreamsDamaged),
            (b"damaged" | b"behind", _) => return Some(Decision::SaleDamaged),
            _ => {}
        }
    }
    Some(Decision::Each(answers))
}

/// The answer to a buyer whose proposed order ID is not admitted any more.
const NOT_ANY_MORE: Value = Value::Int(3);

/// Whether the proposed order ID is not admitted any more: the order was returned, or the attempt came too late.
pub(super) fn is_not_any_more(answer: &Value) -> bool {
    *answer == NOT_ANY_MORE
}

/// The decision for one request, and the place that the order has among those of its user. A buyer who holds the very
/// ID that was proposed was admitted by an earlier attempt whose reply was lost.
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
        let two = vec![Value::BulkString(b"42".to_vec()), Value::BulkString(b"43".to_vec())];
        assert_eq!(decision(Value::Array(two.clone())), Some(Decision::Each(two)));
        let ended = vec![Value::BulkString(b"ended".to_vec()), Value::BulkString(Vec::new())];
        assert_eq!(decision(Value::Array(ended)), Some(Decision::All(Outcome::Ended)));
        assert_eq!(decision(Value::Nil), None);
    }
}
