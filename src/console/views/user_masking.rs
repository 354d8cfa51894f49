//! Masking of user IDs before an audience, with one switch for all views, copies and exports.
//!
//! A view passes an ID, or a text that may contain one.

use seckill_model::{UserId, entry::FIELD_USER};

/// Whether users are masked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Users {
    pub(crate) masked: bool,
}

impl Users {
    /// A user ID, or the address of users; masked, it keeps its last digits and hides its length.
    pub(crate) fn number(self, user: impl ToString + Copy) -> String {
        let digits = user.to_string();
        if self.masked { masked(&digits) } else { digits }
    }

    /// Masks each number of a text that equals the user ID, and all of them if the text refers to the field of the
    /// user, which may then hold anything.
    pub(crate) fn within(self, text: &str, user: Option<UserId>) -> String {
        if !self.masked {
            return text.to_owned();
        }
        let user = user.map(|user| user.to_string()).unwrap_or_default();
        let field = text.contains(FIELD_USER);
        let parts = text.as_bytes().chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit());
        parts
            .map(|part| match String::from_utf8_lossy(part) {
                part if !part.starts_with(|c: char| c.is_ascii_digit()) => part.into_owned(),
                digits if field || digits == user => masked(&digits),
                digits => digits.into_owned(),
            })
            .collect()
    }
}

fn masked(digits: &str) -> String {
    let tail = digits.len().checked_sub(2).filter(|cut| *cut > 0);
    format!("***{}", tail.and_then(|cut| digits.get(cut..)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASKED: Users = Users { masked: true };

    #[test]
    fn a_number_keeps_its_end_and_not_its_length() {
        let masked = [7, 59, 1_004, 98_765_432].map(|user| MASKED.number(UserId(user)));
        assert_eq!(masked, ["***", "***", "***04", "***32"]);
        assert_eq!(Users::default().number(UserId(1_004)), "1004");
    }

    #[test]
    fn masking_hides_each_number_that_equals_the_user_id() {
        let within = |text, user: Option<u64>| MASKED.within(text, user.map(UserId));
        let label = "buyer 1004 already holds order 910041004 for voucher 7";
        assert_eq!(within(label, Some(1_004)), label.replace("buyer 1004", "buyer ***04"));
        assert_eq!(within("buyer 5 holds order 59", Some(5)), "buyer *** holds order 59");
        assert_eq!(within("delivered 5 times", Some(5)), "delivered *** times");
        assert_eq!(within("Duplicate entry '1004-7'", Some(1_004)), "Duplicate entry '***04-7'");
        let garbage = "field userId holds '1004x', which is not a number";
        assert_eq!(within(garbage, None), garbage.replace("1004", "***04"));
        assert_eq!(Users::default().within(label, Some(UserId(1_004))), label);
    }
}
