//! Masks user IDs in a report.

use seckill_model::{Message, OrderError};

/// Keeps the first and last character; masks texts of up to two characters completely.
pub(super) fn masked(id: &str, unmask: bool) -> String {
    let length = id.chars().count();
    if unmask {
        return id.to_owned();
    }
    let hidden = |place: usize| length <= 2 || (place > 0 && place + 1 < length);
    // An asterisk would be Markdown.
    id.chars().enumerate().map(|(place, c)| if hidden(place) { 'x' } else { c }).collect()
}

/// Masks numbers that may be user IDs; a single digit identifies no user.
pub(super) fn digits(text: &str, unmask: bool) -> String {
    by_number(text, |run| if run.len() < 2 { run.to_owned() } else { masked(run, unmask) })
}

/// The reason of a dead letter with the numbers in its values replaced: they differ between letters that failed for the
/// same reason, and may identify users.
pub(super) fn without_numbers(reason: &Message) -> String {
    let numberless = |text: &str| by_number(text, |_| "N".to_owned());
    match reason.data::<OrderError>() {
        Some(error) => error.reason().with_values(numberless).to_string(),
        None => numberless(reason),
    }
}

fn by_number(text: &str, number: impl Fn(&str) -> String) -> String {
    let chars: Vec<char> = text.chars().collect();
    let run = |run: &[char]| {
        let text: String = run.iter().collect();
        if run.iter().all(char::is_ascii_digit) { number(&text) } else { text }
    };
    chars.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()).map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use seckill_model::{OrderId, UserId, VoucherId};

    #[test]
    fn masked_users_keep_first_and_last_digit() {
        let ids = ["7", "42", "123", "1234567"].map(|id| masked(id, false));
        assert_eq!(ids, ["x", "xx", "1x3", "1xxxxx7"]);
        assert_eq!(masked("1234567", true), "1234567");
        assert_eq!(digits("buyer 1234 holds 5", false), "buyer 1xx4 holds 5");
    }

    #[test]
    fn letters_that_failed_alike_have_one_reason() {
        let kind = |error: OrderError| without_numbers(&Message::of(&error));
        let holds = |user| OrderError::Holds {
            user: UserId(user),
            holds: OrderId::from_i64(7).unwrap(),
            voucher: VoucherId(1),
        };
        assert_eq!(kind(holds(1_234)), kind(holds(5)));
        assert_ne!(kind(OrderError::TooOften(5)), kind(OrderError::Gone));
        let rejected = |text: &str| kind(OrderError::Rejected(text.to_owned()));
        assert_eq!(rejected("key 12 exists"), rejected("key 345 exists"));
        assert_ne!(rejected("key 12 exists"), rejected("key 12 is null"));
        assert_eq!(without_numbers(&"buyer 1234 holds 56".into()), "buyer N holds N");
    }
}
