//! Masking of user IDs, with one switch for all views: a bystander can see any of them.
//!
//! A view passes an ID, or a text that may contain one.

use seckill_model::{UserId, entry::FIELD_USER};

/// Shorter IDs are too easily confused with other numbers.
const MIN_DIGITS: usize = 3;

/// Whether users are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Users {
    pub(crate) shown: bool,
}

impl Users {
    /// For text that leaves the screen: masked.
    pub(crate) const MASKED: Self = Self { shown: false };

    /// A user ID; masked, it keeps its last digits and hides its length.
    pub(crate) fn number(self, user: UserId) -> String {
        let digits = user.to_string();
        if self.shown { digits } else { masked(&digits) }
    }

    /// Masks a user in a text that refers to them, or to a field that should contain a user.
    pub(crate) fn within(self, text: &str, user: Option<UserId>) -> String {
        if self.shown {
            return text.to_owned();
        }
        let user = user.map(|user| user.to_string()).unwrap_or_default();
        let field = text.contains(FIELD_USER);
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
            let (before, from) = rest.split_at(start);
            let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
            let (digits, after) = from.split_at(end);
            out.push_str(before);
            let named = ["buyer ", "user ", "买家 ", "用户 "].iter().any(|it| out.ends_with(it));
            let meant = digits == user && (named || digits.len() >= MIN_DIGITS);
            out.push_str(&if field || meant { masked(digits) } else { digits.to_owned() });
            rest = after;
        }
        out + rest
    }
}

fn masked(digits: &str) -> String {
    let tail = digits.len().checked_sub(2).filter(|cut| *cut > 0);
    format!("***{}", tail.and_then(|cut| digits.get(cut..)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_keeps_its_end_and_not_its_length() {
        let masked = [7, 59, 1_004, 98_765_432].map(|user| Users::MASKED.number(UserId(user)));
        assert_eq!(masked, ["***", "***", "***04", "***32"]);
        assert_eq!(Users { shown: true }.number(UserId(1_004)), "1004");
    }

    #[test]
    fn masking_keeps_every_number_but_the_user_id() {
        let within = |text, user: Option<u64>| Users::MASKED.within(text, user.map(UserId));
        let label = "buyer 1004 already holds order 910041004 for voucher 7";
        assert_eq!(within(label, Some(1_004)), label.replace("buyer 1004", "buyer ***04"));
        assert_eq!(within("买家 5 已持有 #5 的订单 5", Some(5)), "买家 *** 已持有 #5 的订单 5");
        assert_eq!(within("用户 5 已持有", Some(5)), "用户 *** 已持有");
        assert_eq!(within("delivered 5 times", Some(5)), "delivered 5 times");
        assert_eq!(within("buyer 5 holds order 9", Some(5)), "buyer *** holds order 9");
        assert_eq!(within("Duplicate entry '1004-7'", Some(1_004)), "Duplicate entry '***04-7'");
        let garbage = "field userId holds '1004x', which is not a number";
        assert_eq!(within(garbage, None), garbage.replace("1004", "***04"));
        assert_eq!(Users { shown: true }.within(label, Some(UserId(1_004))), label);
    }
}
